"""A plugin of pytest that puts our memory in the place of the `ListMemory` that tests of AutoGen make.

A test that passes and makes none says nothing about ours: it is reported as skipped.
"""

from collections.abc import Iterator
from typing import Any

import autogen_core.memory
import pytest

from mnemon import Config, Engine
from mnemon.autogen import MnemonMemory


class ListMemory(MnemonMemory):
    """Our memory on an engine of its own, made as theirs is."""

    made = 0

    def __init__(self, name: str | None = None, memory_contents: Any = None) -> None:
        ListMemory.made += 1
        super().__init__(Engine(config=Config(threads=1)), name or "default_list_memory")


autogen_core.memory.ListMemory = ListMemory  # type: ignore[assignment,misc]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[Any]:
    report = yield
    if call.when == "setup":
        ListMemory.made = 0
    elif call.when == "call" and report.passed and not ListMemory.made:
        report.outcome, report.longrepr = "skipped", (str(item.path), item.location[1], "makes no memory")
    return report
