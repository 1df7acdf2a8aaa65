"""Documents that LangChain searches by vectors."""

from collections.abc import Iterable, Sequence
from typing import Any, Self

import numpy
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.vectorstores import VectorStore
from langchain_core.vectorstores.utils import maximal_marginal_relevance

from mnemon import AsyncEngine, Engine, InvalidValueError
from mnemon._async import engine_of
from mnemon._wait import wait

from ._documents import StoredDocuments, document_of
from ._embeddings import MnemonEmbeddings


class MnemonVectorStore(VectorStore):
    """The documents of a namespace, found by meaning and by words; a `MnemonIndex` of the namespace has the same ones.

    The vectors are those of the engine's model; or, if the engine has `embedder=GivenVectors(name, dimension)`, those of `embedding`, or
    that `add_embeddings` gives. Without `embedding`, texts are then found by their words. In each search `filter` is a filter on the metadata,
    in the engine's language: `{"price": {"$lt": 10}}`. A search embeds first what is not embedded yet, so it finds what was added just
    before. Other documents and the messages of the namespace stay as they are.
    """

    def __init__(self, engine: Engine | AsyncEngine, namespace: str, embedding: Embeddings | None = None) -> None:
        self.engine = engine_of(engine)
        self.namespace = namespace
        # The engine makes its own by itself.
        is_own = isinstance(embedding, MnemonEmbeddings) and embedding.engine is self.engine
        self._embedding = None if is_own else embedding
        self._documents = StoredDocuments(self.engine, namespace)

    @property
    def embeddings(self) -> Embeddings:
        return self._embedding or MnemonEmbeddings(self.engine)

    @classmethod
    def from_texts(  # type: ignore[override]
        cls,
        texts: list[str],
        embedding: Embeddings | None,
        metadatas: list[dict[str, Any]] | None = None,
        *,
        ids: list[str] | None = None,
        engine: Engine | AsyncEngine,
        namespace: str,
    ) -> Self:
        """A store of `namespace` with these texts added."""
        store = cls(engine, namespace, embedding)
        store.add_texts(texts, metadatas, ids=ids)
        return store

    @classmethod
    def from_embeddings(
        cls,
        text_embeddings: Iterable[tuple[str, Sequence[float]]],
        embedding: Embeddings | None,
        metadatas: list[dict[str, Any]] | None = None,
        *,
        ids: list[str] | None = None,
        engine: Engine | AsyncEngine,
        namespace: str,
    ) -> Self:
        """A store of `namespace` with these texts and vectors added."""
        store = cls(engine, namespace, embedding)
        store.add_embeddings(text_embeddings, metadatas, ids=ids)
        return store

    def add_texts(
        self,
        texts: Iterable[str],
        metadatas: list[dict[str, Any]] | None = None,
        *,
        ids: Sequence[str | None] | None = None,
        **_: Any,
    ) -> list[str]:
        """Stores texts, in one commit, in the place of those with the same ids. A text without an id gets a new one."""
        texts = list(texts)
        vectors = self._embedding.embed_documents(texts) if self._embedding and texts else None
        return self._add(texts, vectors, metadatas, ids)

    def add_embeddings(
        self,
        text_embeddings: Iterable[tuple[str, Sequence[float]]],
        metadatas: list[dict[str, Any]] | None = None,
        *,
        ids: Sequence[str | None] | None = None,
    ) -> list[str]:
        """As `add_texts`, with the vectors of the texts, which are scaled to length 1. The engine has `embedder=GivenVectors(...)`."""
        pairs = list(text_embeddings)
        return self._add([text for text, _ in pairs], [vector for _, vector in pairs], metadatas, ids)

    def _add(
        self, texts: list[str], vectors: Any, metadatas: list[dict[str, Any]] | None, ids: Sequence[str | None] | None
    ) -> list[str]:
        none: list[None] = [None] * len(texts)
        if len(texts) != len(metadatas or none) or len(texts) != len(ids or none):
            raise InvalidValueError("add_texts takes as many metadatas and ids as texts, or none")
        rows = zip(texts, metadatas or none, ids or none, strict=True)
        return self._documents.put([Document(text, metadata=metadata or {}, id=id) for text, metadata, id in rows], vectors)

    def delete(self, ids: list[str] | None = None, **_: Any) -> bool:
        """Deletes the documents with these ids, or all of the store. Ids that no document has are ignored."""
        if ids is None:
            self._documents.clear()
        else:
            self._documents.delete(ids)
        return True

    def get_by_ids(self, ids: Sequence[str], /) -> list[Document]:
        return self._documents.get(ids)

    def similarity_search(  # type: ignore[override]
        self, query: str, k: int = 4, filter: dict[str, Any] | None = None
    ) -> list[Document]:
        return [document for document, _ in self.similarity_search_with_score(query, k, filter)]

    def similarity_search_with_score(
        self, query: str, k: int = 4, filter: dict[str, Any] | None = None
    ) -> list[tuple[Document, float]]:
        """The scores are those of a recall, of meaning and words together: the higher the better, and not within limits."""
        vector = self._embedding.embed_query(query) if self._embedding else None
        return [(document_of(found), found.score or 0.0) for found in self._documents.search(query, k, filter, vector)]

    def similarity_search_by_vector(  # type: ignore[override]
        self, embedding: Sequence[float], k: int = 4, filter: dict[str, Any] | None = None
    ) -> list[Document]:
        """The documents with the greatest cosines."""
        return [document_of(found) for found in self._documents.search(None, k, filter, embedding)]

    def max_marginal_relevance_search(  # type: ignore[override]
        self, query: str, k: int = 4, fetch_k: int = 20, lambda_mult: float = 0.5, filter: dict[str, Any] | None = None
    ) -> list[Document]:
        """The `k` of the best `fetch_k` documents that are close to the query and, the smaller `lambda_mult` is, far from each other.
        """
        return self._diverse(self.embeddings.embed_query(query), self.similarity_search(query, fetch_k, filter), lambda_mult, k)

    def max_marginal_relevance_search_by_vector(  # type: ignore[override]
        self,
        embedding: Sequence[float],
        k: int = 4,
        fetch_k: int = 20,
        lambda_mult: float = 0.5,
        filter: dict[str, Any] | None = None,
    ) -> list[Document]:
        return self._diverse(embedding, self.similarity_search_by_vector(embedding, fetch_k, filter), lambda_mult, k)

    def _diverse(self, wanted: Sequence[float], found: list[Document], lambda_mult: float, k: int) -> list[Document]:
        vectors = self._documents.vectors(found)
        chosen = maximal_marginal_relevance(numpy.asarray(wanted, dtype=numpy.float32), vectors, lambda_mult, k) if found else []
        return [found[at] for at in chosen]

    def _similarity_search_with_relevance_scores(  # type: ignore[override]
        self, query: str, k: int = 4, filter: dict[str, Any] | None = None
    ) -> list[tuple[Document, float]]:
        """The relevance is the cosine, 0 if it is negative; the order is that of the scores."""
        found = self.similarity_search(query, k, filter)
        wanted = numpy.asarray(self.embeddings.embed_query(query), dtype=numpy.float32)
        cosines = self._documents.vectors(found) @ wanted / (numpy.linalg.norm(wanted) or 1)
        return list(zip(found, numpy.clip(cosines, 0, 1).tolist(), strict=True))

    # The same with `await`.

    @classmethod
    async def afrom_texts(cls, *arguments: Any, **options: Any) -> Self:
        return await wait(cls.from_texts, *arguments, **options)

    async def aadd_texts(self, *arguments: Any, **options: Any) -> list[str]:
        return await wait(self.add_texts, *arguments, **options)

    async def adelete(self, ids: list[str] | None = None, **_: Any) -> bool:
        return await wait(self.delete, ids)

    async def aget_by_ids(self, ids: Sequence[str], /) -> list[Document]:
        return await wait(self.get_by_ids, ids)

    async def asimilarity_search(self, *arguments: Any, **options: Any) -> list[Document]:
        return await wait(self.similarity_search, *arguments, **options)

    async def asimilarity_search_with_score(self, *arguments: Any, **options: Any) -> list[tuple[Document, float]]:
        return await wait(self.similarity_search_with_score, *arguments, **options)

    async def asimilarity_search_by_vector(self, *arguments: Any, **options: Any) -> list[Document]:
        return await wait(self.similarity_search_by_vector, *arguments, **options)

    async def amax_marginal_relevance_search_by_vector(self, *arguments: Any, **options: Any) -> list[Document]:
        return await wait(self.max_marginal_relevance_search_by_vector, *arguments, **options)

    async def amax_marginal_relevance_search(self, *arguments: Any, **options: Any) -> list[Document]:
        return await wait(self.max_marginal_relevance_search, *arguments, **options)

    async def _asimilarity_search_with_relevance_scores(self, *arguments: Any, **options: Any) -> list[tuple[Document, float]]:
        return await wait(self._similarity_search_with_relevance_scores, *arguments, **options)
