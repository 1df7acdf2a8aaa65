//! Stores the lines of an export.
//!
//! Every line is checked as far as the soundness of the database depends on it: exports are files, which people edit.
//! Sequence numbers stay as they are in a namespace that is new. In one that had messages before they are all raised
//! by the same number, because none is ever used twice.

// In layers: a file imports only from files above it.
mod target;

mod namespace;
mod session;

use self::{namespace::ImportedNamespace, session::ImportedSession, target::Target};
use super::{effects::Effects, export_line::*, write_tables::WriteTransaction};
use crate::{error::Result, ids::Namespace};

/// Stores the lines of an export, each with its number. With `into`, its only namespace becomes this one.
///
/// # Errors
/// [`Error::InvalidImport`](crate::Error::InvalidImport),
/// [`Error::NamespaceNotEmpty`](crate::Error::NamespaceNotEmpty), and the errors of `lines`.
pub(super) fn import(
    tables: &WriteTransaction,
    into: Option<&Namespace>,
    lines: impl Iterator<Item = Result<(u64, ExportLine)>>,
) -> Result<(TransferReport, Effects)> {
    let mut import = Import { target: Target::begin(tables)?, into, namespace: None, session: None };
    let mut is_complete = false;
    for line in lines {
        let (number, line) = line?;
        import.target.line = number;
        if is_complete {
            return Err(import.target.fault("a line after the end"));
        }
        is_complete = matches!(line, ExportLine::End(_));
        import.store(line)?;
    }
    if !is_complete {
        let reason = "the export ends here, without a line of the kind \"end\": it was cut off";
        return Err(import.target.fault(reason));
    }
    import.target.finish()
}

struct Import<'t> {
    target: Target<'t>,
    into: Option<&'t Namespace>,
    /// The namespace that lines belong to.
    namespace: Option<ImportedNamespace>,
    /// The session that lines belong to.
    session: Option<ImportedSession>,
}

impl Import<'_> {
    fn store(&mut self, line: ExportLine) -> Result<()> {
        match line {
            ExportLine::Header(_) => return Err(self.target.fault("a second header")),
            ExportLine::Namespace(line) => return self.namespace(line),
            ExportLine::End(end) => return self.end(&end),
            _ => {}
        }
        let target = &mut self.target;
        let Some(namespace) = &mut self.namespace else {
            return Err(target.fault("it belongs to a namespace, and none is named before it"));
        };
        match line {
            ExportLine::SharedBlock(line) => namespace.shared_block(target, line),
            ExportLine::Document(line) => namespace.document(target, *line),
            ExportLine::Session(line) => {
                self.session = Some(ImportedSession::begin(target, namespace, line)?);
                Ok(())
            }
            line => match &mut self.session {
                Some(session) => session.store(target, namespace, line),
                None => Err(target.fault("it belongs to a session, and none is named before it")),
            },
        }
    }

    fn namespace(&mut self, line: NamespaceLine) -> Result<()> {
        self.close();
        self.namespace = Some(ImportedNamespace::begin(&mut self.target, self.into, line)?);
        Ok(())
    }

    fn close(&mut self) {
        self.session = None;
        if let Some(namespace) = self.namespace.take() {
            namespace.close(&mut self.target);
        }
    }

    fn end(&mut self, end: &End) -> Result<()> {
        self.close();
        let target = &self.target;
        for (what, has, expected) in
            [("messages", target.messages, end.messages), ("documents", target.report.documents, end.documents)]
        {
            target.ensure(has == expected, || format!("the export has {has} {what} instead of {expected}"))?;
        }
        let is_one = self.into.is_none() || target.report.namespaces == 1;
        target.ensure(is_one, || "the export has no namespace".into())
    }
}
