//! Forgetting: deletes messages, documents, sessions and namespaces with all that the store made of them.
//!
//! A deletion keeps the messages that a checkpoint has, and the states that blocks made. Forgetting keeps neither, and
//! it removes the names of sessions and namespaces that become empty. The terms of rows that are gone stay in their
//! segments, which the store cannot read: the caller writes the segments of [`ForgetResult::touched`] again in the same
//! commit.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use serde_json::Value;

use super::{
    audit::Holds,
    blocks::{Blocks, DroppedStates},
    checkpoints::Checkpoints,
    codec,
    documents::{parse, text_ids},
    edit::Edit,
    edit_documents::{Changing, DocumentAction, DocumentChange, EditDocuments},
    edit_sessions::EditSessions,
    generations::records,
    journal::Journal,
    lifetimes::Lifetimes,
    lost_rows::LostRows,
    message_record::{MessageRecord, OldMessage},
    message_versions,
    namespaces::Namespaces,
    removal,
    schema::*,
    sessions::{self, Batches, History, Sessions},
    tables::{ReadableTable, Tables, WriteTransaction},
};
use crate::{
    error::Result,
    filter::MetadataFilter,
    forget::{Forgotten, RECORD_KEYS, items_made_of, source_hash, without_items},
    ids::{Namespace, NamespaceId},
};

/// Forgetting, in one transaction.
pub(crate) struct EditForget<'t>(pub(super) &'t WriteTransaction);

/// What was forgotten.
#[derive(Debug, Default)]
pub(crate) struct ForgetResult {
    pub(crate) forgotten: Forgotten,
    /// The texts that were embedded.
    pub(crate) texts: Vec<String>,
    /// The namespaces and companions in which something was forgotten.
    pub(crate) touched: BTreeSet<NamespaceId>,
    /// The hashes by which records of updates name the messages.
    sources: HashSet<String>,
}

impl ForgetResult {
    /// Notes a message, or a version of one, that is forgotten.
    fn note(&mut self, record: &MessageRecord) -> Result<()> {
        self.sources.insert(source_hash(&record.id));
        self.texts.push(record.clone().message()?.searchable());
        Ok(())
    }
}

/// The sessions in which messages were forgotten, by number, and the batches that these were flushed in.
type TouchedSessions = BTreeMap<u32, BTreeSet<u32>>;

impl EditForget<'_> {
    /// Forgets a piece, and the items that collections made of its messages, where a collection is in the namespace of
    /// the messages or under it. The vectors are erased in all generations.
    ///
    /// # Errors
    /// [`Error::LegalHold`](crate::Error::LegalHold).
    pub(crate) fn apply(&self, name: &Namespace, piece: &ForgetPiece) -> Result<ForgetResult> {
        let mut result = ForgetResult::default();
        let removed_before = self.removed_rows();
        match piece {
            ForgetPiece::Namespaces(namespaces) => {
                for (name, _) in namespaces {
                    self.namespace(name, piece, &mut result)?;
                    LostRows(self.0).clear(name.as_str())?;
                    self.items(name, &mut result)?;
                }
            }
            ForgetPiece::Documents(keys) => self.documents(name, keys, &mut result)?,
            ForgetPiece::Messages(ids, _) => self.messages(name, ids, piece, &mut result)?,
            ForgetPiece::Session(session) => self.session(name, session, piece, &mut result)?,
        }
        if let Some(id) = Namespaces(self.0).id(name)? {
            result.forgotten.block_states += Blocks(self.0).drop_versions(id, &result.sources)?;
        }
        self.items(name, &mut result)?;
        // The questions may repeat what is forgotten.
        let mut asked: BTreeSet<NamespaceId> = result.touched.iter().map(|id| id.whole()).collect();
        asked.extend(Namespaces(self.0).id(name)?);
        asked.into_iter().try_for_each(|id| Journal(self.0).clear(id))?;
        LostRows(self.0).clear(name.as_str())?;
        // A retired generation is deleted step by step, and nothing reads it.
        for (generation, record) in records(&self.0.table(GENERATIONS)?)? {
            if record.state == GenerationState::Retired {
                result.touched.iter().try_for_each(|&id| removal::clear_derived(self.0, generation, id))?;
            }
        }
        result.forgotten.vectors = self.removed_rows() - removed_before;
        Ok(result)
    }

    /// Returns how many rows the transaction has removed from indexes so far.
    fn removed_rows(&self) -> u64 {
        self.0.effects().removed.iter().map(|removed| removed.rows.len() as u64).sum()
    }

    fn messages(
        &self,
        name: &Namespace,
        ids: &HashSet<String>,
        piece: &ForgetPiece,
        result: &mut ForgetResult,
    ) -> Result<()> {
        Holds(self.0).check(name)?;
        let Some(id) = Namespaces(self.0).id(name)? else { return Ok(()) };
        let mut touched = TouchedSessions::new();
        self.old_messages(name, id, piece, &mut touched, result)?;
        let mut edit = Edit::begin(self.0)?;
        let mut namespace = edit.open(name)?;
        for message in ids {
            let Some(old) = edit.find(&namespace, message)? else { continue };
            note(&mut touched, old.session, old.position);
            result.note(&old.record)?;
            edit.forget(&mut namespace, old)?;
            result.forgotten.messages += 1;
        }
        edit.close(namespace);
        edit.finish()?;
        self.settle(name, id, touched, result)
    }

    fn session(&self, name: &Namespace, session: &str, piece: &ForgetPiece, result: &mut ForgetResult) -> Result<()> {
        Holds(self.0).check(name)?;
        let Some(id) = Namespaces(self.0).id(name)? else { return Ok(()) };
        let Some(number) = Sessions(self.0).number(id, session)? else { return Ok(()) };
        ForgetTexts(self.0).records(name, piece, |record| result.note(&record))?;
        self.old_messages(name, id, piece, &mut TouchedSessions::new(), result)?;
        let batches = Batches(self.0).next_number(id, number)?;
        self.drop_states(name, id, number, |batch| batch < batches, result)?;
        self.delete_session(name, session, result)?;
        result.touched.insert(id);
        self.remove_if_empty(name, result)
    }

    fn documents(&self, name: &Namespace, keys: &[String], result: &mut ForgetResult) -> Result<()> {
        Holds(self.0).check(name)?;
        let Some(id) = Namespaces(self.0).id(name)? else { return Ok(()) };
        let mut texts = 0;
        ForgetTexts(self.0).records(name, &ForgetPiece::Documents(keys.to_vec()), |record| {
            texts += 1;
            result.texts.push(record.message()?.searchable());
            Ok(())
        })?;
        result.forgotten.document_texts += texts;
        let mut changing = Changing::begin(self.0)?;
        for key in keys {
            result.forgotten.documents += u64::from(changing.delete(name, key)?);
        }
        changing.finish()?;
        self.earlier_values(name, id, keys)?;
        result.touched.insert(id.document_texts());
        self.remove_if_empty(name, result)
    }

    /// Removes the values that items of a collection had before updates.
    fn earlier_values(&self, name: &Namespace, id: NamespaceId, keys: &[String]) -> Result<()> {
        let mut changes = Vec::new();
        for (key, record) in self.updates(id)? {
            if let Some(record) = without_items(&record, keys) {
                let value = record.to_string();
                let action = DocumentAction::Put { value, texts: Vec::new(), vectors: Vec::new(), ttl: None };
                changes.push(DocumentChange { namespace: name.clone(), key, action });
            }
        }
        if !changes.is_empty() {
            EditDocuments(self.0).apply(&changes)?;
        }
        Ok(())
    }

    /// The records of the updates of a collection, with their keys.
    fn updates(&self, id: NamespaceId) -> Result<Vec<(String, Value)>> {
        let mut found = Vec::new();
        let records = (id.0, RECORD_KEYS.0)..(id.0, RECORD_KEYS.1);
        for entry in self.0.table(DOCUMENTS)?.range(records)? {
            let (key, value) = entry?;
            let record: DocumentRecord = codec::decode(value.value())?;
            let key = key.value().1;
            found.push((key.to_owned(), parse(&record.value, key)?));
        }
        Ok(found)
    }

    /// Forgets the items of collections that were made of the noted messages, in a namespace and in those under it,
    /// with the records of the updates.
    fn items(&self, name: &Namespace, result: &mut ForgetResult) -> Result<()> {
        let sources = std::mem::take(&mut result.sources);
        if sources.is_empty() {
            return Ok(());
        }
        for (name, id) in Namespaces(self.0).all_under(Some(name))? {
            let mut keys = Vec::new();
            for (key, record) in self.updates(id)? {
                if let Some(items) = items_made_of(&record, &sources) {
                    keys.extend(items);
                    keys.push(key);
                }
            }
            if !keys.is_empty() {
                self.documents(&name, &keys, result)?;
            }
        }
        Ok(())
    }

    fn namespace(&self, name: &Namespace, piece: &ForgetPiece, result: &mut ForgetResult) -> Result<()> {
        let Some(id) = Namespaces(self.0).id(name)? else { return Ok(()) };
        let own = ForgetPiece::Namespaces(vec![(name.clone(), id)]);
        ForgetTexts(self.0).records(name, &own, |record| result.note(&record))?;
        let texts = Namespaces(self.0).record(&name.document_texts())?.map_or(0, |record| record.messages);
        result.forgotten.document_texts += texts;
        self.old_messages(name, id, piece, &mut TouchedSessions::new(), result)?;
        result.forgotten.sessions += Sessions(self.0).all(id)?.len() as u64;
        let totals = Namespaces(self.0).delete(&[(name.clone(), id)])?;
        result.forgotten.messages += totals.messages;
        result.forgotten.documents += totals.documents;
        result.forgotten.namespaces += 1;
        result.touched.extend(id.parts());
        Ok(())
    }

    /// Deletes the earlier versions of messages that a piece selects, also those that are kept for checkpoints.
    fn old_messages(
        &self,
        name: &Namespace,
        id: NamespaceId,
        piece: &ForgetPiece,
        touched: &mut TouchedSessions,
        result: &mut ForgetResult,
    ) -> Result<()> {
        let mut keys = Vec::new();
        Checkpoints(self.0).visit_old_messages(id, |key, old| {
            if piece.selects_old(&old.record)? {
                note(touched, key.1, SessionPosition::read(old.position));
                result.note(&old.record)?;
                keys.push(key);
            }
            Ok(())
        })?;
        let mut versions = Vec::new();
        let history = self.0.table(HISTORY)?;
        message_versions::visit(&self.0.table(MESSAGE_VERSIONS)?, id, |key, record| {
            if piece.selects_old(&record)? {
                // An edit may have moved the message out of the session of the version.
                if let Some(session) = Sessions(self.0).number(id, &record.session)? {
                    let position = sessions::position(&history, id.0, session, key.1)?;
                    note(touched, session, position.unwrap_or(SessionPosition::LongTerm(None)));
                }
                result.touched.insert(id);
                result.note(&record)?;
                versions.push(key);
            }
            Ok(())
        })?;
        result.forgotten.old_messages += (keys.len() + versions.len()) as u64;
        keys.into_iter().try_for_each(|key| Checkpoints(self.0).remove_old_message(key))?;
        let (messages, mut lifetimes) = (self.0.table(MESSAGES)?, Lifetimes::new(self.0));
        versions.into_iter().try_for_each(|key| lifetimes.set_version(&messages, name, key, None).map(drop))
    }

    /// Drops what was made of forgotten messages, and deletes sessions that have no message left.
    fn settle(
        &self,
        name: &Namespace,
        id: NamespaceId,
        touched: TouchedSessions,
        result: &mut ForgetResult,
    ) -> Result<()> {
        let names: BTreeMap<u32, String> =
            Sessions(self.0).all(id)?.into_iter().map(|(name, number)| (number, name)).collect();
        if !touched.is_empty() {
            result.touched.insert(id);
        }
        for (session, batches) in touched {
            if !batches.is_empty() {
                self.drop_states(name, id, session, |batch| batches.contains(&batch), result)?;
            }
            let is_empty = History(self.0).positions(id, session)?.is_empty()
                && !Checkpoints(self.0).has_old_messages(id, session)?;
            match names.get(&session).filter(|_| is_empty) {
                Some(session) => self.delete_session(name, session, result)?,
                None => Checkpoints(self.0).recount(id, session)?,
            }
        }
        self.remove_if_empty(name, result)
    }

    /// Drops the states that blocks made of these batches of a session, and forgets the documents that they made of them,
    /// where these are in the namespace of the messages or under it.
    fn drop_states(
        &self,
        name: &Namespace,
        id: NamespaceId,
        session: u32,
        batches: impl Fn(u32) -> bool,
        result: &mut ForgetResult,
    ) -> Result<()> {
        let DroppedStates { states, documents } = Blocks(self.0).drop_states(id, session, batches)?;
        result.forgotten.block_states += states;
        let mut below = documents.into_iter().filter(|(namespace, _)| namespace.starts_with(name));
        below.try_for_each(|(namespace, key)| self.documents(&namespace, &[key], result))
    }

    /// Deletes a session, whose messages are counted.
    fn delete_session(&self, name: &Namespace, session: &str, result: &mut ForgetResult) -> Result<()> {
        let messages = EditSessions(self.0).delete(name, session)?;
        result.forgotten.messages += messages.unwrap_or(0);
        result.forgotten.sessions += u64::from(messages.is_some());
        Ok(())
    }

    /// Removes the name of a namespace if nothing is left in it. The deletion of its last session may have done it.
    fn remove_if_empty(&self, name: &Namespace, result: &mut ForgetResult) -> Result<()> {
        removal::remove_if_empty(self.0, name)?;
        result.forgotten.namespaces += u64::from(Namespaces(self.0).id(name)?.is_none());
        Ok(())
    }
}

/// Notes that a message of a session was forgotten.
fn note(touched: &mut TouchedSessions, session: u32, position: SessionPosition) {
    let batches = touched.entry(session).or_default();
    if let SessionPosition::LongTerm(Some(batch)) = position {
        batches.insert(batch);
    }
}

/// What one commit forgets in a namespace.
#[derive(Clone, Debug)]
pub(crate) enum ForgetPiece {
    /// Messages by their ids. With a filter, also the earlier versions of messages that match it.
    Messages(HashSet<String>, Option<MetadataFilter>),
    /// Documents by their keys.
    Documents(Vec<String>),
    /// A session with all that it still has.
    Session(String),
    /// Whole namespaces.
    Namespaces(Vec<(Namespace, NamespaceId)>),
}

impl ForgetPiece {
    /// Returns true if an earlier version of a message is to be forgotten.
    pub(super) fn selects_old(&self, record: &MessageRecord) -> Result<bool> {
        Ok(match self {
            ForgetPiece::Messages(ids, filter) => {
                ids.contains(&record.id)
                    || match filter {
                        Some(filter) => filter.matches_fields(&record.clone().message()?),
                        None => false,
                    }
            }
            ForgetPiece::Session(session) => record.session == *session,
            ForgetPiece::Namespaces(_) => true,
            ForgetPiece::Documents(_) => false,
        })
    }
}

/// The tables with the texts of messages and documents.
pub(crate) struct ForgetTexts<'t, T>(pub(super) &'t T);

impl<T: Tables> ForgetTexts<'_, T> {
    /// Calls `visit` with each text that a piece forgets.
    pub(crate) fn of(
        &self,
        namespace: &Namespace,
        piece: &ForgetPiece,
        mut visit: impl FnMut(String) -> Result<()>,
    ) -> Result<()> {
        self.records(namespace, piece, |record| visit(record.message()?.searchable()))
    }

    /// Calls `visit` with each message, version of a message, and text of a document that a piece forgets.
    pub(super) fn records(
        &self,
        namespace: &Namespace,
        piece: &ForgetPiece,
        mut visit: impl FnMut(MessageRecord) -> Result<()>,
    ) -> Result<()> {
        if let ForgetPiece::Namespaces(namespaces) = piece {
            for &(_, id) in namespaces {
                id.parts().into_iter().try_for_each(|part| self.all(part, &mut visit))?;
                self.old(id, piece, &mut visit)?;
            }
            return Ok(());
        }
        let Some(id) = Namespaces(self.0).id(namespace)? else { return Ok(()) };
        let messages = self.0.table(MESSAGES)?;
        let mut read = |id: NamespaceId, seq| match MessageRecord::read(&messages, id.0, seq)? {
            Some(record) => visit(record),
            None => Ok(()),
        };
        match piece {
            ForgetPiece::Messages(ids, _) => {
                let table = self.0.table(IDS)?;
                for message in ids {
                    if let Some(seq) = sessions::seq(&table, id.0, message)? {
                        read(id, seq)?;
                    }
                }
            }
            ForgetPiece::Documents(keys) => {
                let (table, companion) = (self.0.table(IDS)?, id.document_texts());
                for key in keys {
                    text_ids(&table, companion, key)?.into_values().try_for_each(|seq| read(companion, seq))?;
                }
            }
            ForgetPiece::Session(session) => {
                if let Some(number) = Sessions(self.0).number(id, session)? {
                    let all = (id.0, number, 0)..=(id.0, number, u64::MAX);
                    for entry in self.0.table(HISTORY)?.range(all)? {
                        read(id, entry?.0.value().2)?;
                    }
                }
            }
            ForgetPiece::Namespaces(_) => unreachable!("handled above"),
        }
        self.old(id, piece, &mut visit)
    }

    /// The ids of the messages of a namespace that match a filter, and the ids of a session's messages without one.
    pub(crate) fn matching(&self, namespace: &Namespace, filter: &MetadataFilter) -> Result<Vec<String>> {
        let Some(id) = Namespaces(self.0).id(namespace)? else { return Ok(Vec::new()) };
        let mut ids = Vec::new();
        for entry in self.0.table(MESSAGES)?.range((id.0, 0)..=(id.0, u64::MAX))? {
            let message = codec::decode::<MessageRecord>(entry?.1.value())?.message()?;
            if filter.matches_fields(&message) {
                ids.push(message.id);
            }
        }
        Ok(ids)
    }

    fn all(&self, NamespaceId(id): NamespaceId, visit: &mut impl FnMut(MessageRecord) -> Result<()>) -> Result<()> {
        for entry in self.0.table(MESSAGES)?.range((id, 0)..=(id, u64::MAX))? {
            visit(codec::decode(entry?.1.value())?)?;
        }
        Ok(())
    }

    fn old(
        &self,
        namespace: NamespaceId,
        piece: &ForgetPiece,
        visit: &mut impl FnMut(MessageRecord) -> Result<()>,
    ) -> Result<()> {
        let mut visit_selected = |record| match piece.selects_old(&record)? {
            true => visit(record),
            false => Ok(()),
        };
        Checkpoints(self.0).visit_old_messages(namespace, |_, OldMessage { record, .. }| visit_selected(record))?;
        message_versions::visit(&self.0.table(MESSAGE_VERSIONS)?, namespace, |_, record| visit_selected(record))
    }
}
