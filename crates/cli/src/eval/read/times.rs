//! Parses the times of published files, which have no time zone: they are taken as UTC.

use anyhow::Context;
use jiff::{fmt::strtime, tz::TimeZone};
use mnemon::Timestamp;

/// Parses a time in a format of `strptime`. A format without a zone is in UTC.
pub(super) fn parse(text: &str, format: &str) -> anyhow::Result<Timestamp> {
    let parsed = || {
        let time = strtime::parse(format, text.trim())?;
        match time.to_timestamp() {
            Ok(timestamp) => Ok(timestamp),
            Err(_) => time.to_datetime()?.to_zoned(TimeZone::UTC).map(|zoned| zoned.timestamp()),
        }
    };
    let parsed = parsed().with_context(|| format!("the time {text:?} is not in the format {format:?}"))?;
    Timestamp::from_micros(parsed.as_microsecond()).with_context(|| format!("the time {text:?} is out of range"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_of_published_files_are_parsed() {
        let check = |text: &str, format: &str, wanted: &str| {
            let found = parse(text, format).map(|time| time.to_string()).unwrap_or_else(|error| format!("{error:#}"));
            assert!(found.starts_with(wanted), "{text}: {found}");
        };
        check("1:56 pm on 8 May, 2023", "%I:%M %p on %d %B, %Y", "2023-05-08T13:56:00Z");
        check("12:09 am on 13 September, 2023", "%I:%M %p on %d %B, %Y", "2023-09-13T00:09:00Z");
        check("2023/05/30 23:40", "%Y/%m/%d %H:%M", "2023-05-30T23:40:00Z");
        check("2023-05-30", "%Y-%m-%d", "2023-05-30T00:00:00Z");
        check("2023-05-30 01:00 +0200", "%Y-%m-%d %H:%M %z", "2023-05-29T23:00:00Z");
        check("soon", "%Y-%m-%d", "the time \"soon\" is not in the format \"%Y-%m-%d\"");
    }
}
