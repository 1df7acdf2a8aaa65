//! Response headers that state when a server accepts another request.

use std::time::Duration;

use ureq::http::HeaderMap;

/// Reads `Retry-After`: a number of seconds, or a date that is still to come (RFC 9110, 10.2.3).
pub(super) fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let value = header(headers, "retry-after")?;
    if let Ok(seconds) = value.parse() {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let date = jiff::fmt::rfc2822::DateTimeParser::new().parse_timestamp(value).ok()?;
    Duration::try_from(date.duration_since(jiff::Timestamp::now())).ok()
}

/// Reads `x-ratelimit-reset-*`: the longest wait for a limit that is used up. If no limit is known to be used up, the
/// shortest wait: should it be too short, the next response states more.
pub(super) fn resets_after(headers: &HeaderMap) -> Option<Duration> {
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
}
