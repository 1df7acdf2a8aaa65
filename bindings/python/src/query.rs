//! Queries and their hits.

use std::{str::FromStr, time::Duration};

use mnemon::{Error, Freshness, MetadataFilter, recall::QueryOptions};
use pyo3::{
    prelude::*,
    types::{PyDict, PyIterator, PyList, PyString},
};

use crate::{
    errors::{invalid, not_a, noted, raised},
    message::Message,
    values::{
        Count, Fields, List, LocalTime, Real, Text, Time, bad_filter, count, from_python, number, switch, texts,
        to_python,
    },
};

/// A query: its text, the number of hits, the filter of messages, and their ranking.
///
/// `k` is the greatest number of hits. `session`, `role`, `since` (included), `until` (excluded), `where` and `ids`
/// restrict the messages; `except_ids` are never hits, nor are messages that a later one `supersedes`,
/// unless `include_superseded`. `as_of` finds only what was known at that time: what had been
/// put, and is of no later time. "Yesterday" is a day of `time_zone`, such as `"Europe/Berlin"` or `"+02:00"`; without it, of
/// the offset of `now`, or else of the machine's time zone. Times are `datetime` with a time zone, or text such as `"2024-05-01T09:30:00Z"`. `where` is a filter on metadata, such as `{"topic": "boats"}` or
/// `{"price": {"$lt": 10}}`. `strategy` is `"hybrid"`, `"dense"`, `"lexical"`, `"rrf"` or `"weighted:0.5"`. `time` is
/// what a time that the text names does: `"boost"`, `"filter"` or `"ignore"`. `half_life` and `within` are in seconds:
/// the age at which a message counts half, and the time budget. `diversity` is from 0 (diverse) to 1 (relevance alone).
/// `rerank` is how many of the best the engine's reranker scores. `unit` is what `k` counts: `"message"`, `"turn"` or
/// `"session"`. `per_batch` is the most hits of each flushed batch. With `answerable`, there are no hits if the answerability
/// is below it, 0 to 1; with `min_score`, only those of at least this relevance, 0 to 1, by which hits of all recalls compare. `previous` are the ids that the conversation's previous query found, in order: those that still match
/// keep their positions. `freshness` is as of an engine with `shared`, for this query alone. Raises `InvalidQueryError` and
/// `InvalidFilterError`.
#[pyclass(frozen, eq, from_py_object, module = "mnemon")]
#[derive(Clone, PartialEq)]
pub(crate) struct Query {
    pub(crate) query: mnemon::Query,
    /// The time budget in seconds, and the freshness: the crate's options of a query are without them.
    within: Option<f64>,
    freshness: Option<Freshness>,
}

impl From<mnemon::Query> for Query {
    fn from(query: mnemon::Query) -> Self {
        Query { query, within: None, freshness: None }
    }
}

#[pymethods]
impl Query {
    #[new]
    #[pyo3(signature = (text, *, k = 10, session = None, role = None, since = None, until = None, r#where = None,
        ids = None, except_ids = None, include_superseded = false, strategy = None, neighbors = true, speakers = true, questions = true, vocabulary = true, length_prior = true,
        half_life = None, now = None, time_zone = None, time = None, keep_duplicates = false, diversity = None, rerank = None, within = None,
        unit = None, as_of = None, per_batch = None, answerable = None, min_score = None, previous = None, freshness = None))]
    #[expect(clippy::too_many_arguments, reason = "they are keywords in Python")]
    fn new(
        py: Python<'_>,
        text: Text,
        #[pyo3(from_py_with = count)] k: usize,
        session: Option<Text>,
        role: Option<Text>,
        since: Option<Time>,
        until: Option<Time>,
        r#where: Option<&Bound<'_, PyAny>>,
        ids: Option<List<Text>>,
        except_ids: Option<List<Text>>,
        #[pyo3(from_py_with = switch)] include_superseded: bool,
        strategy: Option<Text>,
        #[pyo3(from_py_with = switch)] neighbors: bool,
        #[pyo3(from_py_with = switch)] speakers: bool,
        #[pyo3(from_py_with = switch)] questions: bool,
        #[pyo3(from_py_with = switch)] vocabulary: bool,
        #[pyo3(from_py_with = switch)] length_prior: bool,
        half_life: Option<Real>,
        now: Option<LocalTime>,
        time_zone: Option<Text>,
        time: Option<Text>,
        #[pyo3(from_py_with = switch)] keep_duplicates: bool,
        diversity: Option<Real>,
        rerank: Option<Count<usize>>,
        within: Option<Real>,
        unit: Option<Text>,
        as_of: Option<Time>,
        per_batch: Option<Count<usize>>,
        answerable: Option<Real>,
        min_score: Option<Real>,
        previous: Option<List<Text>>,
        freshness: Option<FreshnessLike>,
    ) -> PyResult<Self> {
        let mut options = QueryOptions::default();
        options.k = k;
        options.session = session.map(|session| session.0);
        options.role = parsed(py, role)?;
        options.since = since.map(|time| time.0);
        options.until = until.map(|time| time.0);
        options.as_of = as_of.map(|time| time.0);
        options.filter = r#where.map(filter).transpose()?;
        options.ids = ids.map(|ids| texts(ids).into_iter().collect());
        options.except = except_ids.map(texts).unwrap_or_default().into_iter().collect();
        options.include_superseded = include_superseded;
        options.strategy = parsed(py, strategy)?.unwrap_or_default();
        options.neighbors = neighbors;
        options.speakers = speakers;
        options.questions = questions;
        options.vocabulary = vocabulary;
        options.length_prior = length_prior;
        options.half_life = half_life.map(|half_life| seconds(py, half_life.0)).transpose()?;
        options.time = parsed(py, time)?.unwrap_or_default();
        options.now = now.map(|now| now.0);
        options.time_zone = parsed(py, time_zone)?;
        options.keep_duplicates = keep_duplicates;
        options.diversity = diversity.map(|lambda| lambda.0 as f32);
        options.per_batch = per_batch.map(|hits| hits.0);
        options.answerable = answerable.map(|least| least.0 as f32);
        options.min_score = min_score.map(|least| least.0 as f32);
        options.rerank = rerank.map(|depth| depth.0);
        options.previous = previous.map(texts).unwrap_or_default();
        options.unit = parsed(py, unit)?.unwrap_or_default();
        let mut query = mnemon::Query::with_options(text.0, options);
        if let Some(Real(within)) = within {
            query = query.within(seconds(py, within)?);
        }
        let freshness = freshness.map(|freshness| freshness.0);
        let query = freshness.into_iter().fold(query, mnemon::Query::freshness);
        Ok(Query { query, within: within.map(|within| within.0), freshness })
    }

    #[getter]
    fn text(&self) -> &str {
        self.query.text()
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let mut shown = format!("Query({}", PyString::new(py, self.query.text()).repr()?);
        for (name, value) in self.keywords(py)? {
            shown += &format!(", {name}={}", value.repr()?);
        }
        Ok(shown + ")")
    }

    /// Pickles and copies the query by the arguments that make it.
    fn __getnewargs_ex__<'py>(&self, py: Python<'py>) -> PyResult<((&str,), Bound<'py, PyDict>)> {
        Ok(((self.query.text(),), self.keywords(py)?))
    }
}

impl Query {
    /// The options that are not the default, by the names of Python's keywords.
    fn keywords<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let keywords = PyDict::new(py);
        for (name, value) in self.query.options() {
            let name = match &*name {
                "filter" => "where",
                "except" => "except_ids",
                name => name,
            };
            keywords.set_item(name, to_python(py, &value)?)?;
        }
        if let Some(within) = self.within {
            keywords.set_item("within", within)?;
        }
        match self.freshness {
            Some(Freshness::Within(time)) => keywords.set_item("freshness", time.as_secs_f64())?,
            Some(Freshness::Local) => keywords.set_item("freshness", "local")?,
            Some(_) => keywords.set_item("freshness", "latest")?,
            None => {}
        }
        Ok(keywords)
    }
}

/// A query or its text.
pub(crate) struct QueryLike(pub(crate) mnemon::Query);

impl<'py> FromPyObject<'_, 'py> for QueryLike {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        match object.cast::<Query>() {
            Ok(query) => Ok(QueryLike(query.get().query.clone())),
            Err(_) if object.is_instance_of::<PyString>() => {
                Ok(QueryLike(mnemon::Query::new(object.extract::<Text>()?.0)))
            }
            Err(_) => Err(not_a("a Query or a str", &object)),
        }
    }
}

impl QueryLike {
    /// Returns the query, with another number of hits if one is given.
    pub(crate) fn with_k(self, k: Option<Count<usize>>) -> mnemon::Query {
        match k {
            Some(Count(k)) => self.0.k(k),
            None => self.0,
        }
    }
}

/// How far reads may be behind a shared database.
pub(crate) struct FreshnessLike(pub(crate) Freshness);

impl<'py> FromPyObject<'_, 'py> for FreshnessLike {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let py = object.py();
        if !object.is_instance_of::<PyString>() {
            return Ok(FreshnessLike(Freshness::Within(seconds(py, number(&object)?)?)));
        }
        match &*object.extract::<Text>()? {
            "latest" => Ok(FreshnessLike(Freshness::Latest)),
            "local" => Ok(FreshnessLike(Freshness::Local)),
            name => {
                let needed = "\"latest\", \"local\" or a number of seconds is needed here";
                Err(invalid(py, format!("{needed}, not {name:?}")))
            }
        }
    }
}

pub(crate) fn parsed<T: FromStr<Err = Error>>(py: Python<'_>, name: Option<Text>) -> PyResult<Option<T>> {
    name.map(|name| name.parse().map_err(|error| raised(py, error))).transpose()
}

/// A filter, given as a dict.
pub(crate) struct Filter(pub(crate) MetadataFilter);

impl<'py> FromPyObject<'_, 'py> for Filter {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        from_python(&object.extract::<Fields<'_>>()?.0, bad_filter).map(Filter)
    }
}

/// Returns the filter of the argument `where`. PyO3 would call the argument `r#where`, its name in Rust.
pub(crate) fn filter(object: &Bound<'_, PyAny>) -> PyResult<MetadataFilter> {
    object.extract::<Filter>().map(|filter| filter.0).map_err(|error| noted(object.py(), error, "where"))
}

pub(crate) fn seconds(py: Python<'_>, seconds: f64) -> PyResult<Duration> {
    let duration = Duration::try_from_secs_f64(seconds);
    duration.map_err(|_| invalid(py, format!("a number of seconds from 0 is needed here, not {seconds}")))
}

/// A message that a recall found.
///
/// `score` is what it was ranked by, higher is better; it compares hits of one recall. `relevance` is how
/// likely the message is evidence, 0 to 1; it compares hits of all recalls. `similarity` is the cosine of
/// the query and the message's best window, -1 to 1. `rank` is 1 for the first hit.
#[pyclass(frozen, from_py_object, module = "mnemon")]
#[derive(Clone)]
pub(crate) struct Hit(pub(crate) mnemon::Hit);

#[pymethods]
impl Hit {
    #[getter]
    fn message(&self) -> Message {
        Message(self.0.message.clone())
    }

    #[getter]
    fn namespace(&self) -> Option<&str> {
        self.0.namespace.as_ref().map(mnemon::Namespace::as_str)
    }

    #[getter]
    fn score(&self) -> f32 {
        self.0.score
    }

    #[getter]
    fn relevance(&self) -> f32 {
        self.0.relevance
    }

    #[getter]
    fn similarity(&self) -> f32 {
        self.0.similarity
    }

    #[getter]
    fn rank(&self) -> usize {
        self.0.rank
    }

    /// The text that matched best: the whole text, or a window of a long one.
    #[getter]
    fn passage(&self) -> String {
        let text = self.0.message.text();
        text.get(self.0.passage.clone()).unwrap_or(&text).to_owned()
    }

    /// The ids of earlier hits that this one supersedes.
    #[getter]
    fn supersedes(&self) -> Vec<String> {
        self.0.supersedes.clone()
    }

    /// The other messages of the unit: of a turn in their order, of a session its best.
    #[getter]
    fn others(&self) -> Vec<Message> {
        self.0.others.iter().cloned().map(Message).collect()
    }

    /// The terms of the score, and other evidence, as a dict.
    #[getter]
    fn breakdown<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        to_python(py, &self.0.breakdown)
    }

    fn __repr__(&self) -> String {
        format!("Hit({:.3}, {:?})", self.0.score, self.0.message.text())
    }
}

/// The hits of a recall, a sequence, best first; a slice is a list.
///
/// `cut_short`: the time budget was over before the search was complete. `pending`: the number of messages that were
/// searched by words alone. `answerability`: the estimated probability that the namespace has something about the
/// query, 0 to 1. `not_embedded`: why the query was not embedded, so that words alone found the hits; `None` if it was. In an engine with `shared`, `version` is that of the namespace, which rises by one with each change on
/// any machine, and `age` the seconds ago at which nothing was missing that other machines had stored; `None` elsewhere,
/// for several namespaces, and `age` until Postgres has answered.
#[pyclass(frozen, sequence, module = "mnemon")]
pub(crate) struct Hits {
    hits: Py<PyList>,
    #[pyo3(get)]
    cut_short: bool,
    #[pyo3(get)]
    pending: usize,
    #[pyo3(get)]
    answerability: f32,
    #[pyo3(get)]
    not_embedded: Option<String>,
    #[pyo3(get)]
    version: Option<u64>,
    /// In seconds.
    #[pyo3(get)]
    age: Option<f64>,
}

impl Hits {
    pub(crate) fn new(py: Python<'_>, hits: mnemon::Hits) -> PyResult<Self> {
        let (cut_short, pending, answerability) = (hits.cut_short(), hits.pending(), hits.answerability());
        let not_embedded = hits.not_embedded().map(str::to_owned);
        let (version, age) = (hits.version(), hits.age().map(|age| age.as_secs_f64()));
        let hits = PyList::new(py, hits.into_iter().map(Hit).collect::<Vec<_>>())?.unbind();
        Ok(Hits { hits, cut_short, pending, answerability, not_embedded, version, age })
    }
}

#[pymethods]
impl Hits {
    fn __len__(&self, py: Python<'_>) -> usize {
        self.hits.bind(py).len()
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyIterator>> {
        self.hits.bind(py).try_iter()
    }

    /// Returns a hit, or of a slice a list of them.
    fn __getitem__<'py>(&self, index: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.hits.bind(index.py()).as_any().get_item(index)
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        format!("<{} hits>", self.__len__(py))
    }
}
