//! Reads everything of namespaces that is not derived, as the lines of an export.

use std::io::Write;

use super::{
    blocks::Blocks,
    codec,
    documents::{self, Documents},
    export_line::*,
    message_record::{MessageRecord, OldMessage},
    message_versions,
    namespaces::Namespaces,
    schema::*,
    sessions::{Idle, Sessions, Window},
    tables::{ReadableTable, Tables},
};
use crate::{
    error::{Error, Result},
    ids::{Namespace, NamespaceId},
    message::Timestamp,
};

/// The tables of everything that an export contains.
pub(crate) struct Export<'t, T>(pub(super) &'t T);

impl<T: Tables> Export<'_, T> {
    /// Passes the lines of an export to `write`: of one namespace, or of all. A namespace without sessions, documents,
    /// block states, language and time to live is left out.
    pub(crate) fn write(
        &self,
        only: Option<&Namespace>,
        write: impl FnMut(&ExportLine) -> Result<()>,
    ) -> Result<TransferReport> {
        let (now, report) = (Timestamp::now(), TransferReport::default());
        let mut writer = Writer { tables: self.0, write, now, report, messages: 0, lost: None };
        writer.line(ExportLine::Header(ExportHeader::new()))?;
        let namespaces = self.0.table(NAMESPACES)?;
        match only {
            Some(name) => {
                if let Some(record) = namespaces.get(name.as_str())? {
                    writer.namespace(name, &codec::decode(record.value())?)?;
                }
            }
            None => {
                for entry in namespaces.iter()? {
                    let (name, record) = entry?;
                    writer.namespace(&Namespace::new(name.value())?, &codec::decode(record.value())?)?;
                }
            }
        }
        let (messages, documents) = (writer.messages, writer.report.documents);
        writer.line(ExportLine::End(End { messages, documents }))?;
        Ok(writer.report)
    }

    /// Writes an export as lines of JSON.
    ///
    /// # Errors
    /// Those of [`Export::write`]; [`Error::Storage`] for those of the output.
    pub(crate) fn write_lines(&self, only: Option<&Namespace>, mut output: impl Write) -> Result<TransferReport> {
        let failed = |error: std::io::Error| Error::Storage(Box::new(error));
        let mut text = Vec::new();
        let report = self.write(only, |line| {
            text.clear();
            serde_json::to_writer(&mut text, line).map_err(|error| Error::corrupted(error.to_string()))?;
            text.push(b'\n');
            output.write_all(&text).map_err(failed)
        })?;
        output.flush().map_err(failed)?;
        Ok(report)
    }
}

pub(super) struct Writer<'t, T, W> {
    pub(super) tables: &'t T,
    pub(super) write: W,
    /// Messages and documents that have expired by now are left out.
    pub(super) now: Timestamp,
    pub(super) report: TransferReport,
    /// Number of lines with messages.
    pub(super) messages: u64,
    /// Where records are named that are missing, in a salvage; they are an error otherwise.
    pub(super) lost: Option<Vec<String>>,
}

impl<T: Tables, W: FnMut(&ExportLine) -> Result<()>> Writer<'_, T, W> {
    /// Returns `None` for what is damaged and may be.
    fn found<V>(&mut self, read: Result<V>) -> Result<Option<V>> {
        match (read, &mut self.lost) {
            (Err(Error::Corrupted { what }), Some(lost)) => {
                lost.push(what);
                Ok(None)
            }
            (read, _) => read.map(Some),
        }
    }

    /// Returns true for what has expired, but in a salvage: a legal hold may keep it.
    fn leaves_out(&self, expires_at: Option<i64>) -> bool {
        self.lost.is_none() && expires_at.is_some_and(|at| at <= self.now.as_micros())
    }

    pub(super) fn line(&mut self, line: ExportLine) -> Result<()> {
        self.messages += u64::from(matches!(line, ExportLine::Message(_)));
        (self.write)(&line)
    }

    pub(super) fn namespace(&mut self, name: &Namespace, record: &NamespaceRecord) -> Result<()> {
        let id = NamespaceId(record.id);
        let sessions = Sessions(self.tables).all(id)?;
        let mut shared = Vec::new();
        for entry in self.tables.table(BLOCKS)?.range((id.0, SHARED, "")..(id.0 + 1, 0, ""))? {
            let (key, value) = entry?;
            let BlockRecord { state, revision } = codec::decode(value.value())?;
            shared.push(SharedBlockLine { name: key.value().2.to_owned(), state, revision });
        }
        let language = Namespaces(self.tables).language_set_by_hand(id)?;
        // A salvage reads files of earlier schemas, too, which have no table of it.
        let ttl_micros = match Namespaces(self.tables).time_to_live(id) {
            Err(_) if self.lost.is_some() => None,
            ttl => ttl?,
        };
        let has_documents = Documents(self.tables).any(id, self.now)?;
        if sessions.is_empty() && shared.is_empty() && language.is_none() && ttl_micros.is_none() && !has_documents {
            return Ok(());
        }
        self.report.namespaces += 1;
        let namespace = name.as_str().to_owned();
        let next_seq = record.next_seq;
        self.line(ExportLine::Namespace(NamespaceLine { namespace, next_seq, language, ttl_micros }))?;
        shared.into_iter().try_for_each(|block| self.line(ExportLine::SharedBlock(block)))?;
        for (session, number) in sessions {
            let idle_at = Idle(self.tables).get(name, &session)?;
            let window = Window(self.tables).start(id, number)?;
            let restores = Blocks(self.tables).restores(id, number)?.into();
            self.report.sessions += 1;
            self.line(ExportLine::Session(SessionLine { session, window, idle_at, restores }))?;
            self.session(id, number)?;
        }
        self.documents(id)
    }

    fn session(&mut self, namespace: NamespaceId, session: u32) -> Result<()> {
        let NamespaceId(id) = namespace;
        for entry in self.tables.table(BATCHES)?.range((id, session, 0)..=(id, session, u32::MAX))? {
            let (key, ends) = entry?;
            let (first, last) = ends.value();
            self.line(ExportLine::Batch(BatchLine { batch: key.value().2, first, last }))?;
        }
        for (name, block) in Blocks(self.tables).of_session(namespace, session)? {
            self.line(block_line(name, block, None))?;
        }
        let checkpoints = self.tables.table(CHECKPOINTS)?;
        for entry in checkpoints.range((id, session, 0)..=(id, session, u32::MAX))? {
            let (key, value) = entry?;
            let CheckpointRecord { label, created_at, next_seq, buffered, next_batch, messages } =
                codec::decode(value.value())?;
            let created_at = Timestamp::from_micros(created_at)
                .ok_or_else(|| Error::corrupted("the time of a checkpoint is out of range"))?;
            let checkpoint = key.value().2;
            self.line(ExportLine::Checkpoint(CheckpointLine {
                checkpoint,
                label,
                created_at,
                next_seq,
                buffered,
                next_batch,
                messages,
            }))?;
        }
        let old_blocks = self.tables.table(OLD_BLOCKS)?;
        for entry in old_blocks.range((id, session, "", 0)..(id, session + 1, "", 0))? {
            let (key, value) = entry?;
            let (_, _, name, checkpoint) = key.value();
            self.line(block_line(name.to_owned(), codec::decode(value.value())?, Some(checkpoint)))?;
        }
        let old_messages = self.tables.table(OLD_MESSAGES)?;
        for entry in old_messages.range((id, session, 0, 0)..(id, session + 1, 0, 0))? {
            let (key, value) = entry?;
            let (_, _, seq, checkpoint) = key.value();
            let OldMessage { record, position } = codec::decode(value.value())?;
            if self.leaves_out(record.expires_at) {
                continue;
            }
            self.message(record, Place::new(seq, SessionPosition::read(position), Some(checkpoint)))?;
        }
        let messages = self.tables.table(MESSAGES)?;
        // A salvage reads files of earlier schemas, too, which have no such table.
        let versions = match self.tables.table(MESSAGE_VERSIONS) {
            Err(_) if self.lost.is_some() => None,
            table => Some(table?),
        };
        for entry in self.tables.table(HISTORY)?.range((id, session, 0)..=(id, session, u64::MAX))? {
            let (key, position) = entry?;
            let seq = key.value().2;
            let Some(record) = self.found(MessageRecord::expect(&messages, id, seq))? else { continue };
            if self.leaves_out(record.expires_at) {
                continue;
            }
            self.report.messages += 1;
            self.message(record, Place::new(seq, SessionPosition::read(position.value()), None))?;
            if let Some(versions) = &versions {
                let records = self.found(message_versions::records(versions, namespace, seq))?.unwrap_or_default();
                for (until, record) in records {
                    if !self.leaves_out(record.expires_at) {
                        self.message(record, Place::until(seq, until))?;
                    }
                }
            }
        }
        Ok(())
    }

    pub(super) fn documents(&mut self, namespace: NamespaceId) -> Result<()> {
        let (records, order) = (self.tables.table(DOCUMENTS)?, self.tables.table(DOCUMENT_ORDER)?);
        for entry in order.range((namespace.0, 0)..=(namespace.0, u64::MAX))? {
            let (_, key) = entry?;
            let key = key.value();
            let record = documents::record(&records, namespace.0, key)?;
            let record = record.ok_or_else(|| Error::corrupted(format!("document {key:?} is missing")));
            let Some(record) = self.found(record)? else { continue };
            if self.leaves_out(record.expires_at) {
                continue;
            }
            let value = documents::parse(&record.value, key)?;
            let expiry = match record.expires_at.zip(record.ttl) {
                Some((at, ttl_micros)) => Some(Expiry { at: documents::timestamp(at)?, ttl_micros }),
                None => None,
            };
            self.report.documents += 1;
            let texts = self.texts(namespace, key);
            let texts = self.found(texts)?.unwrap_or_default();
            self.line(ExportLine::Document(Box::new(DocumentLine {
                key: key.to_owned(),
                value,
                texts,
                created_at: documents::timestamp(record.created_at)?,
                updated_at: documents::timestamp(record.updated_at)?,
                expiry,
            })))?;
        }
        Ok(())
    }

    /// The indexed texts of a document, in the order in which they were first put.
    fn texts(&self, namespace: NamespaceId, key: &str) -> Result<Vec<String>> {
        let companion = namespace.document_texts();
        let mut seqs: Vec<u64> = documents::text_ids(&self.tables.table(IDS)?, companion, key)?.into_values().collect();
        seqs.sort_unstable();
        let messages = self.tables.table(MESSAGES)?;
        let text = |seq| Ok(MessageRecord::expect(&messages, companion.0, seq)?.message()?.text());
        seqs.into_iter().map(text).collect()
    }

    pub(super) fn message(&mut self, record: MessageRecord, place: Place) -> Result<()> {
        self.line(ExportLine::Message(Box::new(MessageLine { place, message: record.message()? })))
    }
}

fn block_line(name: String, OldBlock { block, cursor }: OldBlock, checkpoint: Option<u32>) -> ExportLine {
    let CursorRecord { next, failed, shared } = cursor;
    let (state, revision) = block.map_or((None, 0), |block| (Some(block.state), block.revision));
    ExportLine::Block(BlockLine { name, checkpoint, next_batch: next, failed, shared, state, revision })
}
