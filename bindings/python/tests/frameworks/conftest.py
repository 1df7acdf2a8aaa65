import os
from collections.abc import Iterator

import pytest

from mnemon import Engine

# CrewAI sends nothing from tests.
os.environ |= {"CREWAI_DISABLE_TELEMETRY": "true", "OTEL_SDK_DISABLED": "true"}


def pytest_configure(config: pytest.Config) -> None:
    """The frameworks' own warnings are theirs."""
    for module in ("crewai", "pydantic", "importlib"):
        config.addinivalue_line("filterwarnings", f"ignore:::{module}")


@pytest.fixture
def engine() -> Iterator[Engine]:
    with Engine() as engine:
        yield engine
