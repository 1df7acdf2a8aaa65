"""The engine's model."""

from typing import Any

from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.bridge.pydantic import Field

from mnemon import Engine
from mnemon._wait import wait


class MnemonEmbedding(BaseEmbedding):
    """The engine's model for LlamaIndex. Vectors have length 1. A text that is too long for the model gets the mean of its parts."""

    engine: Engine = Field(exclude=True)

    def __init__(self, engine: Engine, **options: Any) -> None:
        super().__init__(**{"engine": engine, "model_name": engine.model["name"], **options})

    @classmethod
    def class_name(cls) -> str:
        return "MnemonEmbedding"

    def _get_query_embedding(self, query: str) -> list[float]:
        return self.engine.embed_query(query)

    def _get_text_embedding(self, text: str) -> list[float]:
        return self.engine.embed_documents([text])[0]

    def _get_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        return self.engine.embed_documents(texts).tolist()

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return await wait(self._get_query_embedding, query)

    async def _aget_text_embedding(self, text: str) -> list[float]:
        return await wait(self._get_text_embedding, text)

    async def _aget_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        return await wait(self._get_text_embeddings, texts)
