//! Formats messages as XML for a language model. Every field is escaped, so that no text can close its element.

use std::{borrow::Cow, fmt::Write};

use super::chat_message::{ContentPart, Message};

/// Escapes a text for use inside an XML element. No text can close the element.
///
/// An XML parser returns the original text, except that NUL, U+FFFE and U+FFFF become U+FFFD. The function writes
/// entities for `&`, `<` and `>`, for control characters other than line feed and tab, and for marks that change the
/// writing direction, which could disguise a text. It does not escape quotes, so its result must not be used in an
/// attribute.
///
/// ```
/// assert_eq!(mnemon::escape_xml("</memory> isn't"), "&lt;/memory&gt; isn't");
/// ```
pub fn escape_xml(text: &str) -> Cow<'_, str> {
    escape(text, is_special)
}

/// Escapes a text for use as an attribute's value between single quotes, on one line.
fn escape_attribute(text: &str) -> Cow<'_, str> {
    escape(text, |c| is_special(c) || matches!(c, '"' | '\'' | '\n' | '\t'))
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
            c if special(c) => write!(escaped, "&#x{:x};", u32::from(c)).expect("writing to a string succeeds"),
            c => escaped.push(c),
        }
    }
    Cow::Owned(escaped)
}

/// Returns true for characters that are escaped both in text and in attributes.
fn is_special(c: char) -> bool {
    matches!(c, '&' | '<' | '>' | '\u{fffe}' | '\u{ffff}')
        || (c.is_control() && c != '\n' && c != '\t')
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Formats a message as one element, such as
/// `<message role='user' name='Ada' date='2024-05-01T09:30:00Z'>text</message>`. The date is rounded down to the second.
/// Text that is not the words of the role has the attribute `source`. A superseded message has the last attribute `superseded='true'`.
pub(crate) fn message_element(message: &Message, is_superseded: bool) -> String {
    let mut attributes = format!("role='{}'", message.role.as_str());
    if let Some(name) = &message.name {
        write!(attributes, " name='{}'", escape_attribute(name)).expect("writing to a string succeeds");
    }
    if let Some(time) = message.created_at {
        write!(attributes, " date='{}'", time.floor_to_second()).expect("writing to a string succeeds");
    }
    if let Some(source) = message.unusual_source() {
        write!(attributes, " source='{source}'").expect("writing to a string succeeds");
    }
    if is_superseded {
        attributes.push_str(" superseded='true'");
    }
    let text = message.text();
    let mut body = escape_xml(&text).into_owned();
    for part in &message.content {
        if let Some(media) = media_element(part) {
            body.push_str(&media);
        }
    }
    format!("<message {attributes}>{body}</message>")
}

/// Formats a media or file part as an empty element. Returns `None` for other parts.
pub(crate) fn media_element(part: &ContentPart) -> Option<String> {
    let (kind, reference) = part.media()?;
    Some(format!("<{kind} uri='{}' />", escape_attribute(&reference.uri)))
}

/// Formats messages as elements, one per line. Messages without text are left out.
pub(crate) fn conversation_xml(messages: &[Message]) -> String {
    let with_text = messages.iter().filter(|message| !message.text().trim().is_empty());
    with_text.map(|message| message_element(message, false)).collect::<Vec<_>>().join("\n")
}
