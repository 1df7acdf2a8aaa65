//! Knowledge that a language model keeps up to date from conversations: profiles and collections, on documents.
//!
//! This module owns the prompts, the reading of the model's answers, and the checks of their changes. Storing, searching
//! and commits are those of [`Documents`](crate::Documents), and a memory hands the batches to the blocks. A profile is
//! one object (`profile`); a collection has many items (`collection`, with the changes of an answer in
//! `collection_changes`, and the updates that can be taken back in `collection_undo`); `blocks` makes memory blocks of both.
//!
//! Invariants: an answer of another form than the requested one changes nothing; all changes of one answer are one
//! commit; a value that changed since the model was shown it is not overwritten; nothing is stored that was made of a
//! message or an item that was deleted while the model was asked.

mod blocks;
mod collection;
mod collection_changes;
mod collection_undo;
mod profile;

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{
    block::{BatchOrigin, FlushedBatch},
    documents::DocumentOperation,
};
pub use blocks::{CollectionBlock, ProfileBlock};
pub use collection::{BlockingCollection, Collection};
pub use collection_changes::CollectionReport;
pub use collection_undo::{CollectionUpdate, ItemBefore, UndoReport};
pub use profile::{BlockingProfile, Profile};

/// Returns the operation that lets a commit fail unless the messages of a batch are stored as they were; none if they are
/// not stored.
fn unchanged(batch: &FlushedBatch<'_>) -> Option<DocumentOperation> {
    let BatchOrigin { namespace, session, block, shared, revision, restores } = batch.origin?.clone();
    let messages = batch.messages.to_vec();
    Some(DocumentOperation::ExpectBatch { namespace, session, block, shared, revision, restores, messages })
}

/// Checks a value. The error is the reason.
type Check = fn(&Value) -> Result<(), String>;

/// The form of the values that a language model writes: a description for the model, and the check of each value.
#[derive(Clone)]
struct ValueForm {
    description: String,
    check: Check,
}

impl ValueForm {
    /// Allows every object.
    fn described(description: impl Into<String>) -> Self {
        ValueForm { description: description.into(), check: is_object }
    }

    /// Allows the objects that deserialize as a `T`.
    fn of<T: DeserializeOwned>(self) -> Self {
        let check = |value: &Value| {
            is_object(value)?;
            T::deserialize(value).map(drop).map_err(|error| error.to_string())
        };
        ValueForm { check, ..self }
    }

    /// # Errors
    /// The reason why a value does not have this form.
    fn check(&self, value: &Value) -> Result<(), String> {
        (self.check)(value)
    }
}

fn is_object(value: &Value) -> Result<(), String> {
    if value.is_object() { Ok(()) } else { Err("it is not a JSON object".to_owned()) }
}
