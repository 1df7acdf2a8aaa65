//! The beginning of a file, from which its format is found out.

use serde_json::Value;

/// The most values that are looked at.
const VALUES: usize = 20;

/// The first bytes of a file.
pub(super) struct Sample<'s> {
    pub(super) head: &'s [u8],
    /// The first values of a file of JSON: its lines, the elements of its list, or the value alone. A last one that is cut
    /// off has what is there of it.
    pub(super) values: Vec<Value>,
}

impl<'s> Sample<'s> {
    pub(super) fn new(head: &'s [u8]) -> Self {
        let text = String::from_utf8_lossy(head);
        let text = text.trim_ascii();
        let mut values: Vec<Value> =
            text.lines().take(VALUES).filter_map(|line| serde_json::from_str(line).ok()).collect();
        values.retain(Value::is_object);
        if values.is_empty() {
            values = match closed(text) {
                Some(Value::Array(values)) => values.into_iter().take(VALUES).collect(),
                Some(value @ Value::Object(_)) => vec![value],
                _ => Vec::new(),
            };
        }
        Sample { head, values }
    }

    /// Returns the first line that is not blank.
    pub(super) fn first_line(&self) -> &str {
        let mut lines = self.head.split(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty());
        lines.next().and_then(|line| std::str::from_utf8(line).ok()).unwrap_or_default()
    }
}

/// Parses the first value of a text. Of one that is cut off, everything up to the last whole value in it is returned.
fn closed(text: &str) -> Option<Value> {
    let (mut open, mut is_text, mut is_escaped) = (Vec::new(), false, false);
    // The last place where the open lists and objects can be closed, and what closes them.
    let mut whole = (0, Vec::new());
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_text => is_escaped = true,
            b'"' => is_text = !is_text,
            _ if is_text => {}
            b'{' | b'[' => {
                open.push(if byte == b'{' { b'}' } else { b']' });
                whole = (at + 1, open.clone());
            }
            b'}' | b']' => {
                open.pop();
                whole = (at + 1, open.clone());
                if open.is_empty() {
                    break;
                }
            }
            b',' => whole = (at, open.clone()),
            _ => {}
        }
    }
    let (end, closing) = whole;
    let closing: String = closing.into_iter().rev().map(char::from).collect();
    serde_json::from_str(&format!("{}{closing}", &text[..end])).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::closed;

    #[test]
    fn a_value_that_is_cut_off_has_what_is_there_of_it() {
        let text = r#"{"a": [1, {"b": "x]\"", "c": -1.5e3}], "d": {"e": tr"#;
        for (end, expected) in [
            (1, json!({})),
            (7, json!({"a": []})),
            (9, json!({"a": [1]})),
            (25, json!({"a": [1, {"b": "x]\""}]})),
            (40, json!({"a": [1, {"b": "x]\"", "c": -1500.0}]})),
            (text.len(), json!({"a": [1, {"b": "x]\"", "c": -1500.0}], "d": {}})),
        ] {
            assert_eq!(closed(&text[..end]), Some(expected), "{end}");
        }
        assert_eq!(closed("x"), None);
    }
}
