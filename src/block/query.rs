//! The context in which a block is asked for its content, and its access to long-term memory.

use std::{collections::HashMap, sync::Arc};

use parking_lot::Mutex;

use crate::{
    error::{Result, impl_debug},
    ids::Namespace,
    message::{Message, TimeZone},
    recall::{Hit, MAX_QUERY_BYTES, Query},
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
    /// The time zone of the days that the prompt names. `None`: that of the machine.
    pub time_zone: Option<TimeZone>,
    retriever: Arc<dyn Retriever>,
    /// The scores of the messages that the block recalled through this query, by id.
    scores: Arc<Mutex<HashMap<String, f32>>>,
    /// The ids of hits that the block left out because others supersede them.
    left_out: Arc<Mutex<Vec<String>>>,
}

impl_debug!(BlockQuery { namespace, session });

/// Access of blocks to long-term memory.
pub trait Retriever: Send + Sync {
    /// Recalls messages of a namespace. Same as [`Engine::recall`](crate::Engine::recall).
    ///
    /// # Errors
    /// Same as [`Engine::recall`](crate::Engine::recall).
    fn recall(&self, namespace: &Namespace, query: &Query) -> Result<Vec<Hit>>;

    /// Returns the messages of the batch in which a message was flushed, for [`BlockQuery::batch_of`]. Empty if the
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
        let (session, messages) = (session.into(), messages.into());
        BlockQuery {
            namespace,
            session,
            messages,
            time_zone: None,
            retriever,
            scores: Arc::default(),
            left_out: Arc::default(),
        }
    }

    /// Returns a copy for one block, with separate scores.
    pub(crate) fn for_block(&self) -> Self {
        BlockQuery { scores: Arc::default(), left_out: Arc::default(), ..self.clone() }
    }

    /// Takes the recorded scores, by message id.
    pub(crate) fn take_scores(&self) -> HashMap<String, f32> {
        std::mem::take(&mut self.scores.lock())
    }

    /// Takes the ids of hits that were left out because others supersede them.
    pub(crate) fn take_left_out(&self) -> Vec<String> {
        std::mem::take(&mut self.left_out.lock())
    }

    /// Records the ids of hits that are left out because others supersede them, in place of those of an earlier call.
    pub(super) fn leave_out(&self, ids: Vec<String>) {
        *self.left_out.lock() = ids;
    }

    /// Records the scores of hits for [`Prompt::recalled`](crate::Prompt::recalled).
    pub(super) fn record(&self, hits: &[Hit]) {
        self.scores.lock().extend(hits.iter().map(|hit| (hit.message.id.clone(), hit.score)));
    }

    /// Recalls messages of the namespace, without those in the prompt. Otherwise the same as
    /// [`Engine::recall`](crate::Engine::recall). If the block's content quotes a hit, the prompt reports its score: see
    /// [`Prompt::recalled`](crate::Prompt::recalled).
    ///
    /// # Errors
    /// Same as [`Engine::recall`](crate::Engine::recall).
    pub fn recall(&self, query: &Query) -> Result<Vec<Hit>> {
        let hits = self.retriever.recall(&self.namespace, query)?;
        self.record(&hits);
        Ok(hits)
    }

    /// Joins the texts of the last `count` messages into the text of a query. If it is too long, only its end is kept,
    /// which contains the input.
    pub(crate) fn last_texts(&self, count: usize) -> String {
        let last = &self.messages[self.messages.len().saturating_sub(count)..];
        let texts = last.iter().map(|message| message.text()).filter(|text| !text.trim().is_empty());
        let mut text = texts.collect::<Vec<_>>().join(" ");
        let start = text.ceil_char_boundary(text.len().saturating_sub(MAX_QUERY_BYTES));
        text.split_off(start)
    }

    /// Returns the messages of the batch in which `message` was flushed, including `message` itself, or only `message` if
    /// it was not flushed.
    ///
    /// # Errors
    /// [`Error::Storage`](crate::Error::Storage), [`Error::Corrupted`](crate::Error::Corrupted).
    pub fn batch_of(&self, message: &Message) -> Result<Vec<Message>> {
        let batch = self.retriever.batch_of(&self.namespace, &message.id)?;
        Ok(if batch.is_empty() { vec![message.clone()] } else { batch })
    }
}
