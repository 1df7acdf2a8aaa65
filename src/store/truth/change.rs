//! A change of a namespace, as it leaves the file and as it comes back.

#[cfg(doc)]
use super::COMMON;
use super::table::Row;

/// What changed in one namespace between two of its versions. Each row is there once, as it is at the end.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Change {
    /// The name, or [`COMMON`].
    pub(crate) namespace: String,
    /// The version that the change was made from; 0 if there was none.
    pub(crate) base: u64,
    /// The version that it leads to.
    pub(crate) version: u64,
    /// True if all rows of before are gone, because the namespace was removed.
    pub(crate) is_from_scratch: bool,
    pub(crate) head: Head,
    pub(crate) rows: Vec<Row>,
}

/// What a transaction on a copy asks of the shared database.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Sharing {
    /// What it changed, one for each namespace, by name.
    pub(crate) changes: Vec<Change>,
    /// The namespaces that it looked up and did not change, with their versions here.
    pub(crate) lookups: Vec<(String, u64)>,
}

impl Sharing {
    pub(crate) fn is_empty(&self) -> bool {
        self.changes.is_empty() && self.lookups.is_empty()
    }
}

/// The counters of a namespace.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Head {
    /// False if the namespace was removed. The numbers that a new one of the same name begins with stay.
    pub(crate) exists: bool,
    pub(crate) next_seq: u64,
    pub(crate) next_session: u32,
    pub(crate) messages: u64,
    pub(crate) language: Option<String>,
    pub(crate) documents: Option<DocumentHead>,
}

/// The counters of a namespace that has, or had, documents.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct DocumentHead {
    pub(crate) documents: u64,
    pub(crate) expiring: u64,
    pub(crate) last_change: u64,
    pub(crate) next_text: u64,
    pub(crate) next_session: u32,
    pub(crate) texts: u64,
}
