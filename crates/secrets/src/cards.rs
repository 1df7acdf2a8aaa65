//! Numbers of payment cards: runs of digits of a length that their issuer has, with a right check digit (ISO/IEC 7812).
//!
//! A card is often followed by its expiry or its code, so each group of digits that may end the number is tried as its end.

use std::ops::Range;

/// Lengths of numbers.
const SHORTEST: usize = 12;
const LONGEST: usize = 19;
/// The most characters between two groups.
const MOST_BETWEEN: usize = 3;
/// The fewest digits of a group that others follow. Numbers in pairs are more often something else.
const GROUP: usize = 3;

/// Calls `found` with the place of each card's number.
pub(crate) fn cards(text: &str, mut found: impl FnMut(Range<usize>)) {
    let text = text.as_bytes();
    if text.iter().filter(|byte| byte.is_ascii_digit()).count() < SHORTEST {
        return;
    }
    let groups = groups(text);
    let mut first = 0;
    while first < groups.len() {
        let count = card(text, &groups[first..], first.checked_sub(1).map(|before| &groups[before]));
        if let Some(last) = count.map(|count| first + count - 1) {
            found(groups[first].start..groups[last].end);
            first = last;
        }
        first += 1;
    }
}

/// Returns true for a number that is a card's.
pub(crate) fn is_card(digits: &str) -> bool {
    let digits: Vec<u8> = digits.bytes().map(|digit| digit.wrapping_sub(b'0')).collect();
    digits.iter().all(|digit| *digit < 10) && is_number(&digits)
}

/// Returns the runs of digits.
fn groups(text: &[u8]) -> Vec<Range<usize>> {
    let mut groups: Vec<Range<usize>> = Vec::new();
    for (at, _) in text.iter().enumerate().filter(|(_, byte)| byte.is_ascii_digit()) {
        match groups.last_mut().filter(|group| group.end == at) {
            Some(group) => group.end += 1,
            None => groups.push(at..at + 1),
        }
    }
    groups
}

/// Returns how many groups, from the first one on, are the number of a card.
fn card(text: &[u8], groups: &[Range<usize>], before: Option<&Range<usize>>) -> Option<usize> {
    let start = groups[0].start;
    let is_letter = |at: Option<usize>| at.and_then(|at| text.get(at)).is_some_and(u8::is_ascii_alphabetic);
    // The digits after a decimal point are a fraction.
    let is_fraction = before.is_some_and(|before| text[before.end..start] == *b".") && groups[0].len() >= SHORTEST;
    if is_letter(start.checked_sub(1)) || is_fraction {
        return None;
    }
    let (mut digits, mut longest, mut lines) = (Vec::new(), None, 0);
    for (count, group) in groups.iter().enumerate() {
        if count > 0 {
            let between = &text[groups[count - 1].end..group.start];
            lines += between.iter().filter(|byte| **byte == b'\n').count();
            let is_joined = between.len() <= MOST_BETWEEN
                && between.iter().all(|byte| matches!(byte, b' ' | b'-' | b'.' | b'/' | b'_' | b'\r' | b'\n'));
            if !is_joined || lines > 1 || groups[count - 1].len() < GROUP {
                break;
            }
        }
        if digits.len() + group.len() > LONGEST {
            break;
        }
        digits.extend(text[group.clone()].iter().map(|digit| digit - b'0'));
        // Two groups with a point between them are a number with a fraction, such as the time in a log.
        let is_decimal = count == 1 && text[groups[0].end..group.start] == *b".";
        if !is_decimal && !is_letter(Some(group.end)) && !is_in_uuid(&text[group.end..]) && is_number(&digits) {
            longest = Some(count + 1);
        }
    }
    longest
}

/// Returns true if what follows four groups is the last one of a UUID.
fn is_in_uuid(after: &[u8]) -> bool {
    after.first() == Some(&b'-') && after.iter().skip(1).take_while(|byte| byte.is_ascii_hexdigit()).count() == 12
}

fn is_number(digits: &[u8]) -> bool {
    let lengths = if digits.len() < SHORTEST { 0..=0 } else { lengths(digits) };
    let sum: u32 = digits
        .iter()
        .rev()
        .map(|digit| u32::from(*digit))
        .enumerate()
        .map(|(at, digit)| if at % 2 == 0 { digit } else { 2 * digit / 10 + 2 * digit % 10 })
        .sum();
    lengths.contains(&digits.len()) && digits.len() != 17 && sum.is_multiple_of(10)
}

/// Returns the lengths of an issuer's numbers.
fn lengths(digits: &[u8]) -> std::ops::RangeInclusive<usize> {
    let first = |count: usize| digits[..count].iter().fold(0, |number, digit| 10 * number + u32::from(*digit));
    match (first(2), first(3), first(4)) {
        // American Express.
        (34 | 37, ..) => 15..=15,
        // Diners Club.
        (36 | 38 | 39, ..) | (_, 300..=305, _) | (.., 3095) => 14..=19,
        // JCB; Discover and RuPay; UnionPay and RuPay; Mir.
        (.., 3528..=3589 | 6011 | 2200..=2204) | (60 | 65 | 62 | 81 | 82, ..) | (_, 644..=649 | 508, _) => 16..=19,
        // Visa, whose old numbers have 13 digits.
        (40..=49, ..) if digits.len() == 13 || digits.len() >= 16 => 13..=19,
        // Mastercard; Troy.
        (51..=55, ..) | (.., 2221..=2720 | 9792) => 16..=16,
        // Maestro.
        (.., 5018 | 5020 | 5038 | 5893 | 6304 | 6759 | 6761..=6763) => 12..=19,
        _ => 0..=0,
    }
}
