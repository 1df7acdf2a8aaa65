//! Messages as XML for a language model to read: each field escaped, so that none can leave its element.

use std::{borrow::Cow, fmt::Write};

use super::{Message, Part, Reference};

/// A text that stays within its element, whatever it holds. An XML reader gets the same text back, but for NUL and two code
/// points that are no characters, which become U+FFFD.
///
/// `&`, `<` and `>` become entities; so do control characters but for line feed and tab, and the marks that change the
/// direction of writing, which could make a text look like what it is not. Quotes are left: this is not for attributes.
///
/// ```
/// assert_eq!(mnemon::escape_xml("</memory> isn't"), "&lt;/memory&gt; isn't");
/// ```
pub fn escape_xml(text: &str) -> Cow<'_, str> {
    escape(text, special)
}

/// The same for an attribute's value between single quotes, on one line.
fn escape_attribute(text: &str) -> Cow<'_, str> {
    escape(text, |c| special(c) || matches!(c, '"' | '\'' | '\n' | '\t'))
}

fn escape(text: &str, special: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.chars().any(&special) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '\0' | '\u{fffe}' | '\u{ffff}' => escaped.push('\u{fffd}'),
            c if special(c) => write!(escaped, "&#x{:x};", u32::from(c)).expect("strings take all"),
            c => escaped.push(c),
        }
    }
    Cow::Owned(escaped)
}

fn special(c: char) -> bool {
    matches!(c, '&' | '<' | '>' | '\u{fffe}' | '\u{ffff}')
        || (c.is_control() && c != '\n' && c != '\t')
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// A message as one element: `<message role='user' name='Ada' date='2024-05-01T09:30:00Z'>text</message>`, the date to the second.
pub(crate) fn element(message: &Message) -> String {
    let mut attributes = format!("role='{}'", message.role.as_str());
    if let Some(name) = &message.name {
        write!(attributes, " name='{}'", escape_attribute(name)).expect("strings take all");
    }
    if let Some(time) = message.created_at {
        write!(attributes, " date='{}'", time.to_the_second()).expect("strings take all");
    }
    let text = message.text();
    let mut body = escape_xml(&text).into_owned();
    for part in &message.content {
        if let Some(media) = media(part) {
            body.push_str(&media);
        }
    }
    format!("<message {attributes}>{body}</message>")
}

/// Media by reference, as an empty element; `None` for what is no medium.
pub(crate) fn media(part: &Part) -> Option<String> {
    let (kind, Reference { uri, .. }) = match part {
        Part::Image(reference) => ("image", reference),
        Part::Audio(reference) => ("audio", reference),
        Part::Video(reference) => ("video", reference),
        Part::File(reference) => ("file", reference),
        _ => return None,
    };
    Some(format!("<{kind} uri='{}' />", escape_attribute(uri)))
}

/// Messages as elements, a line each, without those that have no text.
pub(crate) fn transcript(messages: &[Message]) -> String {
    let with_text = messages.iter().filter(|message| !message.text().trim().is_empty());
    with_text.map(element).collect::<Vec<_>>().join("\n")
}
