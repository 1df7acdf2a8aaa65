//! The query: its text and its options.

use std::{collections::HashMap, sync::Arc, time::Duration};

use serde_json::{Map, Value};

use super::options::{QueryOptions, RankingStrategy, TimeUse, Unit};
use crate::{
    config::Freshness,
    error::{Error, Result},
    filter::MetadataFilter,
    message::{LocalTime, MAX_MESSAGE_BYTES, Message, Role, TimeZone, Timestamp},
    read_budget::ReadBudget,
    store::SizedMessage,
};

/// The greatest number of bytes of a query's text: that of a message, so that every message can be a query.
pub const MAX_QUERY_BYTES: usize = MAX_MESSAGE_BYTES;

/// A query to a namespace: its text, the number of hits, the filter of messages, and their ranking.
///
/// ```
/// use mnemon::{Query, Role};
/// let query = Query::new("where does she keep her bike?").k(5).role(Role::User).session("2024-05");
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Query {
    pub(crate) text: String,
    pub(crate) options: QueryOptions,
    /// The sequence numbers of messages in `except`, as far as the caller knows them, in the one namespace that is asked.
    pub(crate) known_seqs: Arc<HashMap<String, u64>>,
    pub(crate) budget: Option<Duration>,
    /// The caller checks on each hit that the filter matches, because a hit does not have what it is evaluated on.
    pub(crate) defers_filter: bool,
    /// The vector of the text, which is then not embedded.
    pub(crate) vector: Option<Vec<f32>>,
    /// `None`: as the engine was opened for.
    pub(crate) freshness: Option<Freshness>,
    /// The parts of the messages that hits have.
    pub(crate) parts: MessageParts,
    /// The bytes that hits may take.
    pub(crate) read_budget: Option<ReadBudget>,
    pub(crate) without: Without,
}

/// Parts of the hybrid ranking that are left out, to measure what they do.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Without {
    /// Long texts are ranked as one.
    pub(crate) pieces: bool,
    /// No message comes before one that it supersedes.
    pub(crate) updates: bool,
    /// Only those that say the same in the same words are superseded.
    pub(crate) change_words: bool,
    /// What repeats the question is ranked as other messages are.
    pub(crate) echo: bool,
}

/// The parts of its message that a hit has.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) enum MessageParts {
    #[default]
    All,
    WithoutMetadata,
    /// The id, the session, the role, the name and the times.
    WithoutContent,
}

impl MessageParts {
    /// Returns a message with these parts, and with the content that its hit is made of, and the bytes that it takes in the hit.
    pub(super) fn of(self, sized: SizedMessage) -> (Message, usize) {
        let SizedMessage { message, content_bytes, metadata_bytes } = sized;
        let without_metadata = |message| Message { metadata: Map::new(), ..message };
        match self {
            MessageParts::All => (message, content_bytes + metadata_bytes),
            MessageParts::WithoutMetadata => (without_metadata(message), content_bytes),
            MessageParts::WithoutContent => (without_metadata(message), size_of::<Message>()),
        }
    }
}

impl Query {
    /// Makes a query for the 10 best messages of the whole namespace. A hybrid ranking cuts a text of more than two sentences
    /// into pieces, and ranks a message by the piece that it answers best. Of a text beyond the model's limit the first and
    /// the last 8 chunks are embedded; its words count all. A recall refuses text of more than [`MAX_QUERY_BYTES`].
    pub fn new(text: impl Into<String>) -> Self {
        Query::with_options(text, QueryOptions::default())
    }

    /// Makes a query with these options.
    pub fn with_options(text: impl Into<String>, options: QueryOptions) -> Self {
        Query {
            text: text.into(),
            options,
            known_seqs: Arc::default(),
            defers_filter: false,
            vector: None,
            budget: None,
            freshness: None,
            parts: MessageParts::All,
            read_budget: None,
            without: Without::default(),
        }
    }

    /// Makes a query from what [`options`](Self::options) returned.
    ///
    /// # Errors
    /// [`Error::InvalidQuery`]: an unknown option, or a value that the option does not have.
    pub(crate) fn from_options(text: &str, options: &Map<String, Value>) -> Result<Self> {
        let read = QueryOptions::from_json(options);
        let of_another = |error| Error::query(format!("its options are of another release: {error}; use that release"));
        Ok(Query::with_options(text, read.map_err(of_another)?))
    }

    /// The text of the query.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the options that are not the default, by the names of the methods that set them, without the time budget
    /// and the freshness.
    pub fn options(&self) -> Map<String, Value> {
        self.options.changed()
    }

    /// Sets [`QueryOptions::k`], the number of hits. Default: 10.
    pub fn k(mut self, k: usize) -> Self {
        self.options.k = k;
        self
    }

    /// Finds only messages of this session.
    pub fn session(mut self, session: impl Into<String>) -> Self {
        self.options.session = Some(session.into());
        self
    }

    /// Finds only messages of this role.
    pub fn role(mut self, role: Role) -> Self {
        self.options.role = Some(role);
        self
    }

    /// Finds only messages of this time or later.
    pub fn since(mut self, time: Timestamp) -> Self {
        self.options.since = Some(time);
        self
    }

    /// Finds only messages before this time.
    pub fn until(mut self, time: Timestamp) -> Self {
        self.options.until = Some(time);
        self
    }

    /// Finds only what was known at this time: see [`QueryOptions::as_of`].
    pub fn as_of(mut self, time: Timestamp) -> Self {
        self.options.as_of = Some(time);
        self
    }

    /// Finds only messages that this filter matches: see [`QueryOptions::filter`]. Of several filters, all must match.
    pub fn filter(mut self, filter: MetadataFilter) -> Self {
        self.options.filter = Some(match self.options.filter.take() {
            None => filter,
            Some(other) => other.and(filter),
        });
        self
    }

    /// Finds only these messages, by id.
    pub fn ids<I: Into<String>>(mut self, ids: impl IntoIterator<Item = I>) -> Self {
        self.options.ids = Some(ids.into_iter().map(Into::into).collect());
        self
    }

    /// Leaves out these messages, too, by id.
    pub fn except<I: Into<String>>(mut self, ids: impl IntoIterator<Item = I>) -> Self {
        self.options.except.extend(ids.into_iter().map(Into::into));
        self
    }

    /// Sets the ranking strategy. Default: [`RankingStrategy::Hybrid`].
    pub fn strategy(mut self, strategy: RankingStrategy) -> Self {
        self.options.strategy = strategy;
        self
    }

    /// Sets [`QueryOptions::neighbors`]. Default: true.
    pub fn neighbors(mut self, neighbors: bool) -> Self {
        self.options.neighbors = neighbors;
        self
    }

    /// Sets [`QueryOptions::length_prior`]. Default: true.
    #[doc(hidden)]
    pub fn length_prior(mut self, length_prior: bool) -> Self {
        self.options.length_prior = length_prior;
        self
    }

    /// Sets [`QueryOptions::speakers`]. Default: true.
    #[doc(hidden)]
    pub fn speakers(mut self, speakers: bool) -> Self {
        self.options.speakers = speakers;
        self
    }

    /// Sets [`QueryOptions::questions`]. Default: true.
    #[doc(hidden)]
    pub fn questions(mut self, questions: bool) -> Self {
        self.options.questions = questions;
        self
    }

    /// Sets [`QueryOptions::vocabulary`]. Default: true.
    #[doc(hidden)]
    pub fn vocabulary(mut self, vocabulary: bool) -> Self {
        self.options.vocabulary = vocabulary;
        self
    }

    /// Finds whole turns or sessions: see [`QueryOptions::unit`]. Default: [`Unit::Message`].
    pub fn unit(mut self, unit: Unit) -> Self {
        self.options.unit = unit;
        self
    }

    /// Ranks newer messages higher: see [`QueryOptions::half_life`].
    pub fn half_life(mut self, half_life: Duration) -> Self {
        self.options.half_life = Some(half_life);
        self
    }

    /// Finds also messages that others supersede: see [`QueryOptions::include_superseded`].
    pub fn include_superseded(mut self) -> Self {
        self.options.include_superseded = true;
        self
    }

    /// Sets the time from which ages are counted: see [`QueryOptions::now`]. The days that the query names are those of a
    /// [`LocalTime`]'s offset, and of UTC with a [`Timestamp`].
    pub fn now(mut self, now: impl Into<LocalTime>) -> Self {
        self.options.now = Some(now.into());
        self
    }

    /// Sets the time zone of the days that the query names: see [`QueryOptions::time_zone`].
    pub fn time_zone(mut self, zone: TimeZone) -> Self {
        self.options.time_zone = Some(zone);
        self
    }

    /// Sets the use of times that the query's text names ([`time_expressions`](crate::time_expressions)). Default:
    /// [`TimeUse::Boost`].
    pub fn time(mut self, time: TimeUse) -> Self {
        self.options.time = time;
        self
    }

    /// Leaves near-duplicates where they rank: see [`QueryOptions::keep_duplicates`].
    pub fn keep_duplicates(mut self) -> Self {
        self.options.keep_duplicates = true;
        self
    }

    /// Chooses hits that are unlike one another: see [`QueryOptions::diversity`].
    pub fn diversity(mut self, lambda: f32) -> Self {
        self.options.diversity = Some(lambda);
        self
    }

    /// Finds at most this many hits of each flushed batch: see [`QueryOptions::per_batch`].
    pub fn per_batch(mut self, hits: usize) -> Self {
        self.options.per_batch = Some(hits);
        self
    }

    /// Finds nothing if the answerability is below this: see [`QueryOptions::answerable`].
    pub fn answerable(mut self, least: f32) -> Self {
        self.options.answerable = Some(least);
        self
    }

    /// Finds only messages of at least this relevance, 0 to 1: see [`QueryOptions::min_score`].
    pub fn min_score(mut self, least: f32) -> Self {
        self.options.min_score = Some(least);
        self
    }

    /// Reorders the best `depth` candidates by the engine's reranker: see [`QueryOptions::rerank`].
    pub fn rerank(mut self, depth: usize) -> Self {
        self.options.rerank = Some(depth);
        self
    }

    /// Keeps hits of the previous query in their positions: see [`QueryOptions::previous`].
    pub fn previous<I: Into<String>>(mut self, ids: impl IntoIterator<Item = I>) -> Self {
        self.options.previous = ids.into_iter().map(Into::into).collect();
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
    /// hits are found by words alone; where words are no answer ([`RankingStrategy::Dense`]) the recall fails when all of it is over. A filter that was not evaluated in time matches nothing. A query of several
    /// chunks is searched by those that were embedded in time. Not interrupted are the loading of a namespace at its first
    /// query, and a reranker. Default: no limit.
    pub fn within(mut self, budget: Duration) -> Self {
        self.budget = Some(budget);
        self
    }

    /// Returns hits without the metadata of their messages, which filters still see.
    #[doc(hidden)]
    pub fn without_metadata(mut self) -> Self {
        self.parts = MessageParts::WithoutMetadata;
        self
    }

    /// Leaves out a part of the hybrid ranking that has no option: `pieces`, `updates`, `changes` or `echo`.
    ///
    /// # Errors
    /// [`Error::InvalidQuery`]: another name.
    #[doc(hidden)]
    pub fn without(mut self, part: &str) -> Result<Self> {
        match part {
            "pieces" => self.without.pieces = true,
            "updates" => self.without.updates = true,
            "changes" => self.without.change_words = true,
            "echo" => self.without.echo = true,
            _ => return Err(Error::query(format!("the ranking has no part {part:?}"))),
        }
        Ok(self)
    }

    /// Lets the recall fail, before it is in memory, if its hits have more bytes than a budget has left.
    pub(crate) fn read_within(mut self, budget: &ReadBudget) -> Self {
        self.read_budget = Some(budget.clone());
        self
    }

    pub(crate) fn check(&self) -> Result<()> {
        if self.text.trim().is_empty() {
            return Err(Error::query("the text is empty"));
        }
        check_query_text(&self.text)?;
        self.options.check()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_survive_json() {
        let time: Timestamp = "2024-05-01T09:30:00.123456Z".parse().unwrap();
        let check = |query: Query, names: &[&str]| {
            let options = query.options();
            assert_eq!(options.keys().collect::<Vec<_>>(), names);
            let json = serde_json::to_string(&options).unwrap();
            assert_eq!(Query::from_options(query.text(), &serde_json::from_str(&json).unwrap()).unwrap(), query);
        };
        check(Query::new("x"), &[]);
        check(
            Query::new("x").k(3).diversity(0.3).strategy(RankingStrategy::Weighted(0.7)),
            &["diversity", "k", "strategy"],
        );
        let query = Query::new("x").session("s").role(Role::Tool).since(time).until(time).as_of(time).now(time);
        check(query, &["as_of", "now", "role", "session", "since", "until"]);
        let query =
            Query::new("x").filter(MetadataFilter::eq("a", 1).unwrap()).ids(["a"]).except(["b"]).previous(["c"]);
        check(query, &["except", "filter", "ids", "previous"]);
        let query = Query::new("x").neighbors(false).length_prior(false).half_life(Duration::from_millis(1500));
        check(query, &["half_life", "length_prior", "neighbors"]);
        let query = Query::new("x").time(TimeUse::Filter).keep_duplicates().per_batch(2).answerable(0.5).rerank(20);
        check(query, &["answerable", "keep_duplicates", "per_batch", "rerank", "time"]);
        check(Query::new("x").min_score(0.25), &["min_score"]);
        let query = Query::new("x").speakers(false).questions(false).vocabulary(false).unit(Unit::Session);
        check(query, &["questions", "speakers", "unit", "vocabulary"]);
        let unknown = serde_json::json!({"later": 1}).as_object().unwrap().clone();
        assert!(Query::from_options("x", &unknown).is_err());
    }

    /// Stored journals have these names and forms of values.
    #[test]
    fn stored_options_never_change() {
        let stored = serde_json::json!({
            "k": 3, "session": "s", "role": "tool", "since": "2024-05-01T09:30:00Z", "until": "2024-05-02T09:30:00Z",
            "as_of": "2024-05-03T00:00:00Z", "ids": ["a", "b"], "except": ["c"], "strategy": "weighted:0.25",
            "neighbors": false, "speakers": false, "questions": false, "vocabulary": false, "length_prior": false,
            "half_life": 1.5, "time": "ignore", "now": "2024-05-04T00:00:00Z", "keep_duplicates": true, "diversity": 0.5,
            "per_batch": 2, "answerable": 0.75, "min_score": 0.25, "rerank": 20, "previous": ["e", "d"], "unit": "turn"
        });
        let stored = stored.as_object().unwrap();
        assert_eq!(Query::from_options("x", stored).unwrap().options(), *stored);
    }
}
