//! A moment, as stored: microseconds since 1970 in UTC.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// A moment in UTC, to the microsecond, between the years -9999 and 9999.
///
/// Reads and shows RFC 3339 (`2024-05-01T09:30:00Z`), and years before 0 as ISO 8601 extends it (`-000044-03-15T12:00:00Z`);
/// another offset is converted to UTC.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Timestamp(i64);

impl Timestamp {
    /// This moment, by the system's clock.
    pub fn now() -> Self {
        Timestamp(jiff::Timestamp::now().as_microsecond())
    }

    /// From microseconds since 1970-01-01T00:00:00Z; `None` outside the years -9999 to 9999.
    pub fn from_micros(micros: i64) -> Option<Self> {
        jiff::Timestamp::from_microsecond(micros).ok().map(|_| Timestamp(micros))
    }

    /// Microseconds since 1970-01-01T00:00:00Z.
    pub fn as_micros(self) -> i64 {
        self.0
    }
}

impl Timestamp {
    /// Without what is below a second.
    pub(crate) fn to_the_second(self) -> Self {
        Timestamp::from_micros(self.0 - self.0.rem_euclid(1_000_000)).unwrap_or(self)
    }
}

impl FromStr for Timestamp {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        // jiff reads more than RFC 3339: other separators, missing minutes, zone names.
        let timestamp = is_rfc_3339(text).then(|| text.parse::<jiff::Timestamp>().ok()).flatten();
        timestamp
            // jiff reads the last second with a fraction, and makes none.
            .and_then(|timestamp| Timestamp::from_micros(timestamp.as_microsecond()))
            .ok_or_else(|| Error::message(format!("{text:?} is no RFC 3339 time, such as \"2024-05-01T09:30:00Z\"")))
    }
}

impl TryFrom<String> for Timestamp {
    type Error = Error;

    fn try_from(text: String) -> Result<Self> {
        text.parse()
    }
}

impl From<Timestamp> for String {
    fn from(timestamp: Timestamp) -> String {
        timestamp.to_string()
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let timestamp = jiff::Timestamp::from_microsecond(self.0).expect("range checked on construction");
        timestamp.fmt(f)
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Whether a text has the form of RFC 3339's `date-time`, or of one before the year 0; whether its numbers are a date is left
/// to the parser.
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
