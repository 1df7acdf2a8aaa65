//! Reads sets of two JSON Lines files: messages as for `ingest`, and labelled questions.

use std::{
    path::{Path, PathBuf},
    str::FromStr,
};

use anyhow::Context;
use serde_json::Value;

use super::super::set::{Benchmark, Question, Set};
use crate::input::{self, QueryLine};

/// The files of a set.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::eval) struct Files {
    pub(super) name: String,
    messages: PathBuf,
    queries: PathBuf,
}

impl Files {
    /// Names the set after the messages' file, or after the file's folder if that name is just `messages`.
    pub(super) fn new(messages: PathBuf, queries: PathBuf) -> Self {
        let absolute = std::path::absolute(&messages).unwrap_or_else(|_| messages.clone());
        let name = match (name_of(&absolute), absolute.parent()) {
            (name, Some(folder)) if name == "messages" => name_of(folder),
            (name, _) => name,
        };
        Files { name, messages, queries }
    }
}

/// Names a set after a file or folder, up to the first dot.
pub(super) fn name_of(path: &Path) -> String {
    // `.` and `..` have no name.
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
    let name = absolute.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let stem = name.split('.').next().unwrap_or_default();
    if stem.is_empty() { "set".to_owned() } else { stem.to_owned() }
}

impl FromStr for Files {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        let parts = text.split_once('=').and_then(|(name, files)| Some((name, files.split_once(',')?)));
        let named = parts.filter(|(name, _)| !name.is_empty());
        let (name, (messages, queries)) = named.context("a set is given as NAME=M.jsonl,Q.jsonl")?;
        Ok(Files { name: name.into(), messages: messages.into(), queries: queries.into() })
    }
}

/// Reads a set. A question without an id is named after its position.
pub(super) fn read(files: Files) -> anyhow::Result<Set> {
    let messages = input::messages(&files.messages)?;
    let question = |(at, line): (usize, QueryLine)| {
        let QueryLine { id, namespace, query, relevant, category } = line;
        let id = match id {
            Some(Value::String(id)) => id,
            Some(id) => id.to_string(),
            None => format!("q{}", at + 1),
        };
        let mut question = Question::new(id, namespace, query);
        question.relevant = relevant;
        question.category = category.unwrap_or(question.category);
        question
    };
    let questions = input::queries(&files.queries)?.into_iter().enumerate().map(question).collect();
    Ok(Set::new(files.name, messages, questions, Benchmark::None))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_are_named_after_their_files() {
        let named = |messages: &str| Files::new(messages.into(), "q.jsonl".into()).name;
        assert_eq!(named("data/locomo.messages.jsonl"), "locomo");
        assert_eq!(named("datasets/sample/messages.jsonl"), "sample");
        assert_eq!(named("chats"), "chats");
        // A folder that a path does not name is that of the command.
        let here = name_of(Path::new("."));
        assert_eq!([named("messages.jsonl"), named("./messages.jsonl")], [here.clone(), here]);
        assert_eq!([named("/messages.jsonl"), named(".jsonl")], ["set", "set"]);
        let given: Files = "a=b/m=1.jsonl,c/q.jsonl".parse().unwrap();
        assert_eq!(given, Files { name: "a".into(), messages: "b/m=1.jsonl".into(), queries: "c/q.jsonl".into() });
        for text in ["a", "a=b", "b,c", "=b,c"] {
            assert!(text.parse::<Files>().is_err(), "{text}");
        }
    }
}
