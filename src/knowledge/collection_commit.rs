//! The commit of an update: the operations for its changes, and the record that it was done.

use serde_json::Value;
use sha2::{Digest, Sha256};
use uuid::Uuid;

use super::collection_answer::Change;
use crate::{
    documents::{Document, DocumentOperation, DocumentOptions},
    error::Result,
    filter::MetadataFilter,
    forget::{RECORD, RECORD_KEYS, update_record},
    ids::{Namespace, hex},
    message::Message,
};

/// The outcome of [`Collection::update`](crate::Collection::update): the keys of the items that changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CollectionReport {
    /// The keys of the new items.
    pub inserted: Vec<String>,
    /// The keys of the items that have another value.
    pub updated: Vec<String>,
    /// The keys of the items that are gone.
    pub deleted: Vec<String>,
    /// True if the collection was updated by the same messages before, so nothing was done.
    pub repeated: bool,
}

/// Makes a new key of an item. Keys are ordered by time.
pub(super) fn new_key() -> String {
    Uuid::now_v7().to_string()
}

/// The key of the record of an update by these messages.
pub(super) fn record_key(messages: &[Message]) -> String {
    // No byte of UTF-8 is 0xff.
    let add = |hash: Sha256, message: &Message| {
        hash.chain_update(&message.id).chain_update([0xff]).chain_update(message.text()).chain_update([0xff])
    };
    let hash = messages.iter().fold(Sha256::new(), add).finalize();
    format!("{}{}", RECORD_KEYS.0, hex(&hash[..16]))
}

/// Matches items, and no record.
pub(super) fn is_item() -> Result<MetadataFilter> {
    Ok(!MetadataFilter::exists(RECORD)?)
}

/// Makes the operations that apply changes to items of a namespace and store the record of the update by these
/// messages, unless an item that they change has changed, or there is such a record.
pub(super) fn operations(
    changes: Vec<Change>,
    shown: &[Document],
    namespace: &Namespace,
    options: &DocumentOptions,
    record: &str,
    messages: &[Message],
) -> (Vec<DocumentOperation>, CollectionReport) {
    let expect = |key: &str, value: Option<Value>| DocumentOperation::Expect {
        namespace: namespace.clone(),
        key: key.to_owned(),
        value,
    };
    let put = |key: &str, value: Value, options: DocumentOptions| DocumentOperation::Put {
        namespace: namespace.clone(),
        key: key.to_owned(),
        value,
        options,
    };
    let count = changes.len();
    let (mut operations, mut report) = (vec![expect(record, None)], CollectionReport::default());
    for change in changes {
        if let Change::Update(at, _) | Change::Delete(at) = &change {
            operations.push(expect(&shown[*at].key, Some(shown[*at].value.clone())));
        }
        match change {
            Change::Insert(item) => {
                let key = new_key();
                operations.push(put(&key, item, options.clone()));
                report.inserted.push(key);
            }
            Change::Update(at, item) => {
                operations.push(put(&shown[at].key, item, options.clone()));
                report.updated.push(shown[at].key.clone());
            }
            Change::Delete(at) => {
                let key = shown[at].key.clone();
                operations.push(DocumentOperation::Delete { namespace: namespace.clone(), key: key.clone() });
                report.deleted.push(key);
            }
        }
    }
    let items = [report.inserted.as_slice(), &report.updated].concat();
    let made = update_record(count, messages.iter().map(|message| message.id.as_str()), &items);
    operations.push(put(record, made, DocumentOptions::default().not_indexed()));
    (operations, report)
}
