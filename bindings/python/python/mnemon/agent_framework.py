"""The providers of Microsoft Agent Framework on an engine. Need the package `agent-framework-core`."""

import json
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any

from ._adapters import Part, arguments_of, call_of, data_of, described, fitting, kept, needs, search, turn_of, turns_of
from ._async import AsyncEngine, engine_of
from ._mnemon import Engine, Hit
from ._mnemon import Message as Stored
from ._wait import finish, wait

with needs("mnemon.agent_framework", "agent-framework-core", "agent_framework"):
    from agent_framework import AgentSession, Content, ContextProvider, HistoryProvider, Message, SessionContext, SupportsAgentRun
    from agent_framework._sessions import filter_new_messages
    from agent_framework.exceptions import ContentError

# In a message's metadata: the message of the framework as JSON.
KEY = "agent_framework"
# Of a run without a session.
DEFAULT_SESSION = "default"
ROLES = {"assistant": "assistant", "system": "system", "developer": "system", "tool": "tool"}
HEADING = "From earlier conversations, what may help to answer:"


class MnemonHistoryProvider(HistoryProvider):
    """The sessions of agents in a namespace: `Agent(client, context_providers=[MnemonHistoryProvider(engine, "acme/ada")])`.

    A message comes back as it was saved, with calls of tools, media and properties; recalls in the namespace find it by its text. What
    another program put into the session, or changed there, is read as messages of the framework. A message has at most 16 MiB as JSON; one
    with more than 1 MiB of text is found by its beginning. The options are those of `HistoryProvider` and `InMemoryHistoryProvider`.

    Calls may come from any thread and any number of providers. What is saved together is one commit, and is done to its end before a
    cancellation goes on. Cost: reading and saving pass over the session's messages.
    """

    DEFAULT_SOURCE_ID = "mnemon_history"

    def __init__(
        self,
        engine: Engine | AsyncEngine,
        namespace: str,
        source_id: str = DEFAULT_SOURCE_ID,
        *,
        skip_excluded: bool = False,
        **options: Any,
    ) -> None:
        super().__init__(source_id, **options)
        self.engine = engine_of(engine)
        self.namespace = namespace
        self.skip_excluded = skip_excluded

    async def get_messages(
        self, session_id: str | None, *, state: dict[str, Any] | None = None, **kwargs: Any
    ) -> list[Message]:
        messages = await wait(self._read, session_id or DEFAULT_SESSION)
        return [message for message in messages if not (self.skip_excluded and message.additional_properties.get("_excluded"))]

    async def save_messages(
        self, session_id: str | None, messages: Sequence[Message], *, state: dict[str, Any] | None = None, **kwargs: Any
    ) -> None:
        """Saves messages at the end. Those that repeat the end of the history, as when a run is given all of it, are left out."""
        await finish(self._save, session_id or DEFAULT_SESSION, messages)

    def _read(self, session: str, limit: int | None = None) -> list[Message]:
        stored = self.engine.history(self.namespace, session, limit=limit)
        return [message for one in stored for message in _messages(one)]

    def _save(self, session: str, messages: Sequence[Message]) -> None:
        with turn_of(self.namespace, session):
            new = filter_new_messages(self._read(session, len(messages)), messages)
            self.engine.put(self.namespace, [_stored(message, session) for message in new])


class MnemonContextProvider(ContextProvider):
    """Gives a run what a recall finds for its input in a namespace, and stores its input and its answer there.

    What the current session said is left out of what is found: a history provider has that; after a restart too if it is a
    `MnemonHistoryProvider`. With one of the same namespace, which stores the messages already, say `store=False`. What is found is a user's
    message before the input, whose origins are in `additional_properties["_attribution"]`.
    """

    DEFAULT_SOURCE_ID = "mnemon"

    def __init__(
        self,
        engine: Engine | AsyncEngine,
        namespace: str,
        source_id: str = DEFAULT_SOURCE_ID,
        *,
        k: int = 5,
        store: bool = True,
        heading: str = HEADING,
    ) -> None:
        super().__init__(source_id)
        self.engine = engine_of(engine)
        self.namespace = namespace
        self.k = k
        self.store = store
        self.heading = heading

    async def before_run(
        self, *, agent: SupportsAgentRun, session: AgentSession, context: SessionContext, state: dict[str, Any]
    ) -> None:
        text = "\n".join(message.text for message in context.input_messages)
        hits = await wait(self._search, text, context.session_id or DEFAULT_SESSION)
        if hits:
            lines = "\n".join(f"- {hit.message.name or hit.message.role}: {hit.passage}" for hit in hits)
            origins = list(dict.fromkeys(hit.message.session for hit in hits))
            context.extend_messages(self, [Message("user", [f"{self.heading}\n{lines}"])], origin_session_ids=origins)

    async def after_run(
        self, *, agent: SupportsAgentRun, session: AgentSession, context: SessionContext, state: dict[str, Any]
    ) -> None:
        said = [*context.input_messages, *(context.response.messages if context.response else [])]
        if self.store:
            stored = [_stored(message, context.session_id or DEFAULT_SESSION) for message in said if message.text.strip()]
            await finish(self.engine.put, self.namespace, stored)

    def _search(self, text: str, session: str) -> list[Hit]:
        own = [message.id for message in self.engine.history(self.namespace, session)]
        return search(self.engine, self.namespace, text, k=self.k, except_ids=own)


def _stored(message: Message, session: str) -> Stored:
    role: Any = ROLES.get(message.role, "user")
    metadata = {KEY: message.to_json(ensure_ascii=False)}
    return Stored(fitting(_parts(message)), role, session=session, name=message.author_name or None, metadata=metadata)


def _parts(message: Message) -> list[Part]:
    """What a recall reads of a message, and what a prompt has in its place. What has neither text nor calls is in the metadata."""
    parts: list[Part] = []
    for content in message.contents:
        if content.type == "text" and content.text and content.text.strip():
            parts.append({"type": "text", "text": content.text})
        elif content.type == "function_call":
            parts.append(call_of(content.call_id, content.name, content.arguments))
        elif content.type == "function_result":
            result = content.result if isinstance(content.result, str) else json.dumps(content.result, default=str)
            parts.append({"type": "tool_result", "id": content.call_id or "", "content": result})
    return parts


def _messages(stored: Stored) -> Iterable[Message]:
    """The message that a provider stored, or those that a message of another program is."""
    if message := kept(stored, KEY, Message.from_json, _parts):
        return [message]
    return [
        Message(role, [_content(part, role) for part in parts], author_name=stored.name if role == stored.role else None)
        for role, parts in turns_of(stored)
    ]


def _content(part: Part, role: str) -> Content:
    if part["type"] == "tool_call":
        return Content.from_function_call(part["id"], part["name"], arguments=arguments_of(part))
    if part["type"] == "tool_result":
        return Content.from_function_result(part["id"], result=part["content"])
    if role == "user" and "uri" in part:
        media_type = (data_of(part) or [part.get("media_type")])[0]
        # No address that the framework knows.
        with suppress(ContentError):
            return Content.from_uri(part["uri"], media_type=media_type or f"{part['type']}/*")
    return Content.from_text(described(part))
