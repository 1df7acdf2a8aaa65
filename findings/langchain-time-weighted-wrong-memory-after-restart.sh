#!/usr/bin/env bash
# Expected: a TimeWeightedVectorStoreRetriever over a vector store that was saved finds its memories again, or says that it cannot.
# Happens: the store keeps for each memory only its number in a list of the old retriever. The new one has an empty list: a search is an IndexError, and as
# soon as new memories are added, the numbers stand for those. A search for the bicycle finds the right vector and returns the new memory about soup.
# Package: langchain-classic 1.0.8, langchain-community 0.4.2 (PyPI). Seen 2026-11-29.
set -euo pipefail
T=$(mktemp -d)
trap 'rm -rf "$T"' EXIT
"${PYTHON:-python3}" -m venv "$T/venv"
timeout 400 "$T/venv/bin/pip" install --quiet --disable-pip-version-check langchain-classic==1.0.8 langchain-community==0.4.2 faiss-cpu==1.15.1 numpy
cd "$T"
env -i HOME="$T" PATH="$PATH" timeout 120 "$T/venv/bin/python" -W ignore <<'PY'
from importlib.metadata import version
import faiss
from langchain_classic.retrievers import TimeWeightedVectorStoreRetriever
from langchain_community.docstore import InMemoryDocstore
from langchain_community.vectorstores import FAISS
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings

print("langchain-classic", version("langchain-classic"), "| langchain-community", version("langchain-community"))
WORDS = "bicycle", "piano", "soup", "garden"


class Words(Embeddings):
    """One dimension for each word."""

    def embed_query(self, text):
        return [float(word in text) for word in WORDS]

    def embed_documents(self, texts):
        return [self.embed_query(text) for text in texts]


def retriever(store):
    return TimeWeightedVectorStoreRetriever(vectorstore=store, k=1, decay_rate=1e-9, search_kwargs={"k": 1})


def ask(memory):
    try:
        return [document.page_content for document in memory.invoke("bicycle")]
    except IndexError as error:
        return repr(error)


store = FAISS(Words(), faiss.IndexFlatL2(len(WORDS)), InMemoryDocstore({}), {}, relevance_score_fn=lambda distance: 1 - distance / 2)
memory = retriever(store)
memory.add_documents([Document(page_content="Ada has a bicycle"), Document(page_content="Ada plays the piano")])
before = ask(memory)
store.save_local("memories")
loaded = FAISS.load_local("memories", Words(), allow_dangerous_deserialization=True, relevance_score_fn=lambda distance: 1 - distance / 2)
stored = [document.page_content for document in loaded.similarity_search("bicycle", k=1)]
memory = retriever(loaded)
restarted = ask(memory)
memory.add_documents([Document(page_content="Bo cooks soup"), Document(page_content="Bo has a garden")])
after = ask(memory)
print("before:", before, "| in the saved store:", stored, "| after the restart:", restarted, "| with new memories:", after)
assert before == stored == ["Ada has a bicycle"] and restarted.startswith("IndexError") and after == ["Bo cooks soup"]
print("SEEN: after a restart another memory is the answer")
PY
