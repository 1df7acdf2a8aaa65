#!/usr/bin/env bash
# Expected: a `VectorMemoryBlock` that two sessions share finds for each session what that session said.
# Happens: the block writes the filter on the session into its own `query_kwargs` at the first `get`, and leaves it there. From then on every session
# is given the messages of the first one, and none of its own.
# Package: llama-index-core 0.14.25 (PyPI). Seen 2026-11-29.
set -euo pipefail
T=$(mktemp -d)
SERVER=
trap 'kill $SERVER 2> /dev/null || true; rm -rf "$T" || { sleep 3; rm -rf "$T"; }' EXIT
"${PYTHON:-python3}" -m venv "$T/venv"
timeout 300 "$T/venv/bin/pip" install --quiet --disable-pip-version-check llama-index-core==0.14.25
timeout 100 "$T/venv/bin/python" <<'PY'
import asyncio
import importlib.metadata as meta
from llama_index.core.embeddings import MockEmbedding
from llama_index.core.llms import ChatMessage
from llama_index.core.memory import Memory, VectorMemoryBlock
from llama_index.core.vector_stores.types import BasePydanticVectorStore, VectorStoreQueryResult

print("llama-index-core", meta.version("llama-index-core"))


class ListStore(BasePydanticVectorStore):
    """A list that applies the filters as they are given."""

    stores_text: bool = True
    nodes: list = []

    @property
    def client(self):
        return None

    def add(self, nodes, **_):
        self.nodes.extend(nodes)
        return [node.node_id for node in nodes]

    def delete(self, ref_doc_id, **_):
        raise NotImplementedError

    def query(self, query, **_):
        wanted = {one.key: one.value for one in query.filters.filters}
        nodes = [node for node in self.nodes if wanted.items() <= node.metadata.items()][: query.similarity_top_k]
        return VectorStoreQueryResult(nodes=nodes, similarities=[1.0] * len(nodes), ids=[node.node_id for node in nodes])


async def main():
    block = VectorMemoryBlock(vector_store=ListStore(), embed_model=MockEmbedding(embed_dim=4), similarity_top_k=9)
    seen = {}
    for who in "ada", "bob":
        memory = Memory.from_defaults(
            session_id=who, token_limit=60, token_flush_size=10, chat_history_token_ratio=0.5, memory_blocks=[block]
        )
        for i in range(6):
            said = f"{who} told the assistant about trip {i} to the sea"
            await memory.aput_messages([ChatMessage(role="user", content=said), ChatMessage(role="assistant", content="Noted.")])
        recalled = (await memory.aget())[0]
        assert recalled.role == "system"
        seen[who] = [name for name in ("ada", "bob") if f"{name} told" in recalled.content]
        print(f"{who} is given the memories of", seen[who])
    assert seen == {"ada": ["ada"], "bob": ["ada"]}, seen


asyncio.run(main())
print("SEEN: one session is given another's memories")
PY
