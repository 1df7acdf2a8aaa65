//! Arithmetic on periods of the calendar. It knows no words. Periods outside the calendar's years, -9999 to 9999, are
//! `None`.

use jiff::{
    Span,
    civil::{Date, DateTime, Weekday},
};

/// A period from `start` to before `end`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Period {
    pub(super) start: DateTime,
    pub(super) end: DateTime,
}

/// A unit of time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Unit {
    Minute,
    Hour,
    Day,
    /// A week from Monday, as in ISO 8601.
    Week,
    Month,
    Quarter,
    Year,
    Decade,
}

/// A period that recurs every year.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Yearly {
    /// Whole months, from the month `first` of the year that names the period: a winter continues into the next year.
    Months { first: i8, count: i64 },
    /// `length` days, the first of them `lead` days before a date.
    Date { month: i8, day: i8, lead: i64, length: i64 },
    /// The fourth Thursday of November, as in the United States.
    Thanksgiving,
}

/// A choice among recurring periods.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Which {
    /// The last one that is over.
    Last,
    /// The current one, or else the one of the current week or year.
    This,
    /// The first one that has not begun.
    Next,
}

impl Which {
    /// The distance from the current one: -1, 0 or 1.
    pub(super) fn steps(self) -> i64 {
        match self {
            Which::Last => -1,
            Which::This => 0,
            Which::Next => 1,
        }
    }
}

/// The time `n` units later, or earlier if `n` is negative.
pub(super) fn shift(time: DateTime, n: i64, unit: Unit) -> Option<DateTime> {
    let span = match unit {
        Unit::Minute => Span::new().try_minutes(n),
        Unit::Hour => Span::new().try_hours(n),
        Unit::Day => Span::new().try_days(n),
        Unit::Week => Span::new().try_weeks(n),
        Unit::Month => Span::new().try_months(n),
        Unit::Quarter => Span::new().try_months(3 * n),
        Unit::Year => Span::new().try_years(n),
        Unit::Decade => Span::new().try_years(10 * n),
    };
    time.checked_add(span.ok()?).ok()
}

/// Midnight at the beginning of the day.
pub(super) fn midnight(time: DateTime) -> DateTime {
    time.date().into()
}

/// The `n`th such weekday after the day of this time, or before it if `n` is negative.
pub(super) fn nearest_weekday(time: DateTime, n: i64, weekday: Weekday) -> Option<Period> {
    Period::day(time.date().nth_weekday(i32::try_from(n).ok()?, weekday).ok()?)
}

impl Period {
    /// The period of `n` units that begins at this time.
    pub(super) fn starting(start: DateTime, n: i64, unit: Unit) -> Option<Period> {
        Some(Period { start, end: shift(start, n, unit)? })
    }

    pub(super) fn day(date: Date) -> Option<Period> {
        Period::starting(date.into(), 1, Unit::Day)
    }

    pub(super) fn years(first: i16, n: i64) -> Option<Period> {
        Period::starting(Date::new(first, 1, 1).ok()?.into(), n, Unit::Year)
    }

    /// The unit of the calendar `steps` after the one that contains this time.
    pub(super) fn calendar(time: DateTime, steps: i64, unit: Unit) -> Option<Period> {
        let date = time.date();
        let first = match unit {
            Unit::Minute | Unit::Hour => return None,
            Unit::Day => Some(date),
            Unit::Week => {
                return Period::weekday(time, steps, Weekday::Monday)
                    .and_then(|day| Period::starting(day.start, 1, unit));
            }
            Unit::Month => Some(date.first_of_month()),
            Unit::Quarter => Date::new(date.year(), (date.month() - 1) / 3 * 3 + 1, 1).ok(),
            Unit::Year => Some(date.first_of_year()),
            Unit::Decade => Date::new(date.year().div_euclid(10) * 10, 1, 1).ok(),
        };
        Period::starting(shift(first?.into(), steps, unit)?, 1, unit)
    }

    /// The weekday in the week `steps` after the one that contains this time.
    pub(super) fn weekday(time: DateTime, steps: i64, weekday: Weekday) -> Option<Period> {
        let days = i64::from(weekday.to_monday_zero_offset()) - i64::from(time.weekday().to_monday_zero_offset());
        Period::starting(shift(midnight(time), 7 * steps + days, Unit::Day)?, 1, Unit::Day)
    }

    /// Saturday and Sunday of the week `steps` after the one that contains this time.
    pub(super) fn weekend(time: DateTime, steps: i64) -> Option<Period> {
        Period::starting(Period::weekday(time, steps, Weekday::Saturday)?.start, 2, Unit::Day)
    }

    /// The period meant by an expression such as "3 weeks ago" that is exactly `time`: larger units are meant less
    /// exactly.
    pub(super) fn around(time: DateTime, unit: Unit) -> Option<Period> {
        let day = midnight(time);
        let (start, end) = match unit {
            Unit::Minute => (shift(time, -5, unit)?, shift(time, 5, unit)?),
            Unit::Hour => (shift(time, -1, unit)?, shift(time, 1, unit)?),
            Unit::Week => (shift(day, -3, Unit::Day)?, shift(day, 4, Unit::Day)?),
            Unit::Month => (shift(day, -15, Unit::Day)?, shift(day, 16, Unit::Day)?),
            Unit::Decade => {
                let year = Period::calendar(time, 0, Unit::Year)?.start;
                (shift(year, -5, Unit::Year)?, shift(year, 5, Unit::Year)?)
            }
            Unit::Day | Unit::Quarter | Unit::Year => return Period::calendar(time, 0, unit),
        };
        Some(Period { start, end })
    }

    /// The part with this number, from 0, of `of` equal parts: in whole months if possible, otherwise in days.
    pub(super) fn part(self, part: i64, of: i64) -> Option<Period> {
        let (start, end) = (self.start.date(), self.end.date());
        let months = 12 * i64::from(end.year() - start.year()) + i64::from(end.month() - start.month());
        let (total, unit) = if start.day() == 1 && end.day() == 1 && months % of == 0 {
            (months, Unit::Month)
        } else {
            (self.days(), Unit::Day)
        };
        let cut = |part: i64| shift(self.start, total * part / of, unit);
        Some(Period { start: cut(part)?, end: cut(part + 1)? })
    }

    /// `count` units from the `n`th on, or the last ones for -1, if the period has so many.
    pub(super) fn nth(self, n: i64, count: i64, unit: Unit) -> Option<Period> {
        let start = if n > 0 { shift(self.start, n - 1, unit)? } else { shift(self.end, -count, unit)? };
        Period::starting(start, count, unit).filter(|found| found.start >= self.start && found.end <= self.end)
    }

    /// The `n`th such weekday in the period, or the last for -1, if there is one.
    pub(super) fn nth_weekday(self, n: i64, weekday: Weekday) -> Option<Period> {
        let from = if n > 0 { shift(self.start, -1, Unit::Day)? } else { self.end };
        nearest_weekday(from, n, weekday).filter(|found| found.start >= self.start && found.start < self.end)
    }

    /// The period extended by half its length on either side.
    pub(super) fn widened(self) -> Option<Period> {
        let days = (self.days() + 1) / 2;
        Some(Period { start: shift(self.start, -days, Unit::Day)?, end: shift(self.end, days, Unit::Day)? })
    }

    /// The number of whole days; 0 for a few hours.
    pub(super) fn days(self) -> i64 {
        self.start.date().duration_until(self.end.date()).as_hours() / 24
    }
}

/// Every day recurs within eight years: the longest time without a 29 February.
const YEARS: i16 = 8;

impl Yearly {
    pub(super) const fn day(month: i8, day: i8) -> Yearly {
        Yearly::Date { month, day, lead: 0, length: 1 }
    }

    /// The period of a year; `None` for 29 February in most years, and for a date that does not exist.
    pub(super) fn of_year(self, year: i16) -> Option<Period> {
        match self {
            Yearly::Months { first, count } => {
                Period::starting(Date::new(year, first, 1).ok()?.into(), count, Unit::Month)
            }
            Yearly::Date { month, day, lead, length } => {
                let date = Date::new(year, month, day).ok()?.into();
                Period::starting(shift(date, -lead, Unit::Day)?, length, Unit::Day)
            }
            Yearly::Thanksgiving => {
                Period::day(Date::new(year, 11, 1).ok()?.nth_weekday_of_month(4, Weekday::Thursday).ok()?)
            }
        }
    }

    /// The last one that has begun by this time.
    pub(super) fn begun(self, time: DateTime) -> Option<Period> {
        self.before(time, |period| period.start <= time)
    }

    /// The first one that begins at this time or later.
    pub(super) fn next_from(self, time: DateTime) -> Option<Period> {
        let year = time.year();
        (year - 1..=year + YEARS).filter_map(|year| self.of_year(year)).find(|period| period.start >= time)
    }

    pub(super) fn which(self, which: Which, now: DateTime) -> Option<Period> {
        let today = midnight(now);
        match which {
            Which::Last => self.before(today, |period| period.end <= today),
            Which::This => self.begun(today).filter(|period| period.end > today).or_else(|| self.of_year(today.year())),
            Which::Next => self.next_from(shift(today, 1, Unit::Day)?),
        }
    }

    fn before(self, time: DateTime, is_early: impl Fn(&Period) -> bool) -> Option<Period> {
        let year = time.year();
        (year - YEARS..=year + 1).rev().filter_map(|year| self.of_year(year)).find(is_early)
    }
}
