"""The memory of an AutoGen agent in mnemon. Needs `autogen-agentchat`."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

from autogen_agentchat.agents import AssistantAgent
from autogen_core.memory import MemoryContent, MemoryMimeType
from autogen_core.models import ChatCompletionClient, CreateResult, ModelInfo, RequestUsage

from mnemon import Engine
from mnemon.autogen import MnemonMemory


class Fake(ChatCompletionClient):
    """Stands for a chat model: it says again what it was given last."""

    component_config_schema: Any = None

    async def create(self, messages: Any, **_: Any) -> CreateResult:
        return CreateResult(finish_reason="stop", content=str(messages[-1].content), usage=RequestUsage(0, 0), cached=False)

    async def create_stream(self, messages: Any, **_: Any) -> AsyncGenerator[str | CreateResult, None]:
        yield await self.create(messages)

    async def close(self) -> None: ...

    def actual_usage(self) -> RequestUsage:
        return RequestUsage(0, 0)

    total_usage = actual_usage

    def count_tokens(self, messages: Any, **_: Any) -> int:
        return len(messages)

    remaining_tokens = count_tokens

    @property
    def capabilities(self) -> Any:
        return self.model_info

    @property
    def model_info(self) -> ModelInfo:
        return ModelInfo(vision=False, function_calling=False, json_output=False, family="unknown", structured_output=False)


async def main() -> None:
    with Engine("memory.redb") as engine:
        memory = MnemonMemory(engine, "acme/ada", k=1)
        for text in ("Ada rows on Thursday.", "The boathouse closes at dusk."):
            await memory.add(MemoryContent(content=text, mime_type=MemoryMimeType.TEXT))
        agent = AssistantAgent("atlas", Fake(), memory=[memory])
        result = await agent.run(task="When does Ada row?")
        print(result.messages[-1].to_text())
        await memory.clear()


asyncio.run(main())
