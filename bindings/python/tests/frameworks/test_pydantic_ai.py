"""Conversations of Pydantic AI: they do what its store in memory does, on a file; and the tools of a memory."""

import asyncio
import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from chats import CHAT, Overtaken, SlowEmbedder, beside, put_chat
from pydantic_ai import Agent, BinaryContent, DeferredToolRequests
from pydantic_ai.conversation import Conversation
from pydantic_ai.conversation_store import ConversationConflict, ConversationStore, InMemoryConversationStore
from pydantic_ai.exceptions import UserError
from pydantic_ai.messages import (
    ImageUrl,
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.models.test import TestModel
from pydantic_ai.usage import RunUsage

from mnemon import Engine, InvalidMessageError, Message
from mnemon.pydantic_ai import MnemonConversationStore, MnemonToolset, model_messages

pytestmark = pytest.mark.asyncio
NAMESPACE = "acme/ada"


def request(text: str) -> ModelRequest:
    return ModelRequest([UserPromptPart(text, timestamp=datetime(2024, 5, 1, tzinfo=UTC))])


def scripted(*answers: ModelResponse | str) -> tuple[FunctionModel, list[list[ModelMessage]]]:
    """A model that gives these answers, and what it was given."""
    left, seen = list(answers), []

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        seen.append(list(messages))
        said = left.pop(0)
        return ModelResponse([TextPart(said)]) if isinstance(said, str) else said

    return FunctionModel(answer), seen


async def test_a_conversation_goes_on_after_a_restart(tmp_path: Path) -> None:
    model, seen = scripted(ModelResponse([ToolCallPart("lesson", {"day": "Thursday"}, "c1")]), "At nine.", "You asked for your lesson.")
    agent = Agent(model)

    @agent.tool_plain
    def lesson(day: str) -> str:
        return f"The rowing lesson is on {day} at nine."

    with Engine(tmp_path / "memory.redb") as engine:
        store = MnemonConversationStore(engine, NAMESPACE)
        assert await store.load("monday") is None
        result = await agent.run("When is my lesson?", conversation=Conversation(conversation_id="monday"))
        entries = await store.save(result)
        assert [entry.message.kind for entry in entries] == ["request", "response", "request", "response"]
    with Engine(tmp_path / "memory.redb") as engine:
        store = MnemonConversationStore(engine, NAMESPACE)
        conversation = await store.load("monday")
        assert conversation is not None and conversation.messages == result.all_messages() and conversation.usage == result.usage
        second = await agent.run("What did I ask?", conversation=conversation)
        assert [part.content for message in seen[-1] for part in message.parts if isinstance(part, UserPromptPart)] == [
            "When is my lesson?", "What did I ask?",
        ]
        # Only what is new is stored.
        assert len(await store.save(second)) == 2 and len(engine.history(NAMESPACE, "monday")) == 6
        engine.flush()
        hits = engine.recall(NAMESPACE, "rowing at nine", k=5)
        assert {"tool", "assistant"} <= {hit.message.role for hit in hits}
        assert await MnemonConversationStore(engine, "acme/bo").load("monday") is None


MESSAGES: list[ModelMessage] = [
    ModelRequest([SystemPromptPart("Be kind."), UserPromptPart(["Look!", ImageUrl("https://example.org/a.png"), BinaryContent(b"\xff", media_type="image/png")])]),
    ModelResponse([ThinkingPart("Hm.", signature="s"), TextPart("I look."), ToolCallPart("look", {"n": 2**70, "f": 0.1}, "c")], model_name="m"),
    ModelRequest([ToolReturnPart("look", {"found": ["kayak", None]}, "c", metadata={"a": 1})], metadata={"b": 2}),
    ModelResponse([]),
    ModelRequest([SystemPromptPart("Be brief.")]),
    ModelRequest([UserPromptPart("")]),
]
# As Pydantic AI's own JSON has them.
MESSAGES = ModelMessagesTypeAdapter.validate_json(ModelMessagesTypeAdapter.dump_json(MESSAGES))


async def test_messages_of_every_kind_come_back_as_they_were(engine: Engine) -> None:
    store = MnemonConversationStore(engine, NAMESPACE)
    deferred = DeferredToolRequests(approvals=[ToolCallPart("look", {}, "d")], metadata={"d": {"why": "careful"}})
    usage = RunUsage(requests=3, details={"x": 1})
    saved = Conversation(messages=list(MESSAGES), conversation_id="s", usage=usage, deferred_tool_requests=deferred)
    await store.save(saved, scope="ada")
    read = await store.load("s")
    assert read == saved and read is not None and read.revision == saved.revision
    assert [message.text for message in engine.history(NAMESPACE, "s")] == [
        "Look!", "I look.", '{"found":["kayak",null]}', "", "", "",
    ]
    assert model_messages(engine.history(NAMESPACE, "s")) == MESSAGES
    window = await store.load("s", limit=2)
    assert window is not None and window.messages == MESSAGES[-2:] and (await store.load("s", limit=0)).messages == []  # type: ignore[union-attr]
    window.messages.append(request("more"))
    assert len(await store.save(window)) == 1
    assert len((await store.load("s")).messages) == len(MESSAGES) + 1  # type: ignore[union-attr]
    # Scopes are walls.
    assert await store.load("s", scope="bo") is None and await store.load_entries("s", scope="bo") is None
    await store.delete("s", scope="bo")
    assert await store.load("s", scope="ada") is not None and await store.list_conversations(scope="bo") == []


async def test_what_tools_return_is_there_again_as_json(engine: Engine) -> None:
    store = MnemonConversationStore(engine, NAMESPACE)
    results = [float("nan"), {"at": datetime(2024, 5, 1), "bytes": b"\xff", "days": {1}}, RunUsage(requests=3)]
    parts = [ToolReturnPart("look", result, str(at)) for at, result in enumerate(results)]
    said: list[ModelMessage] = [ModelRequest(parts, timestamp=datetime(2024, 5, 1, tzinfo=UTC)), ModelResponse([], timestamp=datetime(2024, 5, 2))]
    await store.save(Conversation(messages=said, conversation_id="s"))
    read = await store.load("s")
    assert read is not None and read.messages == ModelMessagesTypeAdapter.validate_json(ModelMessagesTypeAdapter.dump_json(said))
    times = [datetime(2024, 5, 1, tzinfo=UTC), datetime(2024, 5, 2).astimezone()]
    assert [message.created_at for message in engine.history(NAMESPACE, "s")] == times


def known(value: Any) -> Any:
    """What two stores have in common: they make ids and revisions of their own."""
    if isinstance(value, Conversation):
        return (value.messages, value.usage, value.conversation_id, value.new_message_index)
    if isinstance(value, list):
        return [known(one) for one in value]
    names = ("message", "conversation_id", "scope", "forked_from", "usage")
    return value if isinstance(value, str | None) else tuple(getattr(value, name, None) for name in names) + (len(getattr(value, "branches", [])),)


@pytest.mark.parametrize("seed", range(6))
async def test_it_does_what_the_store_in_memory_does(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)

    async def outcome(call: Callable[[ConversationStore], Any], store: ConversationStore) -> Any:
        try:
            return known(await call(store))
        except (ConversationConflict, UserError) as error:
            return type(error).__name__

    async def save(store: ConversationStore, id: str, texts: list[str], new: bool, scope: str | None) -> Any:
        conversation = (None if new else await store.load(id)) or Conversation(conversation_id=id)
        conversation.messages += [request(text) for text in texts]
        if chance_rewrites and len(conversation.messages) > 2:
            conversation.messages[1:2] = [request("rewritten")]
        return await store.save(conversation, scope=scope)

    async def branch(store: ConversationStore, id: str, at: int, back: bool) -> Any:
        [record] = [one for one in await store.list_conversations() if one.conversation_id == id] or [None]
        if record is None:
            return None
        tip = record.branches[-1] if back and record.branches else None
        return await store.branch(id, at=None if tip else at, from_entry=tip, expected_revision=record.revision)

    with Engine(tmp_path / "memory.redb") as engine:
        stores = [InMemoryConversationStore(), MnemonConversationStore(engine, NAMESPACE)]
        for turn in range(80):
            id, other, at = chance.choice("abc"), chance.choice("abcd"), chance.randrange(4)
            texts, scope = [f"{turn} {part}" for part in range(chance.randrange(3))], chance.choice([None, "x", "y"])
            chance_rewrites, flag = chance.random() < 0.2, chance.random() < 0.3
            calls: list[Callable[[ConversationStore], Any]] = [
                lambda store: save(store, id, texts, flag, scope),
                lambda store: save(store, id, texts, False, None),
                lambda store: branch(store, id, at, flag),
                lambda store: store.fork(id, at=at, new_conversation_id=other, scope=scope),
                lambda store: store.delete(id, scope=scope),
                lambda store: store.list_conversations(scope=scope, limit=chance_limit),
            ]
            chance_limit = chance.choice([None, 1, 9])
            call = chance.choice(calls)
            assert await outcome(call, stores[0]) == await outcome(call, stores[1])
            for one in "abcd":
                assert await outcome(lambda store: store.load(one), stores[0]) == await outcome(lambda store: store.load(one), stores[1])
        # No message is left that no conversation has.
        kept = len(stores[0]._entries)  # type: ignore[attr-defined]
        assert sum(session["messages"] for session in engine.sessions(NAMESPACE)) == kept
        for one in "abcd":
            await stores[1].delete(one)
        assert engine.sessions(NAMESPACE) == [] and engine.documents(NAMESPACE).search(limit=9) == []


async def test_of_concurrent_saves_one_wins(engine: Engine) -> None:
    stores = [MnemonConversationStore(engine, NAMESPACE) for _ in range(8)]
    await stores[0].save(Conversation(messages=[request("first")], conversation_id="s"))
    loaded = [await store.load("s") for store in stores]

    async def save(at: int) -> bool:
        conversation = loaded[at]
        assert conversation is not None
        conversation.messages.append(request(str(at)))
        try:
            await stores[at].save(conversation)
            return True
        except ConversationConflict:
            return False

    assert sum(await asyncio.gather(*map(save, range(8)))) == 1
    assert len(engine.history(NAMESPACE, "s")) == 2


async def test_what_other_machines_change_meanwhile(engine: Engine) -> None:
    store = MnemonConversationStore(engine, NAMESPACE)

    def overtaken(by: Any) -> MnemonConversationStore:
        """A store that another machine overtakes after it has read the record, to look at it and to change it."""
        late = MnemonConversationStore(engine, NAMESPACE)
        late.engine = Overtaken(engine, 2, lambda: asyncio.run(by))  # type: ignore[assignment]
        return late

    await store.save(Conversation(messages=[request("first")], conversation_id="s"))
    mine, theirs = await store.load("s"), await store.load("s")
    assert mine and theirs
    theirs.messages.append(request("theirs"))
    mine.messages.append(request("mine"))
    with pytest.raises(ConversationConflict):
        await overtaken(store.save(theirs)).save(mine)
    assert [message.text for message in engine.history(NAMESPACE, "s")] == ["first", "theirs"]
    # A deletion leaves what a fork has meanwhile, and a fork of what is deleted meanwhile is none.
    await overtaken(store.fork("s", at=1, new_conversation_id="fork")).delete("s")
    assert (await store.load("fork")).messages == [request("first")]  # type: ignore[union-attr]
    assert [message.text for message in engine.history(NAMESPACE, "s")] == ["first"]
    with pytest.raises(ConversationConflict):
        await overtaken(store.delete("fork")).fork("fork")
    # Of two deletions the last one deletes what both had.
    await store.save(Conversation(messages=[request("first")], conversation_id="s"))
    await store.fork("s", new_conversation_id="fork")
    await overtaken(store.delete("s")).delete("fork")
    assert engine.sessions(NAMESPACE) == [] and engine.documents(NAMESPACE).search(limit=9) == []


async def test_saves_forks_and_deletions_at_once_leave_whole_conversations(engine: Engine) -> None:
    def run(at: int) -> None:
        async def work() -> None:
            chance, store = random.Random(at), MnemonConversationStore(engine, NAMESPACE)
            for turn in range(30):
                id, other = chance.choice("abc"), chance.choice("abc")
                try:
                    conversation = await store.load(id) or Conversation(conversation_id=id)
                    conversation.messages.append(request(f"{at} {turn}"))
                    await store.save(conversation)
                    await store.fork(id, at=1, new_conversation_id=other)
                except UserError:
                    await store.delete(other)

        asyncio.run(work())

    store, entries = MnemonConversationStore(engine, NAMESPACE), set()
    # One that nobody deletes: of the others, none may be left.
    await store.save(Conversation(conversation_id="kept", messages=[request("kept")]))
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(run, range(4)))
    for record in await store.list_conversations():
        for tip in (record.head_id, *record.branches):
            entries |= {entry.id for entry in await store.read_history(tip)}
    stored = {message.id for one in engine.sessions(NAMESPACE) for message in engine.history(NAMESPACE, one["session"])}
    assert stored == entries != set()
    for id in ["a", "b", "c", "kept"]:
        await store.delete(id)
    assert engine.sessions(NAMESPACE) == [] and engine.documents(NAMESPACE).search(limit=9) == []


async def test_what_others_stored_changed_and_deleted(engine: Engine) -> None:
    put_chat(engine, NAMESPACE, "s")
    read = model_messages(engine.history(NAMESPACE, "s"))
    assert [message.kind for message in read] == ["request", "request", "response", "request", "request", "response"]
    assert read[0].parts[0].content == "Be kind."  # type: ignore[union-attr]
    content = read[1].parts[0].content  # type: ignore[union-attr]
    assert [type(part).__name__ for part in content] == ["str", "ImageUrl", "BinaryImage", "str", "str"]  # type: ignore[union-attr]
    assert [(part.tool_name, part.args) for part in read[2].parts[1:]] == [("look", {"at": "boathouse"}), ("ask", "Tom")]  # type: ignore[union-attr]
    assert [(part.tool_name, part.content) for message in read[3:5] for part in message.parts] == [("look", "A red kayak."), ("ask", "")]  # type: ignore[union-attr]
    model, seen = scripted("Gladly.")
    await Agent(model).run("Thanks!", message_history=read)
    assert len(seen[0]) >= len(CHAT) - 1
    store = MnemonConversationStore(engine, NAMESPACE)
    texts = ["My number is 5.", "Noted."]
    await store.save(Conversation(messages=[request(texts[0]), ModelResponse([TextPart(texts[1])])], conversation_id="t"))
    first, second = engine.history(NAMESPACE, "t")
    engine.put(NAMESPACE, [first.to_dict() | {"content": "My number is hidden."}])
    loaded = await store.load("t")
    assert loaded is not None and loaded.messages[0].parts[0].content == ["My number is hidden."]  # type: ignore[union-attr]
    engine.delete(NAMESPACE, [first.id])
    with pytest.raises(LookupError, match="delete the conversation"):
        await store.load("t")
    assert (await store.load("t", limit=1)).messages == loaded.messages[1:]  # type: ignore[union-attr]
    await store.delete("t")
    assert engine.history(NAMESPACE, "t") == [] and await store.load("t") is None


async def test_bad_input_is_refused_and_nothing_is_stored(engine: Engine) -> None:
    store = MnemonConversationStore(engine, NAMESPACE)
    for id, text in [("s", "x" * 17_000_000), ("x" * 600, "x"), ("", "x")]:
        with pytest.raises(InvalidMessageError):
            await store.save(Conversation(messages=[request("fine"), request(text)], conversation_id=id))
    assert await store.list_conversations() == [] and engine.sessions(NAMESPACE) == []
    with pytest.raises(LookupError):
        await store.read_entry("none")


async def test_an_agent_remembers_recalls_and_forgets(tmp_path: Path) -> None:
    def call(name: str, **arguments: str) -> ModelResponse:
        return ModelResponse([ToolCallPart(name, arguments)])

    def results(messages: list[ModelMessage]) -> list[Any]:
        return [part.content for message in messages for part in message.parts if part.part_kind in ("tool-return", "retry-prompt")]

    with Engine(tmp_path / "memory.redb") as engine:
        model, seen = scripted(call("remember", text=" "), call("remember", text="Ada rows on Thursday."), "Noted.")
        assert (await Agent(model, toolsets=[MnemonToolset(engine, NAMESPACE)], retries=3).run("I row on Thursday.")).output == "Noted."
        [note] = engine.history(NAMESPACE, "notes")
        assert results(seen[-1])[-1] == note.id
        engine.put(NAMESPACE, [Message("I moved to Oslo.", session="notes")])
        engine.put("acme/bo", ["Bo rows on Sunday."])
    with Engine(tmp_path / "memory.redb") as engine:
        other = engine.history(NAMESPACE, "notes")[1].id
        model, seen = scripted(
            call("recall", query=""), call("recall", query="When does she row?"), call("forget", id=other), call("forget", id=note.id), "Done.",
        )
        await Agent(model, toolsets=[MnemonToolset(engine, NAMESPACE)], retries=3).run("Forget when I row.")
        empty, found, refused, forgotten = results(seen[-1])
        assert "empty" in str(empty) and "take an id" in str(refused) and forgotten == "Forgotten."
        assert [hit["text"] for hit in found] == ["Ada rows on Thursday.", "I moved to Oslo."]
        assert [message.text for message in engine.history(NAMESPACE, "notes")] == ["I moved to Oslo."]


async def test_an_agent_with_the_model_of_pydantic_ai_for_tests_runs(engine: Engine) -> None:
    # It calls each tool once, with the argument "a".
    result = await Agent(TestModel(), toolsets=[MnemonToolset(engine, NAMESPACE)]).run("I row.")
    assert "Nothing was remembered" in result.output and [note.text for note in engine.history(NAMESPACE, "notes")] == ["a"]


async def test_the_event_loop_goes_on() -> None:
    embedder = SlowEmbedder()
    with Engine(embedder=embedder) as engine:
        engine.put(NAMESPACE, ["I row."])
        assert len(await beside(MnemonToolset(engine, NAMESPACE).recall("row"), embedder)) == 1
