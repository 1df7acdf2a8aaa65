//! The query: its text, the filter of messages, and the ranking.

use std::{
    collections::{BTreeSet, HashMap},
    fmt,
    str::FromStr,
    sync::Arc,
    time::Duration,
};

use super::{unit::Unit, when::TimeSpan};
use crate::{
    error::{Error, Result},
    filter::MetadataFilter,
    freshness::Freshness,
    message::{MAX_MESSAGE_BYTES, Message, Role, Timestamp},
};

/// The greatest number of hits of one recall.
pub const MAX_K: usize = 10_000;

/// The greatest number of bytes of a query's text: that of a message, so that every message can be a query.
pub const MAX_QUERY_BYTES: usize = MAX_MESSAGE_BYTES;

/// A method of ranking candidates.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub enum RankingStrategy {
    /// The sum of normalized dense and lexical scores, a boost for neighbors of matches, and a prior for length: see
    /// [`ScoreBreakdown`](crate::ScoreBreakdown). Never much worse than the better of dense and lexical, commonly
    /// better than both.
    #[default]
    Hybrid,
    /// The cosine of the vectors alone.
    Dense,
    /// BM25 alone. The query is not embedded. Where fewer than k messages share a term with the query, others follow,
    /// newest first.
    Lexical,
    /// Reciprocal-rank fusion of dense and lexical ranks (Cormack et al., SIGIR 2009), k = 60.
    ReciprocalRank,
    /// A weighted sum of cosine and BM25, both scaled to 0 to 1 over the candidates: the cosine has this weight, 0 to
    /// 1, and BM25 the rest.
    Weighted(f32),
}

impl FromStr for RankingStrategy {
    type Err = Error;

    /// Parses `hybrid`, `dense`, `lexical`, `rrf` (or `reciprocal-rank`) or `weighted:0.5`.
    fn from_str(name: &str) -> Result<Self> {
        Ok(match name {
            "hybrid" => RankingStrategy::Hybrid,
            "dense" => RankingStrategy::Dense,
            "lexical" => RankingStrategy::Lexical,
            "rrf" | "reciprocal-rank" => RankingStrategy::ReciprocalRank,
            _ => match name.strip_prefix("weighted:").and_then(|share| share.parse().ok()) {
                Some(share) if (0.0..=1.0).contains(&share) => RankingStrategy::Weighted(share),
                _ => {
                    return Err(Error::query(format!(
                        "strategy {name:?} is not one of hybrid, dense, lexical, rrf, weighted:0.5 (a share, 0 to 1)"
                    )));
                }
            },
        })
    }
}

impl fmt::Display for RankingStrategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RankingStrategy::Hybrid => f.write_str("hybrid"),
            RankingStrategy::Dense => f.write_str("dense"),
            RankingStrategy::Lexical => f.write_str("lexical"),
            RankingStrategy::ReciprocalRank => f.write_str("rrf"),
            RankingStrategy::Weighted(share) => write!(f, "weighted:{share}"),
        }
    }
}

/// The use of times that a query's text names, such as "last week" or "in May 2023".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum TimeUse {
    /// Times are not used.
    Ignore,
    /// Messages of a named time rank higher.
    #[default]
    Boost,
    /// Only messages of a named time are found, if the query names one.
    Filter,
}

impl FromStr for TimeUse {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        match name {
            "ignore" => Ok(TimeUse::Ignore),
            "boost" => Ok(TimeUse::Boost),
            "filter" => Ok(TimeUse::Filter),
            _ => Err(Error::query(format!("time {name:?} is not one of ignore, boost, filter"))),
        }
    }
}

/// A query to a namespace: its text, the number of hits, the filter of messages, and their ranking.
///
/// ```
/// use mnemon::{Query, Role};
/// let query = Query::new("where does she keep her bike?").k(5).role(Role::User).session("2024-05");
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Query {
    pub(crate) text: String,
    pub(crate) k: usize,
    pub(crate) filter: Filter,
    pub(crate) except: BTreeSet<String>,
    /// The sequence numbers of messages in `except`, as far as the caller knows them, in the one namespace that is asked.
    pub(crate) known_seqs: Arc<HashMap<String, u64>>,
    pub(crate) budget: Option<Duration>,
    /// `None`: as the engine was opened for.
    pub(crate) freshness: Option<Freshness>,
    pub(crate) ranking: Ranking,
    pub(crate) time: TimeUse,
    pub(crate) now: Option<Timestamp>,
    pub(crate) keep_duplicates: bool,
    pub(crate) diversity: Option<f32>,
    pub(crate) per_batch: Option<usize>,
    pub(crate) answerable: Option<f32>,
    pub(crate) rerank: Option<usize>,
    pub(crate) previous: Vec<String>,
    pub(crate) unit: Unit,
}

/// The options of ranking.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Ranking {
    pub(crate) strategy: RankingStrategy,
    pub(crate) has_neighbors: bool,
    pub(crate) has_prior: bool,
    pub(crate) has_speakers: bool,
    pub(crate) has_questions: bool,
    pub(crate) has_vocabulary: bool,
    /// The share of the query's letters in words that the model knows: 1 until the query is embedded.
    pub(crate) known_words: f32,
    pub(crate) half_life: Option<Duration>,
}

/// Conditions that all hits meet.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Filter {
    pub(crate) session: Option<String>,
    pub(crate) role: Option<Role>,
    pub(crate) since: Option<Timestamp>,
    pub(crate) until: Option<Timestamp>,
    /// Only what was known at this time is allowed. The time of the put is checked beside the filter.
    pub(crate) as_of: Option<Timestamp>,
    /// Allowed times, if there are any.
    pub(crate) spans: Vec<TimeSpan>,
    pub(crate) metadata: Option<MetadataFilter>,
    /// Allowed ids.
    pub(crate) ids: Option<BTreeSet<String>>,
}

impl Query {
    /// Makes a query for the 10 best messages of the whole namespace. Text beyond the model's limit is split into
    /// windows; none is cut off. A recall refuses text of more than [`MAX_QUERY_BYTES`].
    pub fn new(text: impl Into<String>) -> Self {
        Query {
            text: text.into(),
            k: 10,
            filter: Filter::default(),
            except: BTreeSet::new(),
            known_seqs: Arc::default(),
            budget: None,
            freshness: None,
            ranking: Ranking {
                strategy: RankingStrategy::Hybrid,
                has_neighbors: true,
                has_prior: true,
                has_speakers: true,
                has_questions: true,
                has_vocabulary: true,
                known_words: 1.0,
                half_life: None,
            },
            time: TimeUse::Boost,
            now: None,
            keep_duplicates: false,
            diversity: None,
            per_batch: None,
            answerable: None,
            rerank: None,
            previous: Vec::new(),
            unit: Unit::Message,
        }
    }

    /// The text of the query.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Finds this many hits, 1 to [`MAX_K`], or all messages that the filter allows if they are fewer. Default: 10.
    pub fn k(mut self, k: usize) -> Self {
        self.k = k;
        self
    }

    /// Finds only messages of this session.
    pub fn session(mut self, session: impl Into<String>) -> Self {
        self.filter.session = Some(session.into());
        self
    }

    /// Finds only messages of this role.
    pub fn role(mut self, role: Role) -> Self {
        self.filter.role = Some(role);
        self
    }

    /// Finds only messages of this moment or later.
    pub fn since(mut self, time: Timestamp) -> Self {
        self.filter.since = Some(time);
        self
    }

    /// Finds only messages before this moment.
    pub fn until(mut self, time: Timestamp) -> Self {
        self.filter.until = Some(time);
        self
    }

    /// Finds only what was known at this time: messages that had been put by then, and whose
    /// [`created_at`](field@Message::created_at), if they have one, is not later. Ages and expressions such as "last
    /// week" are relative to this time, unless [`now`](Self::now) is set.
    ///
    /// The namespace is asked as it is today: messages that were deleted since are not found, those that were edited have
    /// their present text, and scores are scaled by the statistics of all messages. A message that was moved to another
    /// session counts as put then, and so does an imported one by its import. In a copy of a
    /// [shared](crate::EngineBuilder::shared) database, a message of another machine counts as put when this copy got it.
    /// For messages that were put by a release before 0.2.0, the time of the put is not known: `created_at` alone decides.
    /// Cost: a look at each vector's message.
    pub fn as_of(mut self, time: Timestamp) -> Self {
        self.filter.as_of = Some(time);
        self
    }

    /// Finds only messages that this filter matches, by their metadata and their fields. Of several filters, all must
    /// match. [`role`](Self::role), [`session`](Self::session), [`since`](Self::since), [`until`](Self::until) and
    /// [`ids`](Self::ids) are faster than the same conditions here.
    ///
    /// The first query with a path reads its values in all messages of the namespace. Later filters with the path are
    /// evaluated in memory, and messages that changed meanwhile are read again. A loaded namespace keeps the values of
    /// 32 paths, and the results of 64 filters.
    pub fn filter(mut self, filter: MetadataFilter) -> Self {
        self.filter.metadata = Some(match self.filter.metadata.take() {
            None => filter,
            Some(other) => other.and(filter),
        });
        self
    }

    /// Finds only these messages, by id. Unknown ids are ignored.
    pub fn ids<I: Into<String>>(mut self, ids: impl IntoIterator<Item = I>) -> Self {
        self.filter.ids = Some(ids.into_iter().map(Into::into).collect());
        self
    }

    /// Leaves out these messages, by id, for example those that the prompt already contains. Unknown ids are ignored.
    pub fn except<I: Into<String>>(mut self, ids: impl IntoIterator<Item = I>) -> Self {
        self.except.extend(ids.into_iter().map(Into::into));
        self
    }

    /// Sets the ranking strategy. Default: [`RankingStrategy::Hybrid`].
    pub fn strategy(mut self, strategy: RankingStrategy) -> Self {
        self.ranking.strategy = strategy;
        self
    }

    /// Sets whether messages within two turns of a lexical match are boosted, in [`RankingStrategy::Hybrid`]. Default:
    /// true.
    pub fn neighbors(mut self, has_neighbors: bool) -> Self {
        self.ranking.has_neighbors = has_neighbors;
        self
    }

    /// Sets whether a message's length counts, in [`RankingStrategy::Hybrid`]: long messages of a role rank higher than
    /// short ones, and messages of a role that writes much longer ones than others rank lower. Default: true.
    pub fn length_prior(mut self, has_prior: bool) -> Self {
        self.ranking.has_prior = has_prior;
        self
    }

    /// Sets whether messages by a speaker whom the query names are boosted, in [`RankingStrategy::Hybrid`]: of the
    /// words of the message's name, the query has at least one. Default: true.
    pub fn speakers(mut self, has_speakers: bool) -> Self {
        self.ranking.has_speakers = has_speakers;
        self
    }

    /// Sets whether messages that end with a question mark rank lower, in [`RankingStrategy::Hybrid`]: a question
    /// rarely answers one. Default: true.
    pub fn questions(mut self, has_questions: bool) -> Self {
        self.ranking.has_questions = has_questions;
        self
    }

    /// Sets whether words count more and vectors less, in [`RankingStrategy::Hybrid`], where the model does not know the
    /// words of the query ([`Embedder::known_words`](crate::Embedder::known_words)). Default: true.
    pub fn vocabulary(mut self, has_vocabulary: bool) -> Self {
        self.ranking.has_vocabulary = has_vocabulary;
        self
    }

    /// Finds whole turns or sessions: k counts them, and each is a hit with its best message. Default:
    /// [`Unit::Message`].
    pub fn unit(mut self, unit: Unit) -> Self {
        self.unit = unit;
        self
    }

    /// Ranks newer messages higher, in [`RankingStrategy::Hybrid`]: the boost is 2 points of score for a new message,
    /// and halves with each half-life of age. Default: age does not count.
    pub fn half_life(mut self, half_life: Duration) -> Self {
        self.ranking.half_life = Some(half_life);
        self
    }

    /// Sets the moment that ages and expressions such as "last week" are relative to. Default: the time of
    /// [`as_of`](Self::as_of), or else the system's clock.
    pub fn now(mut self, now: Timestamp) -> Self {
        self.now = Some(now);
        self
    }

    /// Sets the use of times that the query's text names ([`time_expressions`](crate::time_expressions)). Default:
    /// [`TimeUse::Boost`].
    pub fn time(mut self, time: TimeUse) -> Self {
        self.time = time;
        self
    }

    /// Leaves near-duplicates where they rank. Default: of the best 200 candidates, near-duplicates of a better one
    /// come after all others.
    pub fn keep_duplicates(mut self) -> Self {
        self.keep_duplicates = true;
        self
    }

    /// Chooses hits that are unlike one another, by maximal marginal relevance (Carbonell and Goldstein, SIGIR 1998).
    /// `lambda` is 0 to 1: with 1 relevance alone counts, with 0 diversity alone, except for the first hit. Applies to
    /// the best 1,000 candidates; with a reranker, to those that it scored. Default: off.
    pub fn diversity(mut self, lambda: f32) -> Self {
        self.diversity = Some(lambda);
        self
    }

    /// Finds at most this many hits, at least 1, of each flushed batch. Messages that were put without a session's
    /// buffer are in no batch. Default: no limit.
    pub fn per_batch(mut self, hits: usize) -> Self {
        self.per_batch = Some(hits);
        self
    }

    /// Returns no hits if [`Hits::answerability`](crate::Hits::answerability) is below this, 0 to 1. Default: the best
    /// are returned, however bad they are.
    pub fn answerable(mut self, least: f32) -> Self {
        self.answerable = Some(least);
        self
    }

    /// Reorders the best `depth` candidates, 1 to [`MAX_K`] and at least k, by the engine's
    /// [`Reranker`](crate::Reranker). Cost: one run of its model per candidate. The recall fails if the engine has no
    /// reranker. Default: off.
    pub fn rerank(mut self, depth: usize) -> Self {
        self.rerank = Some(depth);
        self
    }

    /// Keeps hits of the previous query of this conversation, given by id in order, in their positions, as long as they
    /// are among the best k and half as many more, and have any evidence; the best of the others fill the rest. A
    /// prompt that lists the hits in order then changes no more than it must, and a provider's prompt cache keeps its
    /// prefix.
    pub fn previous<I: Into<String>>(mut self, ids: impl IntoIterator<Item = I>) -> Self {
        self.previous = ids.into_iter().map(Into::into).collect();
        self
    }

    /// Sets how far the recall may be behind what other machines wrote, in an engine with a
    /// [shared](crate::EngineBuilder::shared) database. Default: as [`EngineBuilder::freshness`](crate::EngineBuilder::freshness)
    /// says. The namespaces under a prefix of a [`Scope`](crate::Scope) are as fresh as the engine's default.
    pub fn freshness(mut self, freshness: Freshness) -> Self {
        self.freshness = Some(freshness);
        self
    }

    /// Limits the time of the recall to about this long. When it is over, the best hits found so far are returned, and
    /// [`Hits::cut_short`](crate::Hits::cut_short) is true. If the query is not embedded in three quarters of the time, the
    /// hits are found by words alone; where words are no answer ([`RankingStrategy::Dense`], [`Query::answerable`]) the
    /// recall fails when all of it is over. A filter that was not evaluated in time matches nothing. A query of several
    /// windows is searched by those that were embedded in time. Not interrupted are the loading of a namespace at its first
    /// query, and a reranker. Default: no limit.
    pub fn within(mut self, budget: Duration) -> Self {
        self.budget = Some(budget);
        self
    }

    pub(crate) fn check(&self) -> Result<()> {
        if !(1..=MAX_K).contains(&self.k) {
            return Err(Error::query(format!("k is {}, not within 1 to {MAX_K}", self.k)));
        }
        if self.text.trim().is_empty() {
            return Err(Error::query("the text is empty"));
        }
        check_query_text(&self.text)?;
        if let (Some(since), Some(until)) = (self.filter.since, self.filter.until)
            && since >= until
        {
            return Err(Error::query(format!("no time is both since {since} and before {until}")));
        }
        let shares = [
            ("weighted", if let RankingStrategy::Weighted(share) = self.ranking.strategy { Some(share) } else { None }),
            ("diversity", self.diversity),
            ("answerable", self.answerable),
        ];
        for (name, share) in shares {
            if let Some(share) = share.filter(|share| !(0.0..=1.0).contains(share)) {
                return Err(Error::query(format!("{name} is {share}, not within 0 to 1")));
            }
        }
        if self.per_batch == Some(0) {
            return Err(Error::query("per_batch is 0: no message would be found; give at least 1"));
        }
        if self.ranking.half_life.is_some_and(|half_life| half_life.is_zero()) {
            return Err(Error::query("the half-life is 0; give a duration, or none"));
        }
        if let Some(depth) = self.rerank.filter(|depth| !(1..=MAX_K).contains(depth)) {
            return Err(Error::query(format!("rerank is {depth}, not within 1 to {MAX_K}")));
        }
        Ok(())
    }
}

/// Checks the length of the text of a query. Its cost grows with the length.
pub(crate) fn check_query_text(text: &str) -> Result<()> {
    if text.len() > MAX_QUERY_BYTES {
        return Err(Error::query(format!(
            "the text has {} bytes, the maximum is {MAX_QUERY_BYTES}; give the part that says what to find",
            text.len()
        )));
    }
    Ok(())
}

impl Filter {
    pub(crate) fn is_empty(&self) -> bool {
        *self == Filter::default()
    }

    pub(crate) fn is_session_only(&self) -> bool {
        *self == Filter { session: self.session.clone(), ..Filter::default() }
    }

    pub(crate) fn allows_message(&self, message: &Message) -> bool {
        self.allows(message.role, message.created_at)
            && self.session.as_ref().is_none_or(|session| *session == message.session)
            && self.metadata.as_ref().is_none_or(|metadata| metadata.matches_fields(message))
            && self.ids.as_ref().is_none_or(|ids| ids.contains(&message.id))
    }

    /// Returns true if there is a limit on time.
    pub(crate) fn has_times(&self) -> bool {
        self.since.is_some() || self.until.is_some() || !self.spans.is_empty()
    }

    /// Returns whether all times from `first` to `last` are allowed, or none; `None` if that depends on the time.
    pub(crate) fn allows_times(&self, first: Timestamp, last: Timestamp) -> Option<bool> {
        let is_outside = self.since.is_some_and(|since| last < since)
            || self.until.is_some_and(|until| first >= until)
            || (!self.spans.is_empty() && self.spans.iter().all(|span| last < span.since || first >= span.until));
        let is_inside = self.since.is_none_or(|since| first >= since)
            && self.until.is_none_or(|until| last < until)
            && (self.spans.is_empty() || self.spans.iter().any(|span| span.contains(first) && span.contains(last)));
        match (is_inside, is_outside) {
            (true, _) => Some(true),
            (_, true) => Some(false),
            _ => None,
        }
    }

    /// Returns true if the role and the time are allowed. A message without a time is outside of every limit on time; it
    /// may have been known at any time.
    pub(crate) fn allows(&self, role: Role, time: Option<Timestamp>) -> bool {
        self.role.is_none_or(|wanted| wanted == role)
            && self.since.is_none_or(|since| time.is_some_and(|time| time >= since))
            && self.until.is_none_or(|until| time.is_some_and(|time| time < until))
            && (self.spans.is_empty() || time.is_some_and(|time| self.spans.iter().any(|span| span.contains(time))))
            && self.as_of.is_none_or(|as_of| time.is_none_or(|time| time <= as_of))
    }
}
