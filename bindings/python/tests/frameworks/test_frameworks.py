"""What the adapters of all frameworks do: they take an engine with `await` or without, name a missing framework, and have an example."""

import asyncio
import inspect
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from agent_framework import AgentSession, SessionContext
from agent_framework import Message as ChatMessage
from haystack import Document

from mnemon import AsyncEngine, Engine
from mnemon.adk import MnemonMemoryService, MnemonSessionService
from mnemon.agent_framework import MnemonContextProvider, MnemonHistoryProvider
from mnemon.agno import MnemonAsyncDb, MnemonDb
from mnemon.autogen import MnemonMemory
from mnemon.crewai import MnemonStorage
from mnemon.haystack import MnemonDocumentStore
from mnemon.pydantic_ai import MnemonConversationStore, MnemonToolset
from mnemon.strands import MnemonSessionRepository

FOLDER = Path(__file__).parent.parent.parent
EXAMPLES = sorted(FOLDER.glob("examples/frameworks/*.py"))
# The module of each adapter, its package, and the package's own module.
FRAMEWORKS = [
    ("adk", "google-adk", "google.adk"),
    ("agent_framework", "agent-framework-core", "agent_framework"),
    ("crewai", "crewai", "crewai"),
    ("pydantic_ai", "pydantic-ai-slim", "pydantic_ai"),
    ("agno", "agno", "agno"),
    ("strands", "strands-agents", "strands"),
    ("haystack", "haystack-ai", "haystack"),
    ("autogen", "autogen-core", "autogen_core"),
]
# What an adapter's classes need beside an engine.
ADAPTERS: list[tuple[Callable[..., Any], dict[str, Any]]] = [
    (MnemonSessionService, {}),
    (MnemonMemoryService, {}),
    (MnemonHistoryProvider, {"namespace": "n"}),
    (MnemonContextProvider, {"namespace": "n"}),
    (MnemonStorage, {"namespace": "n"}),
    (MnemonConversationStore, {"namespace": "n"}),
    (MnemonToolset, {"namespace": "n"}),
    (MnemonDb, {"namespace": "n"}),
    (MnemonAsyncDb, {"namespace": "n"}),
    (MnemonSessionRepository, {"namespace": "n"}),
    (MnemonDocumentStore, {"namespace": "n"}),
    (MnemonMemory, {"namespace": "n"}),
]


@pytest.mark.parametrize(("adapter", "options"), ADAPTERS)
def test_an_adapter_takes_an_engine_with_await_or_without_and_refuses_others(
    adapter: Callable[..., Any], options: dict[str, Any]
) -> None:
    with Engine() as engine:
        for given in (engine, AsyncEngine(engine)):
            assert adapter(engine=given, **options).engine is engine
        for other in ("memory.redb", None, engine.memory("n", "s")):
            with pytest.raises(TypeError, match=r"not (str|NoneType|Memory): take mnemon.Engine\(path\) or await mnemon.AsyncEngine"):
                adapter(engine=other, **options)


async def recalled(engine: Engine) -> list[Any]:
    """What adapters find that search for what was put just before."""
    context = SessionContext(session_id="s", input_messages=[ChatMessage("user", ["kayak"])])
    run: Any = {"agent": None, "session": AgentSession(session_id="s"), "context": context, "state": {}}
    await MnemonContextProvider(engine, "n").before_run(**run)
    return [
        (await MnemonMemoryService(engine, prefix="adk/memory").search_memory(app_name="a", user_id="u", query="kayak")).memories,
        context.get_messages(),
        await MnemonToolset(engine, "n").recall("kayak"),
        MnemonDocumentStore(engine, "haystack").search("kayak"),
    ]


def test_adapters_search_beside_the_program_that_writes(tmp_path: Path) -> None:
    with Engine(tmp_path / "m.redb") as engine:
        for namespace in ("n", "adk/memory/a/u"):
            engine.put(namespace, ["My kayak is red."])
        MnemonDocumentStore(engine, "haystack").write_documents([Document(content="My kayak is red.")])
    with Engine(tmp_path / "m.redb", read_only=True) as engine:
        assert engine.pending() and [len(found) for found in asyncio.run(recalled(engine))] == [1] * 4


def test_every_adapter_is_tried_and_has_an_example() -> None:
    modules = [import_module(f"mnemon.{name}") for name, _, _ in FRAMEWORKS]
    named = {found for module in modules for name, found in inspect.getmembers(module, inspect.isclass) if name.startswith("Mnemon")}
    # Those of Haystack that find documents take its store.
    public = {found for found in named if "engine" in inspect.signature(found).parameters}
    assert public == {adapter for adapter, _ in ADAPTERS}
    shown = "".join(example.read_text() for example in EXAMPLES)
    assert [name for name, _, _ in FRAMEWORKS if f"from mnemon.{name} import" not in shown] == []


@pytest.mark.parametrize(("adapter", "package", "module"), FRAMEWORKS)
def test_a_missing_framework_is_named(adapter: str, package: str, module: str, tmp_path: Path) -> None:
    # A module of the same name in the program's folder hides a framework, which is as if it were not there.
    command = [sys.executable, "-c", f"import sys; sys.modules[{module!r}] = None; import mnemon.{adapter}"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith(f"ImportError: mnemon.{adapter} needs the package {package}, ")
    assert last.endswith(f"pip install -U {package}")


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_runs_twice_on_one_file(example: Path, tmp_path: Path) -> None:
    for _ in range(2):
        done = subprocess.run([sys.executable, example], cwd=tmp_path, capture_output=True, text=True, timeout=600)
        assert done.returncode == 0, done.stderr
        assert "Thursday" in done.stdout
