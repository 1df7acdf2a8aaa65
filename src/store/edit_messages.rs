//! Changes of messages: putting, updating and deleting them.

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use super::{
    edit::{Edit, OpenNamespace},
    message_record::{MessageRecord, StoredMessage},
    schema::*,
    sessions::Batches,
    tables::WriteTransaction,
};
use crate::{
    error::{Error, Result},
    ids::Namespace,
    message::Message,
};

/// The counts of put messages.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PutResult {
    pub(crate) new: u64,
    pub(crate) replaced: u64,
    pub(crate) unchanged: u64,
    pub(crate) removed: u64,
}

impl PutResult {
    /// Stores a message and counts it. A new one gets this position, and its number is returned.
    fn put(
        &mut self,
        edit: &mut Edit<'_>,
        namespace: &mut OpenNamespace,
        old: Option<StoredMessage>,
        record: MessageRecord,
        position: SessionPosition,
    ) -> Result<Option<u64>> {
        let record = edit.with_expiry(namespace, old.as_ref(), record)?;
        match old {
            None => {
                self.new += 1;
                return edit.insert(namespace, record, position).map(Some);
            }
            Some(old) if old.record == (MessageRecord { revision: old.record.revision, ..record.clone() }) => {
                self.unchanged += 1;
            }
            Some(old) => {
                edit.replace(namespace, old, record)?;
                self.replaced += 1;
            }
        }
        Ok(None)
    }
}

/// Changes of messages, in one transaction.
pub(crate) struct EditMessages<'t>(pub(super) &'t WriteTransaction);

impl EditMessages<'_> {
    /// Stores messages in order, new ones in long-term memory. A message whose id is known is replaced and keeps its
    /// position; if its vectors no longer fit, they are erased and it becomes pending. The caller has checked the
    /// messages.
    pub(crate) fn put(&self, messages: &[(Namespace, Message)]) -> Result<PutResult> {
        let mut result = PutResult::default();
        let mut edit = Edit::begin(self.0)?;
        for (namespace, message) in messages {
            let mut namespace = edit.open(namespace)?;
            let record = MessageRecord::new(message, 0);
            let old = edit.find_live(&mut namespace, &message.id)?;
            result.put(&mut edit, &mut namespace, old, record, SessionPosition::LongTerm(None))?;
            edit.close(namespace);
        }
        edit.finish()?;
        Ok(result)
    }

    /// Same as [`put`](Self::put), and the new messages of each list and session are a batch of the session, as if they had
    /// been flushed together.
    pub(crate) fn put_in_batches(&self, namespace: &Namespace, lists: &[Vec<Message>]) -> Result<PutResult> {
        let mut result = PutResult::default();
        let mut edit = Edit::begin(self.0)?;
        for list in lists {
            let mut namespace = edit.open(namespace)?;
            let (id, mut batches) = (namespace.id(), BTreeMap::new());
            for message in list {
                let session = edit.session(&mut namespace, &message.session)?;
                let (number, ends) = match batches.get(&session) {
                    Some(&(number, ends)) => (number, Some(ends)),
                    None => (Batches(self.0).next_number(id, session)?, None),
                };
                let record = MessageRecord::new(message, 0);
                let old = edit.find_live(&mut namespace, &message.id)?;
                let position = SessionPosition::LongTerm(Some(number));
                if let Some(seq) = result.put(&mut edit, &mut namespace, old, record, position)? {
                    batches.insert(session, (number, (ends.map_or(seq, |(first, _)| first), seq)));
                }
            }
            for (session, (number, ends)) in batches {
                Batches(self.0).put(id, session, number, ends)?;
            }
            edit.close(namespace);
        }
        edit.finish()?;
        Ok(result)
    }

    /// Replaces the metadata of a message. Returns false if there is no such message.
    ///
    /// # Errors
    /// [`Error::InvalidMessage`]: the message cannot be stored with this metadata.
    pub(crate) fn set_metadata(&self, namespace: &Namespace, id: &str, metadata: &Map<String, Value>) -> Result<bool> {
        let mut edit = Edit::begin(self.0)?;
        if edit.known_namespace(namespace)?.is_none() {
            return Ok(false);
        }
        let mut namespace = edit.open(namespace)?;
        let old = edit.find(&namespace, id)?.filter(|old| !old.record.has_expired());
        let is_known = old.is_some();
        if let Some(old) = old {
            let message = Message { metadata: metadata.clone(), ..old.record.clone().message()? };
            message.check()?;
            edit.replace(&mut namespace, old, MessageRecord::new(&message, 0))?;
        }
        edit.close(namespace);
        edit.finish()?;
        Ok(is_known)
    }

    /// Deletes the messages with these ids and ignores unknown ids. Returns how many were deleted, without those that had
    /// expired.
    ///
    /// # Errors
    /// [`Error::LegalHold`].
    pub(crate) fn delete(&self, namespace: &Namespace, ids: &[String]) -> Result<u64> {
        let mut edit = Edit::begin(self.0)?;
        // Opening a namespace creates it.
        if edit.known_namespace(namespace)?.is_none() {
            return Ok(0);
        }
        let mut namespace = edit.open(namespace)?;
        let mut deleted = 0;
        for id in ids {
            if let Some(old) = edit.find(&namespace, id)? {
                deleted += u64::from(!old.record.has_expired());
                edit.delete(&mut namespace, old)?;
            }
        }
        edit.close(namespace);
        edit.finish()?;
        Ok(deleted)
    }

    /// Changes a session's messages by id. New ones go into its buffer.
    ///
    /// # Errors
    /// [`Error::InvalidMessage`]: the session has no message with an id to remove; another session has a message with
    /// an id to put.
    pub(crate) fn update(&self, namespace: &Namespace, session: &str, change: &SessionChange) -> Result<PutResult> {
        let mut result = PutResult::default();
        let mut edit = Edit::begin(self.0)?;
        if change.put.is_empty() && change.remove.is_empty() && edit.known_namespace(namespace)?.is_none() {
            return Ok(result);
        }
        let mut namespace = edit.open(namespace)?;
        let number = edit.known_session(&namespace, session)?;
        if change.clear != Clear::None
            && let Some(number) = number
        {
            let all = change.clear == Clear::Session;
            let mut beginning = change.put.iter();
            let mut is_beginning = all;
            for (seq, position) in edit.history(&namespace, number)? {
                if !all && position != SessionPosition::Buffer {
                    continue;
                }
                let old = edit.stored(&namespace, seq)?;
                is_beginning = is_beginning && beginning.next().is_some_and(|put| put.id == old.record.id);
                if !is_beginning {
                    edit.delete(&mut namespace, old)?;
                    result.removed += 1;
                }
            }
            match all {
                true => edit.whole_window(&namespace, session)?,
                false => edit.empty_window(&namespace, session)?,
            }
        }
        for id in &change.remove {
            let old = edit.find(&namespace, id)?.filter(|old| Some(old.session) == number);
            let old =
                old.ok_or_else(|| Error::message(format!("session {session:?} has no message {id:?} to remove")))?;
            edit.delete(&mut namespace, old)?;
            result.removed += 1;
        }
        for message in &change.put {
            let record = MessageRecord { session: session.to_owned(), ..MessageRecord::new(message, 0) };
            let old = edit.find_live(&mut namespace, &message.id)?;
            if let Some(old) = old.as_ref().filter(|old| old.record.session != session) {
                let other = &old.record.session;
                let reason =
                    format!("session {other:?} already has a message with id {:?}; use another id", message.id);
                return Err(Error::message(reason));
            }
            result.put(&mut edit, &mut namespace, old, record, SessionPosition::Buffer)?;
        }
        edit.close(namespace);
        edit.finish()?;
        Ok(result)
    }

    /// Puts messages into a session's history, in long-term memory. If `replace`, the history is deleted first. A
    /// message whose id another session has is stored under an id of its own; [`restore_id`] restores the given id.
    pub(crate) fn put_history(
        &self,
        namespace: &Namespace,
        session: &str,
        messages: &[Message],
        replace: bool,
    ) -> Result<()> {
        let mut edit = Edit::begin(self.0)?;
        let mut namespace = edit.open(namespace)?;
        let number = edit.known_session(&namespace, session)?;
        if replace && let Some(number) = number {
            for (seq, _) in edit.history(&namespace, number)? {
                let old = edit.stored(&namespace, seq)?;
                edit.delete(&mut namespace, old)?;
            }
        }
        for message in messages {
            let mut record = MessageRecord::new(message, 0);
            let mut old = edit.find_live(&mut namespace, &message.id)?;
            if old.as_ref().is_none_or(|old| old.record.session != session) {
                let own = own_id(session, &message.id);
                let renamed = edit.find_live(&mut namespace, &own)?;
                if renamed.is_some() || old.is_some() {
                    let mut renamed = message.clone().with_id(own);
                    renamed.metadata.insert(GIVEN_ID.to_owned(), Value::String(message.id.clone()));
                    record = MessageRecord::new(&renamed, 0);
                }
                old = renamed;
            }
            let record = edit.with_expiry(&namespace, old.as_ref(), record)?;
            match old {
                None => drop(edit.insert(&mut namespace, record, SessionPosition::LongTerm(None))?),
                Some(old) => edit.replace(&mut namespace, old, record)?,
            }
        }
        edit.close(namespace);
        edit.finish()
    }
}

/// A change of a session's messages. The steps are done in the order of the fields.
#[derive(Clone, Debug, Default)]
pub(crate) struct SessionChange {
    /// Deletes messages.
    pub(crate) clear: Clear,
    /// Deletes the messages with these ids.
    pub(crate) remove: Vec<String>,
    /// Puts messages. New ones go into the buffer.
    pub(crate) put: Vec<Message>,
}

/// The messages that a change of a session deletes first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Clear {
    /// None.
    #[default]
    None,
    /// Those in the buffer. The others leave the window.
    Buffer,
    /// All, flushed ones too, except those that are put again in the same order from the first on: they stay where they
    /// are, with their vectors.
    Session,
}

/// The metadata key under which a message keeps the id that it was given, if another session had that id.
const GIVEN_ID: &str = "mnemon.id";

/// Restores the id that a message was given before [`EditMessages::put_history`] changed it.
pub(crate) fn restore_id(message: &mut Message) {
    // Any other value under this key is the user's.
    let given = message.metadata.get(GIVEN_ID).and_then(Value::as_str).map(str::to_owned);
    if let Some(given) = given.filter(|given| own_id(&message.session, given) == message.id) {
        message.metadata.remove(GIVEN_ID);
        message.id = given;
    }
}

/// The id under which a session stores a message whose given id another session has.
fn own_id(session: &str, id: &str) -> String {
    let hash = Sha256::new().chain_update(session).chain_update([0xff]).chain_update(id).finalize();
    hash.iter().map(|byte| format!("{byte:02x}")).collect()
}
