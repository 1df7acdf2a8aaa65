//! Secrets in what is to be stored: keys, tokens, passwords beside their names or in addresses, and numbers of cards are
//! replaced by a mark, such as `[key removed]`. What they were is kept nowhere; their kinds can be counted.
//!
//! Two programs use this: the server, for every request and every answer of a language model, and the command `ingest`.
//! `forms` has the forms of secrets, `cards` the numbers of cards, `reading` decodes what hides them. A password in a
//! sentence has no form and is not found.
//!
//! Ids of users, sessions and the like are never replaced: a mark for the ids of two users would make one of them.

#![forbid(unsafe_code)]

mod cards;
mod forms;
mod reading;
#[cfg(test)]
mod tests;

use std::{ops::Range, sync::OnceLock};

use regex::{Regex, RegexSet};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Map, Value};

use self::{
    cards::{cards, is_card},
    forms::{CARD, Check, Form, forms},
    reading::for_each_reading,
};

/// Fields of a request, a message and their parts that say what they are about.
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

/// Finds and replaces secrets.
#[derive(Debug)]
pub struct Secrets {
    /// Finds which forms a text has, in one pass.
    any: RegexSet,
    forms: Vec<Compiled>,
    /// The names of fields whose texts are secrets, with their kinds and checks.
    named: Vec<(&'static str, Regex, Check)>,
}

/// A form whose expression is compiled when a text has it.
#[derive(Debug)]
struct Compiled {
    form: Form,
    regex: OnceLock<Regex>,
}

/// A secret in a text.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Found {
    range: Range<usize>,
    kind: &'static str,
}

impl Default for Secrets {
    fn default() -> Self {
        Self::new()
    }
}

impl Secrets {
    /// Compiles the forms, which takes some milliseconds.
    pub fn new() -> Self {
        let forms = forms();
        let any = RegexSet::new(forms.iter().map(|form| &form.pattern)).expect("they are regular expressions");
        let forms = forms.into_iter().map(|form| Compiled { form, regex: OnceLock::new() }).collect();
        let named =
            forms::named().into_iter().map(|(kind, pattern, check)| (kind, compiled(&pattern), check)).collect();
        Secrets { any, forms, named }
    }

    /// Replaces the secrets in a request, or in a message as JSON, but in what says what it is about. Returns the kind of each.
    pub fn replace(&self, request: &mut Value) -> Vec<&'static str> {
        let mut kinds = Vec::new();
        self.replace_in_part(request, &mut kinds);
        kinds
    }

    /// Same as [`Secrets::replace`], for a message that is not JSON yet.
    ///
    /// # Errors
    /// Its JSON is not that of such a message.
    pub fn replace_in_message<M: Serialize + DeserializeOwned>(
        &self,
        message: &mut M,
    ) -> serde_json::Result<Vec<&'static str>> {
        let mut json = serde_json::to_value(&*message)?;
        let kinds = self.replace(&mut json);
        if !kinds.is_empty() {
            *message = serde_json::from_value(json)?;
        }
        Ok(kinds)
    }

    /// Replaces the secrets in a text. Returns the kind of each.
    pub fn replace_in_text(&self, text: &mut String) -> Vec<&'static str> {
        let mut kinds = Vec::new();
        self.replace_text(text, &mut kinds);
        kinds
    }

    fn replace_in_part(&self, part: &mut Value, kinds: &mut Vec<&'static str>) {
        match part {
            Value::Object(fields) => {
                self.replace_in_names(fields, kinds);
                for (name, value) in fields.iter_mut().filter(|(name, _)| !NAMES.contains(&name.as_str())) {
                    match (PARTS.contains(&name.as_str()), &value) {
                        (true, _) => self.replace_in_part(value, kinds),
                        // A number of the request itself, such as a limit.
                        (false, Value::Number(_)) => {}
                        (false, _) => self.replace_in(value, kinds),
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
            Value::Number(number) => {
                let digits = number.to_string();
                if is_card(digits.strip_suffix(".0").unwrap_or(&digits)) {
                    *value = mark(CARD).into();
                    kinds.push(CARD);
                }
            }
            Value::Array(values) => {
                values.iter_mut().for_each(|value| self.replace_in(value, kinds));
                self.replace_across(values, kinds);
            }
            Value::Object(fields) => {
                self.replace_in_names(fields, kinds);
                for (name, value) in fields {
                    self.replace_in(value, kinds);
                    self.replace_named(name, value, kinds);
                }
            }
            Value::Null | Value::Bool(_) => {}
        }
    }

    /// Replaces the secrets in the names of fields. Two names that become one are told apart by a number.
    fn replace_in_names(&self, fields: &mut Map<String, Value>, kinds: &mut Vec<&'static str>) {
        let found: Vec<String> = fields.keys().filter(|name| !self.find(name).is_empty()).cloned().collect();
        for name in found {
            let value = fields.remove(&name).expect("it was there");
            let mut replaced = name;
            self.replace_text(&mut replaced, kinds);
            let numbered = (2..).map(|number| format!("{replaced} {number}"));
            let free = std::iter::once(replaced.clone()).chain(numbered).find(|name| !fields.contains_key(name));
            fields.insert(free.expect("there are enough numbers"), value);
        }
    }

    /// Replaces a text whose field is named as a secret. What is a word stays.
    fn replace_named(&self, name: &str, value: &mut Value, kinds: &mut Vec<&'static str>) {
        let Value::String(text) = value else { return };
        let Some((kind, _, check)) = self.named.iter().find(|(_, names, _)| names.is_match(name)) else { return };
        // `Authorization` has the kind of authorization before it.
        let secret = text.rfind(' ').map_or(0, |space| space + 1);
        let is_scheme = text[..secret].chars().all(|c| c.is_ascii_alphanumeric() || "- ".contains(c));
        if is_scheme && check(&text[secret..]).is_some() {
            text.replace_range(secret.., &mark(kind));
            kinds.push(kind);
        }
    }

    /// Replaces the secrets that begin in one part of a content and end in another.
    fn replace_across(&self, parts: &mut [Value], kinds: &mut Vec<&'static str>) {
        let texts = parts.iter_mut().filter_map(|part| match part.get_mut("text") {
            Some(Value::String(text)) => Some(text),
            _ => None,
        });
        let mut texts: Vec<&mut String> = texts.collect();
        if texts.len() < 2 {
            return;
        }
        let (mut whole, mut places) = (String::new(), Vec::new());
        for text in &texts {
            places.push(whole.len()..whole.len() + text.len());
            whole.push_str(text);
        }
        // From the end, so that the places before it stay.
        for Found { range, kind } in self.find(&whole).into_iter().rev() {
            for (text, place) in texts.iter_mut().zip(&places).rev() {
                let there = range.start.max(place.start)..range.end.min(place.end);
                if there.start < there.end {
                    let mark = if there.start == range.start { mark(kind) } else { String::new() };
                    text.replace_range(there.start - place.start..there.end - place.start, &mark);
                }
            }
            kinds.push(kind);
        }
    }

    fn replace_text(&self, text: &mut String, kinds: &mut Vec<&'static str>) {
        let found = self.find(text);
        if found.is_empty() {
            return;
        }
        let (mut replaced, mut end) = (String::with_capacity(text.len()), 0);
        for Found { range, kind } in &found {
            replaced.push_str(&text[end..range.start]);
            replaced.push_str(&mark(kind));
            end = range.end;
        }
        replaced.push_str(&text[end..]);
        // A mark in the place of a number is no JSON, so such a text is written anew.
        if let Some(mut json) = container(text) {
            let mut others = Vec::new();
            self.replace_in(&mut json, &mut others);
            if container(&replaced).as_ref() != Some(&json) {
                *text = json.to_string();
                kinds.extend(others);
                return;
            }
        }
        *text = replaced;
        kinds.extend(found.iter().map(|found| found.kind));
    }

    /// Finds the secrets in a text, in their order and apart from each other.
    fn find(&self, text: &str) -> Vec<Found> {
        let mut found = Vec::new();
        self.find_as_written(text, |range, kind| found.push(Found { range, kind }));
        for_each_reading(text, |reading| {
            self.find_as_written(&reading.text, |range, kind| {
                found.push(Found { range: reading.original(range), kind });
            });
        });
        // Of two at one place the longer one says what it is.
        found.sort_by_key(|found| (found.range.start, std::cmp::Reverse(found.range.end)));
        let mut apart: Vec<Found> = Vec::new();
        for next in found {
            match apart.last_mut().filter(|last| next.range.start < last.range.end) {
                Some(last) => last.range.end = last.range.end.max(next.range.end),
                None => apart.push(next),
            }
        }
        apart
    }

    fn find_as_written(&self, text: &str, mut found: impl FnMut(Range<usize>, &'static str)) {
        for at in &self.any.matches(text) {
            let Compiled { form, regex } = &self.forms[at];
            let regex = regex.get_or_init(|| compiled(&form.pattern));
            for captures in regex.captures_iter(text) {
                let secret = captures.get(1).or(captures.get(0)).expect("it was found");
                if let Some(length) = (form.secret)(secret.as_str()) {
                    found(secret.start()..secret.start() + length, form.kind);
                }
            }
        }
        cards(text, |range| found(range, CARD));
    }
}

/// Returns the object or array that a text is.
fn container(text: &str) -> Option<Value> {
    text.trim_start().starts_with(['{', '[']).then(|| serde_json::from_str(text).ok()).flatten()
}

fn compiled(pattern: &str) -> Regex {
    Regex::new(pattern).expect("it is a regular expression")
}

fn mark(kind: &str) -> String {
    format!("[{kind} removed]")
}
