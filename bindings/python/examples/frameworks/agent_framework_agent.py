"""An agent of Microsoft Agent Framework with its history and its memory in mnemon. Needs `agent-framework-core`."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from agent_framework import Agent, BaseChatClient, ChatResponse, Message

from mnemon import Engine
from mnemon.agent_framework import MnemonContextProvider, MnemonHistoryProvider


class Fake(BaseChatClient[Any]):
    """Stands for a chat model: it repeats the message before the last one, which is what the memory found."""

    async def _inner_get_response(
        self, *, messages: Sequence[Message], stream: bool, options: Mapping[str, Any], **_: Any
    ) -> ChatResponse:
        said = messages[-2].text if messages[-1].text.endswith("?") else "I shall remember that."
        return ChatResponse(messages=[Message("assistant", [said])])


async def main() -> None:
    with Engine("memory.redb") as engine:
        history = MnemonHistoryProvider(engine, "acme/ada")
        memory = MnemonContextProvider(engine, "acme/ada", k=3, store=False)
        agent = Agent(Fake(), context_providers=[history, memory])
        for text in ("I moved my rowing lesson to Thursday.", "When is my rowing lesson?"):
            print(await agent.run(text, session=agent.create_session()))


asyncio.run(main())
