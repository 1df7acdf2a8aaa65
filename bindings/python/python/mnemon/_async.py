"""The engine for programs with an event loop."""

from collections.abc import Callable, Iterable
from datetime import datetime
from os import PathLike
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack

from ._errors import InvalidTypeError
from ._mnemon import (
    Collection,
    Document,
    DocumentOperation,
    Documents,
    Engine,
    Hits,
    JournalEntry,
    Memory,
    Message,
    Profile,
    Prompt,
    Query,
    Vectors,
)
from ._options import (
    ChatModel,
    EmbedderLike,
    EngineOptions,
    FileOptions,
    ForgetOptions,
    MemoryOptions,
    MessageLike,
    Messages,
    ReindexOptions,
    ScopeOptions,
    SearchOptions,
    VectorsLike,
)
from ._reports import (
    BlockStatus,
    CheckpointInfo,
    CollectionReport,
    CollectionUpdate,
    ImportReport,
    MemoryReport,
    NamespaceInfo,
    PurgeReport,
    PutReport,
    ReindexProgress,
    ReindexReport,
    Replay,
    SessionInfo,
    UndoReport,
)
from ._wait import wait

_T = TypeVar("_T")


class AsyncEngine:
    """`Engine` for programs with an event loop, asyncio's or trio's: its methods with `await`.

    The calls run on threads, so the loop goes on meanwhile. `await AsyncEngine.open(...)` takes what `Engine` takes; use it as
    `async with await AsyncEngine.open("memory.redb") as engine:`.
    """

    def __init__(self, engine: "Engine | AsyncEngine") -> None:
        self.engine = engine_of(engine)

    @classmethod
    async def open(cls, path: str | PathLike[str] | None = None, **options: Unpack[EngineOptions]) -> Self:
        return cls(await wait(Engine, path, **options))

    async def reopen(self) -> "AsyncEngine":
        return AsyncEngine(await wait(self.engine.reopen))

    async def put(self, namespace: str, messages: Messages) -> PutReport:
        return await wait(self.engine.put, namespace, messages)

    async def put_all(self, messages: Iterable[tuple[str, MessageLike]]) -> PutReport:
        return await wait(self.engine.put_all, messages)

    async def import_files(self, path: str | PathLike[str], **options: Unpack[FileOptions]) -> ImportReport:
        return await wait(self.engine.import_files, path, **options)

    async def flush(self) -> int:
        return await wait(self.engine.flush)

    async def link(self) -> int:
        return await wait(self.engine.link)

    async def pending(self) -> int:
        return await wait(self.engine.pending)

    async def recall(self, namespace: str, query: Query | str, *, k: int | None = None) -> Hits:
        return await wait(self.engine.recall, namespace, query, k=k)

    async def recall_in(self, query: Query | str, **scope: Unpack[ScopeOptions]) -> Hits:
        return await wait(self.engine.recall_in, query, **scope)

    async def journal(self, namespace: str, *, limit: int = 100, before: int | None = None) -> list[JournalEntry]:
        return await wait(self.engine.journal, namespace, limit=limit, before=before)

    async def replay(self, entry: JournalEntry) -> Replay:
        return await wait(self.engine.replay, entry)

    async def get(self, namespace: str, id: str) -> Message | None:
        return await wait(self.engine.get, namespace, id)

    async def versions(self, namespace: str, id: str) -> list[tuple[Message, datetime]]:
        return await wait(self.engine.versions, namespace, id)

    async def set_metadata(self, namespace: str, id: str, metadata: dict[str, Any]) -> bool:
        return await wait(self.engine.set_metadata, namespace, id, metadata)

    async def delete(self, namespace: str, ids: Iterable[str]) -> int:
        return await wait(self.engine.delete, namespace, ids)

    async def sessions(self, namespace: str, *, limit: int | None = None, after: str | None = None) -> list[SessionInfo]:
        return await wait(self.engine.sessions, namespace, limit=limit, after=after)

    async def blocks(self, namespace: str) -> list[dict[str, Any]]:
        return await wait(self.engine.blocks, namespace)

    async def history(
        self, namespace: str, session: str, *, limit: int | None = None, before: str | None = None
    ) -> list[Message]:
        return await wait(self.engine.history, namespace, session, limit=limit, before=before)

    async def vectors(self, namespace: str, ids: Iterable[str]) -> Vectors:
        return await wait(self.engine.vectors, namespace, ids)

    async def copy_session(self, namespace: str, source: str, target: str) -> int:
        return await wait(self.engine.copy_session, namespace, source, target)

    async def delete_session(self, namespace: str, session: str) -> None:
        await wait(self.engine.delete_session, namespace, session)

    async def namespaces(self, prefix: str | None = None) -> list[NamespaceInfo]:
        return await wait(self.engine.namespaces, prefix)

    async def delete_namespace(self, namespace: str) -> int:
        return await wait(self.engine.delete_namespace, namespace)

    async def delete_namespaces(self, prefix: str) -> dict[str, int]:
        return await wait(self.engine.delete_namespaces, prefix)

    async def forget(self, namespace: str, **what: Unpack[ForgetOptions]) -> dict[str, Any]:
        return await wait(self.engine.forget, namespace, **what)

    async def audit(self) -> dict[str, Any]:
        return await wait(self.engine.audit)

    async def hold(self, namespace: str, reason: str) -> dict[str, Any]:
        return await wait(self.engine.hold, namespace, reason)

    async def release(self, namespace: str) -> dict[str, Any] | None:
        return await wait(self.engine.release, namespace)

    async def holds(self) -> list[dict[str, Any]]:
        return await wait(self.engine.holds)

    async def set_ttl(self, namespace: str, ttl_minutes: float | None) -> None:
        await wait(self.engine.set_ttl, namespace, ttl_minutes)

    async def set_language(self, namespace: str, language: str) -> None:
        await wait(self.engine.set_language, namespace, language)

    async def anchor(self) -> str:
        return await wait(self.engine.anchor)

    async def stats(self) -> dict[str, Any]:
        return await wait(self.engine.stats)

    async def embed_documents(self, texts: Iterable[str]) -> Vectors:
        return await wait(self.engine.embed_documents, texts)

    async def embed_query(self, text: str) -> list[float]:
        return await wait(self.engine.embed_query, text)

    async def reindex(self, embedder: EmbedderLike, **options: Unpack[ReindexOptions]) -> ReindexReport:
        """As `Engine.reindex`; `progress` is called on another thread."""
        return await wait(self.engine.reindex, embedder, **options)

    async def rollback(
        self, embedder: EmbedderLike, *, progress: Callable[[ReindexProgress], bool | None] | None = None
    ) -> ReindexReport:
        """As `Engine.rollback`; `progress` is called on another thread."""
        return await wait(self.engine.rollback, embedder, progress=progress)

    async def drop_previous(self) -> bool:
        return await wait(self.engine.drop_previous)

    async def export(self, path: str | PathLike[str], namespace: str | None = None) -> dict[str, int]:
        return await wait(self.engine.export, path, namespace)

    async def import_from(self, path: str | PathLike[str], namespace: str | None = None) -> dict[str, int]:
        return await wait(self.engine.import_from, path, namespace)

    async def backup(self, path: str | PathLike[str]) -> None:
        await wait(self.engine.backup, path)

    async def purge(self) -> PurgeReport:
        return await wait(self.engine.purge)

    def documents(self, namespace: str) -> "AsyncDocuments":
        return AsyncDocuments(self.engine.documents(namespace))

    async def document_batch(self, operations: DocumentOperation | Iterable[DocumentOperation]) -> list[Any]:
        return await wait(self.engine.document_batch, operations)

    async def memory(self, namespace: str, session: str, **options: Unpack[MemoryOptions]) -> "AsyncMemory":
        return AsyncMemory(await wait(self.engine.memory, namespace, session, **options))

    async def close(self) -> None:
        await wait(self.engine.close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


class AsyncDocuments:
    """`Documents` with `await`."""

    def __init__(self, documents: "Documents | AsyncDocuments") -> None:
        self.documents = _plain(documents, Documents, AsyncDocuments, "engine.documents(namespace)")

    async def put(
        self,
        key: str,
        value: Any,
        *,
        index: Iterable[str] | None = None,
        ttl_minutes: float | None = None,
        vectors: VectorsLike | None = None,
    ) -> None:
        await wait(self.documents.put, key, value, index=index, ttl_minutes=ttl_minutes, vectors=vectors)

    async def get(self, key: str) -> Document | None:
        return await wait(self.documents.get, key)

    async def delete(self, key: str) -> bool:
        return await wait(self.documents.delete, key)

    async def search(self, query: str | None = None, **options: Unpack[SearchOptions]) -> list[Document]:
        return await wait(self.documents.search, query, **options)

    async def vectors(self, keys: Iterable[str]) -> Vectors:
        return await wait(self.documents.vectors, keys)


class AsyncMemory:
    """`Memory` with `await`."""

    def __init__(self, memory: "Memory | AsyncMemory") -> None:
        self.memory = _plain(memory, Memory, AsyncMemory, "engine.memory(namespace, session)")

    async def put(self, messages: Messages) -> MemoryReport:
        return await wait(self.memory.put, messages)

    async def sync(self, chat: Messages) -> MemoryReport:
        return await wait(self.memory.sync, chat)

    async def get(self, input: MessageLike | None = None) -> Prompt:
        return await wait(self.memory.get, input)

    async def assemble(
        self,
        message: MessageLike,
        *,
        recall: int | None = None,
        min_score: float | None = None,
        time_zone: str | None = None,
        after: str | None = None,
    ) -> Prompt:
        return await wait(
            self.memory.assemble, message, recall=recall, min_score=min_score, time_zone=time_zone, after=after
        )

    async def add_step(self, step: MessageLike) -> None:
        await wait(self.memory.add_step, step)

    async def steps(self) -> list[Message]:
        return await wait(self.memory.steps)

    async def set(self, messages: Messages) -> MemoryReport:
        return await wait(self.memory.set, messages)

    async def clear(self) -> int:
        return await wait(self.memory.clear)

    async def messages(self) -> list[Message]:
        return await wait(self.memory.messages)

    async def history(self) -> list[Message]:
        return await wait(self.memory.history)

    async def search(self, query: Query | str, *, k: int | None = None) -> Hits:
        return await wait(self.memory.search, query, k=k)

    async def flush(self) -> list[str]:
        return await wait(self.memory.flush)

    async def settle(self) -> None:
        await wait(self.memory.settle)

    async def reset(self) -> None:
        await wait(self.memory.reset)

    async def checkpoint(self, label: str) -> int:
        return await wait(self.memory.checkpoint, label)

    async def restore(self, checkpoint: int) -> None:
        await wait(self.memory.restore, checkpoint)

    async def checkpoints(self) -> list[CheckpointInfo]:
        return await wait(self.memory.checkpoints)

    async def messages_at(self, checkpoint: int) -> list[Message]:
        return await wait(self.memory.messages_at, checkpoint)

    async def fork(self, to: str, *, checkpoint: int | None = None) -> "AsyncMemory":
        return AsyncMemory(await wait(self.memory.fork, to, checkpoint=checkpoint))

    async def status(self) -> list[BlockStatus]:
        return await wait(self.memory.status)

    async def retry_failed(self, block: str) -> int:
        return await wait(self.memory.retry_failed, block)

    async def block_state(self, block: str) -> Any:
        return await wait(self.memory.block_state, block)

    async def change_block(self, block: str, change: Callable[[Any], Any]) -> None:
        await wait(self.memory.change_block, block, change)


class AsyncProfile:
    """`Profile` with `await`."""

    def __init__(self, profile: "Profile | AsyncProfile") -> None:
        self.profile = _plain(profile, Profile, AsyncProfile, "mnemon.Profile(engine, namespace)")

    async def get(self) -> dict[str, Any]:
        return await wait(self.profile.get)

    async def set(self, profile: dict[str, Any]) -> None:
        await wait(self.profile.set, profile)

    async def patch(self, patch: dict[str, Any]) -> dict[str, Any]:
        return await wait(self.profile.patch, patch)

    async def update(self, messages: Messages, model: ChatModel) -> dict[str, Any]:
        """As `Profile.update`; a `model` that is a function is called on another thread."""
        return await wait(self.profile.update, messages, model)


class AsyncCollection:
    """`Collection` with `await`."""

    def __init__(self, collection: "Collection | AsyncCollection") -> None:
        self.collection = _plain(collection, Collection, AsyncCollection, "mnemon.Collection(engine, namespace)")

    async def add(self, item: dict[str, Any]) -> str:
        return await wait(self.collection.add, item)

    async def get(self, key: str) -> Document | None:
        return await wait(self.collection.get, key)

    async def delete(self, key: str) -> bool:
        return await wait(self.collection.delete, key)

    async def search(
        self, query: str | None = None, *, where: dict[str, Any] | None = None, limit: int = 10, offset: int = 0
    ) -> list[Document]:
        return await wait(self.collection.search, query, where=where, limit=limit, offset=offset)

    async def update(self, messages: Messages, model: ChatModel) -> CollectionReport:
        """As `Collection.update`; a `model` that is a function is called on another thread."""
        return await wait(self.collection.update, messages, model)

    async def updates(self, *, limit: int = 100) -> list[CollectionUpdate]:
        return await wait(self.collection.updates, limit=limit)

    async def undo(self, update: str) -> UndoReport:
        return await wait(self.collection.undo, update)


def engine_of(engine: Any) -> Engine:
    """The engine that an adapter was given, with `await` or without."""
    return _plain(engine, Engine, AsyncEngine, "mnemon.Engine(path) or await mnemon.AsyncEngine.open(path)")


def _plain(given: Any, kind: type[_T], awaited: type, source: str) -> _T:
    """What was given, without `await`."""
    plain = getattr(given, kind.__name__.lower()) if isinstance(given, awaited) else given
    if isinstance(plain, kind):
        return plain
    raise InvalidTypeError(f"mnemon.{kind.__name__} or mnemon.{awaited.__name__} is needed here, not {type(given).__name__}: take {source}")
