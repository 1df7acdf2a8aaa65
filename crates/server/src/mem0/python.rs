//! Values in Python's notation: mem0's client writes the filters of a deletion into the URL with `str()`, as in
//! `{'user_id': 'ada'}`.

use std::{iter::Peekable, str::Chars};

use serde_json::{Map, Number, Value};

/// How deep a value may be nested.
const MAX_DEPTH: usize = 32;

/// Reads a value of dictionaries, lists, tuples, strings, numbers, `True`, `False` and `None`. `None`: it is something else.
pub(super) fn read(text: &str) -> Option<Value> {
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
            assert_eq!(read(given), Some(expected), "{given}");
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
            assert_eq!(read(given), None);
        }
    }
}
