//! Runs a set's questions with one variant.

use std::{collections::HashSet, time::Instant};

use mnemon::Hit;

use super::{ingested::IngestedSet, set::Question, variant::Variant};
use crate::{metrics::RelevantRanks, progress::Progress};

/// Least number of hits of the recall that is scored. Five different sessions are usually among fewer hits.
const DEPTH: usize = 50;
/// Number of hits of the recall that is timed: a usual prompt's.
pub(super) const USUAL_K: usize = 10;

/// The answers of one variant to a set's questions.
pub(super) struct Answers<'a> {
    /// Answers to the labelled questions, in the set's order.
    pub(super) labelled: Vec<Answer<'a>>,
    /// Answerability of each question with [`USUAL_K`] hits, in the set's order.
    pub(super) answerability: Vec<f64>,
    /// Latencies of the recalls with [`USUAL_K`] hits, in microseconds, ascending.
    pub(super) latencies: Vec<f64>,
}

/// The ranks of the relevant messages and sessions in the hits of one question.
pub(super) struct Answer<'a> {
    pub(super) question: &'a Question,
    pub(super) messages: RelevantRanks,
    pub(super) sessions: RelevantRanks,
}

impl<'a> Answers<'a> {
    /// Runs each question twice: once with `k` hits or more, deep enough for all metrics, and once with [`USUAL_K`] for
    /// the latency.
    pub(super) fn new(ingested: &IngestedSet<'a>, variant: &Variant, k: usize) -> anyhow::Result<Self> {
        let set = ingested.set;
        let progress = Progress::new();
        progress.begin(&format!("{}, {variant}", set.name), "questions", 2 * set.questions.len() as u64);
        let ask = |question: &Question, k: usize| {
            let query = set.query(&question.namespace, &question.text).k(k);
            ingested.recall(&question.namespace, variant.apply(query))
        };
        let mut labelled = Vec::new();
        for question in &set.questions {
            let hits = ask(question, k.max(DEPTH))?;
            if !question.relevant.is_empty() {
                labelled.push(Answer::new(question, &hits));
            }
            progress.inc(1);
        }
        let (mut answerability, mut latencies) = (Vec::new(), Vec::new());
        for question in &set.questions {
            let started = Instant::now();
            let hits = ask(question, USUAL_K)?;
            latencies.push(started.elapsed().as_secs_f64() * 1e6);
            answerability.push(f64::from(hits.answerability()));
            progress.inc(1);
        }
        latencies.sort_by(f64::total_cmp);
        Ok(Answers { labelled, answerability, latencies })
    }
}

impl<'a> Answer<'a> {
    fn new(question: &'a Question, hits: &[Hit]) -> Self {
        let messages = RelevantRanks::new(hits.iter().map(|hit| hit.message.id.as_str()), &question.relevant);
        let mut seen = HashSet::new();
        let sessions = hits.iter().map(|hit| hit.message.session.as_str()).filter(|session| seen.insert(*session));
        let sessions = RelevantRanks::new(sessions, &question.sessions);
        Answer { question, messages, sessions }
    }
}

#[cfg(test)]
mod tests {
    use mnemon::Message;

    use super::*;

    #[test]
    fn sessions_count_once_by_their_first_hit() {
        let hit = |(at, (id, session)): (usize, &(&str, &str))| {
            Hit::new(Message::user("x").with_id(*id).in_session(*session), 1.0, at + 1)
        };
        let hits: Vec<Hit> =
            [("a", "1"), ("b", "1"), ("c", "2"), ("d", "1"), ("e", "3")].iter().enumerate().map(hit).collect();
        let question = Question {
            namespace: "n".parse().unwrap(),
            text: "?".into(),
            relevant: vec!["d".into(), "x".into(), "e".into()],
            sessions: vec!["1".into(), "3".into(), "9".into()],
            category: "single-hop".into(),
        };
        let answer = Answer::new(&question, &hits);
        assert_eq!((answer.messages.ranks, answer.messages.relevant), (vec![4, 5], 3));
        assert_eq!(answer.sessions.ranks, [1, 3]);
        assert_eq!(answer.sessions.hit_at(1), 1.0);
        assert!((answer.sessions.recall_at(5) - 2.0 / 3.0).abs() < 1e-12);
        assert!((answer.sessions.recall_at(2) - 1.0 / 3.0).abs() < 1e-12);
    }
}
