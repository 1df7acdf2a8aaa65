//! The messages of a namespace that are stored and not indexed: pending ones, and those in short-term buffers.
//!
//! A recall finds them by their words until they are embedded. The first recall after a put reads and analyzes what
//! is new; postings in memory serve it and the following ones. A query as of a time finds messages that changed since by
//! their words of then in the same way.

use std::{collections::BTreeMap, ops::Deref, time::Instant};

use mnemon_index::is_past;
use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::{
    error::Result,
    ids::NamespaceId,
    lexical::{Analyzer, Language, OpenSegment, SpeakerAndQuestion},
    message::{IndexedText, Message, Role, Timestamp},
    store::{IndexNeed, Snapshot, Store, UnindexedChange},
};

/// The unindexed messages of a loaded namespace.
#[derive(Default)]
pub(crate) struct Unindexed(RwLock<State>);

#[derive(Clone, Default)]
struct State {
    /// The sequence numbers of messages that no recall has read yet, each with the number of the change that made it
    /// so.
    unread: BTreeMap<u64, u64>,
    /// The number of changes.
    changes: u64,
    /// The messages that were read and have text. Those that were removed since are `None`.
    messages: Vec<Option<UnindexedMessage>>,
    /// Their terms, in the same order.
    terms: OpenSegment,
    /// The language that they were analyzed in.
    language: Option<Language>,
    /// Their positions in `messages`, by sequence number.
    positions: BTreeMap<u64, u32>,
}

/// A message that a recall finds by its words.
#[derive(Clone)]
pub(super) struct UnindexedMessage {
    pub(super) seq: u64,
    pub(super) session: u32,
    pub(super) role: Role,
    pub(super) created_at: Option<Timestamp>,
    pub(super) speech: SpeakerAndQuestion,
    /// It is what the message was at the time that the query asks for.
    pub(super) is_version: bool,
}

/// A message with its terms.
pub(super) type AnalyzedMessage = (UnindexedMessage, Vec<u64>);

/// The unindexed messages with text at some time. None is added or removed while this value exists.
pub(crate) struct UnindexedMessages<'a> {
    state: ReadState<'a>,
    /// The deadline passed before all were read.
    pub(super) is_late: bool,
}

enum ReadState<'a> {
    Shared(RwLockReadGuard<'a, State>),
    /// That of one query.
    Own(Box<State>),
}

impl Deref for ReadState<'_> {
    type Target = State;

    fn deref(&self) -> &State {
        match self {
            ReadState::Shared(state) => state,
            ReadState::Own(state) => state,
        }
    }
}

impl Unindexed {
    pub(crate) fn new(messages: Vec<u64>) -> Self {
        let unread = messages.into_iter().map(|seq| (seq, 0)).collect();
        Unindexed(RwLock::new(State { unread, ..State::default() }))
    }

    /// Applies a commit.
    pub(crate) fn apply(&self, changes: &[UnindexedChange]) {
        let mut state = self.0.write();
        state.changes += 1;
        for change in changes.iter().filter(|change| change.need != IndexNeed::Unchanged) {
            state.remove(change.seq);
            if change.need == IndexNeed::Waiting {
                let number = state.changes;
                state.unread.insert(change.seq, number);
            }
        }
    }

    /// Removes messages that were indexed.
    pub(crate) fn remove(&self, messages: impl Iterator<Item = u64>) {
        let mut state = self.0.write();
        messages.for_each(|seq| state.remove(seq));
    }

    pub(crate) fn is_empty(&self) -> bool {
        let state = self.0.read();
        state.unread.is_empty() && state.positions.is_empty()
    }

    /// Returns the bytes of memory that they take, approximately.
    pub(crate) fn memory_bytes(&self) -> usize {
        let state = self.0.read();
        let maps = state.unread.len() * 32 + state.positions.len() * 24;
        maps + state.messages.capacity() * size_of::<Option<UnindexedMessage>>() + state.terms.memory_bytes()
    }

    /// Returns the messages with text, as many as can be read before the deadline.
    pub(crate) fn messages(
        &self,
        namespace: NamespaceId,
        language: Language,
        deadline: Option<Instant>,
        store: &Store,
    ) -> Result<UnindexedMessages<'_>> {
        let state = self.0.read();
        if state.unread.is_empty() && state.is_in(language) {
            return Ok(UnindexedMessages { state: ReadState::Shared(state), is_late: false });
        }
        drop(state);
        loop {
            let unread = self.0.write().unread(language);
            let snapshot = store.read()?;
            let (mut found, mut is_late) = (Vec::new(), false);
            for (seq, change) in unread {
                is_late = is_past(deadline);
                if is_late {
                    break;
                }
                found.push((seq, change, read(&snapshot, namespace, seq, language)?));
            }
            let mut state = self.0.write();
            // Otherwise a recall that began before the language changed asked for the old one meanwhile.
            if state.is_in(language) {
                found.into_iter().for_each(|(seq, change, message)| state.add(seq, change, message));
                let state = ReadState::Shared(RwLockWriteGuard::downgrade(state));
                return Ok(UnindexedMessages { state, is_late });
            }
        }
    }
}

impl State {
    fn is_in(&self, language: Language) -> bool {
        self.messages.is_empty() || self.language == Some(language)
    }

    /// Returns the messages to read, with the numbers of their changes: all, if they were analyzed in another language.
    fn unread(&mut self, language: Language) -> Vec<(u64, u64)> {
        if !self.is_in(language) {
            let (changes, positions) = (self.changes, std::mem::take(&mut self.positions));
            self.unread.extend(positions.into_keys().map(|seq| (seq, changes)));
            (self.messages, self.terms) = Default::default();
        }
        self.language = Some(language);
        self.unread.iter().map(|(&seq, &change)| (seq, change)).collect()
    }

    /// Adds a message that was read, unless it changed meanwhile or another recall added it.
    fn add(&mut self, seq: u64, change: u64, message: Option<AnalyzedMessage>) {
        if self.unread.get(&seq) != Some(&change) {
            return;
        }
        self.unread.remove(&seq);
        message.into_iter().for_each(|message| self.push(message));
    }

    fn push(&mut self, (message, terms): AnalyzedMessage) {
        self.positions.insert(message.seq, self.terms.push(terms));
        self.messages.push(Some(message));
    }

    fn remove(&mut self, seq: u64) {
        self.unread.remove(&seq);
        let Some(position) = self.positions.remove(&seq) else { return };
        self.messages[position as usize] = None;
        self.terms.remove(position);
        if self.terms.is_sparse() {
            self.terms.compact();
            self.messages.retain(Option::is_some);
            self.positions = self.messages.iter().flatten().map(|message| message.seq).zip(0..).collect();
        }
    }
}

/// Reads a message and its terms: `None` if it has no text, or was deleted by a commit that is not published yet.
fn read(snapshot: &Snapshot, namespace: NamespaceId, seq: u64, language: Language) -> Result<Option<AnalyzedMessage>> {
    match snapshot.messages().get(namespace, seq)? {
        Some(message) => analyze(snapshot, namespace, seq, &message, language),
        None => Ok(None),
    }
}

/// Reads what the messages of a namespace were at a time, of those that have changed since, with their terms.
pub(super) fn read_as_of(snapshot: &Snapshot, namespace: NamespaceId, time: Timestamp) -> Result<Vec<AnalyzedMessage>> {
    // That of the index, but for a recall that begins while it changes.
    let language = snapshot.namespaces().language(namespace)?.language;
    let mut read = Vec::new();
    for (seq, message) in snapshot.messages().as_of(namespace, time)? {
        let analyzed = analyze(snapshot, namespace, seq, &message, language)?;
        read.extend(analyzed.map(|(message, terms)| (UnindexedMessage { is_version: true, ..message }, terms)));
    }
    Ok(read)
}

fn analyze(
    snapshot: &Snapshot,
    namespace: NamespaceId,
    seq: u64,
    message: &Message,
    language: Language,
) -> Result<Option<AnalyzedMessage>> {
    let Some(session) = snapshot.sessions().number(namespace, &message.session)? else { return Ok(None) };
    let text = IndexedText::of(message);
    if text.trim().is_empty() {
        return Ok(None);
    }
    let mut terms = Vec::new();
    let analyzer = Analyzer::of(language);
    analyzer.terms(&text, &mut terms);
    let (role, created_at, speech) =
        (message.role, message.created_at, SpeakerAndQuestion::of(analyzer, text.name(), &text));
    Ok(Some((UnindexedMessage { seq, session, role, created_at, speech, is_version: false }, terms)))
}

impl UnindexedMessages<'_> {
    /// Replaces messages by what they were at the time that a query asks for, of those for which `may_be_hit` is true. They
    /// may be messages that are indexed. Cost: a copy of the unindexed messages, if there is anything to replace.
    pub(super) fn with(mut self, versions: &[AnalyzedMessage], may_be_hit: impl Fn(&UnindexedMessage) -> bool) -> Self {
        if !versions.is_empty() {
            let mut state = State::clone(&self.state);
            versions.iter().for_each(|(message, _)| state.remove(message.seq));
            versions.iter().filter(|(message, _)| may_be_hit(message)).for_each(|version| state.push(version.clone()));
            self.state = ReadState::Own(Box::new(state));
        }
        self
    }

    /// The terms of the messages: a document for each.
    pub(super) fn terms(&self) -> &OpenSegment {
        &self.state.terms
    }

    /// Returns the number of messages.
    pub(super) fn len(&self) -> usize {
        self.state.positions.len()
    }

    /// Returns the message with a document.
    pub(super) fn message(&self, document: u32) -> &UnindexedMessage {
        self.state.messages[document as usize].as_ref().expect("removed documents have no postings")
    }

    /// Returns the document of a message.
    pub(super) fn document(&self, seq: u64) -> Option<u32> {
        self.state.positions.get(&seq).copied()
    }

    /// Returns the documents of all messages, the newest first.
    pub(super) fn newest(&self) -> impl Iterator<Item = u32> {
        self.state.positions.values().rev().copied()
    }

    pub(super) fn contains(&self, seq: u64) -> bool {
        self.state.positions.contains_key(&seq)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &UnindexedMessage> {
        self.state.messages.iter().flatten()
    }
}
