#!/usr/bin/env bash
# Expected: a table that is made of notes has all fields of them, with null where a note has none, or the call is an error.
# Happens: only the fields of the first note count. What the others have beside these is dropped, without an error or a warning; the same with `mode="overwrite"`,
# by which a table that had the field loses it. `add` to a table does raise for a field that it does not know.
# Package: lancedb 0.40.0 (PyPI). Seen 2026-11-29.
set -euo pipefail
T=$(mktemp -d)
trap 'rm -rf "$T"' EXIT
"${PYTHON:-python3}" -m venv "$T/venv"
timeout 400 "$T/venv/bin/pip" install --quiet --disable-pip-version-check lancedb==0.40.0
cd "$T"
env -i HOME="$T" PATH="$PATH" timeout 120 "$T/venv/bin/python" -W ignore <<'PY'
from importlib.metadata import version
import lancedb

print("lancedb", version("lancedb"))
NOTES = [
    {"text": "Ada has a bicycle", "vector": [1.0, 0.0]},
    {"text": "The gate code changed", "vector": [0.0, 1.0], "expires": "2026-12-01", "source": "mail 17"},
]
database = lancedb.connect("store")
table = database.create_table("notes", NOTES)
turned = database.create_table("turned", NOTES[::-1])
print("fields:", table.schema.names, "| in the other order:", turned.schema.names)
try:
    table.add(NOTES[1:])
    added = "done"
except Exception as error:
    added = type(error).__name__
print("the second note:", {key: value for key, value in table.to_arrow().to_pylist()[1].items() if key != "vector"}, "| add of it:", added)
again = database.create_table("turned", NOTES, mode="overwrite")
assert table.schema.names == again.schema.names == ["text", "vector"] and table.count_rows() == 2
assert turned.schema.names == ["text", "vector", "expires", "source"] and added == "ValueError"
print("SEEN: fields that are dropped when a table is made")
PY
