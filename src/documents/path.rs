//! Paths into a value, to the texts to index.

use serde_json::Value;

use crate::error::{Error, Result};

/// The longest path, in bytes.
const MAX_PATH_BYTES: usize = 512;

/// A parsed path. The whole value is a path without steps.
pub(super) struct Path(Vec<Step>);

enum Step {
    /// A field of an object.
    Field(String),
    /// An item of an array; negative numbers count from the end.
    Item(i64),
    /// Each item of an array.
    Items,
    /// Each field of an object, or each item of an array.
    Each,
    /// Several fields of an object, each as a list of names.
    Fields(Vec<Vec<String>>),
}

impl Path {
    /// Parses a path.
    ///
    /// # Errors
    /// [`Error::InvalidDocument`].
    pub(super) fn parse(text: &str) -> Result<Self> {
        let fault = |reason: &str| Error::document(format!("{text:?} is not a path: {reason}"));
        match text {
            "$" => return Ok(Path(Vec::new())),
            "" => return Err(Error::document("a path is empty; write \"$\" for the whole value")),
            long if long.len() > MAX_PATH_BYTES => {
                return Err(Error::document(format!(
                    "a path has {} bytes, the maximum is {MAX_PATH_BYTES}",
                    long.len()
                )));
            }
            _ => {}
        }
        let (mut steps, mut rest) = (Vec::new(), text);
        loop {
            if let Some(fields) = rest.strip_prefix('{') {
                let fields = fields.strip_suffix('}').ok_or_else(|| fault("a brace is not closed at the end"))?;
                steps.push(Step::Fields(names(fields).ok_or_else(|| fault("a name between the braces is empty"))?));
                return Ok(Path(steps));
            }
            let end = rest.find(['.', '[']).unwrap_or(rest.len());
            let (name, after) = rest.split_at(end);
            match name {
                "*" => steps.push(Step::Each),
                "" if steps.is_empty() && after.starts_with('[') => {}
                "" => return Err(fault("a name is empty")),
                _ if name.contains(['{', '}', ']']) => {
                    return Err(fault("a bracket or brace stands within a name"));
                }
                "$" if steps.is_empty() => return Err(fault("nothing may follow \"$\"")),
                _ => steps.push(Step::Field(name.to_owned())),
            }
            rest = after;
            while let Some(index) = rest.strip_prefix('[') {
                let (index, after) = index.split_once(']').ok_or_else(|| fault("a bracket is not closed"))?;
                steps.push(match index {
                    "*" => Step::Items,
                    number => match number.parse() {
                        Ok(number) => Step::Item(number),
                        Err(_) => return Err(fault("between brackets stands neither a whole number nor \"*\"")),
                    },
                });
                rest = after;
            }
            match rest.strip_prefix('.') {
                Some(more) => rest = more,
                None if rest.is_empty() => return Ok(Path(steps)),
                None => return Err(fault("a name must follow \".\"")),
            }
        }
    }

    /// Adds the texts that the path leads to in `value`.
    pub(super) fn add_texts(&self, value: &Value, texts: &mut Vec<String>) {
        walk(&self.0, value, texts);
    }
}

fn names(fields: &str) -> Option<Vec<Vec<String>>> {
    let names = |field: &str| -> Option<Vec<String>> {
        field.trim().split('.').map(|name| (!name.is_empty()).then(|| name.to_owned())).collect()
    };
    fields.split(',').map(names).collect()
}

fn walk(steps: &[Step], value: &Value, texts: &mut Vec<String>) {
    let Some((step, rest)) = steps.split_first() else {
        match value {
            Value::Null => {}
            Value::String(text) => texts.push(text.clone()),
            other => texts.push(other.to_string()),
        }
        return;
    };
    match (step, value) {
        (Step::Field(name), Value::Object(fields)) => {
            if let Some(value) = fields.get(name) {
                walk(rest, value, texts);
            }
        }
        (Step::Item(number), Value::Array(items)) => {
            let from_end =
                || usize::try_from(number.unsigned_abs()).ok().and_then(|back| items.len().checked_sub(back));
            let at = if *number < 0 { from_end() } else { usize::try_from(*number).ok() };
            if let Some(value) = at.and_then(|at| items.get(at)) {
                walk(rest, value, texts);
            }
        }
        (Step::Items | Step::Each, Value::Array(items)) => items.iter().for_each(|value| walk(rest, value, texts)),
        (Step::Each, Value::Object(fields)) => fields.values().for_each(|value| walk(rest, value, texts)),
        (Step::Fields(fields), Value::Object(_)) => {
            for names in fields {
                if let Some(value) = names.iter().try_fold(value, |value, name| value.get(name)) {
                    walk(rest, value, texts);
                }
            }
        }
        _ => {}
    }
}
