//! Reads any JSON or JSON Lines file by a description, in TOML, of where its messages and questions are.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    path::{Path, PathBuf},
};

use anyhow::{Context, anyhow, bail, ensure};
use mnemon::{Message, Namespace, Role, Timestamp};
use serde::Deserialize;
use serde_json::Value;

use super::{
    super::set::{Benchmark, Question, Set},
    elements::parse_time,
    json_path::{Item, JsonPath},
};
use crate::{
    input,
    output::{self, counted},
};

/// A description of a layout.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Layout {
    messages: Messages,
    questions: Questions,
    /// The roles that the file names otherwise.
    #[serde(default)]
    roles: BTreeMap<String, Role>,
    /// A format of `strptime`. Without it a time is RFC 3339, a day, or a number of seconds since 1970.
    time_format: Option<String>,
}

/// Where the messages are. Each element of `text` is a message.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Messages {
    text: JsonPath,
    id: Option<JsonPath>,
    namespace: Option<JsonPath>,
    session: Option<JsonPath>,
    role: Option<JsonPath>,
    name: Option<JsonPath>,
    time: Option<JsonPath>,
}

/// Where the questions are. Each element of `text` is a question.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Questions {
    text: JsonPath,
    /// Ids of the messages that hold the answer.
    evidence: JsonPath,
    id: Option<JsonPath>,
    namespace: Option<JsonPath>,
    category: Option<JsonPath>,
    time: Option<JsonPath>,
}

/// The value of a file, and the lines at which the elements of its root begin.
struct Document {
    path: PathBuf,
    root: Value,
    lines: Vec<u64>,
}

/// Reads a file by the description in another.
pub(super) fn read(layout: &Path, file: &Path, name: String) -> anyhow::Result<Set> {
    let text = input::text(layout)?;
    let layout: Layout = toml::from_str(&text).map_err(|error| {
        let line = error.span().map_or(1, |span| text[..span.start.min(text.len())].matches('\n').count() + 1);
        anyhow!("{}:{line}: {}", layout.display(), error.message())
    })?;
    layout.read(&Document::read(file)?, name)
}

impl Layout {
    fn read(&self, document: &Document, name: String) -> anyhow::Result<Set> {
        let default = Namespace::from_labels([name.as_str()])?;
        let namespace = |path: &Option<JsonPath>, of: &JsonPath, item: &Item| match scalar(path, of, item)? {
            Some(name) => Ok(Namespace::from_labels([name])?),
            None => Ok::<_, anyhow::Error>(default.clone()),
        };
        let (mut messages, mut counts, mut seen) = (Vec::new(), HashMap::<Namespace, usize>::new(), HashSet::new());
        let of = &self.messages;
        document.each(&of.text, |item| {
            let namespace = namespace(&of.namespace, &of.text, item)?;
            let count = counts.entry(namespace.clone()).or_default();
            *count += 1;
            let field = |path| scalar(path, &of.text, item);
            let text = scalar_of(&of.text, &of.text, item)?.context("the text is null")?;
            let role = match field(&of.role)? {
                Some(role) => match self.roles.get(&role) {
                    Some(role) => *role,
                    None => role.parse().context("name it under [roles], as in human = \"user\"")?,
                },
                None => Role::User,
            };
            let id = field(&of.id)?.unwrap_or_else(|| count.to_string());
            let mut message = Message::new(role, text).with_id(id);
            message.created_at = self.time(&of.time, &of.text, item)?;
            message.name = field(&of.name)?;
            message.session = field(&of.session)?.unwrap_or(message.session);
            message.check()?;
            ensure!(
                seen.insert((namespace.clone(), message.id.clone())),
                "another message of {namespace} has the id {:?}; make each unique",
                message.id
            );
            messages.push((namespace, message));
            Ok(())
        })?;

        let (mut questions, mut ignored) = (Vec::new(), 0);
        let of = &self.questions;
        document.each(&of.text, |item| {
            let field = |path| scalar(path, &of.text, item);
            let id = field(&of.id)?.unwrap_or_else(|| format!("q{}", questions.len() + 1));
            let text = scalar_of(&of.text, &of.text, item)?.context("the question is null")?;
            let mut question = Question::new(id, namespace(&of.namespace, &of.text, item)?, text);
            question.category = field(&of.category)?.unwrap_or(question.category);
            question.now = self.time(&of.time, &of.text, item)?;
            for value in of.evidence.values(&of.text, item) {
                let id = text_of(value).with_context(|| format!("evidence: {}", of.evidence))?;
                match seen.contains(&(question.namespace.clone(), id.clone())) {
                    true if !question.relevant.contains(&id) => question.relevant.push(id),
                    true => {}
                    false => ignored += 1,
                }
            }
            questions.push(question);
            Ok(())
        })?;
        if ignored > 0 {
            output::note(format!("{name}: ignored {} of evidence without a message", counted(ignored, "piece")));
        }
        Ok(Set::new(name, messages, questions, Benchmark::None))
    }

    fn time(&self, path: &Option<JsonPath>, of: &JsonPath, item: &Item) -> anyhow::Result<Option<Timestamp>> {
        let Some(text) = scalar(path, of, item)? else { return Ok(None) };
        let time = match (&self.time_format, text.parse::<f64>()) {
            (Some(format), _) => parse_time(&text, format)?,
            (None, Ok(seconds)) => Timestamp::from_micros((seconds * 1e6) as i64)
                .with_context(|| format!("the time {text} is out of range"))?,
            (None, Err(_)) => text.parse().context("give the format of the times as time_format")?,
        };
        Ok(Some(time))
    }
}

/// Returns the text of an optional field, `None` if the file has none.
fn scalar(path: &Option<JsonPath>, of: &JsonPath, item: &Item) -> anyhow::Result<Option<String>> {
    path.as_ref().map_or(Ok(None), |path| scalar_of(path, of, item))
}

fn scalar_of(path: &JsonPath, of: &JsonPath, item: &Item) -> anyhow::Result<Option<String>> {
    match path.values(of, item).as_slice() {
        [] => Ok(None),
        [value] => text_of(value).with_context(|| path.to_string()).map(Some),
        values => bail!("{path} has {} values where one is needed; begin it as {of} begins", values.len()),
    }
}

fn text_of(value: &Value) -> anyhow::Result<String> {
    match value {
        Value::String(text) => Ok(text.clone()),
        Value::Number(number) => Ok(number.to_string()),
        _ => bail!("{value} is neither a text nor a number"),
    }
}

impl Document {
    /// Reads one JSON value, or a list of the values of a file that has several. A file `*.jsonl` is always a list.
    fn read(path: &Path) -> anyhow::Result<Self> {
        let mut text = String::new();
        std::io::Read::read_to_string(&mut input::open(path)?, &mut text)
            .with_context(|| path.display().to_string())?;
        let (mut values, mut lines, mut line, mut counted) = (Vec::new(), Vec::new(), 1, 0);
        let mut stream = serde_json::Deserializer::from_str(&text).into_iter::<Value>();
        loop {
            let rest = &text[stream.byte_offset()..];
            let start = stream.byte_offset() + (rest.len() - rest.trim_start().len());
            line += text[counted..start].matches('\n').count() as u64;
            counted = start;
            let Some(value) = stream.next() else { break };
            values.push(value.with_context(|| path.display().to_string())?);
            lines.push(line);
        }
        let is_lines = path.extension().is_some_and(|extension| extension == "jsonl" || extension == "ndjson");
        let path = path.to_path_buf();
        if values.len() == 1 && !is_lines {
            return Ok(Document { path, root: values.remove(0), lines: Vec::new() });
        }
        Ok(Document { path, root: Value::Array(values), lines })
    }

    /// Passes every element of a path to `take`; an error names the file, and the line or the element.
    fn each(&self, path: &JsonPath, mut take: impl FnMut(&Item) -> anyhow::Result<()>) -> anyhow::Result<()> {
        path.each(&self.root, &mut |item| {
            take(&item).with_context(|| match item.line.and_then(|at| self.lines.get(at)) {
                Some(line) => format!("{} ({})", input::at(&self.path, *line), item.position),
                None => format!("{} ({})", self.path.display(), item.position),
            })
        })
        .with_context(|| self.path.display().to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAYOUT: &str = r#"
        roles = { human = "user", bot = "assistant" }
        time_format = "%d.%m.%Y %H:%M"
        [messages]
        text = "[].turns[].said"
        namespace = "[].user"
        session = "[].chat"
        role = "[].turns[].by"
        time = "[].turns[].at"
        [questions]
        text = "[].asked[].q"
        namespace = "[].user"
        evidence = "[].asked[].from"
    "#;

    fn set(layout: &str, data: &str, file: &str) -> anyhow::Result<Set> {
        let folder = tempfile::tempdir().unwrap();
        let [toml, json] = ["layout.toml", file].map(|name| folder.path().join(name));
        std::fs::write(&toml, layout).unwrap();
        std::fs::write(&json, data).unwrap();
        read(&toml, &json, "set".into())
    }

    #[test]
    fn a_description_says_where_everything_is() {
        let line = r#"{"user":"u1","chat":7,"turns":[{"said":"Hi.","by":"human","at":"01.05.2024 10:00"},{"said":"Yes?","by":"bot"}],"asked":[{"q":"Who?","from":[2,9]}]}"#;
        for (data, file) in [(line.to_owned(), "a.jsonl"), (format!("[{line}]"), "a.json")] {
            let set = set(LAYOUT, &data, file).unwrap();
            let seen: Vec<String> = set
                .messages
                .iter()
                .map(|(namespace, one)| {
                    format!("{namespace} {} {} {} {:?}", one.session, one.id, one.role.as_str(), one.created_at)
                })
                .collect();
            assert_eq!(seen[0].split(" Some").next(), Some("u1 7 1 user"));
            assert_eq!(seen[1], "u1 7 2 assistant None");
            let [question] = set.questions.as_slice() else { panic!() };
            assert_eq!((&*question.id, &question.relevant[..], &*question.text), ("q1", &["2".to_owned()][..], "Who?"));
        }
    }

    #[test]
    fn errors_name_the_file_and_the_line() {
        let good = r#"{"user":"u","turns":[],"asked":[]}"#;
        let check = |layout: &str, lines: &[&str], part: &str| {
            let error = format!("{:#}", set(layout, &lines.join("\n"), "a.jsonl").map(|_| ()).unwrap_err());
            assert!(error.contains(part), "{error}");
        };
        check(
            LAYOUT,
            &[good, "", r#"{"user":"u","turns":[{"said":"x","by":"dog"}],"asked":[]}"#],
            "a.jsonl:3 ([1].turns[0].said): ",
        );
        check(LAYOUT, &[r#"{"turns":[{"said":"x","at":"now"}],"asked":[]}"#], "not in the format");
        check(LAYOUT, &[good, r#"{"user":"u","asked":[]}"#], "[1].turns is missing");
        check(LAYOUT, &[good, "{"], "a.jsonl: EOF");
        check("[messages]\ntext = \"a[0]\"\n", &[good], "layout.toml:2: \"a[0]\" is not a path");
        check("[messages]\nbody = \"a\"\n", &[good], "layout.toml:2: unknown field");
        let many = LAYOUT.replace("[].user", "[].turns[].by");
        check(
            &many,
            &[r#"{"turns":[{"said":"a","by":"human"},{"said":"b","by":"bot"}],"asked":[{"q":"x"}]}"#],
            "has 2 values where one is needed",
        );
    }
}
