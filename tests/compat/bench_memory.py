"""Measures llama_index's Memory (default limits, an SQLite file) and prints one line of JSON. The whole file is one
conversation. `put`: one message at a time, no blocks. `get`: 200 times `aget(input=...)` over the last 200 messages and
four blocks, the older messages in the vector block. `put_8`: eight concurrent tasks, each with a Memory, session and
engine of its own in the same database, put the first 500 messages; `put_1_task_per_s` is one alone with the same."""

import argparse, asyncio, contextlib, hashlib, json, math, os, sys, tempfile, time
from importlib.metadata import version
from pathlib import Path

from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.base.llms.types import ChatMessage, TextBlock
from llama_index.core.bridge.pydantic import PrivateAttr
from llama_index.core.memory import BaseMemoryBlock, Memory, StaticMemoryBlock, VectorMemoryBlock
from llama_index.core.vector_stores import SimpleVectorStore
from sqlalchemy.exc import OperationalError

RECENT, GETS, WARM, TASKS, TASK_PUTS = 200, 200, 5, 8, 500


class HashEmbedding(BaseEmbedding):  # 256 numbers at once; what it finds means nothing
    def _get_text_embedding(self, text):
        return [byte / 127.5 - 1 for byte in hashlib.shake_256(text.encode()).digest(256)]

    async def _aget_text_embedding(self, text):  # the inherited one goes through a thread
        return self._get_text_embedding(text)

    _get_query_embedding, _aget_query_embedding = _get_text_embedding, _aget_text_embedding


class NodeStore(SimpleVectorStore):  # keeps the nodes too: VectorMemoryBlock refuses the plain one, which has no text
    stores_text: bool = True
    _nodes: dict = PrivateAttr(default_factory=dict)

    def add(self, nodes, **kwargs):
        self._nodes.update((node.node_id, node) for node in nodes)
        return super().add(nodes, **kwargs)

    def query(self, query, **kwargs):
        result = super().query(query, **kwargs)
        result.nodes = [self._nodes[name] for name in result.ids]
        return result


class CounterBlock(BaseMemoryBlock[str]):
    _count: int = PrivateAttr(default=0)

    async def _aget(self, messages=None, **kwargs):
        return f"{self._count} older messages"

    async def _aput(self, messages):
        self._count += len(messages)


def texts(row):
    parts = row["content"]
    return [parts] if isinstance(parts, str) else [part["text"] for part in parts if part["type"] == "text"]


def chat(rows):  # fresh messages each time: the library writes into those it is given
    return [ChatMessage(role=row["role"], blocks=[TextBlock(text=text) for text in texts(row)]) for row in rows]


def micros(times, percent):
    return round(sorted(times)[math.ceil(len(times) * percent / 100) - 1] / 1000, 1)


async def timed(call, items, tolerated=()):  # the nanoseconds of each call, those that failed left out
    times = []
    for item in items:
        start = time.perf_counter_ns()
        with contextlib.suppress(*tolerated):
            await call(item)
            times.append(time.perf_counter_ns() - start)
    return times


async def put(new, rows):
    memory = await new("put")
    times = await timed(memory.aput, chat(rows))
    async with memory.sql_store._async_engine.connect() as sql:
        pragma = [(await sql.exec_driver_sql(f"PRAGMA {name}")).scalar() for name in ("synchronous", "journal_mode")]
    return {"put_per_s": round(len(times) / sum(times) * 1e9, 1), "put_p50_us": micros(times, 50),
            "put_p99_us": micros(times, 99), "put_last_100_p50_us": micros(times[-100:], 50),
            "put_1_task_per_s": round(len(times[:TASK_PUTS]) / sum(times[:TASK_PUTS]) * 1e9, 1),
            "archived": len(rows) - len(await memory.aget()),
            "synchronous": ("OFF", "NORMAL", "FULL", "EXTRA")[pragma[0]], "journal_mode": pragma[1]}


async def get(new, rows):
    blocks = [StaticMemoryBlock(name="Persona", static_content="You are a helpful assistant. Be brief."),
              StaticMemoryBlock(name="Rules", static_content="Answer from the conversation. Say so if unsure."),
              CounterBlock(name="Counter"), VectorMemoryBlock(vector_store=NodeStore(), embed_model=HashEmbedding())]
    memory = await new("get", memory_blocks=blocks)
    older, recent, batch, size = chat(rows[:-RECENT]), chat(rows[-RECENT:]), [], 0
    for at, message in enumerate(older, 1):  # batches as a flush makes them: 3000 tokens, then up to a user's message
        batch, size = [*batch, message], size + memory._estimate_token_count(message)
        if at == len(older) or (size >= memory.token_flush_size and older[at].role == "user"):
            for block in blocks:
                await block.aput(batch, from_short_term_memory=True, session_id="get")
            batch, size = [], 0
    await memory.aset(recent)
    asked = [" ".join(texts(row)) for row in rows if row["role"] == "user"] or ["hello"]
    asked = [asked[at * len(asked) // GETS] for at in range(-WARM, GETS)]
    times = (await timed(memory.aget, asked))[WARM:]
    rss = int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return {"get_p50_us": micros(times, 50), "get_p99_us": micros(times, 99), "get_blocks": len(blocks),
            "recent": len(recent), "recent_tokens": memory._estimate_token_count(recent),
            "get_tokens": memory._estimate_token_count(await memory.aget(asked[0])),
            "vector_nodes": len(blocks[3].vector_store._nodes), "rss_mb": round(rss / 2**20, 1)}


async def put_8(new, rows):
    memories, rows = [await new(f"task-{number}") for number in range(TASKS)], rows[:TASK_PUTS]
    tasks = [timed(memory.aput, chat(rows), [OperationalError]) for memory in memories]  # "database is locked"
    start, puts = time.perf_counter(), TASKS * len(rows)
    done = sum(map(len, await asyncio.gather(*tasks)))
    per_s = done / (time.perf_counter() - start)
    return {"put_8_tasks_per_s": round(per_s, 1), "put_8_puts": puts, "put_8_failed": puts - done}


async def measure(uri, rows):
    memories, out = [], {"system": f"llama-index-core {version('llama-index-core')}", "messages": len(rows)}
    out["tokenizer"] = "default (tiktoken cl100k_base, comes in the package, no download)"

    async def new(session, **options):
        memories.append(Memory.from_defaults(session, async_database_uri=uri, **options))
        await memories[-1].aget_all()  # connects and makes the table
        return memories[-1]

    for part in (put, get, put_8):
        out.update(await part(new, rows))
        while memories:  # the library reads by status, so the rows of a session slow the others
            await memories[-1].areset()
            await memories.pop().sql_store._async_engine.dispose()
    print(json.dumps(out))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("messages", metavar="MESSAGES.jsonl", help='a {"role", "content"} a line')
    parser.add_argument("--db", metavar="FILE", help="the SQLite file; must not exist (default: a temporary one)")
    parser.add_argument("--limit", type=int, metavar="N", help="only the first N messages")
    args = parser.parse_args()
    if args.db and os.path.exists(args.db):
        sys.exit(f"{args.db} exists")
    with tempfile.TemporaryDirectory() as folder, open(args.messages, encoding="utf-8") as file:
        rows = [json.loads(line) for line in file if line.strip()][: args.limit] or sys.exit("no messages")
        asyncio.run(measure(f"sqlite+aiosqlite:///{os.path.abspath(args.db or f'{folder}/memory.db')}", rows))
