//! Runs a set's questions with one variant.

use std::{collections::HashSet, time::Instant};

use super::{
    ingested::IngestedSet,
    ranking::{self, RankedMessage, Ranking},
    set::{Benchmark, Question, Set},
    variant::Variant,
};
use crate::{metrics::RelevantRanks, progress::Progress};

/// Number of hits of the recall that is timed: a usual prompt's.
pub(super) const USUAL_K: usize = 10;

/// The answers of one variant to a set's questions.
pub(super) struct Answers<'a> {
    /// Answers to the labelled questions, in the set's order.
    pub(super) labelled: Vec<Answer<'a>>,
    /// The ranking of each question of the set, in the set's order.
    pub(super) rankings: Vec<Ranking>,
    /// Answerability of each question with [`USUAL_K`] hits, in the set's order. Empty if no recall was run.
    pub(super) answerability: Vec<f64>,
    /// Latencies of the recalls with [`USUAL_K`] hits, in microseconds, ascending. Empty if no recall was run.
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
        let ask =
            |question: &Question, k: usize| ingested.recall(&question.namespace, variant.apply(set.ask(question).k(k)));
        let mut rankings = Vec::new();
        for question in &set.questions {
            rankings.push(ranking::of_hits(&ask(question, k.max(set.depth()))?));
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
        Ok(Answers { answerability, latencies, ..Answers::of(set, rankings) })
    }

    /// Compares rankings with the labels of the set's questions, which they are in the order of.
    pub(super) fn of(set: &'a Set, mut rankings: Vec<Ranking>) -> Self {
        if set.benchmark == Benchmark::Beir {
            // As BEIR does: where queries are documents of the corpus, a query must not find itself.
            for (question, ranking) in set.questions.iter().zip(&mut rankings) {
                ranking.retain(|message| message.id != question.id);
            }
        }
        let answers = set.questions.iter().zip(&rankings);
        let answers = answers.filter(|(question, _)| !question.relevant.is_empty());
        let labelled = answers.map(|(question, ranking)| Answer::new(question, ranking)).collect();
        Answers { labelled, rankings, answerability: Vec::new(), latencies: Vec::new() }
    }
}

impl<'a> Answer<'a> {
    fn new(question: &'a Question, ranking: &[RankedMessage]) -> Self {
        let ids = ranking.iter().map(|message| message.id.as_str());
        let messages = RelevantRanks::graded(ids, &question.relevant, &question.grades);
        Answer { question, messages, sessions: session_ranks(question, ranking) }
    }
}

/// Ranks the sessions by the first message of each.
pub(super) fn session_ranks(question: &Question, ranking: &[RankedMessage]) -> RelevantRanks {
    let mut seen = HashSet::new();
    let sessions = ranking.iter().map(|message| message.session.as_str()).filter(|session| seen.insert(*session));
    RelevantRanks::new(sessions, &question.sessions)
}

#[cfg(test)]
mod tests {
    use mnemon::{Hit, Message};

    use super::*;

    #[test]
    fn sessions_count_once_by_their_first_hit() {
        let hit = |(at, (id, session)): (usize, &(&str, &str))| {
            Hit::new(Message::user("x").with_id(*id).in_session(*session), 1.0, at + 1)
        };
        let hits: Vec<Hit> =
            [("a", "1"), ("b", "1"), ("c", "2"), ("d", "1"), ("e", "3")].iter().enumerate().map(hit).collect();
        let question = Question {
            relevant: vec!["d".into(), "x".into(), "e".into()],
            sessions: vec!["1".into(), "3".into(), "9".into()],
            ..Question::new("q", "n".parse().unwrap(), "?")
        };
        let answer = Answer::new(&question, &ranking::of_hits(&hits));
        assert_eq!((answer.messages.ranks, answer.messages.relevant), (vec![4, 5], 3));
        assert_eq!(answer.sessions.ranks, [1, 3]);
        assert_eq!(answer.sessions.hit_at(1), 1.0);
        assert!((answer.sessions.recall_at(5) - 2.0 / 3.0).abs() < 1e-12);
        assert!((answer.sessions.recall_at(2) - 1.0 / 3.0).abs() < 1e-12);
    }
}
