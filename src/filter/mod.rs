//! Filters on JSON objects: the metadata of messages, and the values of documents.
//!
//! `metadata_filter` has the expression, its evaluation and its form in JSON, `condition` what it is made of, `fields`
//! what it is evaluated on. Nothing here reads the store.

mod condition;
mod fields;
mod metadata_filter;

pub(crate) use condition::is_equal;
pub(crate) use fields::{FieldPath, Fields, MessageField};
pub use metadata_filter::MetadataFilter;
