"""Haystack's document store, and its retrievers, on an engine. Need the package `haystack-ai`."""

import functools
from collections.abc import Callable, Coroutine, Iterable, Iterator
from dataclasses import replace
from typing import Any, ParamSpec, Self, TypeVar

import numpy

from ._adapters import COMPONENTS, engine_at, needs
from ._async import AsyncEngine, engine_of
from ._errors import InvalidValueError
from ._mnemon import Document as Stored
from ._mnemon import DocumentOperation, Engine
from ._values import ALL, commit, expects, heads, key_of, packed, unpacked
from ._wait import wait

with needs("mnemon.haystack", "haystack-ai", "haystack"):
    from haystack import Document, component, default_to_dict
    from haystack.dataclasses import ByteStream, SparseEmbedding
    from haystack.document_stores.errors import DuplicateDocumentError
    from haystack.document_stores.in_memory import InMemoryDocumentStore
    from haystack.document_stores.types import DuplicatePolicy, FilterPolicy, apply_filter_policy

_P = ParamSpec("_P")
_T = TypeVar("_T")


def _of_memory(name: str) -> Callable[..., Any]:
    """A method of Haystack's store in memory, over the documents."""
    method = getattr(InMemoryDocumentStore, name)

    @functools.wraps(method)
    def call(store: "MnemonDocumentStore", *given: Any, **named: Any) -> Any:
        return method(store._memory(), *given, **named)

    return call


def _awaited(method: Callable[_P, _T]) -> Callable[_P, Coroutine[Any, Any, _T]]:
    @functools.wraps(method)
    async def call(*given: _P.args, **named: _P.kwargs) -> _T:
        return await wait(method, *given, **named)

    return call


class MnemonDocumentStore:
    """The documents of a namespace, as Haystack's pipelines store and find them.

    A document has at most 1 MiB as JSON: its content, its `meta`, its blob in base64, and its vectors. `DuplicatePolicy.NONE` is `FAIL`.
    A write, a deletion and an update are one commit each, also beside others that change the same documents. Other documents and the
    messages of the namespace stay as they are.

    Searches by text are the engine's, by meaning and by words. Filters, counts of metadata and searches by the vectors that documents bring
    are Haystack's own, of its store in memory. Cost: these read all documents, with their vectors.

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
        return len(self._stored())

    def filter_documents(self, filters: dict[str, Any] | None = None) -> list[Document]:
        return self._memory().filter_documents(filters)

    def write_documents(self, documents: list[Document], policy: DuplicatePolicy = DuplicatePolicy.NONE) -> int:
        """Stores documents and returns how many. With `FAIL`, none is stored if one is there already."""
        if not isinstance(documents, Iterable) or isinstance(documents, str) or not all(isinstance(one, Document) for one in documents):
            raise ValueError("write_documents takes a list of haystack.Document")
        written = 0

        def change() -> Iterator[DocumentOperation]:
            nonlocal written
            written = 0
            places = {one.id: (self.namespace, key_of(one.id)) for one in documents}
            found = heads(self.engine, places.values())
            yield from expects(places.values(), found)
            known = {id for id, head in zip(places, found, strict=True) if head}
            for one in documents:
                if one.id in known and policy in (DuplicatePolicy.NONE, DuplicatePolicy.FAIL):
                    raise DuplicateDocumentError(
                        f"there is a document with the id {one.id!r} already; to replace it, use DuplicatePolicy.OVERWRITE"
                    )
                if one.id not in known or policy == DuplicatePolicy.OVERWRITE:
                    written += 1
                    yield self._put(one)
                known.add(one.id)

        commit(self.engine, change)
        return written

    def delete_documents(self, document_ids: list[str]) -> None:
        """Deletes documents. Ids that no document has are ignored."""
        self.engine.document_batch([DocumentOperation.delete(self.namespace, key_of(id)) for id in document_ids])

    def delete_all_documents(self) -> None:
        self.engine.document_batch([DocumentOperation.delete(self.namespace, one.key) for one in self._stored()])

    def delete_by_filter(self, filters: dict[str, Any]) -> int:
        return self._change(filters, lambda one: DocumentOperation.delete(self.namespace, key_of(one.id)))

    def update_by_filter(self, filters: dict[str, Any], meta: dict[str, Any]) -> int:
        """Sets these fields of the metadata of all documents that match, and returns how many these are."""

        def updated(one: Document) -> DocumentOperation:
            one.meta.update(meta)
            return self._put(one)

        return self._change(filters, updated)

    def search(self, query: str, filters: dict[str, Any] | None = None, top_k: int = 10) -> list[Document]:
        """The best documents for a text, with the engine's scores: the higher the better. What is not embedded yet is embedded first."""
        where: dict[str, Any] = {"haystack": {"$exists": True}}
        if filters:
            where["id"] = {"$in": [one.id for one in self.filter_documents(filters)]}
        if self.engine.pending():
            self.engine.flush()
        found = self.engine.documents(self.namespace).search(query, where=where, limit=top_k) if query.strip() and top_k else []
        return [replace(_document(one.value), score=one.score) for one in found]

    def _change(self, filters: dict[str, Any], operation: Callable[[Document], DocumentOperation]) -> int:
        changed = 0

        def change() -> Iterator[DocumentOperation]:
            nonlocal changed
            stored = {one.value["id"]: one for one in self._stored()}
            matching = self._memory(stored.values()).filter_documents(filters)
            changed = len(matching)
            for one in matching:
                yield DocumentOperation.expect(self.namespace, stored[one.id].key, stored[one.id].value)
                yield operation(one)

        commit(self.engine, change)
        return changed

    def _stored(self) -> list[Stored]:
        return self.engine.documents(self.namespace).search(where={"haystack": {"$exists": True}}, limit=ALL)

    def _memory(self, stored: Iterable[Stored] | None = None) -> InMemoryDocumentStore:
        """Haystack's store in memory of the documents."""
        memory = InMemoryDocumentStore(shared=False, embedding_similarity_function="cosine")
        for one in self._stored() if stored is None else stored:
            memory.storage[one.value["id"]] = _document(one.value)
        return memory

    def _put(self, document: Document) -> DocumentOperation:
        return DocumentOperation.put(self.namespace, key_of(document.id), _value(document), index=["content"])

    # What Haystack's store in memory has beside the protocol.
    count_documents_by_filter = _of_memory("count_documents_by_filter")
    count_unique_metadata_by_filter = _of_memory("count_unique_metadata_by_filter")
    get_metadata_fields_info = _of_memory("get_metadata_fields_info")
    get_metadata_field_min_max = _of_memory("get_metadata_field_min_max")
    get_metadata_field_unique_values = _of_memory("get_metadata_field_unique_values")
    embedding_retrieval = _of_memory("embedding_retrieval")

    count_documents_async = _awaited(count_documents)
    filter_documents_async = _awaited(filter_documents)
    write_documents_async = _awaited(write_documents)
    delete_documents_async = _awaited(delete_documents)
    delete_all_documents_async = _awaited(delete_all_documents)
    delete_by_filter_async = _awaited(delete_by_filter)
    update_by_filter_async = _awaited(update_by_filter)
    search_async = _awaited(search)
    count_documents_by_filter_async = _awaited(count_documents_by_filter)
    count_unique_metadata_by_filter_async = _awaited(count_unique_metadata_by_filter)
    get_metadata_fields_info_async = _awaited(get_metadata_fields_info)
    get_metadata_field_min_max_async = _awaited(get_metadata_field_min_max)
    get_metadata_field_unique_values_async = _awaited(get_metadata_field_unique_values)
    embedding_retrieval_async = _awaited(embedding_retrieval)


class _Retriever:
    def __init__(
        self,
        document_store: MnemonDocumentStore,
        filters: dict[str, Any] | None = None,
        top_k: int = 10,
        filter_policy: FilterPolicy = FilterPolicy.REPLACE,
    ) -> None:
        if not isinstance(document_store, MnemonDocumentStore):
            raise InvalidValueError(f"the retriever takes a MnemonDocumentStore, not {type(document_store).__name__}")
        self.document_store = document_store
        self.filters = filters
        self.top_k = top_k
        self.filter_policy = filter_policy

    def to_dict(self) -> dict[str, Any]:
        store, policy = self.document_store.to_dict(), self.filter_policy.value
        return default_to_dict(self, document_store=store, filters=self.filters, top_k=self.top_k, filter_policy=policy)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        parameters = data["init_parameters"]
        store, policy = MnemonDocumentStore.from_dict(parameters["document_store"]), FilterPolicy(parameters["filter_policy"])
        return cls(**parameters | {"document_store": store, "filter_policy": policy})

    def _options(self, filters: dict[str, Any] | None, top_k: int | None) -> dict[str, Any]:
        top_k = self.top_k if top_k is None else top_k
        if top_k < 0:
            raise InvalidValueError(f"top_k is {top_k}; it is 0 or more")
        return {"filters": apply_filter_policy(self.filter_policy, self.filters, filters), "top_k": top_k}


@component
class MnemonTextRetriever(_Retriever):
    """The documents that a text finds by meaning and by words: `pipeline.add_component("find", MnemonTextRetriever(store, top_k=3))`."""

    @component.output_types(documents=list[Document])
    def run(self, query: str, filters: dict[str, Any] | None = None, top_k: int | None = None) -> dict[str, list[Document]]:
        return {"documents": self.document_store.search(query, **self._options(filters, top_k))}

    @component.output_types(documents=list[Document])
    async def run_async(self, query: str, filters: dict[str, Any] | None = None, top_k: int | None = None) -> dict[str, list[Document]]:
        return {"documents": await self.document_store.search_async(query, **self._options(filters, top_k))}


@component
class MnemonEmbeddingRetriever(_Retriever):
    """The documents whose vectors are closest to one of the same embedder, by cosine. Cost: it reads all documents."""

    @component.output_types(documents=list[Document])
    def run(
        self, query_embedding: list[float], filters: dict[str, Any] | None = None, top_k: int | None = None
    ) -> dict[str, list[Document]]:
        return {"documents": self.document_store.embedding_retrieval(query_embedding, **self._options(filters, top_k))}

    @component.output_types(documents=list[Document])
    async def run_async(
        self, query_embedding: list[float], filters: dict[str, Any] | None = None, top_k: int | None = None
    ) -> dict[str, list[Document]]:
        return {"documents": await self.document_store.embedding_retrieval_async(query_embedding, **self._options(filters, top_k))}


def _value(document: Document) -> dict[str, Any]:
    rest: dict[str, Any] = {"score": document.score}
    if document.embedding is not None:
        rest["embedding"] = packed(numpy.asarray(document.embedding, "<f8").tobytes())
    if document.sparse_embedding:
        rest["sparse_embedding"] = document.sparse_embedding.to_dict()
    if document.blob:
        rest["blob"] = {"data": packed(document.blob.data), "meta": document.blob.meta, "mime_type": document.blob.mime_type}
    return {"id": document.id, "content": document.content, "meta": document.meta, "haystack": rest}


def _document(value: dict[str, Any]) -> Document:
    rest, blob = value["haystack"], value["haystack"].get("blob")
    return Document(
        id=value["id"],
        content=value["content"],
        meta=value["meta"],
        score=rest["score"],
        embedding=numpy.frombuffer(unpacked(rest["embedding"]), "<f8").tolist() if "embedding" in rest else None,
        sparse_embedding=SparseEmbedding.from_dict(rest["sparse_embedding"]) if "sparse_embedding" in rest else None,
        blob=blob and ByteStream(**blob | {"data": unpacked(blob["data"])}),
    )
