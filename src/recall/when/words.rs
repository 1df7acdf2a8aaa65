//! A text as words, and the characters between them; and the words for months, units and counts. It knows no grammar.

use std::ops::Range;

use jiff::civil::Weekday;

use super::calendar::{Unit, Yearly};

/// The characters between a word and the one before it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Gap {
    Space,
    Comma,
    /// A dash with spaces around it, which may also be a pause.
    SpacedDash,
    /// A dash without spaces, or a slash.
    Dash,
    Slash,
    /// An apostrophe, as in "week's" and "May '23".
    Apostrophe,
    /// A point and a space: the end of a sentence, or of "Sept. 2023".
    Point,
    /// The beginning of the text, or anything else.
    Break,
}

#[derive(Debug)]
struct Word {
    range: Range<usize>,
    gap: Gap,
}

/// The words of a text: its runs of letters and digits.
#[derive(Debug)]
pub(super) struct Words<'t> {
    text: &'t str,
    /// The text in lower case, with each byte at the same position.
    lower: String,
    words: Vec<Word>,
}

impl<'t> Words<'t> {
    pub(super) fn of(text: &'t str) -> Self {
        let mut words: Vec<Word> = Vec::new();
        let is_part = |c: char| c.is_alphanumeric() || c == '_';
        let mut after = 0;
        while let Some(start) = text[after..].find(is_part).map(|skipped| after + skipped) {
            let end = text[start..].find(|c| !is_part(c)).map_or(text.len(), |length| start + length);
            let gap = if words.is_empty() { Gap::Break } else { gap(&text[after..start], &text[start..end]) };
            words.push(Word { range: start..end, gap });
            after = end;
        }
        Words { text, lower: text.to_ascii_lowercase(), words }
    }

    pub(super) fn len(&self) -> usize {
        self.words.len()
    }

    /// The word in lower case; empty after the last.
    pub(super) fn get(&self, at: usize) -> &str {
        self.words.get(at).map_or("", |word| &self.lower[word.range.clone()])
    }

    /// The gap before the word.
    pub(super) fn gap(&self, at: usize) -> Gap {
        self.words.get(at).map_or(Gap::Break, |word| word.gap)
    }

    /// Returns true if the word is one of these, and a space separates it from the one before it.
    pub(super) fn follows(&self, at: usize, any: &[&str]) -> bool {
        self.gap(at) == Gap::Space && any.contains(&self.get(at))
    }

    /// Returns true if the word before this one is one of these.
    pub(super) fn is_after(&self, at: usize, any: &[&str]) -> bool {
        self.gap(at) == Gap::Space && any.contains(&self.get(at - 1))
    }

    /// Returns true if these words begin here, with spaces or apostrophes between them.
    pub(super) fn phrase(&self, at: usize, phrase: &[&str]) -> bool {
        phrase.iter().enumerate().all(|(i, word)| {
            self.get(at + i) == *word && (i == 0 || matches!(self.gap(at + i), Gap::Space | Gap::Apostrophe))
        })
    }

    /// Returns true if a clause ends before this word, or the text.
    pub(super) fn ends_before(&self, at: usize) -> bool {
        matches!(self.gap(at), Gap::Break | Gap::Comma | Gap::Point | Gap::SpacedDash)
    }

    /// Returns true if "may" or "march" is likely a verb: it is in lower case and the clause continues.
    pub(super) fn is_verb(&self, at: usize) -> bool {
        matches!(self.get(at), "may" | "march") && !self.is_capital(at) && !self.ends_before(at + 1)
    }

    pub(super) fn is_capital(&self, at: usize) -> bool {
        self.text_from(at).starts_with(char::is_uppercase)
    }

    /// Returns true if the number here counts something: "2000 dollars", "10 miles", "2000%", "2023.5".
    pub(super) fn is_amount(&self, at: usize) -> bool {
        let rest = &self.text_from(at)[self.get(at).len()..];
        let next = self.get(at + 1);
        let is_plural =
            next.len() > 2 && next.ends_with('s') && !self.is_capital(at + 1) && !NO_PLURALS.contains(&next);
        rest.starts_with(['%', '$', '€', '£', '°'])
            || rest.starts_with(['.', ':', ',']) && rest[1..].starts_with(|c: char| c.is_ascii_digit())
            || self.gap(at + 1) == Gap::Space && (is_plural || COUNTED.contains(&next))
    }

    /// The byte range from one word to before another, without the gaps around it.
    pub(super) fn bytes(&self, from: usize, to: usize) -> Range<usize> {
        self.words[from].range.start..self.words[to - 1].range.end
    }

    fn text_from(&self, at: usize) -> &str {
        self.words.get(at).map_or("", |word| &self.text[word.range.start..])
    }
}

fn gap(between: &str, word: &str) -> Gap {
    let is_spaced = between.starts_with(char::is_whitespace);
    match between.trim() {
        "" => Gap::Space,
        "," => Gap::Comma,
        "-" | "–" if is_spaced => Gap::SpacedDash,
        "-" | "–" => Gap::Dash,
        "/" if between.len() == 1 => Gap::Slash,
        // The apostrophe of "the '90s" is part of the word.
        "'" | "’" | "‘" if is_spaced && word.ends_with('s') => Gap::Space,
        "'" | "’" | "‘" => Gap::Apostrophe,
        "." if between.len() > 1 => Gap::Point,
        _ => Gap::Break,
    }
}

/// Words that end in "s", may follow a year, and are not plurals.
const NO_PLURALS: &[&str] = &[
    "was",
    "has",
    "does",
    "this",
    "his",
    "its",
    "always",
    "perhaps",
    "across",
    "besides",
    "towards",
    "unless",
    "onwards",
    "afterwards",
];

/// Nouns that numbers count and that do not end in "s".
const COUNTED: &[&str] =
    &["people", "men", "women", "children", "feet", "percent", "million", "billion", "km", "kg", "usd", "eur"];

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
