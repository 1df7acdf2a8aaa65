//! Numbers of several groups of digits: amounts, dates, versions, times, phone numbers. Their usual spellings have a
//! term in common.

use super::{
    compound::{Gap, Piece},
    terms::TermWriter,
};

/// Maximum number of digits of a phone number (ITU-T E.164), and the least that is one.
const MAX_PHONE_DIGITS: usize = 15;
const MIN_PHONE_DIGITS: usize = 7;
/// Maximum number of groups of digits of a phone number.
const MAX_PHONE_GROUPS: u8 = 6;
/// Number of last digits of a phone number that all its spellings share: with a country code, with a leading 0, with
/// neither.
const LOCAL_DIGITS: usize = 7;
/// Least number of digits of a number that may be a phone number without a separator.
const MIN_UNSEPARATED_DIGITS: usize = 9;

impl TermWriter<'_> {
    /// Appends the terms of the number at the begin of these pieces. Returns how many pieces it has, and true if it is
    /// a date or an amount.
    pub(super) fn number(&mut self, text: &str, pieces: &mut [Piece]) -> (usize, bool) {
        if let Some(date) = Date::of(text, pieces) {
            self.date(text, &date, pieces);
            return (3, true);
        }
        let is_more = |piece: &&Piece| {
            piece.is_number && piece.gap <= Gap::Loose && matches!(piece.connector, '.' | ',' | ':')
        };
        let count = 1 + pieces[1..].iter().take_while(is_more).count();
        let pieces = &mut pieces[..count];
        let part = |piece: &Piece| &text[piece.begin..piece.end];
        if count == 1 {
            let digits = part(&pieces[0]);
            self.push_word(digits);
            if (MIN_UNSEPARATED_DIGITS..=MAX_PHONE_DIGITS).contains(&digits.len()) {
                self.push_word(&digits[digits.len() - LOCAL_DIGITS..]);
            }
            return (1, false);
        }
        pieces[1..].iter_mut().for_each(|piece| piece.is_joined = true);
        // "1,200.50" and "1.200,50" are "1200.50".
        let (last, grouped) = (&pieces[count - 1], &pieces[1..]);
        let is_grouped = |piece: &Piece| piece.connector == grouped[0].connector && part(piece).len() == 3;
        let is_amount = part(&pieces[0]).len() <= 3 && part(&pieces[0]) != "0" && is_grouped(&grouped[0]) && grouped[0].connector != ':';
        let groups = 1 + grouped.iter().take_while(|piece| is_amount && is_grouped(piece)).count();
        let has_decimals = groups + 1 == count && matches!(last.connector, '.' | ',') && groups > 1;
        if is_amount && (groups == count || has_decimals && last.connector != grouped[0].connector) {
            // A dot before three digits may also be a decimal point, or part of an address.
            if grouped[0].connector == '.' && !has_decimals {
                self.push_joined(text, pieces, |connector| Some(connector));
            }
            self.push_joined(text, &pieces[..groups], |_| None);
            if has_decimals && part(last) != "00" {
                self.push_joined(text, pieces, |connector| (connector == last.connector).then_some('.'));
            }
            return (count, true);
        }
        let is_decimal = count == 2 && grouped[0].connector != ':';
        if is_decimal && part(last) == "00" {
            self.push_word(part(&pieces[0]));
            return (count, true);
        }
        self.push_joined(text, pieces, |connector| Some(if is_decimal { '.' } else { connector }));
        for piece in &*pieces {
            self.push_word(part(piece));
        }
        // Two or more dots may separate the groups of a phone number; four groups are an address.
        (count, is_decimal || count > 3 || grouped[0].connector != '.')
    }

    fn push_joined(&mut self, text: &str, pieces: &[Piece], connector: impl Fn(char) -> Option<char>) {
        self.folded.clear();
        for (at, piece) in pieces.iter().enumerate() {
            if self.folded.len() > 64 {
                break;
            }
            self.folded.extend(connector(piece.connector).filter(|_| at > 0));
            let digits = &text[piece.begin..piece.end];
            self.folded.push_str(&digits[..digits.len().min(64)]);
        }
        self.push_folded();
    }

    fn date(&mut self, text: &str, date: &Date, pieces: &mut [Piece]) {
        for (month, day) in [(date.month, date.day), (date.day, date.month)] {
            if month <= 12 {
                self.push_date(date.year, month, day);
            }
            if !date.is_ambiguous || date.day == date.month {
                break;
            }
        }
        for piece in &pieces[..3] {
            self.push_word(&text[piece.begin..piece.end]);
        }
        pieces[1..3].iter_mut().for_each(|piece| piece.is_joined = true);
        // The time after a date, "2023-05-07T12:30", is a number of its own.
        if let [_, _, _, t, hour, ..] = pieces
            && t.gap == Gap::Inside
            && text[t.begin..t.end].eq_ignore_ascii_case("t")
            && hour.gap == Gap::Inside
        {
            (t.gap, hour.gap) = (Gap::Break, Gap::Break);
        }
    }

    fn push_date(&mut self, year: u32, month: u32, day: u32) {
        use std::fmt::Write;
        self.folded.clear();
        write!(self.folded, "{year:04}-{month:02}-{day:02}").expect("a string takes everything");
        self.push_folded();
    }

    /// Appends the terms of the phone number that the last texts were, if they were one.
    pub(super) fn phone_end(&mut self) {
        if self.phone.groups == 0 {
            return;
        }
        let phone = std::mem::take(&mut self.phone);
        if let Some(digits) = phone.number() {
            self.push_word(digits);
            if digits.len() > LOCAL_DIGITS {
                self.push_word(&digits[digits.len() - LOCAL_DIGITS..]);
            }
        }
    }
}

/// A date in figures. The year has four digits.
struct Date {
    year: u32,
    month: u32,
    day: u32,
    /// Day and month may be the other way round.
    is_ambiguous: bool,
}

impl Date {
    /// Reads "2023-05-07", "2023/05/07", "7.5.2023" or "5/7/2023" at the begin of these pieces.
    fn of(text: &str, pieces: &[Piece]) -> Option<Self> {
        let [a, b, c, ..] = pieces else { return None };
        let is_connected = |piece: &Piece| piece.is_number && matches!(piece.connector, '-' | '.' | '/');
        if !(is_connected(b) && is_connected(c) && b.connector == c.connector) {
            return None;
        }
        let digits = |piece: &Piece| text[piece.begin..piece.end].parse::<u32>().ok();
        let length = |piece: &Piece| piece.end - piece.begin;
        let (year, month, day, is_ambiguous) = match (length(a), length(b), length(c)) {
            (4, 1..=2, 1..=2) => (a, b, c, false),
            (1..=2, 1..=2, 4) => (c, b, a, b.connector == '/'),
            _ => return None,
        };
        let (year, month, day) = (digits(year)?, digits(month)?, digits(day)?);
        let is_date = (1..=31).contains(&day) && (1..=31).contains(&month) && (day <= 12 || month <= 12);
        let is_ordered = is_ambiguous || month <= 12;
        (is_date && is_ordered && (1000..3000).contains(&year)).then_some(Date { year, month, day, is_ambiguous })
    }
}

/// The digits of texts that follow one another and may be a phone number: "+49 (30)", "123-456".
#[derive(Debug, Default)]
pub(super) struct Phone {
    digits: [u8; MAX_PHONE_DIGITS],
    length: usize,
    groups: u8,
    /// Lengths of the first two groups.
    lengths: [u8; 2],
    /// It begins like a phone number: with "+", "(" or "0".
    is_marked: bool,
    is_too_long: bool,
}

impl Phone {
    pub(super) fn has_digits(&self) -> bool {
        self.groups > 0
    }

    /// Adds a text of numbers. Returns true if more may follow.
    pub(super) fn add(&mut self, text: &str) -> bool {
        if self.groups == 0 {
            self.is_marked = text.starts_with(['+', '(', '0']);
        }
        let mut is_in_group = false;
        let number = text.trim_end_matches(['.', ',', ';', ':', '!', '?']);
        for c in number.chars() {
            match c {
                '0'..='9' => {
                    self.groups = self.groups.saturating_add(u8::from(!is_in_group));
                    if let Some(length) = self.lengths.get_mut(usize::from(self.groups) - 1) {
                        *length = length.saturating_add(1);
                    }
                    match self.digits.get_mut(self.length) {
                        Some(digit) => *digit = c as u8,
                        None => self.is_too_long = true,
                    }
                    self.length += usize::from(!self.is_too_long);
                    is_in_group = true;
                }
                '+' | '(' | ')' | '-' | '/' | '.' => is_in_group = false,
                // Something else than a phone number.
                _ => self.is_too_long = true,
            }
        }
        number.len() == text.len()
    }

    /// Returns the digits if they are a phone number.
    fn number(&self) -> Option<&str> {
        let is_local = self.groups == 2 && self.lengths == [3, 4];
        let is_phone = !self.is_too_long
            && self.length >= MIN_PHONE_DIGITS
            && (2..=MAX_PHONE_GROUPS).contains(&self.groups)
            && (self.is_marked || self.groups > 2 || is_local);
        let digits = std::str::from_utf8(&self.digits[..self.length]).expect("digits are ASCII");
        is_phone.then(|| digits.strip_prefix("00").unwrap_or(digits))
    }
}
