//! Paths into a JSON value, such as `samples[].turns[].text`.
//!
//! A name leads to a field of an object, `[]` to every element of a list or every value of an object. Two paths that
//! begin alike lead through the same elements there: for a turn of `samples[].turns[].text`, the path `samples[].id` is
//! the id of the sample that has the turn.

use std::{fmt, str::FromStr};

use anyhow::{bail, ensure};
use serde::{Deserialize, Deserializer, de};
use serde_json::Value;

#[derive(Clone, Debug, PartialEq)]
pub(super) struct JsonPath(Vec<Step>);

#[derive(Clone, Debug, PartialEq)]
enum Step {
    Field(String),
    Each,
}

/// An element that a path leads to.
pub(super) struct Item<'v> {
    /// The values on the way to it: the root, then the value after each step.
    values: Vec<&'v Value>,
    /// The path to it, with numbers instead of `[]`.
    pub(super) position: String,
    /// The position in the root, if the root is a list and the path begins with `[]`.
    pub(super) line: Option<usize>,
}

impl FromStr for JsonPath {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        let mut steps = Vec::new();
        for (at, part) in text.split('.').enumerate() {
            let name = part.trim_end_matches("[]");
            ensure!(
                !name.contains(['[', ']']) && (!name.is_empty() || (at == 0 && !part.is_empty())),
                "{text:?} is not a path such as \"samples[].turns[].text\": names joined by dots, with [] after a list"
            );
            steps.extend((!name.is_empty()).then(|| Step::Field(name.to_owned())));
            steps.extend((0..(part.len() - name.len()) / 2).map(|_| Step::Each));
        }
        Ok(JsonPath(steps))
    }
}

impl<'de> Deserialize<'de> for JsonPath {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

impl fmt::Display for JsonPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, step) in self.0.iter().enumerate() {
            match step {
                Step::Each => f.write_str("[]")?,
                Step::Field(name) => write!(f, "{}{name}", if at > 0 { "." } else { "" })?,
            }
        }
        Ok(())
    }
}

impl JsonPath {
    /// Passes every element to `take`, in order. A part of the path that is missing in the value is an error.
    pub(super) fn each<'v>(
        &self,
        root: &'v Value,
        take: &mut dyn FnMut(Item<'v>) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        self.walk(Item { values: vec![root], position: String::new(), line: None }, take)
    }

    fn walk<'v>(&self, item: Item<'v>, take: &mut dyn FnMut(Item<'v>) -> anyhow::Result<()>) -> anyhow::Result<()> {
        let (step, value) = (self.0.get(item.values.len() - 1), item.values[item.values.len() - 1]);
        let mut go = |value: &'v Value, step: String, line: Option<usize>| {
            let values = item.values.iter().copied().chain([value]).collect();
            let position = format!("{}{step}", item.position);
            self.walk(Item { values, position, line: item.line.or(line) }, take)
        };
        match (step, value) {
            (None, _) => take(item),
            (Some(Step::Field(name)), Value::Object(fields)) => match fields.get(name) {
                Some(value) => go(value, format!(".{name}"), None),
                None => bail!("{}.{name} is missing", item.position),
            },
            (Some(Step::Each), Value::Array(elements)) => elements
                .iter()
                .enumerate()
                .try_for_each(|(at, element)| go(element, format!("[{at}]"), (item.values.len() == 1).then_some(at))),
            (Some(Step::Each), Value::Object(fields)) => {
                fields.iter().try_for_each(|(name, value)| go(value, format!(".{name}"), None))
            }
            (Some(Step::Field(name)), _) => bail!("{} is no object, so it has no {name:?}", shown(&item.position)),
            (Some(Step::Each), _) => bail!("{} is neither a list nor an object", shown(&item.position)),
        }
    }

    /// Returns the values of this path that belong to an item of the path `of`. Missing values and nulls are left out,
    /// and a list at the end stands for its elements.
    pub(super) fn values<'v>(&self, of: &JsonPath, item: &Item<'v>) -> Vec<&'v Value> {
        let shared = self.0.iter().zip(&of.0).take_while(|(own, other)| own == other).count();
        let mut values = vec![item.values[shared]];
        for step in &self.0[shared..] {
            values = values.into_iter().flat_map(|value| step.apply(value)).collect();
        }
        let flat = values.into_iter().flat_map(|value| match value {
            Value::Array(elements) => elements.iter().collect(),
            value => vec![value],
        });
        flat.filter(|value| !value.is_null()).collect()
    }
}

impl Step {
    fn apply<'v>(&self, value: &'v Value) -> Vec<&'v Value> {
        match (self, value) {
            (Step::Field(name), Value::Object(fields)) => fields.get(name).into_iter().collect(),
            (Step::Each, Value::Array(elements)) => elements.iter().collect(),
            (Step::Each, Value::Object(fields)) => fields.values().collect(),
            _ => Vec::new(),
        }
    }
}

fn shown(position: &str) -> &str {
    if position.is_empty() { "the file" } else { position }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn paths_that_begin_alike_mean_the_same_element() {
        let root = json!([
            {"id": "a", "turns": [{"text": "1"}, {"text": "2"}], "tags": ["x", null, "y"]},
            {"id": "b", "turns": {"k": {"text": "3"}}},
        ]);
        let path = |text: &str| text.parse::<JsonPath>().unwrap();
        let texts = path("[].turns[].text");
        let mut seen = Vec::new();
        let mut take = |item: Item<'_>| {
            let one = |other: &str| serde_json::to_string(&path(other).values(&texts, &item)).unwrap();
            seen.push(format!(
                "{} {:?} {} {} {}",
                item.position,
                item.line,
                one("[].turns[].text"),
                one("[].id"),
                one("[].tags[]")
            ));
            Ok(())
        };
        texts.each(&root, &mut take).unwrap();
        assert_eq!(
            seen,
            [
                r#"[0].turns[0].text Some(0) ["1"] ["a"] ["x","y"]"#,
                r#"[0].turns[1].text Some(0) ["2"] ["a"] ["x","y"]"#,
                r#"[1].turns.k.text Some(1) ["3"] ["b"] []"#,
            ]
        );
        let error = |text: &str| path(text).each(&root, &mut |_| Ok(())).unwrap_err().to_string();
        assert_eq!(error("[].turns[].body"), "[0].turns[0].body is missing");
        assert_eq!(error("turns"), "the file is no object, so it has no \"turns\"");
        assert_eq!(error("[].id[]"), "[0].id is neither a list nor an object");
    }

    #[test]
    fn paths_are_parsed_and_printed() {
        for text in ["[]", "[].a", "a", "a.b[][].c", "a[]"] {
            assert_eq!(text.parse::<JsonPath>().unwrap().to_string(), text);
        }
        for text in ["", "a..b", "a[0]", "a.[]", ".a", "a[", "a]b"] {
            assert!(text.parse::<JsonPath>().is_err(), "{text}");
        }
    }
}
