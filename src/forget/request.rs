//! [`Forget`]: what is to be forgotten.

use super::receipt::Requested;
use crate::{filter::MetadataFilter, ids::Namespace};

/// What [`Engine::forget`](crate::Engine::forget) is to forget: some messages or documents, a session, a namespace, or
/// all namespaces under a prefix.
///
/// To forget what a search finds, recall it, let a person confirm the ids, and forget the messages by their ids.
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
    /// Forgets the messages of a namespace with these ids, also where only a checkpoint still has them. Unknown ids are
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
    /// `$created_at`. A message that matched at a checkpoint, and does not now, is forgotten at the checkpoint.
    /// Documents are not matched.
    pub fn matching(namespace: &Namespace, filter: MetadataFilter) -> Self {
        Self::of(namespace, Selection::Matching(filter))
    }

    /// Forgets everything of a namespace: messages, documents, blocks, its language and its name.
    pub fn namespace(namespace: &Namespace) -> Self {
        Self::of(namespace, Selection::Namespace)
    }

    /// Forgets everything of all namespaces under a prefix, itself included.
    pub fn prefix(prefix: &Namespace) -> Self {
        Self::of(prefix, Selection::Prefix)
    }

    fn of(namespace: &Namespace, selection: Selection) -> Self {
        Forget { namespace: namespace.clone(), selection }
    }

    /// What was asked for, without names and ids.
    pub(crate) fn requested(&self) -> Requested {
        match &self.selection {
            Selection::Messages(ids) => Requested::Messages { ids: ids.len() as u64 },
            Selection::Documents(keys) => Requested::Documents { keys: keys.len() as u64 },
            Selection::Session(_) => Requested::Session,
            Selection::Matching(_) => Requested::Matching,
            Selection::Namespace => Requested::Namespace,
            Selection::Prefix => Requested::Prefix,
        }
    }
}

/// Everything of a namespace.
impl From<&Namespace> for Forget {
    fn from(namespace: &Namespace) -> Self {
        Forget::namespace(namespace)
    }
}
