//! What was made of messages, and says so: the updates of collections, the documents of blocks, the versions of instructions.
//!
//! The store knows these marks alone, and none of the blocks and collections that leave them. They name messages by hashes of
//! their ids.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::ids::{Namespace, hex};

/// The field that marks a document of a collection as the record of an update, not an item. Its value is the number of
/// changes.
pub(crate) const RECORD: &str = "_update";
/// The range of the keys of records: the first key, and the first key after them.
pub(crate) const RECORD_KEYS: (&str, &str) = ("update ", "update!");
/// The field of a record or a version with the hashes of the messages that it was made of.
const SOURCES: &str = "sources";
/// The field of a block's state with the documents that the block made of its batches.
const DOCUMENTS: &str = "_documents";
/// The feedback of a version of instructions in the place of one that was forgotten.
const FORGOTTEN: &str = "messages that this version was made of were forgotten";

/// The record of an update of a collection.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct UpdateRecord {
    /// The number of changes.
    #[serde(rename = "_update")]
    pub(crate) changes: usize,
    /// Hashes of the ids of the messages that it was made of.
    pub(crate) sources: Vec<String>,
    /// The keys of the items that it inserted or changed.
    pub(crate) items: Vec<String>,
    /// The keys of those that it inserted.
    pub(crate) inserted: Vec<String>,
    /// The keys of the items that it deleted.
    pub(crate) deleted: Vec<String>,
    /// The values that changed and deleted items had before, by their keys.
    pub(crate) before: Vec<(String, Value)>,
    /// The number of changes that the model asked for and that were too many.
    pub(crate) left_out: usize,
    /// Whether it was undone.
    pub(crate) undone: bool,
}

impl UpdateRecord {
    pub(crate) fn to_json(&self) -> Value {
        serde_json::to_value(self).expect("a record is valid JSON")
    }

    /// Reads the record in a document; `None` if the document is an item.
    pub(crate) fn read(document: &Value) -> Option<Self> {
        document.get(RECORD)?;
        Self::deserialize(document).ok()
    }
}

/// Removes earlier values of some items from a record. Returns the record without them, or `None` if it has none.
pub(crate) fn without_items(record: &Value, keys: &[String]) -> Option<Value> {
    let mut record = UpdateRecord::read(record)?;
    let count = record.before.len();
    record.before.retain(|(key, _)| !keys.contains(key));
    (record.before.len() < count).then(|| record.to_json())
}

/// Returns the keys of the items that an update changed, if the update was made of one of these messages, given by the
/// hashes of their ids. The records of earlier releases name no messages and no items.
pub(crate) fn items_made_of(record: &Value, sources: &HashSet<String>) -> Option<Vec<String>> {
    let is_made_of = record.get(RECORD).is_some() && is_made_of(record, sources);
    is_made_of.then(|| texts(record, "items").map(str::to_owned).collect())
}

/// Returns the hashes of the ids of the messages that an update was made of, if it changed this item.
pub(crate) fn sources_of<'r>(record: &'r Value, item: &str) -> impl Iterator<Item = &'r str> {
    let has_changed = texts(record, "items").any(|key| key == item);
    texts(record, SOURCES).filter(move |_| has_changed)
}

/// Creates the state of a block that keeps all that it makes in one document.
pub(crate) fn state_of_document(namespace: &Namespace, key: &str) -> Value {
    json!({ DOCUMENTS: [[namespace, key]] })
}

/// Returns the documents that a block made, given its state in JSON.
pub(crate) fn documents_made(state: &str) -> Vec<(Namespace, String)> {
    if !state.contains(DOCUMENTS) {
        return Vec::new();
    }
    let mut state: Value = serde_json::from_str(state).unwrap_or_default();
    serde_json::from_value(state[DOCUMENTS].take()).unwrap_or_default()
}

/// Replaces the versions of instructions that were made of some messages, or of such a version, by the last one before them
/// that was not. Returns the new state in JSON, or `None` if there are no such versions. `state` is a block's in JSON.
pub(crate) fn without_versions_of(state: &str, sources: &HashSet<String>) -> Option<String> {
    if !state.contains(SOURCES) {
        return None;
    }
    let mut state: Value = serde_json::from_str(state).ok()?;
    let first = usize::try_from(state["first"].as_u64()?).ok()?;
    let versions = std::mem::take(state["versions"].as_array_mut()?);
    let mut are_made_of: Vec<bool> = Vec::new();
    for version in &versions {
        let base = version["base"].as_u64().and_then(|base| usize::try_from(base).ok()?.checked_sub(first));
        let of_base = base.and_then(|base| are_made_of.get(base).copied()).unwrap_or_default();
        are_made_of.push(of_base || is_made_of(version, sources));
    }
    if !are_made_of.contains(&true) {
        return None;
    }
    let count = versions.len();
    let mut kept: Vec<Value> = Vec::new();
    for (version, is_made_of) in versions.into_iter().zip(are_made_of) {
        match (is_made_of, kept.last()) {
            (false, _) => kept.push(version),
            (true, Some(before)) => {
                let mut before = before.clone();
                before["feedback"] = FORGOTTEN.into();
                kept.push(before);
            }
            (true, None) => {}
        }
    }
    if kept.is_empty() {
        return Some(Value::Null.to_string());
    }
    state["first"] = (first + count - kept.len()).into();
    state["versions"] = kept.into();
    Some(state.to_string())
}

/// Returns the hash by which records and versions name a message.
pub(crate) fn source_hash(id: &str) -> String {
    hex(&Sha256::digest(id)[..16])
}

fn is_made_of(of: &Value, sources: &HashSet<String>) -> bool {
    texts(of, SOURCES).any(|source| sources.contains(source))
}

fn texts<'v>(of: &'v Value, field: &str) -> impl Iterator<Item = &'v str> {
    of[field].as_array().into_iter().flatten().filter_map(Value::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Versions by their prompts, sources and bases.
    fn state(first: usize, versions: &[(&str, &[&str], Option<usize>)]) -> String {
        let version = |(prompt, sources, base): &(&str, &[&str], Option<usize>)| json!({ "prompt": prompt, "feedback": "", SOURCES: sources, "base": base });
        json!({ "first": first, "versions": versions.iter().map(version).collect::<Vec<_>>() }).to_string()
    }

    #[test]
    fn versions_made_of_forgotten_messages_have_the_text_before() {
        let left = |state: String| {
            let left: Value = serde_json::from_str(&without_versions_of(&state, &["m".to_owned()].into())?).unwrap();
            let prompts = left["versions"].as_array().cloned().unwrap_or_default();
            Some((
                left["first"].as_u64().unwrap_or_default(),
                prompts.iter().map(|v| v["prompt"].as_str().unwrap().to_owned()).collect::<Vec<_>>().join(" "),
            ))
        };
        let clean = state(0, &[("a", &[], None), ("b", &["n"], Some(0))]);
        assert_eq!(left(clean), None);
        // The second is made of the message, the third of the second, the fourth goes back to the first.
        let mixed = state(7, &[("a", &[], None), ("b", &["m"], Some(7)), ("c", &[], Some(8)), ("d", &[], Some(7))]);
        assert_eq!(left(mixed), Some((7, "a a a d".to_owned())));
        let begun = state(7, &[("a", &["m"], None), ("b", &[], None)]);
        assert_eq!(left(begun), Some((8, "b".to_owned())));
        assert_eq!(left(state(7, &[("a", &["m"], None)])), Some((0, String::new())));
    }
}
