#!/usr/bin/env bash
# Expected: of two notes, the one that has the word is the first hit of a search for it.
# Happens: `BM25Okapi` gives a word that half of the notes have a weight of 0. Both notes score 0, and `get_top_n` then takes the last one, which does
# not have the word. With three notes all is as expected; with one note, or of two with a word that both have, scores are negative. `BM25Retriever`
# of LangChain searches with this class, so a young memory is answered by the note that was added last.
# Package: rank-bm25 0.2.2, langchain-community 0.4.2 (PyPI). Seen 2026-11-29.
set -euo pipefail
T=$(mktemp -d)
SERVER=
trap 'kill $SERVER 2> /dev/null || true; rm -rf "$T" || { sleep 3; rm -rf "$T"; }' EXIT
"${PYTHON:-python3}" -m venv "$T/venv"
timeout 400 "$T/venv/bin/pip" install --quiet --disable-pip-version-check rank-bm25==0.2.2 langchain-community==0.4.2
timeout 100 "$T/venv/bin/python" -W ignore <<'PY'
import importlib.metadata as meta
from langchain_community.retrievers import BM25Retriever
from rank_bm25 import BM25Okapi

for name in "rank-bm25", "langchain-community":
    print(name, meta.version(name))
NOTES = ["Ada rides a bicycle", "Bo plays the piano", "Cy cooks soup"]
first = []
for count in 1, 2, 3:
    notes = NOTES[:count]
    scores = [round(float(score), 2) for score in BM25Okapi([note.split() for note in notes]).get_scores(["bicycle"])]
    [found] = BM25Retriever.from_texts(notes, k=1).invoke("bicycle")
    print(f"{count} notes: bicycle scores {scores} and finds '{found.page_content}'")
    first.append((scores, found.page_content))
(one, _), (two, wrong), (three, right) = first
assert one[0] < 0 and two == [0, 0] and wrong == NOTES[1], first
assert three[0] > 0 and right == NOTES[0], first
print("SEEN: a note without the word is found in the place of the one that has it")
PY
