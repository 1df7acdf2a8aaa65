"""LlamaIndex's `Memory` on SQLite beside the same on the engine, and the engine's own memory. Prints a Markdown table.

The sample conversations, three times over, each in a session: after each message a put, after each user's message a prompt. All sides have
the same model, token limits and messages, and recall from the session. SQLite and the engine write to files; LlamaIndex's vectors stay in
memory, in its favour. Its puts wait for the model; the engine embeds in the background. LlamaIndex compiles its template in each prompt.
"""

import argparse
import asyncio
import json
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.memory import Memory, VectorMemoryBlock
from llama_index.core.schema import BaseNode
from llama_index.core.storage.chat_store.sql import SQLAlchemyChatStore
from llama_index.core.vector_stores import SimpleVectorStore
from llama_index.core.vector_stores.types import VectorStoreQuery, VectorStoreQueryResult
from sqlalchemy import text

import mnemon
from mnemon.llama_index import MnemonBlock, MnemonChatStore, MnemonEmbedding

LIMITS: dict[str, Any] = {"token_limit": 3000, "token_flush_size": 300}
SAMPLE = Path(__file__).parents[3] / "datasets/sample/messages.jsonl"
TIMES = 3

# What puts a message into a session, and what makes the session's prompt.
Side = tuple[Callable[[str, dict[str, Any]], Awaitable[Any]], Callable[[str], Awaitable[Any]]]


class VectorStoreWithText(SimpleVectorStore):
    """LlamaIndex's store and the nodes, which its block needs."""

    stores_text: bool = True
    nodes: dict[str, BaseNode] = {}

    def add(self, nodes: Sequence[BaseNode], **options: Any) -> list[str]:
        self.nodes.update({node.node_id: node for node in nodes})
        return super().add(nodes, **options)

    def query(self, query: VectorStoreQuery, **options: Any) -> VectorStoreQueryResult:
        result = super().query(query, **options)
        result.nodes = [self.nodes[id] for id in result.ids or []]
        return result


def side(memories: dict[str, Memory]) -> Side:
    async def put(session: str, line: dict[str, Any]) -> None:
        await memories[session].aput(ChatMessage(role=line["role"], content=line["content"]))

    return put, lambda session: memories[session].aget()


async def times(lines: list[dict[str, Any]], side: Side) -> list[float]:
    """The median and the 99th percentile of puts and of prompts, in milliseconds."""
    puts, gets = [], []
    for line in lines:
        started = time.perf_counter()
        await side[0](line["namespace"], line)
        puts.append(time.perf_counter() - started)
        if line["role"] == "user":
            started = time.perf_counter()
            await side[1](line["namespace"])
            gets.append(time.perf_counter() - started)
    return [1e3 * statistics.quantiles(some, n=100)[at] for some in (puts, gets) for at in (49, 98)]


async def theirs(lines: list[dict[str, Any]], folder: Path) -> tuple[list[float], str]:
    store = SQLAlchemyChatStore("messages", f"sqlite+aiosqlite:///{folder}/memory.sqlite")
    with mnemon.Engine() as engine:
        # The block writes the session's filter into itself, so each session has its own.
        vectors, model = VectorStoreWithText(), MnemonEmbedding(engine)
        memories = {
            session: Memory.from_defaults(
                session, memory_blocks=[VectorMemoryBlock(vector_store=vectors, embed_model=model)], chat_store=store, **LIMITS
            )
            for session in {line["namespace"] for line in lines}
        }
        figures = await times(lines, side(memories))
    assert store._async_engine is not None
    async with store._async_engine.connect() as connection:
        values = [await connection.scalar(text(f"PRAGMA {name}")) for name in ("synchronous", "journal_mode")]
    await store._async_engine.dispose()
    return figures, f"SQLite: synchronous = {values[0]}, journal_mode = {values[1]}"


async def ours(lines: list[dict[str, Any]], folder: Path) -> list[float]:
    with mnemon.Engine(folder / "memory.redb") as engine:
        store = MnemonChatStore(engine=engine, namespace="chats")
        block = MnemonBlock(engine=engine, namespace="chats", accept_short_term_memory=False, own_session=True)
        memories = {
            session: Memory.from_defaults(session, memory_blocks=[block], chat_store=store, **LIMITS)
            for session in {line["namespace"] for line in lines}
        }
        return await times(lines, side(memories))


async def engines_own(lines: list[dict[str, Any]], folder: Path) -> list[float]:
    with mnemon.Engine(folder / "memory.redb") as engine:
        block = mnemon.VectorBlock("memories", own_session=True)
        memories = {
            session: engine.memory("chats", session, blocks=[block], tokens="cl100k_base", **LIMITS)
            for session in {line["namespace"] for line in lines}
        }

        async def put(session: str, line: dict[str, Any]) -> None:
            memories[session].put([{"role": line["role"], "content": line["content"]}])

        async def get(session: str) -> None:
            memories[session].get()

        return await times(lines, (put, get))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--limit", type=int, help="the number of messages; default: all")
    options = parser.parse_args()
    lines = [json.loads(line) for line in SAMPLE.read_text().splitlines()]
    lines = (lines * TIMES)[: options.limit]
    with tempfile.TemporaryDirectory() as first, tempfile.TemporaryDirectory() as second, tempfile.TemporaryDirectory() as third:
        base, settings = asyncio.run(theirs(lines, Path(first)))
        rows = {
            "LlamaIndex Memory, SQLite and VectorMemoryBlock": base,
            "LlamaIndex Memory, MnemonChatStore and MnemonBlock": asyncio.run(ours(lines, Path(second))),
            "mnemon.Memory with VectorBlock": asyncio.run(engines_own(lines, Path(third))),
        }
    print(f"{len(lines)} messages. {settings}. Milliseconds; in brackets how many times less than with SQLite.\n")
    print("| | put p50 | put p99 | prompt p50 | prompt p99 |\n| --- | --- | --- | --- | --- |")
    for name, row in rows.items():
        print(f"| {name} | " + " | ".join(f"{own:.2f} ({other / own:.1f})" for own, other in zip(row, base, strict=True)) + " |")


if __name__ == "__main__":
    main()
