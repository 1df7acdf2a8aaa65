//! The lines of a session.

use std::collections::BTreeSet;

use super::{namespace::ImportedNamespace, target::Target};
use crate::{
    error::Result,
    ids::check_id,
    store::{
        batches::Batches,
        blocks::Blocks,
        checkpoints::Checkpoints,
        export_line::*,
        idle::Idle,
        message_record::{MessageRecord, OldMessage, StoredMessage},
        schema::*,
        window::Window,
    },
};

/// A session that is being imported.
pub(super) struct ImportedSession {
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
