"""An Agno agent whose sessions and user memories are in mnemon. Needs `agno`."""

from typing import Any

from agno.agent import Agent
from agno.db.schemas.memory import UserMemory
from agno.models.base import Model
from agno.models.response import ModelResponse

from mnemon import Engine
from mnemon.agno import MnemonDb


class Fake(Model):
    """Stands for a chat model: it says how many messages it was given."""

    def invoke(self, *_: Any, messages: list[Any], **__: Any) -> ModelResponse:
        return ModelResponse(role="assistant", content=f"An answer to {len(messages)} messages.")

    async def ainvoke(self, *given: Any, **named: Any) -> ModelResponse:
        return self.invoke(*given, **named)

    def invoke_stream(self, *given: Any, **named: Any) -> Any:
        yield self.invoke(*given, **named)

    async def ainvoke_stream(self, *given: Any, **named: Any) -> Any:
        yield self.invoke(*given, **named)

    def _parse_provider_response(self, response: Any, **_: Any) -> ModelResponse:
        return ModelResponse(content=str(response))

    def _parse_provider_response_delta(self, response: Any) -> ModelResponse:
        return ModelResponse(content=str(response))


with Engine("memory.redb") as engine:
    db = MnemonDb(engine, "acme/agents")
    agent = Agent(model=Fake("fake"), db=db, add_history_to_context=True, add_memories_to_context=True, telemetry=False)
    db.upsert_user_memory(UserMemory("Ada moved her rowing lesson to Thursday.", memory_id="rowing", user_id="ada"))
    print(agent.run("When does the boathouse open?", session_id="monday", user_id="ada").content)
    print(agent.run("And when does it close?", session_id="monday", user_id="ada").content)  # with the history of the session
    engine.flush()
    for hit in engine.recall(db.space("ada"), "When is her lesson?", k=2):
        print(f"{hit.score:.2f} {hit.message.session}: {hit.message.text}")
