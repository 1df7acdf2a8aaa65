//! Points in time, stored as microseconds since 1970 in UTC, and times to live, stored in microseconds.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, de};

use crate::error::{Error, Result};

/// A point in time in UTC with microsecond precision, between the years -9999 and 9999.
///
/// The text form is RFC 3339 (`2024-05-01T09:30:00Z`); years before 0 have the extended form of ISO 8601
/// (`-000044-03-15T12:00:00Z`). Parsing converts other offsets to UTC, and reads a date alone (`2024-05-01`) as its first
/// moment in UTC.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(into = "String")]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schemars", schemars(rename = "Time", try_from = "String", extend("format" = "date-time")))]
pub struct Timestamp(i64);

impl Timestamp {
    /// Returns the current time of the system's clock.
    pub fn now() -> Self {
        Timestamp(jiff::Timestamp::now().as_microsecond())
    }

    /// Creates a timestamp from microseconds since 1970-01-01T00:00:00Z. `None` outside the years -9999 to 9999.
    pub fn from_micros(micros: i64) -> Option<Self> {
        jiff::Timestamp::from_microsecond(micros).ok().map(|_| Timestamp(micros))
    }

    /// Returns the microseconds since 1970-01-01T00:00:00Z.
    pub fn as_micros(self) -> i64 {
        self.0
    }

    /// Rounds down to a whole second.
    pub(crate) fn floor_to_second(self) -> Self {
        Timestamp::from_micros(self.0 - self.0.rem_euclid(1_000_000)).unwrap_or(self)
    }
}

/// Parses an RFC 3339 time, or a date. The error is the text of the reason.
fn parse(text: &str) -> Result<Timestamp, String> {
    // jiff parses more than RFC 3339: other separators, missing minutes, zone names.
    let read = |text: &str| is_rfc_3339(text).then(|| text.parse::<jiff::Timestamp>().ok()).flatten();
    read(text)
        .or_else(|| read(&format!("{text}T00:00:00Z")))
        // jiff parses a fraction in the very last second of its range, but cannot construct such a timestamp.
        .and_then(|timestamp| Timestamp::from_micros(timestamp.as_microsecond()))
        .ok_or_else(|| {
            let last = if text.starts_with("9999-") { ", at most \"9999-12-30T22:00:00Z\"" } else { "" };
            format!(
                "{text:?} is not an RFC 3339 time such as \"2024-05-01T09:30:00Z\"{last}, nor a date such as \"2024-05-01\""
            )
        })
}

impl FromStr for Timestamp {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        parse(text).map_err(Error::message)
    }
}

impl TryFrom<String> for Timestamp {
    type Error = Error;

    fn try_from(text: String) -> Result<Self> {
        text.parse()
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        parse(&String::deserialize(deserializer)?).map_err(de::Error::custom)
    }
}

impl From<Timestamp> for String {
    fn from(timestamp: Timestamp) -> String {
        timestamp.to_string()
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let timestamp = jiff::Timestamp::from_microsecond(self.0).expect("the range is checked on construction");
        timestamp.fmt(f)
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The range of a time to live, in minutes: one millisecond to a thousand years.
const TTL_MINUTES: std::ops::RangeInclusive<f64> = 1.0 / 60_000.0..=525_960_000.0;
const MICROS_PER_MINUTE: f64 = 60e6;

/// Converts a time to live, of documents or of messages, to microseconds. The error is the text of the reason.
pub(crate) fn ttl_micros(minutes: f64) -> Result<i64, String> {
    // Not a number is in no range.
    if !TTL_MINUTES.contains(&minutes) {
        return Err(format!(
            "the time to live is {minutes} minutes, not within a millisecond to a thousand years; give none for what \
             never expires"
        ));
    }
    Ok((minutes * MICROS_PER_MINUTE).round() as i64)
}

/// Converts a time to live in microseconds to minutes.
pub(crate) fn ttl_minutes(micros: i64) -> f64 {
    micros as f64 / MICROS_PER_MINUTE
}

/// Returns true if `text` has the form of RFC 3339's `date-time`, or of a time before the year 0. It does not check the
/// numbers: the parser does.
fn is_rfc_3339(text: &str) -> bool {
    let text = text.strip_prefix("-00").unwrap_or(text);
    let form = |text: &str, form: &str| {
        text.len() == form.len()
            && text.bytes().zip(form.bytes()).all(|(byte, form)| match form {
                b'0' => byte.is_ascii_digit(),
                form => byte.eq_ignore_ascii_case(&form),
            })
    };
    let Some((moment, rest)) = text.split_at_checked("0000-00-00T00:00:00".len()) else { return false };
    let fraction = rest.strip_prefix('.').map_or(0, |rest| 1 + rest.bytes().take_while(u8::is_ascii_digit).count());
    let (fraction, offset) = rest.split_at(fraction);
    form(moment, "0000-00-00T00:00:00")
        && fraction.len() != 1
        && (form(offset, "Z") || form(offset, "+00:00") || form(offset, "-00:00"))
}
