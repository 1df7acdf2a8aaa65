//! The journal of recalls: what was asked, what was found, and what the same question finds today.
//!
//! This module owns the entries and their comparison with a later recall. The engine notes the recalls and asks again;
//! the store keeps the entries and knows none of their fields.
//!
//! An entry has the ids of hits and no text of them. The question's text, the only text in it, may repeat what was said:
//! the store removes a namespace's entries when something of the namespace is forgotten.

mod entry;
mod replay;

pub(crate) use entry::RecallState;
pub use entry::{JournalEntry, JournalHit};
pub use replay::{HitChange, Replay, ReplayedHit, Standing, TermChange};
