"""LlamaIndex's filters as the engine's."""

import json
from typing import Any

from llama_index.core.vector_stores.types import FilterCondition, FilterOperator, MetadataFilter, MetadataFilters

from mnemon import InvalidValueError

OPERATORS = {
    FilterOperator.EQ: "$eq",
    FilterOperator.NE: "$ne",
    FilterOperator.GT: "$gt",
    FilterOperator.GTE: "$gte",
    FilterOperator.LT: "$lt",
    FilterOperator.LTE: "$lte",
    FilterOperator.IN: "$in",
    FilterOperator.NIN: "$nin",
    FilterOperator.CONTAINS: "$contains",
}
LISTS = {FilterOperator.IN, FilterOperator.NIN, FilterOperator.ANY, FilterOperator.ALL}


def where(filters: MetadataFilters | MetadataFilter | None) -> dict[str, Any]:
    """The engine's filter on documents whose field `metadata` has the metadata. Raises `ValueError` for what it cannot say."""
    if isinstance(filters, MetadataFilter):
        return _condition(filters)
    if filters is None or not filters.filters:
        return {}
    inner = [where(filter) for filter in filters.filters]
    if filters.condition == FilterCondition.OR:
        return {"$or": inner}
    if filters.condition == FilterCondition.NOT:
        return {"$not": {"$or": inner}}
    return {"$and": inner}


def _condition(filter: MetadataFilter) -> dict[str, Any]:
    path, operator, value = f"metadata[{json.dumps(filter.key)}]", filter.operator, filter.value
    if operator == FilterOperator.IS_EMPTY:
        return {path: {"$in": [None, "", []]}}
    if value is None:
        raise InvalidValueError(f"the filter {operator.value!r} on {filter.key!r} has no value; IS_EMPTY finds nodes that have none")
    if (operator in LISTS) != isinstance(value, list):
        raise InvalidValueError(f"the filter {operator.value!r} on {filter.key!r} takes {'a list' if operator in LISTS else 'one value'}")
    if operator == FilterOperator.TEXT_MATCH:
        if not isinstance(value, str):
            raise InvalidValueError(f"the filter 'text_match' on {filter.key!r} takes a text; CONTAINS takes an element of a list")
        # Only texts are not less than a text.
        return {path: {"$contains": value, "$gte": ""}}
    contained = [{path: {"$contains": one}} for one in value] if isinstance(value, list) else []
    if operator == FilterOperator.ANY:
        return {"$or": contained}
    if operator == FilterOperator.ALL:
        # Without values it matches if there is anything.
        return {"$and": [{path: {"$ne": None}}, *contained]}
    if operator not in OPERATORS:
        raise InvalidValueError(f"there is no filter {operator.value!r} here; store the text in lower case beside it, and use TEXT_MATCH")
    return {path: {OPERATORS[operator]: value}}
