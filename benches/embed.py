"""Measures Python programs that run the same ONNX models on the same texts, for `mnemon bench embed --peers`.

    python3 benches/embed.py --messages M.jsonl --queries Q.jsonl --out peers.json models/all-MiniLM-L6-v2

Runs each model folder with onnxruntime and tokenizers in two ways: texts in the given order, 32 per run and padded to the longest,
as is usual; and sorted by length first. With --sentence-transformers also its ONNX backend, which sorts by length itself. Vectors
are mean-pooled, if the model requires it, and of unit length. Needs onnxruntime, tokenizers and numpy.
"""

import argparse
import json
import os
import statistics
import time
import tomllib
from pathlib import Path

import numpy as np

BATCH = 32
ROUNDS = 3
QUESTIONS = 300


def searchable(line):
    """Returns the text that mnemon embeds: the speaker's name and the message."""
    text = line["content"]
    return f"{line['name']}: {text}" if line.get("name") else text


def lines(path, limit=None):
    return [json.loads(line) for line in open(path)][:limit]


class Onnx:
    """A model on onnxruntime and tokenizers, with the code that most programs write around them."""

    def __init__(self, folder, threads):
        import onnxruntime as ort
        from tokenizers import Tokenizer

        manifest = tomllib.loads((folder / "manifest.toml").read_text())
        options = ort.SessionOptions()
        options.intra_op_num_threads = threads
        self.session = ort.InferenceSession(str(folder / "model.onnx"), options, providers=["CPUExecutionProvider"])
        self.names = {i.name for i in self.session.get_inputs()}
        self.pooled = manifest["pooling"] == "none"
        self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.tokenizer.enable_truncation(manifest["max_tokens"])
        self.tokenizer.enable_padding()

    def embed(self, texts):
        rows = []
        for i in range(0, len(texts), BATCH):
            encoded = self.tokenizer.encode_batch(texts[i : i + BATCH])
            ids = np.array([e.ids for e in encoded], np.int64)
            mask = np.array([e.attention_mask for e in encoded], np.int64)
            feed = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
            states = self.session.run(None, {k: v for k, v in feed.items() if k in self.names})[0]
            if not self.pooled:
                m = mask[..., None].astype(np.float32)
                states = (states * m).sum(1) / np.maximum(m.sum(1), 1)
                states /= np.maximum(np.linalg.norm(states, axis=1, keepdims=True), 1e-12)
            rows.append(states)
        return np.concatenate(rows)

    def embed_sorted(self, texts):
        order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
        rows = self.embed([texts[i] for i in order])
        out = np.empty_like(rows)
        out[order] = rows
        return out


def measure(by, model, embed, texts, questions):
    embed(texts[:64])
    rates = []
    for _ in range(ROUNDS):
        started = time.perf_counter()
        embed(texts)
        rates.append(len(texts) / (time.perf_counter() - started))
    times = []
    for i in range(QUESTIONS):
        started = time.perf_counter()
        embed([questions[i % len(questions)]])
        times.append((time.perf_counter() - started) * 1e6)
    times.sort()
    row = {"by": by, "model": model, "texts_per_second": statistics.median(rates),
           "texts_per_second_range": [min(rates), max(rates)],
           "query_p50_us": times[len(times) // 2], "query_p99_us": times[int(len(times) * 0.99)]}
    print(json.dumps(row), flush=True)
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", type=Path, metavar="DIR")
    parser.add_argument("--messages", default="datasets/sample/messages.jsonl")
    parser.add_argument("--queries", default="datasets/sample/queries.jsonl")
    parser.add_argument("--limit", type=int, default=1500)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--sentence-transformers", metavar="DIR",
                        help="a folder in the layout of sentence-transformers with onnx/model.onnx; needs the package with its ONNX backend")
    parser.add_argument("--out", required=True)
    args = parser.parse_args()

    texts = [text for text in map(searchable, lines(args.messages)) if text.strip()][: args.limit]
    questions = [line["query"] for line in lines(args.queries)]
    rows = []
    for folder in args.models:
        model = Onnx(folder, args.threads)
        rows.append(measure("python onnxruntime, 32 per run", folder.name, model.embed, texts, questions))
        rows.append(measure("python onnxruntime, sorted", folder.name, model.embed_sorted, texts, questions))
    if args.sentence_transformers:
        from sentence_transformers import SentenceTransformer

        model = SentenceTransformer(args.sentence_transformers, backend="onnx")
        rows.append(measure("sentence-transformers, ONNX", Path(args.sentence_transformers).name, model.encode, texts, questions))
    Path(args.out).write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
