"""CrewAI's memory in mnemon, with the engine's own model for its vectors: no key, no network. Needs `crewai`."""

from typing import Any

from crewai.llms.base_llm import BaseLLM
from crewai.memory.unified_memory import Memory

from mnemon import Engine
from mnemon.crewai import MnemonStorage


class Fake(BaseLLM):
    """Stands for a chat model, which CrewAI asks for what a memory is not told."""

    def call(self, messages: Any, *_: Any, **__: Any) -> str:
        return "{}"


with Engine("memory.redb") as engine:
    storage = MnemonStorage(engine, "acme/crew")
    memory = Memory(storage=storage, embedder=storage.embed, llm=Fake(model="fake"))
    for text in ("Ada rows on Thursday.", "The boathouse closes at dusk."):
        memory.remember(text, scope="/club", categories=["club"], importance=0.5)
    for match in memory.recall("When does Ada row?", scope="/club", depth="shallow", limit=1):
        print(f"{match.score:.2f} {match.record.content}")
    # The engine finds them, too.
    engine.flush()
    print(engine.recall("acme/crew", "boats at night", k=1)[0].message.text)
