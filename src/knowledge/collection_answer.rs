//! The changes of a collection that a language model asks for.

use std::collections::HashSet;

use serde::Deserialize;
use serde_json::Value;

use crate::{
    block::{json_in, unusable},
    error::Result,
};

/// The form of the model's answers, for errors.
const EXPECTED: &str = "{\"insert\": [...], \"update\": [{\"id\": 1, \"item\": ...}], \"delete\": [...]}";

/// The answer of the model. A list that is left out is empty.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Answer {
    insert: Vec<Value>,
    update: Vec<Update>,
    delete: Vec<usize>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Update {
    id: usize,
    item: Value,
}

/// A change of a collection. An item that exists is named by its position among those that the model was shown.
pub(super) enum Change {
    Insert(Value),
    Update(usize, Value),
    Delete(usize),
}

/// Reads the changes in an answer to a request with these items. Changes that change nothing are left out: an item that
/// is inserted though it was shown and stays, or was inserted already, and an update to the same value.
///
/// # Errors
/// [`Error::Chat`](crate::Error::Chat): the answer has another form, an id that was not shown or is there twice, or an
/// item that `check` rejects.
pub(super) fn read(
    answer: &str,
    shown: &[&Value],
    check: impl Fn(&Value) -> std::result::Result<(), String>,
) -> Result<Vec<Change>> {
    let Answer { insert, update, delete } = json_in(answer, EXPECTED)?;
    let fault = |reason: String| unusable(answer, EXPECTED, &reason);
    let mut used = HashSet::new();
    let mut position = |id: usize| match id.checked_sub(1).filter(|&at| at < shown.len()) {
        None => Err(fault(format!("{id} is not the id of one of the {} items", shown.len()))),
        Some(_) if !used.insert(id) => Err(fault(format!("id {id} is used twice"))),
        Some(at) => Ok(at),
    };
    let check = |item: &Value| check(item).map_err(|reason| fault(format!("the item {item} is not allowed: {reason}")));
    let mut changes = Vec::new();
    for Update { id, item } in update {
        check(&item)?;
        let at = position(id)?;
        if *shown[at] != item {
            changes.push(Change::Update(at, item));
        }
    }
    for id in delete {
        changes.push(Change::Delete(position(id)?));
    }
    let is_kept = |at: usize| {
        let changes_it =
            |change: &Change| matches!(change, Change::Update(other, _) | Change::Delete(other) if *other == at);
        !changes.iter().any(changes_it)
    };
    let kept: Vec<&Value> = (0..shown.len()).filter(|&at| is_kept(at)).map(|at| shown[at]).collect();
    let mut inserted: Vec<Value> = Vec::new();
    for item in insert {
        check(&item)?;
        if !kept.contains(&&item) && !inserted.contains(&item) {
            inserted.push(item);
        }
    }
    changes.extend(inserted.into_iter().map(Change::Insert));
    Ok(changes)
}
