//! Rules for names of the calendar: dates, months, seasons, years.

use jiff::civil::Date;

use super::{
    calendar::{Period, Yearly},
    reader::{Meaning, Named, Needs, Reader},
    vocabulary::{is_year, number},
    words::Gap,
};

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
