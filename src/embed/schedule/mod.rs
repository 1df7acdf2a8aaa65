//! Batching across calls: the texts of all callers are embedded in common batches, by one worker for each session of a
//! model.
//!
//! A call's texts are tokenized, a few at a time, by the caller or by an idle worker, and wait in a [`pool`]. Workers
//! take batches of texts of one length from it, across calls; calls take turns. Queries are not batched: they have a
//! session of their own, and while a query runs no batch of documents is started ([`query_priority`]). The memory of
//! long rows is bounded by running few of them at once.
//!
//! No text waits for others to fill a batch: a text that finds an idle worker is embedded at once, and further texts
//! gather meanwhile.

mod call;
mod pool;
mod query_priority;
mod scheduler;

pub(crate) use call::Kind;
pub(crate) use pool::Limits;
pub(crate) use query_priority::QueryPriority;
pub(crate) use scheduler::{Execute, Scheduler, Submitted, Tokenize};
