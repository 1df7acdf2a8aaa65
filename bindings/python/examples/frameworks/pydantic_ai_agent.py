"""An agent of Pydantic AI with its conversations in mnemon, and tools to remember and to recall. Needs `pydantic-ai-slim`."""

import asyncio

from pydantic_ai import Agent
from pydantic_ai.conversation import Conversation
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart, UserPromptPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from mnemon import Engine
from mnemon.pydantic_ai import MnemonConversationStore, MnemonToolset


def fake(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """Stands for a chat model: it uses the tools, and says what they return."""
    last = messages[-1].parts[-1]
    if isinstance(last, ToolReturnPart):
        return ModelResponse([TextPart(f"{last.tool_name}: {last.model_response_str()}")])
    text = str(last.content) if isinstance(last, UserPromptPart) else ""
    call = ToolCallPart("recall", {"query": text}) if text.endswith("?") else ToolCallPart("remember", {"text": text})
    return ModelResponse([call])


async def main() -> None:
    with Engine("memory.redb") as engine:
        store = MnemonConversationStore(engine, "acme/ada")
        agent = Agent(FunctionModel(fake), toolsets=[MnemonToolset(engine, "acme/ada", k=1)])
        for text in ("I moved my rowing lesson to Thursday.", "When is my rowing lesson?"):
            conversation = await store.load("monday") or Conversation(conversation_id="monday")
            result = await agent.run(text, conversation=conversation)
            await store.save(result)
            print(result.output)
        print([record.conversation_id for record in await store.list_conversations()])


asyncio.run(main())
