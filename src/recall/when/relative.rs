//! Rules for names relative to now: "yesterday", "last week", "the past three days".

use super::{
    calendar::{Period, Unit, Which, midnight, nearest_weekday, shift},
    reader::{Meaning, Named, Needs, Reader},
    words::Gap,
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
