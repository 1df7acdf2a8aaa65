"""Measures LangGraph's InMemoryStore, SqliteStore and PostgresStore on the documents of `mnemon bench documents`, and
prints them beside its report: a table, or one line of JSON with --json. SQLite runs with its default synchronous
setting, PostgreSQL with its defaults (fsync on), on a socket in a temporary folder. The embedding is a hash that costs
nothing and finds only equal texts, which flatters the peers: mnemon's figures include its model's."""

import argparse, contextlib, hashlib, json, math, random, sys, tempfile, time
from importlib.metadata import version
from pathlib import Path

with contextlib.suppress(ImportError):  # Python may be built without SQLite's extensions, which SqliteStore needs
    import pysqlite3

    sys.modules["sqlite3"] = pysqlite3

from langgraph.store.base import PutOp
from langgraph.store.memory import InMemoryStore
from langgraph.store.postgres import PostgresStore
from langgraph.store.sqlite import SqliteStore
from postgres_server import postgres

NAMESPACES, SINGLE, READS, KINDS, DIMENSION = 100, 1000, 1000, 10, 256  # as in crates/cli/src/bench/documents.rs
SYSTEMS = ["mnemon", "InMemoryStore", "SqliteStore", "PostgresStore"]
FIGURES = {"put_p50_us": "put, p50, us", "put_p99_us": "put, p99, us", "batch_puts_per_second": "puts/s in batches",
           "get_p50_us": "get, p50, us", "search_p50_us": "search by query, p50, us",
           "filter_p50_us": "search by filter, p50, us", "list_p50_us": "list namespaces, p50, us"}


def embed(texts):
    return [[byte / 127.5 - 1 for byte in hashlib.shake_256(text.encode()).digest(DIMENSION)] for text in texts]


class Corpus:
    def __init__(self, texts, documents):
        self.texts, self.documents = texts, documents

    def text(self, number):
        return f"{self.texts[number % len(self.texts)]} n{number}"

    def operation(self, number):
        value = {"text": self.text(number), "kind": f"kind-{number % KINDS}", "number": number}
        return PutOp(self.namespace(number), f"document-{number}", value)

    def namespace(self, number):
        return ("users", str(number * NAMESPACES // self.documents))


def percentile(times, share):
    return round(sorted(times)[math.ceil(len(times) * share) - 1] / 1000, 1)


def timed(times, call, *arguments, **options):
    start = time.perf_counter_ns()
    result = call(*arguments, **options)
    times.append(time.perf_counter_ns() - start)
    return result


def measure(store, corpus, batch, reads):
    puts, batches, gets, searches, filters, lists = ([] for _ in range(6))
    single = min(SINGLE, corpus.documents // 4)
    for number in range(single):
        put = corpus.operation(number)
        timed(puts, store.put, put.namespace, put.key, put.value)
    for first in range(single, corpus.documents, batch):
        operations = [corpus.operation(number) for number in range(first, min(first + batch, corpus.documents))]
        timed(batches, store.batch, operations)
    chosen = random.Random(7)
    for _ in range(reads):
        put = corpus.operation(chosen.randrange(corpus.documents))
        assert timed(gets, store.get, put.namespace, put.key).value == put.value
        found = timed(searches, store.search, put.namespace, query=put.value["text"], limit=10)
        assert any(item.key == put.key for item in found)
        found = timed(filters, store.search, put.namespace, filter={"kind": put.value["kind"]}, limit=10)
        assert found and all(item.value["kind"] == put.value["kind"] for item in found)
        assert len(timed(lists, store.list_namespaces, prefix=("users",), limit=100)) == NAMESPACES
    return {"put_p50_us": percentile(puts, 0.5), "put_p99_us": percentile(puts, 0.99),
            "batch_puts_per_second": round((corpus.documents - single) / sum(batches) * 1e9),
            "get_p50_us": percentile(gets, 0.5), "search_p50_us": percentile(searches, 0.5),
            "filter_p50_us": percentile(filters, 0.5), "list_p50_us": percentile(lists, 0.5)}


def peers(corpus, batch, reads):
    index = {"dims": DIMENSION, "embed": embed, "fields": ["text"], "text_fields": ["text"]}  # SqliteStore reads the last
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        yield "InMemoryStore", measure(InMemoryStore(index=index), corpus, batch, reads)
        with SqliteStore.from_conn_string(str(folder / "store.db"), index=index) as store:
            store.setup()
            yield "SqliteStore", measure(store, corpus, batch, reads)
        (folder / "postgres").mkdir()
        with postgres(folder / "postgres") as address, PostgresStore.from_conn_string(address, index=index) as store:
            store.setup()
            yield "PostgresStore", measure(store, corpus, batch, reads)


def print_table(report):
    print(f"{report['documents']} documents in {NAMESPACES} namespaces; in brackets: how many times as fast mnemon is")
    print("".join(f"{name:>26}" for name in ["", *SYSTEMS]))
    for figure, label in FIGURES.items():
        cells = [f"{report[SYSTEMS[0]][figure]:,.1f}"]
        cells += [f"{report[name][figure]:,.1f} ({report['ratios'][name][figure]:.1f})" for name in SYSTEMS[1:]]
        print("".join(f"{cell:>26}" for cell in [label, *cells]))
    print(f"put of a message by mnemon: {report['mnemon']['message_put_p50_us']:.1f} us")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("messages", metavar="MESSAGES.jsonl", help="the messages that `mnemon bench documents` read")
    parser.add_argument("report", metavar="REPORT.json", help="its report")
    parser.add_argument("--reads", type=int, default=READS, help="gets, searches and listings (default: %(default)s)")
    parser.add_argument("--json", action="store_true", help="print one line of JSON")
    args = parser.parse_args()
    mnemon = json.loads(Path(args.report).read_text(encoding="utf-8"))
    texts = [json.loads(line)["content"] for line in Path(args.messages).read_text(encoding="utf-8").splitlines()]
    packages = ["langgraph-checkpoint", "langgraph-checkpoint-sqlite", "langgraph-checkpoint-postgres"]
    report = {"documents": mnemon["documents"], "peers": {name: version(name) for name in packages}, "mnemon": mnemon}
    report.update(peers(Corpus(texts, mnemon["documents"]), mnemon["batch"], args.reads))

    def ratio(figure, peer):
        ours, theirs = mnemon[figure], peer[figure]
        return round(ours / theirs if figure.endswith("_per_second") else theirs / ours, 2)

    report["ratios"] = {name: {figure: ratio(figure, report[name]) for figure in FIGURES} for name in SYSTEMS[1:]}
    print(json.dumps(report)) if args.json else print_table(report)
