//! The consequences of changes of messages: pending entries, erased vectors, changed buffers.

use super::{
    generations::Generations,
    schema::*,
    tables::{Tables, storage},
    vectors::{Removed, Vectors},
    write_tables::{WriteTable, WriteTransaction},
};
use crate::{
    error::Result,
    ids::{GenerationId, Namespace, NamespaceId},
    message::{Message, Timestamp},
};

/// The consequences of a change that its caller must act upon, beside its result.
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
    /// The earliest time at which a document that was put expires.
    pub(crate) next_expiry: Option<Timestamp>,
    /// The sessions in which another machine flushed a batch.
    pub(crate) flushed: Vec<HistoryChange>,
    /// The namespaces whose text is analysed in another language from now on.
    pub(crate) languages: Vec<NamespaceId>,
    /// The texts that were embedded and that others replaced. Nothing leads to what they caused any more.
    pub(crate) replaced: Vec<String>,
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

/// Applies the consequences of a change to derived data, and collects those that the caller must act upon. Pending
/// entries are written at once; [`Consequences::finish`] erases the vectors of all messages together.
pub(super) struct Consequences<'t> {
    tables: &'t WriteTransaction,
    /// Opened when the first message enters or leaves long-term memory: changes of buffers alone do not need them.
    live: Option<Live<'t>>,
    /// The messages whose vectors are to be erased.
    outdated: Vec<(NamespaceId, u64)>,
    effects: Effects,
}

/// The generations that take writes, and the open table of pending messages.
struct Live<'t> {
    generations: Vec<GenerationId>,
    pending: WriteTable<'t, (u32, u32, u64), u64>,
}

impl<'t> Consequences<'t> {
    pub(super) fn new(tables: &'t WriteTransaction) -> Self {
        Consequences { tables, live: None, outdated: Vec::new(), effects: Effects::default() }
    }

    /// Makes a message pending at this revision in all live generations, or with `None` no longer pending.
    pub(super) fn set_pending(&mut self, namespace: NamespaceId, seq: u64, revision: Option<u64>) -> Result<()> {
        let Live { generations, pending } = self.live()?;
        for generation in generations {
            let key = (generation.0, namespace.0, seq);
            match revision {
                Some(revision) => pending.insert(key, revision).map_err(storage)?,
                None => pending.remove(key).map_err(storage)?,
            };
        }
        self.effects.pending += u64::from(revision.is_some());
        Ok(())
    }

    /// Marks a message whose vectors [`Consequences::finish`] erases.
    pub(super) fn outdate(&mut self, namespace: NamespaceId, seq: u64) {
        self.outdated.push((namespace, seq));
    }

    /// Records a change of a message.
    pub(super) fn message_changed(&mut self, namespace: NamespaceId, seq: u64, need: IndexNeed) {
        self.effects.unindexed.push(UnindexedChange { namespace, seq, need });
    }

    /// Records that a message entered its session's buffer or changed in it, or with `None` that it left.
    pub(super) fn buffer_changed(&mut self, namespace: &Namespace, session: &str, seq: u64, message: Option<Message>) {
        let (namespace, session) = (namespace.clone(), session.to_owned());
        self.effects.buffers.push(BufferChange { namespace, session, seq, message });
    }

    /// Records that a session's messages in long-term memory, or its window, changed.
    pub(super) fn history_changed(&mut self, namespace: &Namespace, session: &str) {
        // A bulk of messages changes mostly one session.
        let last = self.effects.histories.last();
        if last.is_none_or(|(last, name)| last != namespace || name != session) {
            self.effects.histories.push((namespace.clone(), session.to_owned()));
        }
    }

    /// Erases the outdated vectors.
    pub(super) fn finish(mut self) -> Result<Effects> {
        if !self.outdated.is_empty() {
            for generation in self.live()?.generations.clone() {
                self.effects.removed.extend(Vectors(self.tables).erase(generation, &self.outdated)?);
            }
        }
        Ok(self.effects)
    }

    fn live(&mut self) -> Result<&mut Live<'t>> {
        if self.live.is_none() {
            let (generations, pending) = (Generations(self.tables).live()?, self.tables.table(PENDING)?);
            self.live = Some(Live { generations, pending });
        }
        Ok(self.live.as_mut().expect("set above"))
    }
}
