//! Time zones, and points in time with the offset of a clock: what days are counted by.

use std::{fmt, str::FromStr};

use jiff::civil::DateTime;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::timestamp::Timestamp;
use crate::error::{Error, Result};

/// The name of the machine's time zone.
const SYSTEM: &str = "system";

/// A time zone, by its name in the database of time zones (`Europe/Berlin`), by its offset from UTC (`+02:00`), or `system`,
/// that of the machine.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema), schemars(inline, into = "String", try_from = "String"))]
pub struct TimeZone {
    name: String,
    zone: jiff::tz::TimeZone,
}

impl TimeZone {
    /// Returns UTC.
    pub fn utc() -> Self {
        TimeZone { name: "UTC".to_owned(), zone: jiff::tz::TimeZone::UTC }
    }

    /// Returns the time zone of the machine: that of the environment variable `TZ`, or else of the system. UTC if it is
    /// unknown.
    pub fn system() -> Self {
        TimeZone { name: SYSTEM.to_owned(), zone: jiff::tz::TimeZone::system() }
    }

    /// Returns what a clock shows at this moment. `None` outside of the calendar's years.
    pub(crate) fn local(&self, time: Timestamp) -> Option<DateTime> {
        Some(self.zone.to_datetime(jiff::Timestamp::from_microsecond(time.as_micros()).ok()?))
    }

    /// Returns the moment of a local time. Of two moments with that time, when clocks are set back, the first.
    pub(crate) fn moment(&self, local: DateTime) -> Option<Timestamp> {
        let zoned = self.zone.to_ambiguous_zoned(local).compatible().ok()?;
        Timestamp::from_micros(zoned.timestamp().as_microsecond())
    }
}

impl FromStr for TimeZone {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        if name == SYSTEM {
            return Ok(TimeZone::system());
        }
        let offset =
            || format!("2000-01-01T00:00:00{name}[{name}]").parse::<jiff::Zoned>().map(|at| at.time_zone().clone());
        let zone = jiff::tz::TimeZone::get(name).or_else(|_| offset()).map_err(|_| Error::InvalidConfig {
            reason: format!("{name:?} is not a time zone such as Europe/Berlin or +02:00"),
        })?;
        Ok(TimeZone { name: name.to_owned(), zone })
    }
}

impl fmt::Display for TimeZone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl Serialize for TimeZone {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.name)
    }
}

impl<'de> Deserialize<'de> for TimeZone {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        name.parse().map_err(|error| match error {
            Error::InvalidConfig { reason } => de::Error::custom(reason),
            error => de::Error::custom(error),
        })
    }
}

/// A point in time, and the offset from UTC of the clock that showed it, whose days are meant.
///
/// The text form is RFC 3339, whose offset is kept: `2024-05-01T17:30:00-08:00`. A [`Timestamp`] converts into a local time
/// of UTC.
///
/// ```
/// use mnemon::message::LocalTime;
/// let evening: LocalTime = "2024-05-01T17:30:00-08:00".parse()?;
/// assert_eq!(evening.time().to_string(), "2024-05-02T01:30:00Z");
/// assert_eq!(evening.to_string(), "2024-05-01T17:30:00-08:00");
/// # Ok::<(), mnemon::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalTime {
    time: Timestamp,
    /// Seconds east of UTC, less than 26 hours.
    offset: i32,
}

impl LocalTime {
    /// Creates a local time of a clock that is so many seconds east of UTC: -28,800 for `-08:00`. `None` from 26 hours on.
    pub fn new(time: Timestamp, offset_seconds: i32) -> Option<Self> {
        jiff::tz::Offset::from_seconds(offset_seconds).ok().map(|_| LocalTime { time, offset: offset_seconds })
    }

    /// Returns the point in time.
    pub fn time(self) -> Timestamp {
        self.time
    }

    /// Returns the time zone with the offset of the clock.
    pub fn zone(self) -> TimeZone {
        let zone = self.offset().to_time_zone();
        TimeZone { name: self.offset().to_string(), zone }
    }

    fn offset(self) -> jiff::tz::Offset {
        jiff::tz::Offset::from_seconds(self.offset).expect("the range is checked on construction")
    }
}

impl From<Timestamp> for LocalTime {
    fn from(time: Timestamp) -> Self {
        LocalTime { time, offset: 0 }
    }
}

impl FromStr for LocalTime {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let time: Timestamp = text.parse()?;
        // A text that is a time ends with its offset, or with Z; a date has neither.
        let offset = text
            .len()
            .checked_sub("+00:00".len())
            .and_then(|at| text.get(at..))
            .filter(|_| text.contains('T') || text.contains('t'));
        let seconds = offset.and_then(|offset| {
            let number = |range: std::ops::Range<usize>| offset.get(range)?.parse::<i32>().ok();
            let sign = match offset.as_bytes()[0] {
                b'+' => 1,
                b'-' => -1,
                _ => return None,
            };
            Some(sign * 60 * (60 * number(1..3)? + number(4..6)?))
        });
        Ok(seconds.and_then(|seconds| LocalTime::new(time, seconds)).unwrap_or(time.into()))
    }
}

impl fmt::Display for LocalTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.offset, jiff::Timestamp::from_microsecond(self.time.as_micros())) {
            (1.., Ok(time)) | (..=-1, Ok(time)) => fmt::Display::fmt(&time.display_with_offset(self.offset()), f),
            _ => fmt::Display::fmt(&self.time, f),
        }
    }
}

impl Serialize for LocalTime {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for LocalTime {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(|error| match error {
            Error::InvalidMessage { reason } => de::Error::custom(reason),
            error => de::Error::custom(error),
        })
    }
}
