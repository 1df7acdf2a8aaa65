//! Stores the lines of an export.
//!
//! Every line is checked as far as the soundness of the database depends on it: exports are files, which people edit.
//! Sequence numbers stay as they are in a namespace that is new. In one that had messages before they are all raised
//! by the same number, because none is ever used twice.

use std::collections::BTreeSet;

use super::{
    blocks::Blocks,
    checkpoints::Checkpoints,
    edit::OpenNamespace,
    edit_documents::Changing,
    export_line::{TransferReport, *},
    message_record::{MessageRecord, OldMessage, StoredMessage},
    namespaces::Namespaces,
    schema::*,
    sessions::{Batches, Idle, Window},
    tables::{ReadableTable, Tables, WriteTransaction},
};
use crate::{
    error::{Error, Result},
    ids::{Namespace, check_id},
    lexical::{ChosenLanguage, LanguageOrigin},
    message::Timestamp,
};

/// Stores the lines of an export, each with its number. With `into`, its only namespace becomes this one.
///
/// # Errors
/// [`Error::InvalidImport`](crate::Error::InvalidImport),
/// [`Error::NamespaceNotEmpty`](crate::Error::NamespaceNotEmpty), and the errors of `lines`.
pub(super) fn import(
    tables: &WriteTransaction,
    into: Option<&Namespace>,
    lines: impl Iterator<Item = Result<(u64, ExportLine)>>,
) -> Result<TransferReport> {
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

/// A session that is being imported.
struct ImportedSession {
    name: String,
    number: u32,
    /// Number of batches so far.
    batches: u32,
    checkpoints: BTreeSet<u32>,
}

impl ImportedSession {
    pub(super) fn begin(
        target: &mut Target<'_>,
        namespace: &mut ImportedNamespace,
        line: SessionLine,
    ) -> Result<ImportedSession> {
        let SessionLine { session, window, idle_at, restores } = line;
        check_id("session", &session).map_err(|error| target.fault(error.to_string()))?;
        let is_new = target.documents.edit.known_session(&namespace.open, &session)?.is_none();
        target.ensure(is_new, || format!("session {session:?} has a line already"))?;
        let id = namespace.open.id();
        let number = target.documents.edit.session(&mut namespace.open, &session)?;
        if window > 0 {
            namespace.check_seq(target, "window", window, namespace.next_seq + 1)?;
            Window(target.tables).set_start(id, number, window + namespace.raise)?;
        }
        if idle_at.is_some() {
            Idle(target.tables).set(&namespace.name, &session, idle_at)?;
        }
        if restores > 0 {
            let restores = restores.try_into().map_err(|_| target.fault("restores is out of range"))?;
            Blocks(target.tables).set_restores(id, number, restores)?;
        }
        target.report.sessions += 1;
        Ok(ImportedSession { name: session, number, batches: 0, checkpoints: BTreeSet::new() })
    }

    /// Stores a line that belongs to the session.
    pub(super) fn store(
        &mut self,
        target: &mut Target<'_>,
        namespace: &mut ImportedNamespace,
        line: ExportLine,
    ) -> Result<()> {
        match line {
            ExportLine::Batch(line) => self.batch(target, namespace, &line),
            ExportLine::Block(line) => self.block(target, namespace, line),
            ExportLine::Checkpoint(line) => self.checkpoint(target, namespace, line),
            ExportLine::Message(line) => self.message(target, namespace, *line),
            _ => Err(target.fault("it does not belong to a session")),
        }
    }

    fn batch(&mut self, target: &Target<'_>, namespace: &ImportedNamespace, line: &BatchLine) -> Result<()> {
        let &BatchLine { batch, first, last } = line;
        let expected = self.batches;
        target.ensure(batch == expected && batch < u32::MAX, || format!("batch {batch} instead of {expected}"))?;
        let ends = match (first, last) {
            // All of its messages are deleted.
            (1, 0) => (1, 0),
            _ => {
                target.ensure(first <= last, || format!("a batch from {first} to {last}"))?;
                namespace.check_seq(target, "last", last, namespace.next_seq)?;
                (first + namespace.raise, last + namespace.raise)
            }
        };
        self.batches += 1;
        Batches(target.tables).put(namespace.open.id(), self.number, batch, ends)
    }

    fn block(&self, target: &Target<'_>, namespace: &ImportedNamespace, line: BlockLine) -> Result<()> {
        let BlockLine { name, checkpoint, next_batch: next, failed, shared, state, revision } = line;
        target.ensure(name != RESTORES, || "a block without a name".into())?;
        target.ensure(checkpoint.is_some() || next <= self.batches, || {
            format!("block {name:?} is at batch {next} of only {}", self.batches)
        })?;
        state.iter().try_for_each(|state| target.check_state(&name, state))?;
        let block = state.map(|state| BlockRecord { state, revision });
        let (id, old) = (namespace.open.id(), OldBlock { block, cursor: CursorRecord { next, failed, shared } });
        match checkpoint {
            None => Blocks(target.tables).write_all(id, self.number, &vec![(name, old)]),
            Some(checkpoint) => {
                self.check_checkpoint(target, checkpoint)?;
                Checkpoints(target.tables).put_old_block(id, self.number, &name, checkpoint, &old)
            }
        }
    }

    fn checkpoint(&mut self, target: &Target<'_>, namespace: &ImportedNamespace, line: CheckpointLine) -> Result<()> {
        let CheckpointLine { checkpoint, label, created_at, next_seq, buffered, next_batch, messages } = line;
        namespace.check_seq(target, "next_seq", next_seq, namespace.next_seq + 1)?;
        target.ensure(next_batch <= self.batches, || format!("batch {next_batch} of only {}", self.batches))?;
        for (first, last) in &buffered {
            target.ensure(first <= last, || format!("a run from {first} to {last}"))?;
            namespace.check_seq(target, "buffered", *last, namespace.next_seq)?;
        }
        let is_new = self.checkpoints.last().is_none_or(|last| *last < checkpoint) && checkpoint < u32::MAX;
        target.ensure(is_new, || format!("checkpoint {checkpoint} is not in order"))?;
        self.checkpoints.insert(checkpoint);
        let raise = namespace.raise;
        let record = CheckpointRecord {
            label,
            created_at: created_at.as_micros(),
            next_seq: next_seq + raise,
            buffered: buffered.into_iter().map(|(first, last)| (first + raise, last + raise)).collect(),
            next_batch,
            messages,
        };
        Checkpoints(target.tables).put(namespace.open.id(), self.number, checkpoint, &record)
    }

    fn message(&self, target: &mut Target<'_>, namespace: &mut ImportedNamespace, line: MessageLine) -> Result<()> {
        let MessageLine { place, message } = line;
        let position = place.position().map_err(|reason| target.fault(reason))?;
        namespace.check_seq(target, "seq", place.seq, namespace.next_seq)?;
        let seq = place.seq + namespace.raise;
        if let Some(until) = place.until {
            target.messages += 1;
            let edit = &mut target.documents.edit;
            let is_known = edit.find(&namespace.open, &message.id)?.is_some_and(|known| known.seq == seq);
            let version = MessageRecord::new(&message, 0);
            let is_new = is_known && edit.set_version(&namespace.open, seq, until, Some(&version))?;
            return target.ensure(is_new, || {
                let (id, seq) = (&message.id, place.seq);
                format!("no message with the id {id:?} and seq {seq} before this version of it, or a second version until {until}")
            });
        }
        target.ensure(message.session == self.name, || {
            format!("a message of session {:?} among those of {:?}", message.session, self.name)
        })?;
        target.messages += 1;
        let record = MessageRecord::new(&message, 0);
        if let Some(checkpoint) = place.checkpoint {
            self.check_checkpoint(target, checkpoint)?;
            let old = OldMessage { record, position: position.number() };
            let id = namespace.open.id();
            return Checkpoints(target.tables).put_old_message(id, self.number, seq, checkpoint, &old);
        }
        if let SessionPosition::LongTerm(Some(batch)) = position {
            target.ensure(batch < self.batches, || format!("batch {batch} of only {}", self.batches))?;
        }
        let stored = StoredMessage { seq, session: self.number, position, record };
        let is_new = target.documents.edit.add_imported(&mut namespace.open, stored)?;
        target.ensure(is_new, || format!("an earlier message has the id {:?}, or seq {}", message.id, place.seq))?;
        target.report.messages += 1;
        Ok(())
    }

    fn check_checkpoint(&self, target: &Target<'_>, checkpoint: u32) -> Result<()> {
        target.ensure(self.checkpoints.contains(&checkpoint), || {
            format!("it is kept for checkpoint {checkpoint}, which has no line before it")
        })
    }
}

/// The highest sequence number that is imported: every number that follows fits, too.
const MAX_SEQ: u64 = 1 << 53;

/// A namespace that is being imported.
struct ImportedNamespace {
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
        let has_blocks = target.tables.table(BLOCKS)?.range(shared)?.next().is_some();
        if has_blocks || target.documents.edit.has_sessions(&open)? || target.documents.has_documents(id)? {
            return Err(Error::NamespaceNotEmpty { namespace: name.as_str().to_owned() });
        }
        let raise = target.documents.edit.reserve(&mut open, line.next_seq);
        target.ensure(raise <= MAX_SEQ, || format!("{name:?} has no sequence numbers left"))?;
        let namespaces = Namespaces(target.tables);
        let stored = namespaces.language_set_by_hand(id)?;
        let had_texts = target.documents.edit.known_namespace(&name.document_texts())?.is_some();
        match &line.language {
            // Where nothing was ever stored, no index knows another language.
            Some(name) if open.is_new() && !had_texts && stored.is_none() => {
                let language = name.parse().map_err(|error: Error| target.fault(error.to_string()))?;
                let language = ChosenLanguage { language, origin: LanguageOrigin::Set };
                id.parts().into_iter().try_for_each(|part| namespaces.set_language(part, language))?;
            }
            language => target.ensure(*language == stored, || {
                let [own, exported] = [&stored, language].map(|language| language.as_deref().unwrap_or("no language"));
                format!("{name:?} has {own}, and the export has {exported}; set the namespace's language first")
            })?,
        }
        // One that the namespace has already stays.
        if let Some(ttl) = line.ttl_micros
            && namespaces.time_to_live(id)?.is_none()
        {
            target.tables.table(TIMES_TO_LIVE)?.insert(id.0, ttl)?;
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

struct Target<'t> {
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

    pub(super) fn finish(self) -> Result<TransferReport> {
        self.documents.finish()?;
        Ok(self.report)
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
