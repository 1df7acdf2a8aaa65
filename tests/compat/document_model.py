"""A plain model of what documents are meant to do, beside which the outcomes of a store are surprising or not."""

import datetime
import json

from langgraph.store.base.embed import get_text_at_path

ALL = 1000  # the limit of a search that is not a page


class Model:
    """The documents as they are meant to be: a dictionary, with what a search and a listing make of it."""

    def __init__(self):
        self.documents = {}
        # Whether a batch had gets of one namespace of which only some refresh.
        self.has_mixed_gets = False

    def live(self, now):
        return {at: found for at, found in self.documents.items() if found["expires"] is None or found["expires"] > now}

    def matching(self, search, now):
        prefix = search["namespace"]
        return {
            at: found
            for at, found in self.live(now).items()
            if list(at[0][: len(prefix)]) == prefix
            and all(meets(found["value"], path, wanted) for path, wanted in search.get("filter", {}).items())
            and ("query" not in search or found["texts"])
        }

    def read(self, item, now):
        """The outcome of a read, comparable, and the documents that it refreshes."""
        ((kind, given),) = item.items()
        if kind == "get":
            at = (tuple(given[0]), given[1])
            found = self.live(now).get(at)
            return (found and found["value"]), [at] if found and given[2] else []
        if kind == "search":
            found = self.matching(given, now)
            page = max(0, min(given["limit"], len(found) - given["offset"]))
            # What a search without a query finds has an order if no two documents were put at the same time.
            if "query" not in given and len({document["put"] for document in found.values()}) == len(found) > 1:
                given["ordered"] = True
            newest = sorted(found.items(), key=lambda entry: entry[1]["put"], reverse=True)
            shown = [[list(at[0]), at[1], document["value"]] for at, document in newest]
            if given.get("ordered"):
                shown = shown[given["offset"] :][: given["limit"]]
            else:
                shown = comparable(given, shown, page)
            return shown, list(found) if given["refresh"] else []
        names = {at[0] for at in self.live(now)}
        for side, cut in (("prefix", lambda name, n: name[:n]), ("suffix", lambda name, n: name[-n:])):
            if side in given:
                wanted = given[side]
                names = {
                    name for name in names
                    if len(name) >= len(wanted)
                    and all(b in ("*", a) for a, b in zip(cut(name, len(wanted)), wanted))
                }
        names = sorted({name[: given.get("max_depth")] for name in names})
        return [list(name) for name in names[given["offset"] :][: given["limit"]]], []

    def write(self, item, now):
        ((kind, given),) = item.items()
        if kind == "delete":
            self.documents.pop((tuple(given[0]), given[1]), None)
        elif kind == "put":
            options, ttl = given[3], given[3].get("ttl")
            index = options.get("index")
            paths = [] if index is False or "index" not in options else index or ["$"]
            texts = [text for path in paths for text in get_text_at_path(given[2], path)]
            expires = now + datetime.timedelta(minutes=ttl) if ttl else None
            found = {"value": given[2], "texts": texts, "ttl": ttl, "expires": expires, "put": now}
            self.documents[(tuple(given[0]), given[1])] = found

    def refresh(self, places, now):
        for at in places:
            if self.documents[at]["ttl"]:
                self.documents[at]["expires"] = now + datetime.timedelta(minutes=self.documents[at]["ttl"])


def comparable(search, found, page):
    """Of a page without an order the length, else what was found."""
    return page if search["limit"] < ALL else sorted(found, key=json.dumps)


def meets(document, path, wanted):
    for name in path.split("."):
        document = document.get(name) if isinstance(document, dict) else None
    if not isinstance(wanted, dict):
        return same(document, wanted)
    alike = lambda other: isinstance(document, str) == isinstance(other, str) and not isinstance(document, (bool, dict))
    order = {
        "$gt": lambda other: document > other, "$gte": lambda other: document >= other,
        "$lt": lambda other: document < other, "$lte": lambda other: document <= other,
    }
    for name, other in wanted.items():
        if name in ("$eq", "$ne"):
            met = same(document, other) == (name == "$eq")
        elif name in order:
            met = document is not None and alike(other) and order[name](other)
        else:
            met = isinstance(document, dict) and meets(document, name, other)
        if not met:
            return False
    return True


def same(one, two):
    return one == two and isinstance(one, bool) == isinstance(two, bool)


def reasons(item, model, now):
    """The marks of what could make the store's outcome another than the model's."""
    if len(model.live(now)) < len(model.documents):
        yield "expired-until-sweep"
    if model.has_mixed_gets:
        yield "refresh-of-all-gets"
    search = item.get("search", {})
    if "query" in search:
        yield "page-of-texts" if search["limit"] < ALL else "old-texts-found"
    for wanted in search.get("filter", {}).values():
        if wanted in (0, 1) and not isinstance(wanted, (bool, float)):
            yield "true-is-one"
        if isinstance(wanted, dict):
            if "$ne" in wanted:
                yield "missing-is-not-unequal"
            ordered = (wanted.get(name) for name in ("$gt", "$gte", "$lt", "$lte"))
            if any(isinstance(other, (int, float)) for other in ordered):
                yield "words-are-zero"
