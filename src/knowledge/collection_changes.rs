//! The changes of a collection that a language model asks for: reading them from its answer, and the operations that
//! commit them with a record of the update.

use std::collections::HashSet;

use serde::Deserialize;
use serde_json::Value;
use sha2::{Digest, Sha256};
use uuid::Uuid;

use super::unchanged;
use crate::{
    block::{FlushedBatch, json_in, most_facts, unusable},
    documents::{Document, DocumentOperation, DocumentOptions},
    error::Result,
    filter::MetadataFilter,
    forget::{RECORD, RECORD_KEYS, UpdateRecord, source_hash},
    ids::{Namespace, hex},
    message::Message,
};

/// The form of the model's answer, as errors describe it.
const EXPECTED: &str = "{\"insert\": [...], \"update\": [{\"id\": 1, \"item\": ...}], \"delete\": [...]}";

/// The model's answer. A missing list is empty.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct RequestedChanges {
    insert: Vec<Value>,
    update: Vec<ItemUpdate>,
    delete: Vec<usize>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ItemUpdate {
    id: usize,
    item: Value,
}

/// A change of a collection. The number is the position of an existing item among those that the model was shown.
pub(super) enum Change {
    Insert(Value),
    Update(usize, Value),
    Delete(usize),
}

/// Reads the changes in the answer to a request with the items `shown`. Changes without effect are left out: an update to
/// the same value, and an insertion of an item that exists or was inserted already.
///
/// # Errors
/// [`Error::Chat`](crate::Error::Chat): the answer has another form, an id that was not shown or occurs twice, or an item
/// that `check` rejects.
pub(super) fn read_changes(
    answer: &str,
    shown: &[&Value],
    most: &Bounds,
    check: impl Fn(&Value) -> std::result::Result<(), String>,
) -> Result<RequestedUpdate> {
    let RequestedChanges { insert, update, delete } = json_in(answer, EXPECTED)?;
    let fault = |reason: String| unusable(answer, EXPECTED, &reason);
    let mut used = HashSet::new();
    let mut position = |id: usize| match id.checked_sub(1).filter(|&at| at < shown.len()) {
        None => Err(fault(format!("{id} is not the id of one of the {} items", shown.len()))),
        Some(_) if !used.insert(id) => Err(fault(format!("id {id} is used twice"))),
        Some(at) => Ok(at),
    };
    let check = |item: &Value| check(item).map_err(|reason| fault(format!("the item {item} is not allowed: {reason}")));
    let (mut changes, mut left_out) = (Vec::new(), 0);
    for ItemUpdate { id, item } in update {
        check(&item)?;
        let at = position(id)?;
        if *shown[at] != item {
            changes.push(Change::Update(at, item));
        }
    }
    left_out += drain_over(&mut changes, most.updates);
    let mut deleted = delete.into_iter().map(|id| position(id).map(Change::Delete)).collect::<Result<Vec<_>>>()?;
    left_out += drain_over(&mut deleted, most.deletions);
    changes.extend(deleted);
    let is_kept = |at: usize| {
        !changes.iter().any(|change| matches!(change, Change::Update(other, _) | Change::Delete(other) if *other == at))
    };
    let kept: Vec<&Value> = (0..shown.len()).filter(|&at| is_kept(at)).map(|at| shown[at]).collect();
    let mut inserted: Vec<Value> = Vec::new();
    for item in insert {
        check(&item)?;
        if !kept.contains(&&item) && !inserted.contains(&item) {
            inserted.push(item);
        }
    }
    left_out += drain_over(&mut inserted, most.insertions);
    changes.extend(inserted.into_iter().map(Change::Insert));
    Ok(RequestedUpdate { changes, left_out })
}

/// Removes what is over a bound. Returns how many were removed.
fn drain_over<T>(changes: &mut Vec<T>, most: usize) -> usize {
    changes.drain(most.min(changes.len())..).count()
}

/// The changes that a model asked for.
pub(super) struct RequestedUpdate {
    pub(super) changes: Vec<Change>,
    /// The number of changes that were over a bound.
    left_out: usize,
}

/// The most changes of one update. A conversation may say anything, also that all items are to be deleted.
pub(super) struct Bounds {
    deletions: usize,
    updates: usize,
    insertions: usize,
}

impl Bounds {
    /// Returns the bounds for these messages.
    pub(super) fn of(messages: &[Message]) -> Self {
        let said = messages.iter().filter(|message| !message.text().trim().is_empty()).count();
        Bounds { deletions: said.max(3), updates: (2 * said).max(5), insertions: most_facts(messages) }
    }
}

/// The report of [`Collection::update`](crate::Collection::update): the keys of the items that changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CollectionReport {
    /// The keys of the new items.
    pub inserted: Vec<String>,
    /// The keys of the items whose value changed.
    pub updated: Vec<String>,
    /// The keys of the items that were deleted.
    pub deleted: Vec<String>,
    /// The values that the items in `updated` had before, and then those of the items in `deleted`.
    pub before: Vec<Value>,
    /// The number of changes that the model asked for and that were too many for these messages.
    pub left_out: usize,
    /// True if the same messages updated the collection before, so that the call changed nothing.
    pub repeated: bool,
}

/// Returns the key for a new item. Keys sort by the time of their creation.
pub(super) fn new_key() -> String {
    Uuid::now_v7().to_string()
}

/// Returns the key of the record of an update by these messages.
pub(super) fn record_key(messages: &[Message]) -> String {
    // 0xff separates the texts, because no byte of UTF-8 has this value.
    let add = |hash: Sha256, message: &Message| {
        hash.chain_update(&message.id).chain_update([0xff]).chain_update(message.text()).chain_update([0xff])
    };
    let hash = messages.iter().fold(Sha256::new(), add).finalize();
    format!("{}{}", RECORD_KEYS.0, hex(&hash[..16]))
}

/// Returns the filter that matches items, but no records.
pub(super) fn is_item() -> Result<MetadataFilter> {
    Ok(!MetadataFilter::exists(RECORD)?)
}

/// An update of a collection that the model has answered.
pub(super) struct Update<'a> {
    pub(super) namespace: &'a Namespace,
    /// The options that items are stored with.
    pub(super) options: &'a DocumentOptions,
    pub(super) batch: &'a FlushedBatch<'a>,
    /// The key of the record of the update.
    pub(super) record: &'a str,
    /// The items that the model was shown.
    pub(super) shown: &'a [Document],
}

/// Returns the operations that apply the changes of an update and store its record. Their commit fails if an item that
/// they change has changed meanwhile, or one that the model was shown is gone; if a message of the batch is not stored as
/// it was; or if the record exists.
pub(super) fn operations(
    requested: RequestedUpdate,
    update: &Update<'_>,
) -> (Vec<DocumentOperation>, CollectionReport) {
    let RequestedUpdate { changes, left_out } = requested;
    let Update { namespace, options, batch, record, shown } = *update;
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
    let mut deleted = Vec::new();
    let mut operations = vec![expect(record, None)];
    let mut report = CollectionReport { left_out, ..CollectionReport::default() };
    operations.extend(unchanged(batch));
    let keys = shown.iter().map(|item| item.key.clone()).collect();
    operations.push(DocumentOperation::ExpectDocuments { namespace: namespace.clone(), keys });
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
                report.before.push(shown[at].value.clone());
            }
            Change::Delete(at) => {
                let key = shown[at].key.clone();
                operations.push(DocumentOperation::Delete { namespace: namespace.clone(), key: key.clone() });
                report.deleted.push(key);
                deleted.push(shown[at].value.clone());
            }
        }
    }
    report.before.extend(deleted);
    let changed = report.updated.iter().chain(&report.deleted).cloned();
    let value = UpdateRecord {
        changes: count,
        sources: batch.messages.iter().map(|message| source_hash(&message.id)).collect(),
        items: [report.inserted.as_slice(), &report.updated].concat(),
        inserted: report.inserted.clone(),
        deleted: report.deleted.clone(),
        before: changed.zip(report.before.iter().cloned()).collect(),
        left_out,
        undone: false,
    };
    operations.push(put(record, value.to_json(), DocumentOptions::default().not_indexed()));
    (operations, report)
}
