"""A Strands agent whose sessions are in mnemon. Needs `strands-agents`."""

from typing import Any

from strands import Agent
from strands.models import Model
from strands.session.repository_session_manager import RepositorySessionManager

from mnemon import Engine
from mnemon.strands import MnemonSessionRepository


class Fake(Model):
    """Stands for a chat model: it says how many messages it was given."""

    def get_config(self) -> Any:
        return {}

    def update_config(self, **_: Any) -> None: ...

    def structured_output(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError

    async def stream(self, messages: Any, *_: Any, **__: Any) -> Any:
        yield {"messageStart": {"role": "assistant"}}
        yield {"contentBlockDelta": {"delta": {"text": f"An answer to {len(messages)} messages."}}}
        yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "end_turn"}}


with Engine("memory.redb") as engine:
    repository = MnemonSessionRepository(engine, "acme/ada")
    for question in ("I moved my rowing lesson to Thursday.", "When is it?"):
        # A new agent each time: it goes on with the session.
        manager = RepositorySessionManager("monday", repository)
        agent = Agent(Fake(), agent_id="atlas", session_manager=manager, callback_handler=None)
        print(agent(question))
    engine.flush()
    print(engine.recall("acme/ada", "Which day does she row?", k=1)[0].message.text)
