//! An evaluation set: messages, and labelled questions about them.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use mnemon::{Message, Namespace, Query, Timestamp};

use crate::output::{self, counted};

/// The category of questions whose answer is missing or misleading. By convention they are reported separately.
pub(super) const ADVERSARIAL: &str = "adversarial";
pub(super) const BUT_ADVERSARIAL: &str = "all but adversarial";
pub(super) const ALL: &str = "all";

/// The benchmark that a set is from, if it has figures of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) enum Benchmark {
    #[default]
    None,
    LongMemEval,
    Beir,
}

pub(super) struct Set {
    pub(super) name: String,
    pub(super) messages: Vec<(Namespace, Message)>,
    pub(super) questions: Vec<Question>,
    pub(super) benchmark: Benchmark,
    /// The time of each namespace's last message, if any message has a time.
    ends: BTreeMap<Namespace, Option<Timestamp>>,
}

/// A labelled question.
#[derive(Debug)]
pub(super) struct Question {
    pub(super) id: String,
    pub(super) namespace: Namespace,
    pub(super) text: String,
    /// The time at which the question is asked. Default: that of the namespace's last message.
    pub(super) now: Option<Timestamp>,
    /// Ids of the messages that hold the answer.
    pub(super) relevant: Vec<String>,
    /// How relevant each of these messages is. Empty: all have grade 1.
    pub(super) grades: Vec<u32>,
    /// The sessions that hold the answer.
    pub(super) sessions: Vec<String>,
    pub(super) category: String,
    /// Whether the benchmark wants no answer: nothing is relevant.
    pub(super) abstains: bool,
}

impl Set {
    /// Makes a set. Questions that name no sessions get those of their relevant messages.
    pub(super) fn new(
        name: String,
        messages: Vec<(Namespace, Message)>,
        mut questions: Vec<Question>,
        benchmark: Benchmark,
    ) -> Self {
        let mut ends: BTreeMap<Namespace, Option<Timestamp>> = BTreeMap::new();
        let mut sessions = HashMap::new();
        for (namespace, message) in &messages {
            match ends.get_mut(namespace) {
                Some(end) => *end = (*end).max(message.created_at),
                None => _ = ends.insert(namespace.clone(), message.created_at),
            }
            sessions.insert((namespace, message.id.as_str()), message.session.as_str());
        }
        let mut unknown = 0;
        for question in questions.iter_mut().filter(|question| question.sessions.is_empty()) {
            // A missing message gets a session that no recall finds: session names are never empty.
            let session = |id: &String| sessions.get(&(&question.namespace, id.as_str())).copied().unwrap_or_default();
            let named: BTreeSet<&str> = question.relevant.iter().map(session).collect();
            unknown += usize::from(named.contains(""));
            question.sessions = named.into_iter().map(str::to_owned).collect();
        }
        if unknown > 0 {
            output::note(format!(
                "{name}: {} labelled with messages that the set does not have",
                counted(unknown, "question")
            ));
        }
        Set { name, messages, questions, benchmark, ends }
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

    /// Returns the time at which a question is asked.
    pub(super) fn asked_at(&self, question: &Question) -> Option<Timestamp> {
        question.now.or_else(|| *self.ends.get(&question.namespace)?)
    }

    /// Builds the query of a question, at its own time if it has one. BEIR judges each document by itself, so that
    /// documents which nearly duplicate another are kept.
    pub(super) fn ask(&self, question: &Question) -> Query {
        let query = self.query(&question.namespace, &question.text);
        let query = question.now.into_iter().fold(query, Query::now);
        if self.benchmark == Benchmark::Beir { query.keep_duplicates() } else { query }
    }

    /// Returns the number of hits that the set's own figures need.
    pub(super) fn depth(&self) -> usize {
        match self.benchmark {
            // Enough for five different sessions, usually.
            Benchmark::None => 50,
            // For LongMemEval, 50 user turns and 50 sessions are to be among them. For BEIR, its own depth.
            Benchmark::LongMemEval | Benchmark::Beir => 1_000,
        }
    }
}

impl Question {
    /// Makes a question without labels.
    pub(super) fn new(id: impl Into<String>, namespace: Namespace, text: impl Into<String>) -> Self {
        Question {
            id: id.into(),
            namespace,
            text: text.into(),
            now: None,
            relevant: Vec::new(),
            grades: Vec::new(),
            sessions: Vec::new(),
            category: "no category".into(),
            abstains: false,
        }
    }

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
