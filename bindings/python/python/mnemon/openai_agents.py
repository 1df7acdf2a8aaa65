"""The sessions of the OpenAI Agents SDK on an engine. Needs the package `openai-agents`."""

import asyncio
import json
from collections.abc import Callable
from threading import Lock
from typing import Any, TypeVar

from agents.items import TResponseInputItem
from agents.memory import SessionSettings

from ._mnemon import Engine, Message, SessionNotFoundError
from ._wait import wait

_T = TypeVar("_T")

# Changes of a session take turns. Sessions share these locks, so that none has to be made for each.
LOCKS = [Lock() for _ in range(64)]
ROLES = {"user": "user", "assistant": "assistant", "system": "system", "developer": "system"}


class MnemonSession:
    """A session of the Agents SDK, as a session of a namespace: `Runner.run(agent, input, session=MnemonSession(engine, "acme/ada", "s"))`.

    Each item is a message, which recalls in the namespace find by its text. It is kept whole: calls of tools, their outputs and reasoning
    too. As JSON, and with its text counted again, it has at most 1 MiB; `add_items` raises `InvalidMessageError` for more, and stores
    nothing.

    Calls may come from any thread, and from any number of objects for one session. Items that are added together stay together, and
    `pop_item` removes the last item, as long as all changes of the session go through this class. A change that is cancelled is done to
    its end before the cancellation goes on.
    """

    def __init__(
        self, engine: Engine, namespace: str, session_id: str, *, session_settings: SessionSettings | None = None
    ) -> None:
        self.engine = engine
        self.namespace = namespace
        self.session_id = session_id
        self.session_settings: SessionSettings | None = session_settings or SessionSettings()
        self._lock = LOCKS[hash((namespace, session_id)) % len(LOCKS)]

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """The last `limit` items, in order; without it, as many as the settings say. A negative limit is none.

        Cost: a pass over the session's messages, of which `limit` are made into items.
        """
        if limit is None and self.session_settings is not None:
            limit = self.session_settings.limit
        stored = await wait(self.engine.history, self.namespace, self.session_id)
        first = 0 if limit is None or limit < 0 else max(len(stored) - limit, 0)
        return [_item(message) for message in stored[first:]]

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """Stores items at the end, in one commit."""
        await self._change(lambda: self.engine.put(self.namespace, [self._message(item) for item in items]))

    async def pop_item(self) -> TResponseInputItem | None:
        """Deletes the last item and returns it. Cost: a pass over the session's messages."""
        return await self._change(self._pop)

    async def clear_session(self) -> None:
        await self._change(self._clear)

    async def _change(self, change: Callable[[], _T]) -> _T:
        def locked() -> _T:
            with self._lock:
                return change()

        task, cancelled = asyncio.ensure_future(wait(locked)), None
        while not task.done():
            try:
                await asyncio.wait([task])
            except asyncio.CancelledError as error:
                cancelled = error
        if cancelled:
            task.exception()
            raise cancelled
        return task.result()

    def _pop(self) -> TResponseInputItem | None:
        stored = self.engine.history(self.namespace, self.session_id)
        if not stored:
            return None
        # Before the deletion: what cannot be returned is not deleted.
        item = _item(stored[-1])
        self.engine.delete(self.namespace, [stored[-1].id])
        return item

    def _clear(self) -> None:
        try:
            self.engine.delete_session(self.namespace, self.session_id)
        except SessionNotFoundError:
            pass

    def _message(self, item: Any) -> Message:
        return Message(
            _content(item),
            _role(item),
            session=self.session_id,
            metadata={"openai_agents": json.dumps(item, ensure_ascii=False)},
        )


def _item(message: Message) -> TResponseInputItem:
    item: TResponseInputItem = json.loads(message.metadata["openai_agents"])
    return item


def _role(item: dict[str, Any]) -> Any:
    """The role of a message; of what is none, the one that makes it."""
    if str(item.get("type")).endswith("_output"):
        return "tool"
    return ROLES.get(item.get("role", "assistant"), "user")


def _content(item: dict[str, Any]) -> list[dict[str, Any]]:
    """What a recall reads of an item, and what a prompt has in its place."""
    kind, call = item.get("type") or "message", item.get("call_id")
    if call and "name" in item and not kind.endswith("_output"):
        return [{"type": "tool_call", "id": call, "name": item["name"], "arguments": item.get("arguments", item.get("input"))}]
    text = "\n".join(_texts(item.get("content")) + _texts(item.get("output")))
    if call and text:
        return [{"type": "tool_result", "id": call, "content": text}]
    # What has no text, such as a picture or reasoning, is in the metadata; a message of no content is none.
    return [{"type": "text", "text": text if text.strip() else f"({kind})"}]


def _texts(content: Any) -> list[str]:
    if isinstance(content, str):
        return [content]
    parts = content if isinstance(content, list) else []
    return [part["text"] for part in parts if isinstance(part, dict) and isinstance(part.get("text"), str)]
