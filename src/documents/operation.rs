//! Operations on documents, and their outcomes.

use serde_json::Value;

use super::{document::Document, listing::DocumentNamespaces, options::DocumentOptions, search::DocumentSearch};
use crate::ids::Namespace;

/// An operation of [`Engine::document_batch`](crate::Engine::document_batch).
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum DocumentOperation {
    /// Reads a document.
    Get {
        /// The namespace.
        namespace: Namespace,
        /// The key.
        key: String,
        /// Lets the document's time to live begin again.
        refresh_ttl: bool,
    },
    /// Searches among the documents of a namespace.
    Search {
        /// The namespace.
        namespace: Namespace,
        /// The search.
        search: DocumentSearch,
    },
    /// Puts a document, or replaces it.
    Put {
        /// The namespace.
        namespace: Namespace,
        /// The key.
        key: String,
        /// The value.
        value: Value,
        /// The texts to index, and the time to live.
        options: DocumentOptions,
    },
    /// Deletes a document.
    Delete {
        /// The namespace.
        namespace: Namespace,
        /// The key.
        key: String,
    },
    /// Lists the namespaces that have documents.
    ListNamespaces(DocumentNamespaces),
}

/// The outcome of a [`DocumentOperation`].
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum DocumentOutcome {
    /// Of a get: the document, if there is one.
    Got(Option<Document>),
    /// Of a search: the documents that it found.
    Found(Vec<Document>),
    /// Of a put.
    Put,
    /// Of a delete: whether there was such a document.
    Deleted(bool),
    /// Of a listing.
    Namespaces(Vec<Namespace>),
}
