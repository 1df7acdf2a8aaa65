//! Models of servers that speak OpenAI's protocol.

use pyo3::prelude::*;

use crate::{
    query::seconds,
    values::{Count, Real, Text, dimension},
};

/// A chat model of a server that speaks OpenAI's protocol, for blocks, profiles and collections.
///
/// `base_url` such as `"http://localhost:11434/v1"`. `timeout` is in seconds, `attempts` how often a request is sent
/// that fails for a time.
#[pyclass(frozen, from_py_object, module = "mnemon")]
#[derive(Clone)]
pub(crate) struct OpenAiChat(pub(crate) mnemon::OpenAiChat);

#[pymethods]
impl OpenAiChat {
    #[new]
    #[pyo3(signature = (base_url, model, *, api_key = None, timeout = None, attempts = None))]
    fn new(
        py: Python<'_>,
        base_url: Text,
        model: Text,
        api_key: Option<Text>,
        timeout: Option<Real>,
        attempts: Option<Count<usize>>,
    ) -> PyResult<Self> {
        let mut chat = mnemon::OpenAiChat::new(base_url.0, model.0);
        if let Some(key) = api_key {
            chat = chat.api_key(key.0);
        }
        if let Some(timeout) = timeout.map(|Real(timeout)| seconds(py, timeout)).transpose()? {
            chat = chat.timeout(timeout);
        }
        if let Some(attempts) = attempts {
            chat = chat.attempts(attempts.0);
        }
        Ok(OpenAiChat(chat))
    }

    fn __repr__(&self) -> String {
        format!("{:?}", self.0)
    }
}

/// An embedding model of a server that speaks OpenAI's protocol, for `Engine(embedder=...)`.
///
/// `dimension` is the number of components of its vectors; `query_prefix` a text that the model wants before queries.
#[pyclass(frozen, from_py_object, module = "mnemon")]
#[derive(Clone)]
pub(crate) struct OpenAiEmbedder(pub(crate) mnemon::OpenAiEmbedder);

#[pymethods]
impl OpenAiEmbedder {
    #[new]
    #[pyo3(signature = (base_url, model, dimension, *, api_key = None, timeout = None, attempts = None, query_prefix = None))]
    #[expect(clippy::too_many_arguments, reason = "they are keywords in Python")]
    fn new(
        py: Python<'_>,
        base_url: Text,
        model: Text,
        #[pyo3(from_py_with = dimension)] dimension: usize,
        api_key: Option<Text>,
        timeout: Option<Real>,
        attempts: Option<Count<usize>>,
        query_prefix: Option<Text>,
    ) -> PyResult<Self> {
        let mut embedder = mnemon::OpenAiEmbedder::new(base_url.0, model.0, dimension);
        if let Some(key) = api_key {
            embedder = embedder.api_key(key.0);
        }
        if let Some(timeout) = timeout.map(|Real(timeout)| seconds(py, timeout)).transpose()? {
            embedder = embedder.timeout(timeout);
        }
        if let Some(attempts) = attempts {
            embedder = embedder.attempts(attempts.0);
        }
        if let Some(prefix) = query_prefix {
            embedder = embedder.query_prefix(prefix.0);
        }
        Ok(OpenAiEmbedder(embedder))
    }

    fn __repr__(&self) -> String {
        format!("{:?}", self.0)
    }
}
