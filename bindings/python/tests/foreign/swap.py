"""A plugin of pytest that puts our stores and savers in the place of those that LangGraph's own tests make.

No server of PostgreSQL is asked for: what fixtures do there to make and drop databases does nothing. A test that passes and makes none of
ours says nothing about them: it is reported as skipped.
"""

import contextlib
from collections.abc import AsyncIterator, Iterator
from typing import Any

import langgraph.checkpoint.postgres
import langgraph.checkpoint.postgres.aio
import langgraph.checkpoint.sqlite
import langgraph.checkpoint.sqlite.aio
import langgraph.store.memory
import langgraph.store.postgres
import langgraph.store.sqlite
import langgraph.store.sqlite.aio
import psycopg
import psycopg_pool
import pytest
from langgraph.store.base import ensure_embeddings

from mnemon import Config, Engine
from mnemon.langgraph import MnemonSaver, MnemonStore

# What the test that runs has made.
MADE: list[Any] = []


class Embedder:
    """An embedder of LangChain's interface, as the engine wants it: with vectors of length 1."""

    name = "foreign"

    def __init__(self, index: Any) -> None:
        self.embeddings, self.dimension = ensure_embeddings(index.get("embed")), index["dims"]

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [self.unit(vector) for vector in self.embeddings.embed_documents(texts)]

    def unit(self, vector: list[float]) -> list[float]:
        length = sum(x * x for x in vector) ** 0.5
        return [x / (length or 1.0) for x in vector]


class Connection:
    """A connection to nothing."""

    def execute(self, *_: Any) -> None: ...

    def pipeline(self) -> Any:
        return contextlib.nullcontext()


class AsyncConnection(Connection):
    """The same for `await`."""

    async def execute(self, *_: Any) -> None: ...  # type: ignore[override]


class Store(MnemonStore):
    """Our store on an engine of its own, made as LangGraph's are."""

    connection = Connection
    # Fixtures change them.
    MIGRATIONS: tuple[Any, ...] | list[Any] = ()

    def __init__(self, *, index: Any = None, ttl: Any = None, **_: Any) -> None:
        engine = Engine(embedder=Embedder(index) if index else None, config=Config(threads=1))
        fields = index and (index.get("fields") or index.get("text_fields"))
        super().__init__(engine, fields=fields, ttl=ttl)
        self.index_config, self.embeddings = index, index and ensure_embeddings(index.get("embed"))
        MADE.append(self)

    def _cursor(self) -> Any:
        return contextlib.nullcontext(self.connection())

    def setup(self) -> None:
        """Ours needs none."""

    # What has expired is gone at once.
    def sweep_ttl(self) -> int:
        return 0

    def start_ttl_sweeper(self) -> None: ...

    def stop_ttl_sweeper(self) -> None: ...

    @classmethod
    @contextlib.contextmanager
    def from_conn_string(cls, _: str, **options: Any) -> Iterator["Store"]:
        store = cls(**options)
        yield store
        store.engine.close()


class AsyncStore(Store):
    """The same for `async with`."""

    connection = AsyncConnection

    async def setup(self) -> None:  # type: ignore[override]
        """Ours needs none."""

    async def sweep_ttl(self) -> int:  # type: ignore[override]
        return 0

    async def start_ttl_sweeper(self) -> None: ...  # type: ignore[override]

    async def stop_ttl_sweeper(self) -> None: ...  # type: ignore[override]

    @classmethod
    @contextlib.asynccontextmanager
    async def from_conn_string(cls, _: str, **options: Any) -> AsyncIterator["AsyncStore"]:  # type: ignore[override]
        store = cls(**options)
        yield store
        store.engine.close()


class Saver(MnemonSaver):
    """Our saver on an engine of its own."""

    MIGRATIONS = ()

    def __init__(self, *_: Any, **__: Any) -> None:
        super().__init__(Engine(config=Config(threads=1)))
        MADE.append(self)

    def setup(self) -> None:
        """Ours needs none."""

    @classmethod
    @contextlib.contextmanager
    def from_conn_string(cls, _: str) -> Iterator["Saver"]:
        saver = cls()
        yield saver
        saver.engine.close()


class AsyncSaver(Saver):
    """The same for `async with`."""

    async def setup(self) -> None:  # type: ignore[override]
        """Ours needs none."""

    @classmethod
    @contextlib.asynccontextmanager
    async def from_conn_string(cls, _: str) -> AsyncIterator["AsyncSaver"]:  # type: ignore[override]
        saver = cls()
        yield saver
        saver.engine.close()


async def connect(*_: Any, **__: Any) -> Any:
    return contextlib.nullcontext(AsyncConnection())


for module in (langgraph.store.memory, langgraph.store.sqlite, langgraph.store.sqlite.aio, langgraph.store.postgres):
    for name, ours in [("InMemoryStore", Store), ("SqliteStore", Store), ("PostgresStore", Store)]:
        setattr(module, name, ours)
        setattr(module, f"Async{name}", AsyncStore)
for module in (
    langgraph.checkpoint.sqlite,
    langgraph.checkpoint.sqlite.aio,
    langgraph.checkpoint.postgres,
    langgraph.checkpoint.postgres.aio,
):
    for name in ("SqliteSaver", "PostgresSaver"):
        setattr(module, name, Saver)
        setattr(module, f"Async{name}", AsyncSaver)
psycopg.Connection.connect = lambda *_, **__: contextlib.nullcontext(Connection())  # type: ignore[method-assign,assignment]
psycopg.AsyncConnection.connect = connect  # type: ignore[method-assign,assignment]
psycopg_pool.ConnectionPool = psycopg_pool.AsyncConnectionPool = contextlib.nullcontext  # type: ignore[misc,assignment]


def pytest_runtest_setup() -> None:
    MADE.clear()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    report = yield
    if call.when == "call" and report.passed and not MADE:
        report.outcome, report.longrepr = "skipped", (str(item.path), item.location[1], "makes none of ours")
    return report
