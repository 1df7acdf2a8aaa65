//! The options of a query: all that decides what it finds, besides its text.
//!
//! The options are told once, in [`QueryOptions`], with their defaults, ranges and units: [`Query`](super::Query) builds
//! them, the journal keeps those that are not the default, and the server reads and describes them, as JSON by the names of
//! the fields. The names and the forms of the values are stored, so they never change.

use std::{collections::BTreeSet, fmt, str::FromStr, time::Duration};

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

#[cfg(doc)]
use crate::message::Message;
use crate::{
    error::{Error, Result},
    filter::MetadataFilter,
    message::{LocalTime, Role, TimeZone, Timestamp},
};

/// The greatest number of hits of one recall.
pub const MAX_K: usize = 10_000;

/// A pattern of the names of ranking strategies.
#[cfg(feature = "schemars")]
const STRATEGY: &str = r"^(hybrid|dense|lexical|rrf|reciprocal-rank|weighted:(0(\.[0-9]+)?|1(\.0+)?))$";

/// The number of messages that are chosen before they are joined to sessions, unless these are too few.
pub(super) const SESSION_MESSAGES: usize = 100;
/// The factor by which a wider search looks for more messages.
pub(super) const WIDENING: usize = 4;

/// The options of a [`Query`](super::Query). It has neither the time budget nor the freshness, which decide when a recall
/// ends and not what it looks for.
///
/// In JSON it is an object of these fields, each of which may be missing. The first paragraph about a field is also its
/// description in the server's schema.
///
/// ```
/// use mnemon::{Query, QueryOptions, RankingStrategy};
/// let options: QueryOptions = serde_json::from_str(r#"{"k": 5, "session": "s1", "strategy": "lexical"}"#).unwrap();
/// let query = Query::new("bike").k(5).session("s1").strategy(RankingStrategy::Lexical);
/// assert_eq!(Query::with_options("bike", options), query);
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct QueryOptions {
    /// Number of hits: messages, or what `unit` says. There are fewer if the filters allow fewer.
    ///
    /// It is at most [`MAX_K`].
    #[cfg_attr(feature = "schemars", schemars(range(min = 1, max = MAX_K)))]
    pub k: usize,
    /// Only messages of this session.
    pub session: Option<String>,
    /// Only messages of this role.
    pub role: Option<Role>,
    /// Only messages of this time or later.
    pub since: Option<Timestamp>,
    /// Only messages before this time.
    pub until: Option<Timestamp>,
    /// Only what was known at this time: messages that had been put by then, and are of no later time. It is also the
    /// default of `now`.
    ///
    /// The time of a message is its [`created_at`](field@Message::created_at), if it has one. The namespace is asked as it
    /// is today: messages that were deleted since are not found, those that were edited have their present text, and scores
    /// are scaled by the statistics of all messages. With [`Config::keep_versions`](field@crate::Config::keep_versions)
    /// an edited message is found by the words that it had then, and by the vector of its present text, and is returned
    /// as it was. A message that was moved to another session counts as put then, and so does an imported one by its
    /// import. In a copy of a [shared](crate::EngineBuilder::shared) database, a message of another machine counts as
    /// put when this copy got it. For messages that were put by a release before 0.2.0, the time of the put is not
    /// known: `created_at` alone decides. Cost: a look at each vector's message, and a pass over the versions of the
    /// namespace.
    pub as_of: Option<Timestamp>,
    /// Only messages that this filter matches, by their metadata and by `$id`, `$session`, `$role`,
    /// `$source` and `$created_at`.
    ///
    /// The options `role`, `session`, `since`, `until` and `ids` are faster than the same conditions here. The first query
    /// with a path reads its values in all messages of the namespace. Later filters with the path are evaluated in memory,
    /// and messages that changed meanwhile are read again. A loaded namespace keeps the values of 32 paths, and the results
    /// of 64 filters.
    #[cfg_attr(feature = "schemars", schemars(with = "Option<Map<String, Value>>"))]
    pub filter: Option<MetadataFilter>,
    /// Only the messages with these ids. Unknown ids are ignored.
    pub ids: Option<BTreeSet<String>>,
    /// Not the messages with these ids, such as those that the prompt already contains. Unknown ids are ignored.
    pub except: BTreeSet<String>,
    /// Whether messages are found that a later one supersedes by its field `supersedes`.
    ///
    /// See [`Message::supersedes`]. A hit that says the same in other words is found in any case, see
    /// [`Hit::supersedes`](crate::Hit::supersedes).
    pub include_superseded: bool,
    /// How messages are ranked: `hybrid`, `dense`, `lexical`, `rrf` (reciprocal-rank fusion), or `weighted:0.5` with the
    /// share of the dense score, 0 to 1.
    #[serde(serialize_with = "as_text", deserialize_with = "from_text")]
    #[cfg_attr(feature = "schemars", schemars(with = "String", regex(pattern = STRATEGY)))]
    pub strategy: RankingStrategy,
    /// Whether a hybrid ranking boosts messages within two turns of a lexical match.
    pub neighbors: bool,
    /// Whether a hybrid ranking boosts messages by a speaker whom the query names: of the words of the message's name, the
    /// query has at least one.
    pub speakers: bool,
    /// Whether a hybrid ranking has messages lower that end with a question mark: a question rarely answers one.
    pub questions: bool,
    /// Whether words count more and vectors less, in a hybrid ranking, where the model does not know the words of the query.
    ///
    /// The model's words are [`Embedder::known_words`](crate::Embedder::known_words).
    pub vocabulary: bool,
    /// Whether a message's length counts, in a hybrid ranking: messages of very few words rank lower, and so do messages of a
    /// role that writes much longer ones than others.
    pub length_prior: bool,
    /// Boosts newer messages in a hybrid ranking; the boost halves with each so many seconds of age. Without it, age does not
    /// count.
    ///
    /// The boost of a new message is 2 points of score.
    #[serde(serialize_with = "as_seconds", deserialize_with = "from_seconds")]
    #[cfg_attr(feature = "schemars", schemars(with = "Option<f64>", extend("exclusiveMinimum" = 0)))]
    pub half_life: Option<Duration>,
    /// How a time that the query names, such as "last week", is used: `boost` messages of that time, `filter` by it, or
    /// `ignore` it.
    #[serde(serialize_with = "as_text", deserialize_with = "from_text")]
    pub time: TimeUse,
    /// The time from which ages and expressions such as "last week" are counted. Default: that of `as_of`, or else the
    /// present.
    ///
    /// Its offset from UTC is that of the days that the query names, unless `time_zone` says otherwise.
    #[cfg_attr(feature = "schemars", schemars(with = "Option<Timestamp>"))]
    pub now: Option<LocalTime>,
    /// The time zone of the days that the query names, such as `Europe/Berlin` or `+02:00`. Default: the offset of `now`, or
    /// else the time zone of the machine on which the engine runs.
    pub time_zone: Option<TimeZone>,
    /// Do not move near-duplicates to the end.
    ///
    /// Otherwise, of the best 200 candidates, near-duplicates of a better one come after all others.
    pub keep_duplicates: bool,
    /// Maximal marginal relevance: 1 ranks by relevance alone, lower values prefer messages unlike each other.
    ///
    /// With 0 diversity alone counts, except for the first hit (Carbonell and Goldstein, SIGIR 1998). Applies to the best
    /// 1,000 candidates; with a reranker, to those that it scored.
    #[cfg_attr(feature = "schemars", schemars(range(min = 0, max = 1)))]
    pub diversity: Option<f32>,
    /// The most hits of each batch that a session flushed. Messages that were put without a session's buffer are in no batch.
    #[cfg_attr(feature = "schemars", schemars(range(min = 1)))]
    pub per_batch: Option<usize>,
    /// No hits if the answerability is below this, 0 to 1. Without it, the best are found, however bad they are.
    ///
    /// See [`Hits::answerability`](crate::Hits::answerability).
    #[cfg_attr(feature = "schemars", schemars(range(min = 0, max = 1)))]
    pub answerable: Option<f32>,
    /// Only hits of at least this relevance, 0 to 1. Without it, the best are found, however bad they are.
    ///
    /// See [`Hit::relevance`](crate::Hit::relevance): 0.02 leaves out what has hardly anything to do with the query, 0.1
    /// has two in three right, 0.3 four in five.
    #[cfg_attr(feature = "schemars", schemars(range(min = 0, max = 1)))]
    pub min_score: Option<f32>,
    /// Number of the best candidates that the reranker orders, at least `k`.
    ///
    /// It is at most [`MAX_K`]. Cost: one run of the [`Reranker`](crate::Reranker)'s model per candidate. The recall fails if the
    /// engine has no reranker.
    #[cfg_attr(feature = "schemars", schemars(range(min = 1, max = MAX_K)))]
    pub rerank: Option<usize>,
    /// Ids of the hits of the conversation's previous query, in order: those that still match keep their positions.
    ///
    /// They match as long as they are among the best k and half as many more, and have any evidence; the best of the others
    /// fill the rest. A prompt that lists the hits in order then changes no more than it must, and a provider's prompt cache
    /// keeps its prefix.
    pub previous: Vec<String>,
    /// The unit that `k` counts and that a hit is: a `message`; a `turn`, a user's message and what follows it; or a
    /// `session`. Turns and sessions come with their best message.
    #[serde(serialize_with = "as_text", deserialize_with = "from_text")]
    pub unit: Unit,
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
            include_superseded: false,
            strategy: RankingStrategy::Hybrid,
            neighbors: true,
            speakers: true,
            questions: true,
            vocabulary: true,
            length_prior: true,
            half_life: None,
            time: TimeUse::Boost,
            now: None,
            time_zone: None,
            keep_duplicates: false,
            diversity: None,
            per_batch: None,
            answerable: None,
            min_score: None,
            rerank: None,
            previous: Vec::new(),
            unit: Unit::Message,
        }
    }
}

impl QueryOptions {
    /// Returns the time zone of the days that the query names.
    pub(super) fn zone_of_days(&self) -> TimeZone {
        let zone = self.time_zone.clone().or_else(|| self.now.map(LocalTime::zone));
        zone.unwrap_or_else(TimeZone::system)
    }

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

    /// Reads options from JSON.
    ///
    /// # Errors
    /// [`Error::InvalidQuery`]: an unknown option, or a value that the option does not have. It names the option.
    pub fn from_json(options: &Map<String, Value>) -> Result<Self> {
        let read = |options: &Map<String, Value>| serde_json::from_value::<Self>(Value::Object(options.clone()));
        read(options).map_err(|error| {
            let mut alone = options.iter().map(|(name, value)| (name, Map::from_iter([(name.clone(), value.clone())])));
            let wrong = alone.find_map(|(name, option)| read(&option).err().map(|error| format!("{name}: {error}")));
            Error::query(wrong.unwrap_or_else(|| error.to_string()))
        })
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
            ("min_score", self.min_score),
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
            return Err(Error::query("half_life is 0; give a duration, or none"));
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
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema), schemars(rename_all = "lowercase"))]
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
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema), schemars(rename_all = "lowercase"))]
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
            Unit::Session => SESSION_MESSAGES,
        }
    }
}
