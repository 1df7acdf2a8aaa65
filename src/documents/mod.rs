//! Documents: JSON values under keys, with LangGraph's `BaseStore` as the model.
//!
//! `operation` has the operations on documents with their options and outcomes, `prepare` the rules for what may be stored
//! and the paths to the texts to index. Nothing here knows the store: the engine applies the operations.

mod operation;
mod prepare;

pub use operation::{
    Document, DocumentNamespaces, DocumentOperation, DocumentOptions, DocumentOutcome, DocumentSearch,
};
pub(crate) use prepare::{PreparedDocument, check_depth, check_imported, check_key, prepare};
