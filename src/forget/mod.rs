//! Forgetting: requests, legal holds, receipts and their chain, and the marks from which what was made of forgotten messages
//! is found.
//!
//! This module owns the public types, the check of the chain (`audit`), and the marks (`made_of`). It removes nothing: the engine divides a
//! request into commits, and the store removes the records and appends the receipt.

mod audit;
mod made_of;

use serde::Serialize;

use crate::{filter::MetadataFilter, ids::Namespace, message::Timestamp};
pub use audit::{Audit, AuditEvent, ForgetTarget, Forgotten, Receipt};
pub(crate) use audit::{ChainedEntry, no_hash};
pub(crate) use made_of::{
    RECORD, RECORD_KEYS, UpdateRecord, documents_made, items_made_of, source_hash, sources_of, state_of_document,
    without_items, without_versions_of,
};

/// A request to [`Engine::forget`](crate::Engine::forget): some messages or documents, a session, a namespace, or all
/// namespaces under a prefix.
///
/// To forget the results of a search, recall them, let a person confirm the ids, and forget the messages by their ids.
///
/// ```
/// use mnemon::{Forget, MetadataFilter};
/// let namespace = "acme/user-42".parse()?;
/// Forget::messages(&namespace, ["m1", "m2"]);
/// Forget::matching(&namespace, MetadataFilter::lt("$created_at", "2024-01-01T00:00:00Z")?);
/// Forget::prefix(&"acme".parse()?);
/// # Ok::<(), mnemon::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Forget {
    pub(crate) namespace: Namespace,
    pub(crate) selection: Selection,
}

#[derive(Clone, Debug)]
pub(crate) enum Selection {
    Messages(Vec<String>),
    Documents(Vec<String>),
    Session(String),
    Matching(MetadataFilter),
    Namespace,
    Prefix,
}

impl Forget {
    /// Forgets the messages of a namespace with these ids, even those that only a checkpoint still has. Unknown ids are
    /// ignored.
    pub fn messages(namespace: &Namespace, ids: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self::of(namespace, Selection::Messages(ids.into_iter().map(Into::into).collect()))
    }

    /// Forgets the documents of a namespace with these keys, and their indexed texts. Unknown keys are ignored.
    pub fn documents(namespace: &Namespace, keys: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self::of(namespace, Selection::Documents(keys.into_iter().map(Into::into).collect()))
    }

    /// Forgets a session with its messages, checkpoints and blocks.
    pub fn session(namespace: &Namespace, session: impl Into<String>) -> Self {
        Self::of(namespace, Selection::Session(session.into()))
    }

    /// Forgets the messages of a namespace that match a filter on their metadata and on `$id`, `$session`, `$role` and
    /// `$created_at`. If only the version of a message at a checkpoint matches, that version is forgotten. Documents are
    /// not matched.
    pub fn matching(namespace: &Namespace, filter: MetadataFilter) -> Self {
        Self::of(namespace, Selection::Matching(filter))
    }

    /// Forgets everything of a namespace: messages, documents, blocks, its language and its name.
    pub fn namespace(namespace: &Namespace) -> Self {
        Self::of(namespace, Selection::Namespace)
    }

    /// Forgets everything of all namespaces under a prefix, including the namespace with that name.
    pub fn prefix(prefix: &Namespace) -> Self {
        Self::of(prefix, Selection::Prefix)
    }

    /// Returns the namespace, or the prefix.
    pub fn namespace_or_prefix(&self) -> &Namespace {
        &self.namespace
    }

    fn of(namespace: &Namespace, selection: Selection) -> Self {
        Forget { namespace: namespace.clone(), selection }
    }

    /// Returns the kind of the request for the receipt, without names and ids.
    pub(crate) fn requested(&self) -> ForgetTarget {
        match &self.selection {
            Selection::Messages(ids) => ForgetTarget::Messages { ids: ids.len() as u64 },
            Selection::Documents(keys) => ForgetTarget::Documents { keys: keys.len() as u64 },
            Selection::Session(_) => ForgetTarget::Session,
            Selection::Matching(_) => ForgetTarget::Matching,
            Selection::Namespace => ForgetTarget::Namespace,
            Selection::Prefix => ForgetTarget::Prefix,
        }
    }
}

/// Forgets everything of a namespace.
impl From<&Namespace> for Forget {
    fn from(namespace: &Namespace) -> Self {
        Forget::namespace(namespace)
    }
}

/// A legal hold. While it is set, nothing of a namespace and of those under it can be deleted or forgotten.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Hold {
    /// The namespace. The hold also covers all namespaces under it.
    pub namespace: Namespace,
    /// The reason.
    pub reason: String,
    /// The time at which the hold was set.
    pub since: Timestamp,
    /// A random number. Entries of the audit contain it instead of the namespace's name.
    pub id: String,
}
