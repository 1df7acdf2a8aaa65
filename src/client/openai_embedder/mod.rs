//! The embedder on a server with OpenAI's protocol.
//!
//! This file forms requests and sends them on a few threads. `rate_limiter` decides when a request may be sent, `answer`
//! reads and checks the vectors, and the HTTP policy decides which failures are retried.

mod answer;
mod rate_limiter;

use std::{
    ops::Range,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use serde_json::json;
use sha2::{Digest, Sha256};

use self::{
    answer::{Answer, Unusable},
    rate_limiter::{Priority, RateLimiter, RateLimits, TooLate},
};
use super::{http::Failure, openai_server::OpenAiServer};
use crate::{
    embed::{Embedder, byte_chunks},
    error::{Error, Result, impl_debug},
    ids::{ModelIdentity, hex},
};

/// The maximum number of tokens of an input of OpenAI's models. A token has at least one byte.
const MAX_TOKENS: usize = 8191;
/// The minimum number of bytes of a chunk of a long text, prefix excluded. The vectors of smaller chunks mean little, and
/// a long message would have more chunks than the store can number.
const MIN_BYTES: usize = 64;
/// The maximum number of bytes of text in a request. OpenAI's own limit is 300,000 tokens.
const REQUEST_BYTES: usize = 256 << 10;
/// The maximum pause after a refused request, even if the server requests a longer one. Most servers have limits per
/// minute.
const MAX_PAUSE: Duration = Duration::from_secs(60);
/// The maximum number of bytes of an answer for each component of a vector, which has about 20 characters as text.
const BYTES_PER_COMPONENT: u64 = 32;
/// Vectors of up to this many components are read completely even if fewer are expected, so that the error can state
/// their number.
const SOME_COMPONENTS: usize = 8192;

/// An [`Embedder`] that calls `POST {base_url}/embeddings`: a model of OpenAI, or of any server with its protocol, such
/// as Ollama, vLLM, llama.cpp and Text Embeddings Inference.
///
/// Texts are sent in requests of up to 128, two requests at a time. Transient failures are retried within the call: a
/// broken connection, a busy or broken server, a truncated answer. Clones share connections and limits. Proxies are
/// taken from the environment (`HTTPS_PROXY`, `NO_PROXY`); redirects are not followed.
///
/// A query does not wait for documents: it has its own connection, and takes precedence under
/// [`requests_per_minute`](OpenAiEmbedder::requests_per_minute) and
/// [`tokens_per_minute`](OpenAiEmbedder::tokens_per_minute). If the server has refused documents because of its limits,
/// a query is still sent, because its single text may be within them.
///
/// The [`identity`](Embedder::identity) consists of the model's name, the dimension, the prefixes and
/// [`max_bytes`](OpenAiEmbedder::max_bytes). The URL is not part of it: models of the same name behind different URLs
/// count as the same. Servers do not promise the same bits for the same text; if that matters, cache the vectors.
///
/// A blank text is not sent. Its vector is all zero.
///
/// # Errors
/// [`Error::EmbedderUnavailable`]: the server cannot be reached, does not answer in time, accepts no requests for now,
/// does not know the key, the model or the address, or returns vectors of another dimension. [`Error::Embedding`]: any
/// other failure, which a text may have caused. [`Error::DeadlineExceeded`]: a query has a deadline
/// ([`Query::within`](crate::Query::within)) that is too short for an answer.
///
/// ```no_run
/// use std::sync::Arc;
/// use mnemon::{Engine, OpenAiEmbedder};
/// // The key in `OPENAI_API_KEY`, and the limits of the account.
/// let embedder = OpenAiEmbedder::from_env("text-embedding-3-small", 512)?
///     .send_dimension(true)
///     .requests_per_minute(3000)
///     .tokens_per_minute(1_000_000);
/// let engine = Engine::builder("memory.redb").embedder(Arc::new(embedder)).open()?;
///
/// // Or a server on this machine.
/// let local = OpenAiEmbedder::new("http://localhost:11434/v1", "nomic-embed-text", 768)
///     .query_prefix("search_query: ")
///     .document_prefix("search_document: ");
/// # Ok::<(), mnemon::Error>(())
/// ```
#[derive(Clone)]
pub struct OpenAiEmbedder {
    server: OpenAiServer,
    identity: ModelIdentity,
    query_prefix: String,
    document_prefix: String,
    max_bytes: usize,
    max_inputs: usize,
    max_request_bytes: usize,
    send_dimension: bool,
    base64: bool,
    query_timeout: Duration,
    limits: RateLimits,
    limiter: Arc<RateLimiter>,
}

impl_debug!(
    OpenAiEmbedder,
    self { identity: self.identity, server: self.server, limits: self.limits, max_bytes: self.max_bytes }
);

impl OpenAiEmbedder {
    /// Uses this model of the server at this URL, such as `https://api.openai.com/v1`. `dimension` is the number of
    /// components of its vectors, 1 to 65,535. No request is sent yet. If the first answer has another dimension, the
    /// call fails with an error that states it.
    pub fn new(base_url: impl Into<String>, model: impl Into<String>, dimension: usize) -> Self {
        OpenAiEmbedder::of(OpenAiServer::new(base_url), model.into(), dimension)
    }

    /// Uses this model of the server at `OPENAI_BASE_URL`, or of OpenAI's, with the key in `OPENAI_API_KEY`.
    ///
    /// # Errors
    /// [`Error::InvalidConfig`]: neither variable is set.
    pub fn from_env(model: impl Into<String>, dimension: usize) -> Result<Self> {
        Ok(OpenAiEmbedder::of(OpenAiServer::from_env()?, model.into(), dimension))
    }

    fn of(server: OpenAiServer, model: String, dimension: usize) -> Self {
        let limits = RateLimits { concurrent: 2, requests_per_minute: None, tokens_per_minute: None };
        OpenAiEmbedder {
            server,
            identity: ModelIdentity { name: model, dimension, hash: String::new() },
            query_prefix: String::new(),
            document_prefix: String::new(),
            max_bytes: MAX_TOKENS,
            max_inputs: 128,
            max_request_bytes: REQUEST_BYTES,
            send_dimension: false,
            base64: true,
            query_timeout: Duration::from_secs(10),
            limits,
            limiter: Arc::new(RateLimiter::new(limits)),
        }
        .identified()
    }

    /// Sets the key, which is trimmed, sent as a bearer token, and never shown.
    pub fn api_key(self, key: impl Into<String>) -> Self {
        OpenAiEmbedder { server: self.server.api_key(key), ..self }
    }

    /// Sets the time limit of each attempt, from connecting to the last byte of the answer, up to a day. A slow server
    /// needs a longer limit, or fewer texts in each request ([`max_inputs`](OpenAiEmbedder::max_inputs)). Default: 60
    /// s.
    pub fn timeout(self, timeout: Duration) -> Self {
        OpenAiEmbedder { server: self.server.timeout(timeout), ..self }
    }

    /// Sets the number of attempts of each request, at least one. Default: 3.
    pub fn attempts(mut self, attempts: usize) -> Self {
        self.server.retry.attempts = attempts.max(1);
        self
    }

    /// Sets the wait before the second attempt. It doubles with each further attempt, up to 30 s, and each wait is a
    /// random half to all of it. If the server requests a wait, in `Retry-After` or, with status 429, in
    /// `x-ratelimit-reset-*`, all documents wait for that time instead; if it is more than a minute, there is no
    /// further attempt. Default: 500 ms.
    pub fn backoff(mut self, backoff: Duration) -> Self {
        self.server.retry.backoff = backoff;
        self
    }

    /// Sets the time limit of a query, including all waits and attempts. A query that would have to wait longer fails
    /// at once. Default: 10 s.
    pub fn query_timeout(self, query_timeout: Duration) -> Self {
        OpenAiEmbedder { query_timeout, ..self }
    }

    /// Sets the prefix of each query, which some models need (`"query: "`). Default: none.
    pub fn query_prefix(self, prefix: impl Into<String>) -> Self {
        OpenAiEmbedder { query_prefix: prefix.into(), ..self }.identified()
    }

    /// Sets the prefix of each document (`"passage: "`). Default: none.
    pub fn document_prefix(self, prefix: impl Into<String>) -> Self {
        OpenAiEmbedder { document_prefix: prefix.into(), ..self }.identified()
    }

    /// Sets the maximum bytes of UTF-8 of an input, prefix included. Longer texts are split into chunks, at the beginning
    /// of a word if one is near; adjacent chunks overlap by up to an eighth. At least 64 bytes, prefix excluded.
    ///
    /// Default: 8,191, which never exceeds the 8,191 tokens that OpenAI's models take, because a token has at least one
    /// byte. That is about 2,000 tokens of English. Set about 1,500 for a model of 512 tokens.
    pub fn max_bytes(self, max_bytes: usize) -> Self {
        OpenAiEmbedder { max_bytes, ..self }.identified()
    }

    /// Sets the maximum number of inputs of a request, at least one. OpenAI accepts 2,048. Default: 128.
    pub fn max_inputs(self, max_inputs: usize) -> Self {
        OpenAiEmbedder { max_inputs: max_inputs.max(1), ..self }
    }

    /// Sets the maximum bytes of text of a request; a longer input is sent alone. Default: 262,144, which is below the
    /// 300,000 tokens that OpenAI accepts.
    pub fn max_request_bytes(self, max_request_bytes: usize) -> Self {
        OpenAiEmbedder { max_request_bytes, ..self }
    }

    /// Sets the maximum number of concurrent requests with documents, at least one, shared by all clones made from the
    /// result. Queries are not counted. Default: 2.
    pub fn concurrent_requests(self, concurrent: usize) -> Self {
        let limits = RateLimits { concurrent: concurrent.max(1), ..self.limits };
        self.limited(limits)
    }

    /// Sets the maximum number of requests per minute, at least one, shared by all clones made from the result.
    /// Requests above the rate wait. After a pause, up to a twentieth of a minute's requests (at least one) may be sent at
    /// once.
    /// Default: no limit.
    pub fn requests_per_minute(self, requests: u32) -> Self {
        let limits = RateLimits { requests_per_minute: Some(requests.max(1)), ..self.limits };
        self.limited(limits)
    }

    /// Sets the maximum number of tokens per minute, in the same way as
    /// [`requests_per_minute`](OpenAiEmbedder::requests_per_minute). A request counts with an estimate of one token for
    /// 4 bytes until its answer states the number. Requests are kept small enough to leave room for queries. Default: no
    /// limit.
    pub fn tokens_per_minute(self, tokens: u32) -> Self {
        let limits = RateLimits { tokens_per_minute: Some(tokens.max(1)), ..self.limits };
        self.limited(limits)
    }

    /// Sets whether requests state the dimension (`dimensions`), which only models that can shorten their vectors
    /// support. Default: false.
    pub fn send_dimension(self, send_dimension: bool) -> Self {
        OpenAiEmbedder { send_dimension, ..self }
    }

    /// Sets whether requests ask for vectors in base64 (`encoding_format`), which takes a quarter to a third of the
    /// bytes. Both formats are always understood; `false` is for servers that refuse the field. Default: true.
    pub fn base64(self, base64: bool) -> Self {
        OpenAiEmbedder { base64, ..self }
    }

    fn limited(self, limits: RateLimits) -> Self {
        OpenAiEmbedder { limits, limiter: Arc::new(RateLimiter::new(limits)), ..self }
    }

    fn identified(mut self) -> Self {
        let ModelIdentity { name, dimension, .. } = &self.identity;
        let facts = format!(
            "openai {name:?} {dimension} {:?} {:?} {}",
            self.query_prefix, self.document_prefix, self.max_bytes
        );
        self.identity.hash = hex(&Sha256::digest(facts));
        self
    }

    /// Returns the maximum bytes of a text without its prefix.
    fn max_text_bytes(&self) -> usize {
        let prefix = self.query_prefix.len().max(self.document_prefix.len());
        self.max_bytes.saturating_sub(prefix).max(MIN_BYTES)
    }

    fn input(&self, prefix: &str, text: &str) -> Result<String> {
        // Many servers truncate longer inputs silently.
        if text.len() > self.max_text_bytes() {
            let reason =
                format!("a text of {} bytes was not split; the maximum is {}", text.len(), self.max_text_bytes());
            return Err(Error::Embedding { reason, source: None });
        }
        Ok(format!("{prefix}{text}"))
    }

    fn requests<'i>(&self, inputs: &'i [String]) -> Vec<&'i [String]> {
        let max_bytes = self.max_request_bytes.min(self.limits.max_request_bytes());
        let mut requests = Vec::new();
        let mut rest = inputs;
        while let Some(first) = rest.first() {
            let mut bytes = first.len();
            let fits = |input: &&String| {
                bytes += input.len();
                bytes <= max_bytes
            };
            let more = rest[1..].iter().take(self.max_inputs - 1).take_while(fits).count();
            let (request, others) = rest.split_at(1 + more);
            requests.push(request);
            rest = others;
        }
        requests
    }

    /// Sends one request, with retries, and returns the vectors of its inputs. Cost: sleeps between attempts.
    fn send(&self, inputs: &[String], priority: Priority) -> Result<Vec<Vec<f32>>, Unanswered> {
        let mut body = json!({"model": self.identity.name, "input": inputs});
        if self.send_dimension {
            body["dimensions"] = self.identity.dimension.into();
        }
        if self.base64 {
            body["encoding_format"] = "base64".into();
        }
        let body = body.to_string();
        let tokens = rate_limiter::estimated_tokens(inputs.iter().map(String::len).sum());
        let mut attempt = 1;
        loop {
            let permit = self.limiter.acquire(priority, tokens).map_err(|TooLate(wait)| {
                Unanswered::TooLate(Error::EmbedderUnavailable {
                    reason: format!("the rate limit does not allow a query within {:?}", self.query_timeout),
                    transient: true,
                    retry_after: Some(wait),
                    source: None,
                })
            })?;
            let failure = match self.attempt(&body, inputs.len(), priority.time_left()) {
                Ok(answer) => {
                    answer.tokens.inspect(|&tokens| permit.record_tokens(tokens));
                    return Ok(answer.rows);
                }
                Err(failure) => failure,
            };
            drop(permit);
            let requested = failure.retry_after.or(failure.resets_after);
            if let Some(requested) = requested {
                self.limiter.pause(priority, requested.min(MAX_PAUSE));
            }
            let wait = requested.unwrap_or_else(|| self.server.retry.wait(attempt, None));
            if failure.transient && wait >= priority.time_left() {
                return Err(Unanswered::TooLate(error(failure.after(attempt))));
            }
            if !self.server.retry.allows(attempt, &failure) || wait > MAX_PAUSE {
                return Err(Unanswered::Failed(error(failure.after(attempt))));
            }
            thread::sleep(wait);
            attempt += 1;
        }
    }

    fn attempt(&self, body: &str, inputs: usize, within: Duration) -> Result<Answer, Failure> {
        let dimension = self.identity.dimension;
        let max_bytes = (inputs as u64 * BYTES_PER_COMPONENT).saturating_mul(dimension.max(SOME_COMPONENTS) as u64);
        let answer = self.server.post("embeddings", body, within, max_bytes)?;
        answer::read(&answer, inputs, dimension).map_err(|unusable| match unusable {
            Unusable::Broken(what) => Failure::transient(self.server.answered(&what)),
            Unusable::Vector(what) => Failure::lasting(self.server.answered(&what)),
            Unusable::Dimension(found) => Failure {
                unavailable: true,
                ..Failure::lasting(format!(
                    "{:?} returns vectors of {found} components, not {dimension}; give {found} as the dimension{}",
                    self.identity.name,
                    if self.send_dimension {
                        ""
                    } else {
                        ", or set `send_dimension`, if the model can shorten its vectors"
                    }
                ))
            },
        })
    }
}

impl Embedder for OpenAiEmbedder {
    fn identity(&self) -> &ModelIdentity {
        &self.identity
    }

    fn windows(&self, text: &str) -> Vec<Range<usize>> {
        byte_chunks::split(text, self.max_text_bytes())
    }

    fn embed_documents(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>> {
        let with_text: Vec<usize> = (0..texts.len()).filter(|&i| !texts[i].trim().is_empty()).collect();
        let inputs: Vec<String> =
            with_text.iter().map(|&i| self.input(&self.document_prefix, texts[i])).collect::<Result<_>>()?;
        let requests = self.requests(&inputs);
        let answers: Vec<OnceLock<Vec<Vec<f32>>>> = requests.iter().map(|_| OnceLock::new()).collect();
        let next = AtomicUsize::new(0);
        let work = || -> Result<()> {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                let Some(request) = requests.get(number) else { return Ok(()) };
                // After a failed request the threads take no further ones.
                let stop = |_: &Error| next.store(requests.len(), Ordering::Relaxed);
                let rows = self.send(request, Priority::Documents).map_err(Error::from).inspect_err(stop)?;
                answers[number].set(rows).expect("each request is sent once");
            }
        };
        match self.limits.concurrent.min(requests.len()) {
            0 | 1 => work()?,
            threads => thread::scope(|scope| {
                let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
                workers.into_iter().try_for_each(|worker| worker.join().expect("workers do not panic"))
            })?,
        }
        let mut rows = vec![vec![0.0; self.identity.dimension]; texts.len()];
        let answers = answers.into_iter().flat_map(|answer| answer.into_inner().expect("every request was answered"));
        with_text.into_iter().zip(answers).for_each(|(i, row)| rows[i] = row);
        Ok(rows)
    }

    fn embed_query(&self, text: &str) -> Result<Vec<f32>> {
        self.embed_query_before(text, None)
    }

    fn embed_query_before(&self, text: &str, deadline: Option<Instant>) -> Result<Vec<f32>> {
        if text.trim().is_empty() {
            return Ok(vec![0.0; self.identity.dimension]);
        }
        let now = Instant::now();
        let limit = now.checked_add(self.query_timeout).unwrap_or_else(|| now + Duration::from_secs(86_400));
        let deadline = deadline.filter(|&deadline| deadline <= limit);
        let until = deadline.unwrap_or(limit);
        let input = self.input(&self.query_prefix, text)?;
        if deadline.is_some_and(|deadline| deadline <= now) {
            return Err(Error::DeadlineExceeded);
        }
        match self.send(&[input], Priority::Query { until }) {
            Ok(mut rows) => Ok(rows.pop().expect("one input has one vector")),
            // The caller's deadline was shorter than this embedder's own time limit.
            Err(Unanswered::TooLate(_)) if deadline.is_some() => Err(Error::DeadlineExceeded),
            Err(unanswered) => Err(unanswered.into()),
        }
    }
}

enum Unanswered {
    /// The query's deadline is too early for the rate limit, the answer, or another attempt.
    TooLate(Error),
    Failed(Error),
}

impl From<Unanswered> for Error {
    fn from(unanswered: Unanswered) -> Error {
        match unanswered {
            Unanswered::TooLate(error) | Unanswered::Failed(error) => error,
        }
    }
}

fn error(Failure { reason, transient, unavailable, retry_after, resets_after, source, .. }: Failure) -> Error {
    match unavailable {
        true => Error::EmbedderUnavailable { reason, transient, retry_after: retry_after.or(resets_after), source },
        false => Error::Embedding { reason, source },
    }
}
