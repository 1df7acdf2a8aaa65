"""A session as LangChain's history of messages."""

from collections.abc import Sequence
from typing import Any

from langchain_core.chat_history import BaseChatMessageHistory
from langchain_core.messages import BaseMessage, message_to_dict, messages_from_dict

from mnemon import Engine, Message, SessionNotFoundError
from mnemon._wait import wait

# Messages of other types are those of users.
ROLES = {"ai": "assistant", "AIMessageChunk": "assistant", "system": "system", "tool": "tool"}


class MnemonChatMessageHistory(BaseChatMessageHistory):
    """The messages of a session, each as it was added. Recalls in the namespace find them."""

    def __init__(self, engine: Engine, namespace: str, session: str) -> None:
        self.engine = engine
        self.namespace = namespace
        self.session = session

    @property
    def messages(self) -> list[BaseMessage]:  # type: ignore[override]
        stored = self.engine.history(self.namespace, self.session)
        return messages_from_dict([message.metadata["langchain"] for message in stored])

    def add_messages(self, messages: Sequence[BaseMessage]) -> None:
        self.engine.put(self.namespace, [self._stored(message) for message in messages])

    def clear(self) -> None:
        try:
            self.engine.delete_session(self.namespace, self.session)
        except SessionNotFoundError:
            pass

    async def aget_messages(self) -> list[BaseMessage]:
        return await wait(lambda: self.messages)

    async def aadd_messages(self, messages: Sequence[BaseMessage]) -> None:
        await wait(self.add_messages, messages)

    async def aclear(self) -> None:
        await wait(self.clear)

    def _stored(self, message: BaseMessage) -> Message:
        parts: list[dict[str, Any]] = [{"type": "text", "text": message.text}] if message.text else []
        for call in getattr(message, "tool_calls", []):
            parts.append({"type": "tool_call", "id": call["id"] or "", "name": call["name"], "arguments": call["args"]})
        return Message(
            # What has neither, such as a picture, is in the metadata; a message of no content is none.
            parts or [{"type": "text", "text": f"({message.type})"}],
            ROLES.get(message.type, "user"),  # type: ignore[arg-type]
            session=self.session,
            name=message.name,
            metadata={"langchain": message_to_dict(message)},
        )
