"""Writes the fixtures: what the pinned Python libraries do, for the Rust tests to replay.

    python generate.py [--seed 1] [--out fixtures]

The same seed and the same versions give the same bytes. Nothing is fetched.
"""

import argparse
import asyncio
import collections
import json
import logging
import pathlib

from example_cases import example_cases, mmr_cases
from flush_cases import flush_cases
from get_cases import get_cases
from langchain_cases import trim_cases
from langgraph_cases import add_messages_cases
from llamaindex_cases import Bench
from render_cases import render_cases
from sqlite_cases import sqlite_cases
from store_cases import paths_cases, store_cases


async def fixtures(seed):
    yield "trim", list(trim_cases(seed))
    yield "add_messages", list(add_messages_cases(seed))
    yield "examples", list(example_cases(seed))
    yield "mmr", list(mmr_cases(seed))
    yield "store", list(store_cases(seed))
    yield "paths", list(paths_cases(seed))
    yield "sqlite", sqlite_cases(seed)
    bench = Bench()
    try:
        yield "flush", await flush_cases(bench, seed)
        yield "get", await get_cases(bench, seed)
        yield "render", await render_cases(bench, seed)
    finally:
        await bench.close()


def write(path, rows):
    lines = [json.dumps(row, ensure_ascii=False, separators=(",", ":")) + "\n" for row in rows]
    path.write_text("".join(lines), encoding="utf-8", newline="\n")
    return path.stat().st_size


def report(name, rows, size):
    print(f"{name}: {len(rows)} cases, {sum('error' in row for row in rows)} errors, {size // 1000} kB")
    found = collections.defaultdict(list)
    for row in rows:
        for mark in row.get("marks", ()):
            found[mark].append(row["case"])
    for mark in sorted(found):
        print(f"  {mark}: {len(found[mark])}, first in case {found[mark][0]}")


async def main():
    here = pathlib.Path(__file__).parent
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=pathlib.Path, default=here / "fixtures", help="a folder")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    logging.disable(logging.WARNING)
    async for name, rows in fixtures(arguments.seed):
        report(name, rows, write(arguments.out / f"{name}.jsonl", rows))


if __name__ == "__main__":
    asyncio.run(main())
