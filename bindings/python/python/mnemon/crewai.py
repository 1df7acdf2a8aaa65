"""The storage of CrewAI's memory on an engine. Needs the package `crewai`."""

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import numpy

from ._adapters import needs
from ._async import AsyncEngine, engine_of
from ._mnemon import DocumentOperation, Engine, Message
from ._values import packed, unpacked
from ._wait import awaited

with needs("mnemon.crewai", "crewai", "crewai"):
    from crewai.memory.storage.backend import EmbeddingDimensionMismatchError
    from crewai.memory.types import MemoryRecord, ScopeInfo

# In a message's metadata: the record without its content and scope, and its vector as 32-bit floats in base64.
KEY, VECTOR = "crewai", "crewai_vector"
ROOT = "/"


class MnemonStorage:
    """The records of CrewAI's `Memory` in a namespace: `Memory(storage=MnemonStorage(engine, "acme/crew"), embedder=...)`.

    A record is a message, whose session is the record's scope, of at most 512 bytes. CrewAI searches by the vectors of its own embedder,
    by cosine; `embed` is one that needs no key and no network. `Engine.recall` finds the records too, with the engine's model and by words.
    A scope has the scopes below it: `/crew` has `/crew/sales`, and not `/crews`. Criteria of `delete` must all hold. Messages of other
    programs in the namespace are no records, and are left alone.

    Calls may come from any thread. A call is one commit; of `touch_records`, each record is one. Cost: a search compares the vectors of all
    records below the scope, and a list or a count reads all; a deletion of ids reads these alone.
    """

    def __init__(self, engine: Engine | AsyncEngine, namespace: str) -> None:
        self.engine = engine_of(engine)
        self.namespace = namespace

    def embed(self, texts: list[str]) -> list[list[float]]:
        """The vectors of the engine's model: for `Memory(embedder=storage.embed)`."""
        return self.engine.embed_documents(texts).tolist()

    def save(self, records: list[MemoryRecord]) -> None:
        """Stores records; one whose id there is already replaces that one."""
        dimension = self._dimension([record.embedding for record in records])
        self.engine.document_batch([
            DocumentOperation.put(self.namespace, VECTOR, {"dimension": dimension}, index=[]),
            DocumentOperation.put_messages(self.namespace, [_message(record) for record in records]),
        ])

    def search(
        self,
        query_embedding: list[float],
        scope_prefix: str | None = None,
        categories: list[str] | None = None,
        metadata_filter: dict[str, Any] | None = None,
        limit: int = 10,
        min_score: float = 0.0,
    ) -> list[tuple[MemoryRecord, float]]:
        """The most similar records, by cosine, best first. Those without a vector have 0."""
        self._dimension([query_embedding])
        found = list(self._records(scope_prefix, categories, metadata_filter))
        vectors = numpy.zeros((len(found), len(query_embedding)))
        for row, record in zip(vectors, found, strict=True):
            row[:] = 0.0 if record.embedding is None else record.embedding
        lengths = numpy.linalg.norm(vectors, axis=1) * numpy.linalg.norm(query_embedding)
        scores = vectors @ numpy.asarray(query_embedding) / numpy.where(lengths, lengths, 1.0)
        best = numpy.argsort(-scores, kind="stable")[: max(limit, 0)]
        return [(_listed(found[at]), float(scores[at])) for at in best if scores[at] >= min_score]

    def delete(
        self,
        scope_prefix: str | None = None,
        categories: list[str] | None = None,
        record_ids: list[str] | None = None,
        older_than: datetime | None = None,
        metadata_filter: dict[str, Any] | None = None,
    ) -> int:
        found = self._records(scope_prefix, categories, metadata_filter, record_ids)
        old = [record.id for record in found if older_than is None or _time(record.created_at) < _time(older_than)]
        return self.engine.delete(self.namespace, old)

    def update(self, record: MemoryRecord) -> None:
        self.save([record])

    def touch_records(self, record_ids: list[str]) -> None:
        """Sets `last_accessed` to now."""
        for record in filter(None, map(self.get_record, record_ids)):
            touched = record.model_copy(update={"last_accessed": datetime.now(UTC).replace(tzinfo=None)})
            self.engine.set_metadata(self.namespace, record.id, _message(touched).metadata)

    def get_record(self, record_id: str) -> MemoryRecord | None:
        return next(map(_listed, self._records(ids=[record_id])), None)

    def list_records(self, scope_prefix: str | None = None, limit: int = 200, offset: int = 0) -> list[MemoryRecord]:
        newest = sorted(self._records(scope_prefix), key=lambda record: _time(record.created_at), reverse=True)
        return [_listed(record) for record in newest[offset : offset + limit]]

    def get_scope_info(self, scope: str) -> ScopeInfo:
        records = list(self._records(scope))
        times = sorted((record.created_at for record in records), key=_time)
        return ScopeInfo(
            path=_path(scope) or ROOT,
            record_count=len(records),
            categories=sorted({category for record in records for category in record.categories}),
            oldest_record=times[0] if times else None,
            newest_record=times[-1] if times else None,
            child_scopes=self.list_scopes(scope),
        )

    def list_scopes(self, parent: str = ROOT) -> list[str]:
        below = f"{_path(parent)}/"
        scopes = {record.scope for record in self._records(parent)}
        found = {scope.removeprefix(below).split("/")[0] for scope in scopes if scope.startswith(below)}
        return sorted(below + label for label in found if label)

    def list_categories(self, scope_prefix: str | None = None) -> dict[str, int]:
        return dict(Counter(category for record in self._records(scope_prefix) for category in record.categories))

    def count(self, scope_prefix: str | None = None) -> int:
        return sum(1 for _ in self._records(scope_prefix))

    def reset(self, scope_prefix: str | None = None) -> None:
        """Deletes the records of a scope; without one all, and then vectors may have another dimension."""
        records = DocumentOperation.delete_messages(self.namespace, [record.id for record in self._records(scope_prefix)])
        dimension = DocumentOperation.delete(self.namespace, VECTOR)
        self.engine.document_batch([records] if _path(scope_prefix or ROOT) else [records, dimension])

    asave = awaited(save)
    asearch = awaited(search)
    adelete = awaited(delete)

    def _records(
        self,
        scope: str | None = None,
        categories: list[str] | None = None,
        metadata_filter: dict[str, Any] | None = None,
        ids: list[str] | None = None,
    ) -> Iterator[MemoryRecord]:
        """Records whose embeddings are arrays: to make all of them lists takes longer than a search."""
        path = _path(scope or ROOT)
        if ids is None:
            sessions = [one["session"] for one in self.engine.sessions(self.namespace) if f"{one['session']}/".startswith(f"{path}/")]
            found = (message for session in sessions for message in self.engine.history(self.namespace, session))
        else:
            found = (message for id in ids if (message := self.engine.get(self.namespace, id)))
        for record in filter(None, map(_record, found)):
            if (
                f"{record.scope}/".startswith(f"{path}/")
                and (not categories or not set(categories).isdisjoint(record.categories))
                and all(record.metadata.get(key) == value for key, value in (metadata_filter or {}).items())
            ):
                yield record

    def _dimension(self, vectors: list[list[float] | None]) -> int | None:
        """The dimension of these vectors and of those that were stored, which a document says; `None` if there are none."""
        stored = self.engine.documents(self.namespace).get(VECTOR)
        dimension: int | None = stored.value["dimension"] if stored else None
        for length in [len(vector) for vector in vectors if vector]:
            if length != (dimension := dimension or length):
                raise EmbeddingDimensionMismatchError(dimension, length)
        return dimension


def _path(scope: str) -> str:
    """A scope with a slash before it and none after it; the root is empty."""
    labels = scope.strip("/")
    return f"/{labels}" if labels else ""


def _time(time: datetime) -> datetime:
    """CrewAI's own times are in UTC and do not say so."""
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def _message(record: MemoryRecord) -> Message:
    vector = packed(numpy.asarray(record.embedding or [], "<f4").tobytes())
    fields = record.model_dump(mode="json")
    # The engine refuses blank texts.
    content = record.content if record.content.strip() else "(memory)"
    created = _time(record.created_at)
    return Message(content, id=record.id, session=record.scope, created_at=created, metadata={KEY: fields, VECTOR: vector})


def _record(message: Message) -> MemoryRecord | None:
    """The record of a message, with the text that it has now, and its vector as an array; `None` if another program stored it."""
    try:
        fields, vector = message.metadata[KEY], numpy.frombuffer(unpacked(message.metadata[VECTOR]), "<f4")
        blank = not str(fields["content"]).strip()
        record = MemoryRecord.model_validate(fields | ({} if blank else {"content": message.text}))
        record.embedding = vector if len(vector) else None  # type: ignore[assignment]
        return record
    except (KeyError, TypeError, ValueError):
        return None


def _listed(record: MemoryRecord) -> MemoryRecord:
    record.embedding = None if record.embedding is None else numpy.asarray(record.embedding).tolist()
    return record
