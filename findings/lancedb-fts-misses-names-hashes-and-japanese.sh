#!/usr/bin/env bash
# Expected: a full-text index finds a note by a word that is in it.
# Happens: with its defaults the index leaves out English stop words, so a person who is called Will is never found; words of 40 or more bytes, so a commit
# or the digest of an image is never found; and a Japanese or Chinese sentence is one word, which no other query is equal to. All without a sign: the
# search is empty, as it is for words that nobody wrote.
# Package: lancedb 0.40.0 (PyPI). Seen 2026-11-29.
set -euo pipefail
T=$(mktemp -d)
trap 'rm -rf "$T"' EXIT
"${PYTHON:-python3}" -m venv "$T/venv"
timeout 400 "$T/venv/bin/pip" install --quiet --disable-pip-version-check lancedb==0.40.0
cd "$T"
env -i HOME="$T" PATH="$PATH" timeout 120 "$T/venv/bin/python" -W ignore <<'PY'
import hashlib
from importlib.metadata import version
import lancedb
from lancedb.index import FTS

print("lancedb", version("lancedb"))
COMMIT = hashlib.sha1(b"").hexdigest()
NOTES = {"Will": "Will rides a bicycle", COMMIT: f"the lock was mended in {COMMIT}", "公園": "昨日は公園でお茶を飲みました"}


def found(**options):
    table = lancedb.connect("store").create_table("notes", [{"text": text} for text in NOTES.values()], mode="overwrite")
    table.create_index("text", config=FTS(**options))
    return {query: len(table.search(query, query_type="fts").to_list()) for query in [*NOTES, "bicycle", "mended"]}


default = found()
plain = found(stem=False, remove_stop_words=False, max_token_length=None)
print("found by default:", default)
print("with stem and remove_stop_words off, and no max_token_length:", plain)
assert default == {"Will": 0, COMMIT: 0, "公園": 0, "bicycle": 1, "mended": 1}
assert plain == {"Will": 1, COMMIT: 1, "公園": 0, "bicycle": 1, "mended": 1}
print("SEEN: notes that no search finds")
PY
