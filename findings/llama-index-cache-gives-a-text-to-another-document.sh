#!/usr/bin/env bash
# Expected: an IngestionPipeline stores for each document nodes of its own, also where two people's notes have the same words.
# Happens: the pipeline's cache goes by the text alone. The second person's note gets the very node of the first one's, with its id and its ref_doc_id, so it is not
# stored. When the first note is then changed, that node is deleted: no node has the second person's words any more, and putting the note again
# does not help, since the docstore knows it already.
# Package: llama-index-core 0.14.25 (PyPI). Seen 2026-11-29.
set -euo pipefail
T=$(mktemp -d)
trap 'rm -rf "$T"' EXIT
"${PYTHON:-python3}" -m venv "$T/venv"
timeout 400 "$T/venv/bin/pip" install --quiet --disable-pip-version-check llama-index-core==0.14.25
cd "$T"
env -i HOME="$T" PATH="$PATH" timeout 120 "$T/venv/bin/python" -W ignore <<'PY'
from importlib.metadata import version
from llama_index.core import Document
from llama_index.core.embeddings import MockEmbedding
from llama_index.core.ingestion import DocstoreStrategy, IngestionPipeline
from llama_index.core.node_parser import SentenceSplitter
from llama_index.core.storage.docstore import SimpleDocumentStore
from llama_index.core.vector_stores import SimpleVectorStore

print("llama-index-core", version("llama-index-core"))


def stored(notes, **options):
    """The owner of each node in the vector store, after each note was put in a run of its own."""
    vectors = SimpleVectorStore()
    pipeline = IngestionPipeline(transformations=[SentenceSplitter(), MockEmbedding(embed_dim=4)], docstore=SimpleDocumentStore(),
                                 vector_store=vectors, docstore_strategy=DocstoreStrategy.UPSERTS, **options)
    owners = []
    for owner, text in notes:
        pipeline.run(documents=[Document(text=text, id_=owner)])
        owners.append(sorted(vectors.data.text_id_to_ref_doc_id.values()))
    return owners


notes = [("ada", "See you on Monday"), ("bo", "See you on Monday"), ("ada", "I cannot come"), ("bo", "See you on Monday")]
with_cache, without = stored(notes), stored(notes, disable_cache=True)
print("nodes of, after each note:", with_cache)
print("with disable_cache=True:  ", without)
assert with_cache == [["ada"], ["ada"], ["ada"], ["ada"]]
assert without == [["ada"], ["ada", "bo"], ["ada", "bo"], ["ada", "bo"]]
print("SEEN: a note that is another's, and is deleted with it")
PY
