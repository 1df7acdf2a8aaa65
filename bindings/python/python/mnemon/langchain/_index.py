"""Documents that a retriever finds."""

from collections.abc import Sequence
from typing import Annotated, Any

from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.indexing import DeleteResponse, UpsertResponse
from langchain_core.indexing.base import DocumentIndex
from pydantic import BeforeValidator

from mnemon import InvalidValueError
from mnemon._async import engine_of
from mnemon._wait import wait

from ._documents import StoredDocuments, document_of


class MnemonIndex(DocumentIndex):
    """Documents in a namespace, found by meaning and by words; a retriever of the best `k` that match `where`.

    `where` is a filter on the metadata. A query embeds first what is not embedded yet, so it finds what was upserted just before.
    """

    engine: Annotated[Any, BeforeValidator(engine_of)]
    namespace: str
    k: int = 10
    where: dict[str, Any] | None = None

    def upsert(self, items: Sequence[Document], /, **_: Any) -> UpsertResponse:
        return UpsertResponse(succeeded=self._documents.put(items), failed=[])

    def delete(self, ids: list[str] | None = None, **_: Any) -> DeleteResponse:
        if ids is None:
            raise InvalidValueError("delete takes the ids of documents; to delete all of them, delete the namespace")
        succeeded = self._documents.delete(ids)
        return DeleteResponse(num_deleted=len(succeeded), succeeded=succeeded, num_failed=0, failed=[])

    def get(self, ids: Sequence[str], /, **_: Any) -> list[Document]:
        return self._documents.get(ids)

    async def aupsert(self, items: Sequence[Document], /, **_: Any) -> UpsertResponse:
        return await wait(self.upsert, items)

    async def adelete(self, ids: list[str] | None = None, **_: Any) -> DeleteResponse:
        return await wait(self.delete, ids)

    async def aget(self, ids: Sequence[str], /, **_: Any) -> list[Document]:
        return await wait(self.get, ids)

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun | None = None, k: int | None = None, **_: Any
    ) -> list[Document]:
        return [document_of(found) for found in self._documents.search(query, self.k if k is None else k, self.where)]

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun | None = None, k: int | None = None, **_: Any
    ) -> list[Document]:
        return await wait(self._get_relevant_documents, query, k=k)

    @property
    def _documents(self) -> StoredDocuments:
        return StoredDocuments(self.engine, self.namespace)
