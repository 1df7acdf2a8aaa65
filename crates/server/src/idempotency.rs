//! Answers to requests with an `Idempotency-Key`, so that a client may repeat a request whose answer it did not get.
//!
//! The answers are kept in memory, so a server that was started anew does not know them. A client that gives its messages
//! ids of its own can put them again in any case.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use axum::{
    body::{Body, Bytes},
    http::{HeaderMap, HeaderValue, Response, StatusCode, header},
};
use sha2::{Digest, Sha256};
use tokio::sync::Mutex;

use crate::problem::{self, Problem};

pub(crate) const HEADER: &str = "idempotency-key";
const KEPT: Duration = Duration::from_secs(24 * 3600);
const MAX_KEYS: usize = 10_000;
const MAX_KEY_BYTES: usize = 255;
/// Bytes of all answers that are kept; the oldest are dropped first.
const MAX_BYTES: usize = 64 << 20;
/// Bytes of an answer that is kept. A larger one would take the place of many, so an error that says so is kept instead.
const MAX_ANSWER: usize = 4 << 20;

/// Marks the answer to a request that changed nothing, in its extensions: it is not kept.
#[derive(Clone)]
pub(crate) struct OnlyRead;

/// A caller's key. Those of two callers may be equal.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    caller: String,
    key: String,
}

enum State {
    Running,
    Done(StatusCode, Option<HeaderValue>, Bytes),
}

struct Entry {
    request: [u8; 32],
    since: Instant,
    state: State,
}

#[derive(Default)]
struct Entries {
    by_key: HashMap<Key, Entry>,
    /// Bytes of the answers that are kept.
    bytes: usize,
}

impl Entries {
    fn remove(&mut self, key: &Key) {
        if let Some(Entry { state: State::Done(.., body), .. }) = self.by_key.remove(key) {
            self.bytes -= body.len();
        }
    }

    /// Removes the answer whose request began first. Returns false if no answer is kept.
    fn remove_oldest(&mut self) -> bool {
        let done = self.by_key.iter().filter(|(_, entry)| matches!(entry.state, State::Done(..)));
        let oldest = done.min_by_key(|(_, entry)| entry.since).map(|(key, _)| key.clone());
        oldest.inspect(|key| self.remove(key)).is_some()
    }
}

#[derive(Default)]
pub(crate) struct Answers(Mutex<Entries>);

impl Answers {
    /// Returns the key of a request, if it has one.
    pub(crate) fn key(headers: &HeaderMap, caller: &str) -> Result<Option<Key>, Problem> {
        let Some(key) = headers.get(HEADER) else { return Ok(None) };
        let key = key.to_str().ok().filter(|key| (1..=MAX_KEY_BYTES).contains(&key.len()));
        let key =
            key.ok_or_else(|| Problem::bad_request("an Idempotency-Key has 1 to 255 visible ASCII characters"))?;
        Ok(Some(Key { caller: caller.to_owned(), key: key.to_owned() }))
    }

    /// Notes that a request begins, or returns the answer that it got before.
    pub(crate) async fn begin(&self, key: &Key, request: [u8; 32]) -> Result<Option<Response<Body>>, Problem> {
        let mut entries = self.0.lock().await;
        if let Some(entry) = entries.by_key.get(key).filter(|entry| entry.since.elapsed() < KEPT) {
            if entry.request != request {
                let detail = "this Idempotency-Key was used for another request; use a new one for each request";
                return Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "idempotency-key-reused", detail));
            }
            return match &entry.state {
                State::Running => {
                    let detail = "the first request with this Idempotency-Key is still running; repeat it later";
                    Err(Problem::new(StatusCode::CONFLICT, "idempotency-key-running", detail))
                }
                State::Done(status, media_type, body) => {
                    let mut response = Response::new(Body::from(body.clone()));
                    *response.status_mut() = *status;
                    if let Some(media_type) = media_type {
                        response.headers_mut().insert(header::CONTENT_TYPE, media_type.clone());
                    }
                    Ok(Some(response))
                }
            };
        }
        entries.remove(key);
        if entries.by_key.len() >= MAX_KEYS && !entries.remove_oldest() {
            return Err(Problem::overloaded());
        }
        entries.by_key.insert(key.clone(), Entry { request, since: Instant::now(), state: State::Running });
        Ok(None)
    }

    /// Keeps the answer of a request. `None`: the server failed, and the request may be tried again.
    pub(crate) async fn end(&self, key: &Key, answer: Option<(StatusCode, Option<HeaderValue>, Bytes)>) {
        let mut entries = self.0.lock().await;
        let (status, media_type, body) = match answer {
            None => return entries.remove(key),
            Some((.., body)) if body.len() > MAX_ANSWER => too_large_to_keep(),
            Some(answer) => answer,
        };
        let bytes = body.len();
        if let Some(entry) = entries.by_key.get_mut(key) {
            entry.state = State::Done(status, media_type, body);
            entries.bytes += bytes;
        }
        while entries.bytes > MAX_BYTES && entries.remove_oldest() {}
    }
}

fn too_large_to_keep() -> (StatusCode, Option<HeaderValue>, Bytes) {
    let detail =
        "the first request with this Idempotency-Key was done, and is not done again; its answer was too large to keep";
    let problem = Problem::new(StatusCode::CONFLICT, "idempotency-answer-dropped", detail);
    let body = serde_json::to_vec(&problem).expect("a problem is JSON");
    (StatusCode::CONFLICT, Some(HeaderValue::from_static(problem::MEDIA_TYPE)), body.into())
}

/// Returns the hash of a request, by which another request with the same key is refused.
pub(crate) fn request_hash(method: &str, path: &str, body: &[u8]) -> [u8; 32] {
    let mut hasher = Sha256::new();
    for part in [method.as_bytes(), path.as_bytes(), body] {
        hasher.update((part.len() as u64).to_le_bytes());
        hasher.update(part);
    }
    hasher.finalize().into()
}
