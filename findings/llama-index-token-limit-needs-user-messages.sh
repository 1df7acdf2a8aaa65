#!/usr/bin/env bash
# Expected: `Memory` keeps the newest messages of a chat within `token_limit` and moves the older ones on.
# Happens: it moves whole turns, and only a user's message begins one. An agent that works alone gets all or nothing: with one task of the user before
# 40 reports, none is ever moved, and `get` returns far more than the limit; without it, the chat is emptied again and again, and `get` lacks
# even the report that was put just before.
# Package: llama-index-core 0.14.25 (PyPI). Seen 2026-11-29.
set -euo pipefail
T=$(mktemp -d)
SERVER=
trap 'kill $SERVER 2> /dev/null || true; rm -rf "$T" || { sleep 3; rm -rf "$T"; }' EXIT
"${PYTHON:-python3}" -m venv "$T/venv"
timeout 300 "$T/venv/bin/pip" install --quiet --disable-pip-version-check llama-index-core==0.14.25
timeout 100 "$T/venv/bin/python" <<'PY'
import asyncio
import importlib.metadata as meta
from llama_index.core.llms import ChatMessage
from llama_index.core.memory import Memory

print("llama-index-core", meta.version("llama-index-core"))
LIMIT = 100


async def run(session, messages):
    """The lengths of the chat after each message, and its tokens after the last."""
    memory = Memory.from_defaults(session_id=session, token_limit=LIMIT, token_flush_size=10, chat_history_token_ratio=0.5)
    lengths = []
    for message in messages:
        await memory.aput(message)
        lengths.append(len(await memory.aget()))
    words = sum(len(message.content.split()) for message in await memory.aget())
    return lengths, words


async def main():
    reports = [ChatMessage(role="assistant", content=f"Report {i}: another folder of the old archive was read") for i in range(40)]
    with_task = await run("a", [ChatMessage(role="user", content="Read the old archive"), *reports])
    alone = await run("b", reports)
    print(f"limit {LIMIT} tokens; with a task of the user: {with_task[0][-1]} messages of {with_task[1]} words")
    print("without one, messages in the chat after each report:", alone[0])
    assert with_task[0] == list(range(1, 42)) and with_task[1] > 3 * LIMIT
    assert alone[0].count(0) >= 5


asyncio.run(main())
print("SEEN: a chat over its limit, and a chat that loses all")
PY
