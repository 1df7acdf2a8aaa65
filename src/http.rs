//! What clients of servers that speak OpenAI's protocol have in common: the address, the key, one request, when it is worth another,
//! and when.
//!
//! Knows not what is asked. No type of the HTTP client leaves this module, and no error shows the key, or a password in the
//! address.

use std::{
    env, fmt,
    hash::{BuildHasher, RandomState},
    io,
    time::Duration,
};

use serde_json::Value;
use ureq::http::{HeaderMap, StatusCode};

use crate::error::{BoxError, Error, Result};

const BASE_URL: &str = "https://api.openai.com/v1";

/// The longest wait between attempts, also where the server asks for more.
const MAX_WAIT: Duration = Duration::from_secs(30);

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
        if let Some(wait) = retry_after {
            return wait.min(MAX_WAIT);
        }
        let doubled = self.backoff.saturating_mul(1 << (attempt - 1).min(30)).min(MAX_WAIT);
        // Each `RandomState` has keys of its own: chance enough to keep clients from asking all at once.
        let chance = (RandomState::new().hash_one(attempt) >> 32) as f64 / f64::from(u32::MAX);
        doubled.mul_f64(0.5 + chance / 2.0)
    }

    /// What is wrong with an answer, to follow "answered".
    pub(crate) fn answered(&self, what: &str) -> String {
        format!("{} answered {}", self.shown_url(), self.redacted(what))
    }

    /// The server's URL, without a password in it.
    pub(crate) fn shown_url(&self) -> String {
        match self.base_url.split_once("://") {
            Some((scheme, rest)) => {
                let host = rest.find('/').unwrap_or(rest.len());
                let begin = rest[..host].rfind('@').map_or(0, |at| at + 1);
                format!("{scheme}://{}", &rest[begin..])
            }
            None => self.base_url.clone(),
        }
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
        Failure {
            transient: is_limit || matches!(status.as_u16(), 408 | 425) || status.is_server_error(),
            // 403 and errors of the server are left out: what was asked may be their cause.
            whatever_asked: is_limit || matches!(status.as_u16(), 401 | 404 | 405) || status.is_redirection(),
            retry_after: retry_after(headers),
            resets_after: if is_limit { resets_after(headers) } else { None },
            ..Failure::lasting(reason)
        }
    }

    /// No answer, or not all of it.
    fn unanswered(&self, error: ureq::Error, timeout: Duration, max_bytes: u64) -> Failure {
        let url = self.shown_url();
        match error {
            ureq::Error::Timeout(_) => {
                Failure::passing(format!("{url} did not answer within {timeout:?}"), Some(error.into()))
            }
            ureq::Error::BodyExceedsLimit(_) => Failure::lasting(format!("{url} answered more than {max_bytes} bytes")),
            // What is wrong is on this side. The error is left out, as it may show what was given.
            ureq::Error::BadUri(_) | ureq::Error::Http(_) | ureq::Error::InvalidProxyUrl => Failure {
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

/// Seconds, or a date that is still to come (RFC 9110, 10.2.3).
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let value = header(headers, "retry-after")?;
    if let Ok(seconds) = value.parse() {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let date = jiff::fmt::rfc2822::DateTimeParser::new().parse_timestamp(value).ok()?;
    Duration::try_from(date.duration_since(jiff::Timestamp::now())).ok()
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

fn header<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    headers.get(name)?.to_str().ok().map(str::trim)
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
    fn waits() {
        let client = Client::new("http://a");
        let s = Duration::from_secs;
        for (attempt, low, high) in [(1, 250, 500), (2, 500, 1000), (3, 1000, 2000), (20, 15_000, 30_000)] {
            let wait = client.wait(attempt, None).as_millis();
            assert!((low..=high).contains(&wait), "attempt {attempt}: {wait} ms");
        }
        assert_eq!(client.wait(1, Some(s(7))), s(7));
        assert_eq!(client.wait(1, Some(s(3600))), s(30), "capped");
        assert_eq!(client.wait(9, Some(s(0))), s(0));
    }

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
    fn when_to_come_back() {
        let headers = |pairs: &[(&'static str, &str)]| {
            pairs.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect::<HeaderMap>()
        };
        let check = |value: &str, millis: Option<u64>| {
            assert_eq!(retry_after(&headers(&[("retry-after", value)])), millis.map(Duration::from_millis), "{value}");
        };
        check("7", Some(7000));
        check(" 0.5 ", Some(500));
        check("soon", None);
        check("-1", None);
        check("1e300", None);
        check("Fri, 31 Dec 1999 23:59:59 GMT", None);
        let later = jiff::Timestamp::now() + Duration::from_secs(90);
        let later = jiff::fmt::rfc2822::DateTimePrinter::new().timestamp_to_rfc9110_string(&later).unwrap();
        let wait = retry_after(&headers(&[("retry-after", &later)])).unwrap();
        assert!((80..=90).contains(&wait.as_secs()), "{later}: {wait:?}");

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
