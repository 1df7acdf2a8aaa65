#!/usr/bin/env bash
# Expected: a note is replaced by deleting the document with its id and adding it anew; after a deletion by id it is no longer found.
# Happens: the id of a text field is stored as words, and `delete_documents_by_term` compares it as it is given. The id "Note-1" is the words "note" and
# "1", so nothing is deleted, without an error or a count: the old text is found beside the new one. The id "note1" happens to work. And the id "note"
# deletes every note whose id has that word.
# Package: tantivy 0.27.0 (PyPI). Seen 2026-11-29.
set -euo pipefail
T=$(mktemp -d)
SERVER=
trap 'kill $SERVER 2> /dev/null || true; rm -rf "$T" || { sleep 3; rm -rf "$T"; }' EXIT
"${PYTHON:-python3}" -m venv "$T/venv"
timeout 300 "$T/venv/bin/pip" install --quiet --disable-pip-version-check tantivy==0.27.0
timeout 100 "$T/venv/bin/python" <<'PY'
import importlib.metadata as meta
import tantivy

print("tantivy", meta.version("tantivy"))


def found(put, deleted, tokenizer="default"):
    """What a search for "boat" finds after notes were put, an id was deleted, and nothing else."""
    schema = tantivy.SchemaBuilder().add_text_field("id", stored=True, tokenizer_name=tokenizer).add_text_field("text", stored=True).build()
    index = tantivy.Index(schema)
    writer = index.writer()
    for id in put:
        writer.add_document(tantivy.Document(id=id, text=f"{id}: Ada has a boat"))
    writer.commit()
    writer.delete_documents_by_term("id", deleted)
    writer.commit()
    index.reload()
    searcher = index.searcher()
    hits = searcher.search(index.parse_query("boat", ["text"]), 10).hits
    return sorted(searcher.doc(address)["id"][0] for _, address in hits)


rows = [
    (["Note-1"], "Note-1", "default", ["Note-1"]), (["note1"], "note1", "default", []), (["Note-1", "Note-2"], "note", "default", []),
    (["Note-1", "Note-2"], "Note-1", "raw", ["Note-2"]),
]
for put, deleted, tokenizer, left in rows:
    seen = found(put, deleted, tokenizer)
    print(f"{tokenizer}: of {put} without {deleted}: {seen}")
    assert seen == left
print("SEEN: a deleted note is still found")
PY
