//! Asking a set's questions one way.

use std::{collections::HashSet, time::Instant};

use mnemon::Hit;

use super::{set::Question, stored::Stored, variant::Variant};
use crate::{metrics::Found, output};

/// Hits among which sessions are looked for, at least: five sessions are among fewer, mostly.
const DEPTH: usize = 50;
/// What is asked for when it is timed, as most programs would.
pub(super) const USUAL_K: usize = 10;

pub(super) struct Answers<'a> {
    /// Of the labelled questions, in order.
    pub(super) labelled: Vec<Answer<'a>>,
    /// Of all questions, in order, when [`USUAL_K`] hits are asked for.
    pub(super) answerability: Vec<f64>,
    /// Of these, in microseconds, ascending.
    pub(super) latencies: Vec<f64>,
}

pub(super) struct Answer<'a> {
    pub(super) question: &'a Question,
    pub(super) messages: Found,
    pub(super) sessions: Found,
}

impl<'a> Answers<'a> {
    /// Twice each: deep enough for all metrics, `k` or more, and then as usual, for the time it takes.
    pub(super) fn new(stored: &Stored<'a>, variant: &Variant, k: usize) -> anyhow::Result<Self> {
        let set = stored.set;
        let bar = output::progress(2 * set.questions.len() as u64, "questions [{bar:30}] {pos} of {len}, {per_sec}");
        let ask = |question: &Question, k: usize| {
            let query = set.query(&question.namespace, &question.text).k(k);
            stored.recall(&question.namespace, variant.of(query))
        };
        let mut labelled = Vec::new();
        for question in &set.questions {
            let hits = ask(question, k.max(DEPTH))?;
            if !question.relevant.is_empty() {
                labelled.push(Answer::new(question, &hits));
            }
            bar.inc(1);
        }
        let (mut answerability, mut latencies) = (Vec::new(), Vec::new());
        for question in &set.questions {
            let started = Instant::now();
            let hits = ask(question, USUAL_K)?;
            latencies.push(started.elapsed().as_secs_f64() * 1e6);
            answerability.push(f64::from(hits.answerability()));
            bar.inc(1);
        }
        bar.finish_and_clear();
        latencies.sort_by(f64::total_cmp);
        Ok(Answers { labelled, answerability, latencies })
    }
}

impl<'a> Answer<'a> {
    fn new(question: &'a Question, hits: &[Hit]) -> Self {
        let messages = Found::new(hits.iter().map(|hit| hit.message.id.as_str()), &question.relevant);
        let mut seen = HashSet::new();
        let sessions = hits.iter().map(|hit| hit.message.session.as_str()).filter(|session| seen.insert(*session));
        let sessions = Found::new(sessions, &question.sessions);
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
