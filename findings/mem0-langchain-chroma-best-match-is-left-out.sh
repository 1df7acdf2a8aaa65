#!/usr/bin/env bash
# Expected: mem0 over a LangChain Chroma store returns the memories that match best, the best one first.
# Happens: mem0 takes what `similarity_search_by_vector_with_relevance_scores` gives for a similarity, as its name says; Chroma gives distances there. A memory that
# matches exactly has 0, is below mem0's threshold, and is left out; the ones that match worst come first, with a score of 1.
# Package: mem0ai 2.2.1, langchain-chroma 1.1.0, chromadb 1.5.9 (PyPI). Seen 2026-11-29.
set -euo pipefail
T=$(mktemp -d)
trap 'rm -rf "$T"' EXIT
"${PYTHON:-python3}" -m venv "$T/venv"
timeout 400 "$T/venv/bin/pip" install --quiet --disable-pip-version-check mem0ai==2.2.1 langchain-chroma==1.1.0 langchain-community==0.4.2 chromadb==1.5.9
cd "$T"
env -i HOME="$T" PATH="$PATH" timeout 120 "$T/venv/bin/python" -W ignore <<'PY'
import os
from importlib.metadata import version

os.environ.update(OPENAI_API_KEY="dummy", MEM0_TELEMETRY="False", MEM0_DIR="mem0", ANONYMIZED_TELEMETRY="False")
from langchain_chroma import Chroma
from langchain_core.embeddings import Embeddings
from mem0 import Memory

print(" | ".join(f"{name} {version(name)}" for name in ("mem0ai", "langchain-chroma", "chromadb")))
WORDS = "bicycle", "piano", "soup", "garden"


class Words(Embeddings):
    """One dimension for each word."""

    def embed_query(self, text):
        return [float(word in text) for word in WORDS]

    def embed_documents(self, texts):
        return [self.embed_query(text) for text in texts]


store = Chroma(collection_name="notes", persist_directory="store", embedding_function=Words())
memory = Memory.from_config({
    "vector_store": {"provider": "langchain", "config": {"client": store, "collection_name": "notes"}},
    "history_db_path": "history.db",
})
memory.embedding_model.embed = lambda text, action: Words().embed_query(text)
for text in "Ada has a bicycle", "Ada's bicycle is in the garden", "Ada plays the piano, in the garden":
    memory.add(text, user_id="ada", infer=False)
chroma = [(document.page_content, score) for document, score in store.similarity_search_with_score("bicycle")]
found = [(row["memory"], row["score"]) for row in memory.search("bicycle", filters={"user_id": "ada"})["results"]]
print("Chroma, texts and distances:", chroma)
print("mem0, memories and scores:", found)
assert chroma[0] == ("Ada has a bicycle", 0.0)
assert "Ada has a bicycle" not in dict(found) and dict(found)["Ada plays the piano, in the garden"] == 1
print("SEEN: the best match is the one that is missing")
PY
