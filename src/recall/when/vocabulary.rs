//! The words for months, units and counts. It knows no grammar.

use jiff::civil::Weekday;

use super::{
    calendar::{Unit, Yearly},
    words::{Gap, Words},
};

const MONTHS: [&str; 12] = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
];

const WEEKDAYS: [(&str, Weekday); 7] = [
    ("monday", Weekday::Monday),
    ("tuesday", Weekday::Tuesday),
    ("wednesday", Weekday::Wednesday),
    ("thursday", Weekday::Thursday),
    ("friday", Weekday::Friday),
    ("saturday", Weekday::Saturday),
    ("sunday", Weekday::Sunday),
];

/// Names of holidays; where one is the beginning of another, the longer one comes first.
const HOLIDAYS: &[(&[&str], Yearly)] = &[
    (&["christmas", "eve"], Yearly::day(12, 24)),
    (&["christmas", "day"], Yearly::day(12, 25)),
    (&["christmas"], Yearly::Date { month: 12, day: 25, lead: 1, length: 3 }),
    (&["boxing", "day"], Yearly::day(12, 26)),
    (&["new", "year", "s", "eve"], Yearly::day(12, 31)),
    (&["new", "years", "eve"], Yearly::day(12, 31)),
    (&["new", "year", "s", "day"], Yearly::day(1, 1)),
    (&["new", "years", "day"], Yearly::day(1, 1)),
    (&["new", "year", "s"], Yearly::Date { month: 1, day: 1, lead: 1, length: 2 }),
    (&["valentine", "s", "day"], Yearly::day(2, 14)),
    (&["valentines", "day"], Yearly::day(2, 14)),
    (&["halloween"], Yearly::day(10, 31)),
    (&["thanksgiving"], Yearly::Thanksgiving),
];

const COUNTS: &[(&str, i64)] = &[
    ("a", 1),
    ("an", 1),
    ("one", 1),
    ("two", 2),
    ("three", 3),
    ("four", 4),
    ("five", 5),
    ("six", 6),
    ("seven", 7),
    ("eight", 8),
    ("nine", 9),
    ("ten", 10),
    ("eleven", 11),
    ("twelve", 12),
    ("fifteen", 15),
    ("twenty", 20),
    ("thirty", 30),
    ("forty", 40),
    ("fifty", 50),
];

/// Vague counts: the words, and the least and the most that they mean.
const VAGUE_COUNTS: &[(&[&str], i64, i64)] = &[
    (&["a", "couple", "of"], 2, 3),
    (&["a", "couple"], 2, 3),
    (&["couple", "of"], 2, 3),
    (&["couple"], 2, 3),
    (&["a", "few"], 2, 5),
    (&["few"], 2, 5),
    (&["several"], 3, 8),
];

impl Words<'_> {
    /// The month named by a word, 1 to 12.
    pub(super) fn month(&self, at: usize) -> Option<i8> {
        let word = self.get(at);
        let is = |month: &&str| *month == word || word.len() == 3 && month.starts_with(word);
        let month = MONTHS.iter().position(is).or((word == "sept").then_some(8))?;
        Some(month as i8 + 1)
    }

    /// Returns true if the month is abbreviated, so that a point after it ends no sentence.
    pub(super) fn is_short_month(&self, at: usize) -> bool {
        self.month(at).is_some() && !MONTHS.contains(&self.get(at))
    }

    /// The weekday named by a word. Abbreviations must be capitalized: "sun" and "wed" are words.
    pub(super) fn weekday(&self, at: usize) -> Option<Weekday> {
        let word = self.get(at);
        let is_short = (3..=5).contains(&word.len()) && self.is_capital(at);
        WEEKDAYS
            .iter()
            .find(|(name, _)| *name == word || is_short && name.starts_with(word))
            .map(|(_, weekday)| *weekday)
    }

    /// The season, of the northern hemisphere, or the quarter ("Q3") named by a word.
    pub(super) fn season(&self, at: usize) -> Option<Yearly> {
        let first = match self.get(at) {
            "q1" => 1,
            "q2" => 4,
            "q3" => 7,
            "q4" => 10,
            "spring" => 3,
            "summer" => 6,
            "autumn" | "fall" => 9,
            "winter" => 12,
            _ => return None,
        };
        Some(Yearly::Months { first, count: 3 })
    }

    /// The holiday named here, and the position after its name.
    pub(super) fn holiday(&self, at: usize) -> Option<(Yearly, usize)> {
        let (name, holiday) = HOLIDAYS.iter().find(|(name, _)| self.phrase(at, name))?;
        Some((*holiday, at + name.len()))
    }

    pub(super) fn unit(&self, at: usize) -> Option<Unit> {
        Some(match self.get(at) {
            "minute" | "minutes" => Unit::Minute,
            "hour" | "hours" => Unit::Hour,
            "day" | "days" => Unit::Day,
            "week" | "weeks" => Unit::Week,
            "month" | "months" => Unit::Month,
            "quarter" | "quarters" => Unit::Quarter,
            "year" | "years" => Unit::Year,
            "decade" | "decades" => Unit::Decade,
            _ => return None,
        })
    }

    /// The least and the most that a count means, and the position after it: "two", "a few", "2-3", "two or three".
    pub(super) fn count(&self, at: usize) -> Option<(i64, i64, usize)> {
        if let Some((words, least, most)) = VAGUE_COUNTS.iter().find(|(words, ..)| self.phrase(at, words)) {
            return Some((*least, *most, at + words.len()));
        }
        let exact = |at: usize| {
            let named = COUNTS.iter().find(|(name, _)| *name == self.get(at)).map(|(_, count)| *count);
            named.or_else(|| number(self.get(at), 4).map(i64::from))
        };
        let least = exact(at)?;
        let second = if self.gap(at + 1) == Gap::Dash { at + 1 } else { at + 2 };
        let is_range = second == at + 1 || self.follows(at + 1, &["or", "to"]) && self.gap(second) == Gap::Space;
        match exact(second).filter(|most| is_range && *most > least) {
            Some(most) => Some((least, most, second + 1)),
            None => Some((least, least, at + 1)),
        }
    }

    /// The value of an ordinal: 1 for the first, -1 for the last.
    pub(super) fn ordinal(&self, at: usize) -> Option<i64> {
        Some(match self.get(at) {
            "first" | "1st" => 1,
            "second" | "2nd" => 2,
            "third" | "3rd" => 3,
            "fourth" | "4th" => 4,
            "last" => -1,
            _ => return None,
        })
    }

    /// A day of a month, 1 to 31, and true if it is written as an ordinal: "7th", not "7".
    pub(super) fn day(&self, at: usize) -> Option<(i8, bool)> {
        let word = self.get(at);
        let digits = ["st", "nd", "rd", "th"].iter().find_map(|ending| word.strip_suffix(ending));
        let day = number(digits.unwrap_or(word), 2)?;
        (1..=31).contains(&day).then_some((day as i8, digits.is_some()))
    }

    /// A year in four digits, 1900 to 2100, that counts nothing and is not part of a number such as "2010-12".
    pub(super) fn year(&self, at: usize) -> Option<i16> {
        let next = self.get(at + 1);
        let goes_on = matches!(self.gap(at + 1), Gap::Dash | Gap::Slash) && next.len() < 4 && number(next, 4).is_some();
        number(self.get(at), 4).filter(|year| is_year(year) && !goes_on && !self.is_amount(at))
    }

    /// The first year of "1990s" (four digits) or "90s" (two).
    pub(super) fn decade(&self, at: usize) -> Option<i16> {
        let digits = self.get(at).strip_suffix('s')?;
        let year = number(digits, 4).filter(|year| year % 10 == 0)?;
        match digits.len() {
            2 => Some(year).filter(|year| *year >= 20),
            4 => Some(year).filter(is_year),
            _ => None,
        }
    }
}

/// Returns true if a number without other words may be a year.
pub(super) fn is_year(number: &i16) -> bool {
    (1900..=2100).contains(number)
}

/// Parses a number of at most this many ASCII digits, and never more than four.
pub(super) fn number(word: &str, most_digits: usize) -> Option<i16> {
    let is_number = (1..=most_digits).contains(&word.len()) && word.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| word.parse().ok()).flatten()
}
