//! The lines of a namespace that belong to none of its sessions.

use redb::ReadableTable;

use super::target::Target;
use crate::{
    error::{Error, Result},
    ids::Namespace,
    message::Timestamp,
    store::{
        blocks::Blocks,
        edit::OpenNamespace,
        export_line::*,
        namespaces::Namespaces,
        schema::*,
        tables::{Tables, storage},
    },
};

/// The highest sequence number that is imported: every number that follows fits, too.
const MAX_SEQ: u64 = 1 << 53;

/// A namespace that is being imported.
pub(super) struct ImportedNamespace {
    pub(super) open: OpenNamespace,
    pub(super) name: Namespace,
    /// The number by which sequence numbers are raised.
    pub(super) raise: u64,
    /// Higher than all sequence numbers in the lines.
    pub(super) next_seq: u64,
}

impl ImportedNamespace {
    /// Begins a namespace, which becomes `into` if that is given.
    pub(super) fn begin(target: &mut Target<'_>, into: Option<&Namespace>, line: NamespaceLine) -> Result<Self> {
        let own = Namespace::new(line.namespace).map_err(|error| target.fault(error.to_string()))?;
        target.ensure(into.is_none() || target.report.namespaces == 0, || {
            format!("{own:?} is a second namespace, and all would become one; import without a name for it")
        })?;
        target.ensure(line.next_seq <= MAX_SEQ, || format!("next_seq is more than {MAX_SEQ}"))?;
        let name = into.cloned().unwrap_or(own);
        let mut open = target.documents.edit.open(&name)?;
        let id = open.id();
        let shared = (id.0, SHARED, "")..(id.0 + 1, 0, "");
        let has_blocks = target.tables.table(BLOCKS)?.range(shared).map_err(storage)?.next().is_some();
        if has_blocks || target.documents.edit.has_sessions(&open)? || target.documents.has_documents(id)? {
            return Err(Error::NamespaceNotEmpty { namespace: name.as_str().to_owned() });
        }
        let raise = target.documents.edit.reserve(&mut open, line.next_seq);
        target.ensure(raise <= MAX_SEQ, || format!("{name:?} has no sequence numbers left"))?;
        let namespaces = Namespaces(target.tables);
        let stored = namespaces.language(id)?;
        let had_texts = target.documents.edit.known_namespace(&name.document_texts())?.is_some();
        match &line.language {
            // Where nothing was ever stored, no index knows another language.
            Some(language) if open.is_new() && !had_texts && stored.is_none() => {
                namespaces.set_language(id, language)?;
                namespaces.set_language(id.document_texts(), language)?;
            }
            language => target.ensure(*language == stored, || {
                let [own, exported] = [&stored, language].map(|language| language.as_deref().unwrap_or("no language"));
                format!("{name:?} has {own}, and the export has {exported}; set the namespace's language first")
            })?,
        }
        target.report.namespaces += 1;
        Ok(ImportedNamespace { open, name, raise, next_seq: line.next_seq })
    }

    pub(super) fn close(self, target: &mut Target<'_>) {
        target.documents.edit.close(self.open);
    }

    pub(super) fn shared_block(&self, target: &Target<'_>, line: SharedBlockLine) -> Result<()> {
        let SharedBlockLine { name, state, revision } = line;
        target.check_state(&name, &state)?;
        Blocks(target.tables).write(self.open.id(), SHARED, &name, &BlockRecord { state, revision })
    }

    /// Stores a document. The reader of the lines has checked its key, value, texts and time to live.
    pub(super) fn document(&self, target: &mut Target<'_>, line: DocumentLine) -> Result<()> {
        let DocumentLine { key, value, texts, created_at, updated_at, expiry } = line;
        let record = DocumentRecord {
            value: value.to_string(),
            created_at: created_at.as_micros(),
            updated_at: updated_at.as_micros(),
            change: 0,
            ttl: expiry.as_ref().map(|expiry| expiry.ttl_micros),
            expires_at: expiry.map(|expiry| expiry.at).map(Timestamp::as_micros),
        };
        let is_new = target.documents.add_imported(&self.name, self.open.id(), &key, record, &texts)?;
        target.ensure(is_new, || format!("an earlier document has the key {key:?}"))?;
        target.report.documents += 1;
        Ok(())
    }

    /// Checks that a sequence number is below `end`.
    pub(super) fn check_seq(&self, target: &Target<'_>, what: &str, seq: u64, end: u64) -> Result<()> {
        target.ensure(seq < end, || format!("{what} is {seq}, and the namespace's line has next_seq {}", self.next_seq))
    }
}
