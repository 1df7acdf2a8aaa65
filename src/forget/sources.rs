//! The record of an update of a collection: which items it changed, and of which messages it was made.

use std::collections::HashSet;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::ids::hex;

/// The field that marks a document as the record of an update, which is no item. Its value is the number of changes.
pub(crate) const RECORD: &str = "_update";
/// The first and the end of the keys of records.
pub(crate) const RECORD_KEYS: (&str, &str) = ("update ", "update!");

/// Makes the value of a record: the number of changes, hashes of the messages' ids, and the keys of the items that the
/// update inserted or changed.
pub(crate) fn update_record<'a>(changes: usize, ids: impl Iterator<Item = &'a str>, items: &[String]) -> Value {
    json!({ RECORD: changes, "sources": ids.map(source_hash).collect::<Vec<_>>(), "items": items })
}

/// Returns the keys of the items that an update changed, if one of these hashes is of a message that it was made of.
/// The records of earlier releases name no messages and no items.
pub(crate) fn items_made_of(record: &Value, sources: &HashSet<String>) -> Option<Vec<String>> {
    let texts = |field: &str| record[field].as_array().into_iter().flatten().filter_map(Value::as_str);
    let is_made_of = record.get(RECORD).is_some() && texts("sources").any(|source| sources.contains(source));
    is_made_of.then(|| texts("items").map(str::to_owned).collect())
}

/// Returns the hash by which a record names a message.
pub(crate) fn source_hash(id: &str) -> String {
    hex(&Sha256::digest(id)[..16])
}
