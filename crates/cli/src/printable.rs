//! Makes stored and foreign text safe to print: no message, name or error may drive the reader's terminal.

use std::borrow::Cow;

/// Escapes control characters, except tabs and line feeds, and characters that override the direction of text.
pub(crate) fn text(text: &str) -> Cow<'_, str> {
    escaped(text, |c| c != '\n' && is_harmful(c))
}

/// Same as [`text`], with line feeds escaped, so that a name cannot look like a line of the command's own.
pub(crate) fn line(text: &str) -> Cow<'_, str> {
    escaped(text, is_harmful)
}

fn is_harmful(c: char) -> bool {
    c != '\t' && c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn escaped(text: &str, is_escaped: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(&is_escaped) {
        return text.into();
    }
    let mut safe = String::new();
    for c in text.chars() {
        if is_escaped(c) {
            safe.extend(c.escape_default());
        } else {
            safe.push(c);
        }
    }
    safe.into()
}

#[cfg(test)]
mod tests {
    #[test]
    fn what_drives_a_terminal_is_escaped() {
        let check = |given, wanted: &str, wanted_line: &str| {
            assert_eq!((&*super::text(given), &*super::line(given)), (wanted, wanted_line));
        };
        check("naïve 🙂\t東京 שלום", "naïve 🙂\t東京 שלום", "naïve 🙂\t東京 שלום");
        check("a\nb", "a\nb", "a\\nb");
        check("\u{1b}[2J\r\0\u{7f}", "\\u{1b}[2J\\r\\u{0}\\u{7f}", "\\u{1b}[2J\\r\\u{0}\\u{7f}");
        check("\u{9b}2J\u{202e}x\u{2069}", "\\u{9b}2J\\u{202e}x\\u{2069}", "\\u{9b}2J\\u{202e}x\\u{2069}");
    }
}
