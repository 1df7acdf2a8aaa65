//! Changes of documents: putting, refreshing and deleting them.
//!
//! The indexed texts of a namespace's documents are messages of its companion, see [`Namespace::document_texts`], in a
//! session for each document. So embedding, indexing, reindexing and verification know messages alone.
//!
//! Invariants: a document, its place in the order of changes, its expiry and its texts are changed together. The id of
//! a text's message is derived from the document's key and the text, so a text that a put repeats keeps its vectors.

use std::collections::BTreeSet;

use redb::{ReadableTable, Table, WriteTransaction};
use sha2::{Digest, Sha256};

use super::{
    codec,
    documents::{record, timestamp},
    edit::Edit,
    effects::Effects,
    message_record::MessageRecord,
    schema::*,
    tables::{Tables, storage},
};
use crate::{
    error::Result,
    ids::{Namespace, NamespaceId, hex},
    message::{Role, Timestamp},
};

/// A change of one document.
#[derive(Clone, Debug)]
pub(crate) struct DocumentChange {
    pub(crate) namespace: Namespace,
    pub(crate) key: String,
    pub(crate) action: DocumentAction,
}

#[derive(Clone, Debug)]
pub(crate) enum DocumentAction {
    /// Puts a document, or replaces it.
    Put {
        /// JSON.
        value: String,
        /// The texts to index.
        texts: Vec<String>,
        /// The time to live in microseconds.
        ttl: Option<i64>,
    },
    /// Lets the time to live begin again, if the document has one.
    Refresh,
    Delete,
}

/// Changes of documents, in one transaction.
pub(crate) struct EditDocuments<'t>(pub(super) &'t WriteTransaction);

impl EditDocuments<'_> {
    /// Applies changes in order. Returns for each whether there was such a document.
    pub(crate) fn apply(&self, changes: &[DocumentChange]) -> Result<(Vec<bool>, Effects)> {
        let mut changing = Changing::begin(self.0)?;
        let existed = changes.iter().map(|change| changing.apply(change)).collect::<Result<_>>()?;
        Ok((existed, changing.finish()?))
    }

    /// Deletes all documents of a namespace.
    pub(crate) fn delete_all(&self, name: &Namespace, namespace: NamespaceId) -> Result<Effects> {
        let all = (namespace.0, "")..(namespace.0 + 1, "");
        let keys: Vec<String> = {
            let documents = self.0.table(DOCUMENTS)?;
            let entries = documents.range(all).map_err(storage)?;
            entries.map(|entry| Ok(entry.map_err(storage)?.0.value().1.to_owned())).collect::<Result<_>>()?
        };
        if keys.is_empty() {
            return Ok(Effects::default());
        }
        let mut changing = Changing::begin(self.0)?;
        keys.iter().try_for_each(|key| changing.delete(name, key).map(drop))?;
        changing.finish()
    }

    /// Deletes up to `limit` documents that expired before `now`. Returns how many were deleted.
    pub(crate) fn delete_expired(&self, now: Timestamp, limit: usize) -> Result<(usize, Effects)> {
        let due: Vec<(Namespace, String)> = {
            let expiry = self.0.table(DOCUMENT_EXPIRY)?;
            let entries = expiry.range(..(now.as_micros() + 1, "", "")).map_err(storage)?.take(limit);
            let due = entries.map(|entry| {
                let (key, _) = entry.map_err(storage)?;
                let (_, namespace, key) = key.value();
                Ok((Namespace::new(namespace)?, key.to_owned()))
            });
            due.collect::<Result<_>>()?
        };
        let mut changing = Changing::begin(self.0)?;
        due.iter().try_for_each(|(namespace, key)| changing.delete(namespace, key).map(drop))?;
        Ok((due.len(), changing.finish()?))
    }
}

/// A change of documents in progress, with its tables open.
struct Changing<'t> {
    edit: Edit<'t>,
    documents: Table<'t, (u32, &'static str), Bytes>,
    order: Table<'t, (u32, u64), &'static str>,
    expiry: Table<'t, (i64, &'static str, &'static str), ()>,
    counts: Table<'t, &'static str, (u32, u64)>,
    now: i64,
    next_expiry: Option<i64>,
}

impl<'t> Changing<'t> {
    fn begin(tables: &'t WriteTransaction) -> Result<Self> {
        Ok(Changing {
            edit: Edit::begin(tables)?,
            documents: tables.table(DOCUMENTS)?,
            order: tables.table(DOCUMENT_ORDER)?,
            expiry: tables.table(DOCUMENT_EXPIRY)?,
            counts: tables.table(DOCUMENT_COUNTS)?,
            now: Timestamp::now().as_micros(),
            next_expiry: None,
        })
    }

    fn finish(self) -> Result<Effects> {
        let mut effects = self.edit.finish()?;
        effects.next_expiry = self.next_expiry.map(timestamp).transpose()?;
        Ok(effects)
    }

    /// Applies a change. Returns whether there was such a document.
    fn apply(&mut self, DocumentChange { namespace, key, action }: &DocumentChange) -> Result<bool> {
        match action {
            DocumentAction::Put { value, texts, ttl } => self.put(namespace, key, value, texts, *ttl),
            DocumentAction::Refresh => self.refresh(namespace, key),
            DocumentAction::Delete => self.delete(namespace, key),
        }
    }

    fn put(&mut self, name: &Namespace, key: &str, value: &str, texts: &[String], ttl: Option<i64>) -> Result<bool> {
        let namespace = self.edit.open(name)?;
        let id = namespace.id().0;
        self.edit.close(namespace);
        let old = self.take(name, id, key)?;
        let is_expired = |old: &DocumentRecord| old.expires_at.is_some_and(|expires_at| expires_at <= self.now);
        let old = old.filter(|old| !is_expired(old));
        let last = self.order.range((id, 0)..=(id, u64::MAX)).map_err(storage)?.next_back();
        let last = last.transpose().map_err(storage)?.map_or(0, |(last, _)| last.value().1);
        let record = DocumentRecord {
            value: value.to_owned(),
            created_at: old.as_ref().map_or(self.now, |old| old.created_at),
            updated_at: self.now,
            change: last + 1,
            ttl,
            expires_at: ttl.map(|ttl| self.now.saturating_add(ttl)),
        };
        self.write(name, id, key, &record)?;
        self.set_texts(name, key, texts)?;
        Ok(old.is_some())
    }

    fn refresh(&mut self, name: &Namespace, key: &str) -> Result<bool> {
        let Some(NamespaceId(id)) = self.edit.known_namespace(name)? else { return Ok(false) };
        let Some(record) = record(&self.documents, id, key)? else { return Ok(false) };
        if let (Some(ttl), Some(expires_at)) = (record.ttl, record.expires_at)
            && expires_at > self.now
        {
            self.take(name, id, key)?;
            self.write(name, id, key, &DocumentRecord { expires_at: Some(self.now.saturating_add(ttl)), ..record })?;
        }
        Ok(true)
    }

    fn delete(&mut self, name: &Namespace, key: &str) -> Result<bool> {
        let Some(NamespaceId(id)) = self.edit.known_namespace(name)? else { return Ok(false) };
        let Some(old) = self.take(name, id, key)? else { return Ok(false) };
        self.set_texts(name, key, &[])?;
        Ok(old.expires_at.is_none_or(|expires_at| expires_at > self.now))
    }

    /// Stores the record of a document that has none.
    fn write(&mut self, name: &Namespace, id: u32, key: &str, record: &DocumentRecord) -> Result<()> {
        self.documents.insert((id, key), codec::encode(record).as_slice()).map_err(storage)?;
        self.order.insert((id, record.change), key).map_err(storage)?;
        if let Some(expires_at) = record.expires_at {
            self.expiry.insert((expires_at, name.as_str(), key), ()).map_err(storage)?;
            self.next_expiry = Some(self.next_expiry.map_or(expires_at, |next| next.min(expires_at)));
        }
        let count = self.counts.get(name.as_str()).map_err(storage)?.map_or(0, |counts| counts.value().1);
        self.counts.insert(name.as_str(), (id, count + 1)).map_err(storage)?;
        Ok(())
    }

    /// Removes the record of a document and returns it. Its texts stay.
    fn take(&mut self, name: &Namespace, id: u32, key: &str) -> Result<Option<DocumentRecord>> {
        let Some(record) = record(&self.documents, id, key)? else { return Ok(None) };
        self.documents.remove((id, key)).map_err(storage)?;
        self.order.remove((id, record.change)).map_err(storage)?;
        if let Some(expires_at) = record.expires_at {
            self.expiry.remove((expires_at, name.as_str(), key)).map_err(storage)?;
        }
        let count = self.counts.get(name.as_str()).map_err(storage)?.map_or(0, |counts| counts.value().1);
        match count {
            0 | 1 => drop(self.counts.remove(name.as_str()).map_err(storage)?),
            more => drop(self.counts.insert(name.as_str(), (id, more - 1)).map_err(storage)?),
        }
        Ok(Some(record))
    }

    /// Makes these the indexed texts of a document.
    fn set_texts(&mut self, name: &Namespace, key: &str, texts: &[String]) -> Result<()> {
        let companion = name.document_texts();
        if texts.is_empty() && self.edit.known_namespace(&companion)?.is_none() {
            return Ok(());
        }
        let mut namespace = self.edit.open(&companion)?;
        let session = self.edit.known_session(&namespace, key)?;
        let history = session.map_or(Ok(Vec::new()), |session| self.edit.history(&namespace, session))?;
        let mut outdated: BTreeSet<u64> = history.into_iter().map(|(seq, _)| seq).collect();
        for text in texts {
            let id = text_id(key, text);
            match self.edit.find(&namespace, &id)? {
                Some(old) => drop(outdated.remove(&old.seq)),
                None => {
                    let record = text_record(id, key, text);
                    self.edit.insert(&mut namespace, record, SessionPosition::LongTerm(None))?;
                }
            }
        }
        for seq in outdated {
            let old = self.edit.stored(&namespace, seq)?;
            self.edit.remove(&mut namespace, old)?;
        }
        if texts.is_empty() && session.is_some() {
            self.edit.remove_session(&namespace, key)?;
        }
        self.edit.close(namespace);
        Ok(())
    }
}

/// The id of the message of an indexed text.
fn text_id(key: &str, text: &str) -> String {
    // No byte of UTF-8 is 0xff: the hash of a key and a text is that of no other pair.
    hex(&Sha256::new().chain_update(key).chain_update([0xff]).chain_update(text).finalize()[..16])
}

/// The message of an indexed text. It has no time, so that the same text is always the same message.
fn text_record(id: String, key: &str, text: &str) -> MessageRecord {
    MessageRecord {
        id,
        session: key.to_owned(),
        role: role_number(Role::User),
        name: None,
        content: text.to_owned(),
        is_json: false,
        created_at: None,
        metadata: None,
        revision: 0,
    }
}
