"""The engine's model for LangChain, and LangChain's models for the engine."""

from typing import Any

import numpy
from langchain_core.embeddings import Embeddings

from mnemon import AsyncEngine, Embedder, Engine
from mnemon._async import engine_of
from mnemon._wait import awaited


class MnemonEmbeddings(Embeddings):
    """The vectors that the engine's model makes, of length 1."""

    def __init__(self, engine: Engine | AsyncEngine) -> None:
        self.engine = engine_of(engine)

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return self.engine.embed_documents(texts).tolist()

    def embed_query(self, text: str) -> list[float]:
        return self.engine.embed_query(text)

    aembed_documents = awaited(embed_documents)
    aembed_query = awaited(embed_query)

def langchain_embedder(embeddings: Embeddings, *, name: str, dimension: int | None = None) -> Embedder:
    """The embedder that makes an engine use a model of LangChain: `Engine(path, embedder=langchain_embedder(model, name="..."))`.

    A database accepts the `name` that it was made with, so give each model a name of its own. Without `dimension`, a text is embedded to
    find it out. Vectors are scaled to length 1.
    """
    return _Embedder(embeddings, name, dimension or len(embeddings.embed_query("dimension")))


class _Embedder:
    def __init__(self, embeddings: Embeddings, name: str, dimension: int) -> None:
        self.embeddings = embeddings
        self.name = name
        self.dimension = dimension

    def embed_documents(self, texts: list[str]) -> Any:
        return _unit(self.embeddings.embed_documents(texts))

    def embed_query(self, text: str) -> Any:
        return _unit([self.embeddings.embed_query(text)])[0].tolist()


def _unit(vectors: list[list[float]]) -> Any:
    """An array of the vectors, each scaled to length 1."""
    rows = numpy.asarray(vectors, dtype=numpy.float32)
    lengths = numpy.linalg.norm(rows, axis=1, keepdims=True)
    return rows / numpy.where(lengths == 0, 1, lengths)
