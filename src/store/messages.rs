//! Putting and deleting messages.

use serde_json::Value;
use sha2::{Digest, Sha256};

use super::{
    Transaction,
    edit::{Edit, Effects, Space, Stored},
    schema::*,
};
use crate::{
    error::{Error, Result},
    ids::{Namespace, NamespaceId},
    message::Message,
};

/// What putting a batch did.
#[derive(Debug, Default)]
pub(crate) struct PutResult {
    pub(crate) new: u64,
    pub(crate) replaced: u64,
    pub(crate) unchanged: u64,
    pub(crate) removed: u64,
    pub(crate) effects: Effects,
}

impl PutResult {
    /// Stores a message, and counts it; a new one in this place.
    fn put(
        &mut self,
        edit: &mut Edit<'_>,
        space: &mut Space,
        old: Option<Stored>,
        record: MessageRecord,
        place: Place,
    ) -> Result<()> {
        match old {
            None => {
                edit.insert(space, record, place)?;
                self.new += 1;
            }
            Some(old) if old.record == (MessageRecord { revision: old.record.revision, ..record.clone() }) => {
                self.unchanged += 1;
            }
            Some(old) => {
                edit.replace(space, old, record)?;
                self.replaced += 1;
            }
        }
        Ok(())
    }
}

impl Transaction {
    /// Stores messages, in order. A known id is replaced in its place, and stays where it is; if its vectors no longer
    /// fit, they die here and it is pending again. Messages are checked before.
    pub(crate) fn put(&mut self, messages: &[(Namespace, Message)]) -> Result<PutResult> {
        let mut result = PutResult::default();
        let mut edit = Edit::begin(self)?;
        for (namespace, message) in messages {
            let mut space = edit.space(namespace)?;
            let record = MessageRecord::new(message, 0);
            let old = edit.find(&space, &message.id)?;
            result.put(&mut edit, &mut space, old, record, Place::LongTerm(None))?;
            edit.put_back(space);
        }
        result.effects = edit.finish()?;
        Ok(result)
    }

    /// The number of a namespace, which is made if it is new.
    pub(crate) fn make_namespace(&mut self, namespace: &Namespace) -> Result<NamespaceId> {
        let mut edit = Edit::begin(self)?;
        let space = edit.space(namespace)?;
        let id = NamespaceId(space.record.id);
        edit.put_back(space);
        edit.finish().map(|_| id)
    }

    /// Deletes the messages with these ids; unknown ones are passed over. Returns how many there were.
    pub(crate) fn delete(&mut self, namespace: &Namespace, ids: &[String]) -> Result<(u64, Effects)> {
        let mut edit = Edit::begin(self)?;
        let mut space = edit.space(namespace)?;
        let mut deleted = 0;
        for id in ids {
            if let Some(old) = edit.find(&space, id)? {
                edit.remove(&mut space, old)?;
                deleted += 1;
            }
        }
        edit.put_back(space);
        Ok((deleted, edit.finish()?))
    }

    /// Changes a session's messages by id; new ones go into its buffer. All `clear`: those in the buffer are deleted first.
    ///
    /// # Errors
    /// [`Error::InvalidMessage`]: an id to remove that the session does not have; an id to put that another session has.
    pub(crate) fn update(&mut self, namespace: &Namespace, session: &str, change: &SessionChange) -> Result<PutResult> {
        let mut result = PutResult::default();
        let mut edit = Edit::begin(self)?;
        let mut space = edit.space(namespace)?;
        let number = edit.known_session(&space, session)?;
        if change.clear {
            for (seq, place) in number.map_or(Ok(Vec::new()), |number| edit.history(&space, number))? {
                if place == Place::Buffer {
                    let old = edit.stored(&space, seq)?;
                    edit.remove(&mut space, old)?;
                    result.removed += 1;
                }
            }
        }
        for id in &change.remove {
            let old = edit.find(&space, id)?.filter(|old| Some(old.session) == number);
            let old =
                old.ok_or_else(|| Error::message(format!("no message {id:?} to remove in session {session:?}")))?;
            edit.remove(&mut space, old)?;
            result.removed += 1;
        }
        for message in &change.put {
            let record = MessageRecord { session: session.to_owned(), ..MessageRecord::new(message, 0) };
            let old = edit.find(&space, &message.id)?;
            if let Some(old) = old.as_ref().filter(|old| old.record.session != session) {
                let other = &old.record.session;
                let reason = format!("id {:?} is in session {other:?} already; give another", message.id);
                return Err(Error::message(reason));
            }
            result.put(&mut edit, &mut space, old, record, Place::Buffer)?;
        }
        edit.put_back(space);
        result.effects = edit.finish()?;
        Ok(result)
    }
}

/// Where the metadata of a message keep the id that it was given, if another session has it.
const GIVEN_ID: &str = "mnemon.id";

/// Gives a message back the id that it was given.
pub(crate) fn give_back_id(message: &mut Message) {
    // Anything else of this name is the user's.
    let given = message.metadata.get(GIVEN_ID).and_then(Value::as_str).map(str::to_owned);
    if let Some(given) = given.filter(|given| own_id(&message.session, given) == message.id) {
        message.metadata.remove(GIVEN_ID);
        message.id = given;
    }
}

/// The id of a message that cannot have the one given, as another session has that.
fn own_id(session: &str, id: &str) -> String {
    let hash = Sha256::new().chain_update(session).chain_update([0xff]).chain_update(id).finalize();
    hash.iter().map(|byte| format!("{byte:02x}")).collect()
}

impl Transaction {
    /// Puts messages into a session's history, in long-term memory, or puts them `instead` of it.
    pub(crate) fn put_history(
        &mut self,
        namespace: &Namespace,
        session: &str,
        messages: &[Message],
        instead: bool,
    ) -> Result<Effects> {
        let mut edit = Edit::begin(self)?;
        let mut space = edit.space(namespace)?;
        let number = edit.known_session(&space, session)?;
        if instead && let Some(number) = number {
            for (seq, _) in edit.history(&space, number)? {
                let old = edit.stored(&space, seq)?;
                edit.remove(&mut space, old)?;
            }
        }
        for message in messages {
            let mut record = MessageRecord::new(message, 0);
            let mut old = edit.find(&space, &message.id)?;
            if old.as_ref().is_none_or(|old| old.record.session != session) {
                let own = own_id(session, &message.id);
                let renamed = edit.find(&space, &own)?;
                if renamed.is_some() || old.is_some() {
                    let mut renamed = message.clone().with_id(own);
                    renamed.metadata.insert(GIVEN_ID.to_owned(), Value::String(message.id.clone()));
                    record = MessageRecord::new(&renamed, 0);
                }
                old = renamed;
            }
            match old {
                None => drop(edit.insert(&mut space, record, Place::LongTerm(None))?),
                Some(old) => edit.replace(&mut space, old, record)?,
            }
        }
        edit.put_back(space);
        edit.finish()
    }
}

/// What is done to a session's messages, in the order of the fields.
#[derive(Clone, Debug, Default)]
pub(crate) struct SessionChange {
    pub(crate) clear: bool,
    pub(crate) remove: Vec<String>,
    pub(crate) put: Vec<Message>,
}
