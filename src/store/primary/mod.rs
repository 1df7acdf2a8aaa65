//! The file as a replica of a shared database.
//!
//! The primary has everything of a namespace that is not derived: [`Table`] is one of its tables. A transaction on a replica
//! is captured as a [`Change`] for each namespace, in rows of plain columns ([`capture`]); what other machines changed comes
//! back in the same form and is applied ([`ApplyChanges`]). [`Versions`] has the version that each namespace is at.
//!
//! Rows name nothing that is only true in this file: no number of a namespace, no row of vectors. The numbers of
//! messages and sessions are the primary's, because changes of a namespace come one after the other.

// In layers: a file imports only from files above it.
pub(super) mod table;

mod change;
pub(super) mod rows;

mod capture;

#[cfg(feature = "postgres")]
mod lost;

mod apply;

pub(crate) use apply::ApplyChanges;
pub(crate) use capture::Names;
#[cfg(feature = "postgres")]
pub(super) use capture::all_keys;
pub(super) use capture::{capture, captured_tables};
pub(crate) use change::{Change, History, Sharing, Version, Versions};
#[cfg(feature = "postgres")]
pub(crate) use change::{DocumentHead, Head, Parted};
#[cfg(feature = "postgres")]
pub(crate) use table::{Cell, Column, Kind, Row, Table, hidden_name};

pub(crate) use super::records::COMMON;
