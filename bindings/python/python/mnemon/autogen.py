"""AutoGen's memory on an engine. Needs the package `autogen-core`."""

import asyncio
import json
import re
from collections.abc import Callable, Iterable
from typing import Any, Self, TypeVar

from ._adapters import COMPONENTS, engine_at, fitting, is_unchanged, needs, search, text_of
from ._async import AsyncEngine, engine_of
from ._errors import InvalidValueError
from ._mnemon import DocumentOperation, Engine, Hit, Message
from ._values import packed, unpacked
from ._wait import wait

with needs("mnemon.autogen", "autogen-core", "autogen_core"):
    from autogen_core import CancellationToken, Component, Image
    from autogen_core.memory import Memory, MemoryContent, MemoryMimeType, MemoryQueryResult, UpdateContextResult
    from autogen_core.model_context import ChatCompletionContext
    from autogen_core.models import LLMMessage, SystemMessage
    from pydantic import BaseModel

_T = TypeVar("_T")

# In a message's metadata: the kind, the MIME type, whether that is AutoGen's own, and the metadata of a content, and what is not its text.
KEY = "autogen"
HEADING = "Relevant memories, best first:"
READERS: dict[str, Callable[[str], Any]] = {"image": Image.from_base64, "bytes": unpacked, "json": json.loads, "text": str}


class MemoryConfig(BaseModel):
    """`path` is that of the engine's file."""

    path: str
    namespace: str
    session: str
    k: int


class MnemonMemory(Memory, Component[MemoryConfig]):
    """The memory of an AutoGen agent, as a session of a namespace: `AssistantAgent(..., memory=[MnemonMemory(engine, "acme/ada")])`.

    Each content that is added is a message, which recalls in the namespace find too; pictures and bytes are found by their metadata alone.
    `query` and `update_context` find the best `k` messages of the session by meaning and by words, also those of other programs; the
    results have their `score` and `id` in the metadata. `query(..., session=None)` looks in all sessions of the namespace, and takes the
    other options of `mnemon.Query` too, such as `k`, `since` or `where`. A content has at most 16 MiB as JSON; one with
    more than 1 MiB of text is found by its beginning.

    With `path`, the one that the engine was opened with, `dump_component` writes a configuration. What `load_component` makes of it opens
    the file, or shares the engine of a component that has the same path.
    """

    component_config_schema = MemoryConfig
    component_provider_override = "mnemon.autogen.MnemonMemory"

    def __init__(
        self, engine: Engine | AsyncEngine, namespace: str, *, session: str = "memory", k: int = 10, path: str | None = None
    ) -> None:
        self.engine = engine_of(engine)
        self.namespace = namespace
        self.session = session
        self.k = k
        self.path = path
        if path is not None:
            COMPONENTS.add(self)

    async def add(self, content: MemoryContent, cancellation_token: CancellationToken | None = None) -> None:
        message = _message(content, self.session)
        await _linked(cancellation_token, self.engine.put, self.namespace, message)

    async def query(
        self, query: str | MemoryContent, cancellation_token: CancellationToken | None = None, **options: Any
    ) -> MemoryQueryResult:
        """The best messages, best first; none for what has no text."""
        content = query if isinstance(query, str) else query.content
        asked = "" if isinstance(content, bytes | Image) else _text(content)
        options = {"k": self.k, "session": self.session} | options
        hits = await _linked(cancellation_token, search, self.engine, self.namespace, asked, **options)
        return MemoryQueryResult(results=[_content(hit) for hit in hits])

    async def update_context(self, model_context: ChatCompletionContext) -> UpdateContextResult:
        """Adds what the last message of the context recalls to it, as one message of the system. An agent calls this for each task, and its
        context keeps what was added, so a memory that the context has already is left out; if all are, nothing is added.
        """
        messages = await model_context.get_messages()
        last = messages[-1].content if messages else ""
        asked = last if isinstance(last, str) else "\n".join(part for part in last if isinstance(part, str))
        memories = await self.query(asked)
        new = [text for memory in memories.results if not _is_shown(text := _text(memory.content), messages)]
        if new:
            lines = [f"{number}. {text}" for number, text in enumerate(new, 1)]
            await model_context.add_message(SystemMessage(content="\n".join([HEADING, *lines])))
        return UpdateContextResult(memories=memories)

    async def clear(self) -> None:
        """Deletes all messages of the session."""
        await wait(self.engine.document_batch, DocumentOperation.delete_session(self.namespace, self.session))

    async def close(self) -> None:
        """Does nothing: the engine stays open for others. One that `load_component` opened is closed with the last component on it."""

    def _to_config(self) -> MemoryConfig:
        if self.path is None:
            raise InvalidValueError("a configuration names the engine's file; make the memory with path=..., as the engine has it")
        return MemoryConfig(path=self.path, namespace=self.namespace, session=self.session, k=self.k)

    @classmethod
    def _from_config(cls, config: MemoryConfig) -> Self:
        return cls(engine_at(config.path), config.namespace, session=config.session, k=config.k, path=config.path)


async def _linked(token: CancellationToken | None, call: Callable[..., _T], *arguments: Any, **options: Any) -> _T:
    task = asyncio.ensure_future(wait(call, *arguments, **options))
    if token is not None:
        token.link_future(task)
    return await task


def _text(content: Any) -> str:
    """What a recall reads."""
    if isinstance(content, dict):
        return json.dumps(content, ensure_ascii=False)
    return content if isinstance(content, str) else f"({'image' if isinstance(content, Image) else 'bytes'})"


def _is_shown(memory: str, messages: Iterable[LLMMessage]) -> bool:
    """True if a message is this memory, or one that `update_context` added and that has a line or lines with it."""
    line = re.compile(rf"^\d+\. {re.escape(memory)}$", re.MULTILINE)
    said = [message.content for message in messages if isinstance(message.content, str)]
    return any(text == memory or (text.startswith(HEADING) and line.search(text)) for text in said)


def _message(memory: MemoryContent, session: str) -> Message:
    content, text = memory.content, _text(memory.content)
    is_own, mime = isinstance(memory.mime_type, MemoryMimeType), memory.model_dump(include={"mime_type"})["mime_type"]
    fields: dict[str, Any] = {"mime_type": mime, "is_own_type": is_own, "metadata": memory.metadata}
    if isinstance(content, Image):
        fields |= {"kind": "image", "data": content.to_base64()}
    elif isinstance(content, bytes):
        fields |= {"kind": "bytes", "data": packed(content)}
    else:
        fields |= {"kind": "json" if isinstance(content, dict) else "text"}
    # Blank ones are found by their metadata, as pictures are.
    parts = fitting([{"type": "text", "text": text if text.strip() else "(blank)"}])
    if text_of(parts) != text:
        fields |= {"data": text}
    return Message(parts, session=session, metadata={KEY: fields})


def _content(hit: Hit) -> MemoryContent:
    """What was added, with the text that it has now; the text of what another program stored."""
    found = {"score": hit.score, "id": hit.message.id}
    try:
        fields = hit.message.metadata[KEY]
        kind, data = fields["kind"], fields.get("data", hit.message.text)
        if kind in ("json", "text") and not is_unchanged(hit.message, [{"type": "text", "text": data}]):
            data = hit.message.text
        mime = MemoryMimeType(fields["mime_type"]) if fields["is_own_type"] else fields["mime_type"]
        return MemoryContent(content=READERS[kind](data), mime_type=mime, metadata=found | (fields["metadata"] or {}))
    except (KeyError, TypeError, ValueError):
        return MemoryContent(content=hit.message.text, mime_type=MemoryMimeType.TEXT, metadata=found)
