//! Reads names of periods, without the preposition before them. Each rule reads from one word on, and the longest
//! reading wins. A rule looks at a few words only, so that the time to read a text is linear.

use jiff::civil::{DateTime, Weekday};

use super::{
    calendar::{Period, Yearly, midnight, nearest_weekday},
    words::{Gap, Words},
};

/// The meaning of a name.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Meaning {
    Fixed(Period),
    /// A period that recurs every year, in a given year if there is one.
    Yearly(Yearly, Option<i16>),
    /// A weekday, in a week that is not named.
    Weekday(Weekday),
}

/// The preposition that a name needs before it to be a time: none for "yesterday", one of its kind for "May".
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Needs {
    Nothing,
    /// No preposition, and none before it belongs to it: such as "to" in "What was she up to lately?".
    NoPreposition,
    Year,
    Month,
    Season,
    Weekday,
    Holiday,
}

/// A name that was read, and the position after it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Named {
    pub(super) meaning: Meaning,
    pub(super) needs: Needs,
    pub(super) next: usize,
}

/// The most words before the first word of a name that is a number or names a period, as in "the second half of the last
/// few weeks", and some more.
const LEAD: usize = 12;

/// A reader of the words of a text, relative to a current time.
#[derive(Debug)]
pub(super) struct Reader<'t> {
    pub(super) words: Words<'t>,
    pub(super) now: DateTime,
    /// For each word, whether a name may begin there: a number or the name of a period is near enough.
    may_begin: Vec<bool>,
}

impl<'t> Reader<'t> {
    pub(super) fn new(words: Words<'t>, now: DateTime) -> Self {
        let mut reader = Reader { may_begin: vec![false; words.len()], words, now };
        let mut left = 0;
        for at in (0..reader.words.len()).rev() {
            left = if reader.is_of_time(at) { LEAD + 1 } else { usize::saturating_sub(left, 1) };
            reader.may_begin[at] = left > 0;
        }
        reader
    }
}

impl Reader<'_> {
    /// Returns true if the word is a number or names a period: every name has such a word.
    fn is_of_time(&self, at: usize) -> bool {
        let words = &self.words;
        words.get(at).starts_with(|c: char| c.is_ascii_digit())
            || matches!(words.get(at), "weekend" | "recently" | "lately")
            || words.month(at).is_some()
            || words.weekday(at).is_some()
            || words.season(at).is_some()
            || words.unit(at).is_some()
            || words.holiday(at).is_some()
            || self.days(at).is_some()
    }

    /// Reads the longest name that begins here.
    pub(super) fn named(&self, at: usize) -> Option<Named> {
        self.may_begin.get(at).filter(|may_begin| **may_begin)?;
        self.named_anywhere(at)
    }

    /// Same as [`named`](Self::named), but slow if no name begins here, as nearly everywhere.
    pub(super) fn named_anywhere(&self, at: usize) -> Option<Named> {
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

    /// Reads the longest name that does not contain another.
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

    /// The period of a name: the last one that has begun of a period that recurs every year, the last one before today
    /// of a weekday.
    pub(super) fn period(&self, meaning: Meaning) -> Option<Period> {
        match meaning {
            Meaning::Fixed(period) => Some(period),
            Meaning::Yearly(yearly, Some(year)) => yearly.of_year(year),
            Meaning::Yearly(yearly, None) => yearly.begun(self.now),
            Meaning::Weekday(weekday) => nearest_weekday(self.now, -1, weekday),
        }
    }

    /// Reads a simple name inside a longer one, and returns its period.
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

    /// Skips an article. Returns the position after it, and true if there was one.
    pub(super) fn article(&self, at: usize) -> (usize, bool) {
        let is_there = self.words.get(at) == "the" && self.words.gap(at + 1) == Gap::Space;
        (at + usize::from(is_there), is_there)
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
