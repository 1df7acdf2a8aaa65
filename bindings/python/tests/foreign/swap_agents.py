"""A plugin of pytest that puts our session in the place of the `SQLiteSession` that tests of the OpenAI Agents SDK make.

A test that passes and makes none says nothing about ours: it is reported as skipped.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import agents
import agents.memory.sqlite_session
import pytest
from agents.memory.session_settings import coerce_session_settings

from mnemon import Config, Engine
from mnemon.openai_agents import MnemonSession

ENGINES: dict[Path, list[Any]] = {}


class Session(MnemonSession):
    """Our session, made as theirs is: those on one path share an engine, which the last one closes."""

    made = 0

    def __init__(self, session_id: str, db_path: str | Path = ":memory:", *, session_settings: Any = None) -> None:
        Session.made += 1
        self.path = None if str(db_path) == ":memory:" else Path(db_path).resolve()
        if self.path is None:
            engine = Engine(config=Config(threads=1))
        else:
            users = ENGINES.setdefault(self.path, [])
            engine = users[0].engine if users else Engine(self.path, config=Config(threads=1))
            users.append(self)
        super().__init__(engine, "sessions", session_id, session_settings=coerce_session_settings(session_settings or {}))

    def close(self) -> None:
        users = ENGINES.get(self.path, []) if self.path else []
        if self in users:
            users.remove(self)
        if not users:
            self.engine.close()


agents.SQLiteSession = agents.memory.SQLiteSession = agents.memory.sqlite_session.SQLiteSession = Session  # type: ignore[assignment,misc]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    report = yield
    if call.when == "setup":
        Session.made = 0
    elif call.when == "call" and report.passed and not Session.made:
        report.outcome, report.longrepr = "skipped", (str(item.path), item.location[1], "makes no session")
    return report
