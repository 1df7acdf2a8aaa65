//! Digits that are a date or a phone number.

use super::pieces::Piece;

/// Maximum number of digits of a phone number (ITU-T E.164), and the least that is one.
pub(super) const MAX_PHONE_DIGITS: usize = 15;
const MIN_PHONE_DIGITS: usize = 7;
/// Maximum number of groups of digits of a phone number.
const MAX_PHONE_GROUPS: u8 = 6;

/// A date in figures. The year has four digits.
pub(super) struct Date {
    pub(super) year: u32,
    pub(super) month: u32,
    pub(super) day: u32,
    /// Day and month may be the other way round.
    pub(super) is_ambiguous: bool,
}

impl Date {
    /// Reads "2023-05-07", "2023/05/07", "7.5.2023" or "5/7/2023" at the begin of these pieces.
    pub(super) fn of(text: &str, pieces: &[Piece]) -> Option<Self> {
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
    pub(super) fn number(&self) -> Option<&str> {
        let is_local = self.groups == 2 && self.lengths == [3, 4];
        let is_phone = !self.is_too_long
            && self.length >= MIN_PHONE_DIGITS
            && (2..=MAX_PHONE_GROUPS).contains(&self.groups)
            && (self.is_marked || self.groups > 2 || is_local);
        let digits = std::str::from_utf8(&self.digits[..self.length]).expect("digits are ASCII");
        is_phone.then(|| digits.strip_prefix("00").unwrap_or(digits))
    }
}
