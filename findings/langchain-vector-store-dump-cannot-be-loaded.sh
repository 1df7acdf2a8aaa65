#!/usr/bin/env bash
# Expected: what `InMemoryVectorStore.dump` has written without an error, `InMemoryVectorStore.load` reads.
# Happens: with one time, UUID or set in the metadata of one document, the file is written, and refused when it is read (NotImplementedError): no document of
# it can be loaded. Its value is in the file as the text of its `repr`.
# Package: langchain-core 1.8.3 (PyPI). Seen 2026-11-29.
set -euo pipefail
T=$(mktemp -d)
trap 'rm -rf "$T"' EXIT
"${PYTHON:-python3}" -m venv "$T/venv"
timeout 400 "$T/venv/bin/pip" install --quiet --disable-pip-version-check langchain-core==1.8.3 numpy
cd "$T"
env -i HOME="$T" PATH="$PATH" timeout 120 "$T/venv/bin/python" -W ignore <<'PY'
import datetime
import json
import uuid
from importlib.metadata import version
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.vectorstores import InMemoryVectorStore

print("langchain-core", version("langchain-core"))
EMBEDDING = DeterministicFakeEmbedding(size=4)


def reload(value):
    store = InMemoryVectorStore(EMBEDDING)
    store.add_texts([f"note {i}" for i in range(100)], [{"value": 0}] * 99 + [{"value": value}])
    store.dump("store.json")
    try:
        return len(InMemoryVectorStore.load("store.json", EMBEDDING).store)
    except NotImplementedError:
        return "NotImplementedError"


for value in datetime.datetime(2026, 11, 29, tzinfo=datetime.UTC), datetime.date(2026, 11, 29), uuid.UUID(int=1), {"tea"}:
    seen = reload(value)
    print(f"100 documents, one of them with {value!r}: dump is done, load gives {seen}")
    assert seen == "NotImplementedError"
assert reload(1) == 100
print("SEEN: a dump that cannot be loaded")
PY
