"""The types of the dicts that calls return."""

from datetime import datetime, timedelta
from typing import Any, Literal, TypedDict


class PutReport(TypedDict):
    new: int
    replaced: int
    unchanged: int


class ImportReport(TypedDict):
    """`formats`: number of files that were read in each. `namespaces`: at most 100. `notes`: at most 100 of `note_count`."""

    new: int
    replaced: int
    unchanged: int
    removed: int
    skipped: int
    formats: dict[str, int]
    unknown_files: int
    namespaces: list[str]
    notes: list[str]
    note_count: int


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
    language: str
    language_origin: Literal["default", "guessed", "set"]
    ttl_minutes: float | None


class SessionInfo(TypedDict):
    """`buffered`: messages in the short-term buffer. `last`: the number of the last message, greater in the session that was used last."""

    session: str
    messages: int
    buffered: int
    batches: int
    last: int


class ModelIdentity(TypedDict):
    name: str
    dimension: int
    hash: str
    given: bool


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
    left_out: int
    repeated: bool


class ItemBefore(TypedDict):
    """An item before an update. `value`: `None` if that was forgotten since, or the update was undone."""

    key: str
    value: Any


class CollectionUpdate(TypedDict):
    """An update that a chat model made."""

    id: str
    at: str
    inserted: list[str]
    updated: list[ItemBefore]
    deleted: list[ItemBefore]
    left_out: int
    undone: bool


class UndoReport(TypedDict):
    """The keys of items. `kept`: those that were changed since, and stay as they are."""

    restored: list[str]
    removed: list[str]
    kept: list[str]


class ReindexProgress(TypedDict):
    """`rate`: per second. `left`: the time that the phase still needs, if it is known."""

    phase: Literal["embedding", "loading", "trying", "switched"]
    done: int
    total: int
    rate: float
    left: timedelta | None


class JournalHit(TypedDict):
    """A hit of a recall of the past. `breakdown`: the terms of the score."""

    id: str
    rank: int
    score: float
    similarity: float
    breakdown: dict[str, Any]


class Standing(TypedDict):
    rank: int
    score: float


class TermChange(TypedDict):
    """`term`: a key of `breakdown`, with its value then and today."""

    term: str
    then: float
    now: float


class ReplayedHit(TypedDict):
    """`is_newer`: the message was put or edited since. `then` and `now`: its rank and score, if it was and is a hit."""

    id: str
    change: Literal["kept", "new", "gone", "outranked"]
    is_newer: bool
    then: Standing | None
    now: Standing | None
    terms: list[TermChange]


class Replay(TypedDict):
    """`hits`: those of today, best first, and then those that are none today. `answerability`: then and today.

    `is_unchanged`: the same messages have the same ranks, scores and terms, and none was edited.
    """

    entry: int
    at: datetime
    hits: list[ReplayedHit]
    answerability: tuple[float, float]
    is_other_model: bool
    is_unchanged: bool


# A class has no field `from`. `gate`: the comparison of the old and the new vectors.
ReindexReport = TypedDict(
    "ReindexReport",
    {
        "from": str | None,
        "to": str,
        "precision": Literal["f32", "f16", "i8"],
        "embedded": int,
        "copied": int,
        "resumed": int,
        "switched": bool,
        "gate": dict[str, Any] | None,
        "seconds": float,
    },
)
