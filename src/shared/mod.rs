//! Several machines that share one truth.
//!
//! The truth is in a database that all reach, an [`Upstream`]; each machine keeps the namespaces that it serves as a
//! copy in its own file, with indexes derived from it. A change is computed on the copy, becomes the truth by one
//! transaction upstream, if nobody changed the namespace meanwhile, and is then committed in the copy. A recall reads
//! the copy alone; `Freshness` says how far it may be behind.
//!
//! Invariants:
//! - A namespace has one order of changes: its version goes from n to n + 1 for one of all who try.
//! - What a copy holds at version n is what the truth was at version n. It may be deleted.
//! - Leases spare work. Nothing is wrong if two do the same.

#[cfg(feature = "postgres")]
mod postgres;
mod reindexing;
mod upstream;

#[cfg(feature = "postgres")]
pub(crate) use postgres::{Fence, KnownOrigin, Postgres};
pub(crate) use reindexing::{Begun, Decision, ReindexId, RolledBack, Verdict};
pub(crate) use upstream::{Answer, Lease, Notified, Pushed, Question, SharedVectors, Told, Upstream, WantedVectors};
