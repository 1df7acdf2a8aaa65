"""The session and memory services of Google's ADK on an engine. Need the package `google-adk`."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

from ._adapters import Part, arguments_of, call_of, data_of, described, names_of, needs, search, text_of, turn_of, turns_of
from ._async import AsyncEngine, engine_of
from ._errors import SessionNotFoundError as NoSessionError
from ._mnemon import DocumentOperation, Engine, Message
from ._values import ALL, Head, Place, commit, deletes, expects, heads, key_of, puts, read, space_of
from ._wait import finish, wait

with needs("mnemon.adk", "google-adk", "google"):
    from google.adk.errors import StaleSessionError
    from google.adk.errors.already_exists_error import AlreadyExistsError
    from google.adk.errors.session_not_found_error import SessionNotFoundError
    from google.adk.events import Event
    from google.adk.memory import BaseMemoryService
    from google.adk.memory.base_memory_service import SearchMemoryResponse
    from google.adk.memory.memory_entry import MemoryEntry
    from google.adk.sessions import BaseSessionService, Session, State
    from google.adk.sessions.base_session_service import GetSessionConfig, ListSessionsResponse
    from google.genai import types
    from pydantic_core import to_jsonable_python

# In a message's metadata: an event as JSON; a memory's content as JSON, its id and what else it has.
KEY, MEMORY, ID, CUSTOM = "adk", "adk_memory", "adk_id", "adk_custom"
STATE = "state"
# What a message of an event without text and calls says.
EMPTY: list[Part] = [{"type": "text", "text": "(event)"}]
# The session of memories that were added without one.
NOTES = "notes"


class MnemonSessionService(BaseSessionService):
    """ADK's sessions in an engine's file: `Runner(..., session_service=MnemonSessionService(engine))`.

    The sessions of a user are those of the namespace `prefix/app/user`. An event is a message, which recalls there find by its text; it
    comes back as it was, and what another program put into the session, or changed there, is read as events, too. States are documents.
    An event has at most 1 MiB of text and 4 MiB as JSON, a session's id 512 bytes. Spaces around an id are cut off.

    `append_event` raises `StaleSessionError` if another call appended to the session since it was read. An event that the session has
    already is not appended again. Changes are durable, and done to their end before a cancellation goes on. Calls may come from any
    thread and any number of services. Cost: `get_session` passes over all messages of the session.
    """

    def __init__(self, engine: Engine | AsyncEngine, *, prefix: Sequence[str] = ("adk", "sessions")) -> None:
        self.engine = engine_of(engine)
        self.prefix = tuple(prefix)

    async def create_session(
        self, *, app_name: str, user_id: str, state: dict[str, Any] | None = None, session_id: str | None = None
    ) -> Session:
        return await finish(self._create, app_name, user_id, (session_id or "").strip() or str(uuid4()), _scopes(state or {}))

    async def get_session(
        self, *, app_name: str, user_id: str, session_id: str, config: GetSessionConfig | None = None
    ) -> Session | None:
        return await wait(self._get, app_name, user_id, session_id.strip(), config or GetSessionConfig())

    async def list_sessions(self, *, app_name: str, user_id: str | None = None) -> ListSessionsResponse:
        return ListSessionsResponse(sessions=await wait(self._list, app_name, user_id))

    async def delete_session(self, *, app_name: str, user_id: str, session_id: str) -> None:
        await finish(self._delete, app_name, user_id, session_id.strip())

    async def get_user_state(self, *, app_name: str, user_id: str) -> dict[str, Any]:
        _, [text] = await wait(read, self.engine, self._places(app_name, user_id)[1:])
        state: dict[str, Any] = json.loads(text or "{}")
        return state

    async def append_event(self, session: Session, event: Event) -> Event:
        if event.partial:
            return event
        self._apply_temp_state(session, event)
        event = self._trim_temp_delta_state(event)
        appended: list[Event] = []
        try:
            await finish(self._append, session, event, appended)
        finally:
            for event in appended:
                self._commit_event_to_session(session, event)
        return event

    def _places(self, app: str, user: str, *sessions: str) -> list[Place]:
        """The documents of the states of an app and a user, and of sessions."""
        space = space_of(*self.prefix, app, user)
        return [(space_of(*self.prefix, app), STATE), (space, STATE), *((space, key_of(KEY, id)) for id in sessions)]

    def _create(self, app: str, user: str, id: str, scopes: dict[str, dict[str, Any]]) -> Session:
        # Refuses an id that no message may have.
        Message("(session)", session=id)
        places = self._places(app, user, id)
        fields = {"session": id, "user": user, "time": datetime.now(UTC).timestamp(), "last": None, "revision": uuid4().hex}

        def change() -> Iterator[DocumentOperation]:
            found, texts = read(self.engine, places)
            if found[2]:
                raise AlreadyExistsError(f"Session with id {id} already exists.")
            yield from expects(places, found)
            yield from _shared(places, found, texts, scopes)
            yield from puts(places[2], _head(scopes["session"]), None, **fields)

        with turn_of(*places[2]):
            commit(self.engine, change)
            [(session, _)] = self._sessions(app, user, [id])
            return session

    def _append(self, session: Session, event: Event, appended: list[Event]) -> None:
        places = self._places(session.app_name, session.user_id, session.id)
        space, message, scopes = places[2][0], _message(event, session.id), _scopes(event.actions.state_delta)
        last = key_of(session.id, session.events[-1].id) if session.events else None
        revision = uuid4().hex
        fields = {"session": session.id, "user": session.user_id, "time": event.timestamp, "last": message.id, "revision": revision}

        def change() -> Iterator[DocumentOperation]:
            found, texts = read(self.engine, places)
            head, text = found[2], texts[2]
            if head is None or text is None:
                raise SessionNotFoundError(f"Session {session.id} not found.")
            # The same if it is given again, after a process that ended before its message was stored.
            if head["last"] != message.id:
                kept, marker = json.loads(text), session._storage_update_marker
                if marker != head["revision"] if marker else last != head["last"] and head["time"] > session.last_update_time:
                    raise StaleSessionError(f"Session {session.id} was changed since it was read: read it again with get_session.")
                if kept["event"]:
                    self.engine.put(space, [_message(Event.model_validate_json(kept["event"]), session.id)])
                yield from _shared(places, found, texts, scopes)
                text = _head(kept["state"] | scopes["session"], event if any(scopes.values()) else None)
            yield from expects(places, found)
            yield from puts(places[2], text, head, **fields)

        def stored() -> Iterator[DocumentOperation]:
            [head], [text] = read(self.engine, places[2:])
            if head and text and head["last"] == message.id and (kept := json.loads(text))["event"]:
                yield from expects(places[2:], [head])
                yield from puts(places[2], _head(kept["state"]), head, **fields)

        with turn_of(*places[2]):
            if old := self.engine.get(space, message.id):
                if old.metadata != message.metadata:
                    raise AlreadyExistsError(f"Session {session.id} has another event {event.id}: give events ids of their own.")
                return
            commit(self.engine, change)
            self.engine.put(space, [message])
            if any(scopes.values()):
                commit(self.engine, stored)
            session.last_update_time, session._storage_update_marker = event.timestamp, revision
            appended.append(event)

    def _get(self, app: str, user: str, id: str, config: GetSessionConfig) -> Session | None:
        place = self._places(app, user, id)[2]
        with turn_of(*place):
            found, stored = list(self._sessions(app, user, [id])), self.engine.history(place[0], id)
        for session, pending in found:
            names = names_of(stored)
            events = [event for message in stored for event in _events(message, names)]
            if pending and all(event.id != pending.id for event in events):
                events.append(pending)
            if config.after_timestamp is not None:
                events = [event for event in events if event.timestamp >= config.after_timestamp]
            if config.num_recent_events is not None:
                events = events[max(len(events) - config.num_recent_events, 0) :]
            session.events = events
            return session
        return None

    def _list(self, app: str, user: str | None) -> list[Session]:
        space = space_of(*self.prefix, app, *([] if user is None else [user]))
        found = self.engine.documents(space).search(where={"session": {"$exists": True}}, below=user is None, limit=ALL)
        ids: dict[str, list[str]] = {}
        for document in found:
            ids.setdefault(document.value["user"], []).append(document.value["session"])
        sessions = [session for owner in ids for session, _ in self._sessions(app, owner, ids[owner])]
        return sorted(sessions, key=lambda session: (session.last_update_time, session.user_id, session.id))

    def _sessions(self, app: str, user: str, ids: Sequence[str]) -> Iterator[tuple[Session, Event | None]]:
        """Those of these sessions that there are, without events; and the event whose message may be missing yet."""
        found, texts = read(self.engine, self._places(app, user, *ids))
        of_app, of_user = (json.loads(text or "{}") for text in texts[:2])
        shared = {State.APP_PREFIX + key: of_app[key] for key in of_app} | {State.USER_PREFIX + key: of_user[key] for key in of_user}
        for id, head, text in zip(ids, found[2:], texts[2:], strict=True):
            if head and text is not None:
                kept = json.loads(text)
                session = Session(id=id, app_name=app, user_id=user, state=kept["state"] | shared, last_update_time=head["time"])
                session._storage_update_marker = head["revision"]
                yield session, Event.model_validate_json(kept["event"]) if kept["event"] else None

    def _delete(self, app: str, user: str, id: str) -> None:
        place = self._places(app, user, id)[2]

        def change() -> list[DocumentOperation]:
            found = heads(self.engine, [place])
            return [*expects([place], found), *deletes(place, found[0])]

        with turn_of(*place):
            with suppress(NoSessionError):
                self.engine.delete_session(place[0], id)
            commit(self.engine, change)


class MnemonMemoryService(BaseMemoryService):
    """ADK's memory in an engine's file: `Runner(..., memory_service=MnemonMemoryService(engine))`.

    The memories of a user are the messages of the namespace `prefix/app/user`; other messages there are memories, too. `search_memory`
    finds the `k` best by meaning and by words. A session that is added again replaces what was added of it; events without text are left
    out. What `delete_memory` deleted, a session that is added again does not bring back. `add_memory` and custom metadata are kept as
    given.
    """

    def __init__(self, engine: Engine | AsyncEngine, *, prefix: Sequence[str] = ("adk", "memory"), k: int = 10) -> None:
        self.engine = engine_of(engine)
        self.prefix = tuple(prefix)
        self.k = k

    async def add_session_to_memory(self, session: Session) -> None:
        await finish(self._add, session.app_name, session.user_id, session.id, _memories(session.events, {}), replaces=True)

    async def add_events_to_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        events: Sequence[Event],
        session_id: str | None = None,
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:
        await finish(self._add, app_name, user_id, session_id or NOTES, _memories(events, custom_metadata or {}))

    async def add_memory(
        self, *, app_name: str, user_id: str, memories: Sequence[MemoryEntry], custom_metadata: Mapping[str, object] | None = None
    ) -> None:
        custom = dict(custom_metadata or {})
        entries = [memory.model_copy(update={"custom_metadata": memory.custom_metadata | custom}) for memory in memories]
        await finish(self._add, app_name, user_id, NOTES, entries)

    async def search_memory(self, *, app_name: str, user_id: str, query: str) -> SearchMemoryResponse:
        hits = await wait(search, self.engine, space_of(*self.prefix, app_name, user_id), query, k=self.k)
        return SearchMemoryResponse(memories=[_memory(hit.message) for hit in hits])

    async def delete_memory(self, *, app_name: str, user_id: str, memory_id: str | None = None) -> None:
        if memory_id:
            await finish(self._delete, space_of(*self.prefix, app_name, user_id), memory_id)

    def _add(self, app: str, user: str, session: str, entries: Sequence[MemoryEntry], *, replaces: bool = False) -> None:
        space = space_of(*self.prefix, app, user)
        with turn_of(space):
            deleted = heads(self.engine, [(space, key_of(MEMORY, entry.id or "")) for entry in entries])
            new = [_remembered(entry, session) for entry, head in zip(entries, deleted, strict=True) if head is None]
            if replaces:
                old = {message.id for message in self.engine.history(space, session) if MEMORY in message.metadata}
                self.engine.delete(space, old - {message.id for message in new})
            self.engine.put(space, new)

    def _delete(self, space: str, id: str) -> None:
        with turn_of(space):
            # An event may be in several sessions, as after a copy.
            ids = [id, *(key_of(MEMORY, session["session"], id) for session in self.engine.sessions(space))]
            if self.engine.delete(space, ids):
                self.engine.documents(space).put(key_of(MEMORY, id), {"deleted": True}, index=[])


def _scopes(state: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """A state by who shares it, as JSON; a value that JSON does not have is its text, as in ADK's services."""
    scopes: dict[str, dict[str, Any]] = {"app": {}, "user": {}, "session": {}}
    for key, value in to_jsonable_python(state, fallback=str, bytes_mode="base64").items():
        scope, colon, name = key.partition(":")
        if colon and scope in ("app", "user"):
            scopes[scope][name] = value
        elif not key.startswith(State.TEMP_PREFIX):
            scopes["session"][key] = value
    return scopes


def _shared(
    places: Sequence[Place], found: Sequence[Head | None], texts: Sequence[str | None], scopes: dict[str, dict[str, Any]]
) -> Iterator[DocumentOperation]:
    """The operations that change the states of the app and the user."""
    for place, head, text, scope in zip(places, found, texts, ("app", "user"), strict=False):
        if scopes[scope]:
            yield from puts(place, json.dumps(json.loads(text or "{}") | scopes[scope]), head)


def _head(state: dict[str, Any], pending: Event | None = None) -> str:
    """What the document of a session keeps: its state, and the event that changes it until its message is stored."""
    return json.dumps({"state": state, "event": pending.model_dump_json(exclude_defaults=True) if pending else None})


def _parts(said: types.Content | None) -> list[Part]:
    """What a recall reads of an event, and what a prompt has in its place."""
    parts: list[Part] = []
    for part in said.parts or [] if said else []:
        if part.text and part.text.strip() and not part.thought:
            parts.append({"type": "text", "text": part.text})
        elif call := part.function_call:
            parts.append(call_of(call.id, call.name, call.args))
        elif result := part.function_response:
            content = json.dumps(result.response, ensure_ascii=False, default=str)
            parts.append({"type": "tool_result", "id": result.id or "", "content": content})
    return parts


def _message(event: Event, session: str) -> Message:
    parts = _parts(event.content)
    results = parts and all(part["type"] == "tool_result" for part in parts)
    return Message(
        parts or EMPTY,
        "tool" if results else "user" if event.author == "user" else "assistant",
        id=key_of(session, event.id),
        session=session,
        name=event.author or None,
        created_at=datetime.fromtimestamp(event.timestamp, UTC),
        metadata={KEY: event.model_dump_json(exclude_defaults=True)},
    )


def _events(message: Message, names: dict[str, str]) -> list[Event]:
    """The event that a service stored, or those that a message of another program is."""
    try:
        event = Event.model_validate_json(message.metadata[KEY])
        if text_of(_parts(event.content) or EMPTY) == message.text:
            return [event]
    except (KeyError, TypeError, ValueError):
        pass
    time = message.created_at.timestamp() if message.created_at else 0.0
    events = []
    for role, parts in turns_of(message):
        content = types.Content(role="model" if role == "assistant" else "user", parts=[_part(part, role, names) for part in parts])
        author = message.name or "assistant" if role == "assistant" else "user"
        events.append(Event(author=author, content=content, timestamp=time))
    events[0].id = message.id
    return events


def _part(part: Part, role: str, names: dict[str, str]) -> types.Part:
    if part["type"] == "tool_call":
        arguments = arguments_of(part)
        call = arguments if isinstance(arguments, dict) else {"arguments": arguments}
        return types.Part(function_call=types.FunctionCall(id=part["id"], name=part["name"], args=call))
    if part["type"] == "tool_result":
        name = names.get(part["id"], "tool")
        return types.Part(function_response=types.FunctionResponse(id=part["id"], name=name, response={"result": part["content"]}))
    if role == "user" and "uri" in part and (data := data_of(part)):
        with suppress(ValueError):
            return types.Part(inline_data=types.Blob.model_validate({"mime_type": data[0], "data": data[1]}))
    return types.Part(text=described(part))


def _said(content: types.Content | None) -> str:
    return text_of([part for part in _parts(content) if part["type"] == "text"])


def _memories(events: Sequence[Event], custom: Mapping[str, object]) -> list[MemoryEntry]:
    return [
        MemoryEntry(
            content=event.content,
            custom_metadata=dict(custom),
            id=event.id,
            author=event.author,
            timestamp=datetime.fromtimestamp(event.timestamp, UTC).isoformat(),
        )
        for event in events
        if event.content and _said(event.content)
    ]


def _remembered(entry: MemoryEntry, session: str) -> Message:
    id = entry.id or str(uuid4())
    time = datetime.fromisoformat(entry.timestamp) if entry.timestamp else datetime.now(UTC)
    return Message(
        _said(entry.content),
        "user" if entry.author in ("user", None) else "assistant",
        id=key_of(MEMORY, session, id),
        session=session,
        name=entry.author or None,
        created_at=time if time.tzinfo else time.astimezone(),
        metadata={
            MEMORY: entry.content.model_dump_json(exclude_defaults=True),
            ID: id,
            CUSTOM: to_jsonable_python(entry.custom_metadata, fallback=str),
        },
    )


def _memory(message: Message) -> MemoryEntry:
    content, metadata = types.Content(role="user", parts=[types.Part(text=message.text)]), message.metadata
    with suppress(KeyError, TypeError, ValueError):
        stored = types.Content.model_validate_json(metadata[MEMORY])
        content = stored if _said(stored) == message.text else content
    time = message.created_at.isoformat() if message.created_at else None
    id = metadata.get(ID, message.id)
    return MemoryEntry(content=content, id=id, author=message.name, timestamp=time, custom_metadata=metadata.get(CUSTOM) or {})
