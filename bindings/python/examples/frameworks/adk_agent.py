"""An agent of Google's ADK with its sessions and its memory in mnemon. Needs `google-adk`."""

import asyncio
from collections.abc import AsyncGenerator

from google.adk.agents import LlmAgent
from google.adk.models import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import Runner
from google.adk.tools.load_memory_tool import load_memory_tool
from google.genai import types

from mnemon import Engine
from mnemon.adk import MnemonMemoryService, MnemonSessionService


class Fake(BaseLlm):
    """Stands for Gemini: it looks up what it is asked, and says what it found."""

    async def generate_content_async(self, llm_request: LlmRequest, stream: bool = False) -> AsyncGenerator[LlmResponse, None]:
        part = (llm_request.contents[-1].parts or [types.Part(text="")])[-1]
        if part.function_response:
            memories = (part.function_response.response or {})["result"].memories
            answer = types.Part(text="You said: " + " ".join(found.content.parts[0].text for found in memories))
        elif part.text and part.text.endswith("?"):
            answer = types.Part(function_call=types.FunctionCall(name="load_memory", args={"query": part.text}))
        else:
            answer = types.Part(text="I shall remember that.")
        yield LlmResponse(content=types.Content(role="model", parts=[answer]))


async def main() -> None:
    with Engine("memory.redb") as engine:
        sessions, memory = MnemonSessionService(engine), MnemonMemoryService(engine, k=1)
        agent = LlmAgent(name="atlas", model=Fake(model="fake"), tools=[load_memory_tool])
        runner = Runner(app_name="club", agent=agent, session_service=sessions, memory_service=memory)
        for text in ("I moved my rowing lesson to Thursday.", "When is my rowing lesson?"):
            session = await sessions.create_session(app_name="club", user_id="ada")
            message = types.Content(role="user", parts=[types.Part(text=text)])
            async for event in runner.run_async(user_id="ada", session_id=session.id, new_message=message):
                for part in (event.content and event.content.parts) or []:
                    if part.text:
                        print(f"{event.author}: {part.text}")
            done = await sessions.get_session(app_name="club", user_id="ada", session_id=session.id)
            if done and not text.endswith("?"):
                await memory.add_session_to_memory(done)


asyncio.run(main())
