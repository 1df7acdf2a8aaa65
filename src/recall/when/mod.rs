//! Finds time expressions in queries: the words of a text that name a time, and the span that they mean.
//!
//! This module owns the rules below. It does not decide how a time in a query is used, and reads no clock: the current
//! time is given.
//!
//! The language is English, in upper or lower case. Spans are whole days, except for hours and minutes. A week begins
//! on Monday, as in ISO 8601. Seasons are those of the northern hemisphere, in whole months; a winter has the year in
//! which it begins.
//!
//! | expression | span |
//! | --- | --- |
//! | 7 May 2023; May 7th, 2023; Tuesday, 7 May; 2023-05-07; 13/05/2023 | that day; nothing if it may be read in two ways, as 05/06/2023 |
//! | May 2023, 05/2023, 2023-05, Q3 2024, summer 2023, 2023, the 90s | all of it |
//! | in May; May 7; in the summer; at Christmas | without a year the last that has begun |
//! | May last year, the summer of this year | that of the calendar year |
//! | Christmas | 24 to 26 December; New Year's: 31 December and 1 January. Also the days of these by name, Valentine's Day, Halloween, Thanksgiving (of the United States), Boxing Day. Easter and other movable holidays are not known |
//! | early, mid, late; the beginning, middle, end of | a third: in months if they come out even, otherwise in days |
//! | the first week, last Friday, second half, last two weeks of | counted from the beginning or the end of the period: the first week of May is the 1st to the 7th |
//! | the week of 7 May | the calendar week that contains the day |
//! | today, tonight, yesterday, last night (yesterday), tomorrow | that day |
//! | this, last, next week, month, quarter, year, decade, weekend | those of the calendar |
//! | the last week, the past month, the last 3 days, past few years | a period of that length up to the end of today |
//! | last May, last summer, last Christmas | the last that is over |
//! | last Tuesday, on Tuesday | the last before today; next Tuesday: the first after today; this Tuesday: of this week |
//! | on the weekend | the last that has begun |
//! | recently, lately | the last 14 days and today: an arbitrary choice |
//! | N minutes ago | 5 minutes before it to 5 after |
//! | N hours ago | 1 hour before it to 1 after |
//! | N days ago | that day |
//! | N weeks ago | the week around it: 3 days before to 3 after |
//! | N quarters ago | that quarter |
//! | N months ago | the month around it: 15 days before to 15 after |
//! | N years ago | that calendar year |
//! | N decades ago | the ten calendar years around it |
//! | N weeks from now; N weeks before, after 3 May | as with "ago", counted from there |
//! | a couple, a few, several | 2 to 3, 2 to 5, 3 to 8: all of that time |
//! | the day, week, Sunday before, after 3 May; the week before last | the nearest one that is outside |
//! | since X; from X onwards; after X | from its beginning; from its end; without an end |
//! | before X; until X; by X | to its beginning; to its end; without a beginning |
//! | around X | half as long again on either side |
//! | between X and Y; from X to Y; X-Y | from the beginning of X to the end of Y; a year or month named once is that of both, and without a year Y is the first after X |
//!
//! Ambiguous words must be accompanied by others. A month needs a day, a year or a preposition ("April's birthday" is
//! no time, "in April" is). A year from 1900 to 2100 needs a preposition, the word "year" or a month, and no noun that
//! it counts may follow ("in 2000 words").
//!
//! Crates considered instead: `chrono-english`, `interim`, `two_timer`, `fuzzydate` and `whenparse` parse a string that
//! is a date, and find none in a sentence; `date_time_parser` finds one in a sentence, as a single day and without its
//! position. All but `interim` and `whenparse` depend on chrono.

mod calendar;
mod names;
mod phrases;
mod reader;
#[cfg(test)]
mod tests;
mod words;

use std::ops::Range;

use jiff::civil::DateTime;

use self::{phrases::Bounds, reader::Reader, words::Words};
use crate::message::{TimeZone, Timestamp};

/// A span of time, from one moment to before another.
///
/// A span without a beginning or an end begins at the first second, or ends at the last, that a [`Timestamp`] can
/// represent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TimeSpan {
    /// The first moment of the span.
    pub since: Timestamp,
    /// The first moment after the span; later than `since`.
    pub until: Timestamp,
}

impl TimeSpan {
    /// Returns true if the time is within the span.
    pub(super) fn contains(&self, time: Timestamp) -> bool {
        self.since <= time && time < self.until
    }
}

/// Words of a text that name a time.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TimeExpression {
    /// The span of time that they name.
    pub span: TimeSpan,
    /// The byte range of the words in the text, including the preposition.
    pub range: Range<usize>,
}

/// Finds the time expressions of an English text: "last week", "in May 2023", "since Christmas". They are in the order
/// of the text and do not overlap: of those that begin at the same word the longest is taken.
///
/// Days are those of UTC. Any text is accepted; impossible times ("between June and May 2023") and times outside the
/// range of [`Timestamp`] are left out. Cost: linear in the length of the text.
///
/// ```
/// use mnemon::{Timestamp, time_expressions};
/// let now: Timestamp = "2023-05-17T12:00:00Z".parse()?;
/// let text = "What did I cook last week?";
/// let found = time_expressions(text, now);
/// assert_eq!(&text[found[0].range.clone()], "last week");
/// assert_eq!(found[0].span.since.to_string(), "2023-05-08T00:00:00Z");
/// assert_eq!(found[0].span.until.to_string(), "2023-05-15T00:00:00Z");
/// # Ok::<(), mnemon::Error>(())
/// ```
pub fn time_expressions(text: &str, now: Timestamp) -> Vec<TimeExpression> {
    time_expressions_in(text, now, &TimeZone::utc())
}

/// Same as [`time_expressions`], with the days of a time zone.
pub fn time_expressions_in(text: &str, now: Timestamp, zone: &TimeZone) -> Vec<TimeExpression> {
    let Some(now) = zone.local(now) else { return Vec::new() };
    let reader = Reader::new(Words::of(text), now);
    let mut found = Vec::new();
    let mut at = 0;
    while at < reader.words.len() {
        let Some((bounds, next)) = reader.phrase(at) else {
            at += 1;
            continue;
        };
        if let Some(span) = bounds.and_then(|bounds| span(bounds, zone)) {
            found.push(TimeExpression { span, range: reader.words.bytes(at, next) });
        }
        at = next;
    }
    found
}

fn span(bounds: Bounds, zone: &TimeZone) -> Option<TimeSpan> {
    let moment = |time: Option<DateTime>, open: jiff::Timestamp| match time {
        Some(time) => zone.moment(time),
        None => Timestamp::from_micros(micros(open)),
    };
    let since = moment(bounds.since, jiff::Timestamp::MIN)?;
    let until = moment(bounds.until, jiff::Timestamp::MAX)?;
    (since < until).then_some(TimeSpan { since, until })
}

/// The microseconds of a timestamp without the fraction of its second, which for the last second is more than
/// `from_microsecond` takes.
fn micros(open: jiff::Timestamp) -> i64 {
    open.as_second() * 1_000_000
}
