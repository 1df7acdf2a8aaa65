"""Haystack's document store, and its retrievers, on an engine. Need the package `haystack-ai`."""

import functools
import inspect
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any, Self

import numpy

from ._adapters import COMPONENTS, embed_pending, engine_at, needs
from ._async import AsyncEngine, engine_of
from ._errors import InvalidValueError
from ._mnemon import Document as Stored
from ._mnemon import DocumentOperation, Engine
from ._values import ALL, commit, expects, heads, key_of, packed, unpacked
from ._wait import awaited

with needs("mnemon.haystack", "haystack-ai", "haystack"):
    from haystack import Document, component, default_from_dict, default_to_dict
    from haystack.document_stores.errors import DuplicateDocumentError
    from haystack.document_stores.in_memory import InMemoryDocumentStore
    from haystack.document_stores.types import DuplicatePolicy, FilterPolicy, apply_filter_policy
    from haystack.errors import FilterError

    from ._haystack_filters import NAMES, Filter, where

KEY = "haystack"


def _of_memory(name: str) -> Callable[..., Any]:
    """A method of Haystack's store in memory, over the documents that the engine finds for it."""
    method = getattr(InMemoryDocumentStore, name)
    signature = inspect.signature(functools.partial(method, None))

    @functools.wraps(method)
    def call(store: "MnemonDocumentStore", *given: Any, **named: Any) -> Any:
        found = store._candidates(**signature.bind(*given, **named).arguments)
        return method(_memory(found), *given, **named)

    return call


class MnemonDocumentStore:
    """The documents of a namespace, as Haystack's pipelines store and find them.

    A document has at most 1 MiB as JSON: its content, its `meta`, its blob in base64, and its vectors. `DuplicatePolicy.NONE` is `FAIL`.
    A write, a deletion and an update are one commit each, also beside others that change the same documents. Other documents and the
    messages of the namespace stay as they are.

    Searches by text are the engine's, by meaning and by words. Searches by vector are too if the engine has
    `embedder=GivenVectors(name, dimension)`; otherwise they read all documents that match the filters.

    Filters match what Haystack's own do. The engine finds the documents, and Haystack judges dates, orders of other values than numbers,
    lists, objects, and the fields beside `id`, `content` and `meta`: among the documents that match what comes before these in an `AND`.

    With `path`, the one that the engine was opened with, a pipeline with the store can be saved. What is loaded opens the file, or shares
    the engine of a store that has the same path: `Pipeline.loads(text, allowed_modules=["mnemon.*"])`.
    """

    def __init__(self, engine: Engine | AsyncEngine, namespace: str, *, path: str | None = None) -> None:
        self.engine = engine_of(engine)
        self.namespace = namespace
        self.path = path
        if path is not None:
            COMPONENTS.add(self)

    def to_dict(self) -> dict[str, Any]:
        if self.path is None:
            raise InvalidValueError("a saved store names the engine's file; make the store with path=..., as the engine has it")
        return default_to_dict(self, namespace=self.namespace, path=self.path)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "MnemonDocumentStore":
        parameters = data["init_parameters"]
        return cls(engine_at(parameters["path"]), **parameters)

    def count_documents(self) -> int:
        return len(self._find())

    def filter_documents(self, filters: Filter | None = None) -> list[Document]:
        return _memory(self._candidates(filters)).filter_documents(filters)

    def write_documents(self, documents: list[Document], policy: DuplicatePolicy = DuplicatePolicy.NONE) -> int:
        """Stores documents and returns how many. With `FAIL`, none is stored if one is there already."""
        documents = [*documents] if isinstance(documents, Iterable) else [None]
        if not all(isinstance(one, Document) for one in documents):
            raise ValueError("write_documents takes a list of haystack.Document")
        places = {one.id: (self.namespace, key_of(one.id)) for one in documents}

        def change() -> Iterator[DocumentOperation]:
            found = heads(self.engine, places.values())
            yield from expects(places.values(), found)
            known = {id for id, head in zip(places, found, strict=True) if head}
            for one in documents:
                if one.id in known and policy in (DuplicatePolicy.NONE, DuplicatePolicy.FAIL):
                    raise DuplicateDocumentError(
                        f"there is a document with the id {one.id!r} already; to replace it, use DuplicatePolicy.OVERWRITE"
                    )
                if one.id not in known or policy == DuplicatePolicy.OVERWRITE:
                    yield self._put(one)
                known.add(one.id)

        # All but the expectations are documents.
        return len(commit(self.engine, change)) - len(places)

    def delete_documents(self, document_ids: list[str]) -> None:
        """Deletes documents. Ids that no document has are ignored."""
        self.engine.document_batch([DocumentOperation.delete(self.namespace, key_of(id)) for id in document_ids])

    def delete_all_documents(self) -> None:
        self.engine.document_batch([DocumentOperation.delete(self.namespace, one.key) for one in self._find()])

    def delete_by_filter(self, filters: Filter) -> int:
        return self._change(filters, lambda one: DocumentOperation.delete(self.namespace, key_of(one.id)))

    def update_by_filter(self, filters: Filter, meta: dict[str, Any]) -> int:
        """Sets these fields of the metadata of all documents that match, and returns how many these are."""
        return self._change(filters, lambda one: self._put(replace(one, meta=one.meta | meta)))

    def search(self, query: str, filters: Filter | None = None, top_k: int = 10) -> list[Document]:
        """The best documents for a text, with the engine's scores: the higher the better."""
        found = self._find(self._matching(filters), query, limit=top_k) if query.strip() else []
        return [replace(_document(one.value), score=one.score) for one in found]

    def _change(self, filters: Filter, operation: Callable[[Document], DocumentOperation]) -> int:
        if not filters:
            raise FilterError(f"the filters are {filters!r}, which match all documents; say which you mean, or call delete_all_documents")

        def change() -> Iterator[DocumentOperation]:
            stored = {one.value["id"]: one for one in self._candidates(filters)}
            for one in _memory(stored.values()).filter_documents(filters):
                yield DocumentOperation.expect(self.namespace, stored[one.id].key, stored[one.id].value)
                yield operation(one)

        # Each document has an expectation and a change.
        return len(commit(self.engine, change)) // 2

    def _find(self, where: Filter | None = None, query: str | None = None, **options: Any) -> list[Stored]:
        """The documents that match, in the order in which they were written; for a query or a vector, the best first, also of those that
        are not embedded or not in the index yet."""
        is_ranked = query is not None or "vector" in options
        if is_ranked:
            embed_pending(self.engine)
        ours = {"$and": [{KEY: {"$exists": True}}, where or {}]}
        found = self.engine.documents(self.namespace).search(query, where=ours, **{"limit": ALL} | options)
        return found if is_ranked else found[::-1]

    def _candidates(
        self, filters: Filter | None = None, query_embedding: list[float] | None = None, top_k: int = 10, **_: Any
    ) -> list[Stored]:
        """The documents that Haystack's filters match, and others that Haystack has to judge; or the closest ones of those that match."""
        if query_embedding and self.engine.model["given"]:
            return self._find(self._matching(filters), vector=query_embedding, limit=top_k)
        return self._find(where(filters)[0])

    def _matching(self, filters: Filter | None) -> Filter:
        """The engine's filter for the documents that Haystack's match."""
        found, undecided = where(filters)
        if undecided and self._find({"$and": [found, {"$or": undecided}]}, limit=1):
            return {"id": {"$in": [one.id for one in self.filter_documents(filters)]}}
        return found

    def _put(self, one: Document) -> DocumentOperation:
        vectors = [one.embedding] if one.embedding is not None and self.engine.model["given"] else None
        # What has a vector needs a text.
        text = "content" if vectors is None or (one.content or "").strip() else "id"
        return DocumentOperation.put(self.namespace, key_of(one.id), _value(one), index=[text], vectors=vectors)

    # What Haystack's store in memory has beside the protocol. Vectors are compared by their cosines.
    count_documents_by_filter = _of_memory("count_documents_by_filter")
    count_unique_metadata_by_filter = _of_memory("count_unique_metadata_by_filter")
    get_metadata_fields_info = _of_memory("get_metadata_fields_info")
    get_metadata_field_min_max = _of_memory("get_metadata_field_min_max")
    get_metadata_field_unique_values = _of_memory("get_metadata_field_unique_values")
    embedding_retrieval = _of_memory("embedding_retrieval")

    count_documents_async = awaited(count_documents)
    filter_documents_async = awaited(filter_documents)
    write_documents_async = awaited(write_documents)
    delete_documents_async = awaited(delete_documents)
    delete_all_documents_async = awaited(delete_all_documents)
    delete_by_filter_async = awaited(delete_by_filter)
    update_by_filter_async = awaited(update_by_filter)
    search_async = awaited(search)
    count_documents_by_filter_async = awaited(count_documents_by_filter)
    count_unique_metadata_by_filter_async = awaited(count_unique_metadata_by_filter)
    get_metadata_fields_info_async = awaited(get_metadata_fields_info)
    get_metadata_field_min_max_async = awaited(get_metadata_field_min_max)
    get_metadata_field_unique_values_async = awaited(get_metadata_field_unique_values)
    embedding_retrieval_async = awaited(embedding_retrieval)


class _Retriever:
    def __init__(
        self,
        document_store: MnemonDocumentStore,
        filters: Filter | None = None,
        top_k: int = 10,
        filter_policy: FilterPolicy = FilterPolicy.REPLACE,
    ) -> None:
        if not isinstance(document_store, MnemonDocumentStore):
            raise InvalidValueError(f"the retriever takes a MnemonDocumentStore, not {type(document_store).__name__}")
        self.document_store = document_store
        self.filters = filters
        self.top_k = top_k
        self.filter_policy = FilterPolicy(filter_policy)

    def to_dict(self) -> dict[str, Any]:
        policy = self.filter_policy.value
        return default_to_dict(self, document_store=self.document_store, filters=self.filters, top_k=self.top_k, filter_policy=policy)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        return default_from_dict(cls, data)

    def _options(self, filters: Filter | None, top_k: int | None) -> dict[str, Any]:
        top_k = self.top_k if top_k is None else top_k
        if top_k < 0:
            raise InvalidValueError(f"top_k is {top_k}; it is 0 or more")
        return {"filters": apply_filter_policy(self.filter_policy, self.filters, filters), "top_k": top_k}


@component
class MnemonTextRetriever(_Retriever):
    """The documents that a text finds by meaning and by words: `pipeline.add_component("find", MnemonTextRetriever(store, top_k=3))`."""

    @component.output_types(documents=list[Document])
    def run(self, query: str, filters: Filter | None = None, top_k: int | None = None) -> dict[str, list[Document]]:
        return {"documents": self.document_store.search(query, **self._options(filters, top_k))}

    run_async = awaited(run)


@component
class MnemonEmbeddingRetriever(_Retriever):
    """The documents whose vectors are closest to one of the same embedder, by cosine. Cost: as `embedding_retrieval` of the store."""

    @component.output_types(documents=list[Document])
    def run(self, query_embedding: list[float], filters: Filter | None = None, top_k: int | None = None) -> dict[str, list[Document]]:
        return {"documents": self.document_store.embedding_retrieval(query_embedding, **self._options(filters, top_k))}

    run_async = awaited(run)


def _memory(stored: Iterable[Stored]) -> InMemoryDocumentStore:
    """Haystack's store in memory of documents."""
    memory = InMemoryDocumentStore(shared=False, embedding_similarity_function="cosine")
    memory.storage.update({one.value["id"]: _document(one.value) for one in stored})
    return memory


def _value(document: Document) -> dict[str, Any]:
    value = replace(document, embedding=None, blob=None).to_dict(flatten=False)
    if document.embedding is not None:
        value["embedding"] = packed(numpy.asarray(document.embedding, "<f8").tobytes())
    if document.blob:
        value["blob"] = vars(document.blob) | {"data": packed(document.blob.data)}
    return value | {KEY: True}


def _document(value: dict[str, Any]) -> Document:
    fields = {name: part for name, part in value.items() if name in NAMES}
    if fields["embedding"] is not None:
        fields["embedding"] = numpy.frombuffer(unpacked(fields["embedding"]), "<f8").tolist()
    if fields["blob"]:
        fields["blob"] |= {"data": unpacked(fields["blob"]["data"])}
    return Document.from_dict(fields)
