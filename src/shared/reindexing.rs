//! The trait of the part of a shared database that says which model serves on all machines, and who embeds what for the
//! next one.

use std::time::Duration;

use crate::{error::Result, ids::ModelIdentity};

/// The model that serves on all machines, and the reindex to another one that they do together.
pub(crate) trait Reindexing {
    /// The model that serves; `None` before the first engine.
    fn serving_model(&self) -> Result<Option<ModelIdentity>>;

    /// Makes this the serving model, unless there is one.
    fn set_first_model(&self, model: &ModelIdentity) -> Result<()>;

    /// Begins a reindex, or takes part in the one to this model. Every other one is given up.
    fn begin_reindex(&self, to: &ModelIdentity) -> Result<Begun>;

    /// Lists some of the namespaces that are to be reindexed, after a name. Returns the last one; `None`: there is none.
    fn list_work(&self, reindex: ReindexId, after: &str) -> Result<Option<String>>;

    /// Claims up to `limit` namespaces that nobody else works on, for a time. Returns no name if others work on all that
    /// are left, and `None` if none is left.
    fn claim_work(&self, reindex: ReindexId, limit: usize, time: Duration) -> Result<Option<Vec<String>>>;

    /// Keeps what this machine has claimed for another time; none gives it back.
    fn keep_work(&self, reindex: ReindexId, time: Duration) -> Result<()>;

    /// Notes that all messages of a namespace have vectors, as of a version.
    fn work_done(&self, reindex: ReindexId, namespace: &str, version: u64) -> Result<()>;

    /// The numbers of messages in namespaces that are done, and in all.
    fn reindex_progress(&self, reindex: ReindexId) -> Result<(u64, u64)>;

    /// Up to `limit` namespaces with more messages than this.
    fn larger_namespaces(&self, more_than: u64, limit: usize) -> Result<Vec<String>>;

    /// Lets the new model serve on all machines, or notes why it does not. The first machine that asks decides.
    fn decide(&self, reindex: ReindexId, verdict: &Verdict) -> Result<Decision>;

    /// Lets the model serve that served before, if it is this one.
    fn roll_back(&self, to: &ModelIdentity) -> Result<RolledBack>;

    /// Deletes the record and the vectors of the model that is kept for a rollback. Returns true if there was one.
    fn drop_previous_model(&self) -> Result<bool>;
}

/// The number of a reindex: that of its model.
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
    /// It does not, for this reason.
    Rejected(String),
    /// Nothing is decided: there are namespaces left.
    NotYet,
    /// Another reindex began meanwhile.
    GivenUp,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RolledBack {
    Serves,
    /// No model is kept, or another one.
    NoPrevious(Option<String>),
}
