//! Numbers of several groups of digits: amounts, dates, versions, times, phone numbers. Their usual spellings have a
//! term in common.

use super::{
    digits::{Date, MAX_PHONE_DIGITS},
    pieces::{Gap, Piece},
    terms::TermWriter,
};

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
        let is_more =
            |piece: &&Piece| piece.is_number && piece.gap <= Gap::Loose && matches!(piece.connector, '.' | ',' | ':');
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
        let is_amount = part(&pieces[0]).len() <= 3
            && part(&pieces[0]) != "0"
            && is_grouped(&grouped[0])
            && grouped[0].connector != ':';
        let groups = 1 + grouped.iter().take_while(|piece| is_amount && is_grouped(piece)).count();
        let has_decimals = groups + 1 == count && matches!(last.connector, '.' | ',') && groups > 1;
        if is_amount && (groups == count || has_decimals && last.connector != grouped[0].connector) {
            // A dot before three digits may also be a decimal point, or part of an address.
            if grouped[0].connector == '.' && !has_decimals {
                self.push_joined(text, pieces, Some);
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
        if !self.phone.has_digits() {
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
