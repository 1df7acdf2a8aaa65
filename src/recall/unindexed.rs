//! The messages of a namespace that are stored and not indexed: pending ones, and those in short-term buffers.
//!
//! A recall finds them by their words, each of them compared with the query, until they are embedded.

use std::{
    collections::BTreeMap,
    sync::{Arc, OnceLock},
    time::Instant,
};

use parking_lot::Mutex;

use super::query::Filter;
use crate::{
    error::Result,
    ids::NamespaceId,
    index::is_past,
    lexical::{Analyzer, Language, TermCounts},
    message::{Role, Timestamp},
    store::{Snapshot, UnindexedChange},
};

/// The unindexed messages of a loaded namespace, by sequence number. A message is read and analyzed by the first recall
/// that meets it.
#[derive(Default)]
pub(crate) struct Unindexed(Mutex<State>);

#[derive(Default)]
struct State {
    slots: BTreeMap<u64, Arc<Slot>>,
    /// Counts the changes.
    version: u64,
    /// The messages with text, in the language that they were analyzed in, if all were read since the last change.
    read: Option<(Language, Arc<[Arc<UnindexedMessage>]>)>,
}

/// The message, once it was read; `None` if it has no text.
type Slot = OnceLock<Option<Arc<UnindexedMessage>>>;

/// A message that is compared with a query by its words.
pub(crate) struct UnindexedMessage {
    pub(super) seq: u64,
    pub(super) session: u32,
    pub(super) role: Role,
    pub(super) created_at: Option<Timestamp>,
    pub(super) terms: TermCounts,
    language: Language,
}

/// The unindexed messages with text at some time, oldest first.
#[derive(Default)]
pub(crate) struct UnindexedMessages {
    pub(super) messages: Arc<[Arc<UnindexedMessage>]>,
    /// The deadline passed before all were read.
    pub(super) is_late: bool,
}

impl Unindexed {
    pub(crate) fn new(messages: Vec<u64>) -> Self {
        let slots = messages.into_iter().map(|seq| (seq, Arc::default())).collect();
        Unindexed(Mutex::new(State { slots, ..State::default() }))
    }

    /// Applies a commit.
    pub(crate) fn apply(&self, changes: &[UnindexedChange]) {
        let mut state = self.0.lock();
        state.changed();
        for change in changes {
            match change.is_waiting {
                true => state.slots.insert(change.seq, Arc::default()),
                false => state.slots.remove(&change.seq),
            };
        }
    }

    /// Removes messages that were indexed.
    pub(crate) fn remove(&self, messages: impl Iterator<Item = u64>) {
        let mut state = self.0.lock();
        state.changed();
        messages.for_each(|seq| drop(state.slots.remove(&seq)));
    }

    /// Returns the messages with text, as many as can be read before the deadline. `snapshot` gives the store as it is
    /// now.
    pub(crate) fn messages(
        &self,
        namespace: NamespaceId,
        language: Language,
        deadline: Option<Instant>,
        snapshot: impl FnOnce() -> Result<Snapshot>,
    ) -> Result<UnindexedMessages> {
        let (version, all): (u64, Vec<(u64, Arc<Slot>)>) = {
            let state = self.0.lock();
            if let Some((_, messages)) = state.read.as_ref().filter(|(analyzed_in, _)| *analyzed_in == language) {
                return Ok(UnindexedMessages { messages: Arc::clone(messages), is_late: false });
            }
            (state.version, state.slots.iter().map(|(&seq, slot)| (seq, Arc::clone(slot))).collect())
        };
        let known =
            |slot: &Slot| slot.get().cloned().filter(|found| found.as_ref().is_none_or(|m| m.language == language));
        let mut snapshot = Some(snapshot);
        let mut opened = None;
        let mut found = Vec::with_capacity(all.len());
        for (seq, slot) in all {
            if let Some(message) = known(&slot) {
                found.extend(message);
                continue;
            }
            if is_past(deadline) {
                return Ok(UnindexedMessages { messages: found.into(), is_late: true });
            }
            if let Some(snapshot) = snapshot.take() {
                opened = Some(snapshot()?);
            }
            let snapshot = opened.as_ref().expect("opened above");
            // A message that is missing was deleted by a commit that is not published yet.
            let Some(message) = UnindexedMessage::read(snapshot, namespace, seq, language)? else { continue };
            let message = message.map(Arc::new);
            // In the language that the namespace had before, it is analyzed by each recall, until it is indexed.
            let _ = slot.set(message.clone());
            found.extend(message);
        }
        let messages: Arc<[Arc<UnindexedMessage>]> = found.into();
        let mut state = self.0.lock();
        if state.version == version {
            state.read = Some((language, Arc::clone(&messages)));
        }
        Ok(UnindexedMessages { messages, is_late: false })
    }
}

impl State {
    fn changed(&mut self) {
        self.version += 1;
        self.read = None;
    }
}

impl UnindexedMessage {
    /// Reads a message: `None` if it does not exist, `Some(None)` if it has no text.
    fn read(snapshot: &Snapshot, namespace: NamespaceId, seq: u64, language: Language) -> Result<Option<Option<Self>>> {
        let Some(message) = snapshot.messages().get(namespace, seq)? else { return Ok(None) };
        let Some(session) = snapshot.sessions().number(namespace, &message.session)? else { return Ok(None) };
        let text = message.searchable();
        if text.trim().is_empty() {
            return Ok(Some(None));
        }
        let mut terms = Vec::new();
        Analyzer::of(language).terms(&text, &mut terms);
        let (role, created_at, terms) = (message.role, message.created_at, TermCounts::new(terms));
        Ok(Some(Some(UnindexedMessage { seq, session, role, created_at, terms, language })))
    }

    /// Returns true if a filter allows the message. `session` is the number of the filter's session.
    pub(super) fn is_allowed(&self, filter: &Filter, session: Option<u32>) -> bool {
        session.is_none_or(|session| session == self.session) && filter.allows(self.role, self.created_at)
    }
}
