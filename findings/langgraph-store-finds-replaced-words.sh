#!/usr/bin/env bash
# Expected: an item that is put again with `index=False` is no longer found by meaning, least of all by words that it no longer has.
# Happens: the vectors of its former value stay. The item with the new value is the first hit, with a score of 1, for the words that were replaced;
# the same where the new value lacks the indexed field.
# Package: langgraph-checkpoint 4.3.2 (PyPI). Seen 2026-11-29.
set -euo pipefail
T=$(mktemp -d)
SERVER=
trap 'kill $SERVER 2> /dev/null || true; rm -rf "$T" || { sleep 3; rm -rf "$T"; }' EXIT
"${PYTHON:-python3}" -m venv "$T/venv"
timeout 300 "$T/venv/bin/pip" install --quiet --disable-pip-version-check langgraph-checkpoint==4.3.2 numpy
timeout 60 "$T/venv/bin/python" <<'PY'
import importlib.metadata as meta
from langgraph.store.memory import InMemoryStore

print("langgraph-checkpoint", meta.version("langgraph-checkpoint"))
WORDS = "bicycle", "piano", "garden"


def embed(texts):
    """One dimension for each word."""
    return [[float(word in text) for word in WORDS] for text in texts]


def best(store):
    item = store.search(("notes",), query="bicycle")[0]
    return item.key, item.value, round(item.score, 2)


for name, value, index in ("index=False", {"text": "Ada sold everything"}, False), ("without the field", {"note": "Ada sold everything"}, None):
    store = InMemoryStore(index={"dims": len(WORDS), "embed": embed, "fields": ["text"]})
    store.put(("notes",), "hobby", {"text": "Ada has a bicycle"})
    store.put(("notes",), "music", {"text": "Ada plays the piano"})
    before = best(store)
    store.put(("notes",), "hobby", value, index=index)
    after = best(store)
    print(f"{name}: bicycle finds {before}, and after the put {after}")
    assert before == ("hobby", {"text": "Ada has a bicycle"}, 1.0) and after == ("hobby", value, 1.0)
print("SEEN: an item is found by the words that it had before")
PY
