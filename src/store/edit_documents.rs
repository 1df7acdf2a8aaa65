//! Changes of documents: putting, refreshing and deleting them.
//!
//! The indexed texts of a namespace's documents are messages of its companion, see `document_namespaces`.
//!
//! Invariants: a document, its place in the order of changes, its expiry and its texts are changed together. The id of
//! a text's message is the document's key and a hash of the text, and of its vector if that was given. So the texts of a
//! document are a range of ids, and a text that a put repeats keeps its vectors.

use std::collections::{HashMap, HashSet};

use sha2::{Digest, Sha256};

use super::{
    audit::Holds,
    codec,
    documents::{KEY_END, VECTOR, record, text_ids, timestamp, vector_text},
    edit::Edit,
    effects::Effects,
    generations::Generations,
    message_record::MessageRecord,
    namespaces, removal,
    schema::*,
    tables::{ReadableTable, Tables, WriteTable, WriteTransaction, has},
};
use crate::{
    error::{Error, Result},
    ids::{ModelIdentity, Namespace, NamespaceId, hex},
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
        /// Their vectors, if they are given.
        vectors: Vec<Vec<f32>>,
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
    pub(crate) fn apply(&self, changes: &[DocumentChange]) -> Result<Vec<bool>> {
        let mut changing = Changing::begin(self.0)?;
        let existed = changes.iter().map(|change| changing.apply(change)).collect::<Result<_>>()?;
        changing.finish()?;
        Ok(existed)
    }

    /// Deletes all documents of a namespace.
    pub(crate) fn delete_all(&self, name: &Namespace, namespace: NamespaceId) -> Result<()> {
        let all = (namespace.0, "")..(namespace.0 + 1, "");
        let keys: Vec<String> = {
            let documents = self.0.table(DOCUMENTS)?;
            let entries = documents.range(all)?;
            entries.map(|entry| Ok(entry?.0.value().1.to_owned())).collect::<Result<_>>()?
        };
        if keys.is_empty() {
            return Ok(());
        }
        let mut changing = Changing::begin(self.0)?;
        keys.iter().try_for_each(|key| changing.delete(name, key).map(drop))?;
        changing.finish()
    }

    /// Deletes up to `limit` documents that expired before `now`, but none of a namespace under a legal hold. Returns
    /// how many were deleted. A namespace in which nothing is left is removed.
    pub(crate) fn delete_expired(&self, now: Timestamp, limit: usize) -> Result<usize> {
        let due: Vec<(Namespace, String)> = {
            let expiry = self.0.table(DOCUMENT_EXPIRY)?;
            let mut due = Vec::new();
            for entry in expiry.range(..(now.as_micros() + 1, "", ""))? {
                let (key, _) = entry?;
                let (_, namespace, key) = key.value();
                let namespace = Namespace::new(namespace)?;
                if !Holds(self.0).is_held(&namespace)? {
                    due.push((namespace, key.to_owned()));
                }
                if due.len() == limit {
                    break;
                }
            }
            due
        };
        let mut changing = Changing::begin(self.0)?;
        due.iter().try_for_each(|(namespace, key)| changing.delete(namespace, key).map(drop))?;
        changing.finish()?;
        due.iter().try_for_each(|(namespace, _)| removal::remove_if_unused(self.0, namespace).map(drop))?;
        Ok(due.len())
    }
}

/// A change of documents in progress, with its tables open. [`Changing::finish`] completes it.
pub(super) struct Changing<'t> {
    tables: &'t WriteTransaction,
    /// The change of their texts; for an import that of messages, too.
    pub(super) edit: Edit<'t>,
    documents: WriteTable<'t, (u32, &'static str), Bytes>,
    order: WriteTable<'t, (u32, u64), &'static str>,
    expiry: WriteTable<'t, (i64, &'static str, &'static str), ()>,
    /// The namespaces whose documents were changed, and their new counts, written at the end.
    counts: HashMap<Namespace, (NamespaceId, DocumentCounts)>,
    now: i64,
    next_expiry: Option<i64>,
}

impl<'t> Changing<'t> {
    pub(super) fn begin(tables: &'t WriteTransaction) -> Result<Self> {
        Ok(Changing {
            tables,
            edit: Edit::begin(tables)?,
            documents: tables.table(DOCUMENTS)?,
            order: tables.table(DOCUMENT_ORDER)?,
            expiry: tables.table(DOCUMENT_EXPIRY)?,
            counts: HashMap::new(),
            now: Timestamp::now().as_micros(),
            next_expiry: None,
        })
    }

    pub(super) fn finish(self) -> Result<()> {
        for (name, (id, counts)) in self.counts {
            namespaces::update_documents(self.tables, &name, id, |record| record.counts = counts)?;
        }
        let next_expiry = self.next_expiry.map(timestamp).transpose()?;
        self.tables.add_effects(Effects { next_expiry, ..Effects::default() });
        self.edit.finish()
    }

    /// Applies a change. Returns whether there was such a document.
    fn apply(&mut self, DocumentChange { namespace, key, action }: &DocumentChange) -> Result<bool> {
        match action {
            DocumentAction::Put { value, texts, vectors, ttl } => {
                self.put(namespace, key, value, (texts, &self.given(vectors)?), *ttl)
            }
            DocumentAction::Refresh => self.refresh(namespace, key),
            DocumentAction::Delete => {
                Holds(self.tables).check(namespace)?;
                self.delete(namespace, key)
            }
        }
    }

    fn put(&mut self, name: &Namespace, key: &str, value: &str, texts: Texts<'_>, ttl: Option<i64>) -> Result<bool> {
        let NamespaceId(id) = self.edit.namespace(name)?;
        let old = self.forget(name, id, key)?;
        let is_expired = |old: &DocumentRecord| old.expires_at.is_some_and(|expires_at| expires_at <= self.now);
        let old = old.filter(|old| !is_expired(old));
        let record = DocumentRecord {
            value: value.to_owned(),
            change: self.next_change(name, id)?,
            created_at: old.as_ref().map_or(self.now, |old| old.created_at),
            updated_at: self.now,
            ttl,
            expires_at: ttl.map(|ttl| self.now.saturating_add(ttl)),
        };
        self.write(name, id, key, &record)?;
        self.set_texts(name, key, texts)?;
        Ok(old.is_some())
    }

    /// Returns true if a namespace has documents, also if they have expired.
    pub(super) fn has_documents(&self, NamespaceId(id): NamespaceId) -> Result<bool> {
        has(&self.documents, (id, "")..(id + 1, ""))
    }

    /// Stores a document of an import as the last that was changed. Returns false if there is one with this key.
    pub(super) fn add_imported(
        &mut self,
        name: &Namespace,
        NamespaceId(id): NamespaceId,
        key: &str,
        record: DocumentRecord,
        (texts, vectors): Texts<'_>,
    ) -> Result<bool> {
        if self.documents.get((id, key))?.is_some() {
            return Ok(false);
        }
        let change = self.next_change(name, id)?;
        self.write(name, id, key, &DocumentRecord { change, ..record })?;
        // Where a model makes the vectors, it makes those of the texts anew.
        let is_given = self.model()?.is_some_and(|model| model.is_given());
        let vectors = if is_given { self.given(vectors)? } else { Vec::new() };
        self.set_texts(name, key, (texts, &vectors))?;
        Ok(true)
    }

    fn refresh(&mut self, name: &Namespace, key: &str) -> Result<bool> {
        let Some(NamespaceId(id)) = self.edit.known_namespace(name)? else { return Ok(false) };
        let Some(record) = record(&self.documents, id, key)? else { return Ok(false) };
        if let (Some(ttl), Some(expires_at)) = (record.ttl, record.expires_at)
            && expires_at > self.now
        {
            self.forget(name, id, key)?;
            self.write(name, id, key, &DocumentRecord { expires_at: Some(self.now.saturating_add(ttl)), ..record })?;
        }
        Ok(true)
    }

    /// Deletes a document. Returns false if there was none, or if it had expired.
    pub(super) fn delete(&mut self, name: &Namespace, key: &str) -> Result<bool> {
        let Some(NamespaceId(id)) = self.edit.known_namespace(name)? else { return Ok(false) };
        let Some(old) = self.forget(name, id, key)? else { return Ok(false) };
        self.documents.remove((id, key))?;
        self.set_texts(name, key, (&[], &[]))?;
        Ok(old.expires_at.is_none_or(|expires_at| expires_at > self.now))
    }

    /// Makes the record of a document what it is elsewhere. Its texts are set as messages.
    pub(super) fn set(&mut self, name: &Namespace, id: u32, key: &str, new: Option<DocumentRecord>) -> Result<()> {
        let old = self.forget(name, id, key)?;
        match (old, new) {
            (_, Some(new)) => self.write(name, id, key, &new)?,
            (Some(_), None) => drop(self.documents.remove((id, key))?),
            (None, None) => {}
        }
        // Filters are evaluated on the value.
        let companion = name.document_texts();
        if self.edit.known_namespace(&companion)?.is_some() {
            let namespace = self.edit.open(&companion)?;
            let texts = text_ids(&self.edit.ids, namespace.id(), key)?;
            texts.into_values().for_each(|seq| self.edit.fields_changed(&namespace, seq));
            self.edit.close(namespace);
        }
        Ok(())
    }

    /// The number of a change that comes after all others of a namespace.
    fn next_change(&mut self, name: &Namespace, id: u32) -> Result<u64> {
        let counts = self.counts(name, id)?;
        counts.last_change += 1;
        Ok(counts.last_change)
    }

    /// Stores the record of a document that has none, or whose record was forgotten.
    fn write(&mut self, name: &Namespace, id: u32, key: &str, record: &DocumentRecord) -> Result<()> {
        self.documents.insert((id, key), codec::encode(record).as_slice())?;
        self.order.insert((id, record.change), key)?;
        if let Some(expires_at) = record.expires_at {
            self.expiry.insert((expires_at, name.as_str(), key), ())?;
            self.next_expiry = Some(self.next_expiry.map_or(expires_at, |next| next.min(expires_at)));
        }
        let counts = self.counts(name, id)?;
        counts.documents += 1;
        counts.expiring += u64::from(record.expires_at.is_some());
        Ok(())
    }

    /// Removes what leads to the record of a document, and returns the record. The record itself, which the caller
    /// replaces or removes, and the texts stay.
    fn forget(&mut self, name: &Namespace, id: u32, key: &str) -> Result<Option<DocumentRecord>> {
        let Some(record) = record(&self.documents, id, key)? else { return Ok(None) };
        self.order.remove((id, record.change))?;
        if let Some(expires_at) = record.expires_at {
            self.expiry.remove((expires_at, name.as_str(), key))?;
        }
        let counts = self.counts(name, id)?;
        counts.documents = counts.documents.saturating_sub(1);
        counts.expiring = counts.expiring.saturating_sub(u64::from(record.expires_at.is_some()));
        Ok(Some(record))
    }

    /// The counts of a namespace.
    fn counts(&mut self, name: &Namespace, id: u32) -> Result<&mut DocumentCounts> {
        if !self.counts.contains_key(name) {
            let known = namespaces::document_record(&self.tables.table(DOCUMENT_NAMESPACES)?, name)?;
            let counts = known.map(|record| record.counts).unwrap_or_default();
            self.counts.insert(name.clone(), (NamespaceId(id), counts));
        }
        Ok(&mut self.counts.get_mut(name).expect("inserted above").1)
    }

    /// The model of the vectors.
    fn model(&self) -> Result<Option<ModelIdentity>> {
        Ok(Generations(self.tables).serving()?.map(|generation| generation.identity))
    }

    /// Returns vectors of length 1.
    ///
    /// # Errors
    /// [`Error::InvalidDocument`]: a model makes the vectors of the database, or they do not fit.
    fn given(&self, vectors: &[Vec<f32>]) -> Result<Vec<Vec<f32>>> {
        if vectors.is_empty() {
            return Ok(Vec::new());
        }
        let model =
            self.model()?.ok_or_else(|| Error::document("vectors are given, and the database has no model yet"))?;
        if !model.is_given() {
            return Err(Error::document(format!(
                "vectors are given, and those of the database are made by {model}; give none, or make a database of given vectors"
            )));
        }
        vectors.iter().map(|vector| model.unit(vector).map_err(Error::document)).collect()
    }

    /// Makes these the indexed texts of a document.
    fn set_texts(&mut self, name: &Namespace, key: &str, (texts, vectors): Texts<'_>) -> Result<()> {
        let companion = name.document_texts();
        if texts.is_empty() && self.edit.known_namespace(&companion)?.is_none() {
            return Ok(());
        }
        let mut namespace = self.edit.open(&companion)?;
        let mut outdated = text_ids(&self.edit.ids, namespace.id(), key)?;
        let mut kept = HashSet::new();
        for (at, text) in texts.iter().enumerate() {
            let vector = vectors.get(at).map(|vector| vector_text(vector));
            let id = text_id(key, text, vector.as_deref().unwrap_or_default());
            // Several paths may lead to equal texts.
            if !kept.insert(id.clone()) {
                continue;
            }
            match outdated.remove(&id) {
                Some(seq) => self.edit.fields_changed(&namespace, seq),
                None => {
                    self.edit.insert(&mut namespace, text_record(id, text, vector), SessionPosition::LongTerm(None))?;
                }
            }
        }
        for seq in outdated.into_values() {
            let old = self.edit.stored(&namespace, seq)?;
            self.edit.note_gone(&old)?;
            self.edit.remove(&mut namespace, old)?;
        }
        self.edit.close(namespace);
        Ok(())
    }
}

/// The session of all texts.
const TEXTS: &str = "texts";

/// The indexed texts of a document, and their vectors, if they are given.
pub(super) type Texts<'a> = (&'a [String], &'a [Vec<f32>]);

/// The id of the message of an indexed text with the vector that it was given, if any; see
/// [`document_key`](super::documents::document_key).
fn text_id(key: &str, text: &str, vector: &str) -> String {
    let hash = Sha256::new().chain_update(text).chain_update(vector).finalize();
    format!("{key}{KEY_END}{}", hex(&hash[..16]))
}

/// The message of an indexed text. It has no time, so that the same text is always the same message.
fn text_record(id: String, text: &str, vector: Option<String>) -> MessageRecord {
    MessageRecord {
        id,
        session: TEXTS.to_owned(),
        role: role_number(Role::User),
        name: None,
        content: text.to_owned(),
        is_json: false,
        created_at: None,
        metadata: vector.map(|vector| format!(r#"{{"{VECTOR}":"{vector}"}}"#)),
        revision: 0,
        expires_at: None,
    }
}
