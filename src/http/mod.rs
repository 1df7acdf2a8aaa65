//! What the clients of other machines have in common: how an address is shown, and how long is waited before another attempt.
//!
//! There are two: of servers that speak OpenAI's protocol, and of what models are fetched from (`embed::pull`).

#[cfg(feature = "openai")]
mod client;

use std::{
    hash::{BuildHasher, RandomState},
    time::Duration,
};

use ureq::http::HeaderMap;

#[cfg(feature = "openai")]
pub(crate) use client::{Client, Failure, error_message};

/// The longest wait between attempts, also where the server asks for more.
const MAX_WAIT: Duration = Duration::from_secs(30);

/// A URL without a user and a password, and without its query, which may be a signature.
///
/// Also of what is no URL, such as one whose scheme is mistyped: nothing before an `@` is shown.
pub(crate) fn shown(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    // First: a password may have any character in it.
    let place = rest.rsplit('@').next().unwrap_or_default();
    let place = place.split(['?', '#']).next().unwrap_or_default();
    let (host, path) = place.split_at(place.find('/').unwrap_or(place.len()));
    match scheme.bytes().all(|byte| byte.is_ascii_alphanumeric()) && !scheme.is_empty() {
        true => format!("{scheme}://{host}{path}"),
        false => format!("{host}{path}"),
    }
}

/// What is waited after this attempt, the first being 1: what the server asks for, or else about `first`, doubled with each attempt.
pub(crate) fn wait(first: Duration, attempt: usize, retry_after: Option<Duration>) -> Duration {
    if let Some(wait) = retry_after {
        return wait.min(MAX_WAIT);
    }
    let doubled = first.saturating_mul(1 << (attempt.max(1) - 1).min(30)).min(MAX_WAIT);
    // Each `RandomState` has keys of its own: chance enough to keep clients from asking all at once.
    let chance = (RandomState::new().hash_one(attempt) >> 32) as f64 / f64::from(u32::MAX);
    doubled.mul_f64(0.5 + chance / 2.0)
}

/// How long the server asks to wait: seconds, or a date that is still to come (RFC 9110, 10.2.3).
pub(crate) fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let value = header(headers, "retry-after")?;
    if let Ok(seconds) = value.parse() {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let date = jiff::fmt::rfc2822::DateTimeParser::new().parse_timestamp(value).ok()?;
    Duration::try_from(date.duration_since(jiff::Timestamp::now())).ok()
}

fn header<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    headers.get(name)?.to_str().ok().map(str::trim)
}

/// Whether no request can be made of what was given: a URL or a key. Such an error may show it, and is not to be shown.
pub(crate) fn is_unsendable(error: &ureq::Error) -> bool {
    matches!(error, ureq::Error::BadUri(_) | ureq::Error::Http(_) | ureq::Error::InvalidProxyUrl)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_password_is_shown() {
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
            assert_eq!(shown(url), wanted, "{url}");
        }
    }

    #[test]
    fn waits() {
        let s = Duration::from_secs;
        let half = Duration::from_millis(500);
        for (attempt, low, high) in [(1, 250, 500), (2, 500, 1000), (3, 1000, 2000), (20, 15_000, 30_000)] {
            let wait = wait(half, attempt, None).as_millis();
            assert!((low..=high).contains(&wait), "attempt {attempt}: {wait} ms");
        }
        assert_eq!(wait(half, 1, Some(s(7))), s(7));
        assert_eq!(wait(half, 1, Some(s(3600))), s(30), "capped");
        assert_eq!(wait(half, 9, Some(s(0))), s(0));
    }

    #[test]
    fn when_to_come_back() {
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
}
