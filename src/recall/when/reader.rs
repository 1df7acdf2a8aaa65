//! Reads what names a period, without the preposition before it: each rule reads from one place on, and the longest reading
//! wins. A rule looks at no more than a few words, so that reading a text is linear.

use jiff::civil::{DateTime, Weekday};

use super::{
    calendar::{Period, Yearly, midnight, nearest_weekday},
    words::{Gap, Words},
};

/// What a name says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Meaning {
    Fixed(Period),
    /// What comes every year, of a year or of none yet.
    Yearly(Yearly, Option<i16>),
    /// A day of a week that is not said.
    Weekday(Weekday),
}

/// What must stand before a name for it to be a time: nothing for "yesterday", a preposition of its kind for "May".
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Needs {
    Nothing,
    /// As "lately", which the preposition of "What was she up to lately?" does not belong to.
    NoPreposition,
    Year,
    Month,
    Season,
    Weekday,
    Holiday,
}

/// A name that was read, and the place after it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Named {
    pub(super) meaning: Meaning,
    pub(super) needs: Needs,
    pub(super) next: usize,
}

/// Reads the words of a text at a time.
#[derive(Debug)]
pub(super) struct Reader<'t> {
    pub(super) words: Words<'t>,
    pub(super) now: DateTime,
}

impl Reader<'_> {
    /// The longest name that begins here.
    pub(super) fn named(&self, at: usize) -> Option<Named> {
        longest([
            self.part(at),
            self.nth(at),
            self.rolling(at),
            self.distance(at),
            self.beside(at),
            self.week_of(at),
            self.simple(at),
        ])
    }

    /// The longest of those that are not made of another.
    fn simple(&self, at: usize) -> Option<Named> {
        longest([
            self.numeric(at),
            self.date(at),
            self.yearly(at),
            self.year(at),
            self.weekday(at),
            self.days(at),
            self.adverb(at),
            self.chosen(at),
        ])
    }

    /// The period of a name: of what comes every year the last that has begun by now, of a weekday the last before today.
    pub(super) fn period(&self, meaning: Meaning) -> Option<Period> {
        match meaning {
            Meaning::Fixed(period) => Some(period),
            Meaning::Yearly(yearly, Some(year)) => yearly.of_year(year),
            Meaning::Yearly(yearly, None) => yearly.begun(self.now),
            Meaning::Weekday(weekday) => nearest_weekday(self.now, -1, weekday),
        }
    }

    /// A simple name that goes on after the words before it, with its period.
    pub(super) fn inner(&self, at: usize) -> Option<(Period, usize)> {
        if !matches!(self.words.gap(at), Gap::Space | Gap::Dash) {
            return None;
        }
        let named = self.simple(at)?;
        Some((self.period(named.meaning)?, named.next))
    }

    pub(super) fn today(&self) -> DateTime {
        midnight(self.now)
    }

    /// The place after an article, and whether there is one.
    pub(super) fn article(&self, at: usize) -> (usize, bool) {
        let is_there = self.words.get(at) == "the" && self.words.gap(at + 1) == Gap::Space;
        (at + usize::from(is_there), is_there)
    }

    pub(super) fn follows(&self, at: usize, any: &[&str]) -> bool {
        self.words.follows(at, any)
    }
}

impl Named {
    pub(super) fn fixed(period: Period, next: usize) -> Named {
        Named { meaning: Meaning::Fixed(period), needs: Needs::Nothing, next }
    }
}

fn longest<const N: usize>(readings: [Option<Named>; N]) -> Option<Named> {
    readings.into_iter().flatten().max_by_key(|named| named.next)
}
