"""Haystack's filters as the engine's."""

import json
import math
import re
from dataclasses import fields
from typing import Any

from haystack import Document

Filter = dict[str, Any]
# The engine's filter, and those for the documents of which it is not known whether Haystack's filters match them.
Where = tuple[Filter, list[Filter]]

NAMES = {field.name for field in fields(Document)}
# The engine's operator, and the one that holds for all other numbers.
ORDERS = {">": ("$gt", "$lte"), ">=": ("$gte", "$lt"), "<": ("$lt", "$gte"), "<=": ("$lte", "$gt")}
# Texts that may equal other texts, as Haystack compares dates as times in their zones; and texts that cannot be in the engine's filters.
DATE_OR_NO_TEXT = re.compile(r"\d{4}-\d\d-\d\d|.*[\ud800-\udfff]", re.DOTALL)
# Of logical operators in each other: each takes four of the 64 levels of JSON that the engine's filters may have.
MAX_DEPTH = 12
UNDECIDED: Where = {}, [{}]


def where(filters: Filter | None) -> Where:
    """The engine's filters for Haystack's.

    The first filter matches all documents that Haystack's match, and all for which Haystack raises an error, as it does when it comes to a
    comparison of values that have no order. It matches no other documents but those that one of the second filters matches. So if these
    match none, the first one says what Haystack's say.

    Haystack has to judge dates, orders of other types than numbers, lists and objects, and the fields beside `id`, `content` and `meta`.
    """
    return _where(filters, True, MAX_DEPTH) if filters else ({}, [])


def _where(filters: Any, wanted: bool, depth: int) -> Where:
    match filters:
        case {"field": str(field), "operator": operator, "value": value}:
            return _comparison(field, operator, value, wanted)
        case {"operator": "AND" | "OR" | "NOT" as operator, "conditions": [*conditions]} if "field" not in filters and depth:
            wanted = wanted != (operator == "NOT")
            is_all = wanted == (operator != "OR")
            found: list[Filter] = []
            undecided: list[Filter] = []
            for inner, others in [_where(condition, wanted, depth - 1) for condition in conditions]:
                # Haystack does not come to this condition if an earlier one raises an error.
                found.append({"$or": [inner, *undecided]} if is_all and undecided else inner)
                undecided += [one for one in others if one not in undecided]
            return {"$and" if is_all else "$or": found}, undecided
    return UNDECIDED


def _comparison(field: str, operator: Any, value: Any, wanted: bool) -> Where:
    names = field.split(".") if "." in field or field in NAMES else ["meta", field]
    values = value if operator in ("in", "not in") else [value]
    if names[0] not in ("id", "content", "meta") or not isinstance(values, list) or not all(map(_is_exact, [field, *values])):
        return UNDECIDED
    path = "".join(f"[{json.dumps(name)}]" for name in names)
    if operator in ("==", "in", "!=", "not in"):
        # To Python, 1 and true are equal.
        alike = [kind(one) for one in values if one in (0, 1) for kind in (int, bool)]
        return {path: {"$in" if wanted == (operator in ("==", "in")) else "$nin": values + alike}}, []
    if operator in ORDERS and type(value) in (int, float):
        is_so, is_not = ORDERS[operator]
        others = {path: {"$ne": None, "$not": {"$lt": 0}}, "$not": {path: {"$gte": 0}}}
        return {path: {"$ne": None, "$not": {is_not: value}}} if wanted else {"$not": {path: {is_so: value}}}, [others]
    return UNDECIDED


def _is_exact(value: Any) -> bool:
    """Returns true if the engine finds the values that are equal to this."""
    if type(value) is str:
        return not DATE_OR_NO_TEXT.match(value)
    return value is None or type(value) is bool or type(value) in (int, float) and math.isfinite(value) and abs(value) < 2**63
