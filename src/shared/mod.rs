//! Several machines that share one database.
//!
//! The *primary* is a database that all machines reach, an [`Upstream`]. Each machine has a *replica*: its own file,
//! with the namespaces that it serves and the indexes derived from them. A change is computed on the replica and pushed
//! to the primary in one transaction, which fails if another machine changed the namespace meanwhile; then it is
//! committed in the replica. A recall reads the replica alone; `Freshness` says how stale it may be.
//!
//! This module moves changes, vectors and leases. It does not know how a change is computed or applied: `store` does.
//!
//! Invariants:
//! - The changes of a namespace have one order: of all pushes that would make version n + 1 of version n, one succeeds.
//! - A replica at version n holds what the primary held at version n. A replica may be deleted at any time.
//! - Leases only spare work. Nothing is wrong if two machines do the same work.

#[cfg(feature = "postgres")]
mod postgres;
mod upstream;

#[cfg(feature = "postgres")]
pub(crate) use postgres::{Fence, KnownOrigin, Postgres};
pub(crate) use upstream::{
    Answer, Begun, Decision, Lease, Notified, Pushed, Question, ReindexId, RolledBack, SharedVectors, Told, Upstream,
    Verdict, WantedVectors,
};
