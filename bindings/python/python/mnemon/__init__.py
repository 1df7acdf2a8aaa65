"""Long-term memory for LLM agents, in this process: local embeddings, recall by meaning and by words, one file.

>>> import mnemon
>>> with mnemon.Engine() as engine:
...     _ = engine.put("acme/ada", [mnemon.Message("My bike is in the cellar.")])
...     [hit.message.text for hit in engine.recall("acme/ada", "where is the bike?")]
['My bike is in the cellar.']
"""

from ._async import AsyncDocuments as AsyncDocuments
from ._async import AsyncEngine as AsyncEngine
from ._async import AsyncMemory as AsyncMemory
from ._embedder import Embedder as Embedder
from ._mnemon import (
    BlockError as BlockError,
    ChatError as ChatError,
    CheckpointNotFoundError as CheckpointNotFoundError,
    ClosedError as ClosedError,
    Config as Config,
    CorruptedError as CorruptedError,
    DatabaseExistsError as DatabaseExistsError,
    DatabaseLockedError as DatabaseLockedError,
    DatabaseNotFoundError as DatabaseNotFoundError,
    DeadlineExceededError as DeadlineExceededError,
    DeviceUnavailableError as DeviceUnavailableError,
    Document as Document,
    DocumentOperation as DocumentOperation,
    DocumentChangedError as DocumentChangedError,
    Documents as Documents,
    DownloadError as DownloadError,
    EmbedderUnavailableError as EmbedderUnavailableError,
    EmbeddingError as EmbeddingError,
    Engine as Engine,
    Hit as Hit,
    Hits as Hits,
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
    InvalidVectorError as InvalidVectorError,
    KeyNeededError as KeyNeededError,
    KeyUnavailableError as KeyUnavailableError,
    LegalHoldError as LegalHoldError,
    Memory as Memory,
    Message as Message,
    MnemonError as MnemonError,
    ModelHashMismatchError as ModelHashMismatchError,
    ModelMismatchError as ModelMismatchError,
    ModelNotFoundError as ModelNotFoundError,
    NamespaceNotEmptyError as NamespaceNotEmptyError,
    NewerSchemaError as NewerSchemaError,
    NoPreviousError as NoPreviousError,
    NotADatabaseError as NotADatabaseError,
    NotEncryptedError as NotEncryptedError,
    OutcomeUnknownError as OutcomeUnknownError,
    PanickedError as PanickedError,
    Prompt as Prompt,
    Query as Query,
    ReadOnlyError as ReadOnlyError,
    ReindexRunningError as ReindexRunningError,
    RerankingError as RerankingError,
    RuntimeNotDownloadedError as RuntimeNotDownloadedError,
    RuntimeNotFoundError as RuntimeNotFoundError,
    SessionExistsError as SessionExistsError,
    SessionNotFoundError as SessionNotFoundError,
    StaticBlock as StaticBlock,
    StorageError as StorageError,
    ThreadNotStartedError as ThreadNotStartedError,
    VectorBlock as VectorBlock,
    WriteAccessNeededError as WriteAccessNeededError,
    WrongKeyError as WrongKeyError,
)
from ._mnemon import __version__ as __version__
from ._mnemon import labels_of as labels_of
from ._mnemon import namespace_of as namespace_of
from ._reports import MemoryReport as MemoryReport
from ._reports import ModelIdentity as ModelIdentity
from ._reports import NamespaceInfo as NamespaceInfo
from ._reports import PurgeReport as PurgeReport
from ._reports import PutReport as PutReport
from ._runtime import find as _find_runtime

_find_runtime()
