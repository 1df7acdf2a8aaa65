#!/usr/bin/env bash
# Expected: pytrec_eval, and ir_measures by it, measure a run in the order of its scores.
# Happens: scores are kept in 32 bits, and equal ones are put in the order of the ids, the greatest first. Of memories that are ranked by time, with the seconds of
# their moments as scores, those within two minutes of each other are equal: a run whose first hit is the right one has a reciprocal rank of 1/4 instead
# of 1, and whether the next is better or worse depends on names. ir_measures reads the same run as a file in the same way.
# Package: pytrec-eval-terrier 0.5.11, ir-measures 0.4.3 (PyPI). Seen 2026-11-29.
set -euo pipefail
T=$(mktemp -d)
trap 'rm -rf "$T"' EXIT
"${PYTHON:-python3}" -m venv "$T/venv"
timeout 400 "$T/venv/bin/pip" install --quiet --disable-pip-version-check pytrec-eval-terrier==0.5.11 ir-measures==0.4.3
cd "$T"
env -i HOME="$T" PATH="$PATH" timeout 120 "$T/venv/bin/python" -W ignore <<'PY'
from importlib.metadata import version
import ir_measures
import pytrec_eval
from ir_measures import RR

print("pytrec-eval-terrier", version("pytrec-eval-terrier"), "| ir-measures", version("ir-measures"))
NOON = 1764417650
IDS = "a", "b", "c", "d"
QRELS = {"q": {"a": 1}}


def rank(scores):
    """The reciprocal rank of a, which is first."""
    run = {"q": dict(zip(IDS, scores))}
    (one,) = pytrec_eval.RelevanceEvaluator(QRELS, {"recip_rank"}).evaluate(run).values()
    assert ir_measures.calc_aggregate([RR], QRELS, run)[RR] == one["recip_rank"]
    return one["recip_rank"]


seconds = rank([NOON + after for after in (30, 20, 10, 0)])
later = rank([30, 20, 10, 0])
close = rank([1 - i * 1e-9 for i in range(4)])
print("a is the newest of four. Scored by the seconds since 1970:", seconds, "| by the seconds since the oldest:", later, "| by similarities of almost 1:", close)
assert seconds == close == 0.25 and later == 1
print("SEEN: the first hit is counted as the last")
PY
