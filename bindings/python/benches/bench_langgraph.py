"""MnemonSaver and MnemonStore beside LangGraph's own savers and stores: the median time of a call, as Markdown tables.

A step is done by all of them in turn, so that what else the machine does falls on each. Files are in a temporary folder; SQLite has the
settings that LangGraph opens it with, PostgreSQL its defaults (fsync on). Peers embed with the model of the engine, when an item is put;
ours embeds it later, so there is a line for the time until it is found by its meaning.
"""

import argparse
import asyncio
import contextlib
import json
import os
import platform
import statistics
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeAlias

REPOSITORY = Path(__file__).resolve().parents[3]
sys.path.append(str(REPOSITORY / "tests" / "compat"))
# It has SQLite with extensions, which some builds of Python have not, and must be the first that asks for it.
from bench_documents import postgres  # type: ignore[import-not-found]
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.store.base import BaseStore, PutOp
from langgraph.store.postgres import PostgresStore
from langgraph.store.sqlite import SqliteStore

from mnemon import Config, Engine
from mnemon.langgraph import MnemonSaver, MnemonStore

BATCH = 100
KINDS = 10
PACKAGES = ["langgraph-checkpoint", "langgraph-checkpoint-sqlite", "langgraph-checkpoint-postgres", "sqlite-vec"]

# The times of a call, by its name.
Times: TypeAlias = dict[str, list[float]]


class Thread:
    """A thread of checkpoints that a saver keeps: two channels, of which one changes at each step."""

    def __init__(self, saver: Any, *, awaits: bool) -> None:
        self.saver, self.awaits, self.times = saver, awaits, Times()
        self.thread: Any = {"configurable": {"thread_id": str(uuid.uuid4()), "checkpoint_ns": ""}}
        self.values: dict[str, Any] = {"messages": [f"a message of some length {number}" for number in range(50)], "step": {"x": -1}}
        self.versions = {channel: saver.get_next_version(None, None) for channel in self.values}
        self.config, self.new = self.thread, self.versions

    async def step(self, number: int) -> None:
        checkpoint = empty_checkpoint()
        checkpoint["channel_values"], checkpoint["channel_versions"] = dict(self.values), dict(self.versions)
        self.config = await self.timed("put", self.config, checkpoint, {"source": "loop", "step": number}, self.new)
        await self.timed("put_writes", self.config, [("step", {"x": number})], f"task-{number}")
        found = await self.timed("get_tuple", self.thread)
        assert found.config == self.config and found.checkpoint["channel_values"] == self.values and len(found.pending_writes) == 1
        self.values["step"] = {"x": number}
        self.new = {"step": self.saver.get_next_version(self.versions["step"], None)}
        self.versions |= self.new

    async def read(self, _: int) -> None:
        assert len(await self.timed("list", self.thread, limit=10)) == 10

    async def timed(self, name: str, *arguments: Any, **options: Any) -> Any:
        call = getattr(self.saver, f"a{name}" if self.awaits else name)
        started = time.perf_counter()
        result = call(*arguments, **options)
        if name == "list":
            result = [one async for one in result] if self.awaits else [*result]
        elif self.awaits:
            result = await result
        self.times.setdefault(f"{name}(limit=10)" if options else name, []).append(time.perf_counter() - started)
        return result


async def savers(folder: Path, address: str | None, checkpoints: int, reads: int) -> dict[str, Times]:
    with contextlib.ExitStack() as stack:
        engine = stack.enter_context(Engine(folder / "savers.redb"))
        threads = {
            "MnemonSaver": Thread(MnemonSaver(engine), awaits=False),
            "InMemorySaver": Thread(InMemorySaver(), awaits=False),
            "SqliteSaver": Thread(stack.enter_context(SqliteSaver.from_conn_string(str(folder / "saver.db"))), awaits=False),
        }
        if address:
            saver = stack.enter_context(PostgresSaver.from_conn_string(address))
            saver.setup()
            threads["PostgresSaver"] = Thread(saver, awaits=False)
        async with AsyncSqliteSaver.from_conn_string(str(folder / "async.db")) as peer:
            threads["MnemonSaver, await"] = Thread(MnemonSaver(engine), awaits=True)
            threads["AsyncSqliteSaver"] = Thread(peer, awaits=True)
            for number in range(checkpoints):
                for thread in threads.values():
                    await thread.step(number)
            for number in range(reads):
                for thread in threads.values():
                    await thread.read(number)
    return {name: thread.times for name, thread in threads.items()}


class Items:
    """Items that a store keeps: texts of the sample's messages, each with its number, of several kinds."""

    def __init__(self, store: BaseStore, engine: Engine | None, texts: list[str], count: int) -> None:
        self.store, self.engine, self.texts, self.count, self.times = store, engine, texts, count, Times()
        self.namespace = ("bench", str(uuid.uuid4()))

    def item(self, number: int) -> PutOp:
        text = f"{self.texts[number % len(self.texts)]} n{number}"
        return PutOp(self.namespace, f"item-{number}", {"text": text, "kind": f"kind-{number % KINDS}"})

    def put(self, number: int) -> None:
        item = self.item(number)
        with self.timed("put"):
            self.store.put(item.namespace, item.key, item.value or {})

    def put_batch(self, first: int) -> None:
        self.flush()
        items = [self.item(number) for number in range(first, first + BATCH)]
        with self.timed(f"put of {BATCH} in a batch, found by meaning"):
            with self.timed(f"put of {BATCH} in a batch"):
                self.store.batch(items)
            self.flush()

    def read(self, number: int) -> None:
        item = self.item(number * 7919 % self.count)
        value = item.value or {}
        with self.timed("get"):
            found = self.store.get(item.namespace, item.key)
        assert found and found.value == value
        with self.timed("search by query and filter"):
            hits = self.store.search(item.namespace, query=value["text"], filter={"kind": value["kind"]}, limit=10)
        assert item.key in [hit.key for hit in hits] and all(hit.value["kind"] == value["kind"] for hit in hits)

    def flush(self) -> None:
        if self.engine:
            self.engine.flush()

    @contextlib.contextmanager
    def timed(self, name: str) -> Iterator[None]:
        started = time.perf_counter()
        yield
        self.times.setdefault(name, []).append(time.perf_counter() - started)


def stores(folder: Path, address: str | None, singles: int, batches: int, reads: int) -> dict[str, Times]:
    messages = (REPOSITORY / "datasets" / "sample" / "messages.jsonl").read_text(encoding="utf-8").splitlines()
    texts, count = [json.loads(line)["content"] for line in messages], singles + batches * BATCH
    with contextlib.ExitStack() as stack:
        # Queries are texts of items, so no embedding may be one that was made before.
        engine = stack.enter_context(Engine(folder / "stores.redb", config=Config(embedding_cache=0)))
        index: Any = {"dims": engine.model["dimension"], "embed": lambda texts: engine.embed_documents(list(texts)).tolist()}
        # SQLite's reads one of the names of the fields, PostgreSQL's the other.
        index |= {"fields": ["text"], "text_fields": ["text"]}
        kept = {"MnemonStore": Items(MnemonStore(engine, fields=["text"]), engine, texts, count)}
        peers: list[tuple[Any, str]] = [(SqliteStore, str(folder / "store.db"))]
        peers += [(PostgresStore, address)] if address else []
        for peer, place in peers:
            store = stack.enter_context(peer.from_conn_string(place, index=index))
            store.setup()
            kept[peer.__name__] = Items(store, None, texts, count)
        for number in range(singles):
            for items in kept.values():
                items.put(number)
        for first in range(singles, count, BATCH):
            for items in kept.values():
                items.put_batch(first)
        for number in range(reads):
            for items in kept.values():
                items.read(number)
    return {name: items.times for name, items in kept.items()}


def table(title: str, measured: dict[str, Times]) -> str:
    rows = [[title, *measured], ["---", *("---:" for _ in measured)]]
    for name in next(iter(measured.values())):
        rows.append([name, *(f"{1e6 * statistics.median(times[name]):,.0f}" for times in measured.values())])
    return "".join("| " + " | ".join(row) + " |\n" for row in rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--checkpoints", type=int, default=300, help="of a thread")
    parser.add_argument("--singles", type=int, default=300, help="items that are put alone")
    parser.add_argument("--batches", type=int, default=20, help=f"batches of {BATCH} items")
    parser.add_argument("--reads", type=int, default=200, help="gets, searches and lists")
    parser.add_argument("--short", action="store_true", help="a tenth of all")
    parser.add_argument("--postgres", nargs="?", const="", metavar="URL", help="PostgreSQL too; without URL one is started")
    options = parser.parse_args()
    share = 10 if options.short else 1
    checkpoints, singles, batches, reads = (
        max(1, wanted // share) for wanted in (options.checkpoints, options.singles, options.batches, options.reads)
    )
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as stack:
        folder, address = Path(name), options.postgres
        if address == "":
            (folder / "postgres").mkdir()
            address = stack.enter_context(postgres(folder / "postgres"))
        saved = asyncio.run(savers(folder, address, checkpoints, reads))
        kept = stores(folder, address, singles, batches, reads)
    print(f"Python {platform.python_version()}, {os.cpu_count()} CPUs; " + ", ".join(f"{name} {version(name)}" for name in PACKAGES))
    print(f"\nA thread of {checkpoints} checkpoints.\n\n" + table("saver, median in µs", saved))
    print(f"{singles + batches * BATCH} items in a namespace.\n\n" + table("store, median in µs", kept))


if __name__ == "__main__":
    main()
