//! The file as a copy of a shared database.
//!
//! The truth of a namespace is everything that is not derived: [`Table`] lists its tables. A transaction on a copy is
//! captured as a [`Change`] for each namespace, in rows of plain columns ([`capture`]); what other machines changed
//! comes back in the same form and is applied ([`ApplyChanges`]). [`Versions`] has the version that each namespace is
//! at.
//!
//! Rows name nothing that is only true in this file: no number of a namespace, no row of vectors. The numbers of
//! messages and sessions are part of the truth, because changes of a namespace come one after the other.

mod cell;
mod change;
mod rows;
mod table;
mod versions;

#[cfg(feature = "postgres")]
mod all;
mod apply;
mod capture;

#[cfg(feature = "postgres")]
pub(super) use all::all_keys;
pub(crate) use apply::ApplyChanges;
pub(crate) use capture::Names;
pub(super) use capture::{SHARED_TABLES, capture};
#[cfg(feature = "postgres")]
pub(crate) use cell::{Cell, Kind};
pub(crate) use change::{Change, Sharing};
#[cfg(feature = "postgres")]
pub(crate) use change::{DocumentHead, Head};
#[cfg(feature = "postgres")]
pub(crate) use table::{Column, Row, Table, hidden_name};
pub(crate) use versions::Versions;

pub(crate) use super::schema::COMMON;
