#!/usr/bin/env bash
# Expected: after the vector with id 0 is removed, the others are found under the ids that they had; a search in fewer vectors than `k` gives fewer.
# Happens: `IndexFlat.remove_ids` moves the later vectors down, so each is found under the id of the one before: a list of notes beside the index
# answers with the neighbor's note, at distance 0. And a search is filled up with the id -1, which in a Python list is the last note.
# Package: faiss-cpu 1.15.1 (PyPI). Seen 2026-11-29.
set -euo pipefail
T=$(mktemp -d)
SERVER=
trap 'kill $SERVER 2> /dev/null || true; rm -rf "$T" || { sleep 3; rm -rf "$T"; }' EXIT
"${PYTHON:-python3}" -m venv "$T/venv"
timeout 300 "$T/venv/bin/pip" install --quiet --disable-pip-version-check faiss-cpu==1.15.1 numpy
timeout 100 "$T/venv/bin/python" <<'PY'
import importlib.metadata as meta
import faiss
import numpy as np

print("faiss-cpu", meta.version("faiss-cpu"))
NOTES = ["Ada has a bicycle", "Bo plays the piano", "Cy cooks soup"]
VECTORS = np.eye(3, dtype="float32")


def found(index, note, k=1):
    distances, ids = index.search(VECTORS[note : note + 1], k)
    return [(NOTES[id], round(float(distance), 1)) for id, distance in zip(ids[0], distances[0]) if distance < 1 or id == -1]


index = faiss.IndexFlatL2(3)
index.add(VECTORS)
before = found(index, 1)
index.remove_ids(np.array([0]))
after = found(index, 1)
filled = found(index, 1, k=3)
print("the vector of Bo's note finds", before, "and after Ada's is removed", after, "with k=3", [text for text, _ in filled])
assert before == [("Bo plays the piano", 0.0)] and after == [("Ada has a bicycle", 0.0)]
assert [text for text, _ in filled] == ["Ada has a bicycle", "Cy cooks soup"]
named = faiss.IndexIDMap(faiss.IndexFlatL2(3))
named.add_with_ids(VECTORS, np.arange(3))
named.remove_ids(np.array([0]))
assert found(named, 1) == before
print("SEEN: a removed note is given for its neighbor")
PY
