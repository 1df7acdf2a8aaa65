//! The effects of a transaction outside of its tables: what the engine publishes to indexes, sessions and caches once the
//! transaction is committed.

use crate::{
    ids::{GenerationId, Namespace, NamespaceId},
    message::{Message, Timestamp},
};

/// The effects of a transaction, collected while it is made. Its owner takes and publishes them after the commit.
#[derive(Debug, Default)]
pub(crate) struct Effects {
    /// Number of messages that became pending.
    pub(crate) pending: u64,
    /// The rows that died, in all live generations.
    pub(crate) removed: Vec<Removed>,
    /// The changes of short-term buffers, in order.
    pub(crate) buffers: Vec<BufferChange>,
    /// The sessions whose messages in long-term memory, or whose windows, changed. May name a session several times.
    pub(crate) histories: Vec<HistoryChange>,
    /// The changes of messages, in order.
    pub(crate) unindexed: Vec<UnindexedChange>,
    /// The earliest time at which a message or document that was put expires.
    pub(crate) next_expiry: Option<Timestamp>,
    /// The sessions in which another machine flushed a batch.
    pub(crate) flushed: Vec<HistoryChange>,
    /// The namespaces whose text is analysed in another language from now on.
    pub(crate) languages: Vec<NamespaceId>,
    /// The texts that were embedded and that others replaced. Nothing leads to what they caused any more.
    pub(crate) replaced: Vec<String>,
}

/// Rows that died and must be removed from the loaded index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Removed {
    pub(crate) generation: GenerationId,
    pub(crate) namespace: NamespaceId,
    pub(crate) rows: Vec<u32>,
}

/// A session whose messages in long-term memory, or whose window, changed.
pub(crate) type HistoryChange = (Namespace, String);

/// A message that was put, changed or deleted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UnindexedChange {
    pub(crate) namespace: NamespaceId,
    pub(crate) seq: u64,
    pub(crate) need: IndexNeed,
}

/// The state of a changed message in an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IndexNeed {
    /// It is to be indexed: it waits to be embedded, or is in a short-term buffer.
    Waiting,
    /// It was deleted, or has no text.
    Gone,
    /// The index entry stays: only the metadata of the message changed, or the value of the document whose text it is.
    Unchanged,
}

impl Effects {
    /// Adds the consequences of a later change in the same transaction.
    pub(crate) fn append(&mut self, later: Effects) {
        self.pending += later.pending;
        self.removed.extend(later.removed);
        self.buffers.extend(later.buffers);
        self.histories.extend(later.histories);
        self.unindexed.extend(later.unindexed);
        self.flushed.extend(later.flushed);
        self.languages.extend(later.languages);
        self.replaced.extend(later.replaced);
        self.next_expiry = self.next_expiry.into_iter().chain(later.next_expiry).min();
    }
}

/// A message that entered a short-term buffer, changed in it, or left it.
#[derive(Debug)]
pub(crate) struct BufferChange {
    pub(crate) namespace: Namespace,
    pub(crate) session: String,
    pub(crate) seq: u64,
    /// The message as it is now; `None` if it left the buffer.
    pub(crate) message: Option<Message>,
}
