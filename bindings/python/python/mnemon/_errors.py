"""The exceptions. Each is a `MnemonError`, and also the exception of Python that says the same, if there is one.

The text of an exception says what happened, the facts, and the remedy.
"""


class MnemonError(Exception):
    """An error of mnemon. Its text says the remedy."""


# Arguments and what is stored.


class InvalidArgumentError(MnemonError):
    """An argument is not what the call takes. The exception's note names the argument."""


class InvalidTypeError(InvalidArgumentError, TypeError):
    """An argument has a type that the call does not take, or does not go together with the others."""


class InvalidValueError(InvalidArgumentError, ValueError):
    """An argument has a value that the call does not take."""


class InvalidNamespaceError(MnemonError, ValueError):
    """A namespace is not 1 to 16 labels of 1 to 512 bytes, joined by `/`. `namespace_of(labels)` writes one of any labels."""


class InvalidMessageError(MnemonError, ValueError):
    """A message cannot be stored or read.

    Its id, session or name is empty or longer than 512 bytes, its content has more than 1 MiB or its metadata more than 16 MiB, a field is unknown, or a value is not one of
    JSON: the text names the place.
    """


class InvalidDocumentError(MnemonError, ValueError):
    """A document cannot be stored: its key or its value is too long, nested too deeply, or not a value of JSON."""


class InvalidQueryError(MnemonError, ValueError):
    """A query has no text, or an option that is out of its range; see `help(mnemon.Query)`."""


class InvalidFilterError(MnemonError, ValueError):
    """A filter (`where`) has an unknown operator, a path or a value that it does not take."""


class InvalidConfigError(MnemonError, TypeError, ValueError):
    """A setting is unknown or out of its range; see `help(mnemon.Config)`. Also for the limits and blocks of a session."""


class InvalidCursorError(MnemonError, ValueError):
    """A cursor is not one that a list of this database returned."""


class InvalidVectorError(MnemonError, ValueError):
    """An embedder returned a vector of the wrong dimension or length, or with a number that is not finite."""


class InvalidImportError(MnemonError, ValueError):
    """A line of an export cannot be imported; nothing was. The text has the number of the line."""


class InvalidHistoryError(MnemonError, ValueError):
    """A line of a history's file is damaged. Restore a copy of the file, or correct the line."""


class DocumentChangedError(MnemonError):
    """A document is not what `DocumentOperation.expect` says, so the batch changed nothing. Read it again and repeat the change."""


class MessagesChangedError(MnemonError):
    """Messages were deleted or changed while something was made of them, so nothing was stored. Read them again and repeat it."""


class SessionNotFoundError(MnemonError, LookupError):
    """The namespace has no such session. `Engine.sessions(namespace)` lists those it has."""


class SessionExistsError(MnemonError):
    """A session has this id already. Give another one, or delete it with `Engine.delete_session`."""


class CheckpointNotFoundError(MnemonError, LookupError):
    """The session has no such checkpoint. `Memory.checkpoints()` lists those it has."""


class NamespaceNotEmptyError(MnemonError):
    """A namespace that is to be imported has data. `Engine.import_from(path, namespace)` gives it another name."""


class LegalHoldError(MnemonError):
    """A legal hold forbids the deletion. `Engine.release(namespace)` ends it, `Engine.holds()` lists all."""


# Files.


class DatabaseNotFoundError(MnemonError, FileNotFoundError):
    """There is no database of this path, and `create=False` or `read_only=True` was given."""


class DatabaseMovedError(MnemonError):
    """The file of the database was moved, removed or replaced while it was open, so nothing was changed.

    Put the file back, or close the engine and open what the path leads to now.
    """


class OlderDatabaseError(MnemonError):
    """The file lacks the commit of `Config(anchor=...)`: an older copy, or another database, was put in its place."""


class DatabaseLockedError(MnemonError):
    """The file is open already, in another process or in this one; the text says in which, if the system tells.

    Use the one `Engine` for the whole process, on all its threads, or read beside it with `Engine(path, read_only=True)`.
    """


class NotADatabaseError(MnemonError):
    """The file is no database of mnemon, or too damaged to be opened."""


class NewerSchemaError(MnemonError):
    """The file was written by a newer version of mnemon. Update mnemon."""


class CorruptedError(MnemonError):
    """The database is damaged. Restore a backup, or take what can be read with `python -m mnemon salvage`."""


class StorageError(MnemonError, OSError):
    """Reading or writing a file failed: the disk is full, a right is missing, a device failed."""


class OutcomeUnknownError(MnemonError):
    """A commit failed at its end, so the change may be stored or not. Read what was to be written, or repeat the change."""


class PathExistsError(MnemonError, FileExistsError):
    """A file that is to be written, such as that of `Engine.export` or `Engine.backup`, exists already."""


class PathNotFoundError(MnemonError, FileNotFoundError):
    """A file that is to be read, or the folder of one that is to be written, does not exist."""


class ReadOnlyError(MnemonError):
    """The engine was opened with `read_only=True`, and the call would write."""


class WriteAccessNeededError(MnemonError):
    """The file must be written before it can be read, as after a crash. Open it once without `read_only`."""


class KeyNeededError(MnemonError):
    """The database is encrypted. Give `Config(encryption_key=...)`."""


class WrongKeyError(MnemonError):
    """The database is encrypted with another key than the one given."""


class NotEncryptedError(MnemonError):
    """A key was given, and the database is not encrypted. Open it without `Config(encryption_key=...)`."""


class KeyUnavailableError(MnemonError):
    """The encryption key could not be read."""


class SharedDatabaseError(MnemonError):
    """The database that several machines share cannot be reached, or refused the call. A change was not stored.

    If `transient`, the same call may succeed later; otherwise the address, a right or a setting has to change.
    """

    transient: bool = False


# Models.


class ModelNotFoundError(MnemonError, LookupError):
    """There is no folder of such a model. `python -m mnemon models pull NAME` fetches one, `models import` makes one of a folder."""


class InvalidModelError(MnemonError):
    """A model folder lacks a file, or its files do not fit together."""


class ModelHashMismatchError(MnemonError):
    """A file of a model was damaged or replaced. Pull or import the model again."""


class ModelMismatchError(MnemonError):
    """The database was made with another model. Open it with that one, and move it to the other with `Engine.reindex`."""


class NoPreviousError(MnemonError):
    """No vectors of an earlier model are kept, so `Engine.rollback` has nothing to return to."""


class ReindexRunningError(MnemonError):
    """A `reindex` or `rollback` of this engine is running. Wait for its end, or let its `progress` return `False`."""


class DownloadError(MnemonError):
    """A model could not be downloaded. Without a network, `python -m mnemon models import` takes a folder."""


class RuntimeNotFoundError(MnemonError):
    """ONNX Runtime was not found: install the package `onnxruntime`, on which `mnemon-engine` depends, again."""


class RuntimeNotDownloadedError(MnemonError):
    """ONNX Runtime could not be downloaded. The package `onnxruntime` has it, too."""


class DeviceUnavailableError(MnemonError):
    """The device that `Config(device=...)` names cannot run models."""


class EmbeddingError(MnemonError):
    """The embedder failed on a text, which stays stored and pending. What a Python embedder raised is the cause."""


class EmbedderUnavailableError(MnemonError):
    """The embedder cannot be used for any text at the moment: its server is away, or refuses the key or the model."""


class RerankingError(MnemonError):
    """The reranker returned no usable scores. What a Python reranker raised is the cause."""


class ChatError(MnemonError):
    """The chat model returned no usable answer. What a Python function raised is the cause."""


class BlockError(MnemonError):
    """A memory block failed on a batch, which is kept and tried again. What a Python block raised is in the log `mnemon`."""


# Calls.


class ClosedError(MnemonError):
    """The engine is closed."""


class ForkedError(MnemonError, RuntimeError):
    """The engine was opened before this process was forked. Open it after the fork, in one of the processes."""


class DeadlockError(MnemonError, RuntimeError):
    """A call, such as `settle` in a block, would wait for the very callback that made it. Call it elsewhere."""


class DeadlineExceededError(MnemonError, TimeoutError):
    """The embedder was busy until the deadline of a query, `Query(within=...)`."""


class PanickedError(MnemonError, RuntimeError):
    """A callback, such as a token counter, or mnemon itself failed unexpectedly. What was committed before is stored."""


class ThreadNotStartedError(MnemonError, RuntimeError):
    """The system refused to start a thread. Raise its limit, or lower `Config(threads=...)`."""
