"""The engine on event loops."""

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, get_args

import pytest
import trio

import mnemon
from mnemon import AsyncEngine, Engine, Message
from mnemon._wait import finish

LOOPS: dict[str, Callable[[Callable[[], Awaitable[None]]], Any]] = {
    "asyncio": lambda main: asyncio.run(main()),  # type: ignore[arg-type]
    "trio": lambda main: trio.run(main),
}


@pytest.mark.parametrize("loop", LOOPS)
def test_the_methods_work_with_await(loop: str, tmp_path: Path) -> None:
    async def main() -> None:
        async with await AsyncEngine.open(tmp_path / "memory.redb", config=mnemon.Config(journal=10)) as engine:
            await engine.put("acme/ada", [Message("My bike is in the cellar.", id="m1")])
            assert await engine.flush() == 1 and await engine.pending() == 0
            hits = await engine.recall("acme/ada", "where is the bike?", k=1)
            assert hits[0].message.id == "m1"
            [entry] = await engine.journal("acme/ada", limit=1)
            assert (await engine.replay(entry))["is_unchanged"]
            memory = await engine.memory("acme/ada", "s", blocks=[mnemon.VectorBlock("memories")])
            await memory.put([Message("Hello.")])
            assert "cellar" in str((await memory.assemble(Message("where is the bike?"))).to_dict())
            documents = engine.documents("acme/ada")
            await documents.put("k", {"title": "boats"})
            assert [document.key for document in await documents.search("boats", limit=1)] == ["k"]
            profile = mnemon.AsyncProfile(mnemon.Profile(engine.engine, "acme/ada"))
            assert await profile.update([Message("I am Ada.")], lambda request: '{"name": "Ada"}') == {"name": "Ada"}
            facts = mnemon.AsyncCollection(mnemon.Collection(engine.engine, "acme/ada/facts"))
            key = await facts.add({"text": "Ada rows."})
            assert [fact.key for fact in await facts.search(limit=1)] == [key]
            with pytest.raises(mnemon.InvalidNamespaceError):
                await engine.recall("", "x")
        with pytest.raises(mnemon.ClosedError):
            await engine.flush()

    LOOPS[loop](main)


def test_the_loop_goes_on_while_calls_wait() -> None:
    """Twenty puts and twenty recalls at once, beside a task of the loop that the embedder waits for."""
    ticks = 0

    class Slow:
        name, dimension = "slow", 2

        def embed_documents(self, texts: list[str]) -> list[list[float]]:
            before = ticks
            while ticks < before + 2:
                pass
            return [[1.0, 0.0] for _ in texts]

    async def tick() -> None:
        nonlocal ticks
        while True:
            ticks += 1
            await asyncio.sleep(0.001)

    async def main() -> None:
        ticking = asyncio.create_task(tick())
        async with await AsyncEngine.open(embedder=Slow()) as engine:
            await asyncio.gather(*(engine.put("n", [Message(f"text {i}")]) for i in range(20)))
            await engine.flush()
            found = await asyncio.gather(*(engine.recall("n", "text", k=20) for _ in range(20)))
            assert [len(hits) for hits in found] == [20] * 20
        ticking.cancel()

    asyncio.run(main())


PAIRS: list[tuple[type, type]] = [
    (Engine, AsyncEngine),
    (mnemon.Documents, mnemon.AsyncDocuments),
    (mnemon.Memory, mnemon.AsyncMemory),
    (mnemon.Profile, mnemon.AsyncProfile),
    (mnemon.Collection, mnemon.AsyncCollection),
]


def test_nothing_of_the_engine_is_missing() -> None:
    """`AsyncEngine.engine.model` and `AsyncDocuments.documents.namespace` need no wait."""
    missing = {
        name
        for plain, awaited in PAIRS
        for name, _ in inspect.getmembers(plain)
        if not name.startswith("_") and not hasattr(awaited, name)
    }
    assert missing == {"model", "namespace"}


def defaults(method: Any) -> dict[str, Any]:
    """The arguments of a method with their defaults; those of a `TypedDict` of options have none of their own."""
    [_, *parameters] = inspect.signature(method).parameters.values()
    found = {}
    for parameter in parameters:
        if parameter.kind is parameter.VAR_KEYWORD:
            [options] = get_args(parameter.annotation)
            found.update(dict.fromkeys(options.__annotations__, ...))
        else:
            found[parameter.name.removeprefix("r#")] = parameter.default
    return found


def test_each_method_takes_what_it_takes_without_await() -> None:
    methods = [(plain, awaited, name) for plain, awaited in PAIRS for name in vars(plain) if inspect.isfunction(getattr(awaited, name, None))]
    assert len(methods) > 70
    for plain, awaited, name in methods:
        with_await, without = defaults(getattr(awaited, name)), defaults(getattr(plain, name))
        assert with_await == {key: ... if with_await.get(key) is ... else value for key, value in without.items()}, (plain, name)


@pytest.mark.parametrize("loop", LOOPS)
def test_a_stop_iteration_ends_the_call(loop: str) -> None:
    """A future does not take one, so the call would never return."""

    class Ended:
        def model_dump(self) -> dict[str, Any]:
            raise StopIteration

    async def main() -> None:
        async with await AsyncEngine.open() as engine:
            with pytest.raises(RuntimeError) as raised:
                await engine.put("acme/ada", Ended())
            assert isinstance(raised.value.__cause__, StopIteration)

    LOOPS[loop](main)


@pytest.mark.parametrize("loop", LOOPS)
def test_a_change_is_done_to_its_end_before_its_cancellation_goes_on(loop: str) -> None:
    done = []

    def change() -> None:
        time.sleep(0.3)
        done.append(True)

    async def main() -> None:
        if loop == "trio":
            with trio.move_on_after(0.05) as scope:
                await finish(change)
            assert scope.cancel_called
        else:
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(finish(change), 0.05)
        assert done

    LOOPS[loop](main)
