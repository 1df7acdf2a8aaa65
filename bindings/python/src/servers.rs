//! Models of servers that speak OpenAI's protocol.

use pyo3::prelude::*;

use crate::query::seconds;

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
        base_url: String,
        model: String,
        api_key: Option<String>,
        timeout: Option<f64>,
        attempts: Option<usize>,
    ) -> PyResult<Self> {
        let mut chat = mnemon::OpenAiChat::new(base_url, model);
        if let Some(key) = api_key {
            chat = chat.api_key(key);
        }
        if let Some(timeout) = timeout.map(seconds).transpose()? {
            chat = chat.timeout(timeout);
        }
        if let Some(attempts) = attempts {
            chat = chat.attempts(attempts);
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
    fn new(
        base_url: String,
        model: String,
        dimension: usize,
        api_key: Option<String>,
        timeout: Option<f64>,
        attempts: Option<usize>,
        query_prefix: Option<String>,
    ) -> PyResult<Self> {
        let mut embedder = mnemon::OpenAiEmbedder::new(base_url, model, dimension);
        if let Some(key) = api_key {
            embedder = embedder.api_key(key);
        }
        if let Some(timeout) = timeout.map(seconds).transpose()? {
            embedder = embedder.timeout(timeout);
        }
        if let Some(attempts) = attempts {
            embedder = embedder.attempts(attempts);
        }
        if let Some(prefix) = query_prefix {
            embedder = embedder.query_prefix(prefix);
        }
        Ok(OpenAiEmbedder(embedder))
    }

    fn __repr__(&self) -> String {
        format!("{:?}", self.0)
    }
}
