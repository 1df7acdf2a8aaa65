"""The tests of document stores that Haystack carries, `haystack.testing`, on ours."""

from typing import Any

import haystack.testing.document_store as sync_tests
import haystack.testing.document_store_async as async_tests
import pytest
from haystack import Document
from haystack.document_stores.errors import DuplicateDocumentError

from mnemon import Engine
from mnemon.haystack import MnemonDocumentStore

MIXINS = [
    found
    for module in (sync_tests, async_tests)
    for name, found in vars(module).items()
    if name.endswith("Test") and getattr(found, "__module__", None) == module.__name__
]


class TestDocumentStore(*MIXINS):  # type: ignore[misc]
    @pytest.fixture
    def document_store(self, engine: Engine) -> MnemonDocumentStore:
        return MnemonDocumentStore(engine, "documents")

    @staticmethod
    def assert_documents_are_equal(received: list[Document], expected: list[Document]) -> None:
        """In any order."""
        assert sorted(received, key=lambda one: one.id) == sorted(expected, key=lambda one: one.id)

    def test_write_documents(self, document_store: MnemonDocumentStore) -> None:
        """The default is to fail."""
        document = Document(content="test doc")
        assert document_store.write_documents([document]) == 1
        with pytest.raises(DuplicateDocumentError):
            document_store.write_documents([document])

    @pytest.mark.asyncio
    async def test_write_documents_async(self, document_store: Any) -> None:
        document = Document(content="test doc")
        assert await document_store.write_documents_async([document]) == 1
        with pytest.raises(DuplicateDocumentError):
            await document_store.write_documents_async([document])
