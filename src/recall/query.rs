//! The question: what is asked, which messages count, and how they are ranked.

use std::{collections::BTreeSet, fmt, str::FromStr, time::Duration};

use super::when::TimeSpan;
use crate::{
    error::{Error, Result},
    message::{Message, Role, Timestamp},
};

/// The most hits of one recall.
pub const MAX_K: usize = 10_000;

/// How candidates are ranked.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub enum Strategy {
    /// Dense and lexical evidence weighed by what the scores are like, with what neighbouring turns lend and a prior for
    /// length: see [`Parts`](crate::Parts). Never much worse than the better of its parts, commonly better than both.
    #[default]
    Hybrid,
    /// By the cosine of the vectors alone.
    Dense,
    /// By BM25 alone; what shares no term with the question comes after, by cosine.
    Lexical,
    /// Reciprocal-rank fusion of the two (Cormack et al., SIGIR 2009), k = 60.
    ReciprocalRank,
    /// This share, 0 to 1, of the cosine and the rest of BM25, both scaled to 0 to 1 over the candidates.
    Weighted(f32),
}

impl FromStr for Strategy {
    type Err = Error;

    /// `hybrid`, `dense`, `lexical`, `rrf` or `weighted:0.5`.
    fn from_str(name: &str) -> Result<Self> {
        Ok(match name {
            "hybrid" => Strategy::Hybrid,
            "dense" => Strategy::Dense,
            "lexical" => Strategy::Lexical,
            "rrf" => Strategy::ReciprocalRank,
            _ => match name.strip_prefix("weighted:").and_then(|share| share.parse().ok()) {
                Some(share) if (0.0..=1.0).contains(&share) => Strategy::Weighted(share),
                _ => {
                    return Err(Error::query(format!(
                        "strategy {name:?} is not one of hybrid, dense, lexical, rrf, weighted:0.5 (a share, 0 to 1)"
                    )));
                }
            },
        })
    }
}

impl fmt::Display for Strategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Strategy::Hybrid => f.write_str("hybrid"),
            Strategy::Dense => f.write_str("dense"),
            Strategy::Lexical => f.write_str("lexical"),
            Strategy::ReciprocalRank => f.write_str("rrf"),
            Strategy::Weighted(share) => write!(f, "weighted:{share}"),
        }
    }
}

/// What is made of times that a question says, such as "last week" or "in May 2023".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum TimeUse {
    /// Nothing.
    Ignore,
    /// Messages of that time rank higher.
    #[default]
    Boost,
    /// Only messages of that time, if the question says one.
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

/// A question to a namespace: a text, how many hits, which messages count, and how they are ranked.
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
    pub(crate) budget: Option<Duration>,
    pub(crate) ranking: Ranking,
    pub(crate) time: TimeUse,
    pub(crate) now: Option<Timestamp>,
    pub(crate) keep_duplicates: bool,
    pub(crate) diversity: Option<f32>,
    pub(crate) per_batch: Option<usize>,
    pub(crate) answerable: Option<f32>,
    pub(crate) rerank: Option<usize>,
    pub(crate) previous: Vec<String>,
}

/// How candidates are scored.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Ranking {
    pub(crate) strategy: Strategy,
    pub(crate) has_neighbors: bool,
    pub(crate) has_prior: bool,
    pub(crate) half_life: Option<Duration>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Filter {
    pub(crate) session: Option<String>,
    pub(crate) role: Option<Role>,
    pub(crate) since: Option<Timestamp>,
    pub(crate) until: Option<Timestamp>,
    /// Within any of these, if there are some.
    pub(crate) spans: Vec<TimeSpan>,
}

impl Query {
    /// The 10 best over the whole namespace. Text over the model's limit is split into windows, none is cut.
    pub fn new(text: impl Into<String>) -> Self {
        Query {
            text: text.into(),
            k: 10,
            filter: Filter::default(),
            except: BTreeSet::new(),
            budget: None,
            ranking: Ranking { strategy: Strategy::Hybrid, has_neighbors: true, has_prior: true, half_life: None },
            time: TimeUse::Boost,
            now: None,
            keep_duplicates: false,
            diversity: None,
            per_batch: None,
            answerable: None,
            rerank: None,
            previous: Vec::new(),
        }
    }

    /// What is asked.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// This many hits, 1 to [`MAX_K`], or all that match if they are fewer.
    pub fn k(mut self, k: usize) -> Self {
        self.k = k;
        self
    }

    /// Only messages of this session.
    pub fn session(mut self, session: impl Into<String>) -> Self {
        self.filter.session = Some(session.into());
        self
    }

    /// Only messages of this role.
    pub fn role(mut self, role: Role) -> Self {
        self.filter.role = Some(role);
        self
    }

    /// Only messages of this moment or later.
    pub fn since(mut self, time: Timestamp) -> Self {
        self.filter.since = Some(time);
        self
    }

    /// Only messages before this moment.
    pub fn until(mut self, time: Timestamp) -> Self {
        self.filter.until = Some(time);
        self
    }

    /// None of these messages, by id: what the prompt shows already, say. Unknown ids are ignored.
    pub fn except<I: Into<String>>(mut self, ids: impl IntoIterator<Item = I>) -> Self {
        self.except.extend(ids.into_iter().map(Into::into));
        self
    }

    /// How candidates are ranked. Default: [`Strategy::Hybrid`].
    pub fn strategy(mut self, strategy: Strategy) -> Self {
        self.ranking.strategy = strategy;
        self
    }

    /// Whether turns next to one that shares the question's terms rank higher for it, in [`Strategy::Hybrid`]. Default: true.
    pub fn neighbors(mut self, has_neighbors: bool) -> Self {
        self.ranking.has_neighbors = has_neighbors;
        self
    }

    /// Whether a message's length counts, in [`Strategy::Hybrid`]: long ones of a role say more than short ones, and each
    /// word of a role with much longer messages than others says less. Default: true.
    pub fn length_prior(mut self, has_prior: bool) -> Self {
        self.ranking.has_prior = has_prior;
        self
    }

    /// Newer messages rank higher, in [`Strategy::Hybrid`]: by up to 2 points of score, by half as much for each half-life
    /// of age. Default: age does not count.
    pub fn half_life(mut self, half_life: Duration) -> Self {
        self.ranking.half_life = Some(half_life);
        self
    }

    /// The moment that ages and words such as "last week" are counted from. Default: now, by the system's clock.
    pub fn now(mut self, now: Timestamp) -> Self {
        self.now = Some(now);
        self
    }

    /// What is made of times that the question says ([`time_expressions`](crate::time_expressions)). Default:
    /// [`TimeUse::Boost`].
    pub fn time(mut self, time: TimeUse) -> Self {
        self.time = time;
        self
    }

    /// Leaves near-duplicates where they rank. Default: those among the best 200 come after the other candidates, in order.
    pub fn keep_duplicates(mut self) -> Self {
        self.keep_duplicates = true;
        self
    }

    /// Chooses hits that are unlike one another, by maximal marginal relevance (Carbonell and Goldstein, SIGIR 1998).
    /// `lambda`, 0 to 1: with 1 relevance alone counts, with 0 diversity alone, but for the first. Of the best 1,000 at the
    /// most; of what was reranked, if some was. Default: not done.
    pub fn diversity(mut self, lambda: f32) -> Self {
        self.diversity = Some(lambda);
        self
    }

    /// At most this many hits, at least 1, of what was flushed together; what was put without a session's buffer was not.
    /// Default: no limit.
    pub fn per_batch(mut self, hits: usize) -> Self {
        self.per_batch = Some(hits);
        self
    }

    /// No hits at all if [`Hits::answerability`](crate::Hits::answerability) is below this, 0 to 1. Default: the best are given,
    /// however bad.
    pub fn answerable(mut self, least: f32) -> Self {
        self.answerable = Some(least);
        self
    }

    /// Has the engine's [`Reranker`](crate::Reranker) put the best `depth` candidates, 1 to [`MAX_K`], in order, at least k of
    /// them. Costs a run of its model for each. An error, if the engine has none. Default: not done.
    pub fn rerank(mut self, depth: usize) -> Self {
        self.rerank = Some(depth);
        self
    }

    /// What the last question of this conversation found, by id in order. Those of them that still are about good enough, which
    /// is among the best k and half as many more, keep their places; the best of the others fill the rest. So a prompt that
    /// tells the hits in order changes no more than it must, and a provider's prompt cache holds.
    pub fn previous<I: Into<String>>(mut self, ids: impl IntoIterator<Item = I>) -> Self {
        self.previous = ids.into_iter().map(Into::into).collect();
        self
    }

    /// At most about this long, from when the recall begins: then the best found so far are the answer, which says so
    /// ([`Hits::cut_short`](crate::Hits::cut_short)). The answer is by words alone if the embedder is busy for so long; an error
    /// where words do not count ([`Strategy::Dense`], [`Query::answerable`]). Embedding the text is not cut short once it has
    /// begun, nor is the loading of a namespace that was not asked before, nor a reranker. Default: as long as it takes.
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
        if let (Some(since), Some(until)) = (self.filter.since, self.filter.until)
            && since >= until
        {
            return Err(Error::query(format!("no time is both since {since} and before {until}")));
        }
        let is_share = |share: f32| (0.0..=1.0).contains(&share);
        let shares = [
            ("weighted", if let Strategy::Weighted(share) = self.ranking.strategy { Some(share) } else { None }),
            ("diversity", self.diversity),
            ("answerable", self.answerable),
        ];
        for (name, share) in shares {
            if let Some(share) = share.filter(|&share| !is_share(share)) {
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
    }

    /// Whether role and time are allowed. A message without a time matches no limit.
    pub(crate) fn allows(&self, role: Role, time: Option<Timestamp>) -> bool {
        self.role.is_none_or(|wanted| wanted == role)
            && self.since.is_none_or(|since| time.is_some_and(|time| time >= since))
            && self.until.is_none_or(|until| time.is_some_and(|time| time < until))
            && (self.spans.is_empty()
                || time.is_some_and(|time| self.spans.iter().any(|span| time >= span.since && time < span.until)))
    }
}
