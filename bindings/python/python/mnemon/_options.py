"""The keywords of calls that have an async form too."""

from collections.abc import Callable, Iterable
from datetime import date, datetime
from os import PathLike
from typing import Any, Literal, Protocol, TypeAlias, TypedDict

from ._mnemon import (
    ChatRequest,
    CollectionBlock,
    Config,
    FactBlock,
    GivenVectors,
    InstructionBlock,
    Message,
    OpenAiChat,
    OpenAiEmbedder,
    ProfileBlock,
    StaticBlock,
    SummaryBlock,
    VectorBlock,
)
from ._protocols import Block, Embedder, Reranker
from ._reports import ReindexProgress



class Dumped(Protocol):
    """A message of a client library, such as OpenAI's, that it returns as a dict."""

    def model_dump(self) -> dict[str, Any]: ...


MessageLike: TypeAlias = Message | dict[str, Any] | Dumped | str
# One message stands for a list of them.
Messages: TypeAlias = MessageLike | Iterable[Message] | Iterable[dict[str, Any]] | Iterable[str] | Iterable[MessageLike]
# Text is as RFC 3339 has it. A date is its first moment in UTC.
Time: TypeAlias = datetime | date | str
# How far reads may be behind a shared database; a number is of seconds.
Freshness: TypeAlias = Literal["latest", "local"] | float
ChatModel: TypeAlias = OpenAiChat | Callable[[ChatRequest], str | Message | dict[str, Any]]
EmbedderLike: TypeAlias = str | PathLike[str] | Embedder | OpenAiEmbedder | GivenVectors
# An array, such as numpy's, or a sequence of numbers; and an array of two dimensions, or a sequence of vectors.
VectorLike: TypeAlias = Any
VectorsLike: TypeAlias = Any
BlockLike: TypeAlias = (
    StaticBlock | VectorBlock | FactBlock | SummaryBlock | InstructionBlock | ProfileBlock | CollectionBlock | Block
)


class EngineOptions(TypedDict, total=False):
    config: Config | None
    embedder: EmbedderLike | None
    reranker: str | PathLike[str] | Reranker | None
    create: bool
    read_only: bool
    shared: str | None
    freshness: Freshness | None
    remove_secrets: bool


class MemoryOptions(TypedDict, total=False):
    blocks: Iterable[BlockLike]
    token_limit: int
    chat_history_token_ratio: float
    token_flush_size: int | None
    tokens: Literal["o200k_base", "cl100k_base", "approximate"] | Callable[[str], int] | None
    insert: Literal["system", "user", "split"]
    renderer: Literal["xml", "markdown"]
    block_deadline: float
    checkpoint_each_put: bool
    keep_checkpoints: int | None
    keep_checkpoints_within: float | None
    flush_on_drop: bool


class FileOptions(TypedDict, total=False):
    namespace: str | None
    format: str | None
    session: str | None
    me: str | None
    time_zone: str | None
    tool_output: int
    remove_secrets: bool
    skip_bad: bool


class ForgetOptions(TypedDict, total=False):
    ids: Iterable[str]
    keys: Iterable[str]
    session: str
    where: dict[str, Any]
    below: bool


class ScopeOptions(TypedDict, total=False):
    namespaces: Iterable[str]
    under: Iterable[str]
    weights: Iterable[tuple[str, float]]
    k: int | None


class SearchOptions(TypedDict, total=False):
    where: dict[str, Any] | None
    below: bool
    limit: int
    offset: int
    vector: VectorLike | None


class ReindexOptions(TypedDict, total=False):
    precision: Literal["f32", "f16", "i8"] | None
    min_recall: float
    min_overlap: float | None
    queries: Iterable[tuple[str, str]]
    samples: int
    keep_previous: bool
    duty: float
    progress: Callable[[ReindexProgress], bool | None] | None
