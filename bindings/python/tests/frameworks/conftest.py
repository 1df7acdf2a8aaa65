import os
from collections.abc import Iterator

import pytest

from mnemon import Engine

# CrewAI sends nothing from tests.
os.environ |= {"CREWAI_DISABLE_TELEMETRY": "true", "OTEL_SDK_DISABLED": "true"}


@pytest.fixture
def engine() -> Iterator[Engine]:
    with Engine() as engine:
        yield engine
