//! The options of a query: all that decides what it finds, besides its text.
//!
//! The options are told once, in [`QueryOptions`]: [`Query`](super::Query) builds them, the journal keeps those that are
//! not the default, as JSON by the names of the fields. The names and the forms of the values are stored, so they never
//! change.

use std::{collections::BTreeSet, fmt, str::FromStr, time::Duration};

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

use crate::{
    error::{Error, Result},
    filter::MetadataFilter,
    message::{Role, Timestamp},
};

/// The greatest number of hits of one recall.
pub const MAX_K: usize = 10_000;

/// The least number of messages that are chosen before they are joined to sessions.
const SESSION_MESSAGES: usize = 100;
/// The number of messages that are chosen for each session.
const MESSAGES_EACH: usize = 5;

/// The options of a [`Query`](super::Query), with the names and the meanings of its methods, as JSON has them. It has
/// neither the time budget nor the freshness, which decide when a recall ends and not what it looks for.
///
/// ```
/// use mnemon::{Query, QueryOptions, RankingStrategy};
/// let options: QueryOptions = serde_json::from_str(r#"{"k": 5, "session": "s1", "strategy": "lexical"}"#).unwrap();
/// let query = Query::new("bike").k(5).session("s1").strategy(RankingStrategy::Lexical);
/// assert_eq!(Query::with_options("bike", options), query);
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct QueryOptions {
    pub(crate) k: usize,
    pub(crate) session: Option<String>,
    pub(crate) role: Option<Role>,
    pub(crate) since: Option<Timestamp>,
    pub(crate) until: Option<Timestamp>,
    pub(crate) as_of: Option<Timestamp>,
    pub(crate) filter: Option<MetadataFilter>,
    pub(crate) ids: Option<BTreeSet<String>>,
    pub(crate) except: BTreeSet<String>,
    #[serde(serialize_with = "as_text", deserialize_with = "from_text")]
    pub(crate) strategy: RankingStrategy,
    pub(crate) neighbors: bool,
    pub(crate) speakers: bool,
    pub(crate) questions: bool,
    pub(crate) vocabulary: bool,
    pub(crate) length_prior: bool,
    /// As JSON in seconds.
    #[serde(serialize_with = "as_seconds", deserialize_with = "from_seconds")]
    pub(crate) half_life: Option<Duration>,
    #[serde(serialize_with = "as_text", deserialize_with = "from_text")]
    pub(crate) time: TimeUse,
    pub(crate) now: Option<Timestamp>,
    pub(crate) keep_duplicates: bool,
    pub(crate) diversity: Option<f32>,
    pub(crate) per_batch: Option<usize>,
    pub(crate) answerable: Option<f32>,
    pub(crate) rerank: Option<usize>,
    pub(crate) previous: Vec<String>,
    #[serde(serialize_with = "as_text", deserialize_with = "from_text")]
    pub(crate) unit: Unit,
}

impl Default for QueryOptions {
    fn default() -> Self {
        QueryOptions {
            k: 10,
            session: None,
            role: None,
            since: None,
            until: None,
            as_of: None,
            filter: None,
            ids: None,
            except: BTreeSet::new(),
            strategy: RankingStrategy::Hybrid,
            neighbors: true,
            speakers: true,
            questions: true,
            vocabulary: true,
            length_prior: true,
            half_life: None,
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
}

impl QueryOptions {
    /// Returns the options that are not the default, as JSON.
    pub(super) fn changed(&self) -> Map<String, Value> {
        let fields = |options: &QueryOptions| match serde_json::to_value(options) {
            Ok(Value::Object(fields)) => fields,
            _ => unreachable!("a struct of plain types serializes to an object"),
        };
        let default = fields(&QueryOptions::default());
        let mut changed = fields(self);
        changed.retain(|name, value| default.get(name) != Some(value));
        changed
    }

    /// Reads what [`changed`](Self::changed) returned.
    ///
    /// # Errors
    /// [`Error::InvalidQuery`]: an unknown option, or a value that the option does not have.
    pub(super) fn from_changed(changed: &Map<String, Value>) -> Result<Self> {
        serde_json::from_value(Value::Object(changed.clone()))
            .map_err(|error| Error::query(format!("its options are of another release: {error}; use that release")))
    }

    pub(super) fn check(&self) -> Result<()> {
        if !(1..=MAX_K).contains(&self.k) {
            return Err(Error::query(format!("k is {}, not within 1 to {MAX_K}", self.k)));
        }
        if let (Some(since), Some(until)) = (self.since, self.until)
            && since >= until
        {
            return Err(Error::query(format!("no time is both since {since} and before {until}")));
        }
        let shares = [
            ("weighted", if let RankingStrategy::Weighted(share) = self.strategy { Some(share) } else { None }),
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
        if self.half_life.is_some_and(|half_life| half_life.is_zero()) {
            return Err(Error::query("the half-life is 0; give a duration, or none"));
        }
        if let Some(depth) = self.rerank.filter(|depth| !(1..=MAX_K).contains(depth)) {
            return Err(Error::query(format!("rerank is {depth}, not within 1 to {MAX_K}")));
        }
        Ok(())
    }
}

fn as_text<S: Serializer>(value: &impl fmt::Display, serializer: S) -> std::result::Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}

fn from_text<'de, T: FromStr<Err = Error>, D: Deserializer<'de>>(deserializer: D) -> std::result::Result<T, D::Error> {
    String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
}

fn as_seconds<S: Serializer>(duration: &Option<Duration>, serializer: S) -> std::result::Result<S::Ok, S::Error> {
    duration.map(|duration| duration.as_secs_f64()).serialize(serializer)
}

fn from_seconds<'de, D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Option<Duration>, D::Error> {
    let seconds: Option<f64> = Option::deserialize(deserializer)?;
    seconds.map(Duration::try_from_secs_f64).transpose().map_err(serde::de::Error::custom)
}

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

impl fmt::Display for TimeUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TimeUse::Ignore => "ignore",
            TimeUse::Boost => "boost",
            TimeUse::Filter => "filter",
        })
    }
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

/// The kind of thing that a recall finds and that k counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unit {
    /// Single messages.
    #[default]
    Message,
    /// Turns: a user's message with everything up to the next one in its session, such as the answer and the results of
    /// tools. In a chat between people, all of them users, a message each.
    Turn,
    /// Whole sessions. A hybrid recall ranks them by the sum of the odds of their five best messages.
    Session,
}

impl FromStr for Unit {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        match name {
            "message" => Ok(Unit::Message),
            "turn" => Ok(Unit::Turn),
            "session" => Ok(Unit::Session),
            _ => Err(Error::query(format!("unit {name:?} is not one of message, turn, session"))),
        }
    }
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Unit::Message => "message",
            Unit::Turn => "turn",
            Unit::Session => "session",
        })
    }
}

impl Unit {
    /// Returns the number of messages to choose for this many units.
    pub(super) fn messages(self, units: usize) -> usize {
        match self {
            Unit::Message => units,
            Unit::Turn => 2 * units,
            Unit::Session => (MESSAGES_EACH * units).max(SESSION_MESSAGES),
        }
    }
}
