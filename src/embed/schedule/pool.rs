//! The texts that wait: whose turn it is, and which go together.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
    sync::{Arc, atomic::Ordering},
};

use super::call::{Call, Part, chunk};

/// Tokens that may wait. Texts that are not tokenised yet stay so, when there are so many: that is what bounds the pool. Enough
/// that runs of equal lengths are found: of LoCoMo's messages, 37 tokens each, some 900.
const POOL_TOKENS: usize = 1 << 15;

/// Pairs of tokens that rows longer than a run may attend to at once. Attention holds a number for each pair and head: with a BERT's 12
/// heads, 400 MB, and some of them more than once. Eight rows of 1,024 tokens, or two of 2,048, run at once; one of more runs alone.
const PAIRS: usize = 1 << 23;

/// How texts go together.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Limits {
    /// Tokens of a run, padding included.
    pub(in super::super) tokens: usize,
    pub(in super::super) rows: usize,
    /// Texts of different lengths may share a run.
    pub(in super::super) padded: bool,
}

/// Of each call another; the lowest is next.
pub(super) type Turn = u64;

/// Nothing here looks at all calls for each of them: there may be very many of one text each.
pub(super) struct Pool {
    limits: Limits,
    entries: BTreeMap<Turn, Entry>,
    /// Entries with texts that nobody has begun to tokenise.
    unread: BTreeSet<Turn>,
    /// Entries with parts that wait.
    waiting: BTreeSet<Turn>,
    last: Turn,
    /// That wait, of all calls.
    tokens: usize,
    /// Of the long rows that run.
    pairs: usize,
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

/// What is next, and whose turn it is.
enum Next {
    Read(Turn),
    /// Of rows of so many tokens at most.
    Run(Turn, usize),
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

pub(super) struct Run {
    pub(super) parts: Vec<(Arc<Call>, Part)>,
    /// To be given back when it is over.
    pub(super) pairs: usize,
}

/// What a part counts for; one without tokens is one too.
fn weight(part: &Part) -> usize {
    part.tokens.len().max(1)
}

impl Pool {
    pub(super) fn new(limits: Limits) -> Self {
        let (unread, waiting) = (BTreeSet::new(), BTreeSet::new());
        Pool { limits, entries: BTreeMap::new(), unread, waiting, last: 0, tokens: 0, pairs: 0, is_closed: false }
    }

    /// Nothing more is to be done. Returns the calls that nothing will come of.
    pub(super) fn close(&mut self) -> Vec<Arc<Call>> {
        self.is_closed = true;
        self.unread.clear();
        self.waiting.clear();
        std::mem::take(&mut self.entries).into_values().map(|entry| entry.call).collect()
    }

    pub(super) fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Whether as much waits as may.
    pub(super) fn is_full(&self) -> bool {
        self.tokens >= POOL_TOKENS
    }

    /// A new call, all of it tokenised, or nothing.
    pub(super) fn enter(&mut self, call: &Arc<Call>, parts: Vec<Part>) {
        let unread = if parts.is_empty() { 0..call.texts().len() } else { 0..0 };
        let mut entry = Entry { call: Arc::clone(call), unread, reading: 0, waiting: BTreeMap::new(), tokens: 0 };
        self.tokens += entry.put(parts);
        self.push(entry);
    }

    /// Takes out all that waits of a call that is over.
    pub(super) fn leave(&mut self, call: &Call) {
        if let Some(entry) = self.remove(call.turn.load(Ordering::Relaxed)) {
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
        self.next().is_some()
    }

    /// Is that a run?
    pub(super) fn has_run(&self) -> bool {
        matches!(self.next(), Some(Next::Run(..)))
    }

    /// What a worker does next. The next turn of the call whose row is run comes after all others'.
    pub(super) fn take(&mut self) -> Option<Task> {
        match self.next()? {
            Next::Read(turn) => {
                let reading = self.entries.get_mut(&turn)?.begin_reading();
                self.settle(turn);
                Some(Task::Read(reading))
            }
            Next::Run(turn, longest) => {
                let run = self.run_of(turn, longest);
                if let Some(entry) = self.remove(turn) {
                    self.push(entry);
                }
                Some(Task::Run(run))
            }
        }
    }

    /// A run is over.
    pub(super) fn give_back(&mut self, pairs: usize) {
        self.pairs -= pairs;
    }

    /// Texts that a call may tokenise itself.
    pub(super) fn take_reading(&mut self, call: &Call) -> Option<Reading> {
        let turn = call.turn.load(Ordering::Relaxed);
        if !self.has_room(self.entries.get(&turn)?) {
            return None;
        }
        let reading = self.entries.get_mut(&turn)?.begin_reading();
        self.settle(turn);
        Some(reading)
    }

    /// Texts that were tokenised, unless the call is over.
    pub(super) fn put(&mut self, reading: &Reading, parts: Vec<Part>) {
        let turn = reading.call.turn.load(Ordering::Relaxed);
        let Some(entry) = self.entries.get_mut(&turn) else { return };
        entry.reading -= reading.texts.len();
        self.tokens += entry.put(parts);
        self.settle(turn);
    }

    /// Gives an entry the last turn.
    fn push(&mut self, entry: Entry) {
        self.last += 1;
        entry.call.turn.store(self.last, Ordering::Relaxed);
        self.entries.insert(self.last, entry);
        self.settle(self.last);
    }

    fn remove(&mut self, turn: Turn) -> Option<Entry> {
        self.unread.remove(&turn);
        self.waiting.remove(&turn);
        self.entries.remove(&turn)
    }

    /// Sees to it that an entry that has changed is found by what it has, or is no more.
    fn settle(&mut self, turn: Turn) {
        let Some(entry) = self.entries.get(&turn) else { return };
        for (set, is_empty) in
            [(&mut self.unread, entry.unread.is_empty()), (&mut self.waiting, entry.waiting.is_empty())]
        {
            if is_empty {
                set.remove(&turn)
            } else {
                set.insert(turn)
            };
        }
        if entry.is_over() {
            self.entries.remove(&turn);
        }
    }

    fn next(&self) -> Option<Next> {
        let readable = || self.unread.iter().copied().find(|turn| self.has_room(&self.entries[turn])).map(Next::Read);
        let Some((turn, longest)) = self.runnable() else { return readable() };
        let run = Some(Next::Run(turn, longest));
        // It waits for its turn with nothing to run, however much others have.
        let starving = || self.unread.range(..turn).copied().find(|turn| self.entries[turn].is_idle()).map(Next::Read);
        if self.is_ripe(turn) { starving().or(run) } else { readable().or(run) }
    }

    /// The first that has a row which may be run now, and the most tokens of such a row. While a long row waits for others to end, no
    /// other long one is begun.
    fn runnable(&self) -> Option<(Turn, usize)> {
        let mut longest = self.longest();
        for &turn in &self.waiting {
            let shortest = *self.entries[&turn].waiting.first_key_value().expect("it waits").0;
            if shortest <= longest {
                return Some((turn, longest));
            }
            longest = longest.min(self.limits.tokens);
        }
        None
    }

    /// The most tokens of a row that may be run now.
    fn longest(&self) -> usize {
        match self.pairs {
            // What may be padded has no attention.
            _ if self.limits.padded => usize::MAX,
            0 => usize::MAX,
            pairs => (PAIRS - pairs).isqrt().max(self.limits.tokens),
        }
    }

    /// Whether more of its texts may be tokenised. Each call has an equal share of the pool, and one with nothing in it may always.
    fn has_room(&self, entry: &Entry) -> bool {
        let has_share = || self.tokens < POOL_TOKENS && entry.tokens < POOL_TOKENS / self.entries.len();
        !entry.unread.is_empty() && (entry.is_idle() || has_share())
    }

    /// Whether it is not worth while to tokenise more first.
    fn is_ripe(&self, turn: Turn) -> bool {
        let entry = &self.entries[&turn];
        self.tokens >= POOL_TOKENS / 2 || entry.unread.is_empty() && entry.reading == 0
    }

    /// Takes out a run: the most of one length that this call has, or its longest if lengths may be mixed, and what else fits of all.
    fn run_of(&mut self, turn: Turn, longest: usize) -> Run {
        let Limits { tokens, rows, padded } = self.limits;
        let waiting = self.entries[&turn].waiting.range(..=longest);
        let most =
            |(length, parts): &(&usize, &Vec<Part>)| if padded { **length } else { (*length).max(&1) * parts.len() };
        let length = *waiting.max_by_key(most).expect("it is runnable").0;
        let lengths = if padded { 0..=length } else { length..=length };
        let mut room = rows.min(tokens / length.max(1)).max(1);
        let is_long = length > tokens && !padded;
        let pairs = if is_long { length.saturating_mul(length).min(PAIRS) } else { 0 };
        self.pairs += pairs;
        let (mut parts, mut changed) = (Vec::new(), Vec::new());
        let others = self.waiting.iter().copied().filter(|&other| other != turn);
        for turn in std::iter::once(turn).chain(others) {
            let entry = self.entries.get_mut(&turn).expect("it waits");
            let before = parts.len();
            for (_, waiting) in entry.waiting.range_mut(lengths.clone()).rev() {
                let taken = waiting.split_off(waiting.len().saturating_sub(room));
                room -= taken.len();
                let weight: usize = taken.iter().map(weight).sum();
                entry.tokens -= weight;
                self.tokens -= weight;
                parts.extend(taken.into_iter().map(|part| (Arc::clone(&entry.call), part)));
                if room == 0 {
                    break;
                }
            }
            if parts.len() > before {
                entry.waiting.retain(|_, parts| !parts.is_empty());
                changed.push(turn);
            }
            if room == 0 {
                break;
            }
        }
        changed.into_iter().for_each(|turn| self.settle(turn));
        Run { parts, pairs }
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

    /// Whether nothing of it waits to be run, and nobody is at it.
    fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.reading == 0
    }

    /// Whether nothing more comes of it.
    fn is_over(&self) -> bool {
        self.unread.is_empty() && self.reading == 0 && self.waiting.is_empty()
    }
}
