//! The updates of a collection that models made, as their records tell, and the operations that take one back.

use std::collections::HashMap;

use serde::Serialize;
use serde_json::Value;

use crate::{
    documents::{Document, DocumentOperation, DocumentOptions},
    forget::UpdateRecord,
    message::Timestamp,
};

/// An update of a collection that a model made. [`Collection::updates`](crate::Collection::updates) lists them.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct CollectionUpdate {
    /// Its id, for [`Collection::undo`](crate::Collection::undo).
    pub id: String,
    /// The time of its commit.
    pub at: Timestamp,
    /// The keys of the new items.
    pub inserted: Vec<String>,
    /// The items whose value it changed.
    pub updated: Vec<ItemBefore>,
    /// The items that it deleted.
    pub deleted: Vec<ItemBefore>,
    /// The number of changes that the model asked for and that were too many.
    pub left_out: usize,
    /// True if it was undone.
    pub undone: bool,
}

/// An item as it was before an update.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct ItemBefore {
    /// Its key.
    pub key: String,
    /// The value that it had. `None` if that was forgotten since, or the update was undone.
    pub value: Option<Value>,
}

impl CollectionUpdate {
    /// Reads the record of an update.
    pub(super) fn read(document: &Document) -> Option<Self> {
        let UpdateRecord { items, inserted, deleted, before, left_out, undone, .. } =
            UpdateRecord::read(&document.value)?;
        let before: HashMap<String, Value> = before.into_iter().collect();
        let was = |key: String| ItemBefore { value: before.get(&key).cloned(), key };
        let updated = items.into_iter().filter(|key| !inserted.contains(key)).map(was).collect();
        let deleted = deleted.into_iter().map(was).collect();
        let (id, at) = (document.key.clone(), document.created_at);
        Some(CollectionUpdate { id, at, inserted, updated, deleted, left_out, undone })
    }
}

/// The report of [`Collection::undo`](crate::Collection::undo): the keys of the items.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct UndoReport {
    /// Items that have the value again that they had before the update.
    pub restored: Vec<String>,
    /// Items that the update had inserted, and that were deleted.
    pub removed: Vec<String>,
    /// Items that stay as they are: they were changed or deleted since, or their earlier value was forgotten.
    pub kept: Vec<String>,
}

/// Returns the operations that undo an update, given its record and the items that it changed, as they are now. Their commit
/// fails if one of them changes meanwhile.
pub(super) fn undoing(
    record: &Document,
    items: &HashMap<String, Document>,
    options: &DocumentOptions,
) -> (Vec<DocumentOperation>, UndoReport) {
    let namespace = || record.namespace.clone();
    let expect = |key: &str, value: Option<Value>| DocumentOperation::Expect {
        namespace: namespace(),
        key: key.to_owned(),
        value,
    };
    let put = |key: &str, value: Value, options: DocumentOptions| DocumentOperation::Put {
        namespace: namespace(),
        key: key.to_owned(),
        value,
        options,
    };
    let update = UpdateRecord::read(&record.value).unwrap_or_default();
    let before: HashMap<&String, &Value> = update.before.iter().map(|(key, value)| (key, value)).collect();
    let mut report = UndoReport::default();
    let mut operations = vec![expect(&record.key, Some(record.value.clone()))];
    for key in update.items.iter().chain(&update.deleted) {
        let now = items.get(key);
        // What one commit puts has one time.
        let is_unchanged = match update.deleted.contains(key) {
            true => now.is_none(),
            false => now.is_some_and(|now| now.updated_at == record.created_at),
        };
        match (before.get(key), update.inserted.contains(key)) {
            (_, true) if is_unchanged => {
                operations.push(expect(key, now.map(|now| now.value.clone())));
                operations.push(DocumentOperation::Delete { namespace: namespace(), key: key.clone() });
                report.removed.push(key.clone());
            }
            (Some(&before), false) if is_unchanged => {
                operations.push(expect(key, now.map(|now| now.value.clone())));
                operations.push(put(key, before.clone(), options.clone()));
                report.restored.push(key.clone());
            }
            _ => report.kept.push(key.clone()),
        }
    }
    let undone = UpdateRecord { undone: true, before: Vec::new(), ..update }.to_json();
    operations.push(put(&record.key, undone, DocumentOptions::default().not_indexed()));
    (operations, report)
}
