//! Filters on JSON objects: the metadata of messages, and the values of documents.
//!
//! `metadata_filter` has the expression and its evaluation, `condition` what it is made of, `fields` what it is
//! evaluated on, `json` its form in JSON, `path` the way to a value, `compare` the comparison of two values. Nothing
//! here reads the store.

mod compare;
mod condition;
mod fields;
mod json;
mod metadata_filter;
mod path;

pub(crate) use fields::{Fields, MessageField};
pub use metadata_filter::MetadataFilter;
pub(crate) use path::FieldPath;
