"""The sessions of the OpenAI Agents SDK on an engine. Needs the package `openai-agents`."""

import json
import mimetypes
import sys
from contextlib import suppress
from typing import Any

from ._adapters import Part, arguments_of, call_of, data_of, described, fitting, kept, needs, sound_of, turn_of, turns_of
from ._async import AsyncEngine, engine_of
from ._errors import SessionNotFoundError
from ._mnemon import Engine, Message
from ._wait import finish, wait

with needs("mnemon.openai_agents", "openai-agents", "agents"):
    from agents.items import TResponseInputItem
    from agents.memory import SessionSettings

# In a message's metadata: the item as JSON.
KEY = "openai_agents"
ROLES = {"user": "user", "assistant": "assistant", "system": "system", "developer": "system"}


class MnemonSession:
    """A session of the Agents SDK, as a session of a namespace: `Runner.run(agent, input, session=MnemonSession(engine, "acme/ada", "s"))`.

    Each item is a message, which recalls in the namespace find by its text. It is kept whole: calls of tools, their outputs and reasoning
    too. An item with more than 1 MiB of text is found by its beginning. It has at most 16 MiB as JSON; `add_items` raises
    `InvalidMessageError` for more, and stores nothing.

    What another program put into the session, or changed there, is read as items of the SDK: a message, and each call of a tool and each
    output as an item of its own. Names of authors are left out, as items have no place for them.

    Calls may come from any thread, and from any number of objects for one session. Items that are added together stay together, and
    `pop_item` removes the last item, as long as all changes of the session go through this class. A change that is cancelled is done to
    its end before the cancellation goes on.
    """

    def __init__(
        self,
        engine: Engine | AsyncEngine,
        namespace: str,
        session_id: str,
        *,
        session_settings: SessionSettings | None = None,
    ) -> None:
        self.engine = engine_of(engine)
        self.namespace = namespace
        self.session_id = session_id
        self.session_settings: SessionSettings | None = session_settings or SessionSettings()
        self._lock = turn_of(namespace, session_id)

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """The last `limit` items, in order; without it, as many as the settings say. A negative limit is none.

        Cost: the reading of `limit` messages.
        """
        if limit is None and self.session_settings is not None:
            limit = self.session_settings.limit
        if limit is None or limit < 0:
            limit = sys.maxsize
        stored = await wait(self.engine.history, self.namespace, self.session_id, limit=limit)
        # From the last one back, as a message may be several items.
        found: list[TResponseInputItem] = []
        for message in reversed(stored):
            if len(found) >= limit:
                break
            found += [item for item, _ in reversed(_items(message))]
        return found[:limit][::-1]

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """Stores items at the end, in one commit."""
        await finish(self._add, items)

    async def pop_item(self) -> TResponseInputItem | None:
        """Deletes the last item and returns it; of a message of several items, that part."""
        return await finish(self._pop)

    async def clear_session(self) -> None:
        await finish(self._clear)

    def _add(self, items: list[TResponseInputItem]) -> None:
        with self._lock:
            self.engine.put(self.namespace, [self._message(item) for item in items])

    def _pop(self) -> TResponseInputItem | None:
        with self._lock:
            stored = self.engine.history(self.namespace, self.session_id, limit=1)
            if not stored:
                return None
            *left, (item, _) = _items(stored[-1])
            if left:
                content = [part for _, parts in left for part in parts]
                self.engine.put(self.namespace, [stored[-1].to_dict() | {"content": content}])
            else:
                self.engine.delete(self.namespace, [stored[-1].id])
            return item

    def _clear(self) -> None:
        with self._lock, suppress(SessionNotFoundError):
            self.engine.delete_session(self.namespace, self.session_id)

    def _message(self, item: Any) -> Message:
        return Message(
            fitting(_content(item)),
            _role(item),
            session=self.session_id,
            metadata={KEY: json.dumps(item, ensure_ascii=False)},
        )


def _items(message: Message) -> list[tuple[TResponseInputItem, list[Part]]]:
    """The items of a message, each with its parts."""
    if item := kept(message, KEY, json.loads, _content):
        return [(item, message.content)]
    items: list[tuple[Any, list[Part]]] = []
    for role, parts in turns_of(message):
        said = [part for part in parts if part["type"] not in ("tool_call", "tool_result")]
        if said or not parts:
            items.append(({"role": role, "content": _said(role, said)}, said))
        items += [(_of_tool(part), [part]) for part in parts if part not in said]
    return items


def _of_tool(part: Part) -> dict[str, Any]:
    if part["type"] == "tool_result":
        return {"type": "function_call_output", "call_id": part["id"], "output": part["content"]}
    arguments = arguments_of(part)
    text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    return {"type": "function_call", "call_id": part["id"], "name": part["name"], "arguments": text}


def _said(role: str, parts: list[Part]) -> str | list[dict[str, Any]]:
    """The content of an item. Only those of users may have media."""
    content = [_input(part) if role == "user" else _text(part) for part in parts]
    if all(part["type"] == "input_text" for part in content):
        return "\n".join(part["text"] for part in content)
    return content


def _input(part: Part) -> dict[str, Any]:
    """A part as models of every kind take it, those of Chat Completions too; otherwise its description."""
    kind, uri = part["type"], part.get("uri", "")
    media_type, data = (uri and data_of(part)) or ("", "")
    if kind == "image" and uri.startswith(("https://", "http://", "data:")):
        return {"type": "input_image", "image_url": uri, "detail": "auto"}
    if kind == "audio" and (sound := sound_of(media_type)) in ("mp3", "wav"):
        return {"type": "input_audio", "input_audio": {"data": data, "format": sound}}
    if kind == "file" and data:
        return {"type": "input_file", "file_data": uri, "filename": f"file{mimetypes.guess_extension(media_type) or ''}"}
    if kind == "file" and uri.startswith("file-"):
        return {"type": "input_file", "file_id": uri}
    return _text(part)


def _text(part: Part) -> dict[str, Any]:
    return {"type": "input_text", "text": described(part)}


def _role(item: dict[str, Any]) -> Any:
    """The role of a message; of what is none, the one that makes it."""
    if str(item.get("type")).endswith("_output"):
        return "tool"
    return ROLES.get(item.get("role", "assistant"), "user")


def _content(item: dict[str, Any]) -> list[dict[str, Any]]:
    """What a recall reads of an item, and what a prompt has in its place."""
    kind, call = item.get("type") or "message", item.get("call_id")
    if call and "name" in item and not kind.endswith("_output"):
        if "arguments" in item:
            return [call_of(call, item["name"], item["arguments"])]
        return [{"type": "tool_call", "id": call, "name": item["name"], "arguments": item.get("input")}]
    text = "\n".join(_texts(item.get("content")) + _texts(item.get("output")))
    if call and text:
        return [{"type": "tool_result", "id": call, "content": text}]
    # What has no text, such as a picture or reasoning, is in the metadata.
    return [{"type": "text", "text": text}]


def _texts(content: Any) -> list[str]:
    if isinstance(content, str):
        return [content]
    parts = content if isinstance(content, list) else []
    return [part["text"] for part in parts if isinstance(part, dict) and isinstance(part.get("text"), str)]
