//! Time expressions in questions: which words of a text say a time, and from when to when that is.
//!
//! Owns the rules below. Does not decide what a time in a question is good for, and asks no clock: now is given.
//!
//! English, in upper or lower case. All is counted in whole days, but for hours and minutes; a week begins on Monday, as in
//! ISO 8601; seasons are those of the northern half of the earth, in whole months, and winter has the year that it begins in.
//!
//! | said | meant |
//! | --- | --- |
//! | 7 May 2023; May 7th, 2023; Tuesday, 7 May; 2023-05-07; 13/05/2023 | that day; nothing if it may be read in two ways, as 05/06/2023 |
//! | May 2023, 05/2023, 2023-05, Q3 2024, summer 2023, 2023, the 90s | all of it |
//! | in May; May 7; in the summer; at Christmas | without a year the last that has begun |
//! | May last year, the summer of this year | that of the calendar year |
//! | Christmas | 24 to 26 December; New Year's: 31 December and 1 January. Also the days of these by name, Valentine's Day, Halloween, Thanksgiving (of the United States), Boxing Day. No Easter and no others that move |
//! | early, mid, late; the beginning, middle, end of | a third: in months if they come out even, otherwise in days |
//! | the first week, last Friday, second half, last two weeks of | counted from where the period begins or ends: the first week of May is the 1st to the 7th |
//! | the week of 7 May | the calendar's week that has the day |
//! | today, tonight, yesterday, last night (yesterday), tomorrow | that day |
//! | this, last, next week, month, quarter, year, decade, weekend | those of the calendar |
//! | the last week, the past month, the last 3 days, past few years | so long until the end of today |
//! | last May, last summer, last Christmas | the last that is over |
//! | last Tuesday, on Tuesday | the last before today; next Tuesday: the first after today; this Tuesday: of this week |
//! | on the weekend | the last that has begun |
//! | recently, lately | the last 14 days and today; a choice |
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
//! | between X and Y; from X to Y; X-Y | from the beginning of X to the end of Y; a year or month said once is that of both, and without a year Y is the first after X |
//!
//! Words that are also others need company: a month a day, a year or a preposition ("April's birthday" is no time, "in April"
//! is), a year from 1900 to 2100 a preposition, the word "year" or a month, and what it counts must not follow ("in 2000
//! words").
//!
//! Of the crates that were looked at, `chrono-english`, `interim`, `two_timer`, `fuzzydate` and `whenparse` read a string that is
//! a date and find none in a sentence; `date_time_parser` finds one in it, as a single day and without its place. All but
//! `interim` and `whenparse` bring chrono.

mod absolute;
mod calendar;
mod composed;
mod phrases;
mod reader;
mod relative;
#[cfg(test)]
mod tests;
mod vocabulary;
mod words;

use std::ops::Range;

use jiff::{civil::DateTime, tz::Offset};

use self::{phrases::Bounds, reader::Reader, words::Words};
use crate::message::Timestamp;

/// A span of time: from a moment to before another.
///
/// One without a beginning or an end goes from the first, or to the last, second that a [`Timestamp`] has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TimeSpan {
    /// Its first moment.
    pub since: Timestamp,
    /// The first moment that is no longer in it; later than `since`.
    pub until: Timestamp,
}

/// Words of a text that say a time.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TimeExpression {
    /// The time.
    pub span: TimeSpan,
    /// The bytes of the text that say it, with the preposition.
    pub range: Range<usize>,
}

/// What an English text says about time: "last week", "in May 2023", "since Christmas". In the order of the text; none
/// overlaps another: of those that begin at the same word the longest counts.
///
/// Days are those of UTC. Any text will do; what cannot be ("between June and May 2023") or is outside the range of
/// [`Timestamp`] gives nothing. Cost: linear in the text.
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
    time_expressions_at_offset(text, now, 0)
}

/// As [`time_expressions`], with days that begin at midnight so many minutes east of UTC: 120 for `+02:00`, -300 for
/// `-05:00`.
pub fn time_expressions_at_offset(text: &str, now: Timestamp, utc_offset_minutes: i16) -> Vec<TimeExpression> {
    let offset = i64::from(utc_offset_minutes) * 60_000_000;
    let Some(now) = local(now, offset) else { return Vec::new() };
    let reader = Reader { words: Words::of(text), now };
    let mut found = Vec::new();
    let mut at = 0;
    while at < reader.words.len() {
        let Some((bounds, next)) = reader.phrase(at) else {
            at += 1;
            continue;
        };
        if let Some(span) = bounds.and_then(|bounds| span(bounds, offset)) {
            found.push(TimeExpression { span, range: reader.words.bytes(at, next) });
        }
        at = next;
    }
    found
}

/// What a calendar and a clock say there, `offset` microseconds east of UTC.
fn local(time: Timestamp, offset: i64) -> Option<DateTime> {
    let micros = time.as_micros().checked_add(offset)?;
    Some(Offset::UTC.to_datetime(jiff::Timestamp::from_microsecond(micros).ok()?))
}

fn span(bounds: Bounds, offset: i64) -> Option<TimeSpan> {
    let moment = |time: Option<DateTime>, open: jiff::Timestamp| match time {
        Some(time) => Timestamp::from_micros(Offset::UTC.to_timestamp(time).ok()?.as_microsecond() - offset),
        None => Timestamp::from_micros(micros(open)),
    };
    let since = moment(bounds.since, jiff::Timestamp::MIN)?;
    let until = moment(bounds.until, jiff::Timestamp::MAX)?;
    (since < until).then_some(TimeSpan { since, until })
}

/// Without the fraction of the last second, which is more than `from_microsecond` takes.
fn micros(open: jiff::Timestamp) -> i64 {
    open.as_second() * 1_000_000
}
