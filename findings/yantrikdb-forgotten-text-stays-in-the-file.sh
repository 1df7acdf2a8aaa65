#!/usr/bin/env bash
# Expected: after `forget` has returned True and the database is closed, the text is no longer in the file.
# Happens: recall does not show it any more, but its words are in rows of the tables memories, memories_fts and oplog of the SQLite file.
# Package: yantrikdb 0.23.2 (PyPI). Seen 2026-11-29.
set -euo pipefail
T=$(mktemp -d)
SERVER=
trap 'kill $SERVER 2> /dev/null || true; rm -rf "$T" || { sleep 3; rm -rf "$T"; }' EXIT
"${PYTHON:-python3}" -m venv "$T/venv"
timeout 300 "$T/venv/bin/pip" install --quiet --disable-pip-version-check yantrikdb==0.23.2
cd "$T"
env -i HOME="$T" PATH="$PATH" timeout 120 "$T/venv/bin/python" <<'PY'
import importlib.metadata as meta
import sqlite3
from yantrikdb import YantrikDB

print("yantrikdb", meta.version("yantrikdb"))
base = YantrikDB.with_default("memory.db")
rid = base.record_text("The shed key is under the blue flowerpot")
before = [hit for hit in base.recall("Where is the shed key?") if "flowerpot" in str(hit)]
print("forget:", gone := base.forget(rid))
after = [hit for hit in base.recall("Where is the shed key?") if "flowerpot" in str(hit)]
print("recall before:", len(before), "| after:", len(after))
base.close()
file = sqlite3.connect("memory.db")
kept = []
for (table,) in file.execute("select name from sqlite_master where type = 'table'").fetchall():
    try:
        if any("flowerpot" in str(row) for row in file.execute(f'select * from "{table}"')):
            kept.append(table)
    except sqlite3.Error:
        pass
print("tables with the text after close:", kept)
assert gone is True and before and not after
assert {"memories", "memories_fts", "oplog"} <= set(kept), kept
print("SEEN: forgotten text in the file")
PY
