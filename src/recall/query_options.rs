//! The options of a query as JSON, for the journal.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::query::{Query, TimeUse};
use crate::{
    error::{Error, Result},
    filter::MetadataFilter,
    message::{Role, Timestamp},
};

/// The options of a query that decide what it finds, in plain types.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct QueryOptions {
    k: usize,
    session: Option<String>,
    role: Option<Role>,
    since: Option<Timestamp>,
    until: Option<Timestamp>,
    as_of: Option<Timestamp>,
    filter: Option<MetadataFilter>,
    ids: Option<Vec<String>>,
    except: Vec<String>,
    strategy: String,
    neighbors: bool,
    speakers: bool,
    questions: bool,
    vocabulary: bool,
    length_prior: bool,
    /// In seconds.
    half_life: Option<f64>,
    time: String,
    now: Option<Timestamp>,
    keep_duplicates: bool,
    diversity: Option<f32>,
    per_batch: Option<usize>,
    answerable: Option<f32>,
    rerank: Option<usize>,
    previous: Vec<String>,
    unit: String,
}

impl Query {
    /// Returns the options that are not the default, by the names of the methods that set them, without the time budget
    /// and the freshness.
    pub fn options(&self) -> Map<String, Value> {
        let default = QueryOptions::of(&Query::new("")).fields();
        let mut fields = QueryOptions::of(self).fields();
        fields.retain(|name, value| default.get(name) != Some(value));
        fields
    }

    /// Makes a query from what [`options`](Self::options) returned.
    ///
    /// # Errors
    /// [`Error::InvalidQuery`]: an unknown option, or a value that the option does not have.
    pub(crate) fn from_options(text: &str, options: &Map<String, Value>) -> Result<Self> {
        let mut fields = QueryOptions::of(&Query::new("")).fields();
        fields.extend(options.clone());
        let options: QueryOptions = serde_json::from_value(Value::Object(fields))
            .map_err(|error| Error::query(format!("its options are of another release: {error}; use that release")))?;
        options.query(text)
    }
}

impl QueryOptions {
    fn of(query: &Query) -> Self {
        let Query { k, filter, except, ranking, now, keep_duplicates, diversity, .. } = query;
        let time = match query.time {
            TimeUse::Ignore => "ignore",
            TimeUse::Boost => "boost",
            TimeUse::Filter => "filter",
        };
        QueryOptions {
            k: *k,
            session: filter.session.clone(),
            role: filter.role,
            since: filter.since,
            until: filter.until,
            as_of: filter.as_of,
            filter: filter.metadata.clone(),
            ids: filter.ids.as_ref().map(|ids| ids.iter().cloned().collect()),
            except: except.iter().cloned().collect(),
            strategy: ranking.strategy.to_string(),
            neighbors: ranking.has_neighbors,
            speakers: ranking.has_speakers,
            questions: ranking.has_questions,
            vocabulary: ranking.has_vocabulary,
            length_prior: ranking.has_prior,
            half_life: ranking.half_life.map(|half_life| half_life.as_secs_f64()),
            time: time.to_owned(),
            now: *now,
            keep_duplicates: *keep_duplicates,
            diversity: *diversity,
            per_batch: query.per_batch,
            answerable: query.answerable,
            rerank: query.rerank,
            previous: query.previous.clone(),
            unit: query.unit.to_string(),
        }
    }

    fn fields(&self) -> Map<String, Value> {
        match serde_json::to_value(self) {
            Ok(Value::Object(fields)) => fields,
            _ => unreachable!("a struct of plain types serializes to an object"),
        }
    }

    fn query(self, text: &str) -> Result<Query> {
        let mut query = Query::new(text);
        (query.k, query.now, query.keep_duplicates, query.diversity) =
            (self.k, self.now, self.keep_duplicates, self.diversity);
        (query.per_batch, query.answerable, query.rerank) = (self.per_batch, self.answerable, self.rerank);
        (query.previous, query.except) = (self.previous, self.except.into_iter().collect());
        (query.time, query.unit) = (self.time.parse()?, self.unit.parse()?);
        let half_life = self.half_life.map(Duration::try_from_secs_f64).transpose();
        let filter = &mut query.filter;
        (filter.session, filter.role, filter.since, filter.until) = (self.session, self.role, self.since, self.until);
        (filter.as_of, filter.metadata) = (self.as_of, self.filter);
        filter.ids = self.ids.map(|ids| ids.into_iter().collect());
        let ranking = &mut query.ranking;
        ranking.strategy = self.strategy.parse()?;
        (ranking.has_neighbors, ranking.has_prior) = (self.neighbors, self.length_prior);
        (ranking.has_speakers, ranking.has_questions) = (self.speakers, self.questions);
        ranking.has_vocabulary = self.vocabulary;
        ranking.half_life = half_life.map_err(|error| Error::query(format!("its half-life: {error}")))?;
        Ok(query)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recall::{RankingStrategy, Unit};

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
        let query = Query::new("x").speakers(false).questions(false).vocabulary(false).unit(Unit::Session);
        check(query, &["questions", "speakers", "unit", "vocabulary"]);
        let unknown = serde_json::json!({"later": 1}).as_object().unwrap().clone();
        assert!(Query::from_options("x", &unknown).is_err());
    }
}
