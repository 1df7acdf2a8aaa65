"""What `Memory` of LlamaIndex keeps its messages in."""

import threading
from collections.abc import Callable, Coroutine
from functools import wraps
from itertools import islice
from typing import Annotated, Any, ParamSpec, TypeVar

from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.bridge.pydantic import BeforeValidator, ConfigDict, Field
from llama_index.core.storage.chat_store.base_db import AsyncDBChatStore, MessageStatus

from mnemon import Engine, Message
from mnemon._async import engine_of
from mnemon._wait import wait

from ._messages import ARCHIVED, STATUS, delete_documents, get, put

_P = ParamSpec("_P")
_T = TypeVar("_T")

# Held by changes of what was read. One process writes to a file.
_CHANGE = threading.Lock()


def _on_a_thread(call: Callable[_P, _T]) -> Callable[_P, Coroutine[Any, Any, _T]]:
    @wraps(call)
    async def method(*arguments: _P.args, **options: _P.kwargs) -> _T:
        return await wait(call, *arguments, **options)

    return method


class MnemonChatStore(AsyncDBChatStore):
    """The chat messages of LlamaIndex's `Memory`; a key is a session of the namespace, of 1 to 512 bytes.

    Recalls in the namespace find the messages by meaning and by words, archived ones too, by the first 100,000 characters of their text.
    A message that another program put into the session is an active one. Media of users and calls of tools become blocks;
    a result of a tool is a text with `tool_call_id`, which of several results in one message is the first one's.

    A call is one commit, with two exceptions. `set_messages` replaces messages in one commit, and deletes those that are too many in a
    second. A message with more than 200,000 characters as JSON is in documents of the namespace, which are stored in a commit before it and
    deleted in one after it; so delete it here, as `Engine.delete_session` leaves its documents.

    Cost: a read goes through all messages of the key, archived ones too, about 2 ms for 1,000.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    engine: Annotated[Engine, BeforeValidator(engine_of)] = Field(exclude=True)
    namespace: str

    @_on_a_thread
    def get_messages(
        self,
        key: str,
        status: MessageStatus | None = MessageStatus.ACTIVE,
        limit: int | None = None,
        offset: int | None = None,
    ) -> list[ChatMessage]:
        rows = islice(self._rows(key, status), offset or 0, None)
        return get(self.engine, self.namespace, list(islice(rows, limit)))

    @_on_a_thread
    def count_messages(self, key: str, status: MessageStatus | None = MessageStatus.ACTIVE) -> int:
        return len(self._rows(key, status))

    async def add_message(self, key: str, message: ChatMessage, status: MessageStatus = MessageStatus.ACTIVE) -> None:
        await self.add_messages(key, [message], status)

    @_on_a_thread
    def add_messages(self, key: str, messages: list[ChatMessage], status: MessageStatus = MessageStatus.ACTIVE) -> None:
        self._put(key, messages, status, [])

    @_on_a_thread
    def set_messages(self, key: str, messages: list[ChatMessage], status: MessageStatus = MessageStatus.ACTIVE) -> None:
        with _CHANGE:
            old = self._rows(key, None)
            self._put(key, messages, status, old[: len(messages)])
            self._remove(old[len(messages) :])

    @_on_a_thread
    def delete_message(self, key: str, idx: int) -> ChatMessage | None:
        """Deletes the active message at a place of the list that `get_messages` returns, -1 being the last, and returns it. In SQL the
        number is a row's."""
        with _CHANGE:
            deleted = self._delete(self._rows(key, MessageStatus.ACTIVE)[idx : idx + 1 or None])
        return deleted[0] if deleted else None

    @_on_a_thread
    def delete_messages(self, key: str, status: MessageStatus | None = None) -> None:
        with _CHANGE:
            self._remove(self._rows(key, status))

    @_on_a_thread
    def delete_oldest_messages(self, key: str, n: int) -> list[ChatMessage]:
        with _CHANGE:
            return self._delete(list(islice(self._rows(key, MessageStatus.ACTIVE), n)))

    @_on_a_thread
    def archive_oldest_messages(self, key: str, n: int) -> list[ChatMessage]:
        with _CHANGE:
            rows = list(islice(self._rows(key, MessageStatus.ACTIVE), n))
            archived = [row.to_dict() | {"metadata": row.metadata | {STATUS: ARCHIVED}} for row in rows]
            # Before the change: what cannot be returned is not archived.
            messages = get(self.engine, self.namespace, rows)
            self.engine.put(self.namespace, archived)
            return messages

    @_on_a_thread
    def get_keys(self) -> list[str]:
        return [session["session"] for session in self.engine.sessions(self.namespace)]

    @classmethod
    def class_name(cls) -> str:
        return "MnemonChatStore"

    def _rows(self, key: str, status: MessageStatus | None) -> list[Message]:
        rows = self.engine.history(self.namespace, key)
        if status is None:
            return rows
        archived = status == MessageStatus.ARCHIVED
        return [row for row in rows if (row.metadata.get(STATUS) == ARCHIVED) == archived]

    def _put(self, key: str, messages: list[ChatMessage], status: MessageStatus, old: list[Message]) -> None:
        archived = status == MessageStatus.ARCHIVED
        put(self.engine, self.namespace, messages, key, archived=archived, replaced=old)

    def _delete(self, rows: list[Message]) -> list[ChatMessage]:
        messages = get(self.engine, self.namespace, rows)
        self._remove(rows)
        return messages

    def _remove(self, rows: list[Message]) -> None:
        self.engine.delete(self.namespace, [row.id for row in rows])
        delete_documents(self.engine, self.namespace, rows)
