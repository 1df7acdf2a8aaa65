#!/usr/bin/env bash
# Expected: what other users store does not change what `search` with filters={"user_id": "ada"} returns.
# Happens: with a FAISS store mem0 looks at the nearest memories of all users, eight times top_k and at least 120, and takes Ada's out of these. When others have said
# much on a subject, her one memory of it is not found any more, and the search is empty; `get_all` has it.
# Package: mem0ai 2.2.1, faiss-cpu 1.15.1 (PyPI). Seen 2026-11-29.
set -euo pipefail
T=$(mktemp -d)
trap 'rm -rf "$T"' EXIT
"${PYTHON:-python3}" -m venv "$T/venv"
timeout 400 "$T/venv/bin/pip" install --quiet --disable-pip-version-check mem0ai==2.2.1 faiss-cpu==1.15.1 numpy
cd "$T"
env -i HOME="$T" PATH="$PATH" timeout 120 "$T/venv/bin/python" -W ignore <<'PY'
import os
from importlib.metadata import version

os.environ.update(OPENAI_API_KEY="dummy", MEM0_TELEMETRY="False", MEM0_DIR="mem0")
from mem0 import Memory

print("mem0ai", version("mem0ai"), "| faiss-cpu", version("faiss-cpu"))
WORDS = "bicycle", "piano", "soup", "garden"
memory = Memory.from_config({
    "vector_store": {"provider": "faiss", "config": {"path": "./store", "collection_name": "notes", "embedding_model_dims": len(WORDS)}},
    "history_db_path": "history.db",
})
memory.embedding_model.embed = lambda text, action: [float(word in text) for word in WORDS]  # one dimension for each word


def search():
    return [row["memory"] for row in memory.search("bicycle", top_k=5, filters={"user_id": "ada"})["results"]]


for i in range(150):
    if i == 100:
        before = search()
    if i == 50:
        memory.add("Ada's bicycle is in the garden", user_id="ada", infer=False)
    memory.add(f"Bo's bicycle, ride {i}", user_id="bo", infer=False)
after = search()
kept = [row["memory"] for row in memory.get_all(filters={"user_id": "ada"})["results"]]
print("Ada's search after 100 rides of Bo's:", before, "| after 150:", after, "| get_all:", kept)
assert before == kept == ["Ada's bicycle is in the garden"] and after == []
print("SEEN: another user's memories hide one's own")
PY
