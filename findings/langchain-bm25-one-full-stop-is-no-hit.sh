#!/usr/bin/env bash
# Expected: a BM25Retriever finds "Ada has a bicycle." by the word bicycle, and by "Bicycle".
# Happens: by default words are what stands between spaces, with their punctuation and their capitals. "bicycle." and "bicycle" are two words. Nothing matches then, and
# instead of nothing, the retriever returns the notes that were added last, as if they were the answer: it has no scores by which one could see it.
# Package: langchain-community 0.4.2, rank-bm25 0.2.2 (PyPI). Seen 2026-11-29.
set -euo pipefail
T=$(mktemp -d)
trap 'rm -rf "$T"' EXIT
"${PYTHON:-python3}" -m venv "$T/venv"
timeout 400 "$T/venv/bin/pip" install --quiet --disable-pip-version-check langchain-community==0.4.2 rank-bm25==0.2.2
cd "$T"
env -i HOME="$T" PATH="$PATH" timeout 120 "$T/venv/bin/python" -W ignore <<'PY'
from importlib.metadata import version
from langchain_community.retrievers import BM25Retriever

print("langchain-community", version("langchain-community"), "| rank-bm25", version("rank-bm25"))
NOTES = ["Ada has a bicycle.", "Bo plays the piano", "Cy cooks soup", "Di has a garden", "Ed likes tea"]
retriever = BM25Retriever.from_texts(NOTES, k=1)


def first(query):
    (document,) = retriever.invoke(query)
    return document.page_content, document.metadata


hits = {query: first(query) for query in ("bicycle.", "bicycle", "piano", "Piano", "piano?")}
for query, (text, metadata) in hits.items():
    print(f"{query!r} finds {text!r}, metadata {metadata}")
assert [text for text, _ in hits.values()] == [NOTES[0], NOTES[4], NOTES[1], NOTES[4], NOTES[4]]
assert all(metadata == {} for _, metadata in hits.values())
print("SEEN: a full stop hides a note, and another is the answer")
PY
