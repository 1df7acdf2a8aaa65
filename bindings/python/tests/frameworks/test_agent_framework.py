"""The providers of Microsoft Agent Framework: they do what its own in memory do, on a file; and an agent remembers."""

import asyncio
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from agent_framework import (
    Agent,
    AgentSession,
    BaseChatClient,
    ChatResponse,
    Content,
    HistoryProvider,
    InMemoryHistoryProvider,
    Message,
    SessionContext,
)
from chats import SlowEmbedder, beside, put_chat

from mnemon import Engine, InvalidMessageError
from mnemon.agent_framework import MnemonContextProvider, MnemonHistoryProvider

pytestmark = pytest.mark.asyncio
NAMESPACE = "acme/ada"


class Scripted(BaseChatClient[Any]):
    """A model that gives these answers, and what it was given."""

    def __init__(self, *answers: str) -> None:
        super().__init__()
        self.answers = list(answers)
        self.seen: list[list[Message]] = []

    async def _inner_get_response(self, *, messages: Sequence[Message], stream: bool, options: Any, **_: Any) -> ChatResponse:  # type: ignore[override]
        self.seen.append(list(messages))
        return ChatResponse(messages=[Message("assistant", [self.answers.pop(0)])])


def texts(messages: Sequence[Message]) -> list[str]:
    return [message.text for message in messages]


async def test_an_agent_goes_on_after_a_restart(tmp_path: Path) -> None:
    model = Scripted("At nine.", "You asked for your lesson.")
    with Engine(tmp_path / "memory.redb") as engine:
        agent = Agent(model, "Be kind.", context_providers=[MnemonHistoryProvider(engine, NAMESPACE)])
        await agent.run("When is my rowing lesson?", session=agent.create_session(session_id="monday"))
    with Engine(tmp_path / "memory.redb") as engine:
        provider = MnemonHistoryProvider(engine, NAMESPACE)
        agent = Agent(model, "Be kind.", context_providers=[provider])
        await agent.run("What did I ask?", session=AgentSession(session_id="monday"))
        assert texts(model.seen[1])[-3:] == ["When is my rowing lesson?", "At nine.", "What did I ask?"]
        assert texts(await provider.get_messages("monday")) == [
            "When is my rowing lesson?", "At nine.", "What did I ask?", "You asked for your lesson.",
        ]
        engine.flush()
        assert engine.recall(NAMESPACE, "rowing", k=1)[0].message.text == "When is my rowing lesson?"
        for other, session in [(NAMESPACE, "tuesday"), ("acme/bo", "monday")]:
            assert await MnemonHistoryProvider(engine, other).get_messages(session) == []
        engine.delete_session(NAMESPACE, "monday")
        assert await provider.get_messages("monday") == []


MESSAGES = [
    Message("system", ["Be kind."]),
    Message("developer", ["Be brief."]),
    Message("user", ["Look!", Content.from_uri("https://example.org/a.png", media_type="image/png")], author_name="Ada", message_id="m1"),
    Message("assistant", [
        Content.from_text_reasoning(text="Hm."), "I look.", Content.from_function_call("c1", "look", arguments='{"n": 36893488147419103232}'),
        Content.from_function_call("c2", "ask", arguments={"whom": "Tom"}),
    ]),
    Message("tool", [Content.from_function_result("c1", result="A red kayak."), Content.from_function_result("c2", result={"found": None})]),
    Message("assistant", [Content.from_data(b"\xff", "image/png")], additional_properties={"a": [1, None]}),
    Message("user", [""]),
]


async def test_messages_of_every_kind_come_back_as_they_were(engine: Engine) -> None:
    provider = MnemonHistoryProvider(engine, NAMESPACE)
    await provider.save_messages("s", MESSAGES)
    read = await provider.get_messages("s")
    assert [message.to_dict() for message in read] == [message.to_dict() for message in MESSAGES]
    stored = engine.history(NAMESPACE, "s")
    assert [message.role for message in stored] == ["system", "system", "user", "assistant", "tool", "assistant", "user"]
    # No recall finds what says nothing.
    engine.flush()
    assert {hit.message.text for hit in engine.recall(NAMESPACE, "assistant or user", k=9)} == {message.text for message in stored if message.text}
    assert stored[2].name == "Ada" and stored[3].content[1]["arguments"] == '{"n": 36893488147419103232}'
    # Without a session, as the file provider does.
    await provider.save_messages(None, [Message("user", ["x"])])
    assert texts(await provider.get_messages(None)) == ["x"]


async def test_what_is_not_to_be_loaded_or_stored(engine: Engine) -> None:
    provider = MnemonHistoryProvider(engine, NAMESPACE, skip_excluded=True)
    await provider.save_messages("s", [Message("user", ["a"], additional_properties={"_excluded": True}), Message("user", ["b"])])
    assert texts(await provider.get_messages("s")) == ["b"]
    audit = MnemonHistoryProvider(engine, "audit", "audit", load_messages=False, store_context_messages=True, store_outputs=False)
    model = Scripted("Noted.")
    agent = Agent(model, context_providers=[MnemonHistoryProvider(engine, NAMESPACE), audit])
    await agent.run("c", session=AgentSession(session_id="s"))
    assert texts(model.seen[0]) == ["a", "b", "c"]
    assert texts(await audit.get_messages("s")) == ["a", "b", "c"]


@pytest.mark.parametrize("seed", range(6))
async def test_it_does_what_the_provider_in_memory_does(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    states: dict[str, dict[str, Any]] = {"s": {}, "t": {}}
    theirs = InMemoryHistoryProvider()
    with Engine(tmp_path / "memory.redb") as engine:
        ours = MnemonHistoryProvider(engine, NAMESPACE)
        for _ in range(60):
            session = chance.choice("st")
            history = await theirs.get_messages(session, state=states[session])
            new = [
                Message(chance.choice(["user", "assistant"]), [chance.choice("ab")], message_id=chance.choice([None, "1", "2"]))
                for _ in range(chance.randrange(4))
            ]
            # New ones alone, or after what was there, or after its end.
            given = [*history[chance.choice([0, -1, -2, len(history)]) :], *new]
            await theirs.save_messages(session, given, state=states[session])
            await ours.save_messages(session, given)
            expected = await theirs.get_messages(session, state=states[session])
            assert [one.to_dict() for one in await ours.get_messages(session)] == [one.to_dict() for one in expected]


async def test_concurrent_saves_are_all_there_and_stay_together(engine: Engine) -> None:
    providers = [MnemonHistoryProvider(engine, NAMESPACE) for _ in range(8)]

    async def save(at: int) -> None:
        for turn in range(10):
            await providers[at].save_messages("s", [Message("user", [f"{at} {turn} {part}"]) for part in range(2)])

    await asyncio.gather(*map(save, range(8)))
    found = [tuple(map(int, text.split())) for text in texts(await providers[0].get_messages("s"))]
    assert len(found) == 160
    for first in range(0, 160, 2):
        assert found[first + 1] == (*found[first][:2], 1)
    for at in range(8):
        assert [turn for who, turn, part in found if who == at and part == 0] == list(range(10))


async def test_a_history_reads_what_others_stored_and_changed(engine: Engine) -> None:
    provider = MnemonHistoryProvider(engine, NAMESPACE)
    put_chat(engine, NAMESPACE, "s")
    read = await provider.get_messages("s")
    assert [message.role for message in read] == ["system", "user", "assistant", "tool", "tool", "assistant"]
    assert (read[1].author_name, read[1].text) == ("Ada", "Where is my kayak? It looks like this. [file: a.pdf]")
    assert [content.type for content in read[1].contents] == ["text", "uri", "data", "text", "data"]
    assert [(content.call_id, content.name, content.arguments) for content in read[2].contents[1:]] == [
        ("c1", "look", {"at": "boathouse"}), ("c2", "ask", "Tom"),
    ]
    assert [(message.contents[0].call_id, message.contents[0].result) for message in read[3:5]] == [("c1", "A red kayak."), ("c2", "")]
    await provider.save_messages("s", [*read, Message("user", ["Thanks!"])])
    assert len(await provider.get_messages("s")) == 7
    last = engine.history(NAMESPACE, "s")[-1]
    engine.put(NAMESPACE, [last.to_dict() | {"content": "Hidden."}])
    assert texts(await provider.get_messages("s"))[-1] == "Hidden."


async def test_bad_input_is_refused_and_nothing_is_stored(engine: Engine) -> None:
    provider = MnemonHistoryProvider(engine, NAMESPACE)
    for session, text in [("s", "x" * 17_000_000), ("x" * 600, "x")]:
        with pytest.raises(InvalidMessageError):
            await provider.save_messages(session, [Message("user", ["fine"]), Message("user", [text])])
    assert engine.sessions(NAMESPACE) == []
    with pytest.raises(TypeError, match="load"):
        MnemonHistoryProvider(engine, NAMESPACE, load=True)


async def test_a_run_is_given_what_other_sessions_said(tmp_path: Path) -> None:
    model = Scripted("Noted.", "Fine.", "On Thursday.", "On Thursday, as I said.")
    with Engine(tmp_path / "memory.redb") as engine:
        agent = Agent(model, context_providers=[MnemonContextProvider(engine, NAMESPACE, k=2)])
        await agent.run("I row on Thursday.", session=AgentSession(session_id="monday"))
        assert len(model.seen[0]) == 1
        await agent.run(["", Content.from_data(b"x", "image/png")], session=AgentSession(session_id="picture"))
    with Engine(tmp_path / "memory.redb") as engine:
        history = MnemonHistoryProvider(engine, NAMESPACE)
        agent = Agent(model, context_providers=[history, MnemonContextProvider(engine, NAMESPACE, k=1, store=False)])
        session = AgentSession(session_id="tuesday")
        await agent.run("When do I row?", session=session)
        found, asked = model.seen[2]
        assert "- user: I row on Thursday." in found.text and asked.text == "When do I row?"
        assert found.additional_properties["_attribution"] == {
            "source_id": "mnemon", "source_type": "MnemonContextProvider", "origin_session_ids": ["monday"],
        }
        # What this session said is not said twice.
        await agent.run("When again?", session=session)
        said = texts(model.seen[3])
        assert sum("When do I row?" in text for text in said) == 1 and any("I row on Thursday." in text for text in said)
        assert len(engine.history(NAMESPACE, "tuesday")) == 4 and len(await history.get_messages("tuesday")) == 4
        other = Agent(Scripted("Hm."), context_providers=[MnemonContextProvider(engine, "acme/bo")])
        await other.run("When do I row?", session=AgentSession(session_id="x"))
        assert len(engine.history("acme/bo", "x")) == 2 and len(other.client.seen[0]) == 1  # type: ignore[attr-defined]


async def test_the_event_loop_goes_on() -> None:
    embedder = SlowEmbedder()
    with Engine(embedder=embedder) as engine:
        engine.put(NAMESPACE, ["I row."])
        provider, context = MnemonContextProvider(engine, NAMESPACE), SessionContext(session_id="s", input_messages=[Message("user", ["row"])])
        run: Any = {"agent": None, "session": AgentSession(session_id="s"), "context": context, "state": {}}
        await beside(provider.before_run(**run), embedder)
        assert len(context.get_messages()) == 1 and isinstance(MnemonHistoryProvider(engine, NAMESPACE), HistoryProvider)
