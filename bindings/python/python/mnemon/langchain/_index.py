"""Documents that a retriever finds."""

import uuid
from collections.abc import Sequence
from typing import Any

from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.indexing import DeleteResponse, UpsertResponse
from langchain_core.indexing.base import DocumentIndex

import mnemon
from mnemon import DocumentOperation
from mnemon._values import key_of
from mnemon._wait import wait


class MnemonIndex(DocumentIndex):
    """Documents in a namespace, found by meaning and by words; a retriever of the best `k` that match `where`.

    `where` is a filter on the metadata. A query embeds first what is not embedded yet, so it finds what was upserted just before.
    """

    engine: Any
    namespace: str
    k: int = 10
    where: dict[str, Any] | None = None

    def upsert(self, items: Sequence[Document], /, **_: Any) -> UpsertResponse:
        ids = [item.id or str(uuid.uuid4()) for item in items]
        self._batch([
            DocumentOperation.put(
                self.namespace,
                key_of(id),
                {"id": id, "page_content": item.page_content, "metadata": item.metadata},
                index=["page_content"],
            )
            for id, item in zip(ids, items, strict=True)
        ])
        return UpsertResponse(succeeded=ids, failed=[])

    def delete(self, ids: list[str] | None = None, **_: Any) -> DeleteResponse:
        if ids is None:
            raise ValueError("delete takes the ids of documents; to delete all of them, delete the namespace")
        deleted = self._batch([DocumentOperation.delete(self.namespace, key_of(id)) for id in ids])
        succeeded = [id for id, was_there in zip(ids, deleted, strict=True) if was_there]
        return DeleteResponse(num_deleted=len(succeeded), succeeded=succeeded, num_failed=0, failed=[])

    def get(self, ids: Sequence[str], /, **_: Any) -> list[Document]:
        found = self._batch([DocumentOperation.get(self.namespace, key_of(id)) for id in ids])
        return [_document(document) for document in found if document is not None]

    async def aupsert(self, items: Sequence[Document], /, **_: Any) -> UpsertResponse:
        return await wait(self.upsert, items)

    async def adelete(self, ids: list[str] | None = None, **_: Any) -> DeleteResponse:
        return await wait(self.delete, ids)

    async def aget(self, ids: Sequence[str], /, **_: Any) -> list[Document]:
        return await wait(self.get, ids)

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun | None = None, k: int | None = None, **_: Any
    ) -> list[Document]:
        if self.engine.pending():
            self.engine.flush()
        where = {"metadata": self.where} if self.where else None
        found = self.engine.documents(self.namespace).search(query, where=where, limit=self.k if k is None else k)
        return [_document(document) for document in found]

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun | None = None, k: int | None = None, **_: Any
    ) -> list[Document]:
        return await wait(self._get_relevant_documents, query, k=k)

    def _batch(self, operations: list[DocumentOperation]) -> list[Any]:
        outcomes: list[Any] = self.engine.document_batch(operations)
        return outcomes


def _document(document: mnemon.Document) -> Document:
    return Document(**document.value)
