"""The session repository of Strands agents on an engine. Needs the package `strands-agents`."""

import json
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from ._adapters import Part, arguments_of, call_of, fitting, is_unchanged, needs, text_of, turn_of
from ._async import AsyncEngine, engine_of
from ._mnemon import DocumentOperation, Engine, Message
from ._values import ALL, Place, deletes, heads, key_of, read, replace

with needs("mnemon.strands", "strands-agents", "strands"):
    from strands.session.session_repository import SessionRepository
    from strands.types.exceptions import SessionException
    from strands.types.session import Session, SessionAgent, SessionMessage

if TYPE_CHECKING:
    from strands.multiagent.base import MultiAgentBase

_T = TypeVar("_T")

# As recalls read a value: its words, and bytes described.
_json = partial(json.dumps, ensure_ascii=False, default=str)
# In a message's metadata: the message of Strands as JSON, its agent, and its number.
KEY, AGENT, NUMBER = "strands", "strands_agent", "strands_number"


class MnemonSessionRepository(SessionRepository):
    """The sessions of Strands in a namespace: `RepositorySessionManager("monday", MnemonSessionRepository(engine, "acme/ada"))`.

    A message of an agent is a message of the session that has the session's id, of at most 512 bytes, and recalls in the namespace find it
    by its text: of a redacted message, by the text that replaces it. A message has at most 16 MiB as JSON; one with more than 1 MiB of
    text is found by its beginning. Sessions, agents and the state of several agents are documents of the namespace, of any size. Messages
    that other programs put into the session are not an agent's.

    Calls may come from any thread, and from any number of repositories of a namespace. What is created twice, or updated and not there,
    raises `SessionException`, and nothing is changed.

    On a restart Strands reads a session from the message on whose number is that of the messages which its conversation manager removed
    (strands-agents 1.62). With `pin_first` those are not the first ones, so the pinned messages are lost from the conversation, here as
    in Strands' own sessions. What must stay belongs in the system prompt.
    """

    def __init__(self, engine: Engine | AsyncEngine, namespace: str) -> None:
        self.engine = engine_of(engine)
        self.namespace = namespace

    def create_session(self, session: Session, **_: Any) -> Session:
        self._put(session.session_id, None, session.to_dict(), creates=f"a session {session.session_id!r}")
        return session

    def read_session(self, session_id: str, **_: Any) -> Session | None:
        return self._get(session_id, None, Session.from_dict)

    def delete_session(self, session_id: str, **_: Any) -> None:
        """Deletes a session, its agents, and all messages of the engine's session, also those of other programs."""
        with turn_of(self.namespace, session_id):
            found = self.engine.documents(self.namespace).search(where={KEY: session_id}, limit=ALL)
            if not found:
                raise SessionException(f"the session {session_id!r} does not exist")
            documents = [operation for one in found for operation in deletes((self.namespace, one.key), one.value)]
            self.engine.document_batch([DocumentOperation.delete_session(self.namespace, session_id), *documents])

    def create_agent(self, session_id: str, session_agent: SessionAgent, **_: Any) -> None:
        agent = session_agent.agent_id
        self._put(session_id, ("agent", agent), session_agent.to_dict(), creates=f"an agent {agent!r} of the session {session_id!r}")

    def read_agent(self, session_id: str, agent_id: str, **_: Any) -> SessionAgent | None:
        return self._get(session_id, ("agent", agent_id), SessionAgent.from_dict)

    def update_agent(self, session_id: str, session_agent: SessionAgent, **_: Any) -> None:
        """Replaces an agent, all but the time of its creation."""
        old = _needed(self.read_agent(session_id, session_agent.agent_id), f"agent {session_agent.agent_id!r}", session_id)
        session_agent.created_at = old.created_at
        self._put(session_id, ("agent", session_agent.agent_id), session_agent.to_dict())

    def create_message(self, session_id: str, agent_id: str, session_message: SessionMessage, **_: Any) -> None:
        number = session_message.message_id
        with turn_of(self.namespace, session_id):
            self._needs_agent(session_id, agent_id)
            if self.read_message(session_id, agent_id, number):
                raise SessionException(f"the agent {agent_id!r} of the session {session_id!r} has a message {number} already")
            self._put_message(session_id, agent_id, session_message)

    def read_message(self, session_id: str, agent_id: str, message_id: int, **_: Any) -> SessionMessage | None:
        row = self.engine.get(self.namespace, self._id(session_id, agent_id, message_id))
        return row and _read(row)

    def update_message(self, session_id: str, agent_id: str, session_message: SessionMessage, **_: Any) -> None:
        """Replaces a message, all but the time of its creation."""
        with turn_of(self.namespace, session_id):
            number = session_message.message_id
            old = _needed(self.read_message(session_id, agent_id, number), f"message {number} of the agent {agent_id!r}", session_id)
            session_message.created_at = old.created_at
            self._put_message(session_id, agent_id, session_message)

    def list_messages(
        self, session_id: str, agent_id: str, limit: int | None = None, offset: int = 0, **_: Any
    ) -> list[SessionMessage]:
        """`limit` messages of an agent, all by default, from the one after the first `offset` on. Cost: the engine reads the whole session,
        as nothing but the messages says how many of them are the agent's; the repository reads only what it returns.
        """
        self._needs_agent(session_id, agent_id)
        fields = [(row, row.metadata) for row in self.engine.history(self.namespace, session_id)]
        rows = [(of[NUMBER], row) for row, of in fields if of.get(AGENT) == agent_id and isinstance(of.get(NUMBER), int)]
        page = sorted(rows, key=lambda numbered: numbered[0])[offset : None if limit is None else offset + limit]
        return [message for _, row in page if (message := _read(row))]

    def create_multi_agent(self, session_id: str, multi_agent: "MultiAgentBase", **_: Any) -> None:
        self._put(session_id, ("multi_agent", multi_agent.id), multi_agent.serialize_state())

    def read_multi_agent(self, session_id: str, multi_agent_id: str, **_: Any) -> dict[str, Any] | None:
        return self._get(session_id, ("multi_agent", multi_agent_id), dict[str, Any])

    def update_multi_agent(self, session_id: str, multi_agent: "MultiAgentBase", **_: Any) -> None:
        _needed(self.read_multi_agent(session_id, multi_agent.id), f"state of {multi_agent.id!r}", session_id)
        self._put(session_id, ("multi_agent", multi_agent.id), multi_agent.serialize_state())

    def _needs_agent(self, session_id: str, agent_id: str) -> None:
        _needed(heads(self.engine, [self._place(session_id, ("agent", agent_id))])[0], f"agent {agent_id!r}", session_id)

    def _place(self, session_id: str, part: tuple[str, str] | None) -> Place:
        return self.namespace, key_of(KEY, session_id, *(part or ()))

    def _id(self, session_id: str, agent_id: str, message_id: int) -> str:
        return key_of(KEY, session_id, agent_id, message_id)

    def _get(self, session_id: str, part: tuple[str, str] | None, made: Callable[[dict[str, Any]], _T]) -> _T | None:
        [text] = read(self.engine, [self._place(session_id, part)])[1]
        return None if text is None else made(json.loads(text))

    def _put(self, session_id: str, part: tuple[str, str] | None, value: dict[str, Any], *, creates: str | None = None) -> None:
        place = self._place(session_id, part)
        with turn_of(self.namespace, session_id):
            if part and not heads(self.engine, [self._place(session_id, None)])[0]:
                raise SessionException(f"the session {session_id!r} does not exist")
            if creates and heads(self.engine, [place])[0]:
                raise SessionException(f"there is {creates} already")
            replace(self.engine, {place: (json.dumps(value, ensure_ascii=True), {KEY: session_id})})

    def _put_message(self, session_id: str, agent_id: str, message: SessionMessage) -> None:
        said = message.to_message()
        content = _content(said["content"])
        role: Any = "tool" if any(part["type"] == "tool_result" for part in content) else said["role"]
        self.engine.put(
            self.namespace,
            Message(
                fitting(content),
                role,
                id=self._id(session_id, agent_id, message.message_id),
                session=session_id,
                created_at=message.created_at,
                metadata={KEY: json.dumps(message.to_dict()), AGENT: agent_id, NUMBER: message.message_id},
            ),
        )


def _needed(found: _T | None, name: str, session_id: str) -> _T:
    if found is None:
        raise SessionException(f"the {name} does not exist in the session {session_id!r}")
    return found


def _content(blocks: Any) -> list[Part]:
    """What a recall reads of a message, and what a prompt has in its place. What else it has is in the metadata."""
    parts: list[Part] = []
    for block in blocks:
        if call := block.get("toolUse"):
            parts.append(call_of(call["toolUseId"], call["name"], call["input"]))
        elif result := block.get("toolResult"):
            texts = [_json(one["json"]) if "json" in one else one.get("text") for one in result["content"]]
            parts.append({"type": "tool_result", "id": result["toolUseId"], "content": "\n".join(filter(None, texts))})
        elif cited := block.get("citationsContent"):
            parts += _content(cited.get("content", []))
        elif (block.get("text") or "").strip():
            parts.append({"type": "text", "text": block["text"]})
    return parts


def _read(row: Message) -> SessionMessage | None:
    """The message that was stored, with the text that it has now if another program changed it; `None` if another program stored it."""
    try:
        message = SessionMessage.from_dict(json.loads(row.metadata[KEY]))
    except (KeyError, TypeError, ValueError):
        return None
    if not is_unchanged(row, _content(message.to_message()["content"])):
        changed: Any = {**message.to_message(), "content": [_block(part) for part in row.content]}
        message.message, message.redact_message = (message.message, changed) if message.redact_message else (changed, None)
    return message


def _block(part: Part) -> dict[str, Any]:
    if part["type"] == "tool_call":
        return {"toolUse": {"toolUseId": part["id"], "name": part["name"], "input": arguments_of(part)}}
    if part["type"] == "tool_result":
        return {"toolResult": {"toolUseId": part["id"], "content": [{"text": part["content"]}], "status": "success"}}
    return {"text": text_of([part])}
