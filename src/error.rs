//! The one error type of the crate.
//!
//! A variant names the user's problem, carries the facts and states the remedy, in words that hold on every surface:
//! the command, the server and the Python package show these texts, and add the name of the remedy there. Errors of
//! other crates are boxed inside as the [`source`](std::error::Error::source), so that none of their types is public.

use std::{path::PathBuf, time::Duration};

/// Implements `Debug` for a type that has fields without `Debug`, or with too much of it: shows the named fields, or
/// these values, and `..` for the rest.
macro_rules! impl_debug {
    ($name:ident { $($field:ident),+ }) => {
        impl_debug!($name, self { $($field: self.$field),+ });
    };
    ($name:ident $(<$lifetime:lifetime>)?, $this:ident { $($field:ident: $value:expr),+ $(,)? }) => {
        impl std::fmt::Debug for $name $(<$lifetime>)? {
            fn fmt(&$this, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_struct(stringify!($name))$(.field(stringify!($field), &$value))+.finish_non_exhaustive()
            }
        }
    };
}
pub(crate) use impl_debug;

/// Adds a method for each public field of a type that sets the field.
macro_rules! setters {
    ($name:ident { $($field:ident: $type:ty),+ $(,)? }) => {
        impl $name {
            $(
                #[doc = concat!("Sets [`", stringify!($field), "`](field@", stringify!($name), "::", stringify!($field), ").")]
                pub fn $field(mut self, $field: $type) -> Self {
                    self.$field = $field;
                    self
                }
            )+
        }
    };
}
pub(crate) use setters;

/// The error of every fallible call in this crate.
///
/// `Debug` shows what `Display` shows, followed by the sources, so that a program whose `main` returns a [`Result`]
/// prints the remedy.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A namespace is not 1 to 16 labels of 1 to 512 bytes.
    #[error(
        "invalid namespace {given:?}: {reason}; a namespace is 1 to 16 labels joined by '/', such as \"acme/user-42\", where '/' in a label is written %2F"
    )]
    InvalidNamespace {
        /// The rejected text.
        given: String,
        /// The rule that the text breaks.
        reason: &'static str,
    },

    /// A cursor is not one that a list of this database returned.
    #[error("invalid cursor {given:?}: {reason}; give the cursor of the last page, or none for the first page")]
    InvalidCursor {
        /// The rejected cursor.
        given: String,
        /// The problem with the cursor.
        reason: &'static str,
    },

    /// A message cannot be stored.
    #[error("invalid message: {reason}")]
    InvalidMessage {
        /// The rule that the message breaks.
        reason: String,
    },

    /// A document cannot be stored.
    #[error("invalid document: {reason}")]
    InvalidDocument {
        /// The rule that the document breaks.
        reason: String,
    },

    /// The messages or documents that a call would return have more bytes than the caller set.
    #[error("{}", too_large(*.limit, *.is_busy))]
    AnswerTooLarge {
        /// The most bytes.
        limit: usize,
        /// True if it is the bytes of all answers in work that are too many, so that the same call may succeed later.
        is_busy: bool,
    },

    /// A document does not have the value that a batch of operations expected. Nothing of the batch was stored.
    #[error(
        "document {key:?} of namespace {namespace:?} was changed meanwhile, so nothing was stored; read it again and repeat the change"
    )]
    DocumentChanged {
        /// The namespace.
        namespace: String,
        /// The key.
        key: String,
    },

    /// Messages that something was made of, such as facts, were deleted, replaced or expired meanwhile. Nothing of it was
    /// stored.
    #[error(
        "messages of namespace {namespace:?} were deleted or changed while something was made of them, so nothing was stored; read them again and repeat the call"
    )]
    MessagesChanged {
        /// The namespace.
        namespace: String,
    },

    /// The namespace has no such session.
    /// [`Engine::sessions`](crate::Engine::sessions) lists its sessions.
    #[error("no session {session:?} in namespace {namespace:?}; list its sessions to see which there are")]
    SessionNotFound {
        /// The namespace.
        namespace: String,
        /// The id that was given.
        session: String,
    },

    /// A session of this id exists already.
    #[error("session {session:?} exists already; give another id, or delete it first")]
    SessionExists {
        /// The id that was given.
        session: String,
    },

    /// The session has no such checkpoint.
    /// [`Memory::checkpoints`](crate::Memory::checkpoints) lists its checkpoints.
    #[error("no checkpoint {checkpoint} in this session; list its checkpoints to see which there are")]
    CheckpointNotFound {
        /// The number that was given.
        checkpoint: u32,
    },

    /// A line of an export cannot be imported. Nothing of the export was stored.
    #[error("line {line} of the export: {reason}; nothing was imported")]
    InvalidImport {
        /// The number of the line, from 1.
        line: u64,
        /// The problem with the line.
        reason: String,
    },

    /// A namespace is to be imported that has sessions or documents already. Nothing of the export was stored.
    /// [`Engine::import_as`](crate::Engine::import_as) gives it another name.
    #[error(
        "namespace {namespace:?} has sessions, documents or block states already, so nothing was imported; import into another namespace, or delete this one first"
    )]
    NamespaceNotEmpty {
        /// The namespace.
        namespace: String,
    },

    /// A query is invalid.
    #[error("invalid query: {reason}")]
    InvalidQuery {
        /// The rule that the query breaks.
        reason: String,
    },

    /// A filter on metadata is invalid.
    #[error("invalid filter: {reason}")]
    InvalidFilter {
        /// The path, operator or value that is wrong.
        reason: String,
    },

    /// A setting is out of range, missing, or needs a feature that this build lacks.
    #[error("invalid setting: {reason}")]
    InvalidConfig {
        /// The setting, its value and its range.
        reason: String,
    },

    /// A vector has the wrong dimension or length, or a component that is not finite. It was not stored. A text that waits
    /// for its vector stays stored and pending.
    #[error(
        "invalid vector: {reason}; no vector was stored, and texts that wait for theirs stay stored: correct the embedder that made it"
    )]
    InvalidVector {
        /// The problem with the vector.
        reason: String,
    },

    /// No model folder has this name.
    #[error(
        "model {name:?} not found; looked in: {}; give the path of a folder with a manifest.toml, set MNEMON_MODELS to a folder of model folders, pull or import the model first, or, if the model is an embedder of your program, open the database with that embedder",
        list(.looked)
    )]
    ModelNotFound {
        /// The name or path that was given.
        name: String,
        /// The folders that were tried.
        looked: Vec<PathBuf>,
    },

    /// A model folder lacks a file, or its files do not fit together.
    #[error("model folder {}: {}", .path.display(), caused(.reason, .source))]
    InvalidModel {
        /// The folder, or `<bundled>/NAME`.
        path: PathBuf,
        /// The problem with the folder, and the remedy.
        reason: String,
        /// The underlying error, if there is one.
        #[source]
        source: Option<BoxError>,
    },

    /// A file of a model folder differs from the hash in the manifest.
    #[error(
        "{}: sha256 is {found}, but manifest.toml has {expected}; the file was damaged or replaced: import or pull the model again", .path.display()
    )]
    ModelHashMismatch {
        /// The file.
        path: PathBuf,
        /// The hash in the manifest.
        expected: String,
        /// The hash of the file.
        found: String,
    },

    /// A model could not be downloaded.
    #[error(
        "model {model:?} was not downloaded: {}; without a network, import a folder that was downloaded elsewhere",
        caused(.reason, .source)
    )]
    Download {
        /// The name that was given.
        model: String,
        /// The server, the file, and the cause of the failure.
        reason: String,
        /// The underlying error, if there is one.
        #[source]
        source: Option<BoxError>,
    },

    /// The database was made with a model other than the one given.
    #[error(
        "the database was made with model {stored}, but {given} was given; open it with {stored}, or move it to the other model by a reindex"
    )]
    ModelMismatch {
        /// The model that made the serving generation.
        stored: String,
        /// The model that was given.
        given: String,
    },

    /// A reindex or rollback of this engine is running.
    #[error(
        "a reindex or rollback of this engine is already running; wait until it ends, or cancel it through its progress callback"
    )]
    ReindexRunning,

    /// No previous generation of this model is kept, so a rollback is impossible.
    #[error("{}", no_previous(.kept.as_deref(), .given))]
    NoPrevious {
        /// The model of the previous generation, if one is kept.
        kept: Option<String>,
        /// The model that was given.
        given: String,
    },

    /// ONNX Runtime could not be loaded.
    #[error("{}", no_runtime(.looked))]
    RuntimeNotFound {
        /// Each path that was tried, with the reason why it was rejected. None in a program that can load no library:
        /// one that is linked statically with musl.
        looked: Vec<String>,
    },

    /// ONNX Runtime could not be downloaded.
    #[error(
        "ONNX Runtime was not downloaded: {}; it can be installed by other means too, for example with `pip install onnxruntime`: set ORT_DYLIB_PATH to the libonnxruntime library in its `capi` folder",
        caused(.reason, .source)
    )]
    RuntimeNotDownloaded {
        /// The server, the file, and the cause of the failure.
        reason: String,
        /// The underlying error, if there is one.
        #[source]
        source: Option<BoxError>,
    },

    /// The model returned no vectors for a text. The text stays stored and pending.
    #[error("embedding failed: {}", caused(.reason, .source))]
    Embedding {
        /// The cause of the failure.
        reason: String,
        /// The underlying error, if there is one.
        #[source]
        source: Option<BoxError>,
    },

    /// The embedder cannot be used for any text: its server cannot be reached, accepts no requests at the moment, does
    /// not know the key, the model or the address, or returns vectors of another dimension. Texts stay stored and
    /// pending.
    #[error("the embedder cannot be used: {reason}{}", advice(*.transient, *.retry_after))]
    EmbedderUnavailable {
        /// The cause of the failure.
        reason: String,
        /// Whether the embedder may work later. Otherwise the key or a setting has to change.
        transient: bool,
        /// The time after which the server allows another request.
        retry_after: Option<Duration>,
        /// The underlying error, if there is one.
        #[source]
        source: Option<BoxError>,
    },

    /// The embedder was busy until the query's deadline.
    #[error(
        "the embedder was busy until the query's deadline; try again with more time, or with fewer queries at once"
    )]
    DeadlineExceeded,

    /// The requested device cannot run models.
    #[error("device {device:?} cannot run models: {}", caused(.reason, .source))]
    DeviceUnavailable {
        /// The device.
        device: String,
        /// The cause, and the remedy.
        reason: String,
        /// The underlying error, if there is one.
        #[source]
        source: Option<BoxError>,
    },

    /// A reranker returned no usable scores.
    #[error("reranker {reranker:?} failed: {}; query without the reranker, or use another one", caused(.reason, .source))]
    Reranking {
        /// The reranker's name.
        reranker: String,
        /// The cause of the failure.
        reason: String,
        /// The underlying error, if there is one.
        #[source]
        source: Option<BoxError>,
    },

    /// The chat model returned no usable answer.
    #[error("the chat model failed: {reason}{}", advice(*.transient, *.retry_after))]
    Chat {
        /// The cause of the failure.
        reason: String,
        /// Whether the same request may succeed later: the connection failed, the server is busy or broken, or its
        /// answer was unusable. Otherwise the request has to change.
        transient: bool,
        /// The time after which the server allows another request.
        retry_after: Option<Duration>,
        /// The underlying error, if there is one.
        #[source]
        source: Option<BoxError>,
    },

    /// The chat model cannot be used for any request: its server does not know the key, the model or the address, or refuses
    /// the account. What waits for the model goes on when it answers.
    #[error("the chat model cannot be used: {reason}; check its address, its name, the key and the account")]
    ChatUnavailable {
        /// The answer of the server.
        reason: String,
        /// The underlying error, if there is one.
        #[source]
        source: Option<BoxError>,
    },

    /// The database, the folder of a history, or the file of an embedding cache is already open, in another process or
    /// in this one.
    ///
    /// Within a process an [`Engine`](crate::Engine) is shared by clones of it, a [`FileHistory`](crate::FileHistory)
    /// by an `Arc`. [`Engine::open_read_only`](crate::Engine::open_read_only) reads a database beside the process that
    /// writes.
    #[error("{}: already open in {}; close it there first, share it within the process, or open a database for reading only", .path.display(), opened_by(*.holder))]
    DatabaseLocked {
        /// The file or folder.
        path: PathBuf,
        /// The id of the process that has it open, if the system tells: Linux does, of processes of the same user.
        holder: Option<u32>,
    },

    /// Something in the namespace would be deleted, which a legal hold forbids.
    #[error(
        "namespace {namespace:?} is under a legal hold, set on {held:?}: {reason}; nothing was deleted: release the hold first"
    )]
    LegalHold {
        /// The namespace.
        namespace: String,
        /// The namespace that the hold was set on: the same, or one above it.
        held: String,
        /// The reason of the hold.
        reason: String,
    },

    /// The engine was opened for reading, and the call would write.
    /// [`Engine::open`](crate::Engine::open) opens it for writing.
    #[error("{}: open for reading only; open it for writing to change it", .path.display())]
    ReadOnly {
        /// The database file.
        path: PathBuf,
    },

    /// The database cannot be opened for reading only as it is.
    #[error("{}: cannot be opened for reading only: {reason}; open it once for writing", .path.display())]
    WriteAccessNeeded {
        /// The database file.
        path: PathBuf,
        /// Why the file must be written first.
        reason: String,
    },

    /// A file of messages has a line that cannot be read, or a message that cannot be stored.
    #[error("{file}:{line}: {reason}")]
    InvalidFile {
        /// The file, as it was named to the reader.
        file: String,
        /// The number of the line.
        line: u64,
        /// The reason.
        reason: String,
    },

    /// No line of a file is of the format in which it was read.
    #[error("{file}: nothing in it is of the format {given}; {}", other_format(*.fitting))]
    OtherFormat {
        /// The file, as it was named to the reader.
        file: String,
        /// The format in which it was read.
        given: &'static str,
        /// The format that it has.
        fitting: Option<&'static str>,
    },

    /// A line of a history's file is invalid.
    #[error("{}, line {line}: {reason}; the file was damaged or edited: restore a copy, or correct the line", .path.display())]
    InvalidHistory {
        /// The file.
        path: PathBuf,
        /// The number of the line, from 1.
        line: usize,
        /// The problem with the line.
        reason: String,
    },

    /// The file is not a mnemon database, or it is too damaged to open.
    #[error("{}: not a mnemon database, or damaged: {reason}; check the path, or restore a copy", .path.display())]
    NotADatabase {
        /// The database file.
        path: PathBuf,
        /// The contents or damage that was found.
        reason: String,
    },

    /// A file that is to be written exists already.
    #[error("{}: exists already; give another name, or remove it first", .path.display())]
    FileExists {
        /// The file.
        path: PathBuf,
    },

    /// The database is encrypted, and no key was given.
    #[error("{}: encrypted, and no key was given; give the key that it was created with, in a build with the feature `encryption`", .path.display())]
    KeyNeeded {
        /// The database file.
        path: PathBuf,
    },

    /// The database is encrypted with another key than the one given.
    #[error("{}: encrypted with another key; give the key that it was created with: nothing in it can be read without", .path.display())]
    WrongKey {
        /// The database file.
        path: PathBuf,
    },

    /// A key was given for a database that is not encrypted.
    #[error("{}: not encrypted, but a key was given; open it without a key, or make a backup of it that is encrypted", .path.display())]
    NotEncrypted {
        /// The database file.
        path: PathBuf,
    },

    /// The encryption key could not be read.
    #[error(
        "no encryption key: {}; a key is a file of 32 bytes or of 64 hexadecimal digits, or a variable of 64 hexadecimal digits",
        caused(.reason, .source)
    )]
    KeyUnavailable {
        /// The source of the key, and its problem.
        reason: String,
        /// The underlying error, if there is one.
        #[source]
        source: Option<BoxError>,
    },

    /// The path by which the database was opened leads to no file, or to another one than the engine has open: somebody
    /// moved, removed or replaced the file. Nothing was stored, because nobody could find it by that path. The engine
    /// still reads what the file has, and writes again once the path leads to it.
    #[error("{}: this path no longer leads to the database that is open, because its file was moved, removed or replaced, so nothing was changed; put the file back, or close the database and open what the path leads to now", .path.display())]
    DatabaseMoved {
        /// The path by which the database was opened.
        path: PathBuf,
    },

    /// The database does not have the commit that [`Config::anchor`](field@crate::Config::anchor) names: somebody put an
    /// older copy, or another file, in its place.
    #[error("{}: it does not have the commit {expected}, and its last one is {found}, so this is an older copy or another database; put the newer file back, or accept this one by opening it without the anchor", .path.display())]
    OlderDatabase {
        /// The database file.
        path: PathBuf,
        /// The anchor that was given.
        expected: String,
        /// The anchor of the file.
        found: String,
    },

    /// The database does not exist, and the call does not create one.
    #[error("{}: no such database; check the path, or create it first by opening it for writing", .path.display())]
    DatabaseNotFound {
        /// The database file.
        path: PathBuf,
    },

    /// The database, or the file of a history, was written by a newer release.
    #[error("{}: written by a newer version of mnemon (schema {found}; this version reads up to {supported}); update mnemon", .path.display())]
    NewerSchema {
        /// The file.
        path: PathBuf,
        /// The schema version of the file.
        found: u32,
        /// The newest schema version that this release reads.
        supported: u32,
    },

    /// A value in the database cannot be decoded, or contradicts another one.
    #[error("damaged database: {what}; restore a backup, or take what can be read into a new database by a salvage")]
    Corrupted {
        /// The damage.
        what: String,
    },

    /// A commit failed at its end: the file failed while the commit was being made durable, or the shared database did
    /// not answer. The change may be stored or not. The engine has opened the file again, so a read tells which, as
    /// long as the system does not crash. Repeating the change is safe if it states its whole result, as
    /// [`put`](crate::Engine::put) and [`delete`](crate::Engine::delete) by id do.
    #[error(
        "a commit failed at its end ({cause}), so the change may be stored or not; mend the cause, then read what was to be written, or repeat the change"
    )]
    OutcomeUnknown {
        /// The first error of the file, or of the connection.
        cause: String,
    },

    /// The database that several machines share could not be reached, or refused the call. A change was not stored.
    /// Reads with [`Freshness::Local`](crate::Freshness) do not need it.
    #[error("the shared database: {reason}{}", advice(*.transient, None))]
    SharedDatabase {
        /// The cause of the failure. It has no address and no password.
        reason: String,
        /// Whether the same call may succeed later. Otherwise the address, a right or a setting has to change.
        transient: bool,
    },

    /// Reading or writing a file failed: the disk is full, a device failed, or a file was removed.
    #[error("a file could not be read or written: {}; mend the cause first", chain(&**.0))]
    Storage(#[source] BoxError),

    /// A memory block failed to process a batch. The batch is kept and retried.
    #[error("block {name:?} failed: {reason}; its batch is kept and will be retried")]
    Block {
        /// The block's name.
        name: String,
        /// The cause of the failure.
        reason: String,
    },

    /// Code that the engine called panicked, such as an embedder, a token counter or a block.
    #[error(
        "a call panicked: {message}; the engine is open, and what was committed before is stored; look for the fault in the embedder, token counter, block or callback that was given to the engine"
    )]
    Panicked {
        /// The message of the panic.
        message: String,
    },

    /// The system refused to start a thread.
    #[error(
        "the system did not start the thread {name:?}: {source}; raise its limit of threads, or lower the setting threads"
    )]
    ThreadNotStarted {
        /// The name of the thread.
        name: String,
        /// The error of the system.
        #[source]
        source: BoxError,
    },

    /// The engine was closed, or one of its threads died.
    #[error("the engine is closed; open it again")]
    Closed,
}

/// An error of another crate, kept as the source of an [`enum@Error`].
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// [`std::result::Result`] with this crate's [`enum@Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl From<mnemon_index::Damaged> for Error {
    fn from(damaged: mnemon_index::Damaged) -> Self {
        Error::corrupted(damaged.0)
    }
}

impl std::fmt::Debug for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&chain(self))
    }
}

/// Returns the reason of an error with its source, unless the reason says it.
fn caused(reason: &str, source: &Option<BoxError>) -> String {
    let cause = source.as_ref().map(|source| chain(&**source)).unwrap_or_default();
    // An embedder may pass on the error of another.
    match cause.strip_prefix("embedding failed: ").unwrap_or(&cause) {
        cause if reason.contains(cause) => reason.to_owned(),
        cause => format!("{reason}: {cause}"),
    }
}

/// Returns the text of an error and of its sources, without repetitions.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(error) = next {
        let more = error.to_string();
        let label = text.find(": ").map_or("", |end| &text[..end + 2]);
        let more = more.strip_prefix(label).unwrap_or(&more);
        if !text.contains(more) {
            text = format!("{text}: {more}");
        }
        next = error.source();
    }
    text
}

impl Error {
    pub(crate) fn message(reason: impl Into<String>) -> Self {
        Error::InvalidMessage { reason: without_label(reason.into(), "invalid message: ") }
    }

    #[cfg(feature = "formats")]
    pub(crate) fn file(file: &str, line: u64, reason: impl Into<String>) -> Self {
        Error::InvalidFile { file: file.to_owned(), line, reason: reason.into() }
    }

    pub(crate) fn document(reason: impl Into<String>) -> Self {
        Error::InvalidDocument { reason: reason.into() }
    }

    pub(crate) fn query(reason: impl Into<String>) -> Self {
        Error::InvalidQuery { reason: without_label(reason.into(), "invalid query: ") }
    }

    pub(crate) fn filter(reason: impl Into<String>) -> Self {
        Error::InvalidFilter { reason: without_label(reason.into(), "invalid filter: ") }
    }

    /// Returns the error of a chat request that would fail again.
    pub(crate) fn chat(reason: impl Into<String>) -> Self {
        Error::Chat { reason: reason.into(), transient: false, retry_after: None, source: None }
    }

    pub(crate) fn no_session(namespace: &impl ToString, session: &str) -> Self {
        Error::SessionNotFound { namespace: namespace.to_string(), session: session.to_owned() }
    }

    pub(crate) fn corrupted(what: impl Into<String>) -> Self {
        Error::Corrupted { what: what.into() }
    }

    /// Returns the cause of [`Error::Storage`], for another error of its kind; the text of any other error.
    pub(crate) fn cause(&self) -> String {
        match self {
            Error::Storage(source) => chain(&**source),
            error => chain(error),
        }
    }

    /// Adds the place of the damage to [`Error::Corrupted`].
    pub(crate) fn within(self, place: impl FnOnce() -> String) -> Self {
        match self {
            Error::Corrupted { what } => Error::Corrupted { what: format!("{}: {what}", place()) },
            error => error,
        }
    }
}

/// Removes the label of an error from the reason of another error of the same kind. Deserializers pass errors on as
/// text.
fn without_label(reason: String, label: &str) -> String {
    match reason.split_once(label) {
        // Not in quoted text.
        Some((before, after)) if !before.contains('"') => format!("{before}{after}"),
        _ => reason,
    }
}

fn no_previous(kept: Option<&str>, given: &str) -> String {
    match kept {
        Some(kept) => {
            format!("the previous generation was made with model {kept}, but {given} was given; roll back with {kept}")
        }
        None => {
            format!("no previous generation is kept, so there is nothing to roll back to; reindex to {given} instead")
        }
    }
}

fn too_large(limit: usize, is_busy: bool) -> String {
    match is_busy {
        true => format!("the answers that are being made have {limit} bytes, the most at a time; try again later"),
        false => {
            format!("the answer would have more than {limit} bytes; ask for fewer messages or documents at a time")
        }
    }
}

fn advice(transient: bool, retry_after: Option<Duration>) -> String {
    match (transient, retry_after) {
        (true, Some(wait)) => format!("; try again in {} s", wait.as_secs_f64().ceil()),
        (true, None) => "; try again later".to_owned(),
        (false, _) => "; the same request will fail again".to_owned(),
    }
}

fn other_format(fitting: Option<&str>) -> String {
    match fitting {
        Some(format) => format!("it is of the format {format}: read it as that"),
        None => "name the format that it has".to_owned(),
    }
}

fn opened_by(process: Option<u32>) -> String {
    match process {
        Some(id) if id == std::process::id() => "this process".to_owned(),
        Some(id) => format!("the process {id}"),
        None => "another process or in this one".to_owned(),
    }
}

fn list(paths: &[PathBuf]) -> String {
    let paths: Vec<_> = paths.iter().map(|path| path.display().to_string()).collect();
    paths.join(", ")
}

fn no_runtime(looked: &[String]) -> String {
    if looked.is_empty() {
        return "this model needs ONNX Runtime, a shared library, and this program is linked statically, which can load \
                none; use the built-in model or another table of tokens, or a program that is linked dynamically: the \
                Python package `mnemon-engine` has the command, and `cargo install` builds it"
            .to_owned();
    }
    format!(
        "this model needs ONNX Runtime, which was not found; tried:\n{}install it, for example with `pip install onnxruntime`, and set ORT_DYLIB_PATH to the libonnxruntime library in its `capi` folder",
        lines(looked)
    )
}

fn lines(items: &[String]) -> String {
    items.iter().map(|item| format!("  {item}\n")).collect()
}
