//! Exceptions: `mnemon._errors` in Python has one for each variant of the crate's error, and some of its own.

use std::{error::Error as _, fmt, io, path::Path};

use mnemon::{BoxError, Error};
use pyo3::{
    exceptions::PyException,
    prelude::*,
    types::{PyString, PyType},
};

/// The exception of each variant, and how the remedy that its text states is called in Python.
macro_rules! exceptions {
    ($($variant:ident => $exception:ident $($remedy:literal)?,)+) => {
        fn exception(error: &Error) -> (&'static str, Option<&'static str>) {
            match error {
                $(Error::$variant { .. } => (stringify!($exception), None$(.or(Some($remedy)))?),)+
                _ => ("MnemonError", None),
            }
        }
    };
}

exceptions! {
    AnswerTooLarge => InvalidQueryError,
    Block => BlockError,
    Chat => ChatError,
    ChatUnavailable => ChatError,
    CheckpointNotFound => CheckpointNotFoundError "Memory.checkpoints()",
    Closed => ClosedError,
    Corrupted => CorruptedError "python -m mnemon salvage",
    DatabaseLocked => DatabaseLockedError "Engine(path, read_only=True)",
    DatabaseMoved => DatabaseMovedError "Engine(path)",
    DatabaseNotFound => DatabaseNotFoundError "Engine(path)",
    DeadlineExceeded => DeadlineExceededError,
    DeviceUnavailable => DeviceUnavailableError,
    DocumentChanged => DocumentChangedError,
    Download => DownloadError "python -m mnemon models import",
    EmbedderUnavailable => EmbedderUnavailableError,
    Embedding => EmbeddingError,
    FileExists => PathExistsError,
    InvalidConfig => InvalidConfigError,
    InvalidCursor => InvalidCursorError,
    InvalidDocument => InvalidDocumentError,
    InvalidFile => InvalidMessageError,
    InvalidFilter => InvalidFilterError,
    InvalidHistory => InvalidHistoryError,
    InvalidImport => InvalidImportError,
    InvalidMessage => InvalidMessageError,
    InvalidModel => InvalidModelError,
    InvalidNamespace => InvalidNamespaceError "mnemon.namespace_of(labels)",
    InvalidQuery => InvalidQueryError,
    InvalidVector => InvalidVectorError,
    KeyNeeded => KeyNeededError "Config(encryption_key=...)",
    KeyUnavailable => KeyUnavailableError,
    LegalHold => LegalHoldError "Engine.release(namespace)",
    ModelHashMismatch => ModelHashMismatchError,
    ModelMismatch => ModelMismatchError "Engine.reindex(embedder)",
    ModelNotFound => ModelNotFoundError "python -m mnemon models",
    NamespaceNotEmpty => NamespaceNotEmptyError "Engine.import_from(path, namespace)",
    NewerSchema => NewerSchemaError,
    NoPrevious => NoPreviousError,
    NotADatabase => NotADatabaseError,
    NotEncrypted => NotEncryptedError "leave out Config(encryption_key=...)",
    OlderDatabase => OlderDatabaseError "Engine(path)",
    OtherFormat => InvalidMessageError,
    OutcomeUnknown => OutcomeUnknownError,
    MessagesChanged => MessagesChangedError,
    Panicked => PanickedError,
    ReadOnly => ReadOnlyError "Engine(path)",
    ReindexRunning => ReindexRunningError,
    Reranking => RerankingError,
    RuntimeNotDownloaded => RuntimeNotDownloadedError,
    RuntimeNotFound => RuntimeNotFoundError,
    SessionExists => SessionExistsError,
    SessionNotFound => SessionNotFoundError "Engine.sessions(namespace)",
    SharedDatabase => SharedDatabaseError,
    Storage => StorageError,
    ThreadNotStarted => ThreadNotStartedError "Config(threads=...)",
    WriteAccessNeeded => WriteAccessNeededError "Engine(path)",
    WrongKey => WrongKeyError,
}

/// Remedies of the crate for other surfaces, and those of this package.
const WORDS: [(&str, &str); 3] = [
    (", in a build with the feature `encryption`", ""),
    (
        "this program was built without mnemon's feature `cuda`; enable the feature, or run on the CPU",
        "this package runs models on the CPU alone; leave out Config(device=...)",
    ),
    (
        "(`mnemon --shared`), open it for reading, or take a namespace out with `mnemon unshare`",
        "(Engine(path, shared=...)), open it with read_only=True, or take a namespace out with `python -m mnemon unshare`",
    ),
];

/// Returns the exception for an error. If Python code that the engine called raised one, that is its cause; if that is no
/// error but what ends a program, such as `KeyboardInterrupt`, it is the exception itself.
pub(crate) fn raised(py: Python<'_>, error: Error) -> PyErr {
    let (class, remedy) = exception(&error);
    // The debug format has the sources too.
    let text = WORDS.iter().fold(format!("{error:?}"), |text, (rust, python)| text.replace(rust, python));
    let text = match remedy {
        Some(remedy) => format!("{text} ({remedy})"),
        None => text,
    };
    let raised = of_class(py, class, text);
    if let Error::SharedDatabase { transient, .. } = error {
        let _ = raised.value(py).setattr("transient", transient);
    }
    let mut source = error.source();
    while let Some(error) = source {
        if let Some(Cause { raised: cause, .. }) = error.downcast_ref() {
            if ends_program(py, cause) {
                return cause.clone_ref(py);
            }
            raised.set_cause(py, Some(cause.clone_ref(py)));
        }
        source = error.source();
    }
    raised
}

/// An exception of Python code that the engine called, as the source of an error that has its text as the reason.
#[derive(Debug)]
struct Cause {
    reason: String,
    raised: PyErr,
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}

impl std::error::Error for Cause {}

pub(crate) fn cause(reason: &str, raised: PyErr) -> BoxError {
    Box::new(Cause { reason: reason.to_owned(), raised })
}

/// Returns an exception of `mnemon._errors`.
pub(crate) fn of_class(py: Python<'_>, class: &str, text: impl Into<String>) -> PyErr {
    let class = py.import("mnemon._errors").and_then(|module| Ok(module.getattr(class)?.cast_into::<PyType>()?));
    match class {
        Ok(class) => PyErr::from_type(class, (text.into(),)),
        Err(error) => error,
    }
}

/// Returns the exception for an argument of a wrong value.
pub(crate) fn invalid(py: Python<'_>, text: impl Into<String>) -> PyErr {
    of_class(py, "InvalidValueError", text)
}

/// Returns the exception for an argument of a wrong type.
pub(crate) fn wrong_type(py: Python<'_>, text: impl Into<String>) -> PyErr {
    of_class(py, "InvalidTypeError", text)
}

/// Returns the exception for an argument that is something else than what is needed.
pub(crate) fn not_a(needed: &str, object: &Bound<'_, PyAny>) -> PyErr {
    wrong_type(object.py(), format!("{needed} is needed here, not {}", kind_of(object)))
}

/// Returns an exception with the note that names the argument, as PyO3 makes it for those that it reads.
pub(crate) fn noted(py: Python<'_>, error: PyErr, argument: &str) -> PyErr {
    let _ = error.add_note(py, format!("while processing '{argument}'"));
    error
}

/// Returns the name of an object's class.
pub(crate) fn kind_of(object: &Bound<'_, PyAny>) -> String {
    object.get_type().qualname().map_or_else(|_| "another object".to_owned(), |name| name.to_string())
}

/// Returns the exception for a file that could not be read or written.
pub(crate) fn of_file(py: Python<'_>, path: &Path, error: &io::Error) -> PyErr {
    match error.kind() {
        io::ErrorKind::AlreadyExists => raised(py, Error::FileExists { path: path.to_owned() }),
        io::ErrorKind::NotFound => {
            let text = format!("{}: no such file or folder; check the path", path.display());
            of_class(py, "PathNotFoundError", text)
        }
        _ => of_class(py, "StorageError", format!("{}: {error}", path.display())),
    }
}

/// Returns what an exception of Python code that the engine called says: its class and its text, unless it is ours.
pub(crate) fn reason_of(py: Python<'_>, error: &PyErr) -> String {
    let is_ours = py
        .import("mnemon._errors")
        .and_then(|module| error.value(py).is_instance(&module.getattr("MnemonError")?))
        .unwrap_or(false);
    let text = || error.value(py).str().ok().map(|text: Bound<'_, PyString>| text.to_string_lossy().into_owned());
    match error.value(py).is_exact_instance_of::<PyException>() || is_ours {
        true => text().filter(|text| !text.is_empty()).unwrap_or_else(|| error.to_string()),
        false => error.to_string(),
    }
}

/// Returns whether an exception is none that a program should catch, such as `KeyboardInterrupt` and `SystemExit`.
pub(crate) fn ends_program(py: Python<'_>, error: &PyErr) -> bool {
    !error.is_instance_of::<PyException>(py)
}
