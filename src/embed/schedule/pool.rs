//! Calls of an embedder, and the pool of their texts that wait: which call is next, and which texts form a batch.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use parking_lot::{Condvar, Mutex};

use crate::{
    embed::embedder::Passage,
    error::{Error, Result},
};

/// Maximum waiting tokens. When the pool is full, no further texts are tokenized, which bounds its memory. Large enough
/// to find batches of equal length: about 900 of LoCoMo's messages, which have 37 tokens on average.
const POOL_TOKENS: usize = 1 << 15;

/// Maximum pairs of tokens of all running long rows; a row is long if it exceeds a batch. Attention stores a number for
/// each pair and head: with a BERT's 12 heads, 400 MB, some of them several times. Eight rows of 1,024 tokens or two of
/// 2,048 run at once; a longer row runs alone.
const PAIRS: usize = 1 << 23;

/// The limits of a batch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Maximum tokens, padding included.
    pub(crate) tokens: usize,
    /// Maximum rows.
    pub(crate) rows: usize,
    /// Whether texts of different lengths may share a batch.
    pub(crate) padded: bool,
}

/// A part of a text that is embedded as one vector.
pub(crate) struct Chunk {
    /// The range of bytes in the text, on character boundaries.
    pub(crate) range: Range<usize>,
    /// The tokens of the part by itself, with the prefix and special tokens.
    pub(crate) tokens: Vec<u32>,
}

/// The method that embeds the texts of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallKind {
    /// One vector for each text.
    Documents,
    /// Texts of any length, with one vector for each chunk.
    Passages,
}

/// The texts of a call, and its result so far.
pub(super) struct Call {
    texts: Vec<String>,
    pub(super) kind: CallKind,
    /// The call's position in the pool. Only the pool reads and writes it.
    pub(super) position: AtomicU64,
    outcome: Mutex<Outcome>,
    /// Signalled when all vectors or an error have arrived.
    over: Condvar,
}

/// The result so far.
struct Outcome {
    /// Vectors are empty until they are computed.
    passages: Vec<Vec<Passage>>,
    /// Number of texts that are not tokenized, plus parts of the others without a vector.
    missing: usize,
    error: Option<Error>,
}

/// The tokens of one chunk of a text.
pub(super) struct Part {
    text: usize,
    number: usize,
    pub(super) tokens: Vec<u32>,
}

impl Call {
    pub(super) fn new(texts: &[&str], kind: CallKind) -> Self {
        let passages = texts.iter().map(|_| Vec::new()).collect();
        let outcome = Outcome { passages, missing: texts.len(), error: None };
        let texts = texts.iter().map(|&text| text.to_owned()).collect();
        Call { texts, kind, position: AtomicU64::new(0), outcome: Mutex::new(outcome), over: Condvar::new() }
    }

    pub(super) fn texts(&self) -> &[String] {
        &self.texts
    }

    /// Records the chunks of a text, and returns them as parts.
    pub(super) fn split(&self, text: usize, chunks: Vec<Chunk>) -> impl Iterator<Item = Part> {
        let vector = Vec::new;
        let passages = chunks.iter().map(|chunk| Passage { range: chunk.range.clone(), vector: vector() }).collect();
        let mut outcome = self.outcome.lock();
        outcome.missing += chunks.len();
        outcome.missing -= 1;
        outcome.passages[text] = passages;
        chunks.into_iter().enumerate().map(move |(number, chunk)| Part { text, number, tokens: chunk.tokens })
    }

    pub(super) fn deliver(&self, part: &Part, vector: Vec<f32>) {
        let mut outcome = self.outcome.lock();
        outcome.passages[part.text][part.number].vector = vector;
        outcome.missing -= 1;
        if outcome.missing == 0 {
            self.over.notify_all();
        }
    }

    /// Fails the call. The first error counts.
    pub(super) fn fail(&self, error: Error) {
        self.outcome.lock().error.get_or_insert(error);
        self.over.notify_all();
    }

    /// Blocks until the call is done and takes its result. May be called once.
    pub(super) fn wait(&self) -> Result<Vec<Vec<Passage>>> {
        let mut outcome = self.outcome.lock();
        while outcome.missing > 0 && outcome.error.is_none() {
            self.over.wait(&mut outcome);
        }
        match outcome.error.take() {
            Some(error) => Err(error),
            None => Ok(std::mem::take(&mut outcome.passages)),
        }
    }
}

/// The position of a call in the queue, unique. The lowest is next.
pub(super) type QueuePosition = u64;

/// The calls that are not done. No operation on one call iterates over all calls, because there may be very many calls
/// of one text.
pub(super) struct Pool {
    limits: Limits,
    entries: BTreeMap<QueuePosition, Entry>,
    /// Entries with texts that no thread has started to tokenize.
    untokenized: BTreeSet<QueuePosition>,
    /// Entries with parts that wait for a batch.
    waiting: BTreeSet<QueuePosition>,
    /// The highest position so far.
    last: QueuePosition,
    /// Waiting tokens of all calls.
    tokens: usize,
    /// Pairs of tokens of the long rows that run.
    pairs: usize,
    is_closed: bool,
}

/// A call that is not done.
struct Entry {
    call: Arc<Call>,
    /// Texts that no thread has started to tokenize.
    untokenized: Range<usize>,
    /// Number of texts that are being tokenized.
    tokenizing: usize,
    /// Waiting parts by their number of tokens.
    waiting: BTreeMap<usize, Vec<Part>>,
    /// Waiting tokens.
    tokens: usize,
}

/// The next task, and its call.
enum Next {
    Tokenize(QueuePosition),
    /// The maximum tokens of a row of the batch.
    Run(QueuePosition, usize),
}

/// A task for a worker.
pub(super) enum Task {
    /// Texts to tokenize.
    Tokenize(TokenizeTask),
    /// A batch to run.
    Run(Run),
}

/// Texts of a call to tokenize.
pub(super) struct TokenizeTask {
    pub(super) call: Arc<Call>,
    pub(super) texts: Range<usize>,
}

/// A batch of parts, possibly of several calls.
pub(super) struct Run {
    pub(super) parts: Vec<(Arc<Call>, Part)>,
    /// Pairs of tokens to release after the run.
    pub(super) pairs: usize,
}

/// Tokens that a part counts for, at least one.
fn weight(part: &Part) -> usize {
    part.tokens.len().max(1)
}

impl Pool {
    pub(super) fn new(limits: Limits) -> Self {
        let (untokenized, waiting) = (BTreeSet::new(), BTreeSet::new());
        Pool { limits, entries: BTreeMap::new(), untokenized, waiting, last: 0, tokens: 0, pairs: 0, is_closed: false }
    }

    /// Closes the pool. Returns the calls that will not be completed.
    pub(super) fn close(&mut self) -> Vec<Arc<Call>> {
        self.is_closed = true;
        self.untokenized.clear();
        self.waiting.clear();
        std::mem::take(&mut self.entries).into_values().map(|entry| entry.call).collect()
    }

    pub(super) fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Returns true if no further texts may be tokenized.
    pub(super) fn is_full(&self) -> bool {
        self.tokens >= POOL_TOKENS
    }

    /// Adds a call, with all of its parts, or with none if it is not tokenized.
    pub(super) fn enter(&mut self, call: &Arc<Call>, parts: Vec<Part>) {
        let untokenized = if parts.is_empty() { 0..call.texts().len() } else { 0..0 };
        let mut entry =
            Entry { call: Arc::clone(call), untokenized, tokenizing: 0, waiting: BTreeMap::new(), tokens: 0 };
        self.tokens += entry.put(parts);
        self.push(entry);
    }

    pub(super) fn leave(&mut self, call: &Call) {
        if let Some(entry) = self.remove(call.position.load(Ordering::Relaxed)) {
            self.tokens -= entry.tokens;
        }
    }

    /// Returns the number of waiting tokens.
    #[cfg(test)]
    pub(super) fn tokens(&self) -> usize {
        self.tokens
    }

    /// Returns true if any call has a task that no worker has taken.
    pub(super) fn has_work(&self) -> bool {
        self.next().is_some()
    }

    pub(super) fn has_run(&self) -> bool {
        matches!(self.next(), Some(Next::Run(..)))
    }

    /// Takes the next task. A call whose parts are run moves behind all other calls.
    pub(super) fn take(&mut self) -> Option<Task> {
        match self.next()? {
            Next::Tokenize(position) => {
                let task = self.entries.get_mut(&position)?.begin_tokenizing();
                self.update_sets(position);
                Some(Task::Tokenize(task))
            }
            Next::Run(position, longest) => {
                let run = self.run_of(position, longest);
                if let Some(entry) = self.remove(position) {
                    self.push(entry);
                }
                Some(Task::Run(run))
            }
        }
    }

    /// Releases the pairs of tokens of a finished run.
    pub(super) fn give_back(&mut self, pairs: usize) {
        self.pairs -= pairs;
    }

    /// Takes texts that the thread of this call tokenizes itself.
    pub(super) fn take_texts(&mut self, call: &Call) -> Option<TokenizeTask> {
        let position = call.position.load(Ordering::Relaxed);
        if !self.has_room(self.entries.get(&position)?) {
            return None;
        }
        let task = self.entries.get_mut(&position)?.begin_tokenizing();
        self.update_sets(position);
        Some(task)
    }

    /// Adds the parts of texts that were tokenized, unless the call was removed.
    pub(super) fn put(&mut self, task: &TokenizeTask, parts: Vec<Part>) {
        let position = task.call.position.load(Ordering::Relaxed);
        let Some(entry) = self.entries.get_mut(&position) else { return };
        entry.tokenizing -= task.texts.len();
        self.tokens += entry.put(parts);
        self.update_sets(position);
    }

    /// Adds an entry behind all others.
    fn push(&mut self, entry: Entry) {
        self.last += 1;
        entry.call.position.store(self.last, Ordering::Relaxed);
        self.entries.insert(self.last, entry);
        self.update_sets(self.last);
    }

    fn remove(&mut self, position: QueuePosition) -> Option<Entry> {
        self.untokenized.remove(&position);
        self.waiting.remove(&position);
        self.entries.remove(&position)
    }

    /// Updates the sets for an entry that has changed, and removes it if the call is done.
    fn update_sets(&mut self, position: QueuePosition) {
        let Some(entry) = self.entries.get(&position) else { return };
        for (set, is_empty) in
            [(&mut self.untokenized, entry.untokenized.is_empty()), (&mut self.waiting, entry.waiting.is_empty())]
        {
            if is_empty {
                set.remove(&position)
            } else {
                set.insert(position)
            };
        }
        if entry.is_done() {
            self.entries.remove(&position);
        }
    }

    /// Chooses the next task. `None`: there is nothing to do at the moment.
    fn next(&self) -> Option<Next> {
        let to_tokenize = || {
            self.untokenized.iter().copied().find(|position| self.has_room(&self.entries[position])).map(Next::Tokenize)
        };
        let Some((position, longest)) = self.runnable() else { return to_tokenize() };
        let run = Some(Next::Run(position, longest));
        // A call ahead of this one with nothing to run is tokenized first, however full the pool is.
        let idle_ahead = || {
            self.untokenized
                .range(..position)
                .copied()
                .find(|position| self.entries[position].is_idle())
                .map(Next::Tokenize)
        };
        if self.runs_first(position) { idle_ahead().or(run) } else { to_tokenize().or(run) }
    }

    /// Returns the first call with a row that may run now, and the maximum tokens of such a row. While a long row waits
    /// for others to finish, no other long row is started.
    fn runnable(&self) -> Option<(QueuePosition, usize)> {
        let mut longest = self.longest();
        for &position in &self.waiting {
            let shortest = *self.entries[&position].waiting.first_key_value().expect("the call has waiting parts").0;
            if shortest <= longest {
                return Some((position, longest));
            }
            longest = longest.min(self.limits.tokens);
        }
        None
    }

    /// Returns the maximum tokens of a row that may run now.
    fn longest(&self) -> usize {
        match self.pairs {
            // Models with exact padding have no attention.
            _ if self.limits.padded => usize::MAX,
            0 => usize::MAX,
            pairs => (PAIRS - pairs).isqrt().max(self.limits.tokens),
        }
    }

    /// Returns true if more texts of this call may be tokenized. Each call has an equal share of the pool; a call with
    /// nothing in the pool always may.
    fn has_room(&self, entry: &Entry) -> bool {
        let has_share = || self.tokens < POOL_TOKENS && entry.tokens < POOL_TOKENS / self.entries.len();
        !entry.untokenized.is_empty() && (entry.is_idle() || has_share())
    }

    /// Returns true if a batch of this call is run before more texts are tokenized.
    fn runs_first(&self, position: QueuePosition) -> bool {
        let entry = &self.entries[&position];
        self.tokens >= POOL_TOKENS / 2 || entry.untokenized.is_empty() && entry.tokenizing == 0
    }

    /// Takes a batch. Its length is the one with most waiting tokens of this call, or the call's longest if lengths may
    /// be mixed. Room left is filled with parts of other calls.
    fn run_of(&mut self, position: QueuePosition, longest: usize) -> Run {
        let Limits { tokens, rows, padded } = self.limits;
        let waiting = self.entries[&position].waiting.range(..=longest);
        let most =
            |(length, parts): &(&usize, &Vec<Part>)| if padded { **length } else { (*length).max(&1) * parts.len() };
        let length = *waiting.max_by_key(most).expect("the call has a row that may run").0;
        let lengths = if padded { 0..=length } else { length..=length };
        let mut room = rows.min(tokens / length.max(1)).max(1);
        let is_long = length > tokens && !padded;
        let pairs = if is_long { length.saturating_mul(length).min(PAIRS) } else { 0 };
        self.pairs += pairs;
        let (mut parts, mut changed) = (Vec::new(), Vec::new());
        let others = self.waiting.iter().copied().filter(|&other| other != position);
        for position in std::iter::once(position).chain(others) {
            let entry = self.entries.get_mut(&position).expect("the call has waiting parts");
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
                changed.push(position);
            }
            if room == 0 {
                break;
            }
        }
        changed.into_iter().for_each(|position| self.update_sets(position));
        Run { parts, pairs }
    }
}

impl Entry {
    /// Adds parts. Returns the number of tokens added.
    fn put(&mut self, parts: Vec<Part>) -> usize {
        let more = parts.iter().map(weight).sum();
        self.tokens += more;
        for part in parts {
            self.waiting.entry(part.tokens.len()).or_default().push(part);
        }
        more
    }

    fn begin_tokenizing(&mut self) -> TokenizeTask {
        let texts = next_texts(self.call.texts(), &self.untokenized);
        self.untokenized.start = texts.end;
        self.tokenizing += texts.len();
        TokenizeTask { call: Arc::clone(&self.call), texts }
    }

    fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.tokenizing == 0
    }

    fn is_done(&self) -> bool {
        self.untokenized.is_empty() && self.tokenizing == 0 && self.waiting.is_empty()
    }
}

/// Returns the texts of the next task, few enough that other calls make progress meanwhile.
fn next_texts(texts: &[String], untokenized: &Range<usize>) -> Range<usize> {
    const TEXTS: usize = 32;
    const BYTES: usize = 8192;
    let mut bytes = 0;
    let many = texts[untokenized.clone()].iter().take(TEXTS).take_while(|text| {
        let fits = bytes < BYTES;
        bytes += text.len();
        fits
    });
    untokenized.start..untokenized.start + many.count()
}
