"""Pydantic AI's conversations, and tools for an agent's memory, on an engine. Need the package `pydantic-ai-slim`."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from ._adapters import Part, arguments_of, call_of, data_of, described, names_of, needs, search, text_of, turn_of, turns_of
from ._async import AsyncEngine, engine_of
from ._errors import DocumentChangedError
from ._mnemon import Engine, Message
from ._values import ALL, Head, Place, deletes, expects, heads, key_of, puts, read
from ._wait import finish, wait

with needs("mnemon.pydantic_ai", "pydantic-ai-slim", "pydantic", "pydantic_ai"):
    from pydantic import TypeAdapter
    from pydantic_ai import BinaryContent, FunctionToolset, ModelRetry
    from pydantic_ai.conversation_store import ConversationConflict, ConversationEntry, ConversationRecord, ConversationStore
    from pydantic_ai.messages import (
        AudioUrl,
        DocumentUrl,
        ImageUrl,
        ModelMessage,
        ModelMessagesTypeAdapter,
        ModelRequest,
        ModelResponse,
        SystemPromptPart,
        TextPart,
        ToolCallPart,
        ToolReturnPart,
        UserPromptPart,
        VideoUrl,
    )

# In a message's metadata: the message of Pydantic AI as JSON, and the id of the entry before it.
KEY, PARENT = "pydantic_ai", "pydantic_ai_parent"
RECORD: TypeAdapter[ConversationRecord] = TypeAdapter(ConversationRecord)
# The session of what an agent was told to remember.
NOTES = "notes"
URLS = {"image": ImageUrl, "audio": AudioUrl, "video": VideoUrl, "file": DocumentUrl}


def model_messages(messages: Sequence[Message]) -> list[ModelMessage]:
    """Messages as Pydantic AI has them: `agent.run(..., message_history=model_messages(engine.history("acme/ada", "monday")))`.

    What a `MnemonConversationStore` stored is as it was, unless another program changed its text since.
    """
    names = names_of(messages)
    return [read for message in messages for read in _stored(message) or _converted(message, names)]


class MnemonConversationStore(ConversationStore):
    """The conversations of Pydantic AI in a namespace, as its `ConversationStore` describes them.

    A message of a conversation is a message of the session that has the conversation's id, of at most 512 bytes, and recalls in the
    namespace find it by its text. Branches and forks share messages. A message has at most 1 MiB of text, and 4 MiB as JSON. What other
    programs put into the session is not of the conversation: `model_messages` reads that.

    `delete` deletes the messages too that no other conversation needs. The record of a conversation is a document of the namespace: a save
    stores the new messages and then the record, which makes them part of the conversation. Calls may come from any thread, and from any
    number of stores and processes of one database; a save that another one overtakes raises `ConversationConflict`.
    """

    def __init__(self, engine: Engine | AsyncEngine, namespace: str) -> None:
        self.engine = engine_of(engine)
        self.namespace = namespace
        # For a fork must not point at what a deletion deletes.
        self._lock = turn_of(namespace, KEY)

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

    def _place(self, conversation_id: str) -> Place:
        return self.namespace, key_of(KEY, conversation_id)

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

    def _expected(self, place: Place, revision: str | None, conversation_id: str) -> Head | None:
        [old] = heads(self.engine, [place])
        if (old and old["revision"]) != revision:
            raise ConversationConflict(conversation_id)
        return old

    def _write(self, record: ConversationRecord, new: Sequence[ConversationEntry], revision: str | None) -> None:
        place, text = self._place(record.conversation_id), RECORD.dump_json(record).decode()
        rows = [_message(entry, record.conversation_id) for entry in new]
        with self._lock:
            old = self._expected(place, revision, record.conversation_id)
            if record.head_id not in [None, *(entry.id for entry in new)] and not any(self._line(record.head_id)):
                raise ConversationConflict(record.conversation_id)
            self.engine.put(self.namespace, rows)
            fields = {"kind": KEY, "revision": record.revision, "scope": record.scope}
            try:
                self.engine.document_batch([*expects([place], [old]), *puts(place, text, old, **fields)])
            except DocumentChangedError:
                self.engine.delete(self.namespace, [row.id for row in rows])
                raise ConversationConflict(record.conversation_id) from None

    def _delete(self, conversation_id: str, revision: str) -> None:
        place = self._place(conversation_id)
        with self._lock:
            old = self._expected(place, revision, conversation_id)
            [record] = self._records([place])
            try:
                self.engine.document_batch([*expects([place], [old]), *deletes(place, old)])
            except DocumentChangedError:
                raise ConversationConflict(conversation_id) from None
            # Only forks share messages.
            others = [other for other in self._all() if other.forked_from or record.forked_from]
            own, needed = self._ids([record]), self._ids(others)
            self.engine.delete(self.namespace, own - needed)

    def _ids(self, records: Iterable[ConversationRecord]) -> set[str]:
        tips = [tip for record in records for tip in (record.head_id, *record.branches)]
        return {row.id for tip in tips for row in self._line(tip)}


class MnemonToolset(FunctionToolset[Any]):
    """Tools with which an agent remembers: `Agent(model, toolsets=[MnemonToolset(engine, "acme/ada")])`.

    `remember` stores a text in the session `notes` of the namespace, `recall` finds the `k` best messages of the whole namespace, and
    `forget` deletes what was remembered, and nothing else. What the model does wrong is said to it, so that it tries again.
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
        note = Message(text, session=NOTES)
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
        if message is None or message.session != NOTES:
            raise ModelRetry(f"Nothing was remembered under the id {id!r}: take an id that remember or recall returned.")
        await finish(self.engine.delete, self.namespace, [id])
        return "Forgotten."


def _message(entry: ConversationEntry, session: str) -> Message:
    dump = ModelMessagesTypeAdapter.dump_json([entry.message]).decode()
    parts = _parts(entry.message)
    role = "assistant" if entry.message.kind == "response" else "tool" if parts[0]["type"] == "tool_result" else "user"
    return Message(parts, role, id=entry.id, session=session, metadata={KEY: dump, PARENT: entry.parent_id})  # type: ignore[arg-type]


def _one(row: Message) -> ModelMessage:
    """The message of an entry; of what another program changed, the turns together."""
    first, *rest = model_messages([row])
    return replace(first, parts=[*first.parts, *(part for message in rest for part in message.parts)])  # type: ignore[arg-type]


def _stored(message: Message) -> list[ModelMessage]:
    """The message that a store stored; none if another program stored it, or changed its text since."""
    try:
        [stored] = ModelMessagesTypeAdapter.validate_json(message.metadata[KEY])
        return [stored] if text_of(_parts(stored)) == message.text else []
    except (KeyError, TypeError, ValueError):
        return []


def _parts(message: ModelMessage) -> list[Part]:
    """What a recall reads of a message, and what a prompt has in its place. What has neither text nor calls is in the metadata."""
    parts: list[Part] = []
    for part in message.parts:
        if isinstance(part, ToolCallPart):
            parts.append(call_of(part.tool_call_id, part.tool_name, part.args))
        elif isinstance(part, ToolReturnPart):
            parts.append({"type": "tool_result", "id": part.tool_call_id, "content": part.model_response_str()})
        elif isinstance(part, TextPart | UserPromptPart):
            said = [part.content] if isinstance(part.content, str) else part.content
            texts = [text for item in said if isinstance(text := getattr(item, "content", item), str) and text.strip()]
            parts += [{"type": "text", "text": text} for text in texts]
    return parts or [{"type": "text", "text": f"({message.kind})"}]


def _converted(message: Message, names: dict[str, str]) -> Iterator[ModelMessage]:
    for role, parts in turns_of(message):
        if role == "assistant":
            yield ModelResponse([_call(part) if part["type"] == "tool_call" else TextPart(described(part)) for part in parts])
        elif role == "tool":
            yield ModelRequest([ToolReturnPart(names.get(part["id"], "tool"), part["content"], part["id"]) for part in parts])
        elif role == "system":
            yield ModelRequest([SystemPromptPart("\n".join(map(described, parts)))])
        else:
            yield ModelRequest([UserPromptPart([_item(part) for part in parts])])


def _call(part: Part) -> ToolCallPart:
    return ToolCallPart(part["name"], arguments_of(part), part["id"])


def _item(part: Part) -> Any:
    if part["type"] in URLS and part["uri"].startswith(("https://", "http://")):
        return URLS[part["type"]](part["uri"])
    if "uri" in part and data_of(part):
        with suppress(ValueError):
            return BinaryContent.from_data_uri(part["uri"])
    return described(part)
