//! Secrets in requests: keys, tokens, passwords in addresses and card numbers are replaced by a mark before anything is
//! stored, searched, noted in the journal or given to a model. Which kinds were replaced is counted; what they were is
//! kept nowhere.
//!
//! Only forms that their issuers document are known: a password in a sentence looks like any other word. What says whose memory
//! a request is about is never replaced: a mark for the ids of two users would make one of them.

use std::ops::Range;

use regex::{Regex, RegexSet};
use serde_json::Value;

/// A kind of secret, and its form. A group of the form is the secret, if there is one.
const FORMS: [(&str, &str); 17] = [
    ("private-key", r"-----BEGIN [A-Z ]*PRIVATE KEY-----(?s:.*?)(?:-----END [A-Z ]*PRIVATE KEY-----|\z)"),
    (KEY, r"(?-u:\b)sk-[A-Za-z0-9_-]{20,}"),
    (KEY, r"(?-u:\b)[rs]k_(?:live|test)_[A-Za-z0-9]{16,}"),
    (KEY, r"(?-u:\b)(?:AKIA|ASIA)[A-Z0-9]{16}(?-u:\b)"),
    (KEY, r"(?-u:\b)AIza[A-Za-z0-9_-]{35}"),
    ("token", r"(?-u:\b)gh[pousr]_[A-Za-z0-9]{36,}"),
    ("token", r"(?-u:\b)github_pat_[A-Za-z0-9_]{22,}"),
    ("token", r"(?-u:\b)glpat-[A-Za-z0-9_-]{20,}"),
    ("token", r"(?-u:\b)xox[abeoprs]-[A-Za-z0-9-]{10,}"),
    ("token", r"(?-u:\b)hf_[A-Za-z0-9]{30,}"),
    ("token", r"(?-u:\b)npm_[A-Za-z0-9]{36}"),
    ("token", r"(?-u:\b)pypi-[A-Za-z0-9_-]{50,}"),
    ("token", r"(?-u:\b)mnemon_[A-Za-z0-9_-]{43}"),
    ("token", r"(?-u:\b)eyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}"),
    ("token", r"(?i-u:\bauthorization:\s*(?:bearer|basic|token))[ \t]+([A-Za-z0-9._~+/=-]{16,})"),
    ("password", r"(?-u:\b)[A-Za-z][A-Za-z0-9+.-]*://[^\s/:@]*:([^\s/@]+)@"),
    (CARD, r"(?-u:\b)[3-6][0-9](?:[ -]?[0-9]){11,17}(?-u:\b)"),
];
/// Fields of a request and of its parts that say what it is about.
const NAMES: [&str; 15] = [
    "namespace",
    "namespaces",
    "under",
    "prefix",
    "session",
    "key",
    "keys",
    "id",
    "ids",
    "before",
    "user_id",
    "agent_id",
    "app_id",
    "run_id",
    "memory_id",
];
/// Fields with parts of a request, which have such fields, too.
const PARTS: [&str; 10] =
    ["operations", "messages", "prompt", "memories", "params", "arguments", "filters", "AND", "OR", "NOT"];
/// Kinds of which not all that has the form is one: a key has a digit, and a card's number a check digit.
const KEY: &str = "key";
const CARD: &str = "card";

/// Finds and replaces secrets.
pub(crate) struct Secrets {
    /// Finds texts that have one, in one pass.
    any: RegexSet,
    forms: Vec<(&'static str, Regex)>,
}

impl Secrets {
    pub(crate) fn new() -> Self {
        let compiled =
            |(kind, form): (&'static str, &str)| (kind, Regex::new(form).expect("it is a regular expression"));
        let any = RegexSet::new(FORMS.map(|(_, form)| form)).expect("they are regular expressions");
        Secrets { any, forms: FORMS.map(compiled).into() }
    }

    /// Replaces the secrets in all texts of a request. Returns the kind of each.
    pub(crate) fn replace(&self, request: &mut Value) -> Vec<&'static str> {
        let mut kinds = Vec::new();
        self.replace_in_part(request, &mut kinds);
        kinds
    }

    fn replace_in_part(&self, part: &mut Value, kinds: &mut Vec<&'static str>) {
        match part {
            Value::Object(fields) => {
                for (name, value) in fields.iter_mut().filter(|(name, _)| !NAMES.contains(&name.as_str())) {
                    match PARTS.contains(&name.as_str()) {
                        true => self.replace_in_part(value, kinds),
                        false => self.replace_in(value, kinds),
                    }
                }
            }
            Value::Array(parts) => parts.iter_mut().for_each(|part| self.replace_in_part(part, kinds)),
            text => self.replace_in(text, kinds),
        }
    }

    fn replace_in(&self, value: &mut Value, kinds: &mut Vec<&'static str>) {
        match value {
            Value::String(text) => self.replace_text(text, kinds),
            Value::Array(values) => values.iter_mut().for_each(|value| self.replace_in(value, kinds)),
            Value::Object(fields) => fields.values_mut().for_each(|value| self.replace_in(value, kinds)),
            _ => {}
        }
    }

    fn replace_text(&self, text: &mut String, kinds: &mut Vec<&'static str>) {
        for form in &self.any.matches(text) {
            let (kind, form) = &self.forms[form];
            let ranges: Vec<Range<usize>> = form
                .captures_iter(text)
                .filter_map(|found| found.get(1).or(found.get(0)))
                .map(|found| found.range())
                .filter(|range| match (*kind, &text[range.clone()]) {
                    (KEY, found) => found.contains(|c: char| c.is_ascii_digit()),
                    (CARD, found) => is_card(found),
                    _ => true,
                })
                .collect();
            for range in ranges.into_iter().rev() {
                text.replace_range(range, &format!("[{kind} removed]"));
                kinds.push(kind);
            }
        }
    }
}

/// Returns true for the number of a card: its length is one of its issuer's, and its check digit is right (ISO/IEC 7812).
fn is_card(text: &str) -> bool {
    let digits: Vec<u32> = text.chars().filter_map(|c| c.to_digit(10)).collect();
    let first = |count: usize| digits[..count].iter().fold(0, |number, digit| 10 * number + digit);
    let lengths: &[usize] = match (first(2), first(4)) {
        (34 | 37, _) => &[15],
        (40..=49, _) => &[13, 16, 19],
        (51..=55 | 65, _) | (_, 2221..=2720 | 6011) => &[16],
        _ => &[],
    };
    let sum: u32 = digits
        .iter()
        .rev()
        .enumerate()
        .map(|(at, digit)| if at % 2 == 0 { *digit } else { 2 * digit / 10 + 2 * digit % 10 })
        .sum();
    lengths.contains(&digits.len()) && sum.is_multiple_of(10)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn known_forms_are_replaced_wherever_they_stand_and_nothing_else_is() {
        let secrets = Secrets::new();
        // In two parts, so that no scanner of sources takes them for real ones.
        let made = |kind: &str, begin: &str, rest: &str, count: usize| {
            (kind.to_owned(), format!("{begin}{}", rest.repeat(count)))
        };
        for (kind, secret) in [
            made("key", "sk-", "aB3d", 12),
            made("key", "sk-ant-api03-", "x9_Y", 20),
            made("key", "sk_live_", "4eC3", 6),
            made("key", "AKIA", "AB1D", 4),
            made("key", "AIza", "aB3d5", 7),
            made("token", "ghp_", "a1B2", 9),
            made("token", "github_pat_", "11AA_", 6),
            made("token", "glpat-", "x1y2", 5),
            made("token", "xoxb-", "123-", 6),
            made("token", "hf_", "aBcD", 9),
            made("token", "npm_", "aB1c", 9),
            made("token", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NSJ9.", "sIg_", 5),
            made("card", "4111", " 1111", 3),
            made("card", "3782-822463", "-10005", 1),
            made("private-key", "-----BEGIN RSA PRIVATE KEY-----\n", "MIIE\n", 3),
        ] {
            for text in [secret.clone(), format!("line\n{secret}, and more"), format!("({secret})")] {
                let mut value = json!({ "content": [{ "text": text }], "n": 7 });
                assert_eq!(secrets.replace(&mut value), [&*kind], "{text}");
                let left = value["content"][0]["text"].as_str().unwrap().to_owned();
                assert!(left.contains(&format!("[{kind} removed]")) && !left.contains(&secret[4..]), "{left}");
                assert!(secrets.replace(&mut value).is_empty(), "{left}");
            }
        }
        let mut addresses = json!("postgres://ada:hunter2@db/x and Authorization: Bearer abcdefghijklmnop1234");
        assert_eq!(secrets.replace(&mut addresses), ["token", "password"]);
        assert_eq!(addresses, "postgres://ada:[password removed]@db/x and Authorization: Bearer [token removed]");
        for text in [
            "My sister's bakery opens in June.",
            "The ticket sk-12 and the branch sk-learn-models-for-the-harbour are open.",
            "Call 4111 1111 1111 1112, at 1732612345678, order 5500000000000000000000.",
            "ssh://git@host:22/x, https://example.org:8080/@ada",
            "AKIAABCD",
        ] {
            let mut value = json!(text);
            assert!(secrets.replace(&mut value).is_empty(), "{value}");
            assert_eq!(value, text);
        }
    }
}
