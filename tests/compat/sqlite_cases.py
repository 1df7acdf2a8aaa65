"""sqlite.jsonl: what langgraph's SqliteStore makes of random operations: filters, indexed texts, times to live.

The store's clock is simulated. A model of what documents are meant to do runs beside it: where the store's outcome is
another, the case gets the mark of the reason, and a difference without a reason stops the recording.
"""

import datetime
import math
import sqlite3
import struct
import types
import zlib

from langgraph.store.base import GetOp, ListNamespacesOp, MatchCondition, PutOp, SearchOp
from langgraph.store.sqlite import SqliteStore, base

from conversations import dice, marked
from document_model import ALL, Model, comparable, reasons
from store_cases import namespace, pattern

# Marks whose cases the engine is meant to settle otherwise.
DEFECTS = (
    "expired-until-sweep", "missing-is-not-unequal", "nested-filter-error", "old-texts-found", "page-of-texts",
    "refresh-of-all-gets", "true-is-one", "words-are-zero",
)
WORDS = "ferry canal boat cello lesson Thursday rowing bakery June café über red bicycle winter garden key".split()
INDEXES = (None, ["title"], ["notes[*]"], ["title", "notes[*]"], False)
TICK = 6  # minutes


class Clock:
    """The clock of the store: of its SQL and of its Python."""

    def __init__(self, connection):
        self.now = datetime.datetime(2026, 1, 1, tzinfo=datetime.timezone.utc)
        connection.create_function("current_timestamp", 0, lambda: self.now.strftime("%Y-%m-%d %H:%M:%S"))
        clock = types.SimpleNamespace(now=lambda zone: self.now)
        base.datetime = types.SimpleNamespace(datetime=clock, timezone=datetime.timezone, timedelta=datetime.timedelta)


class Connection(sqlite3.Connection):
    """A connection that needs no SQLite with extensions: its vector distance is that of sqlite-vec, in Python."""

    def enable_load_extension(self, _):
        self.create_function("vec_distance_cosine", 2, cosine_distance, deterministic=True)


serialize = base.sqlite_vec.serialize_float32
base.sqlite_vec = types.SimpleNamespace(load=lambda connection: None, serialize_float32=serialize)


def cosine_distance(one, two):
    one, two = (struct.unpack(f"{len(blob) // 4}f", blob) for blob in (one, two))
    dot = lambda a, b: sum(x * y for x, y in zip(a, b))
    return 1.0 - dot(one, two) / math.sqrt(dot(one, one) * dot(two, two))


def embed(texts):
    """Counts of hashed words, in 32 dimensions."""
    vectors = []
    for text in texts:
        vector = [0.01] * 32
        for word in text.split():
            vector[zlib.crc32(word.encode()) % 32] += 1.0
        vectors.append(vector)
    return vectors


def words(rng, most):
    return " ".join(rng.choice(WORDS) for _ in range(rng.randint(1, most)))


def value(rng, kind):
    if kind == "time":
        return {"number": rng.randint(0, 99)}
    if kind == "texts":
        title, notes = words(rng, 4), [words(rng, 3) for _ in range(rng.randint(0, 3))]
        return {"title": title, "notes": notes, "level": rng.randint(0, 2)}
    found = {
        "number": rng.choice((rng.randint(-3, 9), rng.randint(0, 40) / 4)),
        "color": rng.choice(("red", "green", "blue")),
        "meta": {"lang": rng.choice(("de", "fr")), "level": rng.randint(0, 2)},
        "tags": [rng.choice("xyz") for _ in range(rng.randint(0, 2))],
        "flag": rng.random() < 0.5,
        "none": None,
    }
    for name in list(found):
        if rng.random() < 0.12:
            del found[name]
    return found


def conditions(rng, kind):
    if kind == "texts":
        return {"level": rng.choice((rng.randint(0, 2), {"$gte": 1}))}
    number = rng.randint(-3, 9)
    options = (
        {"color": rng.choice(("red", "green", "pink", None))},
        {"number": {rng.choice(("$gt", "$gte", "$lt", "$lte", "$eq")): number}},
        {"number": {"$gte": number, "$lt": number + 4}},
        {"number": rng.choice((number, number / 2))},
        {"color": {rng.choice(("$eq", "$gt", "$lte")): "green"}},
        {"meta.lang": "de"},
        {"meta.level": {rng.choice(("$eq", "$gt", "$lte")): 1}},
        {"tags": rng.choice((["x"], []))},
        {"flag": rng.choice((True, False))},
        {"missing": rng.choice((None, "x"))},
        {},
    )
    rare = (
        {rng.choice(("color", "number")): {"$ne": rng.choice(("red", 1))}},
        {"meta": {"lang": "de"}},
        {"flag": rng.choice((0, 1))},
        {"color": {rng.choice(("$gt", "$lt")): number}},
    )
    chosen = rng.sample(options, rng.randint(1, 2))
    if rng.random() < 0.2:
        chosen = rng.choices(rare, weights=(5, 1, 2, 2))
    return {key: item for part in chosen for key, item in part.items()}


def place(rng, kind):
    """A namespace and a key."""
    if kind == "filters":
        return [namespace(rng), rng.choice("klmno")]
    return [rng.choice((["users"], ["users", "v1"], ["docs"])), rng.choice("klm")]


def operation(rng, kind, titles):
    draw = rng.choice({
        "filters": ("put", "put", "put", "put", "search", "search", "search", "list", "get", "delete"),
        "texts": ("put", "put", "put", "put", "search", "search", "search", "delete"),
        "time": ("put", "put", "get", "get", "search", "list"),
    }[kind])
    refresh = kind == "time" and rng.random() < 0.4
    if draw == "put":
        given = value(rng, kind)
        options = {}
        if kind == "texts":
            titles.append(given["title"])
            options["index"] = rng.choice(INDEXES)
        if kind == "time" and (ttl := rng.choice((None, 9, 9, 9, 15, 600))):
            options["ttl"] = ttl
        return {"put": [*place(rng, kind), given, options]}
    if draw == "get":
        return {"get": [*place(rng, kind), refresh]}
    if draw == "delete":
        return {"delete": place(rng, kind)}
    if draw == "list":
        listing = {"limit": rng.choice((ALL, 2)), "offset": rng.choice((0, 0, 1))}
        for name in ("prefix", "suffix"):
            if rng.random() < 0.4:
                listing[name] = pattern(rng)
        if rng.random() < 0.4:
            listing["max_depth"] = rng.randint(1, 3)
        return {"list": listing}
    search = {"namespace": place(rng, kind)[0][: rng.choice((1, 1, 2))], "limit": ALL, "offset": 0, "refresh": refresh}
    # Which documents a page without an order refreshes is chance.
    if rng.random() < 0.3 and not refresh:
        search |= {"limit": rng.randint(1, 4), "offset": rng.randint(0, 2)}
    if kind == "filters" or rng.random() < 0.2:
        search["filter"] = conditions(rng, kind) if kind != "time" else {"number": {"$lt": 50}}
    if kind == "texts" and rng.random() < 0.8:
        search["query"] = rng.choice(titles) if titles and rng.random() < 0.5 else words(rng, 3)
    return {"search": search}


def op(item):
    ((kind, given),) = item.items()
    if kind == "get":
        return GetOp(tuple(given[0]), given[1], refresh_ttl=given[2])
    if kind == "put":
        return PutOp(tuple(given[0]), given[1], given[2], given[3].get("index"), given[3].get("ttl"))
    if kind == "delete":
        return PutOp(tuple(given[0]), given[1], None)
    if kind == "search":
        return SearchOp(
            tuple(given["namespace"]), given.get("filter"), given["limit"], given["offset"], given.get("query"),
            given["refresh"],
        )
    matches = tuple(MatchCondition(name, tuple(given[name])) for name in ("prefix", "suffix") if name in given)
    return ListNamespacesOp(matches or None, given.get("max_depth"), given["limit"], given["offset"])


def outcome(item, result):
    if "search" in item:
        return [[list(found.namespace), found.key, found.value] for found in result]
    if "list" in item:
        return [list(found) for found in result]
    return result.value if "get" in item and result else None


def case_of(seed, case):
    rng = dice(seed, "sqlite", case)
    kind = ("filters", "texts", "time")[case % 3]
    connection = sqlite3.connect(":memory:", isolation_level=None, factory=Connection)
    clock, model = Clock(connection), Model()
    index = {"dims": 32, "embed": embed} if kind == "texts" else None
    store = SqliteStore(connection, index=index, ttl={"refresh_on_read": True})
    steps, marks, titles, sweeps = [], set(), [], rng.random() < 0.6
    for number in range(rng.randint(8, 11) if kind == "time" else rng.randint(5, 9)):
        if kind == "time" and number % 3 == 2:
            clock.now += datetime.timedelta(minutes=TICK)
            steps.append({"minutes": TICK})
            if sweeps:
                store.sweep_ttl()
                model.documents = model.live(clock.now)
            continue
        operations = [operation(rng, kind, titles) for _ in range(rng.choice((1, 1, 1, 2, 4, 6)))]
        step = {"operations": operations}
        steps.append(step)
        try:
            results = store.batch([op(item) for item in operations])
        except ValueError as error:
            step["error"] = str(error)
            marks.add("nested-filter-error")
            break
        step["outcomes"] = [outcome(item, result) for item, result in zip(operations, results)]
        refreshed = []
        gets = {(tuple(item["get"][0]), item["get"][2]) for item in operations if "get" in item}
        model.has_mixed_gets |= len(gets) > len({name for name, _ in gets})
        for item, theirs in zip(operations, step["outcomes"]):
            if "put" in item or "delete" in item:
                continue
            ours, places = model.read(item, clock.now)
            if "search" in item and "ordered" not in item["search"]:
                theirs = comparable(item["search"], theirs, len(theirs))
            if ours != theirs:
                found = sorted(set(reasons(item, model, clock.now)))
                assert found, f"case {case}: {item}\n ours   {ours}\n theirs {theirs}"
                marks.update(found)
            refreshed += places
        model.refresh(refreshed, clock.now)
        for item in operations:
            model.write(item, clock.now)
        clock.now += datetime.timedelta(seconds=1)
    base.datetime = datetime
    connection.close()
    return marked({"case": case, "seed": seed, "kind": kind, "steps": steps}, sorted(marks), DEFECTS)


def sqlite_cases(seed):
    return [case_of(seed, case) for case in range(1, 241)]
