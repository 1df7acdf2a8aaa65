//! A document as it is read.

use serde::Serialize;
use serde_json::Value;

use crate::{ids::Namespace, message::Timestamp};

/// A JSON value that is stored under a key of a namespace.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Document {
    /// The namespace.
    pub namespace: Namespace,
    /// The key, unique in the namespace.
    pub key: String,
    /// The value as it was put.
    pub value: Value,
    /// The time at which the key was first put. A document that is put after it was deleted or had expired is new.
    pub created_at: Timestamp,
    /// The time at which the key was last put.
    pub updated_at: Timestamp,
    /// The time at which the document expires, if it has a time to live, as of before this read.
    pub expires_at: Option<Timestamp>,
    /// The score of the best indexed text for the query of a search; higher is better. It compares documents of one
    /// search. `None` if there was no query.
    pub score: Option<f32>,
}
