//! What is asked and what is found.
//!
//! Owns the question's form and its checks, the scores of candidates, and the choice of hits among them. Does not search or
//! read the store: the engine does.

mod answer;
mod choose;
mod fuse;
mod hit;
mod query;
mod when;

pub(crate) use answer::answerability;
pub(crate) use choose::{TermSet, is_duplicate, keep_places};
pub(crate) use fuse::{Background, Candidate, Ranked, rank, strength};
pub use hit::{Hit, Hits, Parts};
pub(crate) use query::{Filter, Ranking};
pub use query::{MAX_K, Query, Strategy, TimeUse};
pub use when::{TimeExpression, TimeSpan, time_expressions, time_expressions_at_offset};
