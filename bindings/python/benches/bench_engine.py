"""The engine from Python beside the same calls from Rust: ingest of dicts, recalls, and recalls from threads. Prints JSON.

The figures from Rust are those of the command `mnemon bench`, run on the same messages before and after. A rate's ratio above
1, and a latency's below 1, is in favour of Python.
"""

import argparse
import json
import statistics
import subprocess
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from mnemon import Config, Engine

BATCH = 512
THREADS = 8


def rust(binary: str, bench: str, *options: str) -> dict[str, Any]:
    output = subprocess.run([binary, "bench", bench, *options], check=True, capture_output=True, text=True).stdout
    figures: dict[str, Any] = json.loads(output)
    return figures


def ingest_seconds(messages: list[dict[str, Any]]) -> float:
    """The time until all messages are stored, embedded and indexed, with the settings of `mnemon bench flush`."""
    with tempfile.TemporaryDirectory() as folder:
        with Engine(Path(folder, "put.redb"), config=Config(embedding_cache=0)) as engine:
            started = time.perf_counter()
            for first in range(0, len(messages), BATCH):
                engine.put("bench", messages[first : first + BATCH])
            engine.flush()
            return time.perf_counter() - started


def recalls(lines: list[dict[str, Any]], rounds: int) -> dict[str, float]:
    with Engine() as engine:
        engine.put_all([(line["namespace"], {key: line[key] for key in line if key != "namespace"}) for line in lines])
        engine.flush()
        queries = [(line["namespace"], line["content"]) for line in lines]
        times = []
        for _ in range(rounds):
            for namespace, text in queries:
                started = time.perf_counter()
                engine.recall(namespace, text)
                times.append(time.perf_counter() - started)

        def rate(threads: int) -> float:
            def work(first: int) -> None:
                for namespace, text in queries[first::threads]:
                    engine.recall(namespace, text)

            workers = [threading.Thread(target=work, args=(first,)) for first in range(threads)]
            started = time.perf_counter()
            for worker in workers:
                worker.start()
            for worker in workers:
                worker.join()
            return len(queries) / (time.perf_counter() - started)

        rates = [(rate(1), rate(THREADS)) for _ in range(rounds)]
    return {
        "recall_p50_us": 1e6 * statistics.median(times),
        "recalls_per_s_1_thread": statistics.median(one for one, _ in rates),
        f"recalls_per_s_{THREADS}_threads": statistics.median(many for _, many in rates),
        "threads_to_one": statistics.median(many / one for one, many in rates),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("binary", help="the command `mnemon`")
    parser.add_argument("messages", type=Path, help="messages, as for `mnemon ingest`")
    parser.add_argument("--ingest", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()

    lines = [json.loads(line) for line in options.messages.read_text().splitlines()]
    many = [
        {"id": f"m{i}", "session": "s", "role": lines[i % len(lines)]["role"], "content": lines[i % len(lines)]["content"]}
        for i in range(options.ingest)
    ]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "messages.jsonl")
        path.write_text("".join(json.dumps(line | {"namespace": "bench"}) + "\n" for line in many))
        ingests = []
        for _ in range(min(3, options.rounds)):
            ours = rust(options.binary, "flush", "--messages", str(path), "--batch", str(BATCH))["seconds"]
            ingests.append((ours, ingest_seconds(many)))
    before = rust(options.binary, "recall", "--messages", str(options.messages))["p50_us"]
    figures = recalls(lines, options.rounds)
    after = rust(options.binary, "recall", "--messages", str(options.messages))["p50_us"]
    in_rust = (before + after) / 2
    print(json.dumps({
        "bench": "python",
        "messages": options.ingest,
        "ingest_per_s": options.ingest / statistics.median(python for _, python in ingests),
        "ingest_per_s_rust": options.ingest / statistics.median(rust for rust, _ in ingests),
        "ingest_to_rust": statistics.median(rust / python for rust, python in ingests),
        **figures,
        "recall_p50_us_rust": in_rust,
        "recall_to_rust": figures["recall_p50_us"] / in_rust,
        "targets": {"ingest_to_rust": 0.6, "recall_to_rust": 1.3, "threads_to_one": 1.8},
    }, indent=1))


if __name__ == "__main__":
    main()
