//! Forgetting: what is to be forgotten, the receipt for it, the chain of receipts, and legal holds.
//!
//! This module owns the public types and the check of the chain. The store removes and records; the engine runs it.

mod audit;
mod hold;
mod receipt;
mod request;
mod sources;

pub use self::{
    audit::Audit,
    hold::Hold,
    receipt::{AuditEvent, Forgotten, Receipt, Requested},
    request::Forget,
};
pub(crate) use self::{
    audit::ChainedEntry,
    receipt::no_hash,
    request::Selection,
    sources::{RECORD, RECORD_KEYS, items_made_of, source_hash, update_record},
};
