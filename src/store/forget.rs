//! Forgetting: deletes messages, documents, sessions and namespaces with all that the store made of them.
//!
//! A deletion keeps the messages that a checkpoint has, and the states that blocks made. Forgetting keeps neither, and
//! it removes the names of sessions and namespaces that become empty. The terms of rows that are gone stay in their
//! segments, which the store cannot read: the caller writes the segments of [`ForgetResult::touched`] again in the same
//! commit.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use redb::ReadableTable;

use super::{
    batches::Batches,
    blocks::Blocks,
    checkpoints::Checkpoints,
    codec,
    documents::parse,
    edit::Edit,
    edit_documents::Changing,
    edit_sessions::EditSessions,
    effects::Effects,
    forget_texts::{ForgetPiece, ForgetTexts},
    generations::records,
    history::History,
    holds::Holds,
    journal::Journal,
    message_record::MessageRecord,
    namespaces::Namespaces,
    removal,
    schema::*,
    sessions::Sessions,
    tables::{Tables, storage},
    write_tables::WriteTransaction,
};
use crate::{
    error::Result,
    forget::{Forgotten, RECORD_KEYS, items_made_of, source_hash},
    ids::{Namespace, NamespaceId},
};

/// Forgetting, in one transaction.
pub(crate) struct EditForget<'t>(pub(super) &'t WriteTransaction);

/// What was forgotten.
#[derive(Debug, Default)]
pub(crate) struct ForgetResult {
    pub(crate) forgotten: Forgotten,
    pub(crate) effects: Effects,
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
        match piece {
            ForgetPiece::Namespaces(namespaces) => {
                for (name, _) in namespaces {
                    self.namespace(name, piece, &mut result)?;
                    self.items(name, &mut result)?;
                }
            }
            ForgetPiece::Documents(keys) => self.documents(name, keys, &mut result)?,
            ForgetPiece::Messages(ids, _) => self.messages(name, ids, piece, &mut result)?,
            ForgetPiece::Session(session) => self.session(name, session, piece, &mut result)?,
        }
        self.items(name, &mut result)?;
        // The questions may repeat what is forgotten.
        let mut asked: BTreeSet<NamespaceId> = result.touched.iter().map(|id| id.whole()).collect();
        asked.extend(Namespaces(self.0).id(name)?);
        asked.into_iter().try_for_each(|id| Journal(self.0).clear(id))?;
        // A retired generation is deleted step by step, and nothing reads it.
        for (generation, record) in records(&self.0.table(GENERATIONS)?)? {
            if record.state == GenerationState::Retired {
                result.touched.iter().try_for_each(|&id| removal::clear_derived(self.0, generation, id))?;
            }
        }
        result.forgotten.vectors = result.effects.removed.iter().map(|removed| removed.rows.len() as u64).sum();
        Ok(result)
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
        result.effects.append(edit.finish()?);
        self.old_messages(id, piece, &mut touched, result)?;
        self.settle(name, id, touched, result)
    }

    fn session(&self, name: &Namespace, session: &str, piece: &ForgetPiece, result: &mut ForgetResult) -> Result<()> {
        Holds(self.0).check(name)?;
        let Some(id) = Namespaces(self.0).id(name)? else { return Ok(()) };
        let Some(number) = Sessions(self.0).number(id, session)? else { return Ok(()) };
        ForgetTexts(self.0).records(name, piece, |record| result.note(&record))?;
        self.old_messages(id, piece, &mut TouchedSessions::new(), result)?;
        let batches = Batches(self.0).next_number(id, number)?;
        result.forgotten.block_states += Blocks(self.0).drop_states(id, number, |batch| batch < batches)?;
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
        result.effects.append(changing.finish()?);
        result.touched.insert(id.document_texts());
        self.remove_if_empty(name, result)
    }

    /// Forgets the items of collections that were made of the noted messages, in a namespace and in those under it,
    /// with the records of the updates.
    fn items(&self, name: &Namespace, result: &mut ForgetResult) -> Result<()> {
        let sources = std::mem::take(&mut result.sources);
        if sources.is_empty() {
            return Ok(());
        }
        for (name, id) in Namespaces(self.0).all_under(name)? {
            let mut keys = Vec::new();
            let records = (id.0, RECORD_KEYS.0)..(id.0, RECORD_KEYS.1);
            for entry in self.0.table(DOCUMENTS)?.range(records).map_err(storage)? {
                let (key, value) = entry.map_err(storage)?;
                let record: DocumentRecord = codec::decode(value.value())?;
                let key = key.value().1;
                if let Some(items) = items_made_of(&parse(&record.value, key)?, &sources) {
                    keys.extend(items);
                    keys.push(key.to_owned());
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
        self.old_messages(id, piece, &mut TouchedSessions::new(), result)?;
        result.forgotten.sessions += Sessions(self.0).all(id)?.len() as u64;
        let (totals, effects) = Namespaces(self.0).delete(&[(name.clone(), id)])?;
        result.forgotten.messages += totals.messages;
        result.forgotten.documents += totals.documents;
        result.forgotten.namespaces += 1;
        result.effects.append(effects);
        result.touched.extend(id.parts());
        Ok(())
    }

    /// Deletes the versions of messages that a piece selects and that are kept for checkpoints.
    fn old_messages(
        &self,
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
        result.forgotten.old_messages += keys.len() as u64;
        keys.into_iter().try_for_each(|key| Checkpoints(self.0).remove_old_message(key))
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
                let is_touched = |batch| batches.contains(&batch);
                result.forgotten.block_states += Blocks(self.0).drop_states(id, session, is_touched)?;
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

    /// Deletes a session, whose messages are counted.
    fn delete_session(&self, name: &Namespace, session: &str, result: &mut ForgetResult) -> Result<()> {
        let (messages, effects) = EditSessions(self.0).delete(name, session)?;
        result.forgotten.messages += messages.unwrap_or(0);
        result.forgotten.sessions += u64::from(messages.is_some());
        result.effects.append(effects);
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
