//! The parts of requests as mem0's clients write them: the fields of bodies, times, numbered pages, and values in Python's
//! notation.
//!
//! A field of a body that is not known is refused, because it could narrow what the request is about. Each route names the
//! fields that mem0's client sends for its platform's sake, and that make no difference here.

use std::{iter::Peekable, str::Chars};

use mnemon::{Timestamp, message::LocalTime};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Map, Number, Value, json};

use crate::problem::Problem;

/// How deep a value in Python's notation may be nested.
const MAX_DEPTH: usize = 32;

/// Reads the fields of a body without the ignored ones.
pub(super) fn read_body<T: DeserializeOwned>(mut given: Map<String, Value>, ignored: &[&str]) -> Result<T, Problem> {
    given.retain(|name, _| !ignored.contains(&name.as_str()));
    serde_json::from_value(Value::Object(given)).map_err(|error| Problem::unprocessable(error.to_string()))
}

/// Reads a time: seconds since 1970; RFC 3339, which is UTC if it has no zone; or a date, which is its first moment.
pub(super) fn read_time(value: &Value) -> Result<Timestamp, Problem> {
    read_local_time(value).map(LocalTime::time)
}

/// Reads a time with the offset of its clock: UTC where it has none.
pub(super) fn read_local_time(value: &Value) -> Result<LocalTime, Problem> {
    let time = match value {
        Value::Number(seconds) => {
            seconds.as_f64().and_then(|seconds| Timestamp::from_micros((seconds * 1e6) as i64)).map(LocalTime::from)
        }
        Value::String(text) => {
            let text = text.trim().replacen(' ', "T", 1);
            text.parse().or_else(|_| format!("{text}Z").parse()).ok()
        }
        _ => None,
    };
    time.ok_or_else(|| {
        Problem::bad_request(format!(
            "{value} is no time; give \"2024-05-01T09:30:00Z\", \"2024-05-01\" or seconds since 1970"
        ))
    })
}

/// The microseconds of a day.
const DAY: i64 = 86_400_000_000;

/// Reads the last day of a memory, such as "2030-12-31", in UTC. Returns its end, or `None` for null.
pub(super) fn read_expiration_date(value: &Value) -> Result<Option<Timestamp>, Problem> {
    let end = match value {
        Value::Null => return Ok(None),
        Value::String(text) if text.len() == "2030-12-31".len() => text.parse::<Timestamp>().ok(),
        _ => None,
    };
    let end = end.and_then(|day| Timestamp::from_micros(day.as_micros() + DAY));
    let invalid = || Problem::bad_request(format!("expiration_date is {value}; give a date such as \"2030-12-31\""));
    end.map(Some).ok_or_else(invalid)
}

/// Returns the last day of a memory that expires at this time.
pub(super) fn expiration_date(expires_at: Timestamp) -> String {
    let last = Timestamp::from_micros(expires_at.as_micros() - 1).unwrap_or(expires_at);
    last.to_string().split('T').next().unwrap_or_default().to_owned()
}

#[derive(Deserialize)]
pub(super) struct PageQuery {
    page: Option<usize>,
    page_size: Option<usize>,
}

/// A page of a list. Pages are counted from 1.
#[derive(Clone, Copy)]
pub(super) struct Page {
    number: usize,
    size: usize,
}

impl PageQuery {
    pub(super) fn page(&self, size: usize, max_size: usize) -> Result<Page, Problem> {
        let page = Page { number: self.page.unwrap_or(1), size: self.page_size.unwrap_or(size) };
        match page.number >= 1 && (1..=max_size).contains(&page.size) {
            true => Ok(page),
            false => {
                Err(Problem::bad_request(format!("pages are counted from 1, and their page_size is 1 to {max_size}")))
            }
        }
    }
}

impl Page {
    fn first(self) -> usize {
        (self.number - 1).saturating_mul(self.size)
    }

    /// Returns true if the item at this position of the list is on the page.
    pub(super) fn has(self, position: usize) -> bool {
        position >= self.first() && position - self.first() < self.size
    }

    /// Returns the items of the page.
    pub(super) fn of<T>(self, items: Vec<T>) -> impl Iterator<Item = T> {
        items.into_iter().skip(self.first()).take(self.size)
    }

    /// Returns the answer with a page of a list of `count` items. The links are relative, because the server need not know
    /// its own name.
    pub(super) fn answer(self, path: &str, count: usize, results: Vec<Value>) -> Value {
        let link = |number: usize| format!("{path}?page={number}&page_size={}", self.size);
        json!({
            "count": count,
            "next": (self.first().saturating_add(self.size) < count).then(|| link(self.number + 1)),
            "previous": (self.number > 1).then(|| link(self.number - 1)),
            "results": results,
        })
    }
}

/// Reads a value in Python's notation: dictionaries, lists, tuples, strings, numbers, `True`, `False` and `None`. Returns
/// `None` for anything else.
pub(super) fn read_python(text: &str) -> Option<Value> {
    let mut reader = Reader { rest: text.chars().peekable() };
    let value = reader.value(MAX_DEPTH)?;
    reader.skip_space();
    reader.rest.next().is_none().then_some(value)
}

struct Reader<'a> {
    rest: Peekable<Chars<'a>>,
}

impl Reader<'_> {
    fn skip_space(&mut self) {
        while self.rest.next_if(|c| c.is_whitespace()).is_some() {}
    }

    fn take(&mut self, wanted: char) -> bool {
        self.skip_space();
        self.rest.next_if_eq(&wanted).is_some()
    }

    fn value(&mut self, depth: usize) -> Option<Value> {
        let depth = depth.checked_sub(1)?;
        self.skip_space();
        match *self.rest.peek()? {
            '{' => {
                self.rest.next();
                let pairs = self.until('}', |reader| {
                    let key = reader.string()?;
                    reader.take(':').then_some(())?;
                    Some((key, reader.value(depth)?))
                })?;
                Some(Value::Object(pairs.into_iter().collect::<Map<_, _>>()))
            }
            '[' => {
                self.rest.next();
                self.until(']', |reader| reader.value(depth)).map(Value::Array)
            }
            '(' => {
                self.rest.next();
                self.until(')', |reader| reader.value(depth)).map(Value::Array)
            }
            '\'' | '"' => self.string().map(Value::String),
            _ => self.word(),
        }
    }

    /// Reads items that are separated by commas.
    fn until<T>(&mut self, end: char, mut item: impl FnMut(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let mut items = Vec::new();
        while !self.take(end) {
            if !items.is_empty() {
                self.take(',').then_some(())?;
                if self.take(end) {
                    break;
                }
            }
            items.push(item(self)?);
        }
        Some(items)
    }

    fn string(&mut self) -> Option<String> {
        self.skip_space();
        let quote = self.rest.next_if(|c| matches!(c, '\'' | '"'))?;
        let mut text = String::new();
        loop {
            match self.rest.next()? {
                c if c == quote => return Some(text),
                '\\' => text.push(self.escaped()?),
                c => text.push(c),
            }
        }
    }

    fn escaped(&mut self) -> Option<char> {
        let digits = match self.rest.next()? {
            'n' => return Some('\n'),
            'r' => return Some('\r'),
            't' => return Some('\t'),
            c @ ('\\' | '\'' | '"') => return Some(c),
            'x' => 2,
            'u' => 4,
            'U' => 8,
            _ => return None,
        };
        let code: String = self.rest.by_ref().take(digits).collect();
        char::from_u32(u32::from_str_radix(&code, 16).ok().filter(|_| code.len() == digits)?)
    }

    fn word(&mut self) -> Option<Value> {
        let mut word = String::new();
        while let Some(c) = self.rest.next_if(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '+' | '-')) {
            word.push(c);
        }
        match word.as_str() {
            "True" => Some(true.into()),
            "False" => Some(false.into()),
            "None" => Some(Value::Null),
            // `nan` and `inf` are no numbers of JSON.
            _ if word.contains(|c: char| c.is_ascii_alphabetic() && c != 'e') => None,
            _ => word
                .parse::<i64>()
                .map(Number::from)
                .ok()
                .or_else(|| Number::from_f64(word.parse().ok()?))
                .map(Value::Number),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn all_forms_of_times_are_read() {
        for (given, expected) in [
            (json!(1714555800), "2024-05-01T09:30:00Z"),
            (json!(1714555800.5), "2024-05-01T09:30:00.5Z"),
            (json!("2024-05-01T09:30:00Z"), "2024-05-01T09:30:00Z"),
            (json!("2024-05-01T02:30:00-07:00"), "2024-05-01T09:30:00Z"),
            (json!("2024-05-01 09:30:00"), "2024-05-01T09:30:00Z"),
            (json!("2024-05-01"), "2024-05-01T00:00:00Z"),
        ] {
            assert_eq!(read_time(&given).unwrap().to_string(), expected, "{given}");
        }
        for given in [json!("yesterday"), json!(null), json!([1]), json!("2024-13-01")] {
            assert!(read_time(&given).is_err(), "{given}");
        }
    }

    #[test]
    fn a_memory_expires_at_the_end_of_its_last_day() {
        let end = read_expiration_date(&json!("2030-12-31")).unwrap().unwrap();
        assert_eq!(end.to_string(), "2031-01-01T00:00:00Z");
        assert_eq!(expiration_date(end), "2030-12-31");
        assert_eq!(expiration_date("2030-12-31T00:00:01Z".parse().unwrap()), "2030-12-31");
        assert_eq!(read_expiration_date(&json!(null)).unwrap(), None);
        for given in [json!("2030-12-31T00:00:00Z"), json!("soon"), json!(1), json!("9999-12-31"), json!("2030-13-01")]
        {
            assert!(read_expiration_date(&given).is_err(), "{given}");
        }
    }

    #[test]
    fn literals_of_python_are_read() {
        for (given, expected) in [
            ("{'user_id': 'ada'}", json!({ "user_id": "ada" })),
            (
                r#"{'AND': [{'user_id': "O'Neil"}, {'n': {'gte': 1.5}}]}"#,
                json!({ "AND": [{ "user_id": "O'Neil" }, { "n": { "gte": 1.5 } }] }),
            ),
            (r"['\x41\u00e9\n\'', -3, 1e3, True, False, None]", json!(["Aé\n'", -3, 1000.0, true, false, null])),
            ("()", json!([])),
            ("('a',)", json!(["a"])),
            (" { } ", json!({})),
        ] {
            assert_eq!(read_python(given), Some(expected), "{given}");
        }
        let deep = "[".repeat(100_000);
        for given in [
            "",
            "{",
            "{'a'}",
            "{'a': b}",
            "{'a': 'b'",
            "{'a': 'b'} x",
            "['a' 'b']",
            "nan",
            r"'\q'",
            "{1: 2}",
            deep.as_str(),
        ] {
            assert_eq!(read_python(given), None);
        }
    }
}
