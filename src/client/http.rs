//! The HTTP policy of the crate: how requests are sent, which failures are transient, and when a request is retried.
//!
//! All clients of servers use it: those of OpenAI's protocol, and the download of models. It knows nothing of the contents
//! of requests. Invariant: no error and no `Debug` output shows a key, or a password in an address.

use std::{
    hash::{BuildHasher, RandomState},
    io, thread,
    time::Duration,
};

use ureq::{
    Agent, Body, RequestBuilder,
    http::{HeaderMap, Response, StatusCode},
    tls::{RootCerts, TlsConfig},
};

use crate::error::BoxError;

/// The maximum number of characters of a server's message in an error.
const MAX_MESSAGE_CHARS: usize = 300;

/// A connection pool and the key that is sent with each request. Clones share the connections.
///
/// The key is sent to the host of the request, but not to hosts that it redirects to.
#[derive(Clone)]
pub(crate) struct Transport {
    agent: Agent,
    key: Option<String>,
}

/// The settings in which the clients differ.
pub(crate) struct TransportOptions {
    /// The maximum number of redirects that are followed.
    pub(crate) max_redirects: u32,
    pub(crate) connect_timeout: Option<Duration>,
    /// The time limit for the beginning of the response, and for each further part of it.
    pub(crate) read_timeout: Option<Duration>,
    /// The certificates to trust instead of those that are compiled in.
    pub(crate) certificates: Option<RootCerts>,
}

impl Transport {
    pub(crate) fn new(options: TransportOptions) -> Self {
        let mut tls = TlsConfig::builder();
        if let Some(certificates) = options.certificates {
            tls = tls.root_certs(certificates);
        }
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(options.max_redirects)
            .timeout_connect(options.connect_timeout)
            .timeout_recv_response(options.read_timeout)
            .timeout_per_read(options.read_timeout)
            .tls_config(tls.build());
        Transport { agent: config.build().new_agent(), key: None }
    }

    /// Sends this key as a bearer token with every request.
    pub(crate) fn key(self, key: Option<String>) -> Self {
        Transport { key, ..self }
    }

    #[cfg(feature = "openai")]
    pub(crate) fn has_key(&self) -> bool {
        self.key.is_some()
    }

    #[cfg(feature = "pull")]
    pub(crate) fn get(&self, url: &str) -> RequestBuilder<ureq::typestate::WithoutBody> {
        self.authorized(self.agent.get(url))
    }

    #[cfg(feature = "openai")]
    pub(crate) fn post(&self, url: &str) -> RequestBuilder<ureq::typestate::WithBody> {
        self.authorized(self.agent.post(url))
    }

    fn authorized<B>(&self, request: RequestBuilder<B>) -> RequestBuilder<B> {
        match &self.key {
            Some(key) => request.header("authorization", format!("Bearer {key}")),
            None => request,
        }
    }

    /// Creates the failure of a request that the server refused. `message` is the server's explanation.
    pub(crate) fn refused(&self, url: &str, response: &Response<Body>, message: &str) -> Failure {
        Failure::of_status(url, response.status(), response.headers(), &self.redacted(message))
    }

    /// Shortens a server's message and removes the key, which some servers repeat.
    pub(crate) fn redacted(&self, message: &str) -> String {
        let message = match self.key.as_deref() {
            Some(key) if !key.is_empty() => message.replace(key, "***"),
            _ => message.to_owned(),
        };
        message.chars().take(MAX_MESSAGE_CHARS).collect()
    }
}

/// The failure of a request that returned no usable answer.
#[derive(Debug)]
// Downloads read fewer fields than the clients of OpenAI's protocol.
#[cfg_attr(not(feature = "openai"), expect(dead_code))]
pub(crate) struct Failure {
    /// A description of the failure, with the server's address.
    pub(crate) reason: String,
    /// Whether the same request may succeed later.
    pub(crate) transient: bool,
    /// Whether every request would have failed: the server cannot be reached, accepts no requests for now, or does not
    /// know this address or key.
    pub(crate) unavailable: bool,
    /// Whether the server refused the request by a status.
    pub(crate) refused: bool,
    /// The wait that the server requests in `Retry-After`.
    pub(crate) retry_after: Option<Duration>,
    /// The time until an exceeded limit resets, from `x-ratelimit-reset-*`.
    pub(crate) resets_after: Option<Duration>,
    pub(crate) source: Option<BoxError>,
}

impl Failure {
    /// Creates a failure that repeats if the request is sent again.
    pub(crate) fn lasting(reason: impl Into<String>) -> Self {
        let reason = reason.into();
        Failure {
            reason,
            transient: false,
            unavailable: false,
            refused: false,
            retry_after: None,
            resets_after: None,
            source: None,
        }
    }

    /// Creates a failure after which the same request may succeed.
    pub(crate) fn transient(reason: impl Into<String>) -> Self {
        Failure { transient: true, ..Failure::lasting(reason) }
    }

    pub(crate) fn caused_by(self, source: impl Into<BoxError>) -> Self {
        Failure { source: Some(source.into()), ..self }
    }

    /// Adds the number of attempts to the reason, unless it is 1.
    pub(crate) fn after(self, attempts: usize) -> Self {
        match attempts {
            0 | 1 => self,
            _ => Failure { reason: format!("{} ({attempts} attempts)", self.reason), ..self },
        }
    }

    /// Classifies a response whose status is not a success. `message` is the server's explanation, which may be empty.
    fn of_status(url: &str, status: StatusCode, headers: &HeaderMap, message: &str) -> Self {
        let mut reason = format!("{} answered {status}", shown_url(url));
        if !message.is_empty() {
            reason = format!("{reason}: {message}");
        } else if status.is_redirection() {
            reason = format!("{reason}, a redirect; give the URL that it leads to");
        }
        let is_limit = status == StatusCode::TOO_MANY_REQUESTS;
        let transient = is_limit || matches!(status.as_u16(), 408 | 425) || status.is_server_error();
        let retry_after = retry_after(headers);
        Failure {
            transient,
            refused: true,
            // 403 and most server errors do not count, because the request may have caused them. A server that states when
            // to retry is unavailable until then.
            unavailable: is_limit
                || matches!(status.as_u16(), 401 | 404 | 405 | 408 | 425 | 503 | 504)
                || status.is_redirection()
                || (transient && retry_after.is_some()),
            retry_after,
            resets_after: if is_limit { resets_after(headers) } else { None },
            ..Failure::lasting(reason)
        }
    }

    /// Classifies the error of a request that was not sent, or whose response was incomplete.
    pub(crate) fn of_transport(url: &str, error: ureq::Error) -> Self {
        let url = shown_url(url);
        match error {
            // The error is not kept as the source, because its text may contain a password or the key.
            ureq::Error::BadUri(_) | ureq::Error::Http(_) | ureq::Error::InvalidProxyUrl => Failure {
                unavailable: true,
                ..Failure::lasting(format!(
                    "no request can be made to {url}: the URL, a proxy's URL or the key has characters that HTTP does not allow"
                ))
            },
            ureq::Error::Timeout(_) => Failure {
                unavailable: true,
                ..Failure::transient(format!("{url} did not answer in time")).caused_by(error)
            },
            ureq::Error::Tls(_) | ureq::Error::Rustls(_) | ureq::Error::Pem(_) => Failure {
                unavailable: true,
                ..Failure::lasting(format!("no secure connection to {url}")).caused_by(error)
            },
            error => {
                use io::ErrorKind::{ConnectionRefused, HostUnreachable, NetworkUnreachable};
                let unavailable = match &error {
                    ureq::Error::HostNotFound | ureq::Error::ConnectionFailed => true,
                    // A connection that breaks later may have broken because of the request.
                    ureq::Error::Io(error) => {
                        matches!(error.kind(), ConnectionRefused | HostUnreachable | NetworkUnreachable)
                    }
                    _ => false,
                };
                Failure { unavailable, ..Failure::transient(format!("no answer from {url}")).caused_by(error) }
            }
        }
    }
}

/// Reads `Retry-After`: a number of seconds, or a date in the future (RFC 9110, 10.2.3).
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let value = header(headers, "retry-after")?;
    if let Ok(seconds) = value.parse() {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let date = jiff::fmt::rfc2822::DateTimeParser::new().parse_timestamp(value).ok()?;
    Duration::try_from(date.duration_since(jiff::Timestamp::now())).ok()
}

/// Reads `x-ratelimit-reset-*`: the longest wait among the limits that are used up. If no limit is known to be used up,
/// the shortest wait: if it is too short, the next response requests a further one.
fn resets_after(headers: &HeaderMap) -> Option<Duration> {
    let limits = ["requests", "tokens"].map(|limit| {
        let resets = span(header(headers, &format!("x-ratelimit-reset-{limit}"))?)?;
        Some((resets, header(headers, &format!("x-ratelimit-remaining-{limit}")) == Some("0")))
    });
    let limits = || limits.iter().flatten();
    let used_up = limits().filter(|(_, used_up)| *used_up).map(|(resets, _)| *resets).max();
    used_up.or_else(|| limits().map(|(resets, _)| *resets).min())
}

/// Parses `6m0s`, `1m30.5s`, `20ms`, or a number of seconds.
fn span(text: &str) -> Option<Duration> {
    let seconds = text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    seconds.or_else(|| text.parse::<jiff::SignedDuration>().ok()?.try_into().ok())
}

fn header<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    headers.get(name)?.to_str().ok().map(str::trim)
}

/// The maximum wait between two attempts, even if the server requests a longer one.
const MAX_WAIT: Duration = Duration::from_secs(30);

/// A retry policy: the number of attempts, with exponential backoff and jitter between them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Retry {
    /// The number of attempts, at least one.
    pub(crate) attempts: usize,
    /// The wait before the second attempt.
    pub(crate) backoff: Duration,
}

impl Default for Retry {
    fn default() -> Self {
        Retry { attempts: 3, backoff: Duration::from_millis(500) }
    }
}

impl Retry {
    /// Calls `attempt` until it succeeds, fails with a lasting failure, or the attempts are used up. Sleeps between
    /// attempts.
    pub(crate) fn run<T>(&self, mut attempt: impl FnMut() -> Result<T, Failure>) -> Result<T, Failure> {
        let mut number = 1;
        loop {
            match attempt() {
                Err(failure) if self.allows(number, &failure) => thread::sleep(self.wait(number, failure.retry_after)),
                outcome => return outcome.map_err(|failure| failure.after(number)),
            }
            number += 1;
        }
    }

    /// Returns true if another attempt should follow this failed one, counted from 1.
    pub(crate) fn allows(&self, attempt: usize, failure: &Failure) -> bool {
        failure.transient && attempt < self.attempts
    }

    /// Returns how long to wait after this failed attempt, counted from 1: the time that the server requests, up to 30 s,
    /// or else a random half to all of the backoff, which doubles with each attempt up to 30 s.
    pub(crate) fn wait(&self, attempt: usize, retry_after: Option<Duration>) -> Duration {
        if let Some(wait) = retry_after {
            return wait.min(MAX_WAIT);
        }
        let doubled = self.backoff.saturating_mul(1 << (attempt.max(1) - 1).min(30)).min(MAX_WAIT);
        // Each `RandomState` has its own keys. That is random enough to keep many clients from retrying at one time.
        let chance = (RandomState::new().hash_one(attempt) >> 32) as f64 / f64::from(u32::MAX);
        doubled.mul_f64(0.5 + chance / 2.0)
    }
}

/// Returns the URL without its user, password and query, which may be a signature.
///
/// A text that is not a URL, such as one with a mistyped scheme, also loses everything before its last `@`.
pub(crate) fn shown_url(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    // The password is cut off first: it may contain any character.
    let location = rest.rsplit('@').next().unwrap_or_default();
    let location = location.split(['?', '#']).next().unwrap_or_default();
    let (host, path) = location.split_at(location.find('/').unwrap_or(location.len()));
    match scheme.bytes().all(|byte| byte.is_ascii_alphanumeric()) && !scheme.is_empty() {
        true => format!("{scheme}://{host}{path}"),
        false => format!("{host}{path}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_after_is_parsed() {
        let check = |value: &str, millis: Option<u64>| {
            let headers = [("retry-after".parse().unwrap(), value.parse().unwrap())].into_iter().collect();
            assert_eq!(retry_after(&headers), millis.map(Duration::from_millis), "{value}");
        };
        check("7", Some(7000));
        check(" 0.5 ", Some(500));
        check("soon", None);
        check("-1", None);
        check("1e300", None);
        check("Fri, 31 Dec 1999 23:59:59 GMT", None);
        let later = jiff::Timestamp::now() + Duration::from_secs(90);
        let later = jiff::fmt::rfc2822::DateTimePrinter::new().timestamp_to_rfc9110_string(&later).unwrap();
        let headers = [("retry-after".parse().unwrap(), later.parse().unwrap())].into_iter().collect();
        let wait = retry_after(&headers).unwrap();
        assert!((80..=90).contains(&wait.as_secs()), "{later}: {wait:?}");
    }

    #[test]
    fn reset_times_are_parsed() {
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

    #[test]
    fn waits_grow_up_to_a_maximum() {
        let s = Duration::from_secs;
        let retry = Retry::default();
        for (attempt, low, high) in [(1, 250, 500), (2, 500, 1000), (3, 1000, 2000), (20, 15_000, 30_000)] {
            let wait = retry.wait(attempt, None).as_millis();
            assert!((low..=high).contains(&wait), "attempt {attempt}: {wait} ms");
        }
        assert_eq!(retry.wait(1, Some(s(7))), s(7));
        assert_eq!(retry.wait(1, Some(s(3600))), s(30), "capped");
        assert_eq!(retry.wait(9, Some(s(0))), s(0));
    }

    #[test]
    fn only_transient_failures_are_retried() {
        let check = |failure: fn() -> Failure, fails: usize, wanted: Result<usize, &str>| {
            let mut calls = 0;
            let retry = Retry { attempts: 3, backoff: Duration::ZERO };
            let outcome = retry.run(|| {
                calls += 1;
                if calls > fails { Ok(calls) } else { Err(failure()) }
            });
            assert_eq!(outcome.map_err(|failure| failure.reason), wanted.map_err(str::to_owned));
        };
        check(|| Failure::transient("busy"), 2, Ok(3));
        check(|| Failure::transient("busy"), 3, Err("busy (3 attempts)"));
        check(|| Failure::lasting("no such model"), 1, Err("no such model"));
    }

    #[test]
    fn passwords_and_queries_are_not_shown() {
        for (url, wanted) in [
            ("https://host/path", "https://host/path"),
            ("http://127.0.0.1:8080/v1", "http://127.0.0.1:8080/v1"),
            ("http://[::1]:80/v1", "http://[::1]:80/v1"),
            ("http://[::1]/v1", "http://[::1]/v1"),
            ("https://host/path?signature=secret#secret", "https://host/path"),
            ("https://user:secret@host/path", "https://host/path"),
            ("https://user:secret@host", "https://host"),
            ("https://user:sec@ret@host/path", "https://host/path"),
            ("https://user:sec/ret@host/path", "https://host/path"),
            ("https://user:s?ecret@host/path", "https://host/path"),
            ("https://user:12#34@host/path", "https://host/path"),
            ("user:secret@host/path", "host/path"),
            ("user:secret@host", "host"),
            ("https:/user:secret@host/path", "host/path"),
            ("user:secret@https://host/path", "host/path"),
            ("nowhere", "nowhere"),
            ("", ""),
        ] {
            assert_eq!(shown_url(url), wanted, "{url}");
        }
    }
}
