//! Filters on JSON objects: the metadata of messages.
//!
//! `metadata_filter` has the expression and its evaluation, `json` its form in JSON, `path` the way to a value,
//! `compare` the comparison of two values. Nothing here reads the store.

mod compare;
mod json;
mod metadata_filter;
mod path;

pub use metadata_filter::MetadataFilter;
pub(crate) use path::FieldPath;
