//! Stores the lines of an export.
//!
//! Every line is checked as far as the soundness of the database depends on it: exports are files, which people edit.
//! Sequence numbers stay as they are in a namespace that is new. In one that had messages before they are all raised
//! by the same number, because none is ever used twice.

use std::collections::BTreeSet;

use redb::{ReadableTable, WriteTransaction};

use super::{
    batches::Batches,
    blocks::Blocks,
    checkpoints::Checkpoints,
    edit::{Edit, OpenNamespace},
    effects::Effects,
    export_line::*,
    idle::Idle,
    message_record::{MessageRecord, OldMessage, StoredMessage},
    namespaces::Namespaces,
    schema::*,
    tables::{Tables, storage},
    window::Window,
};
use crate::{
    error::{Error, Result},
    ids::{Namespace, check_id},
};

/// The highest sequence number that is imported: every number that follows fits, too.
const MAX_SEQ: u64 = 1 << 53;

/// Stores the lines of an export, each with its number. With `into`, its only namespace becomes this one.
///
/// # Errors
/// [`Error::InvalidImport`], [`Error::NamespaceNotEmpty`], and the errors of `lines`.
pub(super) fn import(
    tables: &WriteTransaction,
    into: Option<&Namespace>,
    lines: impl Iterator<Item = Result<(u64, ExportLine)>>,
) -> Result<(TransferReport, Effects)> {
    let mut import = Import {
        tables,
        edit: Edit::begin(tables)?,
        into,
        namespace: None,
        line: 0,
        messages: 0,
        report: TransferReport::default(),
    };
    let mut is_complete = false;
    for line in lines {
        let (number, line) = line?;
        import.line = number;
        if is_complete {
            return Err(import.fault("a line after the end"));
        }
        is_complete = matches!(line, ExportLine::End(_));
        import.store(line)?;
    }
    if !is_complete {
        return Err(import.fault("the export ends here, without a line of the kind \"end\": it was cut off"));
    }
    Ok((import.report, import.edit.finish()?))
}

struct Import<'t> {
    tables: &'t WriteTransaction,
    edit: Edit<'t>,
    into: Option<&'t Namespace>,
    namespace: Option<ImportedNamespace>,
    /// The number of the current line.
    line: u64,
    /// Number of lines with messages.
    messages: u64,
    report: TransferReport,
}

/// The namespace that lines belong to.
struct ImportedNamespace {
    open: OpenNamespace,
    name: Namespace,
    /// The number by which sequence numbers are raised.
    raise: u64,
    /// Higher than all sequence numbers in the lines.
    next_seq: u64,
    session: Option<ImportedSession>,
}

/// The session that lines belong to.
struct ImportedSession {
    name: String,
    number: u32,
    /// Number of batches so far.
    batches: u32,
    checkpoints: BTreeSet<u32>,
}

impl Import<'_> {
    fn fault(&self, reason: impl Into<String>) -> Error {
        Error::InvalidImport { line: self.line, reason: reason.into() }
    }

    fn ensure(&self, condition: bool, reason: impl FnOnce() -> String) -> Result<()> {
        if condition { Ok(()) } else { Err(self.fault(reason())) }
    }

    fn store(&mut self, line: ExportLine) -> Result<()> {
        match line {
            ExportLine::Header(_) => return Err(self.fault("a second header")),
            ExportLine::Namespace(line) => return self.namespace(line),
            ExportLine::End(end) => return self.end(&end),
            _ => {}
        }
        let Some(mut namespace) = self.namespace.take() else {
            return Err(self.fault("it belongs to a namespace, and none is named before it"));
        };
        match line {
            ExportLine::SharedBlock(line) => self.shared_block(&namespace, line)?,
            ExportLine::Session(line) => self.session(&mut namespace, line)?,
            line => {
                let Some(mut session) = namespace.session.take() else {
                    return Err(self.fault("it belongs to a session, and none is named before it"));
                };
                self.of_session(&mut namespace, &mut session, line)?;
                namespace.session = Some(session);
            }
        }
        self.namespace = Some(namespace);
        Ok(())
    }

    fn end(&mut self, end: &End) -> Result<()> {
        self.close();
        let (has, expected) = (self.messages, end.messages);
        self.ensure(has == expected, || format!("the export has {has} messages instead of {expected}"))?;
        self.ensure(self.into.is_none() || self.report.namespaces == 1, || "the export has no namespace".into())
    }

    fn close(&mut self) {
        if let Some(namespace) = self.namespace.take() {
            self.edit.close(namespace.open);
        }
    }

    fn namespace(&mut self, line: NamespaceLine) -> Result<()> {
        self.close();
        let own = Namespace::new(line.namespace).map_err(|error| self.fault(error.to_string()))?;
        self.ensure(self.into.is_none() || self.report.namespaces == 0, || {
            format!("{own:?} is a second namespace, and all would become one; import without a name for it")
        })?;
        self.ensure(line.next_seq <= MAX_SEQ, || format!("next_seq is more than {MAX_SEQ}"))?;
        let name = self.into.cloned().unwrap_or(own);
        let mut open = self.edit.open(&name)?;
        let id = open.id();
        let shared = (id.0, SHARED, "")..(id.0 + 1, 0, "");
        let has_blocks = self.tables.table(BLOCKS)?.range(shared).map_err(storage)?.next().is_some();
        if has_blocks || self.edit.has_sessions(&open)? {
            return Err(Error::NamespaceNotEmpty { namespace: name.as_str().to_owned() });
        }
        let raise = self.edit.reserve(&mut open, line.next_seq);
        self.ensure(raise <= MAX_SEQ, || format!("{name:?} has no sequence numbers left"))?;
        let stored = Namespaces(self.tables).language(id)?;
        match &line.language {
            // Where nothing was ever stored, no index knows another language.
            Some(language) if raise == 0 && stored.is_none() => Namespaces(self.tables).set_language(id, language)?,
            language => self.ensure(*language == stored, || {
                let [own, exported] = [&stored, language].map(|language| language.as_deref().unwrap_or("no language"));
                format!("{name:?} has {own}, and the export has {exported}; set it first with `Engine::set_language`")
            })?,
        }
        self.report.namespaces += 1;
        self.namespace = Some(ImportedNamespace { open, name, raise, next_seq: line.next_seq, session: None });
        Ok(())
    }

    fn shared_block(&self, namespace: &ImportedNamespace, line: SharedBlockLine) -> Result<()> {
        let SharedBlockLine { name, state, revision } = line;
        self.check_state(&name, &state)?;
        Blocks(self.tables).write(namespace.open.id(), SHARED, &name, &BlockRecord { state, revision })
    }

    fn session(&mut self, namespace: &mut ImportedNamespace, line: SessionLine) -> Result<()> {
        let SessionLine { session, window, idle_at, restores } = line;
        check_id("session", &session).map_err(|error| self.fault(error.to_string()))?;
        let is_new = self.edit.known_session(&namespace.open, &session)?.is_none();
        self.ensure(is_new, || format!("session {session:?} has a line already"))?;
        let id = namespace.open.id();
        let number = self.edit.session(&mut namespace.open, &session)?;
        if window > 0 {
            self.check_seq(namespace, "window", window, namespace.next_seq + 1)?;
            Window(self.tables).set_start(id, number, window + namespace.raise)?;
        }
        if idle_at.is_some() {
            Idle(self.tables).set(&namespace.name, &session, idle_at)?;
        }
        if restores > 0 {
            let restores = restores.try_into().map_err(|_| self.fault("restores is out of range"))?;
            Blocks(self.tables).set_restores(id, number, restores)?;
        }
        self.report.sessions += 1;
        namespace.session = Some(ImportedSession { name: session, number, batches: 0, checkpoints: BTreeSet::new() });
        Ok(())
    }

    /// Stores a line that belongs to a session.
    fn of_session(
        &mut self,
        namespace: &mut ImportedNamespace,
        session: &mut ImportedSession,
        line: ExportLine,
    ) -> Result<()> {
        match line {
            ExportLine::Batch(line) => self.batch(namespace, session, &line),
            ExportLine::Block(line) => self.block(namespace, session, line),
            ExportLine::Checkpoint(line) => self.checkpoint(namespace, session, line),
            ExportLine::Message(line) => self.message(namespace, session, *line),
            _ => Err(self.fault("it does not belong to a session")),
        }
    }

    fn batch(&self, namespace: &ImportedNamespace, session: &mut ImportedSession, line: &BatchLine) -> Result<()> {
        let &BatchLine { batch, first, last } = line;
        let expected = session.batches;
        self.ensure(batch == expected && batch < u32::MAX, || format!("batch {batch} instead of {expected}"))?;
        let ends = match (first, last) {
            // All of its messages are deleted.
            (1, 0) => (1, 0),
            _ => {
                self.ensure(first <= last, || format!("a batch from {first} to {last}"))?;
                self.check_seq(namespace, "last", last, namespace.next_seq)?;
                (first + namespace.raise, last + namespace.raise)
            }
        };
        session.batches += 1;
        Batches(self.tables).put(namespace.open.id(), session.number, batch, ends)
    }

    fn block(&self, namespace: &ImportedNamespace, session: &ImportedSession, line: BlockLine) -> Result<()> {
        let BlockLine { name, checkpoint, next_batch: next, failed, shared, state, revision } = line;
        self.ensure(name != RESTORES, || "a block without a name".into())?;
        self.ensure(checkpoint.is_some() || next <= session.batches, || {
            format!("block {name:?} is at batch {next} of only {}", session.batches)
        })?;
        state.iter().try_for_each(|state| self.check_state(&name, state))?;
        let block = state.map(|state| BlockRecord { state, revision });
        let (id, old) = (namespace.open.id(), OldBlock { block, cursor: CursorRecord { next, failed, shared } });
        match checkpoint {
            None => Blocks(self.tables).write_all(id, session.number, &vec![(name, old)]),
            Some(checkpoint) => {
                self.check_checkpoint(session, checkpoint)?;
                Checkpoints(self.tables).put_old_block(id, session.number, &name, checkpoint, &old)
            }
        }
    }

    fn checkpoint(
        &self,
        namespace: &ImportedNamespace,
        session: &mut ImportedSession,
        line: CheckpointLine,
    ) -> Result<()> {
        let CheckpointLine { checkpoint, label, created_at, next_seq, buffered, next_batch, messages } = line;
        self.check_seq(namespace, "next_seq", next_seq, namespace.next_seq + 1)?;
        self.ensure(next_batch <= session.batches, || format!("batch {next_batch} of only {}", session.batches))?;
        for (first, last) in &buffered {
            self.ensure(first <= last, || format!("a run from {first} to {last}"))?;
            self.check_seq(namespace, "buffered", *last, namespace.next_seq)?;
        }
        let is_new = session.checkpoints.last().is_none_or(|last| *last < checkpoint) && checkpoint < u32::MAX;
        self.ensure(is_new, || format!("checkpoint {checkpoint} is not in order"))?;
        session.checkpoints.insert(checkpoint);
        let raise = namespace.raise;
        let record = CheckpointRecord {
            label,
            created_at: created_at.as_micros(),
            next_seq: next_seq + raise,
            buffered: buffered.into_iter().map(|(first, last)| (first + raise, last + raise)).collect(),
            next_batch,
            messages,
        };
        Checkpoints(self.tables).put(namespace.open.id(), session.number, checkpoint, &record)
    }

    fn message(
        &mut self,
        namespace: &mut ImportedNamespace,
        session: &ImportedSession,
        line: MessageLine,
    ) -> Result<()> {
        let MessageLine { place, message } = line;
        let position = place.position().map_err(|reason| self.fault(reason))?;
        self.check_seq(namespace, "seq", place.seq, namespace.next_seq)?;
        let seq = place.seq + namespace.raise;
        self.ensure(message.session == session.name, || {
            format!("a message of session {:?} among those of {:?}", message.session, session.name)
        })?;
        self.messages += 1;
        let record = MessageRecord::new(&message, 0);
        if let Some(checkpoint) = place.checkpoint {
            self.check_checkpoint(session, checkpoint)?;
            let old = OldMessage { record, position: position.number() };
            return Checkpoints(self.tables).put_old_message(
                namespace.open.id(),
                session.number,
                seq,
                checkpoint,
                &old,
            );
        }
        if let SessionPosition::LongTerm(Some(batch)) = position {
            self.ensure(batch < session.batches, || format!("batch {batch} of only {}", session.batches))?;
        }
        let stored = StoredMessage { seq, session: session.number, position, record };
        let is_new = self.edit.add_imported(&mut namespace.open, stored)?;
        self.ensure(is_new, || format!("an earlier message has the id {:?}, or seq {}", message.id, place.seq))?;
        self.report.messages += 1;
        Ok(())
    }

    fn check_seq(&self, namespace: &ImportedNamespace, what: &str, seq: u64, end: u64) -> Result<()> {
        self.ensure(seq < end, || {
            format!("{what} is {seq}, and the namespace's line has next_seq {}", namespace.next_seq)
        })
    }

    fn check_checkpoint(&self, session: &ImportedSession, checkpoint: u32) -> Result<()> {
        self.ensure(session.checkpoints.contains(&checkpoint), || {
            format!("it is kept for checkpoint {checkpoint}, which has no line before it")
        })
    }

    fn check_state(&self, name: &str, state: &str) -> Result<()> {
        let parsed = serde_json::from_str::<serde::de::IgnoredAny>(state);
        parsed.map(drop).map_err(|error| self.fault(format!("the state of block {name:?} is not JSON: {error}")))
    }
}
