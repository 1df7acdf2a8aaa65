"""A plugin of pytest that puts our storage in the place of the LanceDB and Qdrant storages that tests of CrewAI make.

A test that passes and calls none says nothing about ours: it is reported as skipped.
"""

import os
import sys
from collections.abc import Iterator
from importlib import import_module
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from mnemon import Config, Engine
from mnemon.crewai import MnemonStorage

ENGINES: dict[Path, Engine] = {}


class Storage(MnemonStorage):
    """Our storage, made as theirs are: those on one path share an engine."""

    calls = 0

    def __init__(self, path: str | Path = "memory", vector_dim: int | None = None) -> None:
        path = Path(path).resolve()
        if path not in ENGINES:
            path.mkdir(parents=True, exist_ok=True)
            ENGINES[path] = Engine(path / "memory.redb", config=Config(threads=1))
        super().__init__(ENGINES[path], "memory")

    @property
    def engine(self) -> Engine:  # type: ignore[override]
        Storage.calls += 1
        return self.own

    @engine.setter
    def engine(self, engine: Engine) -> None:
        self.own = engine

    def close(self) -> None:
        """The engine stays open for the others."""


def module(name: str, **names: Any) -> None:
    """A module as if its package were installed."""
    sys.modules[name] = ModuleType(name)
    sys.modules[name].__dict__.update(names, __spec__=ModuleSpec(name, None))


os.environ |= {"CREWAI_DISABLE_TELEMETRY": "true", "OTEL_SDK_DISABLED": "true"}
import_module("crewai.memory.storage.lancedb_storage").LanceDBStorage = Storage  # type: ignore[attr-defined]
module("qdrant_edge")
module("crewai.memory.storage.qdrant_edge_storage", QdrantEdgeStorage=Storage)


@pytest.fixture(autouse=True)
def paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What is stored without a path is of one test."""
    monkeypatch.chdir(tmp_path)
    Storage.calls = 0
    yield
    for engine in ENGINES.values():
        engine.close()
    ENGINES.clear()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[Any]:
    report = yield
    if call.when == "call" and report.passed and not Storage.calls:
        report.outcome, report.longrepr = "skipped", (str(item.path), item.location[1], "calls no storage")
    return report
