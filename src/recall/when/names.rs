//! The rules for names of times: of the calendar (dates, months, seasons, years), relative to now ("yesterday", "last
//! week", "the past three days"), and with another name inside (a distance from it, a part of it, a period beside it).

use jiff::civil::{Date, Weekday};

use super::{
    calendar::{Period, Unit, Which, Yearly, midnight, nearest_weekday, shift},
    reader::{Meaning, Named, Needs, Reader},
    words::{Gap, is_year, number},
};

/// Days with a name of their own: the first day and the one after the last, counted from today.
const DAYS: &[(&[&str], i64, i64)] = &[
    (&["today"], 0, 1),
    (&["tonight"], 0, 1),
    (&["this", "morning"], 0, 1),
    (&["this", "afternoon"], 0, 1),
    (&["this", "evening"], 0, 1),
    (&["yesterday"], -1, 0),
    (&["last", "night"], -1, 0),
    (&["tomorrow"], 1, 2),
];

/// Possessives: "my last week" is not the week before this one.
const OWNERS: &[&str] = &["my", "your", "his", "her", "its", "our", "their"];
/// Words before "ago" that make the time a limit, or before another word that make it a comparison.
const COMPARISONS: &[&str] = &["half", "than", "over", "under", "least", "more", "most"];

impl Reader<'_> {
    /// Reads "2023-05-07", "2023-05", "05/2023", "13/05/2023"; nothing that can be read in two ways.
    pub(super) fn numeric(&self, at: usize) -> Option<Named> {
        let words = &self.words;
        let is_part = |at: usize| matches!(words.gap(at), Gap::Dash | Gap::Slash);
        if is_part(at) || !is_part(at + 1) {
            return None;
        }
        let gap = words.gap(at + 1);
        let length = if is_part(at + 2) && words.gap(at + 2) == gap { 3 } else { 2 };
        let next = at + length;
        if is_part(next) && words.get(next).starts_with(|c: char| c.is_ascii_digit()) {
            return None;
        }
        // The day of "2023-05-07T10:00:00Z".
        let last = words.get(next - 1);
        let last = last.split_once('t').map_or(last, |(day, _)| day);
        let year = |word: &str| number(word, 4).filter(is_year);
        let small = |word: &str| number(word, 2).map(|number| number as i8);
        let day = |year, month, day| Period::day(Date::new(year, month, day).ok()?);
        let month = |year, month| Yearly::Months { first: month, count: 1 }.of_year(year);
        let first = words.get(at);
        let period = match (length, gap) {
            // "2010-12" may as well be a span of years.
            (2, Gap::Dash) if last.len() == 2 && i16::from(small(last)?) <= year(first)? % 100 => {
                month(year(first)?, small(last)?)
            }
            (2, Gap::Slash) => month(year(last)?, small(first)?),
            (3, _) if year(first).is_some() => day(year(first)?, small(words.get(at + 1))?, small(last)?),
            (3, Gap::Slash) => match (small(first)?, small(words.get(at + 1))?) {
                (a, b) if a == b || a > 12 => day(year(last)?, b, a),
                (a, b) if b > 12 => day(year(last)?, a, b),
                _ => None,
            },
            _ => None,
        };
        Some(Named::fixed(period?, next))
    }

    /// Reads "7 May", "the 7th of May, 2023", "Tuesday, May 7th".
    pub(super) fn date(&self, at: usize) -> Option<Named> {
        let words = &self.words;
        let is_weekday = words.weekday(at).is_some() && matches!(words.gap(at + 1), Gap::Space | Gap::Comma);
        let (begin, _) = self.article(at + usize::from(is_weekday));
        let is_month_first = words.month(begin).is_some();
        let (day_at, month_at) = if is_month_first {
            (self.article(begin + 1).0, begin)
        } else {
            (begin, begin + 1 + usize::from(self.words.follows(begin + 1, &["of"])))
        };
        let second = day_at.max(month_at);
        let is_close =
            |at: usize| words.gap(at) == Gap::Space || words.gap(at) == Gap::Point && words.is_short_month(at - 1);
        if !is_close(begin + 1) || !is_close(second) {
            return None;
        }
        let (month, (day, is_ordinal)) = (words.month(month_at)?, words.day(day_at)?);
        let (year, next) = self.year_after(second, &[]);
        if year.is_none() && !is_ordinal {
            // "They march 10 miles", "may the 4 of us", "only 2 may enter".
            let is_other =
                if is_month_first { words.is_amount(day_at) || day_at > month_at + 1 } else { words.is_verb(month_at) };
            if is_other && !words.is_after(at, &["on", "by", "since", "until", "from", "to"]) {
                return None;
            }
        }
        Some(Named { meaning: Meaning::Yearly(Yearly::day(month, day), year), needs: Needs::Nothing, next })
    }

    /// Reads "May 2023", "May", "the summer of 2022", "Q3", "Christmas".
    pub(super) fn yearly(&self, at: usize) -> Option<Named> {
        let (begin, has_article) = self.article(at);
        let month = self.words.month(begin).filter(|_| !has_article);
        let (yearly, needs, last) = if let Some(first) = month {
            (Yearly::Months { first, count: 1 }, Needs::Month, begin)
        } else if let Some(season) = self.words.season(begin) {
            (season, Needs::Season, begin)
        } else {
            let (holiday, next) = self.words.holiday(begin)?;
            (holiday, Needs::Holiday, next - 1)
        };
        let (year, next) = self.year_after(last, &["of"]);
        // "April's birthday" is the birthday of a person.
        if year.is_none() && needs == Needs::Month && self.words.gap(next) == Gap::Apostrophe {
            return None;
        }
        let needs = if year.is_some() { Needs::Nothing } else { needs };
        Some(Named { meaning: Meaning::Yearly(yearly, year), needs, next })
    }

    /// Reads the year that follows the name which ends with the word at `last`: "2023", ", 2023", "'23", "last year",
    /// also after one of the words in `between`. Returns it with the position after it.
    pub(super) fn year_after(&self, last: usize, between: &[&str]) -> (Option<i16>, usize) {
        let words = &self.words;
        let at = last + 1 + usize::from(self.words.follows(last + 1, between));
        if words.gap(at) == Gap::Space && self.words.follows(at + 1, &["year"]) {
            let this = self.now.year();
            match words.get(at) {
                "last" => return (Some(this - 1), at + 2),
                "this" => return (Some(this), at + 2),
                "next" => return (Some(this + 1), at + 2),
                _ => {}
            }
        }
        let year = match words.gap(at) {
            Gap::Space | Gap::Comma => words.year(at),
            Gap::Point if words.is_short_month(last) => words.year(at),
            // The latest such year up to ten years from now.
            Gap::Apostrophe if words.get(at).len() == 2 => number(words.get(at), 2).map(|year| {
                let latest = self.now.year() + 10;
                latest - (latest - year).rem_euclid(100)
            }),
            _ => None,
        };
        if year.is_some() { (year, at + 1) } else { (None, last + 1) }
    }

    /// Reads "2023", "the year 2023", "1990s", "the 90s".
    pub(super) fn year(&self, at: usize) -> Option<Named> {
        let (mut begin, has_article) = self.article(at);
        let has_word = self.words.get(begin) == "year" && self.words.gap(begin + 1) == Gap::Space;
        begin += usize::from(has_word);
        if let Some(year) = self.words.year(begin).filter(|_| has_word || !has_article) {
            let needs = if has_word { Needs::Nothing } else { Needs::Year };
            return Some(Named { needs, ..Named::fixed(Period::years(year, 1)?, begin + 1) });
        }
        let word = self.words.get(begin);
        // "the 90's"
        let (decade, next) = match self.words.decade(begin).filter(|_| !has_word) {
            Some(year) => (year, begin + 1),
            None if has_article && self.words.phrase(begin, &[word, "s"]) && word.len() == 2 => {
                (number(word, 2).filter(|year| year % 10 == 0 && *year >= 20)?, begin + 2)
            }
            None => return None,
        };
        // The last such decade that has begun.
        let year = if decade < 100 { self.now.year() - (self.now.year() - decade).rem_euclid(100) } else { decade };
        let needs = if decade < 100 && !has_article { Needs::Year } else { Needs::Nothing };
        Some(Named { needs, ..Named::fixed(Period::years(year, 10)?, next) })
    }
}

impl Reader<'_> {
    /// Reads "Tuesday" and "the weekend": the last that has begun.
    pub(super) fn weekday(&self, at: usize) -> Option<Named> {
        let (begin, has_article) = self.article(at);
        let meaning = match self.words.weekday(begin) {
            Some(weekday) if !has_article => Meaning::Weekday(weekday),
            None if has_article && self.words.get(begin) == "weekend" => {
                let running = Period::weekend(self.now, 0).filter(|weekend| weekend.start <= self.now);
                Meaning::Fixed(running.or_else(|| Period::weekend(self.now, -1))?)
            }
            _ => return None,
        };
        Some(Named { meaning, needs: Needs::Weekday, next: begin + 1 })
    }

    pub(super) fn days(&self, at: usize) -> Option<Named> {
        let (phrase, from, to) = DAYS.iter().find(|(phrase, ..)| self.words.phrase(at, phrase))?;
        let start = shift(self.today(), *from, Unit::Day)?;
        Some(Named::fixed(Period::starting(start, to - from, Unit::Day)?, at + phrase.len()))
    }

    /// Reads "recently" and "lately": the last 14 days.
    pub(super) fn adverb(&self, at: usize) -> Option<Named> {
        // "Which one more recently?" compares, and "until recently" names an earlier time.
        let is_other = self.words.is_after(at, &["more", "most", "until"]);
        if is_other || !matches!(self.words.get(at), "recently" | "lately") {
            return None;
        }
        Some(Named { needs: Needs::NoPreposition, ..Named::fixed(self.until_today(14, Unit::Day)?, at + 1) })
    }

    /// Reads "last week", "this May", "next Tuesday", "the past month".
    pub(super) fn chosen(&self, at: usize) -> Option<Named> {
        let words = &self.words;
        let (begin, has_article) = self.article(at);
        let is_this = words.get(begin) == "this" && self.words.follows(begin + 1, &["past", "coming"]);
        let begin = begin + usize::from(is_this);
        let which = match words.get(begin) {
            "last" | "past" | "previous" => Which::Last,
            "this" => Which::This,
            "next" | "coming" | "upcoming" => Which::Next,
            _ => return None,
        };
        let object = begin + 1;
        if words.gap(object) != Gap::Space || words.is_after(at, OWNERS) {
            return None;
        }
        let unit = words.unit(object).filter(|_| !words.get(object).ends_with('s'));
        // "The last year" is the time until now; "the last day" and "the last minute" seldom are.
        let is_rolling = words.get(begin) == "past"
            || words.get(begin) == "last" && has_article && !matches!(unit, Some(Unit::Day | Unit::Minute));
        let mut next = object + 1;
        let period = match unit {
            Some(unit) if is_rolling => self.until_today(1, unit),
            Some(Unit::Day) => None,
            Some(unit) => Period::calendar(self.now, which.steps(), unit),
            None if words.get(object) == "weekend" => Period::weekend(self.now, which.steps()),
            None => match words.weekday(object) {
                Some(weekday) if which == Which::This => Period::weekday(self.now, 0, weekday),
                Some(weekday) => nearest_weekday(self.now, which.steps(), weekday),
                None => {
                    let named = self.date(object).or_else(|| self.yearly(object))?;
                    // "Last May 2023" names the year itself; in "this may be", "may" is a verb.
                    let Meaning::Yearly(yearly, None) = named.meaning else { return None };
                    if which == Which::This && words.is_verb(object) {
                        return None;
                    }
                    next = named.next;
                    yearly.which(which, self.now)
                }
            },
        };
        // "The last week of school" is another week.
        if self.words.follows(next, &["of"]) { None } else { Some(Named::fixed(period?, next)) }
    }

    /// The `n` units up to the end of today. They begin at the beginning of a day, except hours and minutes.
    fn until_today(&self, n: i64, unit: Unit) -> Option<Period> {
        let start = shift(self.now, -n, unit)?;
        let start = if matches!(unit, Unit::Minute | Unit::Hour) { start } else { midnight(start) };
        Some(Period { start, end: shift(self.today(), 1, Unit::Day)? })
    }

    /// Reads "the last three weeks", "past few days", "next 2 months".
    pub(super) fn rolling(&self, at: usize) -> Option<Named> {
        let (begin, _) = self.article(at);
        if self.words.gap(begin + 1) != Gap::Space || self.words.is_after(at, OWNERS) {
            return None;
        }
        let (_, most, next) = self.words.count(begin + 1)?;
        let unit = self.words.unit(next).filter(|_| self.words.gap(next) == Gap::Space)?;
        let period = match self.words.get(begin) {
            "last" | "past" => self.until_today(most, unit)?,
            "next" | "coming" => {
                Period { start: self.today(), end: midnight(shift(shift(self.now, most, unit)?, 1, Unit::Day)?) }
            }
            _ => return None,
        };
        if self.words.follows(next + 1, &["of"]) { None } else { Some(Named::fixed(period, next + 1)) }
    }
}

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
