#!/usr/bin/env python3
"""Compares what `mnemon ingest` stores of generated files with what was said in them.

    tests/formats/check.py MNEMON [COUNT] [SEED] [KIND ...]

Of each kind, the files of COUNT conversations are made and ingested as a folder, as a folder in another order, as a zip archive, and after an
ingest of the same files cut at a random byte; each of these twice. Each time the same messages must be stored: their number, order, roles,
speakers, sessions, times and texts. Of the cut files alone, nothing may be stored that was not said, or as said by another.
"""

import json
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from datetime import datetime
from pathlib import Path

import files
from talk import ANY

MNEMON = sys.argv[1]
COUNT = int(sys.argv[2]) if len(sys.argv) > 2 else 1000
SEED = sys.argv[3] if len(sys.argv) > 3 else "1"
KINDS = sys.argv[4:] or files.KINDS
MARK = re.compile(r"[0-9a-f]{8}-\d+\.\d+")
SHOWN = 5


def run(*args):
    done = subprocess.run([MNEMON, "--format", "json", *map(str, args)], capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


def ingest(db, *paths):
    cache = db.with_name("cache")
    code, out, err = run("ingest", "--db", db, "--embedding-cache", cache, "--no-link", "--namespace", "a", "--skip-bad", *paths)
    assert out, err
    return json.loads(out)


def moment(time):
    if time is None or time is ANY:
        return time
    return round(datetime.fromisoformat(str(time).replace("Z", "+00:00")).timestamp(), 2)


def stored(db):
    """Returns the messages in the order of their sessions."""
    if not db.exists():
        return []
    code, out, err = run("export", "--db", db, "--namespace", "a")
    assert code == 0, err
    messages = []
    for message in map(json.loads, out.splitlines()):
        if message.get("role") is None:
            continue
        content = message["content"]
        if isinstance(content, list):
            content = "\n".join(part["text"] for part in content if part["type"] == "text")
        if not content.strip():
            # A file or a call alone.
            continue
        messages.append({"session": message["session"], "role": message["role"], "text": content, "name": message.get("name"), "time": moment(message.get("created_at"))})
    return messages


def mark(text):
    """Returns the mark of a text or of its first piece, or else the text."""
    text = text if isinstance(text, str) else text[0]
    found = MARK.search(text)
    return found[0] if found else text


def owners(messages):
    """Returns the messages of each conversation. Those without a mark are of the conversation of which their session has others."""
    of_session = {}
    for message in messages:
        for found in MARK.findall(message["text"]):
            of_session.setdefault(message["session"], Counter())[int(found.split(".")[0].split("-")[1])] += 1
    found = {}
    for message in messages:
        marks = MARK.search(message["text"])
        if marks:
            number = int(marks[0].split(".")[0].split("-")[1])
        else:
            number = next((number for number, _ in of_session.get(message["session"], Counter()).most_common(1)), None)
            named = re.search(r"[0-9a-f]{8}-(\d+)$", message["session"])
            number = int(named[1]) if number is None and named else number
        found.setdefault(number, []).append(message)
    return found


def without(text, unsaid):
    for one in unsaid:
        if one["text"] and ": " in one["text"]:
            text = text.replace(one["text"], "")
    return text


def is_said(expected, found):
    """Returns what is wrong with a message, or nothing."""
    pieces = [expected["text"]] if isinstance(expected["text"], str) else expected["text"]
    rest = found["text"]
    for piece in pieces:
        before, here, rest = rest.partition(piece)
        if not here or len(before) > 90:
            return "text"
    if isinstance(expected["text"], str) and expected["text"] != found["text"] or len(rest) > 90:
        return "text"
    for field in ("role", "name"):
        right = expected[field]
        if right is not ANY and found[field] != right and not (isinstance(right, set) and found[field] in right):
            return field
    right = moment(expected["time"])
    if right is not ANY and right != found["time"] and (right is None or found["time"] is None or abs(right - found["time"]) > 0.02):
        return "time"
    return None


def compare(kind, talks, messages, is_after_cut):
    """Returns how many messages were lost, doubled or not said, and wrong (in text, role, speaker, time, session or order)."""
    found, count, versions, users = owners(messages), Counter(), Counter(), {}

    def report(what, number, *about):
        count[what.split()[0]] += 1
        versions[talks[number].version if number is not None else None] += 1
        if count[what.split()[0]] <= SHOWN:
            print(f"    {kind} {what}: {number} {talks[number].version if number is not None else ''}", *(str(value)[:400] for value in about))

    for number, talk in enumerate(talks):
        may = {mark(one["text"]) for one in talk.unsaid if one["text"]}
        times = {moment(one["time"]) for one in talk.unsaid if one["time"]}
        known = {mark(one["text"]) for one in talk.said}
        here = []
        for message in found.pop(number, []):
            marks = set(MARK.findall(message["text"])) or {message["text"]}
            if marks & known or not (marks <= may or message["time"] in times):
                here.append(message)
        left = here.copy()
        groups = {}
        for expected in talk.said:
            place = next((place for place, message in enumerate(left) if mark(message["text"]) == mark(expected["text"])), None)
            if place is None:
                report("lost", number, expected)
                continue
            message = left.pop(place)
            wrong = is_said(expected, {**message, "text": without(message["text"], talk.unsaid)})
            if wrong:
                report(f"wrong {wrong}", number, expected, message)
            groups.setdefault(expected["session"], []).append(message)
        for message in left:
            report("extra", number, message)
        for session, group in groups.items():
            names = {message["session"] for message in group}
            if len(names) > 1 or session[0] != "?" and names != {session}:
                report("wrong session", number, session, names)
            has_order = talk.keeps_order or not is_after_cut
            if has_order and [id(message) for message in group] != [id(one) for one in here if any(one is message for message in group)]:
                report("wrong order", number, session, [mark(message["text"]) for message in group])
        for session, group in groups.items():
            name = group[0]["session"]
            if session[0] == "?" and users.setdefault(name, (number, session)) != (number, session):
                report("wrong sessions in one", number, session, name, users[name])
    for number, rest in found.items():
        for message in rest:
            report("extra", number, message)
    if versions:
        print("    by version:", dict(versions), "of", dict(Counter(talk.version for talk in talks)))
    return count["lost"], count["extra"], count["wrong"]


def compare_cut(kind, talks, messages):
    """Returns how many messages of cut files say what nobody said, or are of another."""
    said = {mark(one["text"]): one for talk in talks for one in talk.said}
    wrong = 0
    for message in messages:
        # Of a mark that was cut itself, nobody knows whose it is.
        one = said.get(mark(message["text"])) if re.search(MARK.pattern + ":", message["text"]) else None
        if one:
            text = one["text"] if isinstance(one["text"], str) else None
            role = one["role"] is not ANY and one["role"] != message["role"]
            name = one["name"] is not ANY and one["name"] != message["name"] and not (isinstance(one["name"], set) and message["name"] in one["name"])
            if role or name or text and not text.startswith(message["text"].rstrip()):
                wrong += 1
                if wrong <= SHOWN:
                    print(f"    {kind} wrong of a cut file:", str(one)[:400], str(message)[:400])
    return wrong


def other_orders(made, talks, root, rng):
    """Copies a folder so that its files are read in another order, and once more with each file cut."""
    shuffled, cut = root / "shuffled", root / "cut"
    tops = list(made.iterdir())
    for number, path in enumerate(rng.sample(tops, len(tops))):
        target = shuffled / f"{number:05}" / path.name
        target.parent.mkdir(parents=True)
        shutil.copytree(path, target) if path.is_dir() else shutil.copy(path, target)
    for path in made.rglob("*"):
        number = int(path.relative_to(made).parts[0][:5])
        if path.is_file() and talks[number].may_be_cut:
            target = cut / path.relative_to(made)
            target.parent.mkdir(parents=True, exist_ok=True)
            content = path.read_bytes()
            target.write_bytes(content[: rng.randrange(1, max(2, len(content)))])
    return shuffled, cut


def main():
    failed = False
    for kind in KINDS:
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            made, archive = root / "made", root / "made.zip"
            talks = files.make(made, kind, SEED, COUNT)
            files.archive(made, archive)
            shuffled, cut = other_orders(made, talks, root, random.Random(SEED))
            size = sum(path.stat().st_size for path in made.rglob("*") if path.is_file())
            messages = sum(len(talk.said) for talk in talks)
            print(f"{kind}: {COUNT} conversations, {size / 1e6:.1f} MB, {messages} messages")
            for way, sources in [("folder", [made]), ("shuffled", [shuffled]), ("zip", [archive]), ("after a cut", [cut, made])]:
                db, bad = root / "db.redb", 0
                started = time.monotonic()
                for source in sources:
                    ingest(db, source)
                    if source is cut:
                        bad = compare_cut(kind, talks, stored(db))
                seconds = time.monotonic() - started
                again = ingest(db, sources[-1])
                lost, extra, wrong = compare(kind, talks, stored(db), way == "after a cut")
                again = again["new"] + again["removed"]
                failed |= bool(lost or extra or wrong or bad or again)
                print(f"  {way}: lost {lost}, doubled or not said {extra}, wrong {wrong + bad}, changed at a second time {again}; {seconds:.1f} s", flush=True)
                db.unlink(missing_ok=True)
    sys.exit(failed)


main()
