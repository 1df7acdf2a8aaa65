//! The text of a namespace's label, in which a slash is escaped.
//!
//! A slash is written `%2F`. A label that already contains `%2F`, or `%25…2F` with any number of `25`, is written with
//! one `25` more. Everything else stands for itself, a lone `%` too. So each text without slashes is the text of
//! exactly one label, and each label has exactly one text.

use std::borrow::Cow;

/// Returns the text of a label.
pub(super) fn escape(label: &str) -> Cow<'_, str> {
    if !label.contains(['/', '%']) {
        return Cow::Borrowed(label);
    }
    let mut text = String::with_capacity(label.len() + 8);
    let mut rest = label;
    while let Some(at) = rest.find(['/', '%']) {
        text.push_str(&rest[..at]);
        let special = &rest[at..];
        text.push_str(match (special.starts_with('/'), depth(special)) {
            (true, _) => "%2F",
            (false, None) => "%",
            (false, Some(_)) => "%25",
        });
        rest = &special[1..];
    }
    Cow::Owned(text + rest)
}

/// Returns the label of a text without slashes.
pub(super) fn unescape(text: &str) -> Cow<'_, str> {
    if !text.contains('%') {
        return Cow::Borrowed(text);
    }
    let mut label = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('%') {
        label.push_str(&rest[..at]);
        let special = &rest[at..];
        let (shown, length) = match depth(special) {
            None => ("%", 1),
            Some(0) => ("/", 3),
            Some(_) => ("%", 3),
        };
        label.push_str(shown);
        rest = &special[length..];
    }
    Cow::Owned(label + rest)
}

/// The number of `25` between a `%` at the beginning of the text and a `2F` that follows; `None` if there is no `2F`.
fn depth(text: &str) -> Option<usize> {
    let mut rest = text.strip_prefix('%')?;
    let mut depth = 0;
    while let Some(shorter) = rest.strip_prefix("25") {
        (rest, depth) = (shorter, depth + 1);
    }
    rest.starts_with("2F").then_some(depth)
}
