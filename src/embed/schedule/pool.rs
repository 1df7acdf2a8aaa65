//! The texts that wait: whose turn it is, and which go together.

use std::{
    collections::{BTreeMap, VecDeque},
    ops::Range,
    sync::Arc,
};

use super::call::{Call, Part, chunk};

/// Tokens that may wait. Texts that are not tokenised yet stay so, when there are so many: that is what bounds the pool. Enough
/// that runs of equal lengths are found: of LoCoMo's messages, 37 tokens each, some 900.
const POOL_TOKENS: usize = 1 << 15;

/// How texts go together.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Limits {
    /// Tokens of a run, padding included.
    pub(in super::super) tokens: usize,
    pub(in super::super) rows: usize,
    /// Texts of different lengths may share a run.
    pub(in super::super) padded: bool,
}

pub(super) struct Pool {
    limits: Limits,
    /// Whose turn it is comes first.
    entries: VecDeque<Entry>,
    /// That wait, of all calls.
    tokens: usize,
    is_closed: bool,
}

/// A call that is not over.
struct Entry {
    call: Arc<Call>,
    /// Its texts that nobody has begun to tokenise.
    unread: Range<usize>,
    /// Those that somebody is at.
    reading: usize,
    /// By their number of tokens.
    waiting: BTreeMap<usize, Vec<Part>>,
    /// That wait.
    tokens: usize,
}

pub(super) enum Task {
    /// Texts to be tokenised.
    Read(Reading),
    /// Parts to be run together.
    Run(Run),
}

/// Texts of a call.
pub(super) struct Reading {
    pub(super) call: Arc<Call>,
    pub(super) texts: Range<usize>,
}

pub(super) type Run = Vec<(Arc<Call>, Part)>;

/// What a part counts for; one without tokens is one too.
fn weight(part: &Part) -> usize {
    part.tokens.len().max(1)
}

impl Pool {
    pub(super) fn new(limits: Limits) -> Self {
        Pool { limits, entries: VecDeque::new(), tokens: 0, is_closed: false }
    }

    pub(super) fn close(&mut self) {
        self.is_closed = true;
        self.entries.clear();
    }

    pub(super) fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// A new call, all of it tokenised, or nothing.
    pub(super) fn enter(&mut self, call: &Arc<Call>, parts: Vec<Part>) {
        let unread = if parts.is_empty() { 0..call.texts().len() } else { 0..0 };
        let mut entry = Entry { call: Arc::clone(call), unread, reading: 0, waiting: BTreeMap::new(), tokens: 0 };
        self.tokens += entry.put(parts);
        self.entries.push_back(entry);
        self.entries.retain(|entry| !entry.is_over());
    }

    /// Takes out all that waits of a call that is over.
    pub(super) fn leave(&mut self, call: &Arc<Call>) {
        if let Some(at) = self.place(call) {
            let entry = self.entries.remove(at).expect("found");
            self.tokens -= entry.tokens;
        }
    }

    /// Tokens that wait.
    #[cfg(test)]
    pub(super) fn tokens(&self) -> usize {
        self.tokens
    }

    /// Has somebody to do something?
    pub(super) fn has_work(&self) -> bool {
        self.readable().is_some() || self.runnable().is_some()
    }

    /// What a worker does next. Its call's next turn comes after all others'.
    pub(super) fn take(&mut self) -> Option<Task> {
        let (at, task) = match (self.runnable(), self.readable()) {
            (Some(at), readable) if readable.is_none() || self.is_ripe(at) => (at, Task::Run(self.run_of(at))),
            (_, Some(at)) => (at, Task::Read(self.entries[at].begin_reading())),
            (Some(_), None) | (None, None) => return None,
        };
        let entry = self.entries.remove(at).expect("found");
        self.entries.push_back(entry);
        self.entries.retain(|entry| !entry.is_over());
        Some(task)
    }

    /// Texts that a call may tokenise itself.
    pub(super) fn take_reading(&mut self, call: &Arc<Call>) -> Option<Reading> {
        let at = self.place(call).filter(|&at| self.has_room(&self.entries[at]))?;
        Some(self.entries[at].begin_reading())
    }

    /// Texts that were tokenised, unless the call is over.
    pub(super) fn put(&mut self, reading: &Reading, parts: Vec<Part>) {
        let Some(at) = self.place(&reading.call) else { return };
        let entry = &mut self.entries[at];
        entry.reading -= reading.texts.len();
        self.tokens += entry.put(parts);
    }

    fn place(&self, call: &Arc<Call>) -> Option<usize> {
        self.entries.iter().position(|entry| Arc::ptr_eq(&entry.call, call))
    }

    fn readable(&self) -> Option<usize> {
        self.entries.iter().position(|entry| self.has_room(entry))
    }

    fn runnable(&self) -> Option<usize> {
        self.entries.iter().position(|entry| !entry.waiting.is_empty())
    }

    /// Whether more of its texts may be tokenised. Each call has an equal share of the pool, and one with nothing in it may always.
    fn has_room(&self, entry: &Entry) -> bool {
        let has_share = || self.tokens < POOL_TOKENS && entry.tokens < POOL_TOKENS / self.entries.len();
        !entry.unread.is_empty() && (entry.tokens == 0 && entry.reading == 0 || has_share())
    }

    /// Whether it is not worth while to tokenise more first.
    fn is_ripe(&self, at: usize) -> bool {
        let entry = &self.entries[at];
        self.tokens >= POOL_TOKENS / 2 || entry.unread.is_empty() && entry.reading == 0
    }

    /// Takes out a run: the most of one length that this call has, or its longest if lengths may be mixed, and what else fits of all.
    fn run_of(&mut self, at: usize) -> Run {
        let Limits { tokens, rows, padded } = self.limits;
        let waiting = self.entries[at].waiting.iter();
        let most =
            |(length, parts): &(&usize, &Vec<Part>)| if padded { **length } else { (*length).max(&1) * parts.len() };
        let length = *waiting.max_by_key(most).expect("it is runnable").0;
        let lengths = if padded { 0..=length } else { length..=length };
        let mut room = rows.min(tokens / length.max(1)).max(1);
        let mut run = Vec::new();
        let others = (0..self.entries.len()).filter(|&other| other != at);
        for at in std::iter::once(at).chain(others) {
            let entry = &mut self.entries[at];
            for (_, parts) in entry.waiting.range_mut(lengths.clone()).rev() {
                let taken = parts.split_off(parts.len().saturating_sub(room));
                room -= taken.len();
                let weight: usize = taken.iter().map(weight).sum();
                entry.tokens -= weight;
                self.tokens -= weight;
                run.extend(taken.into_iter().map(|part| (Arc::clone(&entry.call), part)));
                if room == 0 {
                    break;
                }
            }
            entry.waiting.retain(|_, parts| !parts.is_empty());
            if room == 0 {
                break;
            }
        }
        run
    }
}

impl Entry {
    /// Returns how much more waits.
    fn put(&mut self, parts: Vec<Part>) -> usize {
        let more = parts.iter().map(weight).sum();
        self.tokens += more;
        for part in parts {
            self.waiting.entry(part.tokens.len()).or_default().push(part);
        }
        more
    }

    fn begin_reading(&mut self) -> Reading {
        let texts = chunk(self.call.texts(), &self.unread);
        self.unread.start = texts.end;
        self.reading += texts.len();
        Reading { call: Arc::clone(&self.call), texts }
    }

    /// Whether nothing more comes of it.
    fn is_over(&self) -> bool {
        self.unread.is_empty() && self.reading == 0 && self.waiting.is_empty()
    }
}
