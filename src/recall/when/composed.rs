//! Rules for names that contain another name: a distance from it, a part of it, a period beside it.

use jiff::civil::Weekday;

use super::{
    calendar::{Period, Unit, nearest_weekday, shift},
    reader::{Named, Reader},
    words::Gap,
};

/// Words before "ago" that make the time a limit, or before another word that make it a comparison.
const COMPARISONS: &[&str] = &["half", "than", "over", "under", "least", "more", "most"];

impl Reader<'_> {
    /// Reads "two weeks ago", "a few days back", "a year from now", "three days after Christmas".
    pub(super) fn distance(&self, at: usize) -> Option<Named> {
        let words = &self.words;
        if words.is_after(at, COMPARISONS) {
            return None;
        }
        let (least, most, unit_at) = words.count(at)?;
        let unit = words.unit(unit_at).filter(|_| words.gap(unit_at) == Gap::Space)?;
        let begin = unit_at + 1;
        let (sign, from, next) = if self.words.follows(begin, &["ago", "back"]) {
            (-1, self.now, begin + 1)
        } else if self.words.follows(begin, &["from"]) && self.words.follows(begin + 1, &["now", "today"]) {
            (1, self.now, begin + 2)
        } else if self.words.follows(begin, &["before"]) {
            let (period, next) = self.inner(begin + 1)?;
            (-1, period.start, next)
        } else if self.words.follows(begin, &["after"]) {
            let (period, next) = self.inner(begin + 1)?;
            (1, shift(period.end, -1, Unit::Day)?, next)
        } else {
            return None;
        };
        let one = Period::around(shift(from, sign * least, unit)?, unit)?;
        let other = Period::around(shift(from, sign * most, unit)?, unit)?;
        Some(Named::fixed(Period { start: one.start.min(other.start), end: one.end.max(other.end) }, next))
    }

    /// Reads "early May", "mid-2023", "the end of last year": a third of the period, if that has a week or more.
    pub(super) fn part(&self, at: usize) -> Option<Named> {
        let (begin, _) = self.article(at);
        let part = match self.words.get(begin) {
            "early" | "beginning" | "start" => 0,
            "mid" | "middle" => 1,
            "late" | "end" => 2,
            _ => return None,
        };
        let has_of = !matches!(self.words.get(begin), "early" | "mid" | "late");
        if has_of && !self.words.follows(begin + 1, &["of"]) {
            return None;
        }
        let (whole, next) = self.inner(begin + 1 + usize::from(has_of))?;
        if whole.days() < 7 { None } else { Some(Named::fixed(whole.part(part, 3)?, next)) }
    }

    /// Reads "the first week of May", "the last Friday of 2022", "the last two weeks of August", "the second half of
    /// last year".
    pub(super) fn nth(&self, at: usize) -> Option<Named> {
        let words = &self.words;
        let (begin, _) = self.article(at);
        let n = words.ordinal(begin)?;
        let (count, object) = match words.count(begin + 1) {
            Some((_, most, next)) if n.abs() == 1 => (most, next),
            _ => (1, begin + 1),
        };
        let is_joined = [begin + 1, object].iter().all(|&at| words.gap(at) == Gap::Space);
        if !is_joined || !self.words.follows(object + 1, &["of"]) {
            return None;
        }
        let (whole, next) = self.inner(object + 2)?;
        let period = match (words.get(object), words.weekday(object)) {
            ("half", _) => whole.part(if n > 0 { n - 1 } else { 1 }, 2).filter(|_| n <= 2),
            ("weekend", _) => {
                let saturday = whole.nth_weekday(n, Weekday::Saturday)?;
                Period::starting(saturday.start, 2, Unit::Day)
            }
            (_, Some(weekday)) => whole.nth_weekday(n, weekday),
            _ => whole.nth(n, count, words.unit(object)?),
        };
        Some(Named::fixed(period?, next))
    }

    /// Reads "the day before yesterday", "the week after 3 May", "last Sunday before Christmas", "the week before
    /// last".
    pub(super) fn beside(&self, at: usize) -> Option<Named> {
        let words = &self.words;
        let (begin, _) = self.article(at);
        let is_last = words.get(begin) == "last" && words.gap(begin + 1) == Gap::Space;
        let object = begin + usize::from(is_last);
        let sign = match words.get(object + 1) {
            "before" => -1,
            "after" => 1,
            _ => return None,
        };
        if words.gap(object + 1) != Gap::Space {
            return None;
        }
        let (unit, is_weekend) = (words.unit(object), words.get(object) == "weekend");
        let Some((anchor, next)) = self.inner(object + 2) else {
            if !self.words.follows(object + 2, &[if sign < 0 { "last" } else { "next" }]) {
                return None;
            }
            let period = match unit {
                Some(unit) => Period::calendar(self.now, 2 * sign, unit),
                None => Period::weekend(self.now, 2 * sign).filter(|_| is_weekend),
            };
            return Some(Named::fixed(period?, object + 3));
        };
        // The nearest such day that is entirely outside.
        let nearest = |weekday| {
            let edge = if sign < 0 { anchor.start } else { shift(anchor.end, -1, Unit::Day)? };
            nearest_weekday(edge, sign, weekday)
        };
        let period = match unit {
            _ if is_weekend && sign < 0 => {
                let sunday = nearest(Weekday::Sunday)?;
                Period::starting(shift(sunday.start, -1, Unit::Day)?, 2, Unit::Day)
            }
            _ if is_weekend => Period::starting(nearest(Weekday::Saturday)?.start, 2, Unit::Day),
            Some(unit) if sign < 0 => Period::starting(shift(anchor.start, -1, unit)?, 1, unit),
            Some(unit) => Period::starting(anchor.end, 1, unit),
            None => nearest(words.weekday(object)?),
        };
        Some(Named::fixed(period?, next))
    }

    /// Reads "the week of 7 May": the calendar week that contains the day.
    pub(super) fn week_of(&self, at: usize) -> Option<Named> {
        let (begin, _) = self.article(at);
        if !self.words.follows(begin + 1, &["of"]) {
            return None;
        }
        let (day, next) = self.inner(begin + 2).filter(|(day, _)| day.days() == 1)?;
        let period = match self.words.get(begin) {
            "week" => Period::calendar(day.start, 0, Unit::Week),
            "weekend" => Period::weekend(day.start, 0),
            _ => None,
        };
        Some(Named::fixed(period?, next))
    }
}
