//! One exception for each variant of the crate's error, all under `MnemonError`.

use std::error::Error as _;

use mnemon::Error;
use pyo3::{create_exception, exceptions::PyException, prelude::*};

create_exception!(mnemon, MnemonError, PyException, "An error of mnemon. Its text says the remedy.");

macro_rules! exceptions {
    ($($variant:ident => $exception:ident,)+) => {
        $(create_exception!(mnemon, $exception, MnemonError, concat!("See `Error::", stringify!($variant), "` of the crate."));)+

        pub(crate) fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
            let py = module.py();
            module.add("MnemonError", py.get_type::<MnemonError>())?;
            $(module.add(stringify!($exception), py.get_type::<$exception>())?;)+
            Ok(())
        }

        fn exception(error: &Error, text: String) -> PyErr {
            match error {
                $(Error::$variant { .. } => $exception::new_err(text),)+
                _ => MnemonError::new_err(text),
            }
        }
    };
}

exceptions! {
    Block => BlockError,
    Chat => ChatError,
    CheckpointNotFound => CheckpointNotFoundError,
    Closed => ClosedError,
    Corrupted => CorruptedError,
    DatabaseLocked => DatabaseLockedError,
    DatabaseNotFound => DatabaseNotFoundError,
    DeadlineExceeded => DeadlineExceededError,
    DeviceUnavailable => DeviceUnavailableError,
    DocumentChanged => DocumentChangedError,
    Download => DownloadError,
    EmbedderUnavailable => EmbedderUnavailableError,
    Embedding => EmbeddingError,
    FileExists => DatabaseExistsError,
    InvalidConfig => InvalidConfigError,
    InvalidCursor => InvalidCursorError,
    InvalidDocument => InvalidDocumentError,
    InvalidFilter => InvalidFilterError,
    InvalidHistory => InvalidHistoryError,
    InvalidImport => InvalidImportError,
    InvalidMessage => InvalidMessageError,
    InvalidModel => InvalidModelError,
    InvalidNamespace => InvalidNamespaceError,
    InvalidQuery => InvalidQueryError,
    InvalidVector => InvalidVectorError,
    KeyNeeded => KeyNeededError,
    KeyUnavailable => KeyUnavailableError,
    LegalHold => LegalHoldError,
    ModelHashMismatch => ModelHashMismatchError,
    ModelMismatch => ModelMismatchError,
    ModelNotFound => ModelNotFoundError,
    NamespaceNotEmpty => NamespaceNotEmptyError,
    NewerSchema => NewerSchemaError,
    NoPrevious => NoPreviousError,
    NotADatabase => NotADatabaseError,
    NotEncrypted => NotEncryptedError,
    OutcomeUnknown => OutcomeUnknownError,
    Panicked => PanickedError,
    ReadOnly => ReadOnlyError,
    ReindexRunning => ReindexRunningError,
    Reranking => RerankingError,
    RuntimeNotDownloaded => RuntimeNotDownloadedError,
    RuntimeNotFound => RuntimeNotFoundError,
    SessionExists => SessionExistsError,
    SessionNotFound => SessionNotFoundError,
    SharedDatabase => SharedDatabaseError,
    Storage => StorageError,
    ThreadNotStarted => ThreadNotStartedError,
    WriteAccessNeeded => WriteAccessNeededError,
    WrongKey => WrongKeyError,
}

/// Returns the exception for an error. If Python code that the engine called raised one, that is its cause; if that is no
/// error but what ends a program, such as `KeyboardInterrupt`, it is the exception itself.
pub(crate) fn raised(py: Python<'_>, error: Error) -> PyErr {
    // The debug format has the sources too.
    let raised = exception(&error, format!("{error:?}"));
    let mut source = error.source();
    while let Some(error) = source {
        if let Some(cause) = error.downcast_ref::<PyErr>() {
            if ends_program(py, cause) {
                return cause.clone_ref(py);
            }
            raised.set_cause(py, Some(cause.clone_ref(py)));
        }
        source = error.source();
    }
    raised
}

/// Returns whether an exception is none that a program should catch, such as `KeyboardInterrupt` and `SystemExit`.
pub(crate) fn ends_program(py: Python<'_>, error: &PyErr) -> bool {
    !error.is_instance_of::<PyException>(py)
}
