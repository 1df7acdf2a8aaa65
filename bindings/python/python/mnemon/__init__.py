"""Long-term memory for LLM agents, in this process: local embeddings, recall by meaning and by words, one file.

>>> import mnemon
>>> with mnemon.Engine() as engine:
...     _ = engine.put("acme/ada", [mnemon.Message("My bike is in the cellar.")])
...     [hit.message.text for hit in engine.recall("acme/ada", "where is the bike?")]
['My bike is in the cellar.']
"""

from ._async import AsyncCollection as AsyncCollection
from ._async import AsyncDocuments as AsyncDocuments
from ._async import AsyncEngine as AsyncEngine
from ._async import AsyncMemory as AsyncMemory
from ._async import AsyncProfile as AsyncProfile
from ._errors import (
    BlockError as BlockError,
    ChatError as ChatError,
    CheckpointNotFoundError as CheckpointNotFoundError,
    ClosedError as ClosedError,
    CorruptedError as CorruptedError,
    DatabaseLockedError as DatabaseLockedError,
    DatabaseMovedError as DatabaseMovedError,
    DatabaseNotFoundError as DatabaseNotFoundError,
    DeadlineExceededError as DeadlineExceededError,
    DeadlockError as DeadlockError,
    DeviceUnavailableError as DeviceUnavailableError,
    DocumentChangedError as DocumentChangedError,
    DownloadError as DownloadError,
    EmbedderUnavailableError as EmbedderUnavailableError,
    EmbeddingError as EmbeddingError,
    ForkedError as ForkedError,
    InvalidArgumentError as InvalidArgumentError,
    InvalidConfigError as InvalidConfigError,
    InvalidCursorError as InvalidCursorError,
    InvalidDocumentError as InvalidDocumentError,
    InvalidFilterError as InvalidFilterError,
    InvalidHistoryError as InvalidHistoryError,
    InvalidImportError as InvalidImportError,
    InvalidMessageError as InvalidMessageError,
    InvalidModelError as InvalidModelError,
    InvalidNamespaceError as InvalidNamespaceError,
    InvalidQueryError as InvalidQueryError,
    InvalidTypeError as InvalidTypeError,
    InvalidValueError as InvalidValueError,
    InvalidVectorError as InvalidVectorError,
    KeyNeededError as KeyNeededError,
    KeyUnavailableError as KeyUnavailableError,
    LegalHoldError as LegalHoldError,
    MessagesChangedError as MessagesChangedError,
    MnemonError as MnemonError,
    ModelHashMismatchError as ModelHashMismatchError,
    ModelMismatchError as ModelMismatchError,
    ModelNotFoundError as ModelNotFoundError,
    NamespaceNotEmptyError as NamespaceNotEmptyError,
    NewerSchemaError as NewerSchemaError,
    NoPreviousError as NoPreviousError,
    NotADatabaseError as NotADatabaseError,
    NotEncryptedError as NotEncryptedError,
    OlderDatabaseError as OlderDatabaseError,
    OutcomeUnknownError as OutcomeUnknownError,
    PanickedError as PanickedError,
    PathExistsError as PathExistsError,
    PathNotFoundError as PathNotFoundError,
    ReadOnlyError as ReadOnlyError,
    ReindexRunningError as ReindexRunningError,
    RerankingError as RerankingError,
    RuntimeNotDownloadedError as RuntimeNotDownloadedError,
    RuntimeNotFoundError as RuntimeNotFoundError,
    SessionExistsError as SessionExistsError,
    SessionNotFoundError as SessionNotFoundError,
    SharedDatabaseError as SharedDatabaseError,
    StorageError as StorageError,
    ThreadNotStartedError as ThreadNotStartedError,
    WriteAccessNeededError as WriteAccessNeededError,
    WrongKeyError as WrongKeyError,
)
from ._mnemon import (
    BlockContent as BlockContent,
    BlockQuery as BlockQuery,
    ChatRequest as ChatRequest,
    Collection as Collection,
    CollectionBlock as CollectionBlock,
    Config as Config,
    Document as Document,
    DocumentOperation as DocumentOperation,
    Documents as Documents,
    Engine as Engine,
    FactBlock as FactBlock,
    FileMessages as FileMessages,
    FlushedBatch as FlushedBatch,
    GivenVectors as GivenVectors,
    Hit as Hit,
    Hits as Hits,
    InstructionBlock as InstructionBlock,
    JournalEntry as JournalEntry,
    Memory as Memory,
    Message as Message,
    OpenAiChat as OpenAiChat,
    OpenAiEmbedder as OpenAiEmbedder,
    Profile as Profile,
    ProfileBlock as ProfileBlock,
    Prompt as Prompt,
    Query as Query,
    StaticBlock as StaticBlock,
    SummaryBlock as SummaryBlock,
    VectorBlock as VectorBlock,
    Vectors as Vectors,
)
from ._mnemon import __version__ as __version__
from ._mnemon import from_anthropic as from_anthropic
from ._mnemon import from_gemini as from_gemini
from ._mnemon import from_openai as from_openai
from ._mnemon import labels_of as labels_of
from ._mnemon import namespace_of as namespace_of
from ._mnemon import read_files as read_files
from ._mnemon import to_anthropic as to_anthropic
from ._mnemon import to_gemini as to_gemini
from ._mnemon import to_openai as to_openai
from ._protocols import Block as Block
from ._protocols import Embedder as Embedder
from ._protocols import Reranker as Reranker
from ._reports import BlockStatus as BlockStatus
from ._reports import CheckpointInfo as CheckpointInfo
from ._reports import CollectionReport as CollectionReport
from ._reports import CollectionUpdate as CollectionUpdate
from ._reports import ImportReport as ImportReport
from ._reports import ItemBefore as ItemBefore
from ._reports import JournalHit as JournalHit
from ._reports import MemoryReport as MemoryReport
from ._reports import ModelIdentity as ModelIdentity
from ._reports import NamespaceInfo as NamespaceInfo
from ._reports import PurgeReport as PurgeReport
from ._reports import PutReport as PutReport
from ._reports import ReindexProgress as ReindexProgress
from ._reports import ReindexReport as ReindexReport
from ._reports import Replay as Replay
from ._reports import ReplayedHit as ReplayedHit
from ._reports import SessionInfo as SessionInfo
from ._reports import Standing as Standing
from ._reports import TermChange as TermChange
from ._reports import UndoReport as UndoReport
from ._runtime import find as _find_runtime

_find_runtime()
