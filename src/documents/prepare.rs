//! The rules for what may be stored, the form in which it is, and the paths to the texts to index.

use serde_json::Value;

use super::operation::DocumentOptions;
use crate::{
    error::{Error, Result},
    ids::MAX_ID_BYTES,
    message::{ttl_micros, ttl_minutes},
};

/// The maximum size of a value as JSON, in bytes.
const MAX_VALUE_BYTES: usize = 1 << 20;
/// The maximum number of arrays and objects within one another. A parser of JSON stops at 128.
const MAX_DEPTH: usize = 100;
/// The maximum number of paths to the texts of a document.
const MAX_PATHS: usize = 32;
/// The maximum number of indexed texts of a document.
const MAX_TEXTS: usize = 1000;
/// The maximum number of bytes of the indexed texts of a document.
const MAX_TEXT_BYTES: usize = 4 << 20;
/// The longest path, in bytes.
const MAX_PATH_BYTES: usize = 512;

/// A document that may be stored.
pub(crate) struct PreparedDocument {
    /// The value as JSON.
    pub(crate) value: String,
    /// The texts to index.
    pub(crate) texts: Vec<String>,
    /// The vectors of the texts, if they are given.
    pub(crate) vectors: Vec<Vec<f32>>,
    /// The time to live in microseconds.
    pub(crate) ttl: Option<i64>,
}

/// Checks a document and finds its texts.
///
/// # Errors
/// [`Error::InvalidDocument`].
pub(crate) fn prepare(value: &Value, options: &DocumentOptions) -> Result<PreparedDocument> {
    check_value(value)?;
    let ttl = options.ttl_minutes.map(ttl_micros).transpose().map_err(Error::document)?;
    if options.index.len() > MAX_PATHS {
        return Err(Error::document(format!("{} paths to index, the maximum is {MAX_PATHS}", options.index.len())));
    }
    let mut texts = Vec::new();
    for path in &options.index {
        Path::parse(path)?.add_texts(value, &mut texts);
    }
    texts.retain(|text| !text.trim().is_empty());
    check_texts(&texts)?;
    check_vectors(&texts, &options.vectors)?;
    Ok(PreparedDocument { value: json(value)?, texts, vectors: options.vectors.clone(), ttl })
}

/// Checks that each text has a vector, if vectors are given. The store checks the vectors.
fn check_vectors(texts: &[String], vectors: &[Vec<f32>]) -> Result<()> {
    if vectors.is_empty() || vectors.len() == texts.len() {
        return Ok(());
    }
    let (texts, vectors) = (texts.len(), vectors.len());
    Err(Error::document(format!(
        "{vectors} vectors for {texts} indexed texts; give one for each text that is not blank, or none"
    )))
}

/// Checks a document of an export, with its indexed texts, their vectors and its time to live in microseconds: one that
/// a put would store.
///
/// # Errors
/// [`Error::InvalidDocument`].
pub(crate) fn check_imported(
    key: &str,
    value: &Value,
    texts: &[String],
    vectors: &[Vec<f32>],
    ttl: Option<i64>,
) -> Result<()> {
    check_key(key)?;
    check_vectors(texts, vectors)?;
    check_value(value)?;
    json(value)?;
    if texts.iter().any(|text| text.trim().is_empty()) {
        return Err(Error::document("an indexed text is blank"));
    }
    check_texts(texts)?;
    ttl.map(|ttl| ttl_micros(ttl_minutes(ttl))).transpose().map(drop).map_err(Error::document)
}

/// Checks a key: 1 to [`MAX_ID_BYTES`] bytes without control characters.
///
/// # Errors
/// [`Error::InvalidDocument`].
pub(crate) fn check_key(key: &str) -> Result<()> {
    if key.is_empty() {
        return Err(Error::document("the key is empty"));
    }
    if key.len() > MAX_ID_BYTES {
        return Err(Error::document(format!("the key has {} bytes, more than {MAX_ID_BYTES}", key.len())));
    }
    if key.chars().any(char::is_control) {
        return Err(Error::document(format!("the key {key:?} has a control character")));
    }
    Ok(())
}

fn check_value(value: &Value) -> Result<()> {
    if value.is_null() {
        return Err(Error::document("the value is null; delete the document instead"));
    }
    check_depth(value)
}

/// Checks how deep a value is nested, without recursion.
///
/// # Errors
/// [`Error::InvalidDocument`].
pub(crate) fn check_depth(value: &Value) -> Result<()> {
    let mut waiting = vec![(value, 0)];
    while let Some((value, depth)) = waiting.pop() {
        if depth > MAX_DEPTH {
            return Err(Error::document(format!("the value is nested deeper than {MAX_DEPTH} levels")));
        }
        match value {
            Value::Array(items) => waiting.extend(items.iter().map(|item| (item, depth + 1))),
            Value::Object(fields) => waiting.extend(fields.values().map(|field| (field, depth + 1))),
            _ => {}
        }
    }
    Ok(())
}

fn json(value: &Value) -> Result<String> {
    let value = value.to_string();
    if value.len() > MAX_VALUE_BYTES {
        return Err(Error::document(format!(
            "the value has {} bytes as JSON, the maximum is {MAX_VALUE_BYTES}; split it, or store a reference",
            value.len()
        )));
    }
    Ok(value)
}

fn check_texts(texts: &[String]) -> Result<()> {
    let bytes: usize = texts.iter().map(String::len).sum();
    if texts.len() > MAX_TEXTS || bytes > MAX_TEXT_BYTES {
        return Err(Error::document(format!(
            "the paths to index lead to {} texts of {bytes} bytes, the maximum is {MAX_TEXTS} texts of {MAX_TEXT_BYTES} \
             bytes; index fewer paths",
            texts.len()
        )));
    }
    Ok(())
}

/// A parsed path. The whole value is a path without steps.
struct Path(Vec<Step>);

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
    fn parse(text: &str) -> Result<Self> {
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

    fn add_texts(&self, value: &Value, texts: &mut Vec<String>) {
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
