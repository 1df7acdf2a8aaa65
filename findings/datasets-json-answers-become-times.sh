#!/usr/bin/env bash
# Expected: `load_dataset("json")` gives a JSON string as the string that it is.
# Happens: a field whose strings all look like dates or times becomes a field of datetimes. "7 May 2023" stays; "2023-05-07" becomes midnight of that day, so the expected
# answers of a set of questions about dates are no texts any more; "09:00:00+02:00" of a transcript becomes 07:00 without a zone. One more line with
# another text, and all are strings again: the type of a field depends on what else is in the file.
# Package: datasets 5.2.0 (PyPI). Seen 2026-11-29.
set -euo pipefail
T=$(mktemp -d)
trap 'rm -rf "$T"' EXIT
"${PYTHON:-python3}" -m venv "$T/venv"
timeout 400 "$T/venv/bin/pip" install --quiet --disable-pip-version-check datasets==5.2.0
cd "$T"
env -i HOME="$T" PATH="$PATH" timeout 120 "$T/venv/bin/python" -W ignore <<'PY'
import json
from importlib.metadata import version
import datasets

print("datasets", version("datasets"))
datasets.disable_progress_bars()


def load(name, answers):
    with open(name + ".jsonl", "w") as file:
        file.writelines(json.dumps({"answer": answer}) + "\n" for answer in answers)
    return datasets.load_dataset("json", data_files=name + ".jsonl", split="train", cache_dir="cache")["answer"][:]


days = load("days", ["2023-05-07", "2023-05-08"])
mixed = load("mixed", ["2023-05-07", "2023-05-08", "on a Sunday"])
times = load("times", ["2023-05-07T09:00:00+02:00", "2023-05-07T09:00:00-05:00"])
for seen in days, mixed, times:
    print(*map(repr, seen))
assert [str(day) for day in days] == ["2023-05-07 00:00:00", "2023-05-08 00:00:00"]
assert mixed == ["2023-05-07", "2023-05-08", "on a Sunday"]
assert [(time.hour, time.tzinfo) for time in times] == [(7, None), (14, None)]
print("SEEN: texts that are times, without their zones")
PY
