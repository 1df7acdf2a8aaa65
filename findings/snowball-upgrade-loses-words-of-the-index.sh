#!/usr/bin/env bash
# Expected: an upgrade of the stemmer leaves an index of stems usable: a word that is in a text still finds it.
# Happens: the stems of common English words differ between versions: "evening" was "even", "emergency" was "emerg", "added" was "ad", and "internal"
# changed from 3.0 to 3.1. An index that bm25s saved has no note of the stemmer. After the upgrade those words find nothing, and instead of nothing
# bm25s gives the last texts, with a score of 0.
# Package: snowballstemmer 2.2.0, 3.0.1 and 3.1.1, bm25s 0.3.16 (PyPI). Seen 2026-11-29.
set -euo pipefail
T=$(mktemp -d)
SERVER=
trap 'kill $SERVER 2> /dev/null || true; rm -rf "$T" || { sleep 3; rm -rf "$T"; }' EXIT
"${PYTHON:-python3}" -m venv "$T/venv"
cd "$T"
cat > search.py <<'PY'
import importlib.metadata as meta
import sys
from pathlib import Path
import bm25s
import snowballstemmer

print("snowballstemmer", meta.version("snowballstemmer"), "bm25s", meta.version("bm25s"))
NOTES = {
    "evening": "Ada rows in the evening", "emergency": "The emergency exit is behind the stage", "added": "Bo added nuts to the cake",
    "internal": "The internal meeting is in Ely", "thursday": "Cy swims on Thursday", "piano": "Dee plays the piano", "garden": "Eve has a garden",
}


def tokens(texts):
    return bm25s.tokenize(texts, stopwords="en", stemmer=snowballstemmer.stemmer("english"), show_progress=False)


if not Path("index").exists():
    index = bm25s.BM25()
    index.index(tokens(list(NOTES.values())), show_progress=False)
    index.save("index", corpus=list(NOTES.values()))
index = bm25s.BM25.load("index", load_corpus=True)
found = []
for word, note in NOTES.items():
    [texts], [scores] = index.retrieve(tokens(word), k=1, show_progress=False)
    print(f'  {word}: "{texts[0]["text"]}" {scores[0]:.2f}')
    if texts[0]["text"] == note and scores[0] > 0:
        found.append(word)
assert found == sys.argv[1].split(), found
PY
for step in "2.2.0:evening emergency added internal thursday piano garden" "3.0.1:internal thursday piano garden" "3.1.1:thursday piano garden"; do
    timeout 200 "$T/venv/bin/pip" install --quiet --disable-pip-version-check "snowballstemmer==${step%%:*}" bm25s==0.3.16
    timeout 60 "$T/venv/bin/python" search.py "${step#*:}"
done
echo "SEEN: words of the texts are no longer found"
