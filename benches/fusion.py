"""Fits the weights of hybrid recall, and says what leaving data out does to them.

    mnemon ingest --db a.redb messages.jsonl
    mnemon recall --db a.redb --queries queries.jsonl -k 200 --keep-duplicates --format json > hits.jsonl
    python3 benches/fusion.py locomo=hits.jsonl,queries.jsonl long=...

Takes the evidence that each hit says (`parts`): dense, lexical, neighbor and length, each with the weight that
`src/recall/fuse.rs` gives it already. Fits a factor for each by listwise logistic regression (a softmax over the hits of
a question; every set counts alike), ranks the hits again by it, and prints recall@10 of

- the factors as they are (all 1), fitted on everything, fitted on all other sets, and
- for the first set fitted without one namespace and judged on it, for each in turn: cross-validation.

Needs numpy. Evidence beyond the first 200 hits is not seen, by either.
"""

import json
import sys
from collections import defaultdict

import numpy as np

PARTS = ("dense", "lexical", "neighbor", "length")


def read(hits, queries):
    """[(namespace, features of each hit, whether it is relevant, number of relevant messages)], without adversarial ones."""
    labels = {line["id"]: line for line in map(json.loads, open(queries))}
    questions = []
    for line in map(json.loads, open(hits)):
        label = labels[line["query_id"]]
        if label.get("category") == "adversarial" or not label["relevant"]:
            continue
        features = np.array([[hit["parts"][part] for part in PARTS] for hit in line["hits"]])
        relevant = np.array([hit["id"] in label["relevant"] for hit in line["hits"]])
        questions.append((line["namespace"], features, relevant, len(label["relevant"])))
    return questions


def fit(sets, steps=400, rate=0.05):
    """A factor for each part: Adam on the mean log-likelihood of the relevant hits, sets weighed alike."""
    factors, first, second = np.ones(len(PARTS)), np.zeros(len(PARTS)), np.zeros(len(PARTS))
    sets = [[(x, y) for _, x, y, _ in questions if y.any()] for questions in sets]
    for step in range(1, steps + 1):
        gradient = np.zeros(len(PARTS))
        for questions in sets:
            for x, y in questions:
                scores = x @ factors
                p = np.exp(scores - scores.max())
                gradient += (x[y].mean(0) - (p / p.sum()) @ x) / len(questions)
        first = 0.9 * first + 0.1 * gradient
        second = 0.99 * second + 0.01 * gradient**2
        factors += rate * (first / (1 - 0.9**step)) / (np.sqrt(second / (1 - 0.99**step)) + 1e-8)
    return factors


def recall_at_10(questions, factors):
    found = [y[np.argsort(-(x @ factors), kind="stable")[:10]].sum() / n for _, x, y, n in questions]
    return float(np.mean(found))


def main():
    sets = {}
    for argument in sys.argv[1:]:
        name, files = argument.split("=", 1)
        sets[name] = read(*files.split(","))
    everything = fit(sets.values())
    print("factors fitted on everything:", dict(zip(PARTS, everything.round(2).tolist())))
    print(f"{'set':<16}{'questions':>10}{'as is':>8}{'fitted':>8}{'without it':>12}")
    for name, questions in sets.items():
        others = [other for key, other in sets.items() if key.split("/")[0] != name.split("/")[0]]
        row = [recall_at_10(questions, np.ones(len(PARTS))), recall_at_10(questions, everything)]
        row.append(recall_at_10(questions, fit(others)) if others else float("nan"))
        print(f"{name:<16}{len(questions):>10}{row[0]:>8.3f}{row[1]:>8.3f}{row[2]:>12.3f}")
    name, questions = next(iter(sets.items()))
    folds = defaultdict(list)
    for question in questions:
        folds[question[0]].append(question)
    held_out = as_is = 0
    for namespace, fold in folds.items():
        rest = [[question for question in questions if question[0] != namespace]]
        others = [other for key, other in sets.items() if key.split("/")[0] != name.split("/")[0]]
        factors = fit(rest + others)
        ours, theirs = recall_at_10(fold, np.ones(len(PARTS))), recall_at_10(fold, factors)
        as_is += ours * len(fold)
        held_out += theirs * len(fold)
        print(f"  without {namespace:<14} {len(fold):>5} questions: as is {ours:.3f}, fitted on the rest {theirs:.3f}  {factors.round(2)}")
    count = len(questions)
    print(f"{name}, cross-validated over {len(folds)} namespaces: {held_out / count:.3f}; as is {as_is / count:.3f}")


main()
