#!/usr/bin/env bash
# Expected: an EnsembleRetriever returns each document that one of its retrievers found; two people who said the same are two documents.
# Happens: documents are told apart by their text alone, also when they have ids. Of "I like tea", which Ada and Bo said, the ensemble returns one, with the
# name of one of them; the other's is gone. It gets the rank points of both, so that it stands before a document that both retrievers found first.
# Package: langchain-classic 1.0.8 (PyPI). Seen 2026-11-29.
set -euo pipefail
T=$(mktemp -d)
trap 'rm -rf "$T"' EXIT
"${PYTHON:-python3}" -m venv "$T/venv"
timeout 400 "$T/venv/bin/pip" install --quiet --disable-pip-version-check langchain-classic==1.0.8
cd "$T"
env -i HOME="$T" PATH="$PATH" timeout 120 "$T/venv/bin/python" -W ignore <<'PY'
from importlib.metadata import version
from langchain_classic.retrievers import EnsembleRetriever
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever

print("langchain-classic", version("langchain-classic"))


class Found(BaseRetriever):
    """A retriever that has found its documents already."""

    documents: list[Document]

    def _get_relevant_documents(self, query, *, run_manager):
        return self.documents


best = Document(id="0", page_content="Cy likes coffee", metadata={"who": "Cy"})
tea = [Document(id=str(i), page_content="I like tea", metadata={"who": who}) for i, who in enumerate(("Ada", "Bo", "Di"), 1)]
found = [best, *tea]
ensemble = EnsembleRetriever(retrievers=[Found(documents=found), Found(documents=found)])
names = [document.metadata["who"] for document in ensemble.invoke("What do people drink?")]
print("both retrievers:", [document.metadata["who"] for document in found], "| the ensemble:", names)
assert names == ["Ada", "Cy"]
print("SEEN: people who said the same are one")
PY
