//! State of a layer above the engine, and its notification of commits.

use std::any::Any;

use crate::{
    ids::Namespace,
    store::{BufferChange, HistoryChange},
};

/// State of a higher layer that lives as long as the engine and follows its commits.
pub(crate) trait Extension: Any + Send + Sync {
    /// Applies a commit's changes of short-term buffers, and of sessions' messages in long-term memory. Called on the
    /// writer's thread, in the order of commits.
    fn publish(&self, buffers: Vec<BufferChange>, histories: Vec<HistoryChange>);

    /// Called after [`Extension::publish`] for each session in which another machine flushed a batch.
    fn flushed(&self, namespace: Namespace, session: String);

    /// Forgets what was read from the store: a commit may be in it that was not published.
    fn reset(&self);

    /// Called when the engine is being closed. Must end waits and long work, and must not wait itself.
    fn close(&self);
}
