"""The engine's model."""

from typing import Annotated, Any

from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.bridge.pydantic import BeforeValidator, Field

from mnemon import AsyncEngine, Engine
from mnemon._async import engine_of
from mnemon._wait import awaited


class MnemonEmbedding(BaseEmbedding):
    """The engine's model for LlamaIndex. Vectors have length 1. A text that is too long for the model gets the mean of its parts."""

    engine: Annotated[Engine, BeforeValidator(engine_of)] = Field(exclude=True)

    def __init__(self, engine: Engine | AsyncEngine, **options: Any) -> None:
        plain = engine_of(engine)
        super().__init__(**{"engine": plain, "model_name": plain.model["name"], **options})

    @classmethod
    def class_name(cls) -> str:
        return "MnemonEmbedding"

    def _get_query_embedding(self, query: str) -> list[float]:
        return self.engine.embed_query(query)

    def _get_text_embedding(self, text: str) -> list[float]:
        return self.engine.embed_documents([text])[0]

    def _get_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        return self.engine.embed_documents(texts).tolist()

    _aget_query_embedding = awaited(_get_query_embedding)
    _aget_text_embedding = awaited(_get_text_embedding)
    _aget_text_embeddings = awaited(_get_text_embeddings)
