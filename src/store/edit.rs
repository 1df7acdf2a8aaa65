//! The steps of which every change of messages consists, on the tables of messages, which are all open meanwhile.
//!
//! Only this file knows the consequences of a change of a message. Invariants at the end of each step:
//! - A message is in the history of its session. Its versions are removed with it.
//! - A message has its vectors or is pending, in every live generation, if and only if it has text and is not in the
//!   buffer.
//! - The state of a session at each of its checkpoints can be restored from what is stored.

use std::collections::{HashMap, HashSet};

use super::{
    audit::Holds,
    checkpoints::Checkpoints,
    codec,
    consequences::Consequences,
    effects::IndexNeed,
    lifetimes::Lifetimes,
    message_record::{MessageRecord, StoredMessage},
    namespaces,
    put_times::PutTimes,
    schema::*,
    sessions::{self, Window},
    superseded::Superseded,
    tables::{ReadableTable, Tables, WriteTable, WriteTransaction, has},
};
use crate::{
    error::{Error, Result},
    ids::{Namespace, NamespaceId},
    message::Timestamp,
};

/// A namespace that is being edited.
pub(super) struct OpenNamespace {
    name: Namespace,
    record: NamespaceRecord,
    /// True if it was created when it was opened.
    is_new: bool,
    /// True once it is known that no legal hold forbids deletions.
    is_free: bool,
}

impl OpenNamespace {
    pub(super) fn id(&self) -> NamespaceId {
        NamespaceId(self.record.id)
    }

    /// Returns true if the namespace was created when it was opened.
    pub(super) fn is_new(&self) -> bool {
        self.is_new
    }

    /// A number that no message of the namespace and no revision of one ever had: vectors made from a revision that was
    /// undone must not be taken for those of another.
    fn fresh_number(&mut self) -> u64 {
        let number = self.record.next_seq;
        self.record.next_seq += 1;
        number
    }
}

/// A change of messages in progress. [`Edit::finish`] completes it.
pub(super) struct Edit<'t> {
    tables: &'t WriteTransaction,
    namespaces: WriteTable<'t, &'static str, Bytes>,
    sessions: WriteTable<'t, (u32, &'static str), u32>,
    messages: WriteTable<'t, (u32, u64), Bytes>,
    pub(super) ids: WriteTable<'t, (u32, &'static str), u64>,
    history: WriteTable<'t, (u32, u32, u64), u32>,
    lifetimes: Lifetimes<'t>,
    /// The records of the namespaces that were opened, written at the end.
    records: HashMap<Namespace, NamespaceRecord>,
    /// The first sequence numbers of the messages that are put.
    first_put: HashMap<NamespaceId, u64>,
    /// Texts that were replaced, and those that replaced them.
    replaced: Vec<String>,
    replacing: HashSet<String>,
    consequences: Consequences<'t>,
}

impl<'t> Edit<'t> {
    pub(super) fn begin(tables: &'t WriteTransaction) -> Result<Self> {
        Ok(Edit {
            tables,
            namespaces: tables.table(NAMESPACES)?,
            sessions: tables.table(SESSIONS)?,
            messages: tables.table(MESSAGES)?,
            ids: tables.table(IDS)?,
            history: tables.table(HISTORY)?,
            lifetimes: Lifetimes::new(tables),
            records: HashMap::new(),
            first_put: HashMap::new(),
            replaced: Vec::new(),
            replacing: HashSet::new(),
            consequences: Consequences::new(tables),
        })
    }

    /// Writes the records of the namespaces and the time of the put, and erases outdated vectors.
    pub(super) fn finish(mut self) -> Result<()> {
        for (namespace, record) in &self.records {
            namespaces::write_known(self.tables, &mut self.namespaces, namespace, record)?;
        }
        for (&namespace, &first) in &self.first_put {
            PutTimes(self.tables).note(namespace, first)?;
        }
        let mut effects = self.consequences.finish()?;
        effects.next_expiry = self.lifetimes.next_expiry;
        // A text may have moved to another message, as those of a list do.
        effects.replaced = self.replaced;
        effects.replaced.retain(|text| !self.replacing.contains(text));
        self.tables.add_effects(effects);
        Ok(())
    }

    /// The number of a namespace, or `None` if nothing was ever put into it.
    pub(super) fn known_namespace(&self, name: &Namespace) -> Result<Option<NamespaceId>> {
        let id = match self.records.get(name) {
            Some(record) => Some(record.id),
            None => namespaces::known(self.tables, &self.namespaces, name)?.map(|record| record.id),
        };
        Ok(id.map(NamespaceId))
    }

    /// The number of a namespace, which is created if it does not exist.
    pub(super) fn namespace(&mut self, name: &Namespace) -> Result<NamespaceId> {
        match self.records.get(name) {
            Some(record) => Ok(NamespaceId(record.id)),
            None => Ok(NamespaceId(namespaces::record_or_new(self.tables, &mut self.namespaces, name)?.id)),
        }
    }

    /// Opens a namespace, which is created if it does not exist. [`Edit::close`] must follow.
    pub(super) fn open(&mut self, name: &Namespace) -> Result<OpenNamespace> {
        let (record, is_new) = match self.records.remove(name) {
            Some(record) => (record, false),
            None => {
                let is_new = namespaces::known(self.tables, &self.namespaces, name)?.is_none();
                (namespaces::known_or_new(self.tables, &mut self.namespaces, name)?, is_new)
            }
        };
        Ok(OpenNamespace { name: name.clone(), record, is_new, is_free: false })
    }

    /// Closes a namespace.
    pub(super) fn close(&mut self, namespace: OpenNamespace) {
        self.records.insert(namespace.name, namespace.record);
    }

    /// The number of a session, or `None` if there is no such session.
    pub(super) fn known_session(&self, namespace: &OpenNamespace, session: &str) -> Result<Option<u32>> {
        sessions::number(&self.sessions, namespace.record.id, session)
    }

    /// The number of a session, which is assigned if there is no such session.
    pub(super) fn session(&mut self, namespace: &mut OpenNamespace, session: &str) -> Result<u32> {
        sessions::number_or_new(&mut self.sessions, &mut namespace.record, session)
    }

    /// Returns true if a namespace has a session.
    pub(super) fn has_sessions(&self, namespace: &OpenNamespace) -> Result<bool> {
        let NamespaceId(id) = namespace.id();
        has(&self.sessions, (id, "")..(id + 1, ""))
    }

    /// Deletes the name of a session whose messages are already deleted.
    pub(super) fn remove_session(&mut self, namespace: &OpenNamespace, session: &str) -> Result<()> {
        self.sessions.remove((namespace.record.id, session))?;
        Ok(())
    }

    /// The message with this id.
    pub(super) fn find(&self, namespace: &OpenNamespace, id: &str) -> Result<Option<StoredMessage>> {
        let seq = sessions::seq(&self.ids, namespace.record.id, id)?;
        seq.map(|seq| self.stored(namespace, seq)).transpose()
    }

    /// The message with this id that a put replaces. One that has expired is deleted, and the put is of a new message, unless
    /// a legal hold keeps it.
    pub(super) fn find_live(&mut self, namespace: &mut OpenNamespace, id: &str) -> Result<Option<StoredMessage>> {
        match self.find(namespace, id)? {
            Some(old) if old.record.has_expired() && !Holds(self.tables).is_held(&namespace.name)? => {
                self.forget(namespace, old)?;
                Ok(None)
            }
            found => Ok(found),
        }
    }

    /// Gives a record that is put instead of `old` the time of expiry that it has by its namespace's time to live.
    pub(super) fn with_expiry(
        &mut self,
        namespace: &OpenNamespace,
        old: Option<&StoredMessage>,
        record: MessageRecord,
    ) -> Result<MessageRecord> {
        self.lifetimes.with_expiry(namespace.id(), old.map(|old| &old.record), record)
    }

    /// The message with this sequence number.
    ///
    /// # Errors
    /// [`Error::Corrupted`] if it is missing, or is not in its session.
    pub(super) fn stored(&self, namespace: &OpenNamespace, seq: u64) -> Result<StoredMessage> {
        let record = MessageRecord::expect(&self.messages, namespace.record.id, seq)?;
        let session = sessions::known_number(&self.sessions, namespace.record.id, &record.session)?;
        let position = self.position(namespace, session, seq)?;
        let position = position.ok_or_else(|| Error::corrupted(format!("message {seq} is not in its session")))?;
        Ok(StoredMessage { seq, session, position, record })
    }

    /// The position of a message in a session, or `None` if it is not in it.
    pub(super) fn position(
        &self,
        namespace: &OpenNamespace,
        session: u32,
        seq: u64,
    ) -> Result<Option<SessionPosition>> {
        sessions::position(&self.history, namespace.record.id, session, seq)
    }

    /// The sequence numbers and positions of a session's messages, in order.
    pub(super) fn history(&self, namespace: &OpenNamespace, session: u32) -> Result<Vec<(u64, SessionPosition)>> {
        sessions::positions(&self.history, namespace.record.id, session, 0..=u64::MAX)
    }

    /// Stores a new message. Returns its sequence number.
    pub(super) fn insert(
        &mut self,
        namespace: &mut OpenNamespace,
        record: MessageRecord,
        position: SessionPosition,
    ) -> Result<u64> {
        let session = self.session(namespace, &record.session)?;
        let seq = namespace.fresh_number();
        self.note_put(namespace, seq);
        self.add(namespace, StoredMessage { seq, session, position, record })?;
        Ok(seq)
    }

    /// Stores a deleted message again under its old sequence number, with a new revision.
    pub(super) fn add_again(&mut self, namespace: &mut OpenNamespace, mut stored: StoredMessage) -> Result<()> {
        stored.record.revision = namespace.fresh_number();
        self.add(namespace, stored)
    }

    /// Reserves sequence numbers for the messages of an import. Returns the first.
    pub(super) fn reserve(&mut self, namespace: &mut OpenNamespace, numbers: u64) -> u64 {
        let first = namespace.record.next_seq;
        namespace.record.next_seq += numbers;
        first
    }

    /// Stores a message of an import under a reserved sequence number. Returns false if a message with this number or
    /// this id is stored already.
    pub(super) fn add_imported(&mut self, namespace: &mut OpenNamespace, stored: StoredMessage) -> Result<bool> {
        let id = namespace.record.id;
        let is_new = self.messages.get((id, stored.seq))?.is_none()
            && sessions::seq(&self.ids, id, &stored.record.id)?.is_none();
        if is_new {
            self.note_put(namespace, stored.seq);
            self.add(namespace, stored)?;
        }
        Ok(is_new)
    }

    /// Makes a message what it is elsewhere: stored so, or with `None` not stored.
    pub(super) fn set(&mut self, namespace: &mut OpenNamespace, seq: u64, new: Option<StoredMessage>) -> Result<()> {
        let is_stored = self.messages.get((namespace.record.id, seq))?.is_some();
        let old = is_stored.then(|| self.stored(namespace, seq)).transpose()?;
        match (old, new) {
            (Some(old), Some(new)) if old.position == new.position && old.record == new.record => Ok(()),
            (Some(old), Some(new))
                if old.record.revision == new.record.revision
                    && old.session == new.session
                    && old.position != SessionPosition::Buffer
                    && new.position != SessionPosition::Buffer =>
            {
                Superseded(self.tables).remove((namespace.record.id, seq), &old.record)?;
                self.write(namespace, old.record.expires_at, new, false)
            }
            (old, new) => {
                if let (Some(old), Some(new)) = (&old, &new) {
                    self.note_replaced(old, &new.record)?;
                }
                match (old, &new) {
                    (None, _) => {}
                    (Some(old), None) => self.forget(namespace, old)?,
                    // Its versions are set beside it.
                    (Some(old), Some(_)) => self.take_out(namespace, old)?,
                }
                new.map_or(Ok(()), |new| self.add(namespace, new))
            }
        }
    }

    /// Notes that a message is put now. The texts of documents are not asked for as of a time.
    fn note_put(&mut self, namespace: &OpenNamespace, seq: u64) {
        if !namespace.id().has_document_texts() {
            let first = self.first_put.entry(namespace.id()).or_insert(seq);
            *first = seq.min(*first);
        }
    }

    fn add(&mut self, namespace: &mut OpenNamespace, stored: StoredMessage) -> Result<()> {
        namespace.record.messages += 1;
        self.ids.insert((namespace.record.id, stored.record.id.as_str()), stored.seq)?;
        self.write(namespace, None, stored, true)
    }

    /// Replaces a message, which keeps its position. If its session changes, it becomes the last message there, in
    /// long-term memory.
    pub(super) fn replace(
        &mut self,
        namespace: &mut OpenNamespace,
        old: StoredMessage,
        mut record: MessageRecord,
    ) -> Result<()> {
        self.note_replaced(&old, &record)?;
        if self.tables.keeps_versions() && !old.record.same_content(&record) {
            let key = (namespace.record.id, old.seq);
            self.lifetimes.keep_version(&self.messages, &namespace.name, key, &old.record)?;
        }
        if record.session != old.record.session {
            let versions = self.lifetimes.versions(namespace.id(), old.seq)?;
            self.remove(namespace, old)?;
            record.revision = namespace.fresh_number();
            let seq = self.insert(namespace, record, SessionPosition::LongTerm(None))?;
            return versions
                .iter()
                .try_for_each(|(until, version)| self.set_version(namespace, seq, *until, Some(version)).map(drop));
        }
        self.keep_old(namespace, &old)?;
        let keeps_vectors = old.record.same_vectors(&record);
        record.revision = if keeps_vectors { old.record.revision } else { namespace.fresh_number() };
        if !keeps_vectors && old.position != SessionPosition::Buffer {
            self.consequences.outdate(namespace.id(), old.seq);
        }
        Superseded(self.tables).remove((namespace.record.id, old.seq), &old.record)?;
        self.write(namespace, old.record.expires_at, StoredMessage { record, ..old }, !keeps_vectors)
    }

    /// Notes the text of a message that another one replaces, unless it was not embedded.
    fn note_replaced(&mut self, old: &StoredMessage, new: &MessageRecord) -> Result<()> {
        if old.position != SessionPosition::Buffer && !old.record.same_content(new) {
            self.note_gone(old)?;
            self.replacing.insert(new.clone().message()?.searchable());
        }
        Ok(())
    }

    /// Notes a text that its message or document does not have any more.
    pub(super) fn note_gone(&mut self, old: &StoredMessage) -> Result<()> {
        self.replaced.push(old.record.clone().message()?.searchable());
        Ok(())
    }

    /// Deletes a message as a caller asked for it, as [`Edit::remove`] does.
    ///
    /// # Errors
    /// [`Error::LegalHold`].
    pub(super) fn delete(&mut self, namespace: &mut OpenNamespace, old: StoredMessage) -> Result<()> {
        if !namespace.is_free {
            Holds(self.tables).check(&namespace.name)?;
            namespace.is_free = true;
        }
        self.remove(namespace, old)
    }

    /// Deletes a message with all that was derived from it. A checkpoint that has it keeps it.
    pub(super) fn remove(&mut self, namespace: &mut OpenNamespace, old: StoredMessage) -> Result<()> {
        self.keep_old(namespace, &old)?;
        self.forget(namespace, old)
    }

    /// Deletes a message with its versions and all that was derived from it, and does not keep it for a checkpoint.
    pub(super) fn forget(&mut self, namespace: &mut OpenNamespace, old: StoredMessage) -> Result<()> {
        let key = (namespace.record.id, old.seq);
        self.lifetimes.remove_versions(&self.messages, &namespace.name, key, |_| true)?;
        self.take_out(namespace, old)
    }

    /// Deletes what has expired of a message: its versions, or all of it.
    pub(super) fn forget_expired(&mut self, namespace: &mut OpenNamespace, old: StoredMessage) -> Result<()> {
        if old.record.has_expired() {
            self.note_gone(&old)?;
            return self.forget(namespace, old);
        }
        let key = (namespace.record.id, old.seq);
        self.lifetimes.remove_versions(&self.messages, &namespace.name, key, MessageRecord::has_expired)
    }

    fn take_out(&mut self, namespace: &mut OpenNamespace, old: StoredMessage) -> Result<()> {
        let key = (namespace.record.id, old.seq);
        Superseded(self.tables).remove(key, &old.record)?;
        namespace.record.messages -= 1;
        self.messages.remove(key)?;
        self.ids.remove((key.0, old.record.id.as_str()))?;
        self.history.remove((key.0, old.session, old.seq))?;
        self.lifetimes.set_expiry(&self.messages, &namespace.name, key, old.record.expires_at, None)?;
        PutTimes(self.tables).message_removed(namespace.id(), old.seq, &self.messages)?;
        self.consequences.message_changed(namespace.id(), old.seq, IndexNeed::Gone);
        if old.position == SessionPosition::Buffer {
            self.consequences.buffer_changed(&namespace.name, &old.record.session, old.seq, None);
            return Ok(());
        }
        self.consequences.history_changed(&namespace.name, &old.record.session);
        self.consequences.set_pending(namespace.id(), old.seq, None)?;
        self.consequences.outdate(namespace.id(), old.seq);
        Ok(())
    }

    /// Records that the fields changed on which filters are evaluated, of a message that did not change itself.
    pub(super) fn fields_changed(&mut self, namespace: &OpenNamespace, seq: u64) {
        self.consequences.message_changed(namespace.id(), seq, IndexNeed::Unchanged);
    }

    /// Moves a message into its session's buffer, or out of it.
    pub(super) fn move_to(
        &mut self,
        namespace: &mut OpenNamespace,
        old: StoredMessage,
        position: SessionPosition,
    ) -> Result<()> {
        match (old.position, position) {
            _ if old.position == position => return Ok(()),
            (SessionPosition::Buffer, _) => {
                self.consequences.buffer_changed(&namespace.name, &old.record.session, old.seq, None)
            }
            (_, SessionPosition::Buffer) => {
                self.consequences.history_changed(&namespace.name, &old.record.session);
                self.consequences.set_pending(namespace.id(), old.seq, None)?;
                self.consequences.outdate(namespace.id(), old.seq);
            }
            _ => {
                let key = (namespace.record.id, old.session, old.seq);
                self.history.insert(key, position.number())?;
                return Ok(());
            }
        }
        self.write(namespace, old.record.expires_at, StoredMessage { position, ..old }, true)
    }

    /// Stores what a message was until a time, or with `None` removes it. Returns false if there was such a version.
    pub(super) fn set_version(
        &mut self,
        namespace: &OpenNamespace,
        seq: u64,
        until: Timestamp,
        version: Option<&MessageRecord>,
    ) -> Result<bool> {
        let key = (namespace.record.id, seq, until.as_micros());
        self.lifetimes.set_version(&self.messages, &namespace.name, key, version)
    }

    fn write(
        &mut self,
        namespace: &OpenNamespace,
        expired_at: Option<i64>,
        stored: StoredMessage,
        needs_vectors: bool,
    ) -> Result<()> {
        let StoredMessage { seq, session, position, record } = stored;
        let key = (namespace.record.id, seq);
        self.messages.insert(key, codec::encode(&record).as_slice())?;
        self.lifetimes.set_expiry(&self.messages, &namespace.name, key, expired_at, record.expires_at)?;
        Superseded(self.tables).note(key, &record)?;
        self.history.insert((namespace.record.id, session, seq), position.number())?;
        if position != SessionPosition::Buffer {
            self.consequences.history_changed(&namespace.name, &record.session);
        }
        if !needs_vectors && position != SessionPosition::Buffer {
            self.consequences.message_changed(namespace.id(), seq, IndexNeed::Unchanged);
        } else {
            let has_text = record.has_text()?;
            let need = if has_text { IndexNeed::Waiting } else { IndexNeed::Gone };
            self.consequences.message_changed(namespace.id(), seq, need);
            match position {
                SessionPosition::LongTerm(_) => {
                    self.consequences.set_pending(namespace.id(), seq, has_text.then_some(record.revision))?;
                }
                SessionPosition::Buffer => {
                    let session = record.session.clone();
                    self.consequences.buffer_changed(&namespace.name, &session, seq, Some(record.message()?));
                }
            }
        }
        Ok(())
    }

    /// Begins a session's window at this sequence number, if it does not begin later.
    pub(super) fn advance_window(&mut self, namespace: &OpenNamespace, session: &str, start: u64) -> Result<()> {
        self.change_window(namespace, session, |now| now.max(start))
    }

    /// Begins a session's window after all messages that it has.
    pub(super) fn empty_window(&mut self, namespace: &OpenNamespace, session: &str) -> Result<()> {
        self.change_window(namespace, session, |_| namespace.record.next_seq)
    }

    /// Begins a session's window at its first message.
    pub(super) fn whole_window(&mut self, namespace: &OpenNamespace, session: &str) -> Result<()> {
        self.change_window(namespace, session, |_| 0)
    }

    fn change_window(
        &mut self,
        namespace: &OpenNamespace,
        session: &str,
        change: impl FnOnce(u64) -> u64,
    ) -> Result<()> {
        let Some(number) = self.known_session(namespace, session)? else { return Ok(()) };
        self.consequences.history_changed(&namespace.name, session);
        let window = Window(self.tables);
        let start = window.start(namespace.id(), number)?;
        window.set_start(namespace.id(), number, change(start))
    }

    /// Keeps a message as it is for the newest checkpoint that has it, before it changes.
    fn keep_old(&self, namespace: &OpenNamespace, old: &StoredMessage) -> Result<()> {
        // Opens the tables of checkpoints only when a message changes: most puts change none.
        Checkpoints(self.tables).keep_message(namespace.id(), old.session, old.seq, &old.record, old.position)
    }
}
