"""The types of the dicts that calls return."""

from datetime import datetime, timedelta
from typing import Any, Literal, TypedDict


class PutReport(TypedDict):
    new: int
    replaced: int
    unchanged: int


class MemoryReport(TypedDict):
    new: int
    replaced: int
    unchanged: int
    removed: int
    echoes: list[str]
    flushed: list[list[str]]


class PurgeReport(TypedDict):
    bytes_before: int
    bytes_after: int


class NamespaceInfo(TypedDict):
    namespace: str
    messages: int
    sessions: int
    documents: int


class ModelIdentity(TypedDict):
    name: str
    dimension: int
    hash: str


class CheckpointInfo(TypedDict):
    number: int
    label: str
    created_at: datetime
    messages: int


class BlockStatus(TypedDict):
    """`behind`: batches that the block has not taken. `failed`: numbers of batches with the reasons."""

    name: str
    behind: int
    failed: list[tuple[int, str]]
    retrying: str | None


class CollectionReport(TypedDict):
    """The keys of the items that changed. `repeated`: the messages were those of an earlier update, and nothing was done."""

    inserted: list[str]
    updated: list[str]
    deleted: list[str]
    repeated: bool


class ReindexProgress(TypedDict):
    """`rate`: per second. `left`: the time that the phase still needs, if it is known."""

    phase: Literal["embedding", "loading", "trying", "switched"]
    done: int
    total: int
    rate: float
    left: timedelta | None


# A class has no field `from`. `gate`: the comparison of the old and the new vectors.
ReindexReport = TypedDict(
    "ReindexReport",
    {
        "from": str | None,
        "to": str,
        "precision": Literal["f32", "i8"],
        "embedded": int,
        "copied": int,
        "resumed": int,
        "switched": bool,
        "gate": dict[str, Any] | None,
        "seconds": float,
    },
)
