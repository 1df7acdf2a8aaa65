"""The storage of CrewAI's memory on an engine. Needs the package `crewai`."""

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import numpy

from ._adapters import fitting, is_unchanged, needs, text_of, turn_of
from ._async import AsyncEngine, engine_of
from ._mnemon import DocumentOperation, Engine, Message
from ._values import packed, unpacked
from ._wait import awaited

with needs("mnemon.crewai", "crewai", "crewai"):
    from crewai.memory.storage.backend import EmbeddingDimensionMismatchError
    from crewai.memory.types import MemoryRecord, ScopeInfo
    from crewai.memory.utils import normalize_scope_path

# In a message's metadata: the record, without the content if that is its text, and its vector as 32-bit floats in base64.
KEY, VECTOR = "crewai", "crewai_vector"


class MnemonStorage:
    """The records of CrewAI's `Memory` in a namespace: `Memory(storage=MnemonStorage(engine, "acme/crew"), embedder=...)`.

    A record is a message, whose session is the record's scope, of at most 512 bytes. CrewAI searches by the vectors of its own embedder,
    by cosine; `embed` is one that needs no key and no network. `Engine.recall` finds the records too, with the engine's model and by words.
    A scope has the scopes below it: `/crew`, which `crew/` names too, has `/crew/sales`, and not `/crews`. Criteria of `delete` must all
    hold. Metadata are values of JSON. Messages of other programs in the namespace are no records, and are left alone.

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
        messages = [_message(record) for record in records]
        with turn_of(self.namespace):
            dimension = self._dimension([record.embedding or None for record in records])
            self.engine.document_batch([
                DocumentOperation.put(self.namespace, VECTOR, {"dimension": dimension}, index=[]),
                DocumentOperation.put_messages(self.namespace, messages),
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
        now = datetime.now(UTC).replace(tzinfo=None)
        for id in record_ids:
            with turn_of(self.namespace):
                if record := self.get_record(id):
                    touched = record.model_copy(update={"last_accessed": now})
                    self.engine.set_metadata(self.namespace, id, _message(touched).metadata)

    def get_record(self, record_id: str) -> MemoryRecord | None:
        return next(map(_listed, self._records(ids=[record_id])), None)

    def list_records(self, scope_prefix: str | None = None, limit: int = 200, offset: int = 0) -> list[MemoryRecord]:
        newest = sorted(self._records(scope_prefix), key=lambda record: _time(record.created_at), reverse=True)
        return [_listed(record) for record in newest[offset : offset + limit]]

    def get_scope_info(self, scope: str) -> ScopeInfo:
        records = sorted(self._records(scope), key=lambda record: _time(record.created_at))
        return ScopeInfo(
            path=normalize_scope_path(scope),
            record_count=len(records),
            categories=sorted({category for record in records for category in record.categories}),
            oldest_record=records[0].created_at if records else None,
            newest_record=records[-1].created_at if records else None,
            child_scopes=self.list_scopes(scope),
        )

    def list_scopes(self, parent: str = "/") -> list[str]:
        below = _below(parent)
        labels = {_below(record.scope).removeprefix(below).split("/")[0] for record in self._records(parent)}
        return sorted(below + label for label in labels if label)

    def list_categories(self, scope_prefix: str | None = None) -> dict[str, int]:
        return dict(Counter(category for record in self._records(scope_prefix) for category in record.categories))

    def count(self, scope_prefix: str | None = None) -> int:
        return sum(1 for _ in self._records(scope_prefix))

    def reset(self, scope_prefix: str | None = None) -> None:
        """Deletes the records of a scope; without one all, and then vectors may have another dimension."""
        with turn_of(self.namespace):
            records = DocumentOperation.delete_messages(self.namespace, [record.id for record in self._records(scope_prefix)])
            dimension = DocumentOperation.delete(self.namespace, VECTOR)
            self.engine.document_batch([records, dimension] if _below(scope_prefix) == "/" else [records])

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
        below = _below(scope)
        if ids is None:
            sessions = [one["session"] for one in self.engine.sessions(self.namespace) if _below(one["session"]).startswith(below)]
            found = (message for session in sessions for message in self.engine.history(self.namespace, session))
        else:
            found = (message for id in ids if (message := self.engine.get(self.namespace, id)))
        for record in filter(None, map(_record, found)):
            if (
                _below(record.scope).startswith(below)
                and (not categories or not set(categories).isdisjoint(record.categories))
                and all(record.metadata.get(key) == value for key, value in (metadata_filter or {}).items())
            ):
                yield record

    def _dimension(self, vectors: list[list[float] | None]) -> int | None:
        """The dimension of these vectors and of those that were stored, which a document says; `None` if there are none."""
        stored = self.engine.documents(self.namespace).get(VECTOR)
        dimension: int | None = stored.value["dimension"] if stored else None
        for length in [len(vector) for vector in vectors if vector is not None]:
            if length != (dimension := dimension or length):
                raise EmbeddingDimensionMismatchError(dimension, length)
        return dimension


def _below(scope: str | None) -> str:
    """What the paths in a scope begin with, if they end with a slash."""
    return normalize_scope_path(scope or "/").rstrip("/") + "/"


def _time(time: datetime) -> datetime:
    """CrewAI's own times are in UTC and do not say so."""
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def _message(record: MemoryRecord) -> Message:
    fields = record.model_dump(mode="json", exclude={"content", "metadata"}) | {"metadata": record.metadata}
    content = fitting([{"type": "text", "text": record.content}])
    if text_of(content) != record.content:
        fields["content"] = record.content
    metadata = {KEY: fields, VECTOR: packed(numpy.asarray(record.embedding or [], "<f4").tobytes())}
    session = normalize_scope_path(record.scope)
    return Message(content, id=record.id, session=session, created_at=_time(record.created_at), metadata=metadata)


def _record(message: Message) -> MemoryRecord | None:
    """The record of a message, with the text that it has now, and its vector as an array; `None` if another program stored it."""
    try:
        vector = numpy.frombuffer(unpacked(message.metadata[VECTOR]), "<f4")
        fields = message.metadata[KEY]
        whole = fields.get("content", message.text)
        content = whole if is_unchanged(message, [{"type": "text", "text": whole}]) else message.text
        record = MemoryRecord.model_validate(fields | {"content": content})
        record.embedding = vector if len(vector) else None  # type: ignore[assignment]
        return record
    except (KeyError, TypeError, ValueError):
        return None


def _listed(record: MemoryRecord) -> MemoryRecord:
    record.embedding = None if record.embedding is None else numpy.asarray(record.embedding).tolist()
    return record
