#!/usr/bin/env bash
# Expected: `text[chunk.start_index:chunk.end_index]` is the text of the chunk, with each tokenizer of TokenChunker.
# Happens: with the tokenizer "word" and no overlap, the space between two chunks is in neither, and is not counted: the places are one character further off with
# each chunk. After 50 chunks a quotation that is cut out by them begins 49 characters early, in the words before, and lacks its end.
# With an overlap, and with the tokenizer "character", they are right.
# Package: chonkie 1.7.0 (PyPI). Seen 2026-11-29.
set -euo pipefail
T=$(mktemp -d)
trap 'rm -rf "$T"' EXIT
"${PYTHON:-python3}" -m venv "$T/venv"
timeout 400 "$T/venv/bin/pip" install --quiet --disable-pip-version-check chonkie==1.7.0
cd "$T"
env -i HOME="$T" PATH="$PATH" timeout 120 "$T/venv/bin/python" -W ignore <<'PY'
from importlib.metadata import version
from chonkie import TokenChunker

print("chonkie", version("chonkie"))
TEXT = " ".join(f"word{i:04}" for i in range(5000))


def drift(tokenizer, size, overlap):
    """How far the place of each chunk is from its text."""
    chunks = TokenChunker(tokenizer, chunk_size=size, chunk_overlap=overlap).chunk(TEXT)
    return [TEXT.index(chunk.text) - chunk.start_index for chunk in chunks], chunks[-1]


words, last = drift("word", 100, 0)
print("off by:", words[:5], "...", words[-1])
print("the last chunk begins with", repr(last.text[:20]), "and its place is that of", repr(TEXT[last.start_index : last.end_index][:20]))
assert words == list(range(50))
assert set(drift("word", 100, 10)[0]) == set(drift("character", 900, 0)[0]) == {0}
print("SEEN: places that are not those of the text")
PY
