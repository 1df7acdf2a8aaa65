"""Messages that are too long for a content, and those that say nothing, in each adapter that keeps a framework's messages whole."""

import asyncio
from collections.abc import Callable
from typing import Any

import agent_framework
import pytest
import strands.types.session as strands
from autogen_core.memory import MemoryContent
from crewai.memory.types import MemoryRecord
from google.adk.events import Event
from google.adk.sessions.base_session_service import BaseSessionService
from google.genai import types
from pydantic_ai import BinaryImage
from pydantic_ai.conversation import Conversation
from pydantic_ai.messages import ModelRequest, ModelResponse, TextPart, ToolCallPart, ToolReturnPart, UserPromptPart

from mnemon import Engine
from mnemon._adapters import CONTENT_BYTES, search
from mnemon.adk import MnemonSessionService
from mnemon.agent_framework import MnemonHistoryProvider
from mnemon.autogen import MnemonMemory
from mnemon.crewai import MnemonStorage
from mnemon.pydantic_ai import MnemonConversationStore
from mnemon.strands import MnemonSessionRepository

# A single text of this length is cut within an emoji of four bytes.
LONG = "Ada rows on Thursdays. " + "\U0001f6a3" * (CONTENT_BYTES // 2)
IMAGE = bytes(6_000_000)
CALL = {"text": LONG}


class Adk:
    namespace = "adk/sessions/a/u"
    said = [
        Event(author="user", content=types.Content(role="user", parts=[types.Part(text=LONG)])),
        Event(author="atlas", content=types.Content(role="model", parts=[types.Part.from_function_call(name="write", args=CALL)])),
        Event(author="atlas", content=types.Content(role="user", parts=[types.Part.from_function_response(name="write", response=CALL)])),
        Event(author="user", content=types.Content(role="user", parts=[types.Part.from_bytes(data=IMAGE, mime_type="image/png")])),
    ]

    def write(self, engine: Engine) -> None:
        async def appended(service: BaseSessionService) -> None:
            session = await service.create_session(app_name="a", user_id="u", session_id="s")
            for event in self.said:
                await service.append_event(session, event)

        asyncio.run(appended(MnemonSessionService(engine)))

    def read(self, engine: Engine) -> list[Any]:
        session = asyncio.run(MnemonSessionService(engine).get_session(app_name="a", user_id="u", session_id="s"))
        assert session
        return session.events


class AgentFramework:
    namespace = "n"
    said = [
        agent_framework.Message("user", [LONG]),
        agent_framework.Message("assistant", [agent_framework.Content.from_function_call("c", "write", arguments=CALL)]),
        agent_framework.Message("tool", [agent_framework.Content.from_function_result("c", result=LONG)]),
        agent_framework.Message("user", [agent_framework.Content.from_data(IMAGE, "image/png")]),
    ]

    def write(self, engine: Engine) -> None:
        asyncio.run(MnemonHistoryProvider(engine, "n").save_messages("s", self.said))

    def read(self, engine: Engine) -> list[Any]:
        found = asyncio.run(MnemonHistoryProvider(engine, "n").get_messages("s"))
        return [said if one.to_dict() == said.to_dict() else one for said, one in zip(self.said, found, strict=True)]


class PydanticAi:
    namespace = "n"
    said = [
        ModelRequest([UserPromptPart(LONG)]),
        ModelResponse([TextPart(LONG), ToolCallPart("write", CALL, "c")]),
        ModelRequest([ToolReturnPart("write", LONG, "c")]),
        ModelRequest([UserPromptPart([BinaryImage(data=IMAGE, media_type="image/png")])]),
    ]

    def write(self, engine: Engine) -> None:
        asyncio.run(MnemonConversationStore(engine, "n").save(Conversation(messages=list(self.said), conversation_id="s")))

    def read(self, engine: Engine) -> list[Any]:
        found = asyncio.run(MnemonConversationStore(engine, "n").load("s"))
        assert found
        return list(found.messages)


class Strands:
    namespace = "n"
    said = [
        strands.SessionMessage.from_message({"role": "user", "content": [block]}, number)  # type: ignore[list-item,misc]
        for number, block in enumerate([
            {"text": LONG},
            {"toolUse": {"toolUseId": "c", "name": "write", "input": CALL}},
            {"toolResult": {"toolUseId": "c", "status": "success", "content": [{"text": LONG}, {"json": CALL}]}},
            {"image": {"format": "png", "source": {"bytes": IMAGE}}},
        ])
    ]

    def write(self, engine: Engine) -> None:
        repository = MnemonSessionRepository(engine, "n")
        repository.create_session(strands.Session("s", strands.SessionType.AGENT))
        repository.create_agent("s", strands.SessionAgent("atlas", {}, {}))
        for message in self.said:
            repository.create_message("s", "atlas", message)

    def read(self, engine: Engine) -> list[Any]:
        return MnemonSessionRepository(engine, "n").list_messages("s", "atlas")


class AutoGen:
    namespace = "n"
    said = [LONG, {"text": LONG}]

    def write(self, engine: Engine) -> None:
        for content in self.said:
            asyncio.run(MnemonMemory(engine, "n", session="s").add(MemoryContent(content=content, mime_type="text/plain")))  # type: ignore[arg-type]

    def read(self, engine: Engine) -> list[Any]:
        found = asyncio.run(MnemonMemory(engine, "n", session="s").query("Who rows?")).results
        return sorted((one.content for one in found), key=self.said.index)  # type: ignore[arg-type]


class CrewAi:
    namespace = "n"
    said = [LONG, " "]

    def write(self, engine: Engine) -> None:
        MnemonStorage(engine, "n").save([MemoryRecord(id=str(at), content=content, scope="/s") for at, content in enumerate(self.said)])

    def read(self, engine: Engine) -> list[Any]:
        return [found.content for id in "01" if (found := MnemonStorage(engine, "n").get_record(id))]


@pytest.mark.parametrize("make", [Adk, AgentFramework, PydanticAi, Strands, AutoGen, CrewAi])
def test_long_messages_come_back_whole_and_are_found_by_their_beginning(engine: Engine, make: Callable[[], Any]) -> None:
    adapter = make()
    adapter.write(engine)
    assert adapter.read(engine) == adapter.said
    [session] = engine.sessions(adapter.namespace)
    long, *_, last = engine.history(adapter.namespace, session["session"])
    assert LONG.startswith(long.text) and CONTENT_BYTES - 4 < len(long.text.encode()) <= CONTENT_BYTES
    engine.put(adapter.namespace, ["Bo bakes bread."])
    engine.flush()
    # What has no text has no content, and is not recalled.
    found = engine.recall(adapter.namespace, "Who rows on Thursdays?", k=9)
    assert [hit.message.id for hit in search(engine, adapter.namespace, LONG, k=1)] == [long.id]
    assert found[0].message.id == long.id and all(hit.message.text for hit in found)
    assert bool(last.content) == bool(last.text)
