//! The primary as a replica sees it: what a replica pushes to it and asks of it.

use std::{any::Any, time::Duration};

use sha2::{Digest, Sha256};

use crate::{
    error::Result,
    ids::ModelIdentity,
    store::{Change, History, Sharing, Version},
};

/// A database that several machines share. Its calls wait for the network: they return an error within the time limit
/// that it was opened with.
pub(crate) trait Upstream: Send + Sync {
    /// Returns the identity of this database, which no other one has.
    fn origin(&self) -> &str;

    /// Returns the time limit of each call.
    fn timeout(&self) -> Duration;

    /// Returns true if the database has answered since it was opened.
    fn is_connected(&self) -> bool;

    /// Returns the key that seals the memory in prompts, the same for all machines.
    fn seal_key(&self) -> [u8; 32];

    /// Pushes changes of namespaces, all or none. Succeeds only if these namespaces, and those that the changes depend
    /// on, are at the versions that the replica knows.
    ///
    /// # Errors
    /// [`Error::SharedDatabase`](crate::Error::SharedDatabase), and nothing was stored.
    fn push(&self, sharing: &Sharing) -> Result<Pushed>;

    /// Waits until no other machine changes these namespaces, and keeps them from it until the turn ends. `None` if there are
    /// too few connections for that.
    fn take_turn(&self, namespaces: &[String]) -> Result<Option<Turn>>;

    /// Same as [`Upstream::push`], and ends a turn.
    fn push_in_turn(&self, turn: Turn, sharing: &Sharing) -> Result<Pushed>;

    /// Returns the names and versions of those of the namespaces that exist.
    fn versions(&self, namespaces: &[String]) -> Result<Vec<(String, Version)>>;

    /// Returns what changed in a namespace after the newest version of a history, up to now; `None` if nothing changed. If
    /// the primary does not have that version, returns everything that it has.
    fn pull(&self, namespace: &str, history: &History) -> Result<Option<Change>>;

    /// Asks a question and does not wait. `tell` is called once with the answer or an error, within the time limit; and
    /// before that with [`Told::Nothing`] if the database did not react for `patience`. It is called on a thread that
    /// must not wait. If the upstream is dropped, `tell` is dropped without a call.
    fn ask(&self, question: Question, patience: Duration, tell: Box<dyn Fn(Told) + Send + Sync>);

    /// Returns the vectors of messages by a model; `None` for a message that has none at its revision.
    fn vectors(&self, model: &ModelIdentity, wanted: &[WantedVectors]) -> Result<Vec<Option<Vec<Vec<f32>>>>>;

    /// Offers vectors to the other machines. Those of messages that were changed or deleted meanwhile are left out, and
    /// those of a replica whose version the primary does not have.
    fn offer_vectors(&self, model: &ModelIdentity, vectors: &[SharedVectors<'_>]) -> Result<()>;

    /// Leases some work in namespaces for a time, or renews the leases. Returns the leases of those namespaces in which
    /// no other machine has the work.
    fn lease(&self, work: &str, namespaces: &[String], time: Duration) -> Result<Vec<Lease>>;

    /// Ends leases.
    fn release(&self, leases: &[Lease]) -> Result<()>;

    /// Returns the bucket of a namespace, by which its changes are announced.
    fn bucket(&self, namespace: &str) -> u8;

    /// Calls `notified` with the announcements of other machines, until the upstream is dropped. It is called on a
    /// thread that must not wait.
    fn listen(&self, notified: Box<dyn Fn(Notified) + Send + Sync>);

    /// Says whether anybody calls the engine. While nobody does, no connection is held to listen.
    fn set_awake(&self, is_awake: bool);

    // The model that serves on all machines, and the reindex to another one, which they share out.

    /// Returns the model that serves; `None` before the first engine.
    fn serving_model(&self) -> Result<Option<ModelIdentity>>;

    /// Sets the serving model, unless a model serves already.
    fn set_first_model(&self, model: &ModelIdentity) -> Result<()>;

    /// Begins a reindex to this model, or joins the one that runs. Any reindex to another model is abandoned.
    fn begin_reindex(&self, to: &ModelIdentity) -> Result<Begun>;

    /// Adds the next namespaces after a name to the work of a reindex. Returns the last of them; `None` when all are
    /// added.
    fn list_work(&self, reindex: ReindexId, after: &str) -> Result<Option<String>>;

    /// Claims up to `limit` namespaces that no other machine works on, for a time. Returns no name if other machines
    /// work on all that are left, and `None` if none is left.
    fn claim_work(&self, reindex: ReindexId, limit: usize, time: Duration) -> Result<Option<Vec<String>>>;

    /// Extends the claims of this machine by a time. With zero, gives them back.
    fn keep_work(&self, reindex: ReindexId, time: Duration) -> Result<()>;

    /// Records that all messages of a namespace have vectors, as of a version.
    fn work_done(&self, reindex: ReindexId, namespace: &str, version: u64) -> Result<()>;

    /// Returns the numbers of messages in the namespaces that are done, and in all.
    fn reindex_progress(&self, reindex: ReindexId) -> Result<(u64, u64)>;

    /// Returns up to `limit` namespaces with more messages than this.
    fn larger_namespaces(&self, more_than: u64, limit: usize) -> Result<Vec<String>>;

    /// Lets the new model serve on all machines, or records why it does not. The first machine that calls this decides.
    fn decide(&self, reindex: ReindexId, verdict: &Verdict) -> Result<Decision>;

    /// Switches back to the previous model, if it is this one.
    fn roll_back(&self, to: &ModelIdentity) -> Result<RolledBack>;

    /// Deletes the record and the vectors of the model that is kept for a rollback. Returns true if there was one.
    fn drop_previous_model(&self) -> Result<bool>;
}

/// A question of a read.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Question {
    /// What changed in a namespace after the newest version of a history?
    Changes { namespace: String, history: History },
    /// Which namespaces exist or existed, under a prefix or at all?
    Namespaces { prefix: Option<String> },
}

#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "there is one for each read, which is moved once")]
pub(crate) enum Answer {
    /// `None` if nothing changed.
    Change(Option<Change>),
    /// The name and version of each namespace, and whether it exists.
    Namespaces(Vec<(String, Version, bool)>),
}

/// A message about a question.
#[expect(clippy::large_enum_variant, reason = "there is one for each read, which is moved once")]
pub(crate) enum Told {
    /// The database has not reacted for some time.
    Nothing,
    Answer(Result<Answer>),
}

/// The outcome of a push.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pushed {
    /// The changes are stored.
    Committed,
    /// A namespace is at another version, and nothing was stored.
    Behind,
}

/// The right to change namespaces before all other machines. It ends when it is dropped.
pub(crate) type Turn = Box<dyn Any + Send>;

/// A message whose vectors are wanted.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct WantedVectors {
    pub(crate) namespace: String,
    /// True for a text of a document.
    pub(crate) is_text: bool,
    pub(crate) seq: u64,
    pub(crate) revision: u64,
    /// See [`WantedVectors::hash`].
    pub(crate) text_hash: i64,
}

impl WantedVectors {
    /// Returns a hash of a text.
    pub(crate) fn hash(text: &str) -> i64 {
        let hash: [u8; 32] = Sha256::digest(text).into();
        i64::from_le_bytes(*hash.first_chunk().expect("32 bytes are more than 8"))
    }
}

/// The vectors of a message, one for each chunk of its text.
#[derive(Clone, Debug)]
pub(crate) struct SharedVectors<'v> {
    pub(crate) of: WantedVectors,
    /// The version of the namespace in the replica that has the message.
    pub(crate) version: Version,
    pub(crate) vectors: &'v [Vec<f32>],
}

/// The right to do some work in a namespace, for a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Lease {
    pub(crate) namespace: String,
    pub(crate) work: String,
}

/// An announcement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Notified {
    /// Namespaces in this bucket changed.
    Bucket(u8),
    /// Announcements may have been missed.
    Missed,
}

/// The number of a reindex, which is that of its model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReindexId(pub(crate) i64);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Begun {
    /// The model serves already.
    Serves,
    Building(ReindexId),
}

/// The result of one machine's comparison of the models.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Passed,
    Rejected(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    /// The new model serves, by this machine's decision or by another's.
    Serves,
    /// The new model does not serve, for this reason.
    Rejected(String),
    /// Namespaces are left, so nothing is decided.
    NotYet,
    /// Another reindex began meanwhile, so this one was abandoned.
    GivenUp,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RolledBack {
    Serves,
    /// No model is kept, or another one.
    NoPrevious(Option<String>),
}
