"""A plugin of pytest that puts our repository in the place of the files and of the dictionaries that tests of Strands store sessions in.

A test that passes and makes none says nothing about ours: it is reported as skipped.
"""

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import strands.session
import strands.session.file_session_manager
from strands.session.repository_session_manager import RepositorySessionManager

from mnemon import Config, Engine
from mnemon.strands import MnemonSessionRepository

ENGINES: dict[Path | None, Engine] = {}


class Repository(MnemonSessionRepository):
    """Our repository, made as theirs are: those on one folder share an engine."""

    made = 0

    def __init__(self, folder: str | None = None) -> None:
        Repository.made += 1
        path = Path(folder).resolve() if folder else None
        if path is None or path not in ENGINES:
            ENGINES[path] = Engine(path and path / "memory.redb", config=Config(threads=1))
        super().__init__(ENGINES[path], "sessions")


class Manager(RepositorySessionManager, Repository):
    def __init__(self, session_id: str, storage_dir: str, **_: Any) -> None:
        Repository.__init__(self, storage_dir)
        RepositorySessionManager.__init__(self, session_id, self)


strands.session.FileSessionManager = strands.session.file_session_manager.FileSessionManager = Manager  # type: ignore[misc,assignment]
import_module("tests.fixtures.mock_session_repository").MockedSessionRepository = Repository  # type: ignore[attr-defined]


@pytest.fixture(autouse=True)
def engines() -> Iterator[None]:
    """What is stored is of one test."""
    Repository.made = 0
    yield
    for engine in ENGINES.values():
        engine.close()
    ENGINES.clear()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[Any]:
    report = yield
    if call.when == "call" and report.passed and not Repository.made:
        report.outcome, report.longrepr = "skipped", (str(item.path), item.location[1], "makes no repository")
    return report
