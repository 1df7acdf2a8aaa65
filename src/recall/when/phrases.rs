//! Rules for a name with the preposition before it, and for two names that bound a time.

use jiff::civil::DateTime;

use super::{
    calendar::{Period, Yearly, nearest_weekday},
    reader::{Meaning, Named, Needs, Reader},
    words::Gap,
};

/// A time from `since` to before `until`; unbounded where there is none.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Bounds {
    pub(super) since: Option<DateTime>,
    pub(super) until: Option<DateTime>,
}

/// The effect of a preposition on a period.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Bound {
    Within,
    Around,
    Since,
    After,
    Before,
    /// Everything to the end of the period: "until May" and "by 2023" may mean its beginning or its end, and the end
    /// loses no message.
    Until,
}

const ALL: &[Needs] = &[Needs::Year, Needs::Month, Needs::Season, Needs::Weekday, Needs::Holiday];

/// Prepositions, and the kinds of names that they turn into times. "By June", "of April" and "for May" may as well be
/// persons.
const PREPOSITIONS: &[(&str, Bound, &[Needs])] = &[
    ("in", Bound::Within, &[Needs::Year, Needs::Month, Needs::Season]),
    ("on", Bound::Within, &[Needs::Weekday, Needs::Holiday]),
    ("at", Bound::Within, &[Needs::Weekday, Needs::Holiday]),
    ("over", Bound::Within, &[Needs::Season, Needs::Weekday, Needs::Holiday]),
    ("for", Bound::Within, &[Needs::Holiday]),
    ("of", Bound::Within, &[Needs::Year]),
    ("from", Bound::Within, &[Needs::Year, Needs::Weekday]),
    ("during", Bound::Within, ALL),
    ("throughout", Bound::Within, ALL),
    ("within", Bound::Within, &[]),
    ("around", Bound::Around, &[Needs::Year, Needs::Month, Needs::Holiday]),
    ("since", Bound::Since, ALL),
    ("after", Bound::After, ALL),
    ("before", Bound::Before, ALL),
    ("until", Bound::Until, ALL),
    ("till", Bound::Until, ALL),
    ("by", Bound::Until, &[Needs::Year, Needs::Season, Needs::Weekday, Needs::Holiday]),
];

/// One of two bounds: a name, or the day alone of "3 to 9 May".
#[derive(Clone, Copy, Debug)]
enum Side {
    Named(Named),
    Day { day: i8, year: Option<i16> },
}

impl Reader<'_> {
    /// Reads the longest phrase that begins here and names a time. Returns it with the position after it; without
    /// bounds if the time is impossible: "between June and May 2023".
    pub(super) fn phrase(&self, at: usize) -> Option<(Option<Bounds>, usize)> {
        let joins: &[&str] = match self.words.get(at) {
            "between" => &["and"],
            "from" | "since" => &["to", "until", "till", "through"],
            _ => return self.bounded(at),
        };
        let is_joined = self.words.gap(at + 1) == Gap::Space;
        let joined = if is_joined { self.joined(at + 1, self.named(at + 1), joins, ALL) } else { None };
        joined.or_else(|| self.bounded(at))
    }

    /// Reads a name, or two with a dash or "to" between them, with the preposition that they need.
    fn bounded(&self, at: usize) -> Option<(Option<Bounds>, usize)> {
        let word = self.words.get(at);
        let preposition =
            PREPOSITIONS.iter().find(|(known, ..)| *known == word).filter(|_| self.words.gap(at + 1) == Gap::Space);
        let (begin, mut bound, kinds) = match preposition {
            Some((_, bound, kinds)) => (at + 1, *bound, *kinds),
            None => (at, Bound::Within, &[][..]),
        };
        let named = self.named(begin);
        if let Some((bounds, next)) = self.joined(begin, named, &["to", "through", "until"], kinds) {
            return Some((bounds.and_then(|bounds| bound.apply(bounds)), next));
        }
        let Named { meaning, needs, mut next } = named?;
        let is_time = match needs {
            Needs::Nothing => true,
            Needs::NoPreposition => preposition.is_none(),
            // "Where did we go Christmas Eve?", but not "a Christmas card" or "Merry Christmas!"
            Needs::Holiday if preposition.is_none() => {
                self.words.ends_before(next) && !self.words.is_after(at, &["merry", "happy"])
            }
            _ => kinds.contains(&needs),
        };
        if !is_time {
            return None;
        }
        if word == "from" {
            // "A letter from May to Bob", "from 2000 to 3000 dollars".
            if needs != Needs::Nothing && self.words.follows(next, &["to"]) {
                return None;
            }
            if self.words.follows(next, &["onward", "onwards"]) {
                (bound, next) = (Bound::Since, next + 1);
            }
        }
        let bounds = self.period(meaning).and_then(|period| bound.apply(period.into()));
        Some((bounds, next))
    }

    /// Reads two names with one of these words, or a dash, between them; `first` is the name that begins here. The
    /// second must be a time by itself or be of one of these `kinds`; so must the first, unless a dash follows it, or
    /// it has the year of the second: "May to July 2022".
    fn joined(
        &self,
        at: usize,
        first: Option<Named>,
        joins: &[&str],
        kinds: &[Needs],
    ) -> Option<(Option<Bounds>, usize)> {
        let is_sufficient = |named: &Named| named.needs == Needs::Nothing || kinds.contains(&named.needs);
        let day = |at: usize| {
            let (at, _) = self.article(at);
            self.words.day(at).map(|(day, _)| (day, at + 1))
        };
        let (first, after) = match first {
            Some(named) => (Side::Named(named), named.next),
            None => day(at).map(|(day, next)| (Side::Day { day, year: None }, next))?,
        };
        // "Last week - yesterday" is more likely two times.
        let is_dash = match self.words.gap(after) {
            Gap::Dash => true,
            Gap::SpacedDash => self.is_absolute(at) && self.is_absolute(after),
            _ => false,
        };
        let second = if is_dash {
            after
        } else if self.words.follows(after, joins) && self.words.gap(after + 1) == Gap::Space {
            after + 1
        } else {
            return None;
        };
        let (second, next) = match self.named(second).filter(is_sufficient) {
            Some(named) => (Side::Named(named), named.next),
            None => {
                let (day, next) = day(second).filter(|(_, next)| !self.words.is_amount(next - 1))?;
                let (year, next) = self.year_after(next - 1, &[]);
                (Side::Day { day, year }, next)
            }
        };
        let is_time = match (first, second) {
            (Side::Named(first), Side::Named(second)) => {
                is_dash || is_sufficient(&first) || matches!(second.meaning, Meaning::Yearly(_, Some(_)))
            }
            _ => true,
        };
        let (first, second) = self.meanings(first, second).filter(|_| is_time)?;
        Some((self.between(first, second), next))
    }

    fn is_absolute(&self, at: usize) -> bool {
        self.words.get(at).starts_with(|c: char| c.is_ascii_digit()) || self.words.month(at).is_some()
    }

    /// The meanings of two bounds. A day alone has the month and the year of the other bound.
    fn meanings(&self, first: Side, second: Side) -> Option<(Meaning, Meaning)> {
        let (named, from, to, later_year) = match (first, second) {
            (Side::Named(first), Side::Named(second)) => return Some((first.meaning, second.meaning)),
            (Side::Named(first), Side::Day { day, year }) => (first, None, Some(day), year),
            (Side::Day { day, .. }, Side::Named(second)) => (second, Some(day), None, None),
            (Side::Day { .. }, Side::Day { .. }) => return None,
        };
        let Meaning::Yearly(date @ Yearly::Date { month, day, lead: 0, .. }, year) = named.meaning else { return None };
        let year = year.or(later_year).or_else(|| Some(date.begun(self.now)?.start.year()));
        let of_month = |day| Meaning::Yearly(Yearly::day(month, day), year);
        Some((of_month(from.unwrap_or(day)), of_month(to.unwrap_or(day))))
    }

    /// The time from the beginning of the first to the end of the second, unless that is before the first.
    fn between(&self, first: Meaning, second: Meaning) -> Option<Bounds> {
        let (first, second) = match (first, second) {
            // A year named once is the year of both.
            (Meaning::Yearly(yearly, None), Meaning::Yearly(_, Some(year))) => {
                (yearly.of_year(year)?, self.period(second)?)
            }
            (_, Meaning::Yearly(yearly, None)) => {
                let first = self.period(first)?;
                (first, yearly.next_from(first.start)?)
            }
            (_, Meaning::Weekday(weekday)) => {
                let first = self.period(first)?;
                (first, nearest_weekday(first.start, 1, weekday)?)
            }
            (Meaning::Yearly(yearly, None), Meaning::Fixed(period)) => (yearly.begun(period.start)?, period),
            _ => (self.period(first)?, self.period(second)?),
        };
        (first.start <= second.start && first.start < second.end)
            .then_some(Bounds { since: Some(first.start), until: Some(second.end) })
    }
}

impl From<Period> for Bounds {
    fn from(period: Period) -> Bounds {
        Bounds { since: Some(period.start), until: Some(period.end) }
    }
}

impl Bound {
    fn apply(self, Bounds { since, until }: Bounds) -> Option<Bounds> {
        Some(match self {
            Bound::Within => Bounds { since, until },
            Bound::Around => Period { start: since?, end: until? }.widened()?.into(),
            Bound::Since => Bounds { since, until: None },
            Bound::After => Bounds { since: until, until: None },
            Bound::Before => Bounds { since: None, until: since },
            Bound::Until => Bounds { since: None, until },
        })
    }
}
