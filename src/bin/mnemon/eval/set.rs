//! An evaluation set: messages, and labelled questions about them.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    path::{Path, PathBuf},
    str::FromStr,
};

use anyhow::Context;
use mnemon::{Message, Namespace, Query, Timestamp};

use crate::{
    input::{self, QueryLine},
    stderr,
};

/// Category of the questions whose answer is missing or misleading; by convention reported separately.
pub(super) const ADVERSARIAL: &str = "adversarial";
pub(super) const BUT_ADVERSARIAL: &str = "all but adversarial";
pub(super) const ALL: &str = "all";

/// The files of a set.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Files {
    pub(super) name: String,
    pub(super) messages: PathBuf,
    pub(super) queries: PathBuf,
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

/// Messages, and labelled questions about them.
pub(super) struct Set {
    pub(super) name: String,
    pub(super) messages: Vec<(Namespace, Message)>,
    pub(super) questions: Vec<Question>,
    /// The time of each namespace's last message, if any message has a time.
    ends: BTreeMap<Namespace, Option<Timestamp>>,
}

/// A labelled question.
pub(super) struct Question {
    pub(super) namespace: Namespace,
    pub(super) text: String,
    /// Ids of the messages that hold the answer.
    pub(super) relevant: Vec<String>,
    /// The sessions of the relevant messages.
    pub(super) sessions: Vec<String>,
    pub(super) category: String,
}

impl Set {
    pub(super) fn read(files: Files) -> anyhow::Result<Self> {
        let messages = input::messages(&files.messages)?;
        let mut ends: BTreeMap<Namespace, Option<Timestamp>> = BTreeMap::new();
        let mut sessions = HashMap::new();
        for (namespace, message) in &messages {
            let end = ends.entry(namespace.clone()).or_default();
            *end = (*end).max(message.created_at);
            sessions.insert((namespace, message.id.as_str()), message.session.as_str());
        }
        let mut unknown = 0;
        let mut question = |line: QueryLine| {
            let QueryLine { namespace, query: text, relevant, category, .. } = line;
            // A missing message gets a session that no recall finds: session names are never empty.
            let session =
                |id: &String| sessions.get(&(&namespace, id.as_str())).copied().unwrap_or_default().to_owned();
            let sessions: BTreeSet<String> = relevant.iter().map(session).collect();
            unknown += usize::from(sessions.contains(""));
            let category = category.unwrap_or_else(|| "no category".into());
            Question { sessions: sessions.into_iter().collect(), namespace, text, relevant, category }
        };
        let questions = input::queries(&files.queries)?.into_iter().map(&mut question).collect();
        if unknown > 0 {
            stderr::note(format!(
                "{}: {unknown} questions are labelled with messages that the set does not have",
                files.name
            ));
        }
        Ok(Set { name: files.name, messages, questions, ends })
    }

    /// Iterates over the namespaces that have messages.
    pub(super) fn namespaces(&self) -> impl Iterator<Item = &Namespace> {
        self.ends.keys()
    }

    /// Builds a query at the time of the namespace's last message, so that "last week" means the same in every run.
    pub(super) fn query(&self, namespace: &Namespace, text: &str) -> Query {
        let query = Query::new(text);
        match self.ends.get(namespace) {
            Some(Some(end)) => query.now(*end),
            _ => query,
        }
    }
}

impl Question {
    pub(super) fn is_adversarial(&self) -> bool {
        self.category == ADVERSARIAL
    }

    /// Returns true if the set labels messages that answer the question, and the question is not adversarial.
    pub(super) fn is_answerable(&self) -> bool {
        !self.relevant.is_empty() && !self.is_adversarial()
    }

    /// Iterates over the groups in which the question's scores count.
    pub(super) fn groups(&self) -> impl Iterator<Item = &str> {
        [Some(self.category.as_str()), (!self.is_adversarial()).then_some(BUT_ADVERSARIAL), Some(ALL)]
            .into_iter()
            .flatten()
    }
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
