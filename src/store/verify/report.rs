//! The report of a verification.

use serde::Serialize;

/// The counts of what is stored, and the problems that were found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct VerifyReport {
    /// Number of namespaces.
    pub namespaces: u64,
    /// Number of messages.
    pub messages: u64,
    /// Number of vectors, over all generations.
    pub vectors: u64,
    /// Number of pending messages, over all generations.
    pub pending: u64,
    /// Whether the pages of the file were checked too. They are not while another process has it open for writing.
    pub pages_checked: bool,
    /// Number of rows that this replica of a shared database had and the database lost, in a fail-over or by a restore,
    /// and of deletions that it undid. [`DatabaseFile::lost`](crate::DatabaseFile::lost) lists them.
    pub lost: u64,
    /// The problems, a line each. The database is sound if there are none.
    pub problems: Vec<String>,
}

/// The report stops growing here: a badly damaged database has too many problems to list.
const MAX_PROBLEMS: usize = 100;

impl VerifyReport {
    pub(in crate::store) fn problem(&mut self, what: String) {
        if self.problems.len() < MAX_PROBLEMS {
            self.problems.push(what);
        }
    }
}
