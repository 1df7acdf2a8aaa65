"""What tests of several frameworks need: a chat that another program stored, a clock beside a call, and changes by other machines."""

import asyncio
from collections.abc import Awaitable, Callable
from threading import Event
from typing import Any, TypeVar

from mnemon import Engine

T = TypeVar("T")
PIXEL = "iVBORw0KGgo="
CHAT: list[dict[str, Any]] = [
    {"role": "system", "content": "Be kind."},
    {"role": "user", "name": "Ada", "content": [
        {"type": "text", "text": "Where is my kayak? It looks like this."},
        {"type": "image", "uri": "https://example.org/kayak.png"},
        {"type": "image", "uri": f"data:image/png;base64,{PIXEL}"},
        {"type": "file", "uri": "a.pdf"},
        {"type": "image", "uri": "data:image/png;base64,x"},
    ]},
    {"role": "assistant", "content": [
        {"type": "text", "text": "I look."},
        {"type": "tool_call", "id": "c1", "name": "look", "arguments": {"at": "boathouse"}},
        {"type": "tool_call", "id": "c2", "name": "ask", "arguments": "Tom"},
    ]},
    {"role": "tool", "content": [
        {"type": "tool_result", "id": "c1", "content": "A red kayak."},
        {"type": "tool_result", "id": "c2", "content": ""},
    ]},
    # With what other programs have under the keys that adapters use.
    {"role": "assistant", "content": "In the boathouse.", "metadata": {
        "adk": 5, "agent_framework": {}, "pydantic_ai": "x", "crewai": [], "autogen": 7, "strands": 1, "strands_agent": "atlas",
        "strands_number": "x"}},
]


def put_chat(engine: Engine, namespace: str, session: str) -> None:
    engine.put(namespace, [message | {"session": session} for message in CHAT])


class SlowEmbedder:
    """Holds an engine up until it may go on."""

    name, dimension = "slow", 2

    def __init__(self) -> None:
        self.go = Event()

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        self.go.wait(20)
        return [[1.0, 0.0] for _ in texts]


async def beside(call: Awaitable[T], embedder: SlowEmbedder) -> T:
    """The result of a call that waits for the embedder, which may go on only after the event loop went on beside the call."""
    task = asyncio.ensure_future(call)
    for _ in range(20):
        await asyncio.sleep(0.005)
    assert not task.done()
    embedder.go.set()
    return await asyncio.wait_for(task, 20)


class Overtaken:
    """An engine whose call of a number, at which a change looks at what is there, another machine's change follows at once."""

    def __init__(self, engine: Engine, number: int, other: Callable[[], Any], call: str = "document_batch") -> None:
        self.whole, self.number, self.other, self.call = engine, number, other, call

    def __getattr__(self, name: str) -> Any:
        method = getattr(self.whole, name)

        def followed(*given: Any, **named: Any) -> Any:
            result = method(*given, **named)
            self.number -= 1
            if self.number == 0:
                self.other()
            return result

        return followed if name == self.call else method
