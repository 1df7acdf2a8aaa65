//! Documents: JSON values under keys, with LangGraph's `BaseStore` as the model.
//!
//! This module owns the values, the options, the paths to the texts to index, and the rules for what may be stored. It
//! knows no store: the engine applies the operations.

mod document;
mod listing;
mod operation;
mod options;
mod path;
mod prepare;
mod search;

pub use document::Document;
pub use listing::DocumentNamespaces;
pub use operation::{DocumentOperation, DocumentOutcome};
pub use options::DocumentOptions;
pub(crate) use prepare::{PreparedDocument, check_depth, check_imported, check_key, prepare};
pub use search::DocumentSearch;
