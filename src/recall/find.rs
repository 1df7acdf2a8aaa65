//! Finds the hits for a prepared query: searches wider and wider until enough of the candidates become hits.
//!
//! Candidates are dropped if they were deleted meanwhile, and moved back if they duplicate a better one. As the query
//! demands, they are joined to turns or sessions, and reordered by the reranker, by diversity and by the positions of
//! previous hits.

use std::{
    cell::{Cell, OnceCell},
    collections::HashMap,
    ops::Range,
};

use mnemon_index::{dot, mmr};

use super::{
    arrange::{Position, Turns, join_sessions, keep_positions},
    echo::Question,
    hit::{Hit, Hits},
    options::{QueryOptions, RankingStrategy, SESSION_MESSAGES, TimeUse, Unit, WIDENING},
    prepare::PreparedQuery,
    query::MessageParts,
    rank::Ranked,
    same_text::{TermSet, Trigrams, is_duplicate},
    search::{Origin, SearchOutcome, Searcher},
    updates::{ORDERED_DEPTH, Subject, bring_up_to_date},
};
use crate::{
    embed::{self, Reranker},
    error::{Error, Result},
    lexical::{Analyzer, Language},
    message::Message,
    read_budget::{self, ReadBudget},
    store::{MessageReader, Snapshot, Store},
};

/// The minimum number of candidates that a search looks for, unless it ranks by vectors alone.
const MIN_CANDIDATES: usize = 100;
/// The number of best candidates among which near-duplicates are looked for.
const DUPLICATE_DEPTH: usize = 200;
/// Texts whose vectors have a lower cosine are not compared as duplicates.
const DUPLICATE_COSINE: f32 = 0.9;
/// The number of best hits from which diverse ones are chosen: the cost grows with its square.
const DIVERSITY_DEPTH: usize = 1000;
/// The pool has half as many more hits than are needed, where some may be passed over.
const POOL_FACTOR: (usize, usize) = (3, 2);

/// Finds the hits for a query among what the searcher finds, which looks for more until the hits are enough.
///
/// # Errors
/// Those of the searcher, the reranker and the store.
pub(crate) fn find_hits(
    prepared: &PreparedQuery,
    mut searcher: impl Searcher,
    store: &Store,
    reranker: Option<&dyn Reranker>,
) -> Result<Hits> {
    let options = &prepared.query.options;
    let Depth { hits: most, vectors, mut pool, mut messages } = Depth::of(prepared);
    let room = Room::new(prepared.query.read_budget.as_ref());
    // The best candidates of narrower searches, which stay the best: so the first hits are the same for every k.
    let mut kept: HashMap<(u32, u64), usize> = HashMap::new();
    loop {
        let mut found = searcher.search(messages)?;
        if !kept.is_empty() {
            found.ranked.sort_by_key(|ranked| kept.get(&(ranked.origin, ranked.seq)).copied().unwrap_or(usize::MAX));
        }
        if options.answerable.is_some_and(|least| found.answerability < least) {
            return Ok(found.hits(Vec::new(), prepared));
        }
        if let Some(least) = options.min_score {
            let count = found.ranked.len();
            found.ranked.retain(|ranked| ranked.relevance >= least);
            // A wider search finds what has less evidence.
            found.is_exhaustive |= found.ranked.len() < count;
        }
        // The snapshot is taken after the search, so it contains every row that was found.
        let snapshot = store.read()?;
        let query = &prepared.query;
        let skips_metadata = query.parts != MessageParts::All && (query.defers_filter || options.filter.is_none());
        let reader = snapshot.messages().reader(options.as_of, skips_metadata)?;
        let choice = Choice {
            prepared,
            options,
            snapshot: &snapshot,
            messages: reader,
            found: &found,
            searcher: &searcher,
            vectors,
            reranker,
            room: &room,
        };
        // Messages are chosen until they are enough turns or sessions, or all.
        let enough = options.rerank.unwrap_or(0).max(options.k);
        let chosen = loop {
            let messages = choice.choose(pool)?;
            let is_all = messages.len() < pool;
            let chosen = choice.join(messages, most)?;
            if chosen.len() >= enough || is_all {
                break chosen;
            }
            pool = pool.saturating_mul(WIDENING);
        };
        if let Some(full) = room.full.take().filter(|_| chosen.len() < options.k) {
            return Err(full);
        }
        let limit = Depth::most_hits(options, messages);
        // Near-duplicates are hits if nothing else is among as many candidates as they are looked for in.
        let others = chosen.iter().filter(|chosen| !chosen.hit.is_last()).count();
        let is_enough = chosen.len() >= options.k && (others >= options.k || messages >= DUPLICATE_DEPTH);
        if is_enough && options.k <= limit || found.is_exhaustive || found.cut_short {
            let mut hits = choice.order(chosen)?;
            let (question, rarity) = (prepared.query.text.as_str(), &found.word_rarity);
            // The scores of the other strategies, and of sessions, do not tell how well one message answers.
            let is_hybrid = options.strategy == RankingStrategy::Hybrid && options.unit != Unit::Session;
            let (may_move, other_words) = (is_hybrid && !query.without.updates, !query.without.change_words);
            let subject = Subject { question, rarity, language: found.language(), may_move, other_words };
            // Further hits are left out, unless they were in the previous answer.
            let kept = if options.previous.is_empty() { options.k.max(ORDERED_DEPTH) } else { usize::MAX };
            let kept = kept.min(hits.len());
            bring_up_to_date(&mut hits[..kept], &subject);
            let mut hits = keep_positions(hits, &options.previous, options.k);
            for (rank, hit) in (1..).zip(&mut hits) {
                hit.rank = rank;
            }
            room.budget.iter().for_each(ReadBudget::keep);
            return Ok(found.hits(hits, prepared));
        }
        let last = match limit {
            usize::MAX if options.unit == Unit::Session => found.ranked.len(),
            usize::MAX => 0,
            limit => chosen.iter().take(limit).map(|chosen| chosen.at + 1).max().unwrap_or(0),
        };
        kept = (0..).zip(&found.ranked[..last]).map(|(at, ranked)| ((ranked.origin, ranked.seq), at)).collect();
        messages = messages.saturating_mul(WIDENING);
    }
}

/// The room for the messages of a recall.
struct Room {
    budget: Option<ReadBudget>,
    /// Why the last choice ended early, if it had no room for all messages.
    full: Cell<Option<Error>>,
}

impl Room {
    fn new(budget: Option<&ReadBudget>) -> Self {
        Room { budget: budget.map(ReadBudget::part), full: Cell::default() }
    }

    /// Begins a choice.
    fn begin(&self) {
        self.full.set(None);
        self.budget.iter().for_each(ReadBudget::reset);
    }

    /// Takes the bytes of a message. Returns false if there is no room for it.
    fn take(&self, bytes: usize) -> bool {
        let taken = read_budget::take(self.budget.as_ref(), bytes);
        taken.map_err(|full| self.full.set(Some(full))).is_ok()
    }
}

/// The sizes of the first search for the hits of a query.
pub(super) struct Depth {
    /// The number of hits from which those of the query are chosen: as many as are reranked, and half as many more where
    /// the choice may leave some out.
    hits: usize,
    /// The number of messages that may become these hits.
    pool: usize,
    /// The number of candidates to search for.
    messages: usize,
    /// The number of best candidates whose vectors are needed.
    pub(super) vectors: usize,
}

impl Depth {
    /// The greatest k for which a search for so many messages is enough. `usize::MAX`: any, as the scores of hits are the same in
    /// each search.
    fn most_hits(options: &QueryOptions, messages: usize) -> usize {
        match options.strategy {
            _ if options.unit == Unit::Session => usize::MAX,
            RankingStrategy::Dense => usize::MAX,
            _ => messages / 2,
        }
    }

    pub(super) fn of(prepared: &PreparedQuery) -> Self {
        let options = &prepared.query.options;
        // The order of the first hits is that of all of these.
        let depth = options.rerank.unwrap_or(0).max(options.k).max(ORDERED_DEPTH);
        let keeps_order = options.keep_duplicates && options.previous.is_empty() && options.diversity.is_none();
        let hits = if keeps_order { depth } else { (depth * POOL_FACTOR.0).div_ceil(POOL_FACTOR.1) };
        let pool = options.unit.messages(hits);
        let compared = if options.keep_duplicates { 0 } else { DUPLICATE_DEPTH };
        let vectors = compared.max(options.diversity.map_or(0, |_| 2 * pool.min(DIVERSITY_DEPTH)));
        // Dense hits are those that a search finds. For the others the candidates decide which hits are best, so their number
        // does not depend on k, unless it is large.
        let messages = match options.strategy {
            _ if options.unit == Unit::Session => pool,
            RankingStrategy::Dense => pool,
            // What a time brings to the front is far behind by meaning and words.
            // A long text names times that it does not ask for.
            _ if options.time == TimeUse::Boost && !prepared.spans.is_empty() && prepared.pieces.is_empty() => {
                WIDENING * MIN_CANDIDATES
            }
            _ => MIN_CANDIDATES,
        };
        Depth { hits, pool, messages, vectors }
    }
}

impl SearchOutcome {
    fn hits(&self, hits: Vec<Hit>, prepared: &PreparedQuery) -> Hits {
        let SearchOutcome { cut_short, answerability, pending, .. } = *self;
        Hits { hits, cut_short, answerability, pending, not_embedded: prepared.not_embedded.clone(), seen: None }
    }

    fn origin(&self, ranked: &Ranked) -> &Origin {
        &self.origins[ranked.origin as usize]
    }

    /// The language of the best candidate's namespace.
    fn language(&self) -> Language {
        self.ranked.first().map_or_else(Language::default, |best| self.origin(best).language)
    }
}

/// The choice of hits among the candidates that a search found.
struct Choice<'a, S> {
    prepared: &'a PreparedQuery<'a>,
    options: &'a QueryOptions,
    snapshot: &'a Snapshot,
    messages: MessageReader,
    found: &'a SearchOutcome,
    searcher: &'a S,
    /// The number of best candidates whose vectors are needed.
    vectors: usize,
    reranker: Option<&'a dyn Reranker>,
    room: &'a Room,
}

/// A flushed batch of messages.
#[derive(PartialEq, Eq, Hash)]
struct Batch {
    /// The position of the namespace.
    origin: u32,
    session: String,
    number: u32,
}

/// A hit, and its position among the candidates.
struct Chosen {
    at: usize,
    hit: Hit,
    /// Its vector; empty if it has none or is not needed.
    vector: Vec<f32>,
    /// Read when it is first compared with another.
    trigrams: OnceCell<Trigrams>,
    /// The terms of its text; analyzed when it is first compared with another whose trigrams are alike.
    terms: OnceCell<TermSet>,
}

impl Chosen {
    fn trigrams(&self) -> &Trigrams {
        self.trigrams.get_or_init(|| Trigrams::of(&self.hit.message.borrowed_text()))
    }
}

impl<S: Searcher> Choice<'_, S> {
    /// Chooses up to `pool` hits in the order of the candidates, near-duplicates and what repeats the question last: fewer if
    /// there is no room for more.
    fn choose(&self, pool: usize) -> Result<Vec<Chosen>> {
        self.room.begin();
        let mut chosen: Vec<Chosen> = Vec::new();
        let mut last = Vec::new();
        let mut per_batch: HashMap<Batch, usize> = HashMap::new();
        let most = self.options.per_batch.unwrap_or(usize::MAX);
        let asked = self.asked();
        let questions: Vec<Question> =
            asked.iter().filter_map(|text| Question::of(text, self.found.language())).collect();
        for (at, ranked) in self.found.ranked.iter().enumerate() {
            if chosen.len() == pool {
                break;
            }
            let namespace = self.found.origin(ranked).namespace;
            // The message may have been replaced or deleted since its row was found.
            let Some(sized) = self.messages.get(namespace, ranked.seq)? else { continue };
            if !(self.prepared.query.defers_filter || self.prepared.filter.allows_message(&sized.message)) {
                continue;
            }
            let parts = self.prepared.query.parts;
            let (message, bytes) = parts.of(sized);
            if !self.room.take(bytes) {
                break;
            }
            let batch = match self.options.per_batch {
                None => None,
                Some(_) => self.snapshot.batches().number_of(namespace, &message.session, ranked.seq)?,
            };
            let batch = batch.map(|number| Batch { origin: ranked.origin, session: message.session.clone(), number });
            if batch.as_ref().is_some_and(|batch| per_batch.get(batch) == Some(&most)) {
                continue;
            }
            let vector = if at < self.vectors { self.searcher.vector(ranked) } else { Vec::new() };
            let mut new = Chosen {
                at,
                hit: self.hit(ranked, message)?,
                vector,
                trigrams: OnceCell::new(),
                terms: OnceCell::new(),
            };
            let text = new.hit.message.borrowed_text();
            if questions.iter().any(|question| question.is_repeated_by(&text, ranked.breakdown.coverage)) {
                (new.hit.relevance, new.hit.breakdown.repeats_question) = (0.0, true);
            }
            if self.options.min_score.is_some_and(|least| new.hit.relevance < least) {
                continue;
            }
            if parts == MessageParts::WithoutContent {
                new.hit.message.content = Vec::new();
            }
            new.hit.breakdown.duplicate_of = self.original(&new, &chosen);
            if new.hit.is_last() {
                last.push((batch, new));
            } else {
                batch.into_iter().for_each(|batch| *per_batch.entry(batch).or_default() += 1);
                chosen.push(new);
            }
        }
        // These are added as far as the limits of their batches allow.
        for (batch, new) in last {
            let count = batch.map(|batch| per_batch.entry(batch).or_default());
            if count.as_ref().is_none_or(|count| **count < most) {
                count.into_iter().for_each(|count| *count += 1);
                chosen.push(new);
            }
        }
        chosen.truncate(pool);
        Ok(chosen)
    }

    /// Returns the texts of the query that may ask, in lower case. None if their repetitions are ranked as other messages.
    fn asked(&self) -> Vec<String> {
        let PreparedQuery { query, pieces, .. } = self.prepared;
        if self.options.strategy != RankingStrategy::Hybrid || query.without.echo {
            return Vec::new();
        }
        match &pieces[..] {
            [] => vec![query.text.to_lowercase()],
            pieces => pieces.iter().map(|piece| query.text[piece.piece.range.clone()].to_lowercase()).collect(),
        }
    }

    /// Joins the messages of a turn or of a session, if the query demands it: up to `most` of them, best first.
    fn join(&self, chosen: Vec<Chosen>, most: usize) -> Result<Vec<Chosen>> {
        let origin = |chosen: &Chosen| self.found.ranked[chosen.at].origin;
        match self.options.unit {
            Unit::Message => Ok(chosen),
            Unit::Session => {
                let is_odds = self.options.strategy == RankingStrategy::Hybrid;
                let key = |chosen: &Chosen| (origin(chosen), chosen.hit.message.session.clone());
                let mut sessions = join_sessions(chosen, SESSION_MESSAGES, is_odds, key, |chosen| &mut chosen.hit);
                sessions.truncate(most);
                Ok(sessions)
            }
            Unit::Turn => {
                let mut turns = Turns::new(self.prepared, self.snapshot, &self.messages, self.room.budget.as_ref());
                let mut joined = Vec::new();
                for mut chosen in chosen {
                    let ranked = &self.found.ranked[chosen.at];
                    let namespace = self.found.origin(ranked).namespace;
                    let at = Position { origin: ranked.origin, namespace, seq: ranked.seq };
                    if joined.len() < most && turns.enter(at, &mut chosen.hit)? {
                        joined.push(chosen);
                    }
                }
                Ok(joined)
            }
        }
    }

    /// Reranks the hits and makes them diverse, if the query demands it.
    fn order(&self, mut chosen: Vec<Chosen>) -> Result<Vec<Hit>> {
        // A reranker's scores do not compare with the scores of hits that it did not see.
        let mut comparable = chosen.len();
        if let Some(depth) = self.options.rerank {
            comparable = comparable.min(depth.max(self.options.k));
            self.rerank(&mut chosen[..comparable])?;
        }
        if let Some(lambda) = self.options.diversity {
            let rest = chosen.split_off(comparable.min(DIVERSITY_DEPTH));
            chosen = self.diversify(chosen, lambda);
            chosen.extend(rest);
        }
        // These stay last, whatever the reranker's scores.
        chosen.sort_by_key(|chosen| chosen.hit.is_last());
        Ok(chosen.into_iter().map(|chosen| chosen.hit).collect())
    }

    fn hit(&self, ranked: &Ranked, message: Message) -> Result<Hit> {
        let text = message.borrowed_text();
        // The indexed text begins with the speaker's name; passages are of the text alone.
        let name = message.bytes_before_text(&text);
        let position = |at: u32| (at as usize).saturating_sub(name);
        let passage = ranked.passage.as_ref().map(|passage| position(passage.start)..position(passage.end));
        // A chunk may consist of the speaker's name alone.
        let is_text = |passage: &Range<usize>| text.get(passage.clone()).is_some_and(|passage| !passage.is_empty());
        let passage = passage.filter(is_text).unwrap_or(0..text.len());
        let mut breakdown = ranked.breakdown.clone();
        if let Some(boosted_by) = ranked.boosted_by {
            breakdown.boosted_by = self.messages.id(self.found.origin(ranked).namespace, boosted_by)?;
        }
        let (score, similarity) = (ranked.score, ranked.similarity);
        let namespace = self.found.origin(ranked).name.clone();
        let (relevance, supersedes, others) = (ranked.relevance, Vec::new(), Vec::new());
        Ok(Hit { message, namespace, score, relevance, similarity, rank: 0, passage, supersedes, others, breakdown })
    }

    /// The id of a better hit of the same speaker with nearly the same text, if there is one.
    fn original(&self, new: &Chosen, chosen: &[Chosen]) -> Option<String> {
        if self.options.keep_duplicates || new.at >= DUPLICATE_DEPTH {
            return None;
        }
        // Messages that are not embedded are compared by their texts alone.
        let is_near =
            |other: &[f32]| new.vector.is_empty() || other.is_empty() || dot(&new.vector, other) >= DUPLICATE_COSINE;
        let is_same = |other: &&Chosen| {
            other.hit.message.name == new.hit.message.name
                && is_near(&other.vector)
                && (other.hit.message.borrowed_text() == new.hit.message.borrowed_text()
                    || new.trigrams().may_be_duplicates(other.trigrams())
                        && is_duplicate(self.terms(new), self.terms(other)))
        };
        chosen.iter().find(is_same).map(|other| other.hit.message.id.clone())
    }

    fn terms<'c>(&self, chosen: &'c Chosen) -> &'c TermSet {
        chosen.terms.get_or_init(|| {
            let language = self.found.origin(&self.found.ranked[chosen.at]).language;
            let (text, mut terms) = (chosen.hit.message.text(), Vec::new());
            Analyzer::of(language).terms(&text, &mut terms);
            TermSet::new(text, &terms)
        })
    }

    fn rerank(&self, chosen: &mut [Chosen]) -> Result<()> {
        let reranker = self.reranker.expect("a query that reranks is refused without a reranker");
        let texts: Vec<String> = chosen.iter().map(|chosen| chosen.hit.message.text()).collect();
        let passages: Vec<&str> =
            chosen.iter().zip(&texts).map(|(chosen, text)| &text[chosen.hit.passage.clone()]).collect();
        let scores = embed::rerank(reranker, &self.prepared.query.text, &passages)?;
        for (Chosen { hit, .. }, score) in chosen.iter_mut().zip(scores) {
            hit.breakdown.reranked = Some(score);
            hit.score = score;
        }
        chosen.sort_by(|a, b| b.hit.score.total_cmp(&a.hit.score));
        Ok(())
    }

    /// Orders hits by maximal marginal relevance. Hits whose vectors were not read follow last, and so do hits that
    /// were not reranked if others were.
    fn diversify(&self, chosen: Vec<Chosen>, lambda: f32) -> Vec<Chosen> {
        let (with, without): (Vec<Chosen>, Vec<Chosen>) =
            chosen.into_iter().partition(|Chosen { vector, hit, .. }| {
                !vector.is_empty() && hit.breakdown.reranked.is_some() == self.options.rerank.is_some()
            });
        let vectors: Vec<&[f32]> = with.iter().map(|chosen| chosen.vector.as_slice()).collect();
        // Scores are scaled to 0 to 1, the range of similarities.
        let scores = || with.iter().map(|chosen| f64::from(chosen.hit.score));
        let (low, high) = scores().fold((f64::MAX, f64::MIN), |(low, high), score| (low.min(score), high.max(score)));
        let relevance: Vec<f64> = scores().map(|score| (score - low) / (high - low).max(1e-9)).collect();
        let order = mmr(&relevance, &vectors, with.len(), f64::from(lambda));
        let mut with: Vec<Option<Chosen>> = with.into_iter().map(Some).collect();
        order.into_iter().filter_map(|at| with[at].take()).chain(without).collect()
    }
}
