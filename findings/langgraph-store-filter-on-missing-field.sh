#!/usr/bin/env bash
# Expected: the same `filter` finds the same items in InMemoryStore and in SqliteStore, also where an item lacks the field.
# Happens: {"x": {"$ne": 1}} finds all items without x in InMemoryStore and none in SqliteStore; {"s": {"$gt": "10"}} is an error (TypeError) in
# InMemoryStore as soon as one item lacks s, and works in SqliteStore.
# Package: langgraph 1.2.24, langgraph-checkpoint-sqlite 3.1.2 (PyPI). Seen 2026-11-29.
set -euo pipefail
T=$(mktemp -d)
SERVER=
trap 'kill $SERVER 2> /dev/null || true; rm -rf "$T" || { sleep 3; rm -rf "$T"; }' EXIT
"${PYTHON:-python3}" -m venv "$T/venv"
timeout 300 "$T/venv/bin/pip" install --quiet --disable-pip-version-check langgraph==1.2.24 langgraph-checkpoint-sqlite==3.1.2
timeout 60 "$T/venv/bin/python" <<'PY'
import importlib.metadata as meta
import sqlite3
from langgraph.store.memory import InMemoryStore
from langgraph.store.sqlite import SqliteStore

print("langgraph", meta.version("langgraph"), "| langgraph-checkpoint-sqlite", meta.version("langgraph-checkpoint-sqlite"))
memory = InMemoryStore()
sqlite = SqliteStore(sqlite3.connect(":memory:", check_same_thread=False, isolation_level=None))
sqlite.setup()
for store in memory, sqlite:
    store.put(("notes",), "with", {"s": "20"})
    store.put(("notes",), "without", {"other": 1})
seen = {}
for store in memory, sqlite:
    for query in {"x": {"$ne": 1}}, {"s": {"$gt": "10"}}:
        try:
            result = sorted(item.key for item in store.search(("notes",), filter=query))
        except TypeError as error:
            result = f"TypeError: {error}"
        print(type(store).__name__, query, "->", result)
        seen[type(store).__name__, *query] = result
assert seen["InMemoryStore", "x"] == ["with", "without"] and seen["SqliteStore", "x"] == []
assert str(seen["InMemoryStore", "s"]).startswith("TypeError") and seen["SqliteStore", "s"] == ["with"]
print("SEEN: two filters, two stores, four different outcomes")
PY
