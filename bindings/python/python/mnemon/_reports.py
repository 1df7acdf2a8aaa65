"""The types of the dicts that calls return."""

from typing import TypedDict


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
