#!/usr/bin/env bash
# Expected: the same `filter` finds the same items in InMemoryStore and in SqliteStore.
# Happens: a value that is an object, {"d": {"k": "v"}}, matches the item with that value in InMemoryStore; SqliteStore takes the object's keys
# for operators and raises ValueError "Unsupported operator: k". Code that was tested in memory fails on the database.
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
    store.put(("notes",), "one", {"d": {"k": "v"}})
found = [item.key for item in memory.search(("notes",), filter={"d": {"k": "v"}})]
print("InMemoryStore:", found)
assert found == ["one"]
try:
    raise SystemExit(f"SqliteStore now finds {sqlite.search(('notes',), filter={'d': {'k': 'v'}})}")
except ValueError as error:
    print("SqliteStore: ValueError:", error)
    assert str(error) == "Unsupported operator: k"
print("SEEN: one filter, an item in one store and an error in the other")
PY
