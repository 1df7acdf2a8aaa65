"""Fits the weights of hybrid recall, and measures how much they depend on the data.

    mnemon ingest --db a.redb messages.jsonl
    mnemon recall --db a.redb --queries queries.jsonl -k 200 --keep-duplicates --format json > hits.jsonl
    python3 benches/fusion.py locomo=hits.jsonl,queries.jsonl long=...

Reads the terms in each hit's `breakdown`: dense, lexical, neighbor and length, which include the weights that `src/recall` gives
them. Fits a factor for each term by listwise logistic regression (a softmax over the hits of a question, with equal weights of the
sets), ranks the hits again with the factors, and prints recall@10

- with all factors 1, with factors fitted on everything, and with factors fitted on all other sets;
- for the first set also cross-validated: fitted without one namespace and evaluated on it, for each namespace.

Needs numpy. Messages beyond the first 200 hits are not considered in any of these.
"""

import json
import sys
from collections import defaultdict

import numpy as np

TERMS = ("dense", "lexical", "neighbor", "length")


def read(hits, queries):
    """Returns (namespace, features of the hits, relevance of the hits, number of relevant messages) of all but adversarial questions."""
    labels = {line["id"]: line for line in map(json.loads, open(queries))}
    questions = []
    for line in map(json.loads, open(hits)):
        label = labels[line["query_id"]]
        if label.get("category") == "adversarial" or not label["relevant"]:
            continue
        features = np.array([[hit["breakdown"][term] for term in TERMS] for hit in line["hits"]])
        relevant = np.array([hit["id"] in label["relevant"] for hit in line["hits"]])
        questions.append((line["namespace"], features, relevant, len(label["relevant"])))
    return questions


def fit(sets, steps=400, rate=0.05):
    """Fits a factor per term with Adam on the mean log-likelihood of the relevant hits, with equal weights of the sets."""
    factors, first, second = np.ones(len(TERMS)), np.zeros(len(TERMS)), np.zeros(len(TERMS))
    sets = [[(x, y) for _, x, y, _ in questions if y.any()] for questions in sets]
    for step in range(1, steps + 1):
        gradient = np.zeros(len(TERMS))
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
    print("factors fitted on everything:", dict(zip(TERMS, everything.round(2).tolist())))
    print(f"{'set':<16}{'questions':>10}{'as is':>8}{'fitted':>8}{'without it':>12}")
    for name, questions in sets.items():
        others = [other for key, other in sets.items() if key.split("/")[0] != name.split("/")[0]]
        row = [recall_at_10(questions, np.ones(len(TERMS))), recall_at_10(questions, everything)]
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
        ours, theirs = recall_at_10(fold, np.ones(len(TERMS))), recall_at_10(fold, factors)
        as_is += ours * len(fold)
        held_out += theirs * len(fold)
        print(f"  without {namespace:<14} {len(fold):>5} questions: as is {ours:.3f}, fitted on the rest {theirs:.3f}  {factors.round(2)}")
    count = len(questions)
    print(f"{name}, cross-validated over {len(folds)} namespaces: {held_out / count:.3f}; as is {as_is / count:.3f}")


main()
