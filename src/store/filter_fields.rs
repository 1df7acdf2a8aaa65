//! The fields that filters are evaluated on: those of messages and their metadata, and the values of documents.

use serde_json::{Map, Value};

use super::{
    codec,
    documents::{document_key, parse, record},
    message_record::MessageRecord,
    schema::*,
    tables::{ReadableTable, Tables},
};
use crate::{
    error::Result,
    filter::{Fields, MessageField},
    ids::NamespaceId,
};

/// Reads for each message the fields that a filter is evaluated on: its metadata and its own. For a text of a document,
/// which is a message of a companion namespace, they are the fields of the document's value.
pub(crate) struct FilterFields<'t, T>(pub(super) &'t T);

impl<T: Tables> FilterFields<'_, T> {
    /// Visits the fields of messages by sequence number; `None` for a message that does not exist.
    pub(crate) fn of(
        &self,
        namespace: NamespaceId,
        seqs: impl IntoIterator<Item = u64>,
        mut visit: impl FnMut(u64, Option<&dyn Fields>),
    ) -> Result<()> {
        let (messages, mut reader) = (self.0.table(MESSAGES)?, self.reader(namespace)?);
        for seq in seqs {
            let message = MessageRecord::read(&messages, namespace.0, seq)?;
            visit(seq, message.map(|message| reader.read(message)).transpose()?.map(|fields| fields as _));
        }
        Ok(())
    }

    /// Visits the fields of all messages of a namespace.
    pub(crate) fn all(&self, namespace: NamespaceId, mut visit: impl FnMut(u64, &dyn Fields)) -> Result<()> {
        let (messages, mut reader) = (self.0.table(MESSAGES)?, self.reader(namespace)?);
        for entry in messages.range((namespace.0, 0)..=(namespace.0, u64::MAX))? {
            let (key, message) = entry?;
            visit(key.value().1, reader.read(codec::decode(message.value())?)?);
        }
        Ok(())
    }

    fn reader(&self, namespace: NamespaceId) -> Result<Reader<DocumentTable<'_, T>>> {
        let documents = match namespace.owner() {
            Some(owner) => Some((owner.0, self.0.table(DOCUMENTS)?)),
            None => None,
        };
        Ok(Reader { documents, key: String::new(), fields: Map::new(), message: None })
    }
}

type DocumentTable<'t, T> = <T as Tables>::Table<'t, (u32, &'static str), Bytes>;

struct Reader<D> {
    /// The number of the owner and its documents, if the messages are texts of documents.
    documents: Option<(u32, D)>,
    /// The key of the document whose fields were read last; empty at first, which no key is.
    key: String,
    fields: Map<String, Value>,
    /// The message that was read last, unless it is a text of a document.
    message: Option<MessageRecord>,
}

impl<D: ReadableTable<(u32, &'static str), Bytes>> Reader<D> {
    fn read(&mut self, message: MessageRecord) -> Result<&Self> {
        match &self.documents {
            None => {
                self.fields = message.metadata()?;
                self.message = Some(message);
            }
            // The texts of a document follow one another, and its value may be large: it is read once.
            Some((owner, documents)) => {
                let key = document_key(&message.id)?;
                if self.key != key {
                    let document = record(documents, *owner, key)?;
                    let value = document.map(|document| parse(&document.value, key)).transpose()?;
                    // A value that is no object has no fields.
                    self.fields = match value {
                        Some(Value::Object(fields)) => fields,
                        _ => Map::new(),
                    };
                    key.clone_into(&mut self.key);
                }
            }
        }
        Ok(self)
    }
}

impl<D> Fields for Reader<D> {
    fn object(&self) -> &Map<String, Value> {
        &self.fields
    }

    fn of_message(&self, field: MessageField) -> Option<Value> {
        let message = self.message.as_ref()?;
        field.value(&message.id, &message.session, role(message.role).ok()?, message.created_at, &self.fields)
    }
}
