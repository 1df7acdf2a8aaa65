//! A server that speaks OpenAI's protocol: the address, the key, one request, when it is worth another, and when.
//!
//! Knows not what is asked. No type of the HTTP client leaves this module, and no error shows the key, or a password in the
//! address.

use std::{env, fmt, io, time::Duration};

use serde_json::Value;
use ureq::http::{HeaderMap, StatusCode};

use super::{header, is_unsendable, retry_after, shown, wait};
use crate::error::{BoxError, Error, Result};

const BASE_URL: &str = "https://api.openai.com/v1";

/// Clocks cannot add up much more than some centuries.
const MAX_TIMEOUT: Duration = Duration::from_secs(24 * 60 * 60);

/// The most of a server's own words in an error.
const MAX_REASON_CHARS: usize = 300;

/// A server, and how patient one is with it.
#[derive(Clone)]
pub(crate) struct Client {
    agent: ureq::Agent,
    base_url: String,
    api_key: Option<String>,
    timeout: Duration,
    attempts: usize,
    backoff: Duration,
}

/// Why a request has no answer that is of use.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) reason: String,
    /// Whether the same request may succeed later.
    pub(crate) transient: bool,
    /// Whether it is not for what was asked: the server is not reached, takes nothing just now, or knows not this address or key.
    pub(crate) whatever_asked: bool,
    /// How long the server asks to wait, by `Retry-After`.
    pub(crate) retry_after: Option<Duration>,
    /// When what was exceeded is there again, by `x-ratelimit-reset-*`.
    pub(crate) resets_after: Option<Duration>,
    pub(crate) source: Option<BoxError>,
}

impl Failure {
    /// One that the same request will meet again.
    pub(crate) fn lasting(reason: impl Into<String>) -> Self {
        let reason = reason.into();
        Failure { reason, transient: false, whatever_asked: false, retry_after: None, resets_after: None, source: None }
    }

    /// One that may pass.
    pub(crate) fn passing(reason: String, source: Option<BoxError>) -> Self {
        Failure { transient: true, source, ..Failure::lasting(reason) }
    }

    /// The same after so many attempts.
    pub(crate) fn after(self, attempts: usize) -> Self {
        match attempts {
            0 | 1 => self,
            _ => Failure { reason: format!("{} ({attempts} attempts)", self.reason), ..self },
        }
    }
}

impl Client {
    pub(crate) fn new(base_url: impl Into<String>) -> Self {
        let config = ureq::Agent::config_builder().http_status_as_error(false).max_redirects(0);
        Client {
            agent: config.build().new_agent(),
            base_url: base_url.into().trim_end_matches('/').to_owned(),
            api_key: None,
            timeout: Duration::from_secs(60),
            attempts: 3,
            backoff: Duration::from_millis(500),
        }
    }

    /// With the key of `OPENAI_API_KEY`, of the server of `OPENAI_BASE_URL`, or OpenAI's.
    ///
    /// # Errors
    /// [`Error::InvalidConfig`]: neither is set.
    pub(crate) fn from_env() -> Result<Self> {
        Client::from_variables(|name| env::var(name).ok())
    }

    fn from_variables(variable: impl Fn(&str) -> Option<String>) -> Result<Self> {
        let variable = |name| variable(name).filter(|value| !value.trim().is_empty());
        match (variable("OPENAI_BASE_URL"), variable("OPENAI_API_KEY")) {
            (None, None) => Err(Error::InvalidConfig {
                reason: "set OPENAI_API_KEY to a key, or OPENAI_BASE_URL to a server that needs none".to_owned(),
            }),
            (base_url, Some(key)) => Ok(Client::new(base_url.unwrap_or_else(|| BASE_URL.to_owned())).api_key(key)),
            (Some(base_url), None) => Ok(Client::new(base_url)),
        }
    }

    pub(crate) fn api_key(self, key: impl Into<String>) -> Self {
        Client { api_key: Some(key.into().trim().to_owned()), ..self }
    }

    /// Of each attempt, up to a day.
    pub(crate) fn timeout(self, timeout: Duration) -> Self {
        Client { timeout: timeout.min(MAX_TIMEOUT), ..self }
    }

    /// At least one.
    pub(crate) fn attempts(self, attempts: usize) -> Self {
        Client { attempts: attempts.max(1), ..self }
    }

    pub(crate) fn backoff(self, backoff: Duration) -> Self {
        Client { backoff, ..self }
    }

    /// One attempt to post this JSON, within the client's time and this one: the answer.
    pub(crate) fn post(&self, path: &str, body: &str, within: Duration, max_bytes: u64) -> Result<Vec<u8>, Failure> {
        let url = format!("{}/{path}", self.base_url);
        let mut request = self.agent.post(url).header("content-type", "application/json");
        if let Some(key) = &self.api_key {
            request = request.header("authorization", format!("Bearer {key}"));
        }
        let timeout = self.timeout.min(within);
        let unanswered = |error| self.unanswered(error, timeout, max_bytes);
        let request = request.config().timeout_global(Some(timeout)).build();
        let mut response = request.send(body).map_err(unanswered)?;
        let answer = response.body_mut().with_config().limit(max_bytes).read_to_vec();
        match response.status() {
            status if status.is_success() => answer.map_err(unanswered),
            status => Err(self.refused(status, response.headers(), &answer.unwrap_or_default())),
        }
    }

    /// Whether this attempt, the first being 1, is to be followed by another.
    pub(crate) fn tries_again(&self, attempt: usize, failure: &Failure) -> bool {
        failure.transient && attempt < self.attempts
    }

    /// What is waited after this attempt, the first being 1.
    pub(crate) fn wait(&self, attempt: usize, retry_after: Option<Duration>) -> Duration {
        wait(self.backoff, attempt, retry_after)
    }

    /// What is wrong with an answer, to follow "answered".
    pub(crate) fn answered(&self, what: &str) -> String {
        format!("{} answered {}", self.shown_url(), self.redacted(what))
    }

    /// The server's URL, without a password in it.
    pub(crate) fn shown_url(&self) -> String {
        shown(&self.base_url)
    }

    fn refused(&self, status: StatusCode, headers: &HeaderMap, answer: &[u8]) -> Failure {
        let mut reason = format!("{} answered {status}", self.shown_url());
        let said = self.redacted(&said(answer));
        if !said.is_empty() {
            reason = format!("{reason}: {said}");
        } else if status.is_redirection() {
            reason = format!("{reason}, a redirect; give the URL that it leads to");
        }
        let is_limit = status == StatusCode::TOO_MANY_REQUESTS;
        let transient = is_limit || matches!(status.as_u16(), 408 | 425) || status.is_server_error();
        let retry_after = retry_after(headers);
        Failure {
            transient,
            // 403 and most errors of the server are left out: what was asked may be their cause. It is not where the server says
            // when to come back.
            whatever_asked: is_limit
                || matches!(status.as_u16(), 401 | 404 | 405 | 408 | 425 | 503 | 504)
                || status.is_redirection()
                || (transient && retry_after.is_some()),
            retry_after,
            resets_after: if is_limit { resets_after(headers) } else { None },
            ..Failure::lasting(reason)
        }
    }

    /// No answer, or not all of it.
    fn unanswered(&self, error: ureq::Error, timeout: Duration, max_bytes: u64) -> Failure {
        let url = self.shown_url();
        match error {
            ureq::Error::Timeout(_) => Failure {
                whatever_asked: true,
                ..Failure::passing(format!("{url} did not answer within {timeout:?}"), Some(error.into()))
            },
            ureq::Error::BodyExceedsLimit(_) => Failure::lasting(format!("{url} answered more than {max_bytes} bytes")),
            // The error is left out, as it may show what was given.
            error if is_unsendable(&error) => Failure {
                whatever_asked: true,
                ..Failure::lasting(format!(
                    "{url} cannot be asked: the URL, a proxy's URL or the key has characters that HTTP does not take"
                ))
            },
            ureq::Error::Tls(_) | ureq::Error::Rustls(_) | ureq::Error::Pem(_) => Failure {
                whatever_asked: true,
                source: Some(error.into()),
                ..Failure::lasting(format!("no secure connection to {url}"))
            },
            error => {
                use io::ErrorKind::{ConnectionRefused, HostUnreachable, NetworkUnreachable};
                let whatever_asked = match &error {
                    ureq::Error::HostNotFound | ureq::Error::ConnectionFailed => true,
                    // A connection that breaks later may break of what was asked.
                    ureq::Error::Io(error) => {
                        matches!(error.kind(), ConnectionRefused | HostUnreachable | NetworkUnreachable)
                    }
                    _ => false,
                };
                Failure { whatever_asked, ..Failure::passing(format!("no answer of {url}"), Some(error.into())) }
            }
        }
    }

    /// A server's own words, without the key: some repeat it.
    fn redacted(&self, said: &str) -> String {
        let said = match self.api_key.as_deref() {
            Some(key) if !key.is_empty() => said.replace(key, "***"),
            _ => said.to_owned(),
        };
        said.chars().take(MAX_REASON_CHARS).collect()
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("base_url", &self.shown_url())
            .field("api_key", &self.api_key.as_ref().map(|_| "***"))
            .field("timeout", &self.timeout)
            .field("attempts", &self.attempts)
            .field("backoff", &self.backoff)
            .finish()
    }
}

/// The longest wait for a limit that has nothing remaining; if none is known to, the shortest: the next refusal says more.
fn resets_after(headers: &HeaderMap) -> Option<Duration> {
    let limits = ["requests", "tokens"].map(|limit| {
        let resets = span(header(headers, &format!("x-ratelimit-reset-{limit}"))?)?;
        Some((resets, header(headers, &format!("x-ratelimit-remaining-{limit}")) == Some("0")))
    });
    let limits = || limits.iter().flatten();
    let used_up = limits().filter(|(_, used_up)| *used_up).map(|(resets, _)| *resets).max();
    used_up.or_else(|| limits().map(|(resets, _)| *resets).min())
}

/// `6m0s`, `1m30.5s`, `20ms`; or seconds.
fn span(text: &str) -> Option<Duration> {
    let seconds = text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    seconds.or_else(|| text.parse::<jiff::SignedDuration>().ok()?.try_into().ok())
}

/// What an answer that is an error says of it: the protocol's message, or else its text.
fn said(answer: &[u8]) -> String {
    let json: Option<Value> = serde_json::from_slice(answer).ok();
    match json.as_ref().and_then(error_message) {
        Some(message) => message.trim().to_owned(),
        None => String::from_utf8_lossy(answer).split_whitespace().collect::<Vec<_>>().join(" "),
    }
}

pub(crate) fn error_message(answer: &Value) -> Option<&str> {
    answer["error"]["message"].as_str().or(answer["error"].as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables() {
        let of = |base_url: Option<&str>, key: Option<&str>| {
            let variable = |name: &str| if name == "OPENAI_BASE_URL" { base_url } else { key }.map(str::to_owned);
            Client::from_variables(variable).map(|client| (client.base_url, client.api_key))
        };
        assert_eq!(of(None, Some("k\n")).unwrap(), (BASE_URL.to_owned(), Some("k".to_owned())));
        assert_eq!(of(Some("http://a/v1/"), None).unwrap(), ("http://a/v1".to_owned(), None));
        assert_eq!(of(Some("http://a"), Some("k")).unwrap(), ("http://a".to_owned(), Some("k".to_owned())));
        let error = of(Some(""), None).unwrap_err().to_string();
        assert!(error.contains("OPENAI_API_KEY"), "{error}");
    }

    #[test]
    fn limits_that_reset() {
        let headers = |pairs: &[(&'static str, &str)]| {
            pairs.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect::<HeaderMap>()
        };
        let check = |pairs: &[(&'static str, &str)], millis: Option<u64>| {
            assert_eq!(resets_after(&headers(pairs)), millis.map(Duration::from_millis), "{pairs:?}");
        };
        let (requests, tokens) = ("x-ratelimit-reset-requests", "x-ratelimit-reset-tokens");
        check(&[], None);
        check(&[(requests, "6m0s")], Some(360_000));
        check(&[(requests, "20ms")], Some(20));
        check(&[(requests, "10")], Some(10_000));
        check(&[(requests, "-3s")], None);
        check(&[(requests, "a while")], None);
        check(&[(requests, "1m30.5s"), (tokens, "1h")], Some(90_500));
        check(&[(requests, "1s"), (tokens, "1h"), ("x-ratelimit-remaining-tokens", "0")], Some(3_600_000));
    }
}
