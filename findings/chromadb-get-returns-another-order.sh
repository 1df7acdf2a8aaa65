#!/usr/bin/env bash
# Expected: `get(ids=[...])` returns the records in the order of the ids, and one for each, so that `zip(ids, got["documents"])` pairs them.
# Happens: they come in the order in which they were added, whatever order was asked for, and an id that is not there leaves no gap.
# A list of hits of another index, best first, gets the texts of its neighbors.
# Package: chromadb 1.5.9 (PyPI). Seen 2026-11-29.
set -euo pipefail
T=$(mktemp -d)
trap 'rm -rf "$T"' EXIT
"${PYTHON:-python3}" -m venv "$T/venv"
timeout 400 "$T/venv/bin/pip" install --quiet --disable-pip-version-check chromadb==1.5.9
cd "$T"
env -i HOME="$T" PATH="$PATH" timeout 120 "$T/venv/bin/python" -W ignore <<'PY'
from importlib.metadata import version
import chromadb

print("chromadb", version("chromadb"))
client = chromadb.PersistentClient("store", chromadb.Settings(anonymized_telemetry=False))
notes = client.create_collection("notes", embedding_function=None)
TEXTS = {"ada": "Ada has a bicycle", "bo": "Bo plays the piano", "cy": "Cy cooks soup"}
notes.add(ids=list(TEXTS), documents=list(TEXTS.values()), embeddings=[[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
for asked in ["cy", "ada", "bo"], ["nobody", "bo", "ada"]:
    got = notes.get(ids=asked)
    print("asked for", asked, "got", got["ids"], "| zip:", dict(zip(asked, got["documents"])))
    assert got["ids"] == [name for name in TEXTS if name in asked]
got = notes.get(ids=["cy", "ada", "bo"])
assert dict(zip(["cy", "ada", "bo"], got["documents"]))["cy"] == TEXTS["ada"]
print("SEEN: records in another order than their ids")
PY
