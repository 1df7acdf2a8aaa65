//! A text as its reader sees it: without escapes, colours and look-alikes, with the place of each byte in the original.
//!
//! Tool arguments are JSON in a string, often twice, and what a terminal printed has colours. In `\nsk-...` the `n` hides
//! where the key begins, and in `\u002d` a hyphen hides. A text that is cut off does not parse as JSON, so escapes are
//! decoded wherever they stand, and the secret is replaced in the original, which keeps its form.

use std::{ops::Range, str::Chars};

/// How often a text is decoded: JSON in JSON in an address of the web is three.
const MOST: usize = 5;

/// A text, and for each of its bytes, and its end, the place in the original.
pub(crate) struct Reading {
    pub(crate) text: String,
    places: Vec<usize>,
}

impl Reading {
    /// Returns the range of the original that a range of this text was read from.
    pub(crate) fn original(&self, range: Range<usize>) -> Range<usize> {
        self.places[range.start]..self.places[range.end]
    }

    fn push(&mut self, char: char, place: usize) {
        self.text.push(char);
        self.places.resize(self.text.len(), place);
    }
}

/// Calls `see` with what a text reads as after one decoding, after two, and so on, as long as there is something to decode.
pub(crate) fn for_each_reading(text: &str, mut see: impl FnMut(&Reading)) {
    let mut last: Option<Reading> = None;
    for _ in 0..MOST {
        let Some(mut reading) = decoded(last.as_ref().map_or(text, |last| &last.text)) else { break };
        if let Some(last) = &last {
            reading.places.iter_mut().for_each(|place| *place = last.places[*place]);
        }
        see(&reading);
        last = Some(reading);
    }
}

/// Decodes a text once. `None`: there is nothing to decode.
fn decoded(text: &str) -> Option<Reading> {
    if !text.bytes().any(|byte| matches!(byte, b'\\' | b'%' | 0x1b) || !byte.is_ascii()) {
        return None;
    }
    let mut reading = Reading { text: String::with_capacity(text.len()), places: Vec::with_capacity(text.len() + 1) };
    let (mut rest, mut is_changed) = (text.chars(), false);
    loop {
        let (place, before) = (text.len() - rest.as_str().len(), rest.clone());
        let Some(char) = rest.next() else { break };
        let read = match char {
            '\\' => escape(&mut rest),
            '%' => hexadecimal(&mut rest, 2).filter(char::is_ascii).map(Some),
            '\u{1b}' => colour(&mut rest).then_some(None),
            char if char.is_ascii() => None,
            char => look_alike(char),
        };
        match read {
            Some(read) => {
                is_changed = true;
                read.into_iter().for_each(|char| reading.push(char, place));
            }
            None => {
                rest = before;
                rest.next();
                reading.push(char, place);
            }
        }
    }
    reading.places.push(text.len());
    is_changed.then_some(reading)
}

/// Reads the escape after a backslash: `Some(None)` for one that stands for nothing, `None` for what is no escape.
fn escape(rest: &mut Chars<'_>) -> Option<Option<char>> {
    let char = match rest.next()? {
        'n' => '\n',
        't' => '\t',
        'r' => '\r',
        'b' | 'f' | 'v' | 'a' | '0' => ' ',
        'e' => '\u{1b}',
        'x' => hexadecimal(rest, 2)?,
        'u' if rest.as_str().starts_with('{') => {
            let (digits, after) = rest.as_str()[1..].split_once('}')?;
            let number = u32::from_str_radix(digits, 16).ok()?;
            *rest = after.chars();
            char::from_u32(number)?
        }
        // Half of a character of a higher plane is of no form.
        'u' => hexadecimal(rest, 4)?,
        '\n' => return Some(None),
        char @ ('"' | '\'' | '`' | '\\' | '/') => char,
        _ => return None,
    };
    Some(Some(char))
}

fn hexadecimal(rest: &mut Chars<'_>, digits: usize) -> Option<char> {
    let number = rest.as_str().get(..digits).filter(|text| text.bytes().all(|byte| byte.is_ascii_hexdigit()))?;
    let number = u32::from_str_radix(number, 16).ok()?;
    *rest = rest.as_str()[digits..].chars();
    Some(char::from_u32(number).unwrap_or(char::REPLACEMENT_CHARACTER))
}

/// Skips a sequence that colours a terminal.
fn colour(rest: &mut Chars<'_>) -> bool {
    let Some(text) = rest.as_str().strip_prefix('[') else { return false };
    let length = text.bytes().take_while(|byte| matches!(byte, b'0'..=b'9' | b';' | b'?')).count();
    let is_whole = text.as_bytes().get(length).is_some_and(u8::is_ascii_alphabetic);
    if is_whole {
        *rest = text[length + 1..].chars();
    }
    is_whole
}

/// Returns the ASCII character that another looks like; nothing for those that nobody sees.
fn look_alike(char: char) -> Option<Option<char>> {
    match char {
        '\u{ad}' | '\u{200b}'..='\u{200d}' | '\u{2060}' | '\u{feff}' => Some(None),
        '\u{a0}' | '\u{2000}'..='\u{200a}' | '\u{202f}' | '\u{205f}' | '\u{3000}' => Some(Some(' ')),
        '\u{2010}'..='\u{2015}' | '\u{2212}' => Some(Some('-')),
        '\u{b7}' | '\u{2022}' | '\u{2027}' => Some(Some('.')),
        '\u{ff01}'..='\u{ff5e}' => Some(char::from_u32(char as u32 - 0xff01 + 0x21)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_read_in_their_places() {
        for (text, read, original) in [
            (r"a\nX", "a\nX", "X"),
            (r"a\\nX", "a\nX", "X"),
            (r"a\u0058b", "aXb", r"\u0058"),
            (r"a%58b", "aXb", "%58"),
            ("a\u{1b}[1;32mX\u{1b}[0m", "aX", "X\u{1b}[0m"),
            (r"a\u001b[32mX.", "aX.", "X"),
            ("a\u{200b}X\u{ff11}", "aX1", "X"),
        ] {
            let mut last = None;
            for_each_reading(text, |reading| {
                last = reading.text.find('X').map(|at| (reading.text.clone(), reading.original(at..at + 1)));
            });
            let (last, place) = last.unwrap();
            assert_eq!((&*last, &text[place]), (read, original), "{text}");
        }
        for text in ["plain, and 100 %, C:", "Gr\u{fc}\u{df}e \\q %zz"] {
            for_each_reading(text, |reading| panic!("{text} reads as {}", reading.text));
        }
    }
}
