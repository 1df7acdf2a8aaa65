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
    /// Names the set after the messages' file up to its first dot, or after the file's folder if that name is just
    /// `messages`.
    pub(super) fn new(messages: PathBuf, queries: PathBuf) -> Self {
        let text = |part: Option<&std::ffi::OsStr>| part.unwrap_or_default().to_string_lossy().into_owned();
        let file = text(messages.file_name());
        let name = match file.split_once('.').map_or(&*file, |(name, _)| name) {
            "messages" => text(messages.parent().and_then(Path::file_name)),
            name => name.to_owned(),
        };
        Files { name, messages, queries }
    }
}

impl FromStr for Files {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        let parts = text.split_once('=').and_then(|(name, files)| Some((name, files.split_once(',')?)));
        let (name, (messages, queries)) = parts.context("a set is given as NAME=M.jsonl,Q.jsonl")?;
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
        let given: Files = "a=b/m=1.jsonl,c/q.jsonl".parse().unwrap();
        assert_eq!(given, Files { name: "a".into(), messages: "b/m=1.jsonl".into(), queries: "c/q.jsonl".into() });
        for text in ["a", "a=b", "b,c"] {
            assert!(text.parse::<Files>().is_err(), "{text}");
        }
    }
}
