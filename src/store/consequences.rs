//! Applies the consequences that a change of messages has for derived data, and collects those for other parts of the engine.

use super::{
    effects::{BufferChange, Effects, IndexNeed, UnindexedChange},
    generations::Generations,
    schema::*,
    tables::{Tables, WriteTable, WriteTransaction},
    vectors::Vectors,
};
use crate::{
    error::Result,
    ids::{GenerationId, Namespace, NamespaceId},
    message::Message,
};

/// Applies the consequences of a change to derived data, and collects its effects. Pending entries are written at once;
/// [`Consequences::finish`] erases the vectors of all messages together.
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
                Some(revision) => pending.insert(key, revision)?,
                None => pending.remove(key)?,
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
