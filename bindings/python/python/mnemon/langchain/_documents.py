"""LangChain's documents, as those of an engine's namespace: what the index and the vector store share."""

import uuid
from collections.abc import Sequence
from typing import Any

import numpy
from langchain_core.documents import Document

import mnemon
from mnemon import AsyncEngine, DocumentOperation, Engine
from mnemon._adapters import embed_pending
from mnemon._async import engine_of
from mnemon._values import ALL, key_of

# Documents of LangChain alone, where another program put others.
OURS: dict[str, Any] = {"page_content": {"$exists": True}}


class StoredDocuments:
    """The documents of a namespace. Each call is one commit or one read."""

    def __init__(self, engine: Engine | AsyncEngine, namespace: str) -> None:
        self.engine = engine_of(engine)
        self.namespace = namespace

    def put(self, documents: Sequence[Document], vectors: Any = None) -> list[str]:
        """Stores documents in the place of those with the same ids, and returns the ids; one without gets a new one.

        `vectors` are given in a database of `GivenVectors`. There a document without text is found by its id as well.
        """
        documents = list(documents)
        ids = [document.id or str(uuid.uuid4()) for document in documents]
        self.engine.document_batch([
            DocumentOperation.put(
                self.namespace,
                key_of(id),
                {"id": id, "page_content": document.page_content, "metadata": document.metadata},
                index=["page_content" if vector is None or document.page_content.strip() else "id"],
                vectors=None if vector is None else [vector],
            )
            for id, document, vector in zip(ids, documents, [None] * len(ids) if vectors is None else vectors, strict=True)
        ])
        return ids

    def get(self, ids: Sequence[str]) -> list[Document]:
        found = self.engine.document_batch([DocumentOperation.get(self.namespace, key_of(id)) for id in ids])
        return [document_of(document) for document in found if document is not None]

    def delete(self, ids: Sequence[str]) -> list[str]:
        """Returns the ids of the documents that were there."""
        ids = list(ids)
        deleted = self.engine.document_batch([DocumentOperation.delete(self.namespace, key_of(id)) for id in ids])
        return [id for id, was_there in zip(ids, deleted, strict=True) if was_there]

    def clear(self) -> None:
        """Deletes all documents of LangChain. Cost: a pass over the values of the namespace."""
        found = self.engine.documents(self.namespace).search(where=OURS, limit=ALL)
        self.engine.document_batch([DocumentOperation.delete(self.namespace, document.key) for document in found])

    def vectors(self, documents: Sequence[Document]) -> Any:
        """The stored vectors of documents, as an array."""
        return numpy.asarray(self.engine.documents(self.namespace).vectors([key_of(str(document.id)) for document in documents]))

    def search(self, query: str | None, k: int, where: dict[str, Any] | None, vector: Any = None) -> list[mnemon.Document]:
        """The best documents by meaning and by words, or by a vector alone, whose metadata matches. What is not embedded yet is first."""
        embed_pending(self.engine)
        where = OURS | ({"metadata": where} if where else {})
        return self.engine.documents(self.namespace).search(query, where=where, limit=k, vector=vector)


def document_of(document: mnemon.Document) -> Document:
    return Document(**document.value)
