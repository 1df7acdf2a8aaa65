//! Parses what published files have: long JSON lists, which are read element by element, so that a large file is never in
//! memory as a whole; and times in formats of their own.

use std::{
    fmt,
    io::{BufReader, Read},
    marker::PhantomData,
    path::Path,
};

use anyhow::Context;
use jiff::{fmt::strtime, tz::TimeZone};
use mnemon::Timestamp;
use serde::{
    Deserialize, Deserializer,
    de::{Error, SeqAccess, Visitor},
};

use crate::input;

/// Passes the elements of a file's list to `take`. Errors name the file, the line and the column. Those of `take` name
/// the line up to which the file was read: that of the next element.
pub(super) fn each<T: for<'de> Deserialize<'de>>(
    path: &Path,
    take: impl FnMut(T) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    each_of(input::open(path)?, take).with_context(|| path.display().to_string())
}

fn each_of<T: for<'de> Deserialize<'de>>(
    reader: impl Read,
    take: impl FnMut(T) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let mut deserializer = serde_json::Deserializer::from_reader(BufReader::with_capacity(1 << 20, reader));
    deserializer.deserialize_seq(Each { take, element: PhantomData })?;
    Ok(deserializer.end()?)
}

struct Each<T, F> {
    take: F,
    element: PhantomData<T>,
}

impl<'de, T: Deserialize<'de>, F: FnMut(T) -> anyhow::Result<()>> Visitor<'de> for Each<T, F> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut list: A) -> Result<(), A::Error> {
        while let Some(element) = list.next_element()? {
            (self.take)(element).map_err(|error| A::Error::custom(format!("{error:#}")))?;
        }
        Ok(())
    }
}

/// Parses a time in a format of `strptime`. Published times mostly have no zone: they are taken as UTC.
pub(super) fn parse_time(text: &str, format: &str) -> anyhow::Result<Timestamp> {
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
    use anyhow::ensure;

    use super::*;

    #[test]
    fn errors_name_the_line() {
        let check = |text: &str, part: &str| {
            let mut seen = Vec::new();
            let take = |number: u32| {
                ensure!(number < 9, "{number} is too large");
                seen.push(number);
                Ok(())
            };
            match each_of(text.as_bytes(), take) {
                Ok(()) => assert_eq!(format!("{seen:?}"), part),
                Err(error) => assert!(format!("{error:#}").contains(part), "{error:#}"),
            }
        };
        check("[1,\n 2]", "[1, 2]");
        // The error is found when the element was read: its position is that of the next.
        check("[1,\n 10,\n 2]", "10 is too large at line 3");
        check("[1,\n\"x\"]", "at line 2");
        check("{}", "expected a list at line 1");
        check("[1] 2", "trailing characters");
        check("[1", "line 1");
    }

    #[test]
    fn formats_of_published_files_are_parsed() {
        let check = |text: &str, format: &str, wanted: &str| {
            let found =
                parse_time(text, format).map(|time| time.to_string()).unwrap_or_else(|error| format!("{error:#}"));
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
