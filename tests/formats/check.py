"""Compares what `mnemon ingest` stores of generated files with what was said in them.

    python3 tests/formats/check.py MNEMON [COUNT] [SEED]

Of each kind, COUNT files are made and ingested as a folder, as a folder in another order, as a zip archive, twice, and after an ingest of the
same files cut at a random byte. Each time the same messages must be stored: their number, order, roles, sessions, times and texts.
"""

import json
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from datetime import datetime
from pathlib import Path

import files

MNEMON = sys.argv[1]
COUNT = int(sys.argv[2]) if len(sys.argv) > 2 else 1000
SEED = sys.argv[3] if len(sys.argv) > 3 else "1"


def run(*args):
    done = subprocess.run([MNEMON, "--format", "json", *map(str, args)], capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


def ingest(db, *paths):
    code, out, err = run("ingest", "--db", db, "--namespace", "a", "--skip-bad", *paths)
    assert out, err
    return json.loads(out)


def moment(text):
    return text and datetime.fromisoformat(str(text).replace("Z", "+00:00")).timestamp()


def stored(db):
    """Returns the messages of each session, in their order."""
    code, out, err = run("export", "--db", db, "--namespace", "a")
    assert code == 0, err
    sessions = {}
    for line in out.splitlines():
        message = json.loads(line)
        if message.get("role") is None:
            continue
        content = message["content"]
        if isinstance(content, list):
            content = "\n".join(part["text"] for part in content if part["type"] == "text")
        sessions.setdefault(message["session"], []).append((message["role"], content, moment(message.get("created_at"))))
    return sessions


def compare(kind, talks, sessions):
    """Returns how many messages were lost, doubled or stored of nobody, and how many are wrong in order, role or time."""
    lost = extra = wrong = 0
    named, unnamed = dict(sessions), Counter()
    for said in talks:
        expected = [(message["role"], message["text"], moment(message["time"])) for message in said]
        if expected and said[0]["session"] == "?":
            unnamed[tuple(expected)] += 1
            continue
        found = named.pop(said[0]["session"], []) if said else []
        before, after = Counter(text for _, text, _ in expected), Counter(text for _, text, _ in found)
        lost, extra = lost + (before - after).total(), extra + (after - before).total()
        close = len(expected) == len(found) and all(
            a[:2] == b[:2] and (a[2] == b[2] or a[2] is not None and b[2] is not None and abs(a[2] - b[2]) < 1e-3)
            for a, b in zip(expected, found)
        )
        if not close and before == after:
            wrong += 1
    for found in named.values():
        unnamed[tuple(found)] -= 1
    lost += sum(count * len(said) for said, count in unnamed.items() if count > 0)
    extra += sum(-count * len(said) for said, count in unnamed.items() if count < 0)
    return lost, extra, wrong


def main():
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for kind in files.KINDS:
            made = root / kind
            talks = files.make(made, kind, SEED, COUNT)
            size = sum(path.stat().st_size for path in made.iterdir())
            messages = sum(map(len, talks))
            files.archive(made, root / f"{kind}.zip")
            rng = random.Random(SEED)
            paths = list(made.iterdir())
            shuffled, cut = root / f"{kind}-shuffled", root / f"{kind}-cut"
            shuffled.mkdir()
            cut.mkdir()
            for number, path in enumerate(rng.sample(paths, len(paths))):
                (shuffled / f"{number:05}{path.suffix}").write_bytes(path.read_bytes())
                content = path.read_bytes()
                (cut / path.name).write_bytes(content[: rng.randrange(1, len(content))])
            for way, sources in [("folder", [made]), ("shuffled", [shuffled]), ("zip", [root / f"{kind}.zip"]), ("after a cut", [cut, made])]:
                db = root / "db.redb"
                for source in sources:
                    started = time.monotonic()
                    ingest(db, source)
                    seconds = time.monotonic() - started
                again = ingest(db, sources[-1])
                lost, extra, wrong = compare(kind, talks, stored(db))
                failed |= bool(lost or extra or wrong or again["new"] or again["removed"])
                print(
                    f"{kind}, {way}: {COUNT} files, {size / 1e6:.1f} MB, {messages} messages; lost {lost}, not said or doubled {extra}, "
                    f"conversations in a wrong order {wrong}, new at a second time {again['new']}; {seconds:.1f} s"
                )
                db.unlink()
    sys.exit(failed)


main()
