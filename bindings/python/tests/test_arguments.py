"""Arguments: messages in every form, times, values of JSON; copies of what they make; and errors that Python's users can read."""

import asyncio
import copy
import dataclasses
import gc
import json
import multiprocessing
import os
import pickle
import re
import subprocess
import sys
import types
import uuid
from collections.abc import Callable
from datetime import date, datetime, timedelta, timezone
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy
import pytest
from pydantic import BaseModel

import mnemon
from mnemon import AsyncEngine, Collection, Config, DocumentOperation, Engine, Message, MnemonError, Profile, Query

NAMESPACE = "acme/ada"
CALL = {"id": "c1", "type": "function", "function": {"name": "find", "arguments": '{"q": 1}'}}
# A conversation as a chat API has it.
CHAT: list[dict[str, Any]] = [
    {"role": "developer", "content": "Be brief."},
    {"role": "user", "content": [
        {"type": "text", "text": "What is this?"}, {"type": "image_url", "image_url": {"url": "https://a.org/a.png", "detail": "low"}},
    ]},
    {"role": "assistant", "content": None, "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "c1", "content": "a boat"},
    {"role": "assistant", "content": "A boat.", "name": "Atlas"},
]


@pytest.fixture
def engine():
    with Engine() as engine:
        yield engine


def test_messages_of_openai_are_messages(engine: Engine) -> None:
    engine.put(NAMESPACE, [message | {"session": "put"} for message in CHAT])
    engine.put_all([(NAMESPACE, message | {"session": "all", "id": f"m{i}"}) for i, message in enumerate(CHAT)])
    put, sync, whole = (engine.memory(NAMESPACE, name) for name in ("m-put", "m-sync", "m-set"))
    put.put(CHAT)
    assert sync.sync(CHAT)["new"] == len(CHAT) and sync.sync(CHAT)["unchanged"] == len(CHAT)
    whole.set(CHAT)
    for session in ("put", "all", "m-put", "m-sync", "m-set"):
        history = engine.history(NAMESPACE, session)
        assert mnemon.to_openai(history) == CHAT, session
        assert [message.role for message in history] == ["system", "user", "assistant", "tool", "assistant"]
        assert history[2].content == [{"type": "tool_call", "id": "c1", "name": "find", "arguments": {"q": 1}}]
        assert history[3].content == [{"type": "tool_result", "id": "c1", "content": "a boat"}]
    assert put.get().to_openai() == CHAT and put.get({"role": "user", "content": "And this?"}).to_openai() == CHAT
    assert put.assemble({"role": "user", "content": [{"type": "text", "text": "And this?"}]}, recall=0).to_openai()[-1]["role"] == "user"
    # The prompt goes back, as it is.
    again = engine.memory(NAMESPACE, "again")
    again.put(put.get().to_openai())
    assert again.get().to_openai() == CHAT


def test_a_message_is_written_for_each_provider_and_read_again() -> None:
    messages = mnemon.from_openai(CHAT)
    assert Message.from_openai(CHAT) != messages and mnemon.to_openai(Message.from_openai(CHAT)) == CHAT
    for write, read in [
        (mnemon.to_openai, mnemon.from_openai),
        (mnemon.to_anthropic, mnemon.from_anthropic),
        (mnemon.to_gemini, mnemon.from_gemini),
    ]:
        assert read(write(messages, lossless=True)) == messages
        assert json.loads(json.dumps(write(messages))) == write(messages)
        assert read(write(messages))[-1].text == "A boat."
    request = mnemon.to_anthropic(messages)
    assert request["system"] == "Be brief." and request["messages"][1]["content"][0]["input"] == {"q": 1}
    assert [message.role for message in Message.from_anthropic(request)] == ["system", "user", "assistant", "tool", "assistant"]
    assert [message.role for message in Message.from_gemini(mnemon.to_gemini(messages))][1:] == ["user", "assistant", "tool", "assistant"]
    with Engine() as engine:
        memory = engine.memory(NAMESPACE, "s")
        memory.put(CHAT)
        assert memory.get().to_anthropic() == request and memory.get().to_gemini() == mnemon.to_gemini(messages)


def test_arguments_that_are_json_are_not_encoded_twice() -> None:
    for arguments in ({"q": 1}, '{"q":1}'):
        message = Message([{"type": "tool_call", "id": "c", "name": "find", "arguments": arguments}], "assistant")
        assert mnemon.to_openai(message)[0]["tool_calls"][0]["function"]["arguments"] == '{"q":1}'
        assert mnemon.to_anthropic(message)["messages"][0]["content"][0]["input"] == {"q": 1}


def test_the_objects_of_client_libraries_are_messages(engine: Engine) -> None:
    class Answer(BaseModel):
        """As OpenAI's library returns one."""

        role: str = "assistant"
        content: str | None = "A boat."
        refusal: str | None = None
        annotations: list[Any] = []
        audio: Any = None
        function_call: Any = None
        tool_calls: list[dict[str, Any]] | None = None

    memory = engine.memory(NAMESPACE, "s")
    memory.put([{"role": "user", "content": "What is this?"}, Answer()])
    memory.put(Answer(content=None, tool_calls=[CALL]))
    memory.put({"role": "tool", "tool_call_id": "c1", "content": "a boat"})
    assert [message.role for message in memory.messages()] == ["user", "assistant", "assistant", "tool"]
    assert memory.messages()[1].metadata == {} and memory.get().to_openai()[2]["tool_calls"] == [CALL]
    assert mnemon.from_openai(Answer())[0].text == "A boat." and mnemon.from_openai([Answer(), CHAT[0]])[1].role == "system"


def test_one_message_stands_for_a_list_and_text_for_a_message(engine: Engine) -> None:
    engine.put(NAMESPACE, "one")
    engine.put(NAMESPACE, {"role": "user", "content": "two"})
    engine.put(NAMESPACE, Message("three"))
    engine.put(NAMESPACE, (text for text in ("four", "five")))
    engine.put_all([(NAMESPACE, "six")])
    texts = [message.text for message in engine.history(NAMESPACE, "default")]
    assert texts == ["one", "two", "three", "four", "five", "six"]
    assert {message.role for message in engine.history(NAMESPACE, "default")} == {"user"}
    memory = engine.memory(NAMESPACE, "s")
    memory.put("hello")
    assert memory.assemble("a question", recall=0).messages[-1].text == "a question"
    assert memory.get("a question").messages[-1].text == "hello"
    memory.set("kayaks")
    assert [message.text for message in memory.history()] == ["kayaks"]
    [id] = [message.id for message in memory.history()]
    assert [hit.message.id for hit in engine.recall(NAMESPACE, Query("kayaks", ids=id))] == [id]
    assert engine.delete(NAMESPACE, id) == 1
    engine.document_batch(DocumentOperation.put(NAMESPACE, "k", 1))
    [put, deleted] = engine.document_batch([
        DocumentOperation.put_messages(NAMESPACE, "seven"),
        DocumentOperation.delete_messages(NAMESPACE, "nobody"),
    ])
    assert (put, deleted) == ({"new": 1, "replaced": 0, "unchanged": 0}, 0)
    assert engine.recall_in("one", namespaces=NAMESPACE, k=1)[0].message.text == "one"


def test_steps_are_in_the_prompt_and_not_stored(engine: Engine) -> None:
    memory = engine.memory(NAMESPACE, "s")
    question = Message("What is this?", id="q")
    assert [message.text for message in memory.assemble(question).messages] == ["What is this?"]
    memory.add_step(CHAT[2])
    memory.add_step(Message([{"type": "tool_result", "id": "c1", "content": "a boat"}], "tool"))
    assert [message.role for message in memory.steps()] == ["assistant", "tool"]
    assert [message["role"] for message in memory.assemble(question).to_openai()] == ["user", "assistant", "tool"]
    assert memory.history() == []
    memory.assemble("another question", recall=0)
    assert memory.steps() == []


def test_times_may_be_text_and_are_exact_or_refused(engine: Engine) -> None:
    noon = datetime(2024, 5, 1, 12, tzinfo=timezone.utc)
    for time in (noon, "2024-05-01T12:00:00Z", "2024-05-01T14:00:00+02:00", noon.astimezone(ZoneInfo("Asia/Kathmandu"))):
        assert Message("x", created_at=time).created_at == noon
        assert Message.from_dict({"role": "user", "content": "x", "created_at": time}).created_at == noon
        assert Query("x", since=time) == Query("x", since=noon)
    engine.put(NAMESPACE, [Message("boat", id="m", created_at=noon)])
    assert [hit.message.id for hit in engine.recall(NAMESPACE, Query("boat", until="2024-05-01T12:00:00.000001Z"))] == ["m"]
    assert not engine.recall(NAMESPACE, Query("boat", until="2024-05-01T12:00:00Z"))
    berlin = ZoneInfo("Europe/Berlin")
    for time in [
        datetime(1, 1, 1, tzinfo=timezone.utc),
        datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=timezone.utc),
        datetime(9999, 12, 30, 22, tzinfo=timezone.utc),
        datetime(2024, 10, 27, 2, 30, tzinfo=berlin),
        datetime(2024, 10, 27, 2, 30, fold=1, tzinfo=berlin),
        datetime(2024, 3, 31, 3, 0, tzinfo=berlin),
        datetime(1900, 1, 1, tzinfo=ZoneInfo("Europe/Amsterdam")),
    ]:
        stored = Message("x", created_at=time).created_at
        assert stored == time.astimezone(timezone.utc) and stored.utcoffset() == timedelta(0), time
    # A date alone is its first moment in UTC, on every surface.
    for day in "2024-01-01", date(2024, 1, 1):
        assert Message("x", created_at=day).created_at == datetime(2024, 1, 1, tzinfo=timezone.utc)
    for time, reason in [
        (datetime(2024, 1, 1), "2024-01-01 00:00:00 has no time zone; give it one"),
        (datetime(2024, 3, 31, 2, 30, tzinfo=berlin), "the clocks skip it there"),
        (datetime(9999, 12, 31, tzinfo=timezone.utc), "out of range: times are from year 1 to 9999"),
        (datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=2))), "out of range: times are from year 1"),
        ("2024-01-01T12:00:00", "is not a time with a time zone"),
    ]:
        for make in (
            lambda: Message("x", created_at=time),
            lambda: Message.from_dict({"role": "user", "content": "x", "created_at": time}),
            lambda: Query("x", as_of=time),
        ):
            with pytest.raises(MnemonError, match=re.escape(reason)) as raised:
                make()
            assert isinstance(raised.value, ValueError)
    for make in (lambda: Message("x", created_at=5), lambda: Query("x", as_of=5)):  # type: ignore[arg-type]
        with pytest.raises(mnemon.InvalidTypeError, match="a datetime, or text such as .* is needed here, not int"):
            make()
    with pytest.raises(mnemon.InvalidMessageError, match="created_at: a datetime, or text"):
        Message.from_dict({"role": "user", "content": "x", "created_at": 5})
    # A time that only other surfaces can store.
    old = Message.from_dict({"role": "user", "content": "x", "created_at": "-000044-03-15T12:00:00Z"})
    assert old.to_dict()["created_at"] == "-000044-03-15T12:00:00Z" and pickle.loads(pickle.dumps(old)) == old
    with pytest.raises(MnemonError, match="before year 1"):
        old.created_at


@dataclasses.dataclass
class Point:
    x: int


class Fields(BaseModel):
    x: int = 1


CYCLE: dict[str, Any] = {}
CYCLE["self"] = CYCLE
VALUES: list[tuple[Any, str]] = [
    (float("nan"), "nan is no number of JSON"),
    (float("inf"), "inf is no number of JSON"),
    (-float("inf"), "-inf is no number of JSON"),
    (2**64, "has more than 64 bits"),
    (-(2**63) - 1, "has more than 64 bits"),
    (datetime(2024, 1, 1, tzinfo=timezone.utc), "datetime is no type of JSON; give its isoformat()"),
    (uuid.UUID(int=1), "UUID is no type of JSON; give it as text"),
    (b"bytes", "bytes is no type of JSON"),
    ({1, 2}, "set is no type of JSON; give it as a list"),
    (object(), "object is no type of JSON"),
    (numpy.array([1.0, 2.0]), "ndarray is no type of JSON; give its tolist()"),
    (numpy.array([1]), "ndarray is no type of JSON; give its tolist()"),
    (numpy.float32(1), "float32 is no type of JSON; give its tolist()"),
    (numpy.True_, "numpy.bool is no type of JSON; give bool() of it"),
    (Point(1), "Point is no type of JSON; give dataclasses.asdict() of it"),
    (Fields(), 'Fields is no type of JSON; give its model_dump(mode="json")'),
    ("\ud800", "half of a surrogate pair"),
]


@pytest.mark.parametrize(("value", "reason"), VALUES, ids=lambda value: str(value)[:20].encode("ascii", "replace").decode())
def test_a_value_that_is_not_json_is_refused_with_its_place(engine: Engine, value: Any, reason: str) -> None:
    documents, memory = engine.documents(NAMESPACE), engine.memory(NAMESPACE, "s")
    engine.put(NAMESPACE, Message("x", id="m"))
    nested, place = {"a": [0, {"b": value}]}, re.escape(f"a[1].b: ")
    reason = re.escape(reason)
    for error, call in [
        (mnemon.InvalidMessageError, lambda: Message("x", metadata=nested)),
        (mnemon.InvalidMessageError, lambda: engine.put(NAMESPACE, {"role": "user", "content": "x", "metadata": nested})),
        (mnemon.InvalidMessageError, lambda: memory.put({"role": "user", "content": "x", "metadata": nested})),
        (mnemon.InvalidMessageError, lambda: engine.set_metadata(NAMESPACE, "m", nested)),
        (mnemon.InvalidDocumentError, lambda: documents.put("k", nested)),
        (mnemon.InvalidDocumentError, lambda: DocumentOperation.put(NAMESPACE, "k", nested)),
        (mnemon.InvalidDocumentError, lambda: DocumentOperation.expect(NAMESPACE, "k", nested)),
        (mnemon.InvalidDocumentError, lambda: Profile(engine, NAMESPACE).set(nested)),
        (mnemon.InvalidDocumentError, lambda: Profile(engine, NAMESPACE).patch(nested)),
        (mnemon.InvalidDocumentError, lambda: Collection(engine, NAMESPACE).add(nested)),
    ]:
        with pytest.raises(error, match=f"{place}{reason}|{place}.*{reason}") as raised:
            call()
        assert isinstance(raised.value, (MnemonError, ValueError))
    for call in (
        lambda: Query("x", where={"a": value}),
        lambda: documents.search(where={"a": {"$in": [value]}}),
        lambda: engine.forget(NAMESPACE, where={"a": value}),
    ):
        with pytest.raises(mnemon.InvalidFilterError, match=reason):
            call()


def test_values_are_stored_exactly(engine: Engine) -> None:
    value = {
        "max": 2**64 - 1, "min": -(2**63), "float": 0.1 + 0.2, "tiny": 5e-324, "zero": -0.0, "whole": 1.0, "big": 2**53 + 1,
        "text": "\x00é😀", "": None, "list": [True, [], {}], "tuple": (1, 2), "mapping": types.MappingProxyType({"a": 1}),
    }
    expected = value | {"tuple": [1, 2], "mapping": {"a": 1}}
    engine.put(NAMESPACE, Message("x", id="m", metadata=value))
    engine.documents(NAMESPACE).put("k", value)
    for stored in (engine.get(NAMESPACE, "m").metadata, engine.documents(NAMESPACE).get("k").value):
        assert stored == expected and {key: repr(value) for key, value in stored.items()} == {
            key: repr(value) for key, value in expected.items()
        }
    assert [hit.message.id for hit in engine.recall(NAMESPACE, Query("x", where={"max": 2**64 - 1}))] == ["m"]
    deep = value
    for _ in range(130):
        deep = {"a": deep}
    for bad in (deep, CYCLE):
        with pytest.raises(mnemon.InvalidMessageError, match="nested more than 127 deep"):
            Message("x", metadata=bad)
    with pytest.raises(mnemon.InvalidDocumentError, match="the key 1 is no text"):
        engine.documents(NAMESPACE).put("k", {1: 2})


def test_messages_queries_and_settings_are_copied_and_pickled() -> None:
    time = datetime(2024, 5, 1, tzinfo=timezone.utc)
    things = [
        Message("hi", "assistant", id="m", session="s", name="Ada", created_at=time, metadata={"a": [1.5, None]}),
        *mnemon.from_openai(CHAT),
        Query("hi"),
        Query("hi", k=3, session="s", role="user", since=time, where={"a": {"$lt": 1}}, ids=["b", "a"], except_ids=["c"],
              strategy="weighted:0.5", half_life=3.5, within=0.25, unit="turn", keep_duplicates=True, diversity=0.5, rerank=7,
              neighbors=False, time="filter", now=time, per_batch=2, answerable=0.25, min_score=0.25, previous=["b", "a"], freshness=0.1),
        Query("hi", freshness="latest"),
        Query("hi", freshness="local"),
        Config(),
        Config(m=8, idle_flush=None, target_recall=0.9, encryption_key=bytes(range(32)), embedding_cache_file="x"),
    ]
    for thing in things:
        for again in (copy.copy(thing), copy.deepcopy(thing), pickle.loads(pickle.dumps(thing)), *(
            pickle.loads(pickle.dumps(thing, protocol)) for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1)
        )):
            assert again == thing and type(again) is type(thing) and repr(again) == repr(thing)
    assert len({repr(thing) for thing in things}) == len(things) and Config() != Config(m=8) and Query("a") != Query("b")
    assert repr(things[-1]) == "Config(m=8, idle_flush=None, target_recall=0.9, encryption_key=..., embedding_cache_file='x')"
    assert repr(Query("it's", k=2)) == "Query(\"it's\", k=2)"
    with pytest.raises(mnemon.InvalidConfigError, match="m is 1"):
        Engine(config=pickle.loads(pickle.dumps(Config(m=1))))


def test_an_async_engine_is_taken(tmp_path: Path) -> None:
    asyncio.run(take_an_async_engine(tmp_path))


async def take_an_async_engine(tmp_path: Path) -> None:
    async with await AsyncEngine.open(tmp_path / "memory.redb") as engine:
        Profile(engine, NAMESPACE).set({"name": "Ada"})
        profile, collection = mnemon.AsyncProfile(Profile(engine, NAMESPACE)), mnemon.AsyncCollection(Collection(engine, "facts"))
        assert await profile.get() == {"name": "Ada"}
        memory = await engine.memory(NAMESPACE, "s", blocks=[
            mnemon.ProfileBlock("profile", profile, lambda _: "{}"), mnemon.CollectionBlock("facts", collection, lambda _: "{}"),
        ])
        await memory.add_step(CHAT[2])
        assert [step.role for step in await memory.steps()] == ["assistant"]
        assert await engine.reopen() is not None
    for given in (None, "memory.redb", object(), Profile(engine.engine, NAMESPACE)):
        with pytest.raises(mnemon.InvalidArgumentError, match="an Engine or an AsyncEngine is needed here"):
            Profile(given, NAMESPACE)  # type: ignore[arg-type]


def test_a_reader_moves_on(tmp_path: Path) -> None:
    path = tmp_path / "memory.redb"
    with Engine(path) as writer:
        writer.put(NAMESPACE, Message("one", id="1"))
        assert writer.reopen() is writer
        with Engine(path, read_only=True) as old:
            writer.put(NAMESPACE, Message("two", id="2"))
            with old.reopen() as new:
                assert old.get(NAMESPACE, "2") is None and new.get(NAMESPACE, "2").text == "two"
                assert new.recall(NAMESPACE, "two", k=1)[0].message.id == "2"
                with pytest.raises(mnemon.ReadOnlyError):
                    new.put(NAMESPACE, "three")


# Words that no error shows: methods and types of Rust, the names of its types, and PyO3's own texts.
FOREIGN = re.compile(r"\w::\w|\bArc\b|`(?:Engine|Model|Memory|Error|Runtime|Config)\b|not an instance of|^Exception:|Can't extract|\bVec\b|Option<")


def failing_calls(engine: Engine, folder: Path) -> list[Callable[[], Any]]:
    """Calls with arguments of wrong types and values, and on things that are not there."""
    memory, documents = engine.memory(NAMESPACE, "s"), engine.documents(NAMESPACE)
    path = folder / "memory.redb"
    text = folder / "text"
    text.write_text("not a database at all" * 1000)
    engine.export(folder / "export")
    lone: Any = "\ud800"
    wrong: list[Any] = [5, None, object(), [object()]]
    calls: list[Callable[[], Any]] = [
        lambda: Engine(path),
        lambda: Engine(folder / "none", create=False),
        lambda: Engine(folder / "none", read_only=True),
        lambda: Engine(read_only=True),
        lambda: Engine(shared="postgres://localhost/memory"),
        lambda: Engine(path, shared="postgres://localhost/memory", read_only=True),
        lambda: Engine(folder / "new", shared="localhost"),
        lambda: Engine(folder / "new", shared=5),  # type: ignore[arg-type]
        lambda: Engine(folder / "new", freshness="soon"),  # type: ignore[arg-type]
        lambda: Engine(folder / "new", freshness=-1),
        lambda: Engine(folder / "new", config=Config(shared_timeout=0)),
        lambda: Engine(text),
        lambda: Engine(folder / "a" / "b" / "c"),
        lambda: Engine(folder),
        lambda: Engine(path, config=Config(encryption_key=bytes(32))),
        lambda: Engine(embedder="no-such-model"),
        lambda: Engine(embedder=object()),  # type: ignore[arg-type]
        lambda: Engine(reranker=object()),  # type: ignore[arg-type]
        lambda: Engine(config=Config(index="hnsw_rs")),
        lambda: engine.export(folder / "export"),
        lambda: engine.export(folder / "no" / "export"),
        lambda: engine.import_from(folder / "none"),
        lambda: engine.import_from(folder),
        lambda: engine.import_from(text),
        lambda: engine.import_from(folder / "export"),
        lambda: engine.backup(folder / "export"),
        lambda: engine.copy_session(NAMESPACE, "none", "t"),
        lambda: engine.delete_session(NAMESPACE, "none"),
        lambda: engine.rollback("static-en-256"),
        lambda: engine.recall(NAMESPACE, Query("x", rerank=3)),
        lambda: engine.recall(NAMESPACE, ""),
        lambda: engine.forget(NAMESPACE, ids=["m"], session="s"),
        lambda: engine.set_language(NAMESPACE, "klingon"),
        lambda: engine.set_ttl(NAMESPACE, 0),
        lambda: memory.restore(99),
        lambda: memory.fork("t", checkpoint=99),
        lambda: memory.block_state("none"),
        lambda: engine.memory(NAMESPACE, "s", insert="there"),  # type: ignore[arg-type]
        lambda: engine.memory(NAMESPACE, "s", renderer="html"),  # type: ignore[arg-type]
        lambda: engine.memory(NAMESPACE, "s", tokens="words"),  # type: ignore[arg-type]
        lambda: engine.memory(NAMESPACE, "s", tokens=5),  # type: ignore[arg-type]
        lambda: engine.memory(NAMESPACE, "s", block_deadline=-1),
        lambda: engine.memory(NAMESPACE, "s", token_limit=0),
        lambda: engine.memory(NAMESPACE, "s", blocks=["x"]),  # type: ignore[list-item]
        lambda: engine.memory(NAMESPACE, "s", blocks=[mnemon.StaticBlock("a", "b"), mnemon.StaticBlock("a", "c")]),
        lambda: mnemon.FactBlock("facts", 5),  # type: ignore[arg-type]
        lambda: mnemon.FactBlock("facts", lambda _: "", scope="world"),  # type: ignore[arg-type]
        lambda: mnemon.VectorBlock("v", unit="page"),  # type: ignore[arg-type]
        lambda: mnemon.ProfileBlock("p", 5, lambda _: ""),  # type: ignore[arg-type]
        lambda: Config(encryption_key=b"short"),
        lambda: Config(device="abacus"),
        lambda: Config(precision="f8"),  # type: ignore[arg-type]
        lambda: Query("x", strategy="magic"),
        lambda: Query("x", unit="page"),  # type: ignore[arg-type]
        lambda: Query("x", time="later"),  # type: ignore[arg-type]
        lambda: Query("x", role="wizard"),  # type: ignore[arg-type]
        lambda: Query("x", where={"a": {"$bigger": 1}}),
        lambda: Query("x", where={"$or": 5}),
        lambda: Query("x", half_life=float("nan")),
        lambda: Query("x", freshness="soon"),  # type: ignore[arg-type]
        lambda: Query("x", freshness=timedelta(seconds=1)),  # type: ignore[arg-type]
        lambda: Message("x", "wizard"),  # type: ignore[arg-type]
        lambda: Message([{"type": "smell"}]),
        lambda: Message.from_dict({"content": "x"}),
        lambda: Message.from_dict({"role": "user", "content": "x", "colour": "red"}),
        lambda: Message.from_dict({"role": "assistant", "content": [{"type": "tool_use", "id": "c"}]}),
        lambda: mnemon.from_openai([{"role": "robot"}]),
        lambda: mnemon.from_anthropic({"messages": 5}),
        lambda: mnemon.from_gemini([{"role": "robot"}]),
        lambda: documents.put("", 1),
        lambda: documents.put("k", 1, index=["a["]),
        lambda: documents.put("k", 1, ttl_minutes=-1),
        lambda: DocumentOperation.get("", "k"),
        lambda: DocumentOperation.put_messages("", "x"),
        lambda: engine.document_batch([DocumentOperation.expect(NAMESPACE, "none", 1)]),
        lambda: mnemon.namespace_of([]),
        lambda: mnemon.labels_of(""),
    ]
    for value in (*wrong, lone):
        calls += [
            lambda value=value: engine.put(value, "x"),
            lambda value=value: engine.get(NAMESPACE, value),
            lambda value=value: engine.recall(NAMESPACE, value),
            lambda value=value: engine.recall_in("x", namespaces=[value]),
            lambda value=value: engine.delete(NAMESPACE, [value]),
            lambda value=value: engine.memory(NAMESPACE, value),
            lambda value=value: memory.search(value),
            lambda value=value: memory.checkpoint(value),
            lambda value=value: memory.fork(value),
            lambda value=value: documents.get(value),
            lambda value=value: documents.put(value, 1),
            lambda value=value: mnemon.StaticBlock(value, "x"),
            lambda value=value: mnemon.StaticBlock("x", value),
            lambda value=value: mnemon.OpenAiChat(value, "m"),
            lambda value=value: mnemon.BlockContent.text(value),
            lambda value=value: mnemon.namespace_of([value]),
        ]
    calls += [lambda: engine.put(NAMESPACE, lone), lambda: memory.assemble(lone), lambda: Message(lone), lambda: Message("x", name=lone)]
    for value in wrong:
        calls += [
            lambda value=value: engine.put(NAMESPACE, value),
            lambda value=value: memory.put(value),
            lambda value=value: memory.assemble(value),
            lambda value=value: mnemon.BlockContent.quoted(value),
            lambda value=value: mnemon.to_openai(value),
        ]
    for value in (-1, 2**70, "3", 1.5, True):
        calls += [
            lambda value=value: engine.recall(NAMESPACE, "x", k=value),
            lambda value=value: engine.journal(NAMESPACE, limit=value),
            lambda value=value: documents.search(limit=value),
            lambda value=value: memory.restore(value),
            lambda value=value: memory.assemble("x", recall=value),
            lambda value=value: engine.memory(NAMESPACE, "s", token_limit=value),
            lambda value=value: Query("x", k=value),
            lambda value=value: Config(m=value),
            lambda value=value: mnemon.StaticBlock("x", "y", priority=value),
        ]
    return calls


def test_every_error_is_ours_and_speaks_python(tmp_path: Path) -> None:
    with Engine(tmp_path / "memory.redb") as engine:
        engine.put(NAMESPACE, Message("x", id="m", session="s"))
        for number, call in enumerate(failing_calls(engine, tmp_path)):
            try:
                result = call()
            except MnemonError as error:
                assert str(error) and not FOREIGN.search(str(error)), f"{number}: {error}"
                for note in getattr(error, "__notes__", []):
                    assert note.startswith("while processing '"), note
            except BaseException as error:
                pytest.fail(f"{number}: {type(error).__name__}: {error}")
            else:
                pytest.fail(f"{number}: no error, but {result!r}")


def test_the_docs_of_settings_and_errors_stand_here() -> None:
    for field in Config.__doc__.split("- `")[1:]:
        name = field.partition("`")[0]
        assert "Default: " in field, name
    source = (Path(__file__).parents[1] / "src" / "config.rs").read_text()
    names = set(re.findall(r'^        "(\w+)" =>', source, re.MULTILINE))
    assert names == {field.partition("`")[0] for field in Config.__doc__.split("- `")[1:]} and len(names) == 30
    for name, error in vars(mnemon).items():
        if isinstance(error, type) and issubclass(error, MnemonError):
            assert error.__doc__ and "crate" not in error.__doc__ and error.__module__ == "mnemon._errors", name
    for name in mnemon.__dict__:
        documented = getattr(mnemon, name).__doc__ or ""
        assert not re.search(r"of the crate|\w::\w|PyO3", documented), f"{name}: {documented}"


def test_errors_are_also_pythons_own(tmp_path: Path) -> None:
    with Engine(tmp_path / "memory.redb") as engine:
        engine.export(tmp_path / "export")
        with pytest.raises(FileExistsError, match="export: exists already"):
            engine.export(tmp_path / "export")
        with pytest.raises(FileNotFoundError, match="none: no such file"):
            engine.import_from(tmp_path / "none")
        with pytest.raises(OSError):
            engine.import_from(tmp_path)
        with pytest.raises(LookupError):
            engine.copy_session(NAMESPACE, "none", "t")
        with pytest.raises(TypeError):
            engine.put(NAMESPACE, 5)  # type: ignore[arg-type]
        with pytest.raises(ValueError):
            engine.recall(NAMESPACE, "x", k=-1)
    with pytest.raises(FileNotFoundError):
        Engine(tmp_path / "none", create=False)
    error = mnemon.PathExistsError("x")
    assert str(pickle.loads(pickle.dumps(error))) == "x"


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not tell")
def test_the_holder_of_a_lock_is_named(tmp_path: Path) -> None:
    path = tmp_path / "memory.redb"
    with Engine(path):
        with pytest.raises(mnemon.DatabaseLockedError, match="already open in this process"):
            Engine(path)
        program = f"import mnemon; mnemon.Engine({str(path)!r})"
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
        assert f"already open in the process {os.getpid()};" in done.stderr and "Engine(path, read_only=True)" in done.stderr


def _in_child(engine: Engine, pipe: Any) -> None:
    try:
        engine.pending()
    except MnemonError as error:
        pipe.send((type(error).__name__, isinstance(error, RuntimeError), str(error)))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_fork_is_told(engine: Engine) -> None:
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe()
    child = context.Process(target=_in_child, args=(engine, there))
    child.start()
    assert here.poll(30)
    name, is_runtime_error, text = here.recv()
    child.join()
    assert (name, is_runtime_error) == ("ForkedError", True) and "open it after the fork" in text


def test_what_a_callback_raised_is_told_without_a_stray_name() -> None:
    class Broken:
        name, dimension = "broken", 4

        def embed_documents(self, texts: list[str]) -> Any:
            raise failure

    for failure, text in [
        (Exception("the model is away"), "embedding failed: the model is away"),
        (ValueError("bad"), "embedding failed: ValueError: bad"),
        (mnemon.ChatError("away"), "embedding failed: away"),
    ]:
        with Engine(embedder=Broken()) as engine:
            with pytest.raises(mnemon.EmbeddingError) as raised:
                engine.embed_documents(["x"])
            assert text in str(raised.value) and "Exception:" not in str(raised.value) and raised.value.__cause__ is failure


def test_a_none_is_no_argument_that_was_left_out_of_forget(engine: Engine) -> None:
    engine.put(NAMESPACE, [Message("one", id="1"), Message("two", id="2")])
    engine.documents(NAMESPACE).put("k", 1)
    missing: Any = None
    for name in ("ids", "keys", "session", "where"):
        remedy = f"{name} is None; leave it out to forget the whole namespace"
        for forget in (lambda: engine.forget(NAMESPACE, **{name: missing}),
                       lambda: asyncio.run(AsyncEngine(engine).forget(NAMESPACE, **{name: missing}))):  # type: ignore[misc]
            with pytest.raises(mnemon.InvalidTypeError, match=remedy) as raised:
                forget()
            assert raised.value.__notes__ == [f"while processing '{name}'"]
    assert engine.forget(NAMESPACE, ids=["1"]) and engine.get(NAMESPACE, "1") is None and engine.get(NAMESPACE, "2") is not None
    assert engine.documents(NAMESPACE).get("k") is not None
    engine.forget(NAMESPACE)
    assert engine.get(NAMESPACE, "2") is None and engine.documents(NAMESPACE).get("k") is None


def test_hits_and_vectors_are_sequences(engine: Engine) -> None:
    engine.put(NAMESPACE, [Message(f"boat {i}", id=str(i)) for i in range(5)])
    engine.flush()
    hits = engine.recall(NAMESPACE, "boat")
    every = list(hits)
    vectors = engine.embed_documents([f"boat {i}" for i in range(5)])
    rows = vectors.tolist()
    for part in (slice(3), slice(-2, None), slice(None, None, -2), slice(9, 12), slice(None)):
        assert hits[part] == every[part] and type(hits[part]) is list
        assert vectors[part].tolist() == rows[part] and numpy.asarray(vectors[part]).shape == (len(rows[part]), len(rows[0]))
    assert hits[-1] is every[-1] and list(reversed(hits)) == every[::-1] and every[2] in hits
    assert vectors[-1] == rows[-1] and list(reversed(vectors)) == rows[::-1] and rows[2] in vectors and list(vectors) == rows
    for sequence in (hits, vectors):
        for at in (5, -6, 2**70):
            with pytest.raises(IndexError):
                sequence[at]
        with pytest.raises(TypeError):
            sequence["0"]  # type: ignore[call-overload, index]
    assert engine.embed_documents([])[:2].tolist() == []


def test_the_greatest_number_is_named() -> None:
    with pytest.raises(mnemon.InvalidValueError, match="a whole number from 0 to 18446744073709551615 is needed here, not 18446744073709551616"):
        Query("x", k=2**64)
    with pytest.raises(mnemon.InvalidValueError, match="a whole number from 0 to 4294967295 is needed here"):
        mnemon.StaticBlock("x", "y", priority=2**32)
    with pytest.raises(mnemon.InvalidValueError, match="a whole number from 0 is needed here, not -1"):
        Query("x", k=-1)


def test_an_argument_of_a_wrong_type_is_named(engine: Engine, tmp_path: Path) -> None:
    documents, memory = engine.documents(NAMESPACE), engine.memory(NAMESPACE, "s")
    profile, collection = Profile(engine, NAMESPACE), Collection(engine, NAMESPACE)
    wrong: Any = 5
    calls: list[tuple[str, Callable[[], Any]]] = [
        ("where", lambda: Query("x", where=wrong)),
        ("where", lambda: documents.search(where=wrong)),
        ("where", lambda: collection.search(where=wrong)),
        ("where", lambda: DocumentOperation.search(NAMESPACE, where=wrong)),
        ("where", lambda: engine.forget(NAMESPACE, where=wrong)),
        ("ids", lambda: engine.forget(NAMESPACE, ids=wrong)),
        ("below", lambda: engine.forget(NAMESPACE, below=wrong)),
        ("below", lambda: documents.search(below=wrong)),
        ("neighbors", lambda: Query("x", neighbors=wrong)),
        ("role", lambda: Message("x", wrong)),
        ("metadata", lambda: Message("x", metadata=wrong)),
        ("fields", lambda: Message.from_dict(wrong)),
        ("metadata", lambda: engine.set_metadata(NAMESPACE, "m", wrong)),
        ("ttl_minutes", lambda: engine.set_ttl(NAMESPACE, "5")),  # type: ignore[arg-type]
        ("entry", lambda: engine.replay(wrong)),
        ("lossless", lambda: mnemon.to_openai("x", lossless=wrong)),
        ("profile", lambda: profile.set(wrong)),
        ("patch", lambda: profile.patch(wrong)),
        ("item", lambda: collection.add(wrong)),
        ("path", lambda: Engine(wrong)),
        ("path", lambda: engine.export(wrong)),
        ("path", lambda: engine.import_from(wrong)),
        ("path", lambda: engine.backup(wrong)),
        ("config", lambda: Engine(config=wrong)),
        ("read_only", lambda: Engine(tmp_path / "x", read_only=wrong)),
        ("flush_on_drop", lambda: engine.memory(NAMESPACE, "s", flush_on_drop=wrong)),
        ("keep_checkpoints_within", lambda: engine.memory(NAMESPACE, "s", keep_checkpoints_within="1")),  # type: ignore[arg-type]
        ("unit", lambda: mnemon.VectorBlock("v", unit=wrong)),
        ("scope", lambda: mnemon.FactBlock("f", lambda _: "", scope=wrong)),
        ("messages", lambda: memory.put(b"x")),  # type: ignore[arg-type]
        ("messages", lambda: engine.put(NAMESPACE, b"x")),  # type: ignore[arg-type]
    ]
    for name, call in calls:
        with pytest.raises(mnemon.InvalidTypeError) as raised:
            call()
        assert raised.value.__notes__ == [f"while processing '{name}'"], raised.value
    with pytest.raises(mnemon.InvalidTypeError, match="bytes is no text and no list; its decode"):
        engine.put(NAMESPACE, b"x")  # type: ignore[arg-type]


def test_remedies_are_those_of_this_package(engine: Engine, tmp_path: Path) -> None:
    path = tmp_path / "memory.redb"
    Engine(path, config=Config(encryption_key=bytes(32))).close()
    with pytest.raises(mnemon.KeyNeededError) as raised:
        Engine(path)
    assert "feature" not in str(raised.value) and "Config(encryption_key=...)" in str(raised.value)
    with pytest.raises(mnemon.InvalidConfigError, match='index: "hnsw_rs" is not in this package; "hnsw" is'):
        Config(index="hnsw_rs")
    memory = engine.memory(NAMESPACE, "s", blocks=[mnemon.InstructionBlock("i", "Be brief.", lambda _: "{}")])

    def change(state: Any) -> Any:
        raise ValueError("no")

    with pytest.raises(mnemon.BlockError, match='block "i": change failed, and the state is as it was: ValueError: no') as failed:
        memory.change_block("i", change)
    assert isinstance(failed.value.__cause__, ValueError) and "batch" not in str(failed.value)
    for name, dimension in (("", 3), ("a", 0), ("a", 70_000)):
        with pytest.raises(mnemon.InvalidValueError, match="the name is empty|is not 1 to 65,535"):
            mnemon.GivenVectors(name, dimension)
    with pytest.raises(mnemon.InvalidValueError, match="the dimension 0 is not 1 to 65,535"):
        mnemon.OpenAiEmbedder("http://localhost", "m", 0)
    answer = {"id": "m", "type": "message", "role": "assistant", "content": [], "container": None, "stop_reason": "end_turn"}
    for fields, remedy in [
        (answer, "mnemon.from_anthropic reads it"),
        ({"role": "user", "parts": [{"text": "hi"}]}, "mnemon.from_gemini reads it"),
        ({"choices": []}, re.escape("choices[0].message")),
    ]:
        with pytest.raises(mnemon.InvalidMessageError, match=remedy):
            engine.put(NAMESPACE, fields)
    for lost in ({"choices": [{}]}, {"messages": []}):
        with pytest.raises(mnemon.InvalidMessageError, match="is no field of a content; read other formats with from_openai"):
            mnemon.from_gemini(lost)


def test_what_an_engine_made_holds_it(tmp_path: Path) -> None:
    path = tmp_path / "memory.redb"

    def made(make: Callable[[Engine], Any]) -> Any:
        engine = Engine(path)
        return make(engine)

    makers: list[tuple[Callable[[Engine], Any], Callable[[Any], Any]]] = [
        (lambda engine: engine.documents(NAMESPACE), lambda documents: documents.put("k", 1)),
        (lambda engine: engine.memory(NAMESPACE, "s"), lambda memory: memory.put("x")),
        (lambda engine: engine.memory(NAMESPACE, "s").fork("t"), lambda memory: memory.put("x")),
        (lambda engine: Profile(engine, NAMESPACE), lambda profile: profile.set({"a": 1})),
        (lambda engine: Collection(engine, NAMESPACE), lambda collection: collection.add({"text": "a"})),
    ]
    for make, use in makers:
        one = made(make)
        gc.collect()
        use(one)
        with pytest.raises(mnemon.DatabaseLockedError):
            Engine(path)
        del one
        gc.collect()
        Engine(path).close()
