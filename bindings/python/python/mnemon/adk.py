"""The session and memory services of Google's ADK on an engine. Need the package `google-adk`."""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from itertools import dropwhile
from typing import Any
from uuid import uuid4

from ._adapters import Part, arguments_of, call_of, data_of, described, fitting, is_unchanged, names_of, needs, search, turn_of, turns_of
from ._async import AsyncEngine, engine_of
from ._mnemon import DocumentOperation, Engine, Message, labels_of
from ._values import ALL, Head, Place, deletes, key_of, puts, read, space_of, update
from ._wait import finish, wait

with needs("mnemon.adk", "google-adk", "google"):
    from google.adk.errors import StaleSessionError
    from google.adk.errors.already_exists_error import AlreadyExistsError
    from google.adk.errors.session_not_found_error import SessionNotFoundError
    from google.adk.events import Event, EventActions
    from google.adk.memory import BaseMemoryService
    from google.adk.memory.base_memory_service import SearchMemoryResponse
    from google.adk.memory.memory_entry import MemoryEntry
    from google.adk.sessions import BaseSessionService, Session
    from google.adk.sessions._session_util import extract_state_delta
    from google.adk.sessions.base_session_service import GetSessionConfig, ListSessionsResponse
    from google.genai import types
    from pydantic_core import to_jsonable_python

State = dict[str, Any]
# In a message's metadata: an event as JSON, of a session or of a memory.
KEY, MEMORY = "adk", "adk_memory"
# In the metadata of an event that a rewind took back. The message has no content: recalls and prompts of other programs pass over it.
REWOUND = "adk_rewound"
STATE = "state"
# The session of memories that were added without one.
NOTES = "notes"


class MnemonSessionService(BaseSessionService):
    """ADK's sessions in an engine's file: `Runner(..., session_service=MnemonSessionService(engine))`.

    The sessions of a user are those of the namespace `prefix/app/user`. An event is a message, which recalls there find by its text; it
    comes back as ADK's service on SQLite gives it back, and what another program put into the session, or changed there, is read as
    events, too. States are documents. An event has at most 16 MiB as JSON: larger files belong to ADK's artifacts, where its
    `SaveFilesAsArtifactsPlugin` puts them. One with more than 1 MiB of text is found by its beginning. Events that `Runner.rewind_async`
    takes back stay in the session, as in ADK's services, and recalls find them no more. A session's id has at most 512 bytes. Spaces
    around it are cut off.

    `append_event` raises `StaleSessionError` if another call appended to the session since it was read. An event that the session has
    already is not appended again. A call's changes are one commit, with the states, and are done to their end before a cancellation goes
    on. Calls may come from any thread, and from any number of services and processes of one database. Cost: `get_session` passes over the
    messages of the session, or the last `num_recent_events`.
    """

    def __init__(self, engine: Engine | AsyncEngine, *, prefix: str = "adk/sessions") -> None:
        self.engine = engine_of(engine)
        self.prefix = labels_of(prefix)

    async def create_session(
        self, *, app_name: str, user_id: str, state: State | None = None, session_id: str | None = None
    ) -> Session:
        return await finish(self._create, app_name, user_id, (session_id or "").strip() or str(uuid4()), _states(state or {}))

    async def get_session(
        self, *, app_name: str, user_id: str, session_id: str, config: GetSessionConfig | None = None
    ) -> Session | None:
        return await wait(self._get, app_name, user_id, session_id.strip(), config or GetSessionConfig())

    async def list_sessions(self, *, app_name: str, user_id: str | None = None) -> ListSessionsResponse:
        return ListSessionsResponse(sessions=await wait(self._list, app_name, user_id))

    async def delete_session(self, *, app_name: str, user_id: str, session_id: str) -> None:
        await finish(self._delete, app_name, user_id, session_id.strip())

    async def get_user_state(self, *, app_name: str, user_id: str) -> State:
        _, [text] = await wait(read, self.engine, self._places(app_name, user_id)[1:])
        state: State = json.loads(text or "{}")
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

    def _create(self, app: str, user: str, id: str, states: list[State]) -> Session:
        # Refuses an id that no message may have.
        Message("(session)", session=id)
        places = self._places(app, user, id)
        fields = {"session": id, "user": user, "time": datetime.now(UTC).timestamp(), "last": None, "revision": uuid4().hex}

        def change(found: list[Head | None], texts: list[str | None]) -> Iterator[DocumentOperation]:
            if found[2]:
                raise AlreadyExistsError(f"Session with id {id} already exists.")
            yield from _merged(zip(places, found, texts, states, ({}, {}, fields), strict=True))

        update(self.engine, places, change)
        for session in self._sessions(app, user, [id]):
            return session
        raise SessionNotFoundError(f"Session {id} was deleted as soon as it was created.")

    def _append(self, session: Session, event: Event, appended: list[Event]) -> None:
        places = self._places(session.app_name, session.user_id, session.id)
        space, message, states = places[2][0], _message(event, session.id, KEY), _states(event.actions.state_delta)
        time, revision = event.timestamp, uuid4().hex
        fields = {"session": session.id, "user": session.user_id, "time": time, "last": message.id, "revision": revision}

        def change(found: list[Head | None], texts: list[str | None]) -> Iterator[DocumentOperation]:
            head, marker = found[2], session._storage_update_marker
            if head is None:
                raise SessionNotFoundError(f"Session {session.id} not found.")
            if old := self.engine.get(space, message.id):
                if old.metadata.get(KEY) != message.metadata[KEY]:
                    raise AlreadyExistsError(f"Session {session.id} has another event {event.id}: give events ids of their own.")
                return
            last = key_of(KEY, session.id, session.events[-1].id) if session.events else None
            if marker != head["revision"] if marker else last != head["last"] and head["time"] > session.last_update_time:
                raise StaleSessionError(f"Session {session.id} was changed since it was read: read it again with get_session.")
            yield from _merged(zip(places, found, texts, states, ({}, {}, fields), strict=True))
            yield DocumentOperation.put_messages(space, [*self._rewound(space, session.id, event), message])

        # Agents that run in parallel share the object.
        with turn_of(*places[2]):
            if update(self.engine, places, change):
                session.last_update_time, session._storage_update_marker = time, revision
                appended.append(event)

    def _rewound(self, space: str, session: str, rewind: Event) -> list[Message]:
        """The messages of the events that a new event takes back, if it is a rewind, as they are from then on."""
        to = rewind.actions.rewind_before_invocation_id
        events = [event for message in self.engine.history(space, session) if (event := _stored(message, KEY, {}))] if to else []
        if to not in {event.invocation_id for event in events}:
            return []
        live = {event.id for event in _live([*events, rewind])}
        return [_message(event, session, KEY, rewound=True) for event in events if event.id not in live]

    def _get(self, app: str, user: str, id: str, config: GetSessionConfig) -> Session | None:
        [(space, _)] = self._places(app, user, id)[2:]
        limit, after, before, stored = config.num_recent_events, config.after_timestamp, None, list[Message]()
        # Until the messages are of the session as it is.
        while before != (found := self._sessions(app, user, [id])):
            before, stored = found, self.engine.history(space, id, limit=limit)
        names = names_of(stored)
        events = [event for message in stored for event in _events(message, names)]
        for session in found:
            session.events = [event for event in events[-(limit or 0) :] if after is None or event.timestamp >= after]
            return session
        return None

    def _list(self, app: str, user: str | None) -> list[Session]:
        space = space_of(*self.prefix, app, *([] if user is None else [user]))
        ids: dict[str, list[str]] = {}
        where = {"session": {"$exists": True}, "user": {"$exists": True}}
        for document in self.engine.documents(space).search(where=where, below=user is None, limit=ALL):
            ids.setdefault(document.value["user"], []).append(document.value["session"])
        sessions = [session for owner in ids for session in self._sessions(app, owner, ids[owner])]
        return sorted(sessions, key=lambda session: (session.last_update_time, session.user_id, session.id))

    def _sessions(self, app: str, user: str, ids: Sequence[str]) -> list[Session]:
        """Those of these sessions that there are, without events."""
        found, texts = read(self.engine, self._places(app, user, *ids))
        of_app, of_user, *states = (json.loads(text or "{}") for text in texts)
        shared = {f"app:{key}": of_app[key] for key in of_app} | {f"user:{key}": of_user[key] for key in of_user}
        sessions = []
        for id, head, state in zip(ids, found[2:], states, strict=True):
            if head:
                sessions.append(Session(id=id, app_name=app, user_id=user, state=state | shared, last_update_time=head["time"]))
                sessions[-1]._storage_update_marker = head["revision"]
        return sessions

    def _delete(self, app: str, user: str, id: str) -> None:
        [place] = self._places(app, user, id)[2:]
        messages = DocumentOperation.delete_session(place[0], id)
        update(self.engine, [place], lambda found, _: [messages, *deletes(place, found[0])])


class MnemonMemoryService(BaseMemoryService):
    """ADK's memory in an engine's file: `Runner(..., memory_service=MnemonMemoryService(engine))`.

    The memories of a user are the messages of the namespace `prefix/app/user`; other messages there are memories, too. `search_memory`
    finds the `k` best by meaning and by words. A session that is added again replaces what was added of it; events without text are left
    out, and those that `Runner.rewind_async` took back. A rewind that `add_events_to_memory` is given deletes what was added before of the
    events that it takes back, if `session_id` is given too. What `delete_memory` deleted, a session that is added again does not bring
    back. `add_memory` and custom metadata are kept as given. A call's changes are one commit.
    """

    def __init__(self, engine: Engine | AsyncEngine, *, prefix: str = "adk/memory", k: int = 10) -> None:
        self.engine = engine_of(engine)
        self.prefix = labels_of(prefix)
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
        rewinds = {event.actions.rewind_before_invocation_id for event in events if session_id} - {None}
        await finish(self._add, app_name, user_id, session_id or NOTES, _memories(events, custom_metadata or {}), rewinds=rewinds)

    async def add_memory(
        self, *, app_name: str, user_id: str, memories: Sequence[MemoryEntry], custom_metadata: Mapping[str, object] | None = None
    ) -> None:
        await finish(self._add, app_name, user_id, NOTES, [_remembered(memory, custom_metadata or {}) for memory in memories])

    async def search_memory(self, *, app_name: str, user_id: str, query: str) -> SearchMemoryResponse:
        hits = await wait(search, self.engine, space_of(*self.prefix, app_name, user_id), query, k=self.k)
        return SearchMemoryResponse(memories=[_memory(hit.message) for hit in hits])

    async def delete_memory(self, *, app_name: str, user_id: str, memory_id: str | None = None) -> None:
        if memory_id:
            await finish(self._delete, space_of(*self.prefix, app_name, user_id), memory_id)

    def _add(
        self, app: str, user: str, session: str, events: Sequence[Event], *, replaces: bool = False, rewinds: Collection[str | None] = ()
    ) -> None:
        space = space_of(*self.prefix, app, user)
        deletions = [(space, key_of(MEMORY, event.id)) for event in events]

        def change(found: list[Head | None], _: list[str | None]) -> Iterator[DocumentOperation]:
            new = [_message(event, session, MEMORY) for event, deleted in zip(events, found, strict=True) if not deleted]
            if replaces or rewinds:
                old = [message for message in self.engine.history(space, session) if MEMORY in message.metadata]
                gone = old if replaces else dropwhile(lambda message: _invocation(message) not in rewinds, old)
                yield DocumentOperation.delete_messages(space, {message.id for message in gone} - {message.id for message in new})
            yield DocumentOperation.put_messages(space, new)

        with turn_of(space):
            update(self.engine, deletions, change)

    def _delete(self, space: str, id: str) -> None:
        deletion = (space, key_of(MEMORY, id))

        def change(found: list[Head | None], _: list[str | None]) -> Iterator[DocumentOperation]:
            # An event may be in several sessions, as after a copy.
            ids = [id, *(key_of(MEMORY, session["session"], id) for session in self.engine.sessions(space))]
            if any(self.engine.get(space, id) for id in ids):
                yield DocumentOperation.delete_messages(space, ids)
                yield from puts(deletion, "deleted", found[0])

        # Again for what was added just before, as nothing is added after that.
        while update(self.engine, [deletion], change):
            pass


def _states(state: State) -> list[State]:
    """What of a state the app has, the user and the session, as JSON; a value that JSON does not have is its text, as in ADK's services."""
    return list(extract_state_delta(to_jsonable_python(state, fallback=str, bytes_mode="base64")).values())


def _merged(documents: Iterable[tuple[Place, Head | None, str | None, State, State]]) -> Iterator[DocumentOperation]:
    """The operations that add a state to each document, and fields beside it, if there is either."""
    for place, head, text, state, fields in documents:
        if state or fields:
            yield from puts(place, json.dumps(json.loads(text or "{}") | state), head, **fields)


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


def _message(event: Event, session: str, key: str, *, rewound: bool = False) -> Message:
    stored = event.model_dump_json(exclude_none=True, fallback=str)
    # As it comes back, where a model that a tool returned is an object.
    event = Event.model_validate_json(stored)
    parts = _parts(event.content)
    results = parts and all(part["type"] == "tool_result" for part in parts)
    return Message(
        [] if rewound else fitting(parts),
        "tool" if results else "user" if event.author in ("user", "") else "assistant",
        id=key_of(key, session, event.id),
        session=session,
        name=event.author or None,
        created_at=datetime.fromtimestamp(event.timestamp, UTC),
        metadata={key: stored, **({REWOUND: True} if rewound else {})},
    )


def _stored(message: Message, key: str, names: dict[str, str]) -> Event | None:
    """The event that a service stored, with what another program put in the place of its content; `None` if there was none."""
    with suppress(KeyError, TypeError, ValueError):
        event = Event.model_validate_json(message.metadata[key])
        is_rewound = REWOUND in message.metadata and not message.content
        if not (is_rewound or is_unchanged(message, _parts(event.content))):
            event.content = _content(message.role, message.content, names)
        return event
    return None


def _events(message: Message, names: dict[str, str]) -> list[Event]:
    """The event that a service stored, or those that a message of another program is."""
    if event := _stored(message, KEY, names):
        return [event]
    events = []
    for role, parts in turns_of(message):
        author = message.name or "assistant" if role == "assistant" else "user"
        events.append(Event(author=author, content=_content(role, parts, names), timestamp=_time(message)))
    events[0].id = message.id
    return events


def _content(role: str, parts: Sequence[Part], names: dict[str, str]) -> types.Content:
    return types.Content(role="model" if role == "assistant" else "user", parts=[_part(part, role, names) for part in parts])


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


def _time(message: Message) -> float:
    return message.created_at.timestamp() if message.created_at else 0.0


def _live(events: Sequence[Event]) -> list[Event]:
    """The events that no rewind takes back: of some of a session's, a rewind to an invocation that is not among them goes back to before
    the first. Of several events of an invocation, a rewind goes back to before the first, as ADK's prompts do.
    """
    first: dict[str, int] = {}
    for at, event in enumerate(events):
        first.setdefault(event.invocation_id, at)
    live, at = list[Event](), len(events)
    while at > 0:
        at -= 1
        if to := events[at].actions.rewind_before_invocation_id:
            at = min(at, first.get(to, 0))
        else:
            live.append(events[at])
    return live[::-1]


def _memories(events: Sequence[Event], custom: Mapping[str, object]) -> list[Event]:
    """The events that have text and that no rewind takes back, as memories."""
    said = [event for event in _live(events) if any(part["type"] == "text" for part in _parts(event.content))]
    return [event.model_copy(update={"actions": EventActions(), "custom_metadata": dict(custom)}) for event in said]


def _invocation(memory: Message) -> str | None:
    event = _stored(memory, MEMORY, {})
    return event.invocation_id if event else None


def _remembered(memory: MemoryEntry, custom: Mapping[str, object]) -> Event:
    time = datetime.fromisoformat(memory.timestamp) if memory.timestamp else datetime.now(UTC)
    fields: Any = {"content": memory.content, "custom_metadata": {**memory.custom_metadata, **custom}, "timestamp": time.timestamp()}
    return Event(id=memory.id or "", author=memory.author or "", **fields)


def _memory(message: Message) -> MemoryEntry:
    content = types.Content(role="user", parts=[types.Part(text=message.text)])
    event = _stored(message, MEMORY, {}) or Event(id=message.id, author=message.name or "", content=content, timestamp=_time(message))
    return MemoryEntry(
        content=event.content or content,
        custom_metadata=event.custom_metadata or {},
        id=event.id,
        author=event.author or None,
        timestamp=datetime.fromtimestamp(event.timestamp, UTC).isoformat(),
    )
