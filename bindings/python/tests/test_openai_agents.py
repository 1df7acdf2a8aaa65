"""Sessions of the OpenAI Agents SDK: what its own tests (`foreign/run.py`) do not ask."""

import asyncio
from pathlib import Path

import pytest
from agents import Agent, RunConfig, Runner, SessionSettings, function_tool
from agents.memory import Session
from agents.testing import ScriptedModel, assistant_message, function_call

from mnemon import Engine, InvalidMessageError
from mnemon.openai_agents import MnemonSession

pytestmark = pytest.mark.asyncio
NAMESPACE = "acme/ada"
# One item of each kind that has a text in another place, or none.
ITEMS = [
    {"role": "developer", "content": "Be kind."},
    {"role": "user", "content": [{"type": "input_text", "text": "Look at my kayak."}, {"type": "input_image", "image_url": "data:,x"}]},
    {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "abc"},
    {"type": "function_call", "call_id": "c1", "name": "look", "arguments": '{"at": "kayak"}', "id": "fc_1"},
    {"type": "function_call_output", "call_id": "c1", "output": "It lies in the boathouse."},
    {"type": "function_call_output", "call_id": "c2", "output": [{"type": "input_text", "text": "The paddle is broken."}]},
    {"type": "custom_tool_call", "call_id": "c3", "name": "grep", "input": "keel"},
    {"type": "computer_call_output", "call_id": "c4", "output": {"type": "computer_screenshot", "image_url": "data:,y"}},
    {"role": "user", "content": ""},
    {
        "type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
        "content": [{"type": "output_text", "text": "A fine kayak.", "annotations": [], "logprobs": [{"logprob": -0.1 / 3}]}],
    },
]


@pytest.fixture
def engine():
    with Engine() as engine:
        yield engine


def texts(items):
    return [item["content"] for item in items]


def users(*contents):
    return [{"role": "user", "content": content} for content in contents]


@function_tool
def lesson(day: str) -> str:
    """Says when the lesson is."""
    return f"The rowing lesson is on {day} at nine."


async def test_the_second_run_sees_the_first_one_also_after_a_restart(tmp_path: Path) -> None:
    model = ScriptedModel([
        [function_call("lesson", {"day": "Thursday"}, call_id="c1")],
        [assistant_message("On Thursday at nine.")],
        [assistant_message("You asked for your lesson.")],
    ])
    agent, config = Agent(name="Atlas", model=model, tools=[lesson]), RunConfig(tracing_disabled=True)
    with Engine(tmp_path / "memory.redb") as engine:
        session = MnemonSession(engine, NAMESPACE, "s")
        await Runner.run(agent, "When is my rowing lesson?", session=session, run_config=config)
        first = await session.get_items()
        assert [item.get("type", item.get("role")) for item in first] == [
            "user", "function_call", "function_call_output", "message",
        ]
    with Engine(tmp_path / "memory.redb") as engine:
        session = MnemonSession(engine, NAMESPACE, "s")
        assert isinstance(session, Session) and await session.get_items() == first
        result = await Runner.run(agent, "What did I ask?", session=session, run_config=config)
        assert result.final_output == "You asked for your lesson."
        seen = model.calls[-1].input
        assert [item.get("content") for item in seen if item.get("role") == "user"] == ["When is my rowing lesson?", "What did I ask?"]
        assert [item["output"] for item in seen if item.get("type") == "function_call_output"] == [
            "The rowing lesson is on Thursday at nine."
        ]
        assert len(await session.get_items()) == len(first) + 2
        hits = engine.recall(NAMESPACE, "rowing at nine", k=5)
        assert {"tool", "assistant"} <= {hit.message.role for hit in hits if "nine" in hit.message.text}


async def test_items_of_every_kind_come_back_as_they_were(engine: Engine) -> None:
    session = MnemonSession(engine, NAMESPACE, "s")
    await session.add_items(ITEMS)
    assert await session.get_items() == ITEMS
    stored = engine.history(NAMESPACE, "s")
    assert [message.role for message in stored] == [
        "system", "user", "assistant", "assistant", "tool", "tool", "assistant", "tool", "user", "assistant",
    ]
    assert [message.text for message in stored] == [
        "Be kind.", "Look at my kayak.", "", "", "It lies in the boathouse.", "The paddle is broken.", "",
        "", "", "A fine kayak.",
    ]
    assert stored[3].content == [{"type": "tool_call", "id": "c1", "name": "look", "arguments": {"at": "kayak"}}]
    engine.flush()
    assert engine.recall(NAMESPACE, "where is the boat?", k=1)[0].message.metadata
    popped = [await session.pop_item() for _ in range(len(ITEMS) + 1)]
    assert popped == [*reversed(ITEMS), None] and engine.history(NAMESPACE, "s") == []


async def test_arguments_that_are_no_object_of_the_engine_are_text(engine: Engine) -> None:
    session = MnemonSession(engine, NAMESPACE, "s")
    for arguments in ['{"n": 36893488147419103232}', '{"n": NaN}', '{"half": "\\ud83d"}', "[1]", "no JSON", ""]:
        item = {"type": "function_call", "call_id": "c", "name": "f", "arguments": arguments}
        await session.add_items([item])
        assert engine.history(NAMESPACE, "s")[0].content[0]["arguments"] == arguments
        assert await session.pop_item() == item


async def test_limits_and_the_edges(engine: Engine) -> None:
    session = MnemonSession(engine, NAMESPACE, "s", session_settings=SessionSettings(limit=2))
    other = MnemonSession(engine, NAMESPACE, "other")
    await session.add_items([])
    assert await session.get_items() == [] and await session.pop_item() is None
    await session.add_items(users("a", "b", "a"))
    await other.add_items(users("c"))
    assert texts(await session.get_items()) == ["b", "a"]
    for limit, expected in [(0, []), (1, ["a"]), (3, ["a", "b", "a"]), (9, ["a", "b", "a"]), (-1, ["a", "b", "a"])]:
        assert texts(await session.get_items(limit)) == expected
    # Nothing is stored if one item cannot be.
    for item, error in [({"role": "user", "content": object()}, TypeError), (users("x" * 17_000_000)[0], InvalidMessageError)]:
        with pytest.raises(error):
            await session.add_items([*users("d"), item])
    assert len(await session.get_items(9)) == 3
    await session.clear_session()
    await session.clear_session()
    assert await session.get_items() == [] and texts(await other.get_items()) == ["c"]


async def test_items_stay_together_and_in_order_with_concurrent_adders_and_poppers(engine: Engine) -> None:
    sessions = [MnemonSession(engine, NAMESPACE, "s") for _ in range(8)]

    async def add(at: int) -> None:
        for turn in range(20):
            await sessions[at].add_items(users(*(f"{at} {turn} {part}" for part in range(3))))

    await asyncio.gather(*map(add, range(8)))
    found = [tuple(map(int, text.split())) for text in texts(await sessions[0].get_items())]
    assert len(found) == 8 * 20 * 3
    for first in range(0, len(found), 3):
        assert found[first : first + 3] == [(*found[first][:2], part) for part in range(3)]
    for at in range(8):
        assert [turn for who, turn, part in found if who == at and part == 0] == list(range(20))
    popped = await asyncio.gather(*(session.pop_item() for session in sessions for _ in range(10)))
    # Each item is popped once, and they are the last ones.
    assert sorted(texts(popped)) == sorted(" ".join(map(str, item)) for item in found[-80:])
    assert len(await sessions[0].get_items()) == len(found) - 80


async def test_a_cancelled_change_is_done_to_its_end(engine: Engine) -> None:
    session = MnemonSession(engine, NAMESPACE, "s")
    with session._lock:
        change = asyncio.create_task(session.add_items(users("a")))
        for _ in range(2):
            await asyncio.sleep(0.01)
            change.cancel()
        await asyncio.sleep(0.01)
        assert not change.done()
    with pytest.raises(asyncio.CancelledError):
        await change
    assert texts(await session.get_items()) == ["a"]
