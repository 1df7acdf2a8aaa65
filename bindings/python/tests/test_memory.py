"""An agent's session from Python."""

import pickle
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any, Literal

import pytest

import mnemon
from mnemon import (
    Engine, InvalidArgumentError, InvalidConfigError, InvalidMessageError, Message, Query, StaticBlock, VectorBlock,
)

NAMESPACE = "acme/ada"


def test_a_prompt_has_blocks_and_what_was_said_in_other_sessions(tmp_path: Path) -> None:
    with Engine(tmp_path / "memory.redb") as engine:
        engine.put(NAMESPACE, [Message("I moved my rowing lesson to Thursday.", session="monday")])
        engine.flush()
        blocks = [StaticBlock("about", "You are Atlas."), VectorBlock("memories", priority=1, top_k=2)]
        memory = engine.memory(NAMESPACE, "tuesday", blocks=blocks)
        memory.put([Message("Good morning!"), Message("Hello Ada.", "assistant")])
        question = Message("When is my rowing lesson?")
        prompt = memory.assemble(question)
        text = "\n".join(message.text for message in prompt.messages)
        assert "You are Atlas." in text and "Thursday" in text and prompt.messages[-1].text == question.text
        assert 0 < prompt.tokens < 1000 and prompt.to_dict()["failed"] == []
        assert {message["role"] for message in prompt.to_openai()} <= {"system", "user", "assistant"}
        memory.put([question, Message("On Thursday.", "assistant")])
        assert len(memory.messages()) == 4 and len(memory.flush()) == 4 and memory.messages() == []
        assert len(memory.history()) == 4
    with Engine(tmp_path / "memory.redb") as engine:
        assert len(engine.memory(NAMESPACE, "tuesday").history()) == 4


@pytest.mark.parametrize(("renderer", "mark"), [("xml", " superseded='true'>"), ("markdown", "\n(superseded)\n> ")])
def test_a_prompt_marks_what_is_superseded(renderer: Literal["xml", "markdown"], mark: str) -> None:
    with Engine() as engine:
        written = datetime(2024, 5, 1, tzinfo=timezone.utc)
        engine.put(NAMESPACE, [Message("My rent is 900 euros a month.", id="old", session="t", created_at=written)])
        memory = engine.memory(NAMESPACE, "s", renderer=renderer)
        assert mark not in memory.assemble(Message("How much is my rent a month?")).messages[0].text
        prompt = memory.assemble(Message("My rent is 950 euros a month now.", id="new"))
        assert mark in prompt.messages[0].text
        assert prompt.to_dict()["recalled"][0]["superseded_by"] == ["new"]


def test_days_are_those_of_the_clock_or_of_the_zone() -> None:
    california = timezone(timedelta(hours=-8))
    with Engine() as engine:
        noons = {day: datetime(2026, 5, day, 12, tzinfo=california) for day in (15, 16, 17)}
        engine.put("a", [Message(f"we cooked soup number {day}", id=str(day), created_at=at) for day, at in noons.items()])

        def found(**options: Any) -> list[str]:
            query = Query("soup yesterday", time="filter", keep_duplicates=True, **options)
            return [hit.message.id for hit in engine.recall("a", query)]

        evening = datetime(2026, 5, 17, 17, 30, tzinfo=california)
        assert found(now=evening) == found(now="2026-05-17T17:30:00-08:00") == ["16"]
        assert found(now=evening.astimezone(timezone.utc)) == ["17"]
        assert found(now=evening.astimezone(timezone.utc), time_zone="America/Los_Angeles") == ["16"]
        query = Query("x", now=evening, time_zone="-08:00")
        assert eval(repr(query)) == query == pickle.loads(pickle.dumps(query))
        with pytest.raises(InvalidConfigError, match="such as Europe/Berlin"):
            found(time_zone="Mars")
        with pytest.raises(InvalidConfigError, match="such as Europe/Berlin"):
            engine.memory("a", "s").assemble("what soup was it yesterday?", time_zone="Mars")
        assert engine.memory("a", "s").assemble("what soup was it yesterday?", time_zone="-08:00").messages


def test_a_message_takes_the_place_of_another_and_says_whose_words_it_is() -> None:
    with Engine() as engine:
        engine.put("a", [Message("the cat takes 5 mg", id="old"), Message("the cat takes 9 mg", id="web", source="web")])
        new = Message("the cat takes 10 mg now", id="new", supersedes=["old"])
        assert (new.supersedes, new.source, new.metadata) == (["old"], "user", {"supersedes": ["old"]})
        engine.put("a", [new])

        def found(**options: Any) -> set[str]:
            return {hit.message.id for hit in engine.recall("a", Query("cat", **options))}

        assert found() == {"new", "web"} and found(include_superseded=True) == {"old", "new", "web"}
        assert found(where={"$source": "user"}) == {"new"}
        with pytest.raises(InvalidMessageError, match="radio"):
            Message("x", source="radio")  # type: ignore[arg-type]
        engine.delete("a", ["new"])
        assert found() == {"old", "web"}
        assert "source='web'" in engine.memory("a", "s").assemble("what does the cat take?").messages[0].text


def test_the_system_prompt_stays_and_a_compacted_context_is_recalled() -> None:
    with Engine() as engine:
        engine.put("a", ["the harbour has port 4711"])
        memory = engine.memory("a", "s", blocks=[StaticBlock("rules", "be brief")], insert="split")
        first = memory.assemble("which port has the harbour?").messages
        assert "be brief" in first[0].text and "4711" not in first[0].text and "4711" in first[1].text
        memory.put([Message("the anchor weighs 12 kg", id="fact"), Message("noted", "assistant", id="end")])
        asked = "how much does the anchor weigh?"
        assert "12 kg" not in memory.assemble(asked).messages[-1].text
        compacted = memory.assemble(asked, after="end").messages
        assert len(compacted) == 2 and "12 kg" in compacted[-1].text
        with pytest.raises(InvalidArgumentError, match="split"):
            engine.memory("a", "s", insert="both")  # type: ignore[arg-type]


def test_old_turns_leave_a_full_buffer() -> None:
    with Engine() as engine:
        memory = engine.memory(NAMESPACE, "s", token_limit=200, token_flush_size=40, tokens="approximate")
        for i in range(40):
            memory.put([Message(f"question {i} about the boat"), Message(f"answer {i}", "assistant")])
        assert 0 < len(memory.messages()) < 80 and len(memory.history()) == 80
        assert memory.get().tokens <= 200
        assert len(memory.search("boat", k=3)) == 3


def test_checkpoints_sync_and_reset() -> None:
    with Engine() as engine:
        memory = engine.memory(NAMESPACE, "s")
        memory.put([Message("one", id="m1")])
        number = memory.checkpoint("before")
        memory.put([Message("two", id="m2")])
        assert [point["label"] for point in memory.checkpoints()] == ["before"]
        assert [message.id for message in memory.messages_at(number)] == ["m1"]
        assert [message.text for message in memory.fork("other", checkpoint=number).history()] == ["one"]
        memory.restore(number)
        assert [message.id for message in memory.history()] == ["m1"]
        memory.sync([Message("one", id="m1"), Message("three", id="m3")])
        assert [message.text for message in memory.history()] == ["one", "three"]
        memory.set([Message("four")])
        assert [message.text for message in memory.history()] == ["four"] and memory.clear() == 1
        memory.reset()
        assert memory.history() == []


@pytest.mark.parametrize(
    ("options", "kept"),
    [({}, 4), ({"keep_checkpoints": 2}, 2), ({"keep_checkpoints_within": 3600}, 4), ({"keep_checkpoints_within": 0.0}, 1),
     ({"keep_checkpoints": 3, "keep_checkpoints_within": 0.0}, 3)],
)
def test_old_checkpoints_are_deleted_as_told(options: dict[str, Any], kept: int) -> None:
    with Engine() as engine:
        memory = engine.memory(NAMESPACE, "s", **options)
        for number in range(4):
            memory.put([f"message {number}"])
            memory.checkpoint(str(number))
        assert [point["label"] for point in memory.checkpoints()] == ["0", "1", "2", "3"][-kept:]
        with pytest.raises(ValueError, match="seconds"):
            engine.memory(NAMESPACE, "s", keep_checkpoints_within=-1.0)


def test_limits_that_were_not_set_follow_those_that_were() -> None:
    with Engine() as engine:
        memory = engine.memory(NAMESPACE, "s", token_limit=100, tokens=len)
        report = memory.put([Message(c * 10, role=role) for c in "abcdefgh" for role in ("user", "assistant")])
        assert report["flushed"] and all(len(batch) == 2 for batch in report["flushed"]), "ten tokens are a turn"
        for token_limit in (1, 100, 1000, 100_000):
            memory = engine.memory(NAMESPACE, f"s{token_limit}", token_limit=token_limit)
            memory.put([f"message {i}" for i in range(100)])
            assert len(memory.history()) == 100


def test_bad_options_are_errors() -> None:
    with Engine() as engine:
        with pytest.raises(mnemon.InvalidConfigError):
            engine.memory(NAMESPACE, "s", token_limit=0)
        with pytest.raises(mnemon.InvalidConfigError, match="token_flush_size is 200"):
            engine.memory(NAMESPACE, "s", token_limit=100, token_flush_size=200)
        with pytest.raises(ValueError, match="o200k_base"):
            engine.memory(NAMESPACE, "s", tokens="words")
        with pytest.raises(mnemon.InvalidConfigError, match="token_flush_size is 1000; it must be between 1 and"):
            engine.memory(NAMESPACE, "s", token_limit=100, token_flush_size=1000)
        with pytest.raises(TypeError):
            engine.memory(NAMESPACE, "s", blocks=["about"])
