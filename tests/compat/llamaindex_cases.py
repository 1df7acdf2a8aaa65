"""What the other fixtures need of llama_index.core: its messages, a Memory that fetches nothing, and fake blocks."""

from typing import Any, List, Optional

from llama_index.core.base.llms.types import CacheControl, CachePoint, ChatMessage, ImageBlock, TextBlock, ToolCallBlock
from llama_index.core.bridge.pydantic import PrivateAttr
from llama_index.core.memory import Memory
from llama_index.core.memory.memory import BaseMemoryBlock, InsertMethod
from llama_index.core.storage.chat_store.sql import SQLAlchemyChatStore
from sqlalchemy.ext.asyncio import create_async_engine


class Bench:
    """One in-memory database for all cases of a run, each in a session of its own."""

    def __init__(self):
        self.engine = create_async_engine("sqlite+aiosqlite:///:memory:")
        self.store = SQLAlchemyChatStore(table_name="compat", async_engine=self.engine)
        self.sessions = 0
        self.count = self.memory([])._estimate_token_count

    def memory(self, blocks, session=None, **options):
        self.sessions += 1
        options["insert_method"] = InsertMethod(options.get("insert_method", "system"))
        return Memory.from_defaults(
            session_id=session or f"session-{self.sessions}",
            chat_store=self.store,
            tokenizer_fn=str.split,
            memory_blocks=blocks,
            **options,
        )

    async def close(self):
        await self.engine.dispose()


def to_llama(message):
    """The message as the library has it. Its id rides in a cache point, which the library's own counting leaves out."""
    content = message["content"]
    extra = {}
    if isinstance(content, str):
        blocks = [TextBlock(text=content)]
    else:
        blocks = []
        for part in content:
            if part["type"] == "text":
                blocks.append(TextBlock(text=part["text"]))
            elif part["type"] == "tool_call":
                call = {"tool_call_id": part["id"], "tool_name": part["name"], "tool_kwargs": part["arguments"]}
                blocks.append(ToolCallBlock(**call))
            elif part["type"] == "tool_result":
                blocks.append(TextBlock(text=part["content"]))
                extra = {"tool_call_id": part["id"]}
            elif part["type"] == "image":
                blocks.append(ImageBlock(url=part["url"]))
    if message.get("id"):
        blocks.append(CachePoint(cache_control=CacheControl(type=message["id"])))
    return ChatMessage(role=message["role"], blocks=blocks, additional_kwargs=extra)


def id_of(message):
    return next((block.cache_control.type for block in message.blocks if isinstance(block, CachePoint)), None)


def ids(messages):
    return [id_of(message) for message in messages]


def tokens(bench, messages):
    """What the library counts for each message, by id."""
    return {message["id"]: bench.count(to_llama(message)) for message in messages}


class RecordingBlock(BaseMemoryBlock[str]):
    """Gives nothing back, and writes down every batch. It fails at the put with the number `fails`, if there is one."""

    fails: Optional[int] = None
    _batches: list = PrivateAttr(default_factory=list)
    _puts: int = PrivateAttr(default=0)

    async def _aget(self, messages: Optional[List[ChatMessage]] = None, **block_kwargs: Any) -> str:
        return ""

    async def _aput(self, messages: List[ChatMessage]) -> None:
        self._puts += 1
        if self._puts == self.fails:
            raise RuntimeError("the block fails")
        self._batches.append(ids(messages))

    def take(self):
        batches, self._batches = self._batches, []
        return batches


class FixedBlock(BaseMemoryBlock[Any]):
    """Always gives back the same, and writes down what it was asked with.

    It truncates a text as `shortens` says: by the words asked for ("words"), by one word whatever is asked ("one"), or,
    as the library does by default, wholly.
    """

    content: Any = None
    shortens: Optional[str] = None
    _asked: list = PrivateAttr(default_factory=list)

    async def _aget(self, messages: Optional[List[ChatMessage]] = None, **block_kwargs: Any) -> Any:
        self._asked.append([id_of(message) or message.content for message in messages])
        return self.content

    async def _aput(self, messages: List[ChatMessage]) -> None:
        pass

    async def atruncate(self, content: Any, tokens_to_truncate: int) -> Any:
        if not (self.shortens and isinstance(content, str)):
            return await super().atruncate(content, tokens_to_truncate)
        words = content.split()
        less = tokens_to_truncate if self.shortens == "words" else 1
        return " ".join(words[: max(0, len(words) - less)]) or None


def block_content(content):
    """A block's content, from a fixture to the library: text, a list of parts, or a list of messages."""
    if isinstance(content, str) or not content:
        return content
    if "role" in content[0]:
        return [to_llama(message) for message in content]
    return to_llama({"role": "user", "content": content}).blocks


def rendered(messages):
    """Messages as the library would hand them to a model: its own `content` (the text blocks joined by newlines), and
    all blocks as parts where they are not just one text."""
    out = []
    for message in messages:
        item = {"id": id_of(message), "role": message.role.value, "content": message.content or ""}
        parts = [part(block) for block in message.blocks if not isinstance(block, CachePoint)]
        if len(parts) != 1 or parts[0]["type"] != "text":
            item["parts"] = parts
        out.append(item)
    return out


def part(block):
    if isinstance(block, TextBlock):
        return {"type": "text", "text": block.text}
    if isinstance(block, ImageBlock):
        return {"type": "image", "url": str(block.url)}
    if isinstance(block, ToolCallBlock):
        call = {"id": block.tool_call_id, "name": block.tool_name, "arguments": block.tool_kwargs}
        return {"type": "tool_call", **call}
    return {"type": block.block_type}
