//! Queries and their hits.

use std::time::Duration;

use mnemon::{MetadataFilter, RankingStrategy, TimeUse};
use pyo3::{
    prelude::*,
    types::{PyDict, PyIterator, PyList},
};

use crate::{
    errors::raised,
    message::Message,
    values::{Time, from_python, to_python},
};

/// A query: its text, the number of hits, the filter of messages, and their ranking.
///
/// `k` is the greatest number of hits. `session`, `role`, `since` (included), `until` (excluded), `where` and `ids`
/// restrict the messages; `except_ids` are never hits. `as_of` finds only what was known at that time: what had been
/// put, and is of no later time. `where` is a filter on metadata, such as `{"topic": "boats"}` or
/// `{"price": {"$lt": 10}}`. `strategy` is `"hybrid"`, `"dense"`, `"lexical"`, `"rrf"` or `"weighted:0.5"`. `time` is
/// what a time that the text names does: `"boost"`, `"filter"` or `"ignore"`. `half_life` and `within` are in seconds:
/// the age at which a message counts half, and the time budget. `diversity` is from 0 (diverse) to 1 (relevance alone).
/// `rerank` is how many of the best the engine's reranker scores. `unit` is what `k` counts: `"message"`, `"turn"` or
/// `"session"`. Raises `InvalidQueryError` and `InvalidFilterError`.
#[pyclass(frozen, from_py_object, module = "mnemon")]
#[derive(Clone)]
pub(crate) struct Query(pub(crate) mnemon::Query);

#[pymethods]
impl Query {
    #[new]
    #[pyo3(signature = (text, *, k = 10, session = None, role = None, since = None, until = None, r#where = None,
        ids = None, except_ids = None, strategy = None, neighbors = true, speakers = true, questions = true, vocabulary = true, length_prior = true,
        half_life = None, now = None, time = None, keep_duplicates = false, diversity = None, rerank = None, within = None,
        unit = None, as_of = None))]
    #[expect(clippy::too_many_arguments, reason = "they are keywords in Python")]
    fn new(
        py: Python<'_>,
        text: String,
        k: usize,
        session: Option<String>,
        role: Option<&str>,
        since: Option<Time>,
        until: Option<Time>,
        r#where: Option<&Bound<'_, PyDict>>,
        ids: Option<Vec<String>>,
        except_ids: Option<Vec<String>>,
        strategy: Option<&str>,
        neighbors: bool,
        speakers: bool,
        questions: bool,
        vocabulary: bool,
        length_prior: bool,
        half_life: Option<f64>,
        now: Option<Time>,
        time: Option<&str>,
        keep_duplicates: bool,
        diversity: Option<f32>,
        rerank: Option<usize>,
        within: Option<f64>,
        unit: Option<&str>,
        as_of: Option<Time>,
    ) -> PyResult<Self> {
        let failed = |error| raised(py, error);
        let mut query = mnemon::Query::new(text).k(k).neighbors(neighbors).length_prior(length_prior);
        query = query.speakers(speakers).questions(questions).vocabulary(vocabulary);
        if let Some(unit) = unit {
            query = query.unit(unit.parse().map_err(failed)?);
        }
        if let Some(session) = session {
            query = query.session(session);
        }
        if let Some(role) = role {
            query = query.role(role.parse().map_err(failed)?);
        }
        if let Some(Time(time)) = since {
            query = query.since(time);
        }
        if let Some(Time(time)) = until {
            query = query.until(time);
        }
        if let Some(Time(time)) = as_of {
            query = query.as_of(time);
        }
        if let Some(filter) = r#where {
            query = query.filter(self::filter(filter)?);
        }
        if let Some(ids) = ids {
            query = query.ids(ids);
        }
        if let Some(ids) = except_ids {
            query = query.except(ids);
        }
        if let Some(strategy) = strategy {
            query = query.strategy(strategy.parse::<RankingStrategy>().map_err(failed)?);
        }
        if let Some(half_life) = half_life {
            query = query.half_life(seconds(half_life)?);
        }
        if let Some(Time(now)) = now {
            query = query.now(now);
        }
        if let Some(time) = time {
            query = query.time(time.parse::<TimeUse>().map_err(failed)?);
        }
        if keep_duplicates {
            query = query.keep_duplicates();
        }
        if let Some(diversity) = diversity {
            query = query.diversity(diversity);
        }
        if let Some(depth) = rerank {
            query = query.rerank(depth);
        }
        if let Some(within) = within {
            query = query.within(seconds(within)?);
        }
        Ok(Query(query))
    }

    #[getter]
    fn text(&self) -> &str {
        self.0.text()
    }

    fn __repr__(&self) -> String {
        format!("Query({:?})", self.0.text())
    }
}

/// A query or its text.
pub(crate) struct QueryLike(pub(crate) mnemon::Query);

impl<'py> FromPyObject<'_, 'py> for QueryLike {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        match object.cast::<Query>() {
            Ok(query) => Ok(QueryLike(query.get().0.clone())),
            Err(_) => Ok(QueryLike(mnemon::Query::new(object.extract::<String>()?))),
        }
    }
}

impl QueryLike {
    /// Returns the query, with another number of hits if one is given.
    pub(crate) fn with_k(self, k: Option<usize>) -> mnemon::Query {
        match k {
            Some(k) => self.0.k(k),
            None => self.0,
        }
    }
}

/// Returns a filter, given as a dict.
pub(crate) fn filter(filter: &Bound<'_, PyDict>) -> PyResult<MetadataFilter> {
    from_python(filter).map_err(|error| crate::errors::InvalidFilterError::new_err(error.to_string()))
}

pub(crate) fn seconds(seconds: f64) -> PyResult<Duration> {
    Duration::try_from_secs_f64(seconds).map_err(|error| pyo3::exceptions::PyValueError::new_err(error.to_string()))
}

/// A message that a recall found.
///
/// `score` is what it was ranked by, higher is better; it compares hits of one recall. `similarity` is the cosine of
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

/// The hits of a recall, a sequence, best first.
///
/// `cut_short`: the time budget was over before the search was complete. `pending`: the number of messages that were
/// searched by words alone. `answerability`: the estimated probability that the namespace has something about the
/// query, 0 to 1.
#[pyclass(frozen, sequence, module = "mnemon")]
pub(crate) struct Hits {
    hits: Vec<Py<Hit>>,
    #[pyo3(get)]
    cut_short: bool,
    #[pyo3(get)]
    pending: usize,
    #[pyo3(get)]
    answerability: f32,
}

impl Hits {
    pub(crate) fn new(py: Python<'_>, hits: mnemon::Hits) -> PyResult<Self> {
        let (cut_short, pending, answerability) = (hits.cut_short(), hits.pending(), hits.answerability());
        let hits = hits.into_iter().map(|hit| Py::new(py, Hit(hit))).collect::<PyResult<_>>()?;
        Ok(Hits { hits, cut_short, pending, answerability })
    }
}

#[pymethods]
impl Hits {
    fn __len__(&self) -> usize {
        self.hits.len()
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyIterator>> {
        PyList::new(py, &self.hits)?.try_iter()
    }

    fn __getitem__(&self, py: Python<'_>, index: isize) -> PyResult<Py<Hit>> {
        let at = if index < 0 { index + self.hits.len() as isize } else { index };
        let hit = usize::try_from(at).ok().and_then(|at| self.hits.get(at));
        hit.map(|hit| hit.clone_ref(py)).ok_or_else(|| pyo3::exceptions::PyIndexError::new_err("no such hit"))
    }

    fn __repr__(&self) -> String {
        format!("<{} hits>", self.hits.len())
    }
}
