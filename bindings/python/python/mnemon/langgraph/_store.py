"""LangGraph's cross-thread store, on the documents of an engine."""

import json
import math
import sys
import uuid
from collections.abc import Iterable, Sequence
from typing import Any

from langgraph.store.base import (
    BaseStore,
    GetOp,
    Item,
    ListNamespacesOp,
    Op,
    PutOp,
    Result,
    SearchItem,
    SearchOp,
    TTLConfig,
    validate_op_namespace,
)

from mnemon import AsyncEngine, Document, DocumentOperation, Engine, InvalidValueError
from mnemon._adapters import embed_pending
from mnemon._async import engine_of
from mnemon._values import escaped, labels_in, space_of
from mnemon._wait import wait


class MnemonStore(BaseStore):
    """Keeps the items of LangGraph's store in an engine's file, below the namespace `prefix`.

    A query finds items by meaning and by words, with the engine's embedder. `fields` are the paths that are indexed unless a put names
    others; default: the whole value. `ttl` as in LangGraph, in minutes; what has expired is gone at once. A call is one commit. The
    engine stays the caller's.
    """

    supports_ttl = True

    __slots__ = ("engine", "fields", "prefix", "ttl_config")

    def __init__(
        self,
        engine: Engine | AsyncEngine,
        *,
        prefix: Sequence[str] = ("langgraph", "store"),
        fields: Sequence[str] | None = None,
        ttl: TTLConfig | None = None,
    ) -> None:
        self.engine = engine_of(engine)
        self.prefix = tuple(prefix)
        self.fields = list(fields) if fields is not None else None
        self.ttl_config = ttl

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        operations = list(ops)
        for operation in operations:
            validate_op_namespace(operation)
        # Of several puts to a key the last counts.
        last = {(op.namespace, op.key): at for at, op in enumerate(operations) if isinstance(op, PutOp)}
        kept = [
            (at, op)
            for at, op in enumerate(operations)
            if not isinstance(op, PutOp) or last[op.namespace, op.key] == at
        ]
        if any(isinstance(op, SearchOp) and op.query for op in operations):
            # LangGraph's stores find by meaning what was put just before.
            embed_pending(self.engine)
        outcomes = self.engine.document_batch([self._operation(op) for _, op in kept])
        results: list[Result] = [None] * len(operations)
        for (at, op), outcome in zip(kept, outcomes, strict=True):
            results[at] = self._result(op, outcome)
        return results

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        return await wait(self.batch, list(ops))

    def _operation(self, op: Op) -> DocumentOperation:
        if isinstance(op, GetOp):
            return DocumentOperation.get(self._space(op.namespace), op.key, refresh_ttl=op.refresh_ttl)
        if isinstance(op, PutOp):
            if op.value is None:
                return DocumentOperation.delete(self._space(op.namespace), op.key)
            index = [] if op.index is False else self.fields if op.index is None else op.index
            return DocumentOperation.put(
                self._space(op.namespace), op.key, dict(op.value), index=index, ttl_minutes=op.ttl
            )
        if isinstance(op, SearchOp):
            return DocumentOperation.search(
                self._space(op.namespace_prefix),
                op.query,
                where=_where(op.filter),
                below=True,
                limit=op.limit,
                offset=op.offset,
                refresh_ttl=op.refresh_ttl,
            )
        if isinstance(op, ListNamespacesOp):
            paths = {condition.match_type: condition.path for condition in op.match_conditions or ()}
            if len(paths) < len(op.match_conditions or ()):
                raise InvalidValueError("a listing of namespaces takes one prefix and one suffix")
            return DocumentOperation.namespaces(
                prefix=escaped([*self.prefix, *paths.get("prefix", ())]),
                suffix=escaped(paths.get("suffix", ())),
                max_depth=None if op.max_depth is None else len(self.prefix) + op.max_depth,
                limit=op.limit,
                offset=op.offset,
            )
        raise InvalidValueError(f"Unknown operation type: {type(op)}")

    def _result(self, op: Op, outcome: Any) -> Result:
        if isinstance(op, GetOp):
            return Item(**self._fields(outcome)) if outcome else None
        if isinstance(op, SearchOp):
            return [SearchItem(**self._fields(found), score=found.score) for found in outcome]
        if isinstance(op, ListNamespacesOp):
            return [self._labels(namespace) for namespace in outcome]
        return None

    def _fields(self, document: Document) -> dict[str, Any]:
        return {
            "namespace": self._labels(document.namespace),
            "key": document.key,
            "value": document.value,
            "created_at": document.created_at,
            "updated_at": document.updated_at,
        }

    def _space(self, namespace: Sequence[str]) -> str:
        return space_of(*self.prefix, *namespace)

    def _labels(self, namespace: str) -> tuple[str, ...]:
        return labels_in(namespace)[len(self.prefix) :]


def _where(filter: dict[str, Any] | None) -> dict[str, Any] | None:
    """The filter with each key as a path, in quotes: a dot in it is no step."""
    return {f"[{json.dumps(key)}]": _condition(wanted) for key, wanted in filter.items()} if filter else None


def _condition(wanted: Any) -> Any:
    if isinstance(wanted, dict):
        if not any(key.startswith("$") for key in wanted):
            return _where(wanted) or {"$eq": {}}
        return {operator: _finite(operand) for operator, operand in wanted.items()}
    return wanted


def _finite(number: Any) -> Any:
    """An operand as JSON has it. NaN equals nothing, so it becomes a text that no value has; infinity becomes the greatest number."""
    if isinstance(number, float) and math.isnan(number):
        return str(uuid.uuid4())
    if isinstance(number, int | float) and abs(number) >= 2**63:
        return math.copysign(min(abs(number), sys.float_info.max), number)
    return number
