//! Reading documents. `edit_documents` writes them.
//!
//! The indexed texts of a namespace's documents are messages of its *companion*, a namespace that no user can name. So
//! embedding, indexing, reindexing and verification know messages alone. Outside of the store a companion is one of the
//! [`parts`](NamespaceId::parts) of a namespace, or the origin of a [`DocumentText`].

use std::collections::BTreeMap;

use serde_json::Value;

use super::{
    audit::Holds,
    codec,
    message_record::MessageRecord,
    schema::*,
    tables::{ReadableTable, Tables},
};
use crate::{
    error::{Error, Result},
    ids::{Namespace, NamespaceId},
    message::Timestamp,
    read_budget::json_bytes,
};

/// The bit that tells the number of a companion from that of its owner. No database has so many namespaces.
const COMPANION: u32 = 1 << 31;

impl NamespaceId {
    /// The parts in which a namespace is stored: its messages, and the texts of its documents.
    pub(crate) fn parts(self) -> [NamespaceId; 2] {
        [self, self.document_texts()]
    }

    /// The namespace that this is a part of.
    pub(crate) fn whole(self) -> NamespaceId {
        self.owner().unwrap_or(self)
    }

    /// Returns true for the part of a namespace that has the texts of its documents.
    pub(crate) fn has_document_texts(self) -> bool {
        self.owner().is_some()
    }

    /// The companion of this namespace.
    pub(super) fn document_texts(self) -> NamespaceId {
        NamespaceId(self.0 | COMPANION)
    }

    /// The namespace whose companion this one is, if it is a companion.
    pub(super) fn owner(self) -> Option<NamespaceId> {
        (self.0 & COMPANION != 0).then_some(NamespaceId(self.0 & !COMPANION))
    }
}

/// An indexed text of a document, which a recall finds as a message.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct DocumentText<'a> {
    companion: &'a Namespace,
    /// The key of the document.
    pub(crate) key: &'a str,
}

impl<'a> DocumentText<'a> {
    /// The namespaces in which the texts of the documents of these namespaces are found.
    pub(crate) fn namespaces(of: &[Namespace]) -> Vec<Namespace> {
        of.iter().map(Namespace::document_texts).collect()
    }

    /// The text with this id of a message, in one of [`namespaces`](Self::namespaces).
    ///
    /// # Errors
    /// [`Error::Corrupted`](crate::Error::Corrupted) if no text has such an id.
    pub(crate) fn new(companion: &'a Namespace, id: &'a str) -> Result<Self> {
        Ok(DocumentText { companion, key: document_key(id)? })
    }

    /// The namespace of the document.
    pub(crate) fn namespace(self) -> Namespace {
        self.companion.owner().expect("texts are in companions")
    }
}

/// A document as it is stored.
#[derive(Clone, Debug)]
pub(crate) struct StoredDocument {
    /// JSON.
    pub(crate) value: String,
    pub(crate) created_at: Timestamp,
    pub(crate) updated_at: Timestamp,
    pub(crate) expires_at: Option<Timestamp>,
}

/// The tables of documents.
pub(crate) struct Documents<'t, T>(pub(super) &'t T);

impl<T: Tables> Documents<'_, T> {
    /// The document with this key, unless it has expired.
    pub(crate) fn get(&self, namespace: NamespaceId, key: &str, now: Timestamp) -> Result<Option<StoredDocument>> {
        let found = record(&self.0.table(DOCUMENTS)?, namespace.0, key)?;
        let document = found.map(StoredDocument::try_from).transpose()?;
        Ok(document.filter(|document| !document.is_expired(now)))
    }

    /// The first key that begins with a prefix, of a document that has not expired.
    pub(crate) fn first_key(&self, namespace: NamespaceId, prefix: &str, now: Timestamp) -> Result<Option<String>> {
        let documents = self.0.table(DOCUMENTS)?;
        for entry in documents.range((namespace.0, prefix)..(namespace.0 + 1, ""))? {
            let key = entry?.0.value().1.to_owned();
            if !key.starts_with(prefix) {
                break;
            }
            let found = record(&documents, namespace.0, &key)?.map(StoredDocument::try_from).transpose()?;
            if found.is_some_and(|document| !document.is_expired(now)) {
                return Ok(Some(key));
            }
        }
        Ok(None)
    }

    /// Calls `visit` with the documents of a namespace that have not expired, the last changed first, until it returns
    /// false.
    pub(crate) fn visit(
        &self,
        namespace: NamespaceId,
        now: Timestamp,
        mut visit: impl FnMut(&str, StoredDocument) -> Result<bool>,
    ) -> Result<()> {
        let (documents, order) = (self.0.table(DOCUMENTS)?, self.0.table(DOCUMENT_ORDER)?);
        let all = (namespace.0, 0)..=(namespace.0, u64::MAX);
        for entry in order.range(all)?.rev() {
            let (_, key) = entry?;
            let key = key.value();
            let found = record(&documents, namespace.0, key)?;
            let found = found.ok_or_else(|| Error::corrupted(format!("document {key:?} is missing")))?;
            let document = StoredDocument::try_from(found)?;
            if !document.is_expired(now) && !visit(key, document)? {
                break;
            }
        }
        Ok(())
    }

    /// The sequence numbers of the texts of a document, in the companion of its namespace.
    pub(crate) fn texts(&self, namespace: NamespaceId, key: &str) -> Result<Vec<u64>> {
        Ok(text_ids(&self.0.table(IDS)?, namespace.document_texts(), key)?.into_values().collect())
    }

    /// Returns true if a namespace has a document that has not expired.
    pub(super) fn any(&self, namespace: NamespaceId, now: Timestamp) -> Result<bool> {
        let mut has_document = false;
        self.visit(namespace, now, |_, _| {
            has_document = true;
            Ok(false)
        })?;
        Ok(has_document)
    }

    /// The namespaces that have a document that has not expired, all or those under a prefix, by name.
    pub(crate) fn namespaces(&self, prefix: Option<&Namespace>, now: Timestamp) -> Result<Vec<Namespace>> {
        let mut found = Vec::new();
        let first = prefix.map_or("", Namespace::as_str);
        for entry in self.0.table(DOCUMENT_NAMESPACES)?.range(first..)? {
            let (name, record) = entry?;
            // "a b" is between "a" and "a/b".
            if !name.value().starts_with(first) {
                break;
            }
            let name = Namespace::new(name.value())?;
            if prefix.is_some_and(|prefix| !name.starts_with(prefix)) {
                continue;
            }
            let DocumentNamespaceRecord { counts, texts } = codec::decode(record.value())?;
            let id = NamespaceId(texts.id).owner().ok_or_else(|| Error::corrupted("a companion has no owner"))?;
            if counts.documents > counts.expiring || (counts.expiring > 0 && self.any(id, now)?) {
                found.push(name);
            }
        }
        Ok(found)
    }

    /// The time at which the next document expires, of those that no legal hold keeps. Cost: a pass over the documents
    /// that expire earlier and are kept.
    pub(crate) fn next_expiry(&self) -> Result<Option<Timestamp>> {
        for entry in self.0.table(DOCUMENT_EXPIRY)?.iter()? {
            let (key, _) = entry?;
            let (at, namespace, _) = key.value();
            if !Holds(self.0).is_held(&Namespace::new(namespace)?)? {
                return timestamp(at).map(Some);
            }
        }
        Ok(None)
    }
}

impl StoredDocument {
    /// Returns about how many bytes the value takes in memory and in an answer.
    pub(crate) fn bytes(&self) -> usize {
        size_of::<Value>() + json_bytes(&self.value)
    }

    /// Parses the value of the document with this key.
    ///
    /// # Errors
    /// [`Error::Corrupted`].
    pub(crate) fn parse(&self, key: &str) -> Result<Value> {
        parse(&self.value, key)
    }

    fn is_expired(&self, now: Timestamp) -> bool {
        self.expires_at.is_some_and(|expires_at| expires_at <= now)
    }
}

impl TryFrom<DocumentRecord> for StoredDocument {
    type Error = Error;

    fn try_from(record: DocumentRecord) -> Result<Self> {
        Ok(StoredDocument {
            created_at: timestamp(record.created_at)?,
            updated_at: timestamp(record.updated_at)?,
            expires_at: record.expires_at.map(timestamp).transpose()?,
            value: record.value,
        })
    }
}

/// Parses the stored value of the document with this key.
///
/// # Errors
/// [`Error::Corrupted`].
pub(super) fn parse(value: &str, key: &str) -> Result<Value> {
    serde_json::from_str(value).map_err(|error| Error::corrupted(format!("document {key:?} holds bad JSON: {error}")))
}

/// The record of a document.
pub(super) fn record(
    documents: &impl ReadableTable<(u32, &'static str), Bytes>,
    namespace: u32,
    key: &str,
) -> Result<Option<DocumentRecord>> {
    let value = documents.get((namespace, key));
    let record = value.and_then(|value| value.map(|value| codec::decode(value.value())).transpose());
    record.map_err(|error| error.within(|| format!("document {key:?}")))
}

/// The key of the document that a text belongs to, by the id of the text's message.
///
/// # Errors
/// [`Error::Corrupted`] if no text has such an id.
pub(super) fn document_key(text_id: &str) -> Result<&str> {
    let key = text_id.split_once(KEY_END).map(|(key, _)| key);
    key.ok_or_else(|| Error::corrupted(format!("{text_id:?} is not the id of a document's text")))
}

/// The messages of a document's texts: their ids and sequence numbers.
pub(super) fn text_ids(
    ids: &impl ReadableTable<(u32, &'static str), u64>,
    companion: NamespaceId,
    key: &str,
) -> Result<BTreeMap<String, u64>> {
    let (start, end) = (format!("{key}{KEY_END}"), format!("{key}{AFTER_KEY_END}"));
    let found = ids.range((companion.0, &*start)..(companion.0, &*end))?;
    found
        .map(|entry| {
            let (id, seq) = entry?;
            Ok((id.value().1.to_owned(), seq.value()))
        })
        .collect()
}

/// The character after the key in the id of a text's message, and the one that follows it. No key has control
/// characters.
pub(super) const KEY_END: char = '\0';
const AFTER_KEY_END: char = '\u{1}';

/// The field of a text's metadata that has the vector which the text was given: its components one after the other, each as
/// the eight hexadecimal digits of a 32-bit float.
pub(super) const VECTOR: &str = "vector";

/// Writes a vector as [`VECTOR`].
pub(super) fn vector_text(vector: &[f32]) -> String {
    vector.iter().map(|component| format!("{:08x}", component.to_bits())).collect()
}

/// The vector that a text of a document was given. Metadata of other messages is that of their program.
///
/// # Errors
/// [`Error::Corrupted`].
pub(super) fn given_vector(namespace: NamespaceId, record: &MessageRecord) -> Result<Option<Vec<f32>>> {
    if !namespace.has_document_texts() || record.metadata.is_none() {
        return Ok(None);
    }
    let metadata = record.metadata()?;
    let Some(text) = metadata.get(VECTOR).and_then(Value::as_str) else { return Ok(None) };
    let component = |digits: &[u8]| {
        let bits = std::str::from_utf8(digits).ok().and_then(|digits| u32::from_str_radix(digits, 16).ok());
        bits.map(f32::from_bits).filter(|component| component.is_finite())
    };
    let vector: Option<Vec<f32>> = text.as_bytes().chunks(8).map(component).collect();
    vector.map(Some).ok_or_else(|| Error::corrupted("the vector of a document's text is no vector"))
}

pub(super) fn timestamp(micros: i64) -> Result<Timestamp> {
    Timestamp::from_micros(micros)
        .ok_or_else(|| Error::corrupted("the time of a document or of an expiry is out of range"))
}
