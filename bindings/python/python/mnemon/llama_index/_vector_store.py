"""Nodes that an index finds."""

from collections.abc import Sequence
from typing import Annotated, Any

from llama_index.core.bridge.pydantic import BeforeValidator, Field
from llama_index.core.schema import BaseNode, MetadataMode
from llama_index.core.vector_stores.types import (
    BasePydanticVectorStore,
    MetadataFilters,
    VectorStoreQuery,
    VectorStoreQueryMode,
    VectorStoreQueryResult,
)
from llama_index.core.vector_stores.utils import metadata_dict_to_node, node_to_metadata_dict

from mnemon import Document, DocumentOperation, Engine, InvalidValueError
from mnemon._adapters import embed_pending
from mnemon._async import engine_of
from mnemon._values import ALL, key_of
from mnemon._wait import wait

from ._filters import where

MODES = {VectorStoreQueryMode.DEFAULT, VectorStoreQueryMode.HYBRID}


class MnemonVectorStore(BasePydanticVectorStore):
    """Nodes in the documents of a namespace, found by meaning and by words.

    The engine's model makes the vectors, and vectors of nodes and of queries are not used: with `MockEmbedding(1)` an index makes none.
    A query needs its text. With `is_embedding_query=True` and an engine that has `embedder=GivenVectors(name, dimension)`, the vectors
    of nodes and queries are used: the mode `default` is then by cosine alone, `hybrid` by text too, and `text_search` by text alone.

    A query embeds first what is not embedded yet, so it finds what was added just before. Without vectors the modes `default` and
    `hybrid` are the same: the engine's ranking, without `alpha`. Its scores are the similarities: the higher the better, and no cosines.

    A call is one commit. A node has at most 1 MiB as JSON, with its text and metadata counted twice. Other documents and the messages of
    the namespace stay as they are.
    """

    stores_text: bool = True
    is_embedding_query: bool = False
    engine: Annotated[Engine, BeforeValidator(engine_of)] = Field(exclude=True)
    namespace: str

    @classmethod
    def class_name(cls) -> str:
        return "MnemonVectorStore"

    @property
    def client(self) -> Engine:
        return self.engine

    def add(self, nodes: Sequence[BaseNode], **_: Any) -> list[str]:
        """Stores nodes. One with a known id replaces the old one."""
        self.engine.document_batch([
            DocumentOperation.put(
                self.namespace,
                key_of(node.node_id),
                {
                    "id": node.node_id,
                    "text": node.get_content(metadata_mode=MetadataMode.EMBED),
                    "metadata": node_to_metadata_dict(node),
                },
                index=["text" if node.embedding is None or node.get_content(metadata_mode=MetadataMode.EMBED).strip() else "id"],
                vectors=[node.get_embedding()] if self.is_embedding_query else None,
            )
            for node in nodes
        ])
        return [node.node_id for node in nodes]

    def delete(self, ref_doc_id: str, **_: Any) -> None:
        self._delete(self._search(where={"metadata.ref_doc_id": ref_doc_id}))

    def delete_nodes(self, node_ids: list[str] | None = None, filters: MetadataFilters | None = None, **_: Any) -> None:
        if node_ids is None and not (filters and filters.filters):
            raise InvalidValueError("delete_nodes takes node_ids, filters, or both; clear deletes all nodes")
        self._delete(self._find(node_ids, filters))

    def clear(self) -> None:
        self._delete(self._search())

    def get_nodes(self, node_ids: list[str] | None = None, filters: MetadataFilters | None = None) -> list[BaseNode]:
        return [_node(document) for document in self._find(node_ids, filters)]

    def query(self, query: VectorStoreQuery, **_: Any) -> VectorStoreQueryResult:
        modes = MODES | {VectorStoreQueryMode.TEXT_SEARCH} if self.is_embedding_query else MODES
        if query.mode not in modes or query.alpha is not None:
            names = " and ".join(sorted(mode.value for mode in modes))
            raise InvalidValueError(f"mode {query.mode.value!r}, alpha {query.alpha}: there are the modes {names}, without alpha")
        text, vector = query.query_str, None
        if self.is_embedding_query and query.mode != VectorStoreQueryMode.TEXT_SEARCH:
            vector = query.query_embedding
            if vector is None:
                raise InvalidValueError("the query has no query_embedding, and the vectors of this store are given; use the mode text_search")
            text = text if query.mode == VectorStoreQueryMode.HYBRID else None
        elif not text:
            raise InvalidValueError("the query has no text, and the engine embeds by itself; give it as query_str, with any query_embedding")
        conditions = [where(query.filters)]
        if query.doc_ids:
            conditions.append({"metadata.ref_doc_id": {"$in": query.doc_ids}})
        if query.node_ids:
            conditions.append({"id": {"$in": query.node_ids}})
        embed_pending(self.engine)
        found = self._search(text, where={"$and": conditions}, limit=query.similarity_top_k, vector=vector)
        nodes = [_node(document) for document in found]
        return VectorStoreQueryResult(nodes, [document.score or 0.0 for document in found], [node.node_id for node in nodes])

    async def async_add(self, nodes: Sequence[BaseNode], **_: Any) -> list[str]:
        return await wait(self.add, nodes)

    async def adelete(self, ref_doc_id: str, **_: Any) -> None:
        await wait(self.delete, ref_doc_id)

    async def adelete_nodes(
        self, node_ids: list[str] | None = None, filters: MetadataFilters | None = None, **_: Any
    ) -> None:
        await wait(self.delete_nodes, node_ids, filters)

    async def aclear(self) -> None:
        await wait(self.clear)

    async def aget_nodes(self, node_ids: list[str] | None = None, filters: MetadataFilters | None = None) -> list[BaseNode]:
        return await wait(self.get_nodes, node_ids, filters)

    async def aquery(self, query: VectorStoreQuery, **_: Any) -> VectorStoreQueryResult:
        return await wait(self.query, query)

    def _find(self, node_ids: list[str] | None, filters: MetadataFilters | None) -> list[Document]:
        if node_ids is None or filters is not None:
            ids = {} if node_ids is None else {"id": {"$in": node_ids}}
            return self._search(where={"$and": [ids, where(filters)]})
        found = self.engine.document_batch([DocumentOperation.get(self.namespace, key_of(id)) for id in node_ids])
        return [document for document in found if document is not None]

    def _search(
        self, query: str | None = None, where: dict[str, Any] | None = None, limit: int = ALL, vector: list[float] | None = None
    ) -> list[Document]:
        # Nodes alone, where the namespace has other documents.
        nodes = {"$and": [{"metadata._node_type": {"$exists": True}}, where or {}]}
        return self.engine.documents(self.namespace).search(query, where=nodes, limit=limit, vector=vector)

    def _delete(self, documents: list[Document]) -> None:
        self.engine.document_batch([DocumentOperation.delete(self.namespace, document.key) for document in documents])


def _node(document: Document) -> BaseNode:
    return metadata_dict_to_node(document.value["metadata"])
