//! An embedder that asks a server: vectors over OpenAI's protocol.
//!
//! Owns what is asked in one request, and what an answer must be like. When a request may be sent is the [`Limiter`]'s; how one
//! is sent, and what its failure means, the HTTP client's.

mod answer;
mod limiter;
mod windows;

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
    limiter::{Limiter, Limits, Priority, TooLate},
};
use super::Embedder;
use crate::{
    error::{Error, Result, impl_debug},
    http::{Client, Failure},
    ids::ModelIdentity,
};

/// What OpenAI's models take of an input. Each of their tokens is a byte of it or more.
const MAX_TOKENS: usize = 8191;
/// A window of less is of no use, and long messages would have more of them than can be numbered.
const MIN_BYTES: usize = 64;
/// OpenAI's own limit is 300,000 tokens.
const REQUEST_BYTES: usize = 256 << 10;
/// The longest that a request waits because a server says so. The limits of most are a minute's.
const MAX_PAUSE: Duration = Duration::from_secs(60);
/// Of an answer, for each component: in text they have some 20 characters.
const BYTES_PER_COMPONENT: u64 = 32;
/// Answers that have more components than they should are read to the end, to say how many these are.
const SOME_COMPONENTS: usize = 8192;

/// A model behind `POST {base_url}/embeddings`: OpenAI's, or of any server that speaks its protocol, such as Ollama, vLLM,
/// llama.cpp and Text Embeddings Inference.
///
/// Texts go in requests of up to 128, two at a time. What may pass is tried again within the call: a broken connection, a busy or
/// broken server, an answer cut short. Clones share connections and limits. Proxies are taken from the environment
/// (`HTTPS_PROXY`, `NO_PROXY`); redirects are not followed.
///
/// A question waits neither for documents that are being embedded nor for those that wait: it has a connection of its own, and
/// goes first where [`requests_per_minute`](OpenAiEmbedder::requests_per_minute) or
/// [`tokens_per_minute`](OpenAiEmbedder::tokens_per_minute) are set. Where a server has refused documents for its limits, a
/// question is asked all the same, since there may be room for one text.
///
/// The [`identity`](Embedder::identity) is of the model's name, the dimension, the prefixes and
/// [`max_bytes`](OpenAiEmbedder::max_bytes), and not of the URL: a model of the same name behind another URL is taken for the same.
/// Servers do not promise the same bits for the same text; where that matters, keep what was embedded.
///
/// A text of white space alone is not sent: its vector is all zero.
///
/// # Errors
/// [`Error::EmbedderUnavailable`]: the server is not reached, does not answer in time, takes nothing for now, does not know the key,
/// the model or the address, or gives vectors of another dimension. [`Error::Embedding`]: any other failure, which a text may be the
/// cause of. [`Error::DeadlineExceeded`], if a question has a deadline ([`Query::within`](crate::Query::within)) and there is no time
/// for an answer before it.
///
/// ```no_run
/// use std::sync::Arc;
/// use mnemon::{Engine, OpenAiEmbedder};
/// // The key of `OPENAI_API_KEY`, and what the account may ask.
/// let embedder = OpenAiEmbedder::from_env("text-embedding-3-small", 512)?
///     .send_dimension(true)
///     .requests_per_minute(3000)
///     .tokens_per_minute(1_000_000);
/// let engine = Engine::builder("memory.redb").embedder(Arc::new(embedder)).open()?;
///
/// // Or of a server on this machine.
/// let local = OpenAiEmbedder::new("http://localhost:11434/v1", "nomic-embed-text", 768)
///     .query_prefix("search_query: ")
///     .document_prefix("search_document: ");
/// # Ok::<(), mnemon::Error>(())
/// ```
#[derive(Clone)]
pub struct OpenAiEmbedder {
    client: Client,
    identity: ModelIdentity,
    query_prefix: String,
    document_prefix: String,
    max_bytes: usize,
    max_inputs: usize,
    max_request_bytes: usize,
    send_dimension: bool,
    base64: bool,
    query_timeout: Duration,
    limits: Limits,
    limiter: Arc<Limiter>,
}

impl_debug!(
    OpenAiEmbedder,
    self { identity: self.identity, client: self.client, limits: self.limits, max_bytes: self.max_bytes }
);

impl OpenAiEmbedder {
    /// This model of the server at this URL, such as `https://api.openai.com/v1`, whose vectors have this many components, 1 to 65,535.
    /// Nothing is asked of it yet; the first answer of another dimension is an error, which says the right one.
    pub fn new(base_url: impl Into<String>, model: impl Into<String>, dimension: usize) -> Self {
        OpenAiEmbedder::of(Client::new(base_url), model.into(), dimension)
    }

    /// This model with the key of `OPENAI_API_KEY`, of the server of `OPENAI_BASE_URL`, or OpenAI's.
    ///
    /// # Errors
    /// [`Error::InvalidConfig`]: neither is set.
    pub fn from_env(model: impl Into<String>, dimension: usize) -> Result<Self> {
        Ok(OpenAiEmbedder::of(Client::from_env()?, model.into(), dimension))
    }

    fn of(client: Client, model: String, dimension: usize) -> Self {
        let limits = Limits { concurrent: 2, requests: None, tokens: None };
        OpenAiEmbedder {
            client,
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
            limiter: Arc::new(Limiter::new(limits)),
        }
        .identified()
    }

    /// The same with this key, white space around it left out. It is sent as a bearer token and shown nowhere.
    pub fn api_key(self, key: impl Into<String>) -> Self {
        OpenAiEmbedder { client: self.client.api_key(key), ..self }
    }

    /// The same with this limit on each attempt, from connecting to the last byte of the answer, up to a day. A slow server that
    /// is always late needs more, or fewer texts a request ([`max_inputs`](OpenAiEmbedder::max_inputs)). Default: 60 s.
    pub fn timeout(self, timeout: Duration) -> Self {
        OpenAiEmbedder { client: self.client.timeout(timeout), ..self }
    }

    /// The same with so many attempts a request, at least one. Default: 3.
    pub fn attempts(self, attempts: usize) -> Self {
        OpenAiEmbedder { client: self.client.attempts(attempts), ..self }
    }

    /// The same with this wait before the second attempt, half to all of it by chance. It doubles with each further attempt, up
    /// to 30 s. If the server says how long to wait, by `Retry-After` or, with a 429, by `x-ratelimit-reset-*`, that counts
    /// instead, for all documents; where it is more than a minute, there is no further attempt. Default: 500 ms.
    pub fn backoff(self, backoff: Duration) -> Self {
        OpenAiEmbedder { client: self.client.backoff(backoff), ..self }
    }

    /// The same with this limit on a question, all its waits and attempts in it. It fails at once if its turn comes later.
    /// Default: 10 s.
    pub fn query_timeout(self, query_timeout: Duration) -> Self {
        OpenAiEmbedder { query_timeout, ..self }
    }

    /// The same with this before each question, as some models want it (`"query: "`). Default: nothing.
    pub fn query_prefix(self, prefix: impl Into<String>) -> Self {
        OpenAiEmbedder { query_prefix: prefix.into(), ..self }.identified()
    }

    /// The same with this before each document (`"passage: "`). Default: nothing.
    pub fn document_prefix(self, prefix: impl Into<String>) -> Self {
        OpenAiEmbedder { document_prefix: prefix.into(), ..self }.identified()
    }

    /// The same with inputs of at most so many bytes of UTF-8, prefix included: longer texts are split into windows, each cut where a
    /// word begins, if there is one near, of which neighbours share up to an eighth. At least 64 bytes, prefix not included.
    ///
    /// Default: 8,191, which is never more than the 8,191 tokens that OpenAI's models take: each is a byte or more. It is
    /// 2,000 tokens of English. Set it to 1,500 or so for a model of 512 tokens.
    pub fn max_bytes(self, max_bytes: usize) -> Self {
        OpenAiEmbedder { max_bytes, ..self }.identified()
    }

    /// The same with at most so many inputs a request, at least one. OpenAI takes 2,048. Default: 128.
    pub fn max_inputs(self, max_inputs: usize) -> Self {
        OpenAiEmbedder { max_inputs: max_inputs.max(1), ..self }
    }

    /// The same with at most so many bytes of text a request; a longer input is alone in its own. Default: 262,144, which is less than
    /// the 300,000 tokens that OpenAI takes.
    pub fn max_request_bytes(self, max_request_bytes: usize) -> Self {
        OpenAiEmbedder { max_request_bytes, ..self }
    }

    /// The same with at most so many requests with documents at a time, at least one, of all clones made hereafter. Questions come on
    /// top. Default: 2.
    pub fn concurrent_requests(self, concurrent: usize) -> Self {
        let limits = Limits { concurrent: concurrent.max(1), ..self.limits };
        self.limited(limits)
    }

    /// The same with at most so many requests a minute, at least one, of all clones made hereafter: those that come too early wait for
    /// their turn. After a pause the first twentieth of a minute's (or the first one) goes at once. Default: no limit.
    pub fn requests_per_minute(self, requests: u32) -> Self {
        let limits = Limits { requests: Some(requests.max(1)), ..self.limits };
        self.limited(limits)
    }

    /// The same with at most so many tokens a minute, as
    /// [`requests_per_minute`](OpenAiEmbedder::requests_per_minute). They are taken for a quarter of the bytes, until an answer
    /// says how many they were; requests are made small enough to leave room for questions. Default: no limit.
    pub fn tokens_per_minute(self, tokens: u32) -> Self {
        let limits = Limits { tokens: Some(tokens.max(1)), ..self.limits };
        self.limited(limits)
    }

    /// The same, asking for the dimension (`dimensions` in the request), which only models that can shorten their vectors know. Default: false.
    pub fn send_dimension(self, send_dimension: bool) -> Self {
        OpenAiEmbedder { send_dimension, ..self }
    }

    /// The same, asking for vectors in base64 (`encoding_format` in the request), a quarter to a third of the bytes, or not. Either is understood whatever
    /// was asked for; `false` is for servers that refuse the field. Default: true.
    pub fn base64(self, base64: bool) -> Self {
        OpenAiEmbedder { base64, ..self }
    }

    fn limited(self, limits: Limits) -> Self {
        OpenAiEmbedder { limits, limiter: Arc::new(Limiter::new(limits)), ..self }
    }

    fn identified(mut self) -> Self {
        let ModelIdentity { name, dimension, .. } = &self.identity;
        let facts = format!(
            "openai {name:?} {dimension} {:?} {:?} {}",
            self.query_prefix, self.document_prefix, self.max_bytes
        );
        self.identity.hash = Sha256::digest(facts).iter().map(|byte| format!("{byte:02x}")).collect();
        self
    }

    /// What a text may have without its prefix.
    fn max_text_bytes(&self) -> usize {
        let prefix = self.query_prefix.len().max(self.document_prefix.len());
        self.max_bytes.saturating_sub(prefix).max(MIN_BYTES)
    }

    fn input(&self, prefix: &str, text: &str) -> Result<String> {
        // Many servers cut what is too long, and say nothing.
        if text.len() > self.max_text_bytes() {
            let reason = format!("a text of {} bytes was not split; the most is {}", text.len(), self.max_text_bytes());
            return Err(Error::Embedding { reason, source: None });
        }
        Ok(format!("{prefix}{text}"))
    }

    /// The inputs of each request, in order.
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

    /// The vectors of one request's inputs, with as many attempts as it takes, or as there are.
    fn ask(&self, inputs: &[String], priority: Priority) -> Result<Vec<Vec<f32>>, Unanswered> {
        let mut body = json!({"model": self.identity.name, "input": inputs});
        if self.send_dimension {
            body["dimensions"] = self.identity.dimension.into();
        }
        if self.base64 {
            body["encoding_format"] = "base64".into();
        }
        let body = body.to_string();
        let tokens = limiter::tokens(inputs.iter().map(String::len).sum());
        let mut attempt = 1;
        loop {
            let turn = self.limiter.turn(priority, tokens).map_err(|TooLate(wait)| {
                Unanswered::TooLate(Error::EmbedderUnavailable {
                    reason: format!("a question's turn does not come within {:?}", self.query_timeout),
                    transient: true,
                    retry_after: Some(wait),
                    source: None,
                })
            })?;
            let failure = match self.attempt(&body, inputs.len(), priority.left()) {
                Ok(answer) => {
                    answer.tokens.inspect(|&tokens| turn.used(tokens));
                    return Ok(answer.rows);
                }
                Err(failure) => failure,
            };
            drop(turn);
            let asked = failure.retry_after.or(failure.resets_after);
            if let Some(asked) = asked {
                self.limiter.pause(priority, asked.min(MAX_PAUSE));
            }
            let wait = asked.unwrap_or_else(|| self.client.wait(attempt, None));
            if failure.transient && wait >= priority.left() {
                return Err(Unanswered::TooLate(error(failure.after(attempt))));
            }
            if !self.client.tries_again(attempt, &failure) || wait > MAX_PAUSE {
                return Err(Unanswered::Failed(error(failure.after(attempt))));
            }
            thread::sleep(wait);
            attempt += 1;
        }
    }

    fn attempt(&self, body: &str, inputs: usize, within: Duration) -> Result<Answer, Failure> {
        let dimension = self.identity.dimension;
        let max_bytes = (inputs as u64 * BYTES_PER_COMPONENT).saturating_mul(dimension.max(SOME_COMPONENTS) as u64);
        let answer = self.client.post("embeddings", body, within, max_bytes)?;
        answer::read(&answer, inputs, dimension).map_err(|unusable| match unusable {
            Unusable::Broken(what) => Failure::passing(self.client.answered(&what), None),
            Unusable::Vector(what) => Failure::lasting(self.client.answered(&what)),
            Unusable::Dimension(found) => Failure {
                whatever_asked: true,
                ..Failure::lasting(format!(
                    "{:?} gives vectors of {found} components, not {dimension}; give {found} as the dimension{}",
                    self.identity.name,
                    if self.send_dimension { "" } else { ", or have it sent, if the model can shorten its vectors" }
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
        windows::split(text, self.max_text_bytes())
    }

    fn embed_documents(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>> {
        let said: Vec<usize> = (0..texts.len()).filter(|&i| !texts[i].trim().is_empty()).collect();
        let inputs: Vec<String> =
            said.iter().map(|&i| self.input(&self.document_prefix, texts[i])).collect::<Result<_>>()?;
        let requests = self.requests(&inputs);
        let answers: Vec<OnceLock<Vec<Vec<f32>>>> = requests.iter().map(|_| OnceLock::new()).collect();
        let next = AtomicUsize::new(0);
        let work = || -> Result<()> {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                let Some(request) = requests.get(number) else { return Ok(()) };
                // Nothing more is asked for a call that fails.
                let stop = |_: &Error| next.store(requests.len(), Ordering::Relaxed);
                let rows = self.ask(request, Priority::Documents).map_err(Error::from).inspect_err(stop)?;
                answers[number].set(rows).expect("each request is made once");
            }
        };
        match self.limits.concurrent.min(requests.len()) {
            0 | 1 => work()?,
            threads => thread::scope(|scope| {
                let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
                workers.into_iter().try_for_each(|worker| worker.join().expect("work does not panic"))
            })?,
        }
        let mut rows = vec![vec![0.0; self.identity.dimension]; texts.len()];
        let answers = answers.into_iter().flat_map(|answer| answer.into_inner().expect("each request is made"));
        said.into_iter().zip(answers).for_each(|(i, row)| rows[i] = row);
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
        match self.ask(&[input], Priority::Query { until }) {
            Ok(mut rows) => Ok(rows.pop().expect("counted")),
            // The caller's own time is over, not this embedder's.
            Err(Unanswered::TooLate(_)) if deadline.is_some() => Err(Error::DeadlineExceeded),
            Err(unanswered) => Err(unanswered.into()),
        }
    }
}

/// Why there are no vectors.
enum Unanswered {
    /// A question's time does not suffice for its turn, for the answer or for another attempt.
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

fn error(Failure { reason, transient, whatever_asked, retry_after, resets_after, source }: Failure) -> Error {
    match whatever_asked {
        true => Error::EmbedderUnavailable { reason, transient, retry_after: retry_after.or(resets_after), source },
        false => Error::Embedding { reason, source },
    }
}
