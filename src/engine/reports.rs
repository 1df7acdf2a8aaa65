//! What flushes and puts did, and what the index of a namespace is like.

use serde::Serialize;

#[cfg(doc)]
use crate::config::Config;

/// Counts of the messages of a put.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct PutReport {
    /// Messages whose id was new.
    pub new: u64,
    /// Messages that replaced a different message with the same id.
    pub replaced: u64,
    /// Messages that were stored already with the same content. Nothing was written for them.
    pub unchanged: u64,
}

/// Counts of a flush.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct FlushReport {
    /// Messages that were embedded and can be found from now on, by this flush or by one that ran just before.
    pub embedded: u64,
}

/// The vectors that are linked.
///
/// Returned by [`Engine::link`](crate::Engine::link).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct LinkReport {
    /// Namespaces with enough vectors for a graph.
    pub namespaces: u64,
    /// Vectors in them.
    pub vectors: u64,
    /// Vectors in them that are linked; all of them once the call is done.
    pub linked: u64,
}

/// The size of a namespace's index, and the estimated recall of its searches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct IndexStats {
    /// Vectors that can be found.
    pub vectors: usize,
    /// Vectors linked in the graph; every query scans the others. 0 where the index has no graph that is stored.
    pub linked: usize,
    /// Number of candidates that a search keeps now.
    ///
    /// [`Config::target_recall`] tunes it.
    pub ef_search: usize,
    /// Share of the truly nearest messages that searches find, estimated since the namespace was loaded: one search in
    /// 64 is repeated exactly in the background.
    pub recall: Option<f64>,
    /// Number of searches repeated for the estimate.
    pub samples: u64,
}
