//! Chat histories: stores that keep the messages of sessions complete and in order.
//!
//! This module owns the contract that every history store keeps, and the conformance test for it. It does not embed,
//! search or trim. Invariants: a store contains only messages that [`Message::check`](crate::Message::check) accepts; a
//! session's name is never used as a path.

mod conformance;
mod file_history;
mod in_memory;
mod session_file;
mod store;
mod transcript;

pub use conformance::check_history_store;
pub use file_history::FileHistory;
pub use in_memory::InMemoryHistory;
pub use store::HistoryStore;
pub(crate) use store::checked_messages;
