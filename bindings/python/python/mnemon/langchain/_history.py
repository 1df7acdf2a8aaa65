"""A session as LangChain's history of messages."""

from collections.abc import Sequence
from typing import Any

from langchain_core.chat_history import BaseChatMessageHistory
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
    message_to_dict,
    messages_from_dict,
)

from mnemon import AsyncEngine, DocumentOperation, Engine, Message
from mnemon._adapters import Part, Turn, arguments_of, data_of, described, fitting, kept, turns_of
from mnemon._async import engine_of
from mnemon._wait import awaited, wait

# In a message's metadata: the message of LangChain. `ingest --from langchain` keeps other fields there.
KEY = "langchain"

# Messages of other types are those of users.
ROLES = {"ai": "assistant", "AIMessageChunk": "assistant", "system": "system", "tool": "tool"}


class MnemonChatMessageHistory(BaseChatMessageHistory):
    """The messages of a session, each as it was added. Recalls in the namespace find them.

    What another program put into the session, or changed there, is read as messages of LangChain; of several results of tools in a message,
    each is one. With a `limit`, only so many of the last stored messages are read. A message has at most 16 MiB as JSON; one
    with more than 1 MiB of text is found by its beginning.
    """

    def __init__(self, engine: Engine | AsyncEngine, namespace: str, session: str, *, limit: int | None = None) -> None:
        self.engine = engine_of(engine)
        self.namespace = namespace
        self.session = session
        self.limit = limit

    @property
    def messages(self) -> list[BaseMessage]:  # type: ignore[override]
        stored = self.engine.history(self.namespace, self.session, limit=self.limit)
        return [message for row in stored for message in _messages(row)]

    def add_messages(self, messages: Sequence[BaseMessage]) -> None:
        self.engine.put(self.namespace, [self._stored(message) for message in messages])

    def clear(self) -> None:
        self.engine.document_batch(DocumentOperation.delete_session(self.namespace, self.session))

    async def aget_messages(self) -> list[BaseMessage]:
        return await wait(lambda: self.messages)

    aadd_messages = awaited(add_messages)
    aclear = awaited(clear)

    def _stored(self, message: BaseMessage) -> Message:
        return Message(
            fitting(_content(message)),
            ROLES.get(message.type, "user"),  # type: ignore[arg-type]
            session=self.session,
            name=message.name or None,
            metadata={KEY: message_to_dict(message)},
        )


def _content(message: BaseMessage) -> list[Part]:
    """What a recall reads of a message, and what a prompt has in its place. What has neither text nor calls is in the metadata."""
    if isinstance(message, ToolMessage):
        return [{"type": "tool_result", "id": message.tool_call_id, "content": str(message.text)}]
    parts: list[Part] = [{"type": "text", "text": message.text}] if message.text.strip() else []
    for call in getattr(message, "tool_calls", []):
        parts.append({"type": "tool_call", "id": call["id"] or "", "name": call["name"], "arguments": call["args"]})
    return parts


def _messages(row: Message) -> list[BaseMessage]:
    """The message that a history stored, or those that a message of another program is."""
    if stored := kept(row, KEY, lambda fields: messages_from_dict([fields])[0], _content):
        return [stored]
    turns = turns_of(row)
    # The name is the author's, and the id that of a whole message.
    return [_message(turn, row.name if turn.role == row.role else None, row.id if len(turns) == 1 else None) for turn in turns]


def _message(turn: Turn, name: str | None, id: str | None) -> BaseMessage:
    role, parts = turn
    if role == "tool":
        return ToolMessage(parts[0]["content"], tool_call_id=parts[0]["id"], name=name, id=id)
    blocks = [_block(part, role) for part in parts if part["type"] != "tool_call"]
    content: Any = blocks[0]["text"] if len(blocks) == 1 and blocks[0]["type"] == "text" else blocks or ""
    if role != "assistant":
        return (SystemMessage if role == "system" else HumanMessage)(content, name=name, id=id)
    tool_calls, invalid_tool_calls = [], []
    for part in parts:
        if part["type"] == "tool_call":
            call, arguments = {"id": part["id"], "name": part["name"]}, arguments_of(part)
            if isinstance(arguments, dict):
                tool_calls.append({**call, "args": arguments, "type": "tool_call"})
            else:
                invalid_tool_calls.append({**call, "args": arguments, "error": None, "type": "invalid_tool_call"})
    return AIMessage(content, name=name, id=id, tool_calls=tool_calls, invalid_tool_calls=invalid_tool_calls)


def _block(part: Part, role: str) -> dict[str, Any]:
    if part["type"] == "text" or role != "user":
        return {"type": "text", "text": described(part)}
    if data := data_of(part):
        return {"type": part["type"], "base64": data[1], "mime_type": data[0]}
    block = {"type": part["type"], "file_id" if part["uri"].startswith("file-") else "url": part["uri"]}
    return block | ({"mime_type": part["media_type"]} if "media_type" in part else {})
