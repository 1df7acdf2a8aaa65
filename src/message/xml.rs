//! Messages as XML for a language model to read: each field escaped, so that none can leave its element.

use std::{borrow::Cow, fmt::Write};

use super::{Message, Part, Reference};

/// A text that stays within its element or attribute, whatever it holds. An XML reader gets the same text back, but for NUL,
/// which becomes U+FFFD.
///
/// Markup and quotes become entities; so do control characters but for line feed and tab, and the marks that change the
/// direction of writing, which could make a text look like what it is not.
pub(crate) fn escape(text: &str) -> Cow<'_, str> {
    if !text.chars().any(special) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&apos;"),
            '\0' => escaped.push('\u{fffd}'),
            c if special(c) => write!(escaped, "&#x{:x};", u32::from(c)).expect("strings take all"),
            c => escaped.push(c),
        }
    }
    Cow::Owned(escaped)
}

fn special(c: char) -> bool {
    matches!(c, '&' | '<' | '>' | '"' | '\'')
        || (c.is_control() && c != '\n' && c != '\t')
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
        // No XML reader takes them.
        || matches!(c, '\u{fffe}' | '\u{ffff}')
}

/// A message as one element: `<message role='user' name='Ada' date='2024-05-01T09:30:00Z'>text</message>`.
pub(crate) fn element(message: &Message) -> String {
    let mut attributes = format!("role='{}'", message.role.as_str());
    if let Some(name) = &message.name {
        write!(attributes, " name='{}'", escape(name)).expect("strings take all");
    }
    if let Some(time) = message.created_at {
        write!(attributes, " date='{time}'").expect("strings take all");
    }
    let text = message.text();
    let mut body = escape(&text).into_owned();
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
    Some(format!("<{kind} uri='{}' />", escape(uri)))
}

/// Messages as elements, a line each, without those that have no text.
pub(crate) fn transcript(messages: &[Message]) -> String {
    let with_text = messages.iter().filter(|message| !message.text().trim().is_empty());
    with_text.map(element).collect::<Vec<_>>().join("\n")
}
