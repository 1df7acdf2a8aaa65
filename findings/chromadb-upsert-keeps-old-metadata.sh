#!/usr/bin/env bash
# Expected: `upsert` puts a record in the place of the one with its id; `add` under an id that is there already is an error.
# Happens: `upsert` replaces the text and the vector, and merges the metadata: fields that the new record does not have stay. A note that was retired and
# is put anew stays retired, and a filter does not find it. `add` under a known id drops the record without an error. `get` shows a field as gone
# only after it was given as None.
# Package: chromadb 1.5.9 (PyPI). Seen 2026-11-29.
set -euo pipefail
T=$(mktemp -d)
SERVER=
trap 'kill $SERVER 2> /dev/null || true; rm -rf "$T" || { sleep 3; rm -rf "$T"; }' EXIT
"${PYTHON:-python3}" -m venv "$T/venv"
timeout 400 "$T/venv/bin/pip" install --quiet --disable-pip-version-check chromadb==1.5.9
cd "$T"
env -i HOME="$T" PATH="$PATH" ANONYMIZED_TELEMETRY=False timeout 100 "$T/venv/bin/python" <<'PY'
import importlib.metadata as meta
import chromadb

print("chromadb", meta.version("chromadb"))
notes = chromadb.PersistentClient("notes").create_collection("notes", embedding_function=None)


def put(call, text, about):
    call(ids=["1"], documents=[text], metadatas=[about], embeddings=[[1.0, 0.0]])
    stored = notes.get(ids=["1"])
    return stored["documents"][0], stored["metadatas"][0]


def live():
    return notes.query(query_embeddings=[[1.0, 0.0]], where={"retired": {"$ne": True}})["ids"][0]


put(notes.add, "Ada lives in Ely", {"by": "Ada"})
put(notes.upsert, "Ada lived in Ely", {"by": "Ada", "retired": True})
anew = put(notes.upsert, "Ada lives in Ely again", {"by": "Bo"})
print("after the upsert:", anew, "found among those not retired:", live())
assert anew == ("Ada lives in Ely again", {"by": "Bo", "retired": True}) and live() == []
added = put(notes.add, "Ada lives in York", {"by": "Cy"})
print("after the add:   ", added)
assert added == anew
cleared = put(notes.upsert, "Ada lives in Ely again", {"by": "Bo", "retired": None})
print("with None:       ", cleared, live())
assert cleared[1] == {"by": "Bo"} and live() == ["1"]
print("SEEN: a record that is put anew keeps fields of the old one")
PY
