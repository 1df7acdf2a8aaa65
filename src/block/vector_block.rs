//! The block of messages that are recalled for the last messages of the prompt.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use parking_lot::Mutex;
use serde_json::Value;

use super::{BlockContent, BlockQuery, MemoryBlock, TokenExcess};
use crate::{
    error::{Error, Result, impl_debug},
    ids::Namespace,
    message::{Message, TimeZone},
    recall::{Asked, Hit, MAX_K, Query, keep_positions, superseding_pairs},
};

/// A function that changes the hits of a [`VectorBlock`]: it may rerank, drop or add hits.
pub type HitProcessor = Arc<dyn Fn(Vec<Hit>) -> Result<Vec<Hit>> + Send + Sync>;

/// A function that sets the options of a query.
type QueryOptions = Arc<dyn Fn(Query) -> Query + Send + Sync>;

/// The ids of the hits in the last prompt of each session.
type PreviousHits = HashMap<(Namespace, String), Vec<String>>;

/// The maximum number of sessions whose previous hits are kept. One session more clears them all.
const MAX_PREVIOUS_SESSIONS: usize = 4096;

/// The least share of a superseded hit's score that another hit must have to come before it: what says less about the
/// question does not displace it.
const RELATED_SCORE: f32 = 0.5;

/// The share of the least relevance of the best hit that the others must have.
const OTHERS: f32 = 0.4;

/// The factor by which the number of requested hits grows when the processors left too few.
const WIDENING: usize = 4;

/// The messages that a [`VectorBlock`] adds to the prompt for a hit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RetrievalUnit {
    /// The message that was found.
    #[default]
    Message,
    /// All messages of the batch in which the message that was found was flushed.
    Batch,
}

/// The messages of the namespace that are most relevant to the last messages of the prompt.
///
/// The query consists of the texts of the last messages of the prompt, joined by spaces, and is asked at the time of the
/// last of them, if it has one. If they have no text, the block is empty. Messages and texts that are already in the prompt are left out, and so are repeated texts.
#[derive(Clone)]
pub struct VectorBlock {
    name: String,
    priority: u32,
    window: usize,
    top_k: usize,
    threshold: Option<f32>,
    min_score: Option<f32>,
    unit: RetrievalUnit,
    own_session: bool,
    superseded_last: bool,
    query: Option<QueryOptions>,
    /// `None` unless [`VectorBlock::keep_previous_hits`] was called.
    previous: Option<Arc<Mutex<PreviousHits>>>,
    processors: Vec<HitProcessor>,
}

impl_debug!(VectorBlock { name, priority, window, top_k, threshold, min_score, unit, own_session, superseded_last });

impl VectorBlock {
    /// Creates a block with the default options.
    pub fn new(name: impl Into<String>) -> Self {
        VectorBlock {
            name: name.into(),
            priority: 0,
            window: 5,
            top_k: 2,
            threshold: None,
            min_score: None,
            unit: RetrievalUnit::Message,
            own_session: false,
            superseded_last: false,
            query: None,
            previous: None,
            processors: Vec::new(),
        }
    }

    /// Sets the [priority](MemoryBlock::priority). Default: 0. Truncation drops the hits with the lowest score first.
    pub fn with_priority(mut self, priority: u32) -> Self {
        self.priority = priority;
        self
    }

    /// Sets how many of the last messages make up the query, at least 1. Default: 5.
    pub fn retrieval_context_window(mut self, messages: usize) -> Self {
        self.window = messages.max(1);
        self
    }

    /// Sets the maximum number of hits in the prompt. Default: 2.
    pub fn similarity_top_k(mut self, k: usize) -> Self {
        self.top_k = k;
        self
    }

    /// Sets the minimum cosine similarity of a hit, -1 to 1. Default: none.
    pub fn similarity_threshold(mut self, score: f32) -> Self {
        self.threshold = Some(score);
        self
    }

    /// Sets the least relevance of the best hit, 0 to 1: below it the block is empty. Of the others, those with less than 0.4
    /// of it are left out, as [`Query::min_score`] does. Default: none.
    pub fn min_score(mut self, least: f32) -> Self {
        self.min_score = Some(least);
        self
    }

    /// Sets which messages are added to the prompt for a hit. Default: [`RetrievalUnit::Message`].
    pub fn retrieval_unit(mut self, unit: RetrievalUnit) -> Self {
        self.unit = unit;
        self
    }

    /// Keeps the hits of a session's previous prompt at their positions as long as they are still among the best 1.5 k
    /// hits, as [`Query::previous`] does. The prompt then changes no more than necessary, and a provider's prompt cache
    /// stays valid. The block remembers the hits in memory until it is dropped.
    pub fn keep_previous_hits(mut self) -> Self {
        self.previous = Some(Arc::default());
        self
    }

    /// Recalls only messages of the prompt's own session. Default: all sessions of the namespace.
    pub fn own_session(mut self) -> Self {
        self.own_session = true;
        self
    }

    /// Moves hits back that a better hit or a message of the prompt supersedes, as [`Hit::supersedes`] has it: behind those
    /// with at least half of their score, and behind all if it is a message of the prompt. Hits that are left out for it
    /// are in [`Prompt::left_out`](crate::Prompt::left_out). Default: they stay where they are.
    pub fn superseded_last(mut self) -> Self {
        self.superseded_last = true;
        self
    }

    /// Sets the options of the query, such as its filter and its ranking. The block calls `options` with its query once
    /// for each prompt. It sets k itself, and leaves out the messages of the prompt.
    ///
    /// ```
    /// use mnemon::{RankingStrategy, Role, VectorBlock};
    /// let block = VectorBlock::new("said").query(|query| query.role(Role::User).strategy(RankingStrategy::Dense));
    /// ```
    pub fn query(mut self, options: impl Fn(Query) -> Query + Send + Sync + 'static) -> Self {
        self.query = Some(Arc::new(options));
        self
    }

    /// Adds a function that changes the hits. Functions run in the order in which they were added, after the threshold and
    /// the removal of duplicates, and before the hits are cut to k.
    ///
    /// If fewer than k are left, the block recalls four times as many and calls the functions again with these, until k
    /// are left or no more are found. So a function may drop most hits, but if it always returns fewer than k, every
    /// prompt recalls up to [`MAX_K`] messages. [`VectorBlock::query`] filters at less cost.
    pub fn hit_processor(mut self, processor: impl Fn(Vec<Hit>) -> Result<Vec<Hit>> + Send + Sync + 'static) -> Self {
        self.processors.push(Arc::new(processor));
        self
    }

    /// Recalls and processes messages that are not in the prompt yet, until k are left or no more are found.
    fn new_hits(&self, text: String, query: &BlockQuery) -> Result<Vec<Hit>> {
        let mut request = Query::new(text);
        let now = query.messages.last().and_then(|last| last.created_at);
        // The time of a message has no offset: its days would be those of UTC.
        let zone = query.time_zone.clone().or_else(|| now.map(|_| TimeZone::system()));
        request = now.into_iter().fold(request, Query::now);
        request = zone.into_iter().fold(request, Query::time_zone);
        if self.own_session {
            request = request.session(&query.session);
        }
        if let Some(least) = self.min_score {
            if !(0.0..=1.0).contains(&least) {
                return Err(Error::query(format!("min_score is {least}, not within 0 to 1")));
            }
            request = request.min_score(OTHERS * least);
        }
        if let Some(options) = &self.query {
            request = options(request);
        }
        // More than k, because some are left out below.
        let mut k = self.top_k.saturating_mul(2).saturating_add(8);
        let mut best = 0;
        loop {
            request = request.k(k.min(MAX_K));
            let mut hits = query.recall(&request)?;
            if self.min_score.is_some_and(|least| hits.iter().all(|hit| hit.relevance < least)) {
                return Ok(Vec::new());
            }
            let found_all = hits.len() < k.min(MAX_K) || k >= MAX_K;
            self.drop_unwanted(&mut hits, query);
            // Further hits may all be below the threshold, so more hits are requested only while more of them remain.
            let has_grown = self.threshold.is_none() || hits.len() > best;
            best = hits.len();
            for processor in &self.processors {
                hits = processor(hits)?;
            }
            if hits.len() >= self.top_k || found_all || !has_grown || self.processors.is_empty() {
                return Ok(hits);
            }
            k = k.saturating_mul(WIDENING);
        }
    }

    /// Drops hits below the threshold, hits that are in the prompt, and repeated texts. What is superseded is moved back, if
    /// the block says so.
    fn drop_unwanted(&self, hits: &mut Vec<Hit>, query: &BlockQuery) {
        let shown: Vec<_> =
            query.messages.iter().map(|message| (message.id.as_str(), message.borrowed_text())).collect();
        let mut texts = HashSet::new();
        hits.retain(|Hit { message, similarity, .. }| {
            let text = message.borrowed_text();
            self.threshold.is_none_or(|least| *similarity >= least)
                && shown.iter().all(|(id, shown)| *id != message.id && *shown != text)
                && texts.insert(text.into_owned())
        });
        if self.superseded_last {
            self.move_superseded(hits, query);
        }
    }

    /// Moves hits back that a better hit or a message of the prompt supersedes, as [`superseded_last`](Self::superseded_last)
    /// has it, and notes those that are left out for it.
    fn move_superseded(&self, hits: &mut Vec<Hit>, query: &BlockQuery) {
        let asked = Asked::new(&query.last_texts(self.window));
        let all: Vec<&Message> =
            hits.iter().map(|hit| &hit.message).chain(query.messages.iter().map(|shown| &**shown)).collect();
        let pairs = superseding_pairs(&all, hits.len(), &asked);
        let is_by_shown = |at: usize| pairs.iter().any(|&(later, earlier)| earlier == at && later >= hits.len());
        let is_by_better = |at: usize| hits[..at].iter().any(|hit| hit.supersedes.contains(&hits[at].message.id));
        // The score of the hits that stay behind it.
        let limit = |at: usize| match (is_by_shown(at), is_by_better(at)) {
            (true, _) => Some(f32::NEG_INFINITY),
            (_, true) => Some(hits[at].score - hits[at].score.abs() * (1.0 - RELATED_SCORE)),
            _ => None,
        };
        let limits: Vec<Option<f32>> = (0..hits.len()).map(limit).collect();
        let mut moved = Vec::new();
        let mut kept: Vec<Hit> = Vec::new();
        for (at, (hit, limit)) in std::mem::take(hits).into_iter().zip(limits).enumerate() {
            match limit {
                Some(limit) => moved.push((at, limit, hit)),
                None => kept.push(hit),
            }
        }
        let mut left_out = Vec::new();
        for (before, limit, hit) in moved {
            let at = kept
                .iter()
                .rposition(|other| other.score >= limit)
                .map_or(0, |last| last + 1)
                .max(before.min(kept.len()));
            if before < self.top_k && at >= self.top_k {
                left_out.push(hit.message.id.clone());
            }
            kept.insert(at, hit);
        }
        query.leave_out(left_out);
        *hits = kept;
    }

    /// Moves hits of the session's previous prompt to the positions that they had there, and keeps the ids for the next
    /// prompt.
    fn keep_previous(&self, hits: Vec<Hit>, previous: &mut PreviousHits, query: &BlockQuery) -> Vec<Hit> {
        let session = (query.namespace.clone(), query.session.clone());
        let hits = keep_positions(hits, previous.get(&session).map_or(&[], Vec::as_slice), self.top_k);
        if previous.len() >= MAX_PREVIOUS_SESSIONS && !previous.contains_key(&session) {
            previous.clear();
        }
        previous.insert(session, hits.iter().map(|hit| hit.message.id.clone()).collect());
        hits
    }

    /// Returns the messages to add to the prompt for the hits, without messages that the prompt already contains.
    fn expand(&self, hits: Vec<Hit>, query: &BlockQuery) -> Result<Vec<Message>> {
        let mut expanded: Vec<Message> = Vec::new();
        for hit in hits {
            let messages = match self.unit {
                RetrievalUnit::Message => vec![hit.message],
                RetrievalUnit::Batch => query.batch_of(&hit.message)?,
            };
            for message in messages {
                let mut known = query.messages.iter().map(|shown| &**shown).chain(&expanded);
                if known.all(|known| known.id != message.id) {
                    expanded.push(message);
                }
            }
        }
        Ok(expanded)
    }
}

impl MemoryBlock for VectorBlock {
    fn name(&self) -> &str {
        &self.name
    }

    fn priority(&self) -> u32 {
        self.priority
    }

    /// Returns false, because the engine indexes flushed messages, and the block has no state.
    fn takes_batches(&self) -> bool {
        false
    }

    fn recalls(&self) -> bool {
        true
    }

    fn get(&self, _: &Value, query: &BlockQuery) -> Result<BlockContent> {
        let text = query.last_texts(self.window);
        if text.is_empty() || self.top_k == 0 {
            return Ok(BlockContent::default());
        }
        let mut hits = self.new_hits(text, query)?;
        if let Some(previous) = &self.previous {
            hits = self.keep_previous(hits, &mut previous.lock(), query);
        }
        hits.truncate(self.top_k);
        // Processors may have added hits and changed scores.
        query.record(&hits);
        Ok(BlockContent::Quoted(self.expand(hits, query)?))
    }

    fn truncate(&self, content: BlockContent, excess: &TokenExcess<'_>) -> BlockContent {
        let BlockContent::Quoted(messages) = content else { return BlockContent::default() };
        excess.keep_most(messages.len(), |count| BlockContent::Quoted(messages[..count].to_vec()))
    }
}
