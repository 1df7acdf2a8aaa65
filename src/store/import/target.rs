//! The transaction that an import is stored in, with its counts, and the faults of its lines.

use crate::{
    error::{Error, Result},
    store::{edit_documents::Changing, effects::Effects, export_line::TransferReport, write_tables::WriteTransaction},
};

pub(super) struct Target<'t> {
    pub(super) tables: &'t WriteTransaction,
    /// The documents, and in its `edit` the messages.
    pub(super) documents: Changing<'t>,
    /// The number of the current line.
    pub(super) line: u64,
    /// Number of lines with messages.
    pub(super) messages: u64,
    pub(super) report: TransferReport,
}

impl<'t> Target<'t> {
    pub(super) fn begin(tables: &'t WriteTransaction) -> Result<Self> {
        let (documents, report) = (Changing::begin(tables)?, TransferReport::default());
        Ok(Target { tables, documents, line: 0, messages: 0, report })
    }

    pub(super) fn finish(self) -> Result<(TransferReport, Effects)> {
        Ok((self.report, self.documents.finish()?))
    }

    /// Returns the error that the current line is invalid.
    pub(super) fn fault(&self, reason: impl Into<String>) -> Error {
        Error::InvalidImport { line: self.line, reason: reason.into() }
    }

    pub(super) fn ensure(&self, condition: bool, reason: impl FnOnce() -> String) -> Result<()> {
        if condition { Ok(()) } else { Err(self.fault(reason())) }
    }

    /// Checks the state of a block: it is JSON.
    pub(super) fn check_state(&self, name: &str, state: &str) -> Result<()> {
        let parsed = serde_json::from_str::<serde::de::IgnoredAny>(state);
        parsed.map(drop).map_err(|error| self.fault(format!("the state of block {name:?} is not JSON: {error}")))
    }
}
