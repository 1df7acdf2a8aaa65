"""Pydantic AI's conversations, and tools for an agent's memory, on an engine. Need the package `pydantic-ai-slim`."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any
from uuid import uuid4

from ._adapters import Part, arguments_of, call_of, data_of, described, fitting, kept, names_of, needs, search, turns_of
from ._async import AsyncEngine, engine_of
from ._mnemon import DocumentOperation, Engine, Message
from ._values import ALL, Head, Place, deletes, key_of, puts, read, update
from ._wait import finish, wait

with needs("mnemon.pydantic_ai", "pydantic-ai-slim", "pydantic", "pydantic_ai"):
    from pydantic import TypeAdapter
    from pydantic_ai import FunctionToolset, ModelRetry
    from pydantic_ai import messages as theirs
    from pydantic_ai.conversation_store import ConversationConflict, ConversationEntry, ConversationRecord, ConversationStore

# In a message's metadata: the message of Pydantic AI as JSON, and the id of the entry before it.
KEY, PARENT = "pydantic_ai", "pydantic_ai_parent"
RECORD, JSON = TypeAdapter(ConversationRecord), theirs.ModelMessagesTypeAdapter
# The session of what an agent was told to remember, and what its metadata has.
NOTES, NOTE = "notes", {"pydantic_ai_note": True}
URLS = {"image": theirs.ImageUrl, "audio": theirs.AudioUrl, "video": theirs.VideoUrl, "file": theirs.DocumentUrl}


def model_messages(messages: Sequence[Message]) -> list[theirs.ModelMessage]:
    """Messages as Pydantic AI has them: `agent.run(..., message_history=model_messages(engine.history("acme/ada", "monday")))`.

    What a `MnemonConversationStore` stored is as it was, unless another program changed its text since.
    """
    names = names_of(messages)
    return [made for message in messages for made in kept(message, KEY, JSON.validate_json, _parts) or _converted(message, names)]


class MnemonConversationStore(ConversationStore):
    """The conversations of Pydantic AI in a namespace, as its `ConversationStore` describes them.

    A message of a conversation is a message of the session that has the conversation's id, of at most 512 bytes, and recalls in the
    namespace find it by its text. Branches and forks share messages. A message has at most 16 MiB as JSON; one with more than 1 MiB of
    text is found by its beginning. What other programs put into the session is not of the conversation: `model_messages` reads that.

    The record of a conversation is a document of the namespace. A save is one commit, of the record and the new messages; so is `delete`,
    of the record and the messages that no other conversation needs. Calls may come from any thread, and from any number of stores and
    processes of one database; a save that another one overtakes raises `ConversationConflict`.
    """

    def __init__(self, engine: Engine | AsyncEngine, namespace: str) -> None:
        self.engine = engine_of(engine)
        self.namespace = namespace

    async def read_record(self, conversation_id: str) -> ConversationRecord | None:
        return await wait(lambda: next(self._records([self._place(conversation_id)]), None))

    async def read_records(self, *, scope: str | None = None, limit: int | None = None) -> Sequence[ConversationRecord]:
        return await wait(lambda: sorted(self._all(scope), key=lambda record: record.updated_at, reverse=True)[:limit])

    async def write_record(
        self, record: ConversationRecord, *, new_entries: Sequence[ConversationEntry] = (), expected_revision: str | None
    ) -> None:
        await finish(self._write, record, new_entries, expected_revision)

    async def delete_record(self, conversation_id: str, *, expected_revision: str) -> None:
        await finish(self._delete, conversation_id, expected_revision)

    async def read_entry(self, entry_id: str) -> ConversationEntry:
        [entry] = await self.read_history(entry_id, limit=1)
        return entry

    async def read_history(self, head_id: str | None, *, limit: int | None = None) -> list[ConversationEntry]:
        """The entries up to `head_id`, or the last `limit` of them. Cost: a lookup of each."""
        rows = await wait(lambda: list(zip(self._line(head_id), range(ALL if limit is None else limit), strict=False)))
        if (limit is None or len(rows) < limit) and (missing := rows[-1][0].metadata[PARENT] if rows else head_id) is not None:
            raise KeyError(f"the message {missing} of a conversation was deleted or changed; delete the conversation")
        return [ConversationEntry(id=row.id, parent_id=row.metadata[PARENT], message=_one(row)) for row, _ in reversed(rows)]

    def _place(self, *conversation: str) -> Place:
        """The document of a conversation; without one, what forks and deletions change, so that each sees those before it."""
        return self.namespace, key_of(KEY, *conversation)

    def _records(self, places: Sequence[Place]) -> Iterator[ConversationRecord]:
        return (RECORD.validate_json(text) for text in read(self.engine, places)[1] if text is not None)

    def _all(self, scope: str | None = None) -> Iterator[ConversationRecord]:
        where = {"kind": KEY} | ({} if scope is None else {"scope": scope})
        found = self.engine.documents(self.namespace).search(where=where, limit=ALL)
        return self._records([(document.namespace, document.key) for document in found])

    def _line(self, entry_id: str | None) -> Iterator[Message]:
        """A message and those before it, as far as they are there."""
        while entry_id is not None and (row := self.engine.get(self.namespace, entry_id)) and PARENT in row.metadata:
            yield row
            entry_id = row.metadata[PARENT]

    def _write(self, record: ConversationRecord, new: Sequence[ConversationEntry], revision: str | None) -> None:
        forked = [record.forked_from] if record.forked_from and revision is None else []
        places = [self._place(record.conversation_id), self._place(), *map(self._place, forked)]
        rows = [_message(entry, record.conversation_id) for entry in new]

        def change(found: list[Head | None], _: list[str | None]) -> Iterator[DocumentOperation]:
            _expect(found[0], revision, record.conversation_id)
            if record.head_id not in [None, *(row.id for row in rows)] and not any(self._line(record.head_id)):
                raise ConversationConflict(record.conversation_id)
            fields = {"kind": KEY, "revision": record.revision, "scope": record.scope}
            yield from puts(places[0], RECORD.dump_json(record).decode(), found[0], **fields)
            if forked:
                yield from puts(places[1], uuid4().hex, found[1])
            yield DocumentOperation.put_messages(self.namespace, rows)

        update(self.engine, places, change)

    def _delete(self, conversation_id: str, revision: str) -> None:
        places = [self._place(conversation_id), self._place()]

        def change(found: list[Head | None], texts: list[str | None]) -> Iterator[DocumentOperation]:
            _expect(found[0], revision, conversation_id)
            deleted = RECORD.validate_json(texts[0] or "")
            others = [other for other in self._all() if other.conversation_id != conversation_id]
            # Only forks share messages.
            others = [other for other in others if other.forked_from or deleted.forked_from]
            yield from deletes(places[0], found[0])
            yield from puts(places[1], uuid4().hex, found[1]) if others else deletes(places[1], found[1])
            yield DocumentOperation.delete_messages(self.namespace, self._ids([deleted]) - self._ids(others))

        update(self.engine, places, change)

    def _ids(self, records: Iterable[ConversationRecord]) -> set[str]:
        tips = [tip for record in records for tip in (record.head_id, *record.branches)]
        return {row.id for tip in tips for row in self._line(tip)}


class MnemonToolset(FunctionToolset[Any]):
    """Tools with which an agent remembers: `Agent(model, toolsets=[MnemonToolset(engine, "acme/ada")])`.

    `remember` stores a text in the session `notes` of the namespace, `recall` finds the `k` best messages of the whole namespace, and
    `forget` deletes what was remembered, and nothing else. What the model does wrong is said to it.
    """

    def __init__(self, engine: Engine | AsyncEngine, namespace: str, *, k: int = 5, **options: Any) -> None:
        self.engine = engine_of(engine)
        self.namespace = namespace
        self.k = k
        super().__init__([self.remember, self.recall, self.forget], **{"id": "mnemon", **options})

    async def remember(self, text: str) -> str:
        """Keep a fact for later conversations, as a sentence that stands alone. Returns its id."""
        if not text.strip():
            raise ModelRetry("The text is empty: give the fact as a sentence.")
        note = Message(text, session=NOTES, metadata=NOTE)
        await finish(self.engine.put, self.namespace, [note])
        return note.id

    async def recall(self, query: str) -> list[dict[str, Any]]:
        """Find what was said or remembered in earlier conversations, by meaning and by words, best first."""
        if not query.strip():
            raise ModelRetry("The query is empty: say what to look for.")
        hits = await wait(search, self.engine, self.namespace, query, k=self.k)
        return [{"id": hit.message.id, "role": hit.message.role, "at": str(hit.message.created_at), "text": hit.passage} for hit in hits]

    async def forget(self, id: str) -> str:
        """Delete what `remember` stored, by its id."""
        message = await wait(self.engine.get, self.namespace, id)
        if message is None or message.metadata != NOTE:
            # No retry, of which a run has few: the note may be forgotten already.
            return f"Nothing was remembered under the id {id!r}: take an id that remember or recall returned."
        await finish(self.engine.delete, self.namespace, [id])
        return "Forgotten."


def _expect(found: Head | None, revision: str | None, conversation_id: str) -> None:
    if (found and found["revision"]) != revision:
        raise ConversationConflict(conversation_id)


def _message(entry: ConversationEntry, session: str) -> Message:
    stored = JSON.dump_json([entry.message])
    # As it comes back, where what a tool returned is JSON.
    parts = fitting(_parts(JSON.validate_json(stored)))
    role: Any = "assistant" if entry.message.kind == "response" else "tool" if parts and parts[0]["type"] == "tool_result" else "user"
    metadata, time = {KEY: stored.decode(), PARENT: entry.parent_id}, entry.message.timestamp
    time = time if time is None or time.tzinfo else time.astimezone()
    return Message(parts, role, id=entry.id, session=session, created_at=time, metadata=metadata)


def _one(row: Message) -> theirs.ModelMessage:
    """The message of an entry; of what another program changed, the turns together."""
    first, *rest = model_messages([row])
    return replace(first, parts=[*first.parts, *(part for message in rest for part in message.parts)])  # type: ignore[arg-type]


def _parts(messages: Sequence[theirs.ModelMessage]) -> list[Part]:
    """What a recall reads of messages, and what a prompt has in their place. What has neither text nor calls is in the metadata."""
    parts: list[Part] = []
    for part in (part for message in messages for part in message.parts):
        if isinstance(part, theirs.ToolCallPart):
            parts.append(call_of(part.tool_call_id, part.tool_name, part.args))
        elif isinstance(part, theirs.ToolReturnPart):
            parts.append({"type": "tool_result", "id": part.tool_call_id, "content": part.model_response_str()})
        elif isinstance(part, theirs.TextPart | theirs.UserPromptPart):
            said = [part.content] if isinstance(part.content, str) else part.content
            texts = [text for item in said if isinstance(text := getattr(item, "content", item), str) and text.strip()]
            parts += [{"type": "text", "text": text} for text in texts]
    return parts


def _converted(message: Message, names: dict[str, str]) -> Iterator[theirs.ModelMessage]:
    for role, parts in turns_of(message):
        if role == "assistant":
            yield theirs.ModelResponse([_call(part) if part["type"] == "tool_call" else theirs.TextPart(described(part)) for part in parts])
        elif role == "tool":
            yield theirs.ModelRequest([theirs.ToolReturnPart(names.get(part["id"], "tool"), part["content"], part["id"]) for part in parts])
        elif role == "system":
            yield theirs.ModelRequest([theirs.SystemPromptPart("\n".join(map(described, parts)))])
        else:
            yield theirs.ModelRequest([theirs.UserPromptPart([_item(part) for part in parts])])


def _call(part: Part) -> theirs.ToolCallPart:
    return theirs.ToolCallPart(part["name"], arguments_of(part), part["id"])


def _item(part: Part) -> Any:
    if part["type"] in URLS and part["uri"].startswith(("https://", "http://")):
        return URLS[part["type"]](part["uri"])
    if "uri" in part and data_of(part):
        with suppress(ValueError):
            return theirs.BinaryContent.from_data_uri(part["uri"])
    return described(part)
