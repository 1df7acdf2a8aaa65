"""LangGraph's own conformance suite for checkpointers, all of it, and what it does not ask."""

import asyncio
import operator
import random
import tempfile
import threading
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.conformance import checkpointer_test, validate
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.serde.types import ERROR
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, interrupt

from mnemon import Engine, InvalidValueError
from mnemon.langgraph import MnemonSaver

CONFIG: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
# Of langgraph-checkpoint-conformance 0.0.2: 58 of the base, 23 of the extensions.
CONFORMANCE_TESTS = 81


@pytest.fixture
def saver():
    with Engine() as engine:
        yield MnemonSaver(engine)


def test_the_conformance_suite_passes_whole() -> None:
    @checkpointer_test(name="mnemon")
    async def factory() -> AsyncIterator[MnemonSaver]:
        with tempfile.TemporaryDirectory() as folder, Engine(Path(folder, "memory.redb")) as engine:
            yield MnemonSaver(engine)

    results = asyncio.run(validate(factory)).results.values()
    assert [failure for result in results for failure in result.failures or []] == []
    assert sum(result.tests_passed for result in results) == CONFORMANCE_TESTS


def test_a_graph_goes_on_after_an_interrupt_and_a_restart(tmp_path: Path) -> None:
    class State(TypedDict):
        said: Annotated[list[str], operator.add]

    def ask(_: State) -> dict[str, list[str]]:
        return {"said": ["asked", interrupt("your name?")]}

    def graph(engine: Engine) -> Any:
        builder = StateGraph(State).add_node("ask", ask).add_edge(START, "ask").add_edge("ask", END)
        return builder.compile(checkpointer=MnemonSaver(engine))

    config = {"configurable": {"thread_id": "1"}}
    with Engine(tmp_path / "memory.redb") as engine:
        assert graph(engine).invoke({"said": ["hello"]}, config)["__interrupt__"][0].value == "your name?"
    with Engine(tmp_path / "memory.redb") as engine:
        assert graph(engine).invoke(Command(resume="Ada"), config)["said"] == ["hello", "asked", "Ada"]
        history = list(graph(engine).get_state_history(config))
        assert [state.values.get("said") for state in history][:2] == [["hello", "asked", "Ada"], ["hello"]]


def put(saver: MnemonSaver, parent: Any, **values: Any) -> Any:
    """Puts a checkpoint in which these channels are new."""
    before = saver.get_tuple(parent) if "checkpoint_id" in parent["configurable"] else None
    checkpoint = empty_checkpoint()
    old = before.checkpoint["channel_versions"] if before else {}
    new = {channel: saver.get_next_version(old.get(channel), None) for channel in values}
    checkpoint["channel_versions"] = {**old, **new}
    checkpoint["channel_values"] = {**(before.checkpoint["channel_values"] if before else {}), **values}
    return saver.put(parent, checkpoint, {"source": "loop", "step": 1}, new)


def stored(saver: MnemonSaver) -> int:
    return sum(info["documents"] for info in saver.engine.namespaces())


def test_the_value_of_a_channel_is_stored_once(saver: MnemonSaver) -> None:
    config = put(saver, CONFIG, large="x" * 10_000, small=1)
    before = stored(saver)
    for number in range(5):
        config = put(saver, config, small=number)
    # Of each: the checkpoint, and the channel that changed.
    assert stored(saver) == before + 5 * 2
    assert saver.get_tuple(config).checkpoint["channel_values"] == {"large": "x" * 10_000, "small": 4}


def test_the_latest_checkpoint_may_be_put_again(saver: MnemonSaver) -> None:
    first = put(saver, CONFIG, value=1)
    one = saver.get_tuple(first)
    one.checkpoint["channel_values"] = {"value": 2}
    one.checkpoint["channel_versions"] = new = {"value": saver.get_next_version(one.checkpoint["channel_versions"]["value"], None)}
    saver.put(CONFIG, one.checkpoint, one.metadata, new)
    assert [found.checkpoint["channel_values"] for found in saver.list(CONFIG)] == [{"value": 2}]
    assert saver.get_tuple(CONFIG) == saver.get_tuple(first)


def test_values_of_many_megabytes_are_kept_replaced_and_deleted(saver: MnemonSaver) -> None:
    large = {"text": "\x00\u20ac" * 1_500_000, "bytes": bytes(range(256)) * 4000}
    config = put(saver, CONFIG, value=large)
    saver.put_writes(config, [("value", large), ("value", 1)], "task")
    found = saver.get_tuple(config)
    assert found.checkpoint["channel_values"] == {"value": large}
    assert found.pending_writes == [("task", "value", large), ("task", "value", 1)]
    last = put(saver, config, value=2)
    saver.prune(["t"])
    assert saver.get_tuple(config) is None and saver.get_tuple(last).checkpoint["channel_values"] == {"value": 2}
    # The checkpoint, its channel, and the id of the latest.
    assert stored(saver) == 3
    saver.delete_thread("t")
    assert stored(saver) == 0


def test_writes_of_tasks_are_replaced_or_kept_whatever_their_length(saver: MnemonSaver) -> None:
    config = put(saver, CONFIG, value=0)
    for task in range(4):
        saver.put_writes(config, [("value", f"{task}" * 3000), ("other", 1)], f"task-{task}", f"path-{task}")
    # Errors are replaced; other writes stay as they were.
    for error in ("first", "x" * 9000, "last"):
        for task in range(4):
            saver.put_writes(config, [(ERROR, error)], f"task-{task}")
            saver.put_writes(config, [("value", "again")], f"task-{task}")
    expected = [
        write
        for task in range(4)
        for write in [(f"task-{task}", ERROR, "last"), (f"task-{task}", "value", f"{task}" * 3000), (f"task-{task}", "other", 1)]
    ]
    assert saver.get_tuple(config).pending_writes == expected
    assert next(saver.list(CONFIG)).pending_writes == expected
    saver.prune(["t"], strategy="delete")
    assert stored(saver) == 0


def test_a_filter_loads_no_values_of_checkpoints_that_do_not_match() -> None:
    class Counted(JsonPlusSerializer):
        loads = 0

        def loads_typed(self, data: tuple[str, bytes]) -> Any:
            self.loads += 1
            return super().loads_typed(data)

    serde = Counted()
    with Engine() as engine:
        saver = MnemonSaver(engine, serde=serde)
        config = CONFIG
        for step in range(10):
            config = put(saver, config, step=step, **{f"value-{step}": step})
        serde.loads = 0
        assert list(saver.list(CONFIG, filter={"step": 2})) == []
        # Each state, and no more.
        assert serde.loads == 10
        assert len(list(saver.list(CONFIG, filter={"step": 1}, limit=3))) == 3


def test_a_strategy_of_pruning_that_does_not_exist_changes_nothing(saver: MnemonSaver) -> None:
    config = put(saver, CONFIG, value=1)
    with pytest.raises(ValueError, match="keep_all"):
        saver.prune(["t"], strategy="keep_all")
    assert saver.get_tuple(config) is not None


def test_a_copy_into_a_thread_keeps_the_later_of_the_latest_checkpoints(saver: MnemonSaver) -> None:
    other: Any = {"configurable": {"thread_id": "other", "checkpoint_ns": ""}}
    first, second = put(saver, CONFIG, value="first"), put(saver, other, value="second")
    saver.copy_thread("t", "other")
    assert saver.get_tuple(other).config == second
    assert [one.checkpoint["channel_values"] for one in saver.list(other)] == [{"value": "second"}, {"value": "first"}]
    saver.copy_thread("other", "t")
    assert saver.get_tuple(CONFIG).checkpoint["channel_values"] == {"value": "second"}
    assert saver.get_tuple(first).checkpoint["channel_values"] == {"value": "first"}


def test_lists_have_the_greatest_ids_whatever_the_order_of_puts(saver: MnemonSaver) -> None:
    chosen = random.Random(5)
    # The runs of the checkpoints of each thread.
    threads: dict[str, dict[str, str]] = {"t": {}, "u": {}}

    def check() -> None:
        for thread, runs in threads.items():
            config: Any = {"configurable": {"thread_id": thread, "checkpoint_ns": ""}}
            for limit in (0, 1, 3, 100):
                for end in ("5", "c", "z"):
                    found = saver.list(config, before={"configurable": {"checkpoint_id": end}}, limit=limit)
                    assert [one.checkpoint["id"] for one in found] == sorted((one for one in runs if one < end), reverse=True)[:limit]
            latest = saver.get_tuple(config)
            assert (latest and latest.checkpoint["id"]) == max(runs, default=None)

    for number in range(60):
        thread, run = chosen.choice(["t", "u"]), chosen.choice("abcd")
        # First in order, then in any order, and some again.
        one = f"{number:02}" if number < 20 else chosen.choice("0123456789abcdef") * 2
        saver.put({"configurable": {"thread_id": thread, "checkpoint_ns": ""}}, empty_checkpoint() | {"id": one}, {"run_id": run}, {})
        saver.put({"configurable": {"thread_id": thread, "checkpoint_ns": "inner"}}, empty_checkpoint(), {}, {})
        threads[thread][one] = run
        check()
        if number in (18, 40):
            saver.copy_thread("t", f"copy-{number}")
            threads[f"copy-{number}"] = dict(threads["t"])
        elif number in (25, 45):
            saver.copy_thread("t", "u")
            threads["u"] |= threads["t"]
        elif number in (35, 50):
            saver.delete_for_runs([run])
            threads = {thread: {one: its for one, its in runs.items() if its != run} for thread, runs in threads.items()}
        elif number == 55:
            saver.prune(["t"])
            threads["t"] = {max(threads["t"]): "kept"}
        check()


def test_odd_names_are_kept_apart(saver: MnemonSaver) -> None:
    threads = ["", "a", "a/b", "a%2Fb", ":", "\u00e9", "x" * 400]
    for thread in threads:
        put(saver, {"configurable": {"thread_id": thread, "checkpoint_ns": f"ns/{thread}|"}}, value=thread)
    found = list(saver.list(None))
    assert sorted(one.checkpoint["channel_values"]["value"] for one in found) == sorted(threads)
    for thread in threads:
        assert len(list(saver.list({"configurable": {"thread_id": thread}}))) == 1
        saver.delete_thread(thread)
    assert list(saver.list(None)) == []


def test_writes_of_many_threads_at_once_are_all_kept(saver: MnemonSaver) -> None:
    config = put(saver, CONFIG, value=0)
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for task in range(5):
                saver.put_writes(config, [("value", f"{number}/{task}")], f"task-{number}-{task}", f"path-{number}-{task}")
                put(saver, config, value=task)
        except BaseException as failure:
            failures.append(failure)

    workers = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not failures
    values = [value for _, _, value in saver.get_tuple(config).pending_writes]
    assert values == sorted(f"{number}/{task}" for number in range(8) for task in range(5))
    everything = list(saver.list(CONFIG))
    assert len(everything) == 41 and everything[0].config == saver.get_tuple(CONFIG).config


def test_pruning_keeps_what_delta_channels_are_made_from(saver: MnemonSaver) -> None:
    class State(TypedDict):
        items: Annotated[list[Any], DeltaChannel(operator.add)]

    builder = StateGraph(State).add_node("noop", lambda _: {}).add_edge(START, "noop").add_edge("noop", END)
    graph = builder.compile(checkpointer=saver)
    for number in range(6):
        graph.invoke({"items": [number]}, CONFIG)
    before = graph.get_state(CONFIG).values
    assert str(before["items"]).count(",") == 5
    saver.prune(["t"])
    assert graph.get_state(CONFIG).values == before
    saver.copy_thread("t", "copy")
    copied: Any = {"configurable": {"thread_id": "copy"}}
    assert graph.get_state(copied).values == before
    graph.invoke({"items": ["more"]}, copied)
    assert "more" in str(graph.get_state(copied).values)
    assert graph.get_state(CONFIG).values == before


def keeping(**options: Any) -> Any:
    return MnemonSaver(Engine(), **options)


@pytest.mark.parametrize("channel", [operator.add, DeltaChannel(lambda old, new: old + [one for some in new for one in some], snapshot_frequency=5)])
def test_a_thread_keeps_its_last_checkpoints_through_an_agents_loop(channel: Any) -> None:
    class State(TypedDict):
        said: Annotated[list[str], channel]
        steps: int

    def act(state: State) -> dict[str, Any]:
        return {"said": [f"step {state['steps']}"], "steps": state["steps"] + 1}

    def graph(saver: Any) -> Any:
        builder = StateGraph(State).add_node("act", act).add_edge(START, "act")
        builder.add_conditional_edges("act", lambda state: END if state["steps"] % 10 == 0 else "act")
        return builder.compile(checkpointer=saver)

    config = {"configurable": {"thread_id": "1"}}
    whole, kept = keeping(), keeping(keep_last=4)
    for turn in range(5):
        for saver in (whole, kept):
            result = graph(saver).invoke({"said": [f"turn {turn}"], "steps": turn * 10}, config)
            assert result["said"][-1] == f"step {turn * 10 + 9}" and len(result["said"]) == (turn + 1) * 11
    all_states, states = (list(graph(saver).get_state_history(config)) for saver in (whole, kept))
    # As many as were asked for, and those that their delta channels need.
    assert 4 <= len(states) <= (4 if channel is operator.add else 14) < len(all_states)
    assert [state.values for state in states[:4]] == [state.values for state in all_states[:4]]
    assert [state.next for state in states[:4]] == [state.next for state in all_states[:4]]
    assert stored(kept) < stored(whole) / 3
    # The graph goes on from an earlier one that stayed.
    assert graph(kept).invoke(None, states[2].config)["said"] == graph(whole).invoke(None, all_states[2].config)["said"]


def test_what_is_kept_does_not_grow() -> None:
    with Engine() as engine:
        saver = MnemonSaver(engine, keep_last=8)
        at, sizes = CONFIG, []
        for number in range(60):
            at = put(saver, at, once=at["configurable"].get("checkpoint_id"), each=number, **({"first": "stays"} if number == 0 else {}))
            saver.put_writes(at, [("each", number)], "task")
            sizes.append(stored(saver))
        assert max(sizes[20:]) <= sizes[12] + 8
        tuples = list(saver.list(CONFIG))
        assert 8 <= len(tuples) <= 10
        for number, one in zip(range(59, 0, -1), tuples, strict=False):
            assert one.checkpoint["channel_values"]["each"] == number and one.checkpoint["channel_values"]["first"] == "stays"
            assert [value for _, _, value in one.pending_writes] == [number]
        # Another namespace of the thread, and another thread, are their own.
        sub: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": "sub"}}
        put(saver, sub, each=1)
        assert len(list(saver.list(sub))) == 1 and len(list(saver.list(CONFIG))) == len(tuples)


def test_checkpoints_are_kept_for_a_time_and_the_newest_for_ever() -> None:
    for options, left in [
        ({"keep_for": timedelta(hours=1)}, 80),
        ({"keep_for": timedelta(0)}, 32),
        ({"keep_for": timedelta(0), "keep_last": 10}, 12),
        ({"keep_for": timedelta(hours=1), "keep_last": 10}, 80),
    ]:
        saver, at = keeping(**options), CONFIG
        for number in range(80):
            at = put(saver, at, each=number)
        found = list(saver.list(CONFIG))
        assert len(found) <= left and found[0].checkpoint["channel_values"] == {"each": 79}, options
        assert len(found) >= left - 31 if left < 80 else len(found) == 80, (options, len(found))
    for wrong in [{"keep_last": 0}, {"keep_for": timedelta(-1)}]:
        with pytest.raises(InvalidValueError, match="None to keep all"):
            keeping(**wrong)
