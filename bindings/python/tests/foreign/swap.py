"""A plugin of pytest that puts our store and saver in the place of those that LangGraph's own tests make."""

import contextlib
from collections.abc import AsyncIterator, Iterator
from typing import Any

import langgraph.checkpoint.sqlite
import langgraph.checkpoint.sqlite.aio
import langgraph.store.memory
import langgraph.store.sqlite
import langgraph.store.sqlite.aio
from langgraph.store.base import ensure_embeddings

from mnemon import Config, Engine
from mnemon.langgraph import MnemonSaver, MnemonStore


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


class Store(MnemonStore):
    """Our store on an engine of its own, made as LangGraph's are."""

    __slots__ = ("embeddings", "index_config")

    def __init__(self, *, index: Any = None, ttl: Any = None) -> None:
        engine = Engine(embedder=Embedder(index) if index else None, config=Config(threads=1))
        fields = index and (index.get("fields") or index.get("text_fields"))
        super().__init__(engine, fields=fields, ttl=ttl)
        self.index_config, self.embeddings = index, index and ensure_embeddings(index.get("embed"))

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

    @classmethod
    @contextlib.contextmanager
    def from_conn_string(cls, _: str) -> Iterator["Saver"]:
        with Engine() as engine:
            yield cls(engine)


class AsyncSaver(MnemonSaver):
    """The same for `async with`."""

    @classmethod
    @contextlib.asynccontextmanager
    async def from_conn_string(cls, _: str) -> AsyncIterator["AsyncSaver"]:
        with Engine() as engine:
            yield cls(engine)


langgraph.store.memory.InMemoryStore = Store  # type: ignore[misc,assignment]
langgraph.store.sqlite.SqliteStore = Store  # type: ignore[misc,assignment]
langgraph.store.sqlite.AsyncSqliteStore = AsyncStore  # type: ignore[misc,assignment]
langgraph.store.sqlite.aio.AsyncSqliteStore = AsyncStore  # type: ignore[misc,assignment]
langgraph.checkpoint.sqlite.SqliteSaver = Saver  # type: ignore[misc,assignment]
langgraph.checkpoint.sqlite.aio.AsyncSqliteSaver = AsyncSaver  # type: ignore[misc,assignment]
