"""Measures, on one PostgreSQL server: mnemon with a shared database, LangGraph's PostgresStore with pgvector, and LlamaIndex's Memory with
a PGVectorStore. The sample's messages are put one by one, then its questions are asked: the time of a put and of a search, and R@10.

All have the same vectors. The peers look theirs up, which costs nothing; mnemon's searches include its model, and its puts do not, which
embeds afterwards: `embed all` is the time of that. LlamaIndex's short-term buffer is as small as can be, so that its messages are in its
vector store, some in one node. Each side is told the namespace. The server has its defaults (fsync on), and listens on loopback.
"""

import argparse, asyncio, contextlib, json, os, pathlib, re, socket, statistics, subprocess, tempfile, time
from importlib.metadata import version

from langgraph.store.postgres import PostgresStore
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.memory import Memory, VectorMemoryBlock
from llama_index.core.storage.chat_store.sql import SQLAlchemyChatStore
from llama_index.core.vector_stores.types import ExactMatchFilter, MetadataFilters, VectorStoreQuery
from llama_index.vector_stores.postgres import PGVectorStore
from postgres_server import postgres

SAMPLE = pathlib.Path(__file__).parents[2] / "datasets/sample"


def lines(name):
    return [json.loads(line) for line in (SAMPLE / name).read_text(encoding="utf-8").splitlines()]


def messages_of(text):
    """The messages of a node of LlamaIndex's block, which puts each between tags."""
    return re.findall(r"<message role='[a-z]+'>(.*?)</message>", text, re.DOTALL)


class Known(BaseEmbedding):
    """Vectors that are known; of several messages, their mean."""

    vectors: dict

    def _get_text_embedding(self, text):
        return [statistics.fmean(parts) for parts in zip(*(self.vectors[message] for message in messages_of(text)), strict=True)]

    def _get_query_embedding(self, text):
        return self.vectors[text]

    async def _aget_query_embedding(self, text):
        return self.vectors[text]


def share(found, relevant):
    """The share of the relevant messages that were found."""
    return len(set(relevant) & set(found)) / len(relevant)


def figures(puts, searches, shares):
    return {"put_p50_ms": statistics.median(puts) * 1e3, "search_p50_ms": statistics.median(searches) * 1e3,
            "recall_at_10": statistics.mean(shares)}


def langgraph(address, vectors, messages, questions):
    index = {"dims": len(next(iter(vectors.values()))), "embed": lambda texts: [vectors[text] for text in texts], "fields": ["text"]}
    puts, searches, shares = [], [], []
    with PostgresStore.from_conn_string(address, index=index) as store:
        store.setup()
        for line in messages:
            started = time.perf_counter()
            store.put(tuple(line["namespace"].split("/")), line["id"], {"text": line["content"]})
            puts.append(time.perf_counter() - started)
        for line in questions:
            started = time.perf_counter()
            found = store.search(tuple(line["namespace"].split("/")), query=line["query"], limit=10)
            searches.append(time.perf_counter() - started)
            if line["relevant"]:
                shares.append(share([item.key for item in found], line["relevant"]))
    return figures(puts, searches, shares)


async def llama_index(address, vectors, messages, questions):
    sync = address.replace("postgresql://", "postgresql+psycopg2://")
    both = address.replace("postgresql://", "postgresql+asyncpg://")
    dimension = len(next(iter(vectors.values())))
    store = PGVectorStore.from_params(connection_string=sync, async_connection_string=both, table_name="nodes", embed_dim=dimension,
                                      hnsw_kwargs={"hnsw_m": 16, "hnsw_ef_construction": 64, "hnsw_ef_search": 40,
                                                   "hnsw_dist_method": "vector_cosine_ops"})
    chats, model = SQLAlchemyChatStore("chats", both), Known(vectors=vectors)

    def memory(namespace):
        block = VectorMemoryBlock(vector_store=store, embed_model=model, similarity_top_k=10, retrieval_context_window=1)
        return Memory.from_defaults(namespace, memory_blocks=[block], chat_store=chats, token_limit=30_000, token_flush_size=1,
                                    chat_history_token_ratio=0.00001)

    memories = {namespace: memory(namespace) for namespace in {line["namespace"] for line in messages}}
    puts, searches, shares = [], [], []
    for line in messages:
        started = time.perf_counter()
        await memories[line["namespace"]].aput(ChatMessage(role=line["role"], content=line["content"]))
        puts.append(time.perf_counter() - started)
    ids = {line["content"]: line["id"] for line in messages}
    for line in questions:
        only = MetadataFilters(filters=[ExactMatchFilter(key="session_id", value=line["namespace"])])
        started = time.perf_counter()
        vector = await model.aget_query_embedding(line["query"])
        found = await store.aquery(VectorStoreQuery(query_embedding=vector, similarity_top_k=10, filters=only))
        searches.append(time.perf_counter() - started)
        if line["relevant"]:
            # The first ten messages: a node may hold several.
            found = [ids[message] for node in found.nodes for message in messages_of(node.get_content())]
            shares.append(share(found[:10], line["relevant"]))
    with contextlib.suppress(Exception):
        await store.close()
    return figures(puts, searches, shares)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--short", action="store_true", help="put and ask little")
    parser.add_argument("command", nargs="+", help="the bench `shared` with the argument `sample`")
    options = parser.parse_args()
    messages, questions = lines("messages.jsonl"), lines("queries.jsonl")
    if options.short:
        messages, questions = messages[:40], questions[:5]
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name) / "postgres"
        folder.mkdir()
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        with postgres(folder, port):
            address = f"postgresql://bench@127.0.0.1:{port}/postgres"
            report = pathlib.Path(name) / "report.json"
            given = {"MNEMON_BENCH_ADDRESS": address, "MNEMON_BENCH_REPORT": str(report)}
            subprocess.run(options.command, env={**os.environ, **given}, check=True)
            ours = json.loads(report.read_text(encoding="utf-8"))
            vectors = ours.pop("vectors")
            rows = {"mnemon, shared": ours, "LangGraph PostgresStore": langgraph(address, vectors, messages, questions),
                    "LlamaIndex Memory, PGVectorStore": asyncio.run(llama_index(address, vectors, messages, questions))}
    packages = ["langgraph-checkpoint-postgres", "llama-index-core", "llama-index-vector-stores-postgres"]
    print(f"{len(messages)} messages, {len(questions)} questions; " + ", ".join(f"{name} {version(name)}" for name in packages))
    print(f"{'':34}{'put p50, ms':>14}{'search p50, ms':>16}{'R@10':>8}")
    for name, row in rows.items():
        print(f"{name:34}{row['put_p50_ms']:14.2f}{row['search_p50_ms']:16.2f}{row['recall_at_10']:8.3f}")
    print(f"mnemon, embed all: {ours['flush_ms']:.0f} ms, {ours['flush_ms'] / len(lines('messages.jsonl')):.2f} ms a message")


if __name__ == "__main__":
    main()
