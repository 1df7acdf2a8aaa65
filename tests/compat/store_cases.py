"""store.jsonl and paths.jsonl: what langgraph's InMemoryStore and get_text_at_path make of random operations."""

from langgraph.store.base import GetOp, ListNamespacesOp, MatchCondition, PutOp, SearchOp
from langgraph.store.base.embed import get_text_at_path
from langgraph.store.memory import InMemoryStore

from conversations import dice, marked

LABELS = ("users", "docs", "a b", "1/2", "v1", "ключ")
# Marks whose cases the engine is meant to settle otherwise.
DEFECTS = ("emptied-namespace-listed", "uncomparable-values-error")


def namespace(rng):
    depth = rng.choice((1, 1, 2, 2, 3))
    return [rng.choice(LABELS[:2]), *(rng.choice(LABELS[1:4]) for _ in range(depth - 1)), *rng.choice(([], [], ["v1"]))]


def value(rng):
    found = {
        "number": rng.choice((rng.randint(-3, 9), rng.randint(0, 40) / 4)),
        "color": rng.choice(("red", "green", "blue")),
        "meta": {"lang": rng.choice(("de", "fr")), "level": rng.randint(0, 2)},
        "tags": [rng.choice("xyz") for _ in range(rng.randint(0, 2))],
        "none": None,
    }
    for name in list(found):
        if name != "number" and rng.random() < 0.2:
            del found[name]
    if rng.random() < 0.02:
        del found["number"]
    return found


def conditions(rng):
    number = rng.randint(-3, 9)
    options = (
        {"color": rng.choice(("red", "green", "pink", None))},
        {"number": {rng.choice(("$gt", "$gte", "$lt", "$lte", "$eq", "$ne")): number}},
        {"number": {"$gte": number, "$lt": number + 4}},
        {"color": {rng.choice(("$eq", "$ne")): "red"}},
        {"meta": {"lang": "de"}},
        {"meta": {"level": {"$eq": 1}}},
        {"tags": ["x"]},
        {"tags": []},
        {"none": None},
        {"missing": rng.choice((None, "x"))},
        {},
    )
    return {key: item for part in rng.sample(options, rng.randint(1, 2)) for key, item in part.items()}


def page(rng, most):
    if rng.random() < 0.6:
        return {"limit": 1000, "offset": 0}
    return {"limit": rng.randint(0, most), "offset": rng.randint(0, 2)}


def pattern(rng):
    return [rng.choice((*LABELS, "*", "*")) for _ in range(rng.randint(1, 2))]


def operation(rng, kinds):
    kind = rng.choice(kinds)
    if kind == "put":
        return {"put": [namespace(rng), rng.choice("klmno"), value(rng)]}
    if kind in ("get", "delete"):
        return {kind: [namespace(rng), rng.choice("klmno")]}
    if kind == "search":
        search = {"namespace": namespace(rng)[: rng.choice((1, 1, 1, 2))], **page(rng, 4)}
        return {"search": search | ({"filter": conditions(rng)} if rng.random() < 0.6 else {})}
    listing = page(rng, 4)
    for name in ("prefix", "suffix"):
        if rng.random() < 0.4:
            listing[name] = pattern(rng)
    if rng.random() < 0.4:
        listing["max_depth"] = rng.randint(1, 3)
    return {"list": listing}


def op(item):
    ((kind, given),) = item.items()
    if kind == "get":
        return GetOp(tuple(given[0]), given[1])
    if kind == "put":
        return PutOp(tuple(given[0]), given[1], given[2])
    if kind == "delete":
        return PutOp(tuple(given[0]), given[1], None)
    if kind == "search":
        return SearchOp(tuple(given["namespace"]), given.get("filter"), given["limit"], given["offset"])
    matches = tuple(MatchCondition(name, tuple(given[name])) for name in ("prefix", "suffix") if name in given)
    return ListNamespacesOp(matches or None, given.get("max_depth"), given["limit"], given["offset"])


def outcome(item, result):
    if "search" in item:
        return [[list(found.namespace), found.key, found.value] for found in result]
    if "list" in item:
        return [list(found) for found in result]
    return result.value if "get" in item and result else None


def store_cases(seed):
    for case in range(1, 301):
        rng = dice(seed, "store", case)
        store, steps, marks = InMemoryStore(), [], []
        # A get makes a namespace there, so most cases have none.
        kinds = ("put", "put", "put", "put", "search", "search", "list", *(("get", "delete") if rng.random() < 0.3 else ()))
        for _ in range(rng.randint(3, 7)):
            operations = [operation(rng, kinds) for _ in range(rng.randint(1, 6))]
            if any("list" in item for item in operations) and not all(store._data.values()):
                marks.append("emptied-namespace-listed")
            step = {"operations": operations}
            steps.append(step)
            try:
                results = store.batch([op(item) for item in operations])
            except (TypeError, ValueError) as error:
                step["error"] = str(error)
                marks.append("uncomparable-values-error")
                break
            if any("list" in item for item in operations) and not all(store._data.values()):
                marks.append("emptied-namespace-listed")
            step["outcomes"] = [outcome(item, result) for item, result in zip(operations, results)]
        yield marked({"case": case, "seed": seed, "steps": steps}, sorted(set(marks)), DEFECTS)


PATHS = (
    "$", "title", "meta.author", "meta", "meta.*", "items[*].text", "items[0].text", "items[-1].text", "items[5].text",
    "items[-5]", "items[*].parts[*]", "items", "{title, meta.author}", "{title,missing,items}", "meta.missing", "title.x",
    "title[0]", "meta[*]", "*", "items[*]", "count", "flag", "none", "*.author", "items.*.text", "meta.{author,year}",
)


def paths_cases(seed):
    for case in range(1, 201):
        rng = dice(seed, "paths", case)
        words = [f"word{case}-{number}" for number in range(20)]
        rng.shuffle(words)
        items = [
            rng.choice(({"text": words.pop()}, {"text": words.pop(), "parts": [words.pop()]}, {"other": 1}, words.pop()))
            for _ in range(rng.randint(0, 3))
        ]
        given = {
            "title": words.pop(), "meta": {"author": words.pop(), "year": 1999}, "items": items, "count": 3.5,
            "flag": rng.random() < 0.5, "none": None,
        }
        for name in list(given):
            if rng.random() < 0.15:
                del given[name]
        path = PATHS[(case - 1) % len(PATHS)]
        yield {"case": case, "seed": seed, "value": given, "path": path, "texts": get_text_at_path(given, path)}
