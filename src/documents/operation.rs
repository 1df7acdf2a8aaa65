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
    /// Lets the batch fail, with [`Error::DocumentChanged`](crate::Error::DocumentChanged), unless a document has this
    /// value when the batch is committed. So a value that was computed from one that was read replaces no other.
    Expect {
        /// The namespace.
        namespace: Namespace,
        /// The key.
        key: String,
        /// The value; `None`: there is no document with this key.
        value: Option<Value>,
    },
}

impl DocumentOperation {
    /// The namespace that it reads or changes; `None` for a listing of namespaces.
    pub(crate) fn namespace(&self) -> Option<&Namespace> {
        match self {
            DocumentOperation::Get { namespace, .. }
            | DocumentOperation::Search { namespace, .. }
            | DocumentOperation::Put { namespace, .. }
            | DocumentOperation::Delete { namespace, .. }
            | DocumentOperation::Expect { namespace, .. } => Some(namespace),
            DocumentOperation::ListNamespaces(_) => None,
        }
    }
}

/// The outcome of a [`DocumentOperation`].
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum DocumentOutcome {
    /// The document of a get, if there is one.
    Got(Option<Document>),
    /// The documents that a search found.
    Found(Vec<Document>),
    /// A document was put.
    Put,
    /// A document was deleted; false if there was none.
    Deleted(bool),
    /// The namespaces of a listing.
    Namespaces(Vec<Namespace>),
    /// A document has the expected value.
    Expected,
}
