//! The trait of a database that holds the truth: the questions and changes of a copy.

use std::time::Duration;

use super::reindexing::Reindexing;
use crate::{
    error::Result,
    ids::ModelIdentity,
    store::{Change, Sharing},
};

/// A database that several machines share. Its calls wait for the network: they return an error within the time limit
/// that it was opened with.
pub(crate) trait Upstream: Reindexing + Send + Sync {
    /// A name that no other shared database has.
    fn origin(&self) -> &str;

    /// The time limit of each call.
    fn timeout(&self) -> Duration;

    /// Returns true if it answered since it was opened.
    fn is_connected(&self) -> bool;

    /// Returns the key that seals the memory in prompts, the same for all machines.
    fn seal_key(&self) -> [u8; 32];

    /// Makes changes of namespaces the truth, all or none, if these and the namespaces that were looked up are at the
    /// versions that are known here.
    ///
    /// # Errors
    /// [`Error::SharedDatabase`](crate::Error::SharedDatabase), and nothing was stored.
    fn push(&self, sharing: &Sharing) -> Result<Pushed>;

    /// The versions of several namespaces, of those that there are.
    fn versions(&self, namespaces: &[String]) -> Result<Vec<(String, u64)>>;

    /// What changed in a namespace after a version, up to now; `None` if nothing did.
    fn pull(&self, namespace: &str, since: u64) -> Result<Option<Change>>;

    /// Asks a question and does not wait: `tell` is called with the answer or with an error, once, within the time
    /// limit, and before with [`Told::Nothing`] if nothing at all was heard for `patience`. It is called on a thread
    /// that must not wait. If the upstream is dropped, so is `tell`.
    fn ask(&self, question: Question, patience: Duration, tell: Box<dyn Fn(Told) + Send + Sync>);

    /// The vectors of messages by a model, for each that has them at this revision.
    fn vectors(&self, model: &ModelIdentity, wanted: &[WantedVectors]) -> Result<Vec<Option<Vec<Vec<f32>>>>>;

    /// Offers vectors to the other machines. Those of messages that were changed or deleted meanwhile are left out.
    fn offer_vectors(&self, model: &ModelIdentity, vectors: &[SharedVectors<'_>]) -> Result<()>;

    /// Takes, or keeps, the work of a name in namespaces for a time. Returns those that nobody else has.
    fn lease(&self, work: &str, namespaces: &[String], time: Duration) -> Result<Vec<Lease>>;

    /// Gives work back.
    fn release(&self, leases: &[Lease]) -> Result<()>;

    /// The bucket of a namespace, by which changes are announced.
    fn bucket(&self, namespace: &str) -> u8;

    /// Calls `notified` with what other machines changed, as they announce it, until the upstream is dropped. It is
    /// called on a thread that must not wait.
    fn listen(&self, notified: Box<dyn Fn(Notified) + Send + Sync>);
}

/// What reads ask.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Question {
    /// What changed in a namespace after a version?
    Changes { namespace: String, since: u64 },
    /// Which namespaces were there ever, or those under a prefix?
    Namespaces { prefix: Option<String> },
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Answer {
    /// `None` if nothing changed.
    Change(Option<Change>),
    /// The name and version of each namespace, and whether it exists.
    Namespaces(Vec<(String, u64, bool)>),
}

/// What is heard of a question.
pub(crate) enum Told {
    /// Nothing yet, for some time.
    Nothing,
    Answer(Result<Answer>),
}

/// The outcome of a push.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pushed {
    /// The changes are the truth.
    Committed,
    /// A namespace is at another version, and nothing was stored.
    Behind,
}

/// A message whose vectors are wanted.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct WantedVectors {
    pub(crate) namespace: String,
    /// True for a text of a document.
    pub(crate) is_text: bool,
    pub(crate) seq: u64,
    pub(crate) revision: u64,
}

/// The vectors of a message, one for each of its windows.
#[derive(Clone, Debug)]
pub(crate) struct SharedVectors<'v> {
    pub(crate) of: WantedVectors,
    pub(crate) vectors: &'v [Vec<f32>],
}

/// The right to do some work in a namespace.
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
