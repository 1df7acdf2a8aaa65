//! Reads LongMemEval as it is published (Wu et al. 2025): a list of questions, each with a history of its own.
//!
//! A question becomes the namespace `longmemeval/QUESTION_ID`, a turn the message `SESSION_ID_TURN`, where turns are
//! numbered from 1 as in the benchmark's scripts. The turns of a session have the session's date; the query's time is
//! `question_date`. The evidence is the user's turns with `has_answer`, and the sessions in `answer_session_ids`.

use std::{
    collections::{HashMap, HashSet},
    path::Path,
};

use anyhow::{Context, ensure};
use mnemon::{Message, Namespace, Role, Timestamp};
use serde::Deserialize;

use super::{
    super::set::{Benchmark, Question, Set},
    elements::{self, parse_time},
};
use crate::output::{self, counted};

const TIME_FORMAT: &str = "%Y/%m/%d %H:%M";
/// How the ids of questions end that the history does not answer.
const ABSTENTION: &str = "_abs";

#[derive(Deserialize)]
struct Entry {
    question_id: String,
    question_type: String,
    question: String,
    question_date: String,
    haystack_session_ids: Vec<String>,
    haystack_dates: Vec<String>,
    haystack_sessions: Vec<Vec<Turn>>,
    #[serde(default)]
    answer_session_ids: Vec<String>,
}

#[derive(Deserialize)]
struct Turn {
    role: String,
    content: String,
    #[serde(default)]
    has_answer: Option<bool>,
}

#[derive(Default)]
struct Reader {
    messages: Vec<(Namespace, Message)>,
    questions: Vec<Question>,
    /// Number of turns without text.
    empty: usize,
    ids: HashSet<String>,
}

/// Reads a file in LongMemEval's layout, which its three variants share.
pub(super) fn read(path: &Path, name: String) -> anyhow::Result<Set> {
    let mut reader = Reader::default();
    elements::each(path, |entry| reader.take(entry))?;
    if reader.empty > 0 {
        output::note(format!("{name}: left out {} without text", counted(reader.empty, "turn")));
    }
    Ok(Set::new(name, reader.messages, reader.questions, Benchmark::LongMemEval))
}

impl Reader {
    fn take(&mut self, entry: Entry) -> anyhow::Result<()> {
        let id = entry.question_id.clone();
        self.take_entry(entry).with_context(|| format!("question {id:?}"))
    }

    fn take_entry(&mut self, entry: Entry) -> anyhow::Result<()> {
        let (ids, dates, sessions) = (entry.haystack_session_ids, entry.haystack_dates, entry.haystack_sessions);
        ensure!(self.ids.insert(entry.question_id.clone()), "another question has this question_id; make each unique");
        ensure!(
            ids.len() == sessions.len() && dates.len() == sessions.len(),
            "it has {} haystack_sessions, {} haystack_session_ids and {} haystack_dates; give as many of each",
            sessions.len(),
            ids.len(),
            dates.len()
        );
        let namespace = Namespace::from_labels(["longmemeval", entry.question_id.as_str()])?;
        let abstains = entry.question_id.ends_with(ABSTENTION);
        let mut question = Question::new(entry.question_id, namespace.clone(), entry.question);
        question.now = Some(time(&entry.question_date).context("question_date")?);
        question.category = entry.question_type;
        question.abstains = abstains;
        let mut times_seen: HashMap<String, usize> = HashMap::new();
        for ((id, date), turns) in ids.into_iter().zip(dates).zip(sessions) {
            let created_at = time(&date).with_context(|| format!("session {id:?}"))?;
            // A session that occurs twice in the history is two sessions.
            let seen = times_seen.entry(id.clone()).or_default();
            *seen += 1;
            let session = if *seen == 1 { id } else { format!("{id}~{seen}") };
            for (at, Turn { role, content, has_answer }) in (1..).zip(turns) {
                if content.trim().is_empty() {
                    self.empty += 1;
                    continue;
                }
                let context = || format!("session {session:?}, turn {at}");
                let role: Role = role.parse().with_context(context)?;
                let mut message = Message::new(role, content).with_id(format!("{session}_{at}")).in_session(&session);
                message.created_at = Some(created_at);
                message.check().with_context(context)?;
                if has_answer == Some(true) && role == Role::User && !abstains {
                    question.relevant.push(message.id.clone());
                }
                self.messages.push((namespace.clone(), message));
            }
        }
        if !abstains {
            question.sessions = entry.answer_session_ids;
            let missing: Vec<&String> =
                question.sessions.iter().filter(|session| !times_seen.contains_key(*session)).collect();
            ensure!(missing.is_empty(), "answer_session_ids name sessions that are not in the history: {missing:?}");
        }
        self.questions.push(question);
        Ok(())
    }
}

/// Parses a time such as `2023/05/30 (Tue) 23:40`. The day of the week says nothing more.
fn time(text: &str) -> anyhow::Result<Timestamp> {
    let without_day = match text.split_once('(').and_then(|(date, rest)| Some((date, rest.split_once(')')?.1))) {
        Some((date, time)) => format!("{} {}", date.trim(), time.trim()),
        None => text.to_owned(),
    };
    parse_time(&without_day, TIME_FORMAT)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn entry(id: &str) -> serde_json::Value {
        json!({
            "question_id": id, "question_type": "multi-session", "question": "Where?", "answer": "here",
            "question_date": "2023/05/30 (Tue) 23:40",
            "haystack_session_ids": ["x", "answer_1", "x"],
            "haystack_dates": ["2023/05/20 (Sat) 02:21", "2023/05/21 (Sun) 02:21", "2023/05/22 (Mon) 02:21"],
            "haystack_sessions": [
                [{"role": "user", "content": "a"}, {"role": "assistant", "content": " "}],
                [{"role": "user", "content": "b", "has_answer": true}, {"role": "assistant", "content": "c", "has_answer": true}],
                [{"role": "user", "content": "d", "has_answer": false}],
            ],
            "answer_session_ids": ["answer_1"],
        })
    }

    #[test]
    fn a_question_has_a_history_of_its_own() {
        let mut reader = Reader::default();
        for id in ["q1", "q2_abs"] {
            reader.take(serde_json::from_value(entry(id)).unwrap()).unwrap();
        }
        let ids: Vec<&str> = reader.messages[..4].iter().map(|(_, message)| message.id.as_str()).collect();
        assert_eq!(ids, ["x_1", "answer_1_1", "answer_1_2", "x~2_1"]);
        assert_eq!(reader.messages[0].1.created_at.unwrap().to_string(), "2023-05-20T02:21:00Z");
        let [one, two] = reader.questions.as_slice() else { panic!() };
        assert_eq!(
            (&one.relevant[..], &one.sessions[..]),
            (&["answer_1_1".to_owned()][..], &["answer_1".to_owned()][..])
        );
        assert_eq!(
            (one.namespace.as_str(), one.now.unwrap().to_string()),
            ("longmemeval/q1", "2023-05-30T23:40:00Z".into())
        );
        assert!(two.abstains && two.relevant.is_empty() && two.sessions.is_empty());
        assert_eq!(reader.empty, 2);
    }

    #[test]
    fn bad_entries_are_errors_that_name_the_question() {
        for (field, value, part) in [
            ("question_date", json!("soon"), "question_date: the time \"soon\""),
            ("haystack_dates", json!([]), "3 haystack_sessions, 3 haystack_session_ids and 0 haystack_dates"),
            ("answer_session_ids", json!(["y"]), "not in the history: [\"y\"]"),
            ("haystack_sessions", json!([[{"role": "human", "content": "x"}], [], []]), "session \"x\", turn 1"),
        ] {
            let mut bad = entry("q1");
            bad[field] = value;
            let error = Reader::default().take(serde_json::from_value(bad).unwrap()).unwrap_err();
            let error = format!("{error:#}");
            assert!(error.starts_with("question \"q1\": ") && error.contains(part), "{error}");
        }
    }
}
