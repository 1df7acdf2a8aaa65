//! The context in which a block is asked for its content.

use std::sync::Arc;

use crate::{
    error::{Result, impl_debug},
    ids::Namespace,
    message::Message,
    recall::{Hit, Query},
};

/// The prompt that a block contributes to, and access to long-term memory. Cheap to clone.
#[derive(Clone)]
#[non_exhaustive]
pub struct BlockQuery {
    /// The namespace of the memory.
    pub namespace: Namespace,
    /// The session of the memory.
    pub session: String,
    /// The messages in the prompt, oldest first; the input is the last one.
    pub messages: Arc<[Arc<Message>]>,
    retriever: Arc<dyn Retriever>,
}

impl_debug!(BlockQuery { namespace, session });

/// Access of blocks to long-term memory.
pub trait Retriever: Send + Sync {
    /// Recalls messages of a namespace. Same as [`Engine::recall`](crate::Engine::recall).
    ///
    /// # Errors
    /// Same as [`Engine::recall`](crate::Engine::recall).
    fn recall(&self, namespace: &Namespace, query: &Query) -> Result<Vec<Hit>>;

    /// Returns the messages that were flushed together with a message, for [`BlockQuery::batch_of`]. Empty if the
    /// message was not flushed. Default: empty.
    ///
    /// # Errors
    /// The errors of the store.
    fn batch_of(&self, namespace: &Namespace, id: &str) -> Result<Vec<Message>> {
        let _ = (namespace, id);
        Ok(Vec::new())
    }
}

impl BlockQuery {
    /// Creates a query, for tests of a block. A memory creates its own queries.
    pub fn new(
        namespace: Namespace,
        session: impl Into<String>,
        messages: impl Into<Arc<[Arc<Message>]>>,
        retriever: Arc<dyn Retriever>,
    ) -> Self {
        BlockQuery { namespace, session: session.into(), messages: messages.into(), retriever }
    }

    /// Recalls messages of the namespace that are not in the prompt. Otherwise the same as
    /// [`Engine::recall`](crate::Engine::recall).
    ///
    /// # Errors
    /// Same as [`Engine::recall`](crate::Engine::recall).
    pub fn recall(&self, query: &Query) -> Result<Vec<Hit>> {
        self.retriever.recall(&self.namespace, query)
    }

    /// Returns the messages that were flushed together with `message`, including itself. Only `message` if it was not
    /// flushed.
    ///
    /// # Errors
    /// [`Error::Storage`](crate::Error::Storage), [`Error::Corrupted`](crate::Error::Corrupted).
    pub fn batch_of(&self, message: &Message) -> Result<Vec<Message>> {
        let batch = self.retriever.batch_of(&self.namespace, &message.id)?;
        Ok(if batch.is_empty() { vec![message.clone()] } else { batch })
    }
}
