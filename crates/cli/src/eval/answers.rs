//! Answers: a set in a temporary database, and the rankings of its questions with one variant.

use std::{collections::HashSet, time::Instant};

use mnemon::{Config, Engine, Hit, Hits, Namespace, Query, Role};
use tempfile::TempDir;

use super::{
    set::{Benchmark, Question, Set},
    variant::Variant,
};
use crate::{
    database::Temporary,
    metrics::{RelevantRanks, Times},
    progress::Progress,
};

/// Messages per commit.
const BATCH: usize = 512;

/// An evaluation set in a temporary database, embedded and indexed.
pub(super) struct IngestedSet<'a> {
    pub(super) set: &'a Set,
    pub(super) engine: Engine,
    pub(super) messages_per_second: f64,
    _folder: TempDir,
}

impl<'a> IngestedSet<'a> {
    /// Ingests a set, and waits for the background work of its indexes.
    pub(super) fn new(set: &'a Set, model: Option<&str>, config: Config) -> anyhow::Result<Self> {
        let Temporary { engine, folder, .. } = Temporary::new(model, config)?;
        let count = set.messages.len();
        let started = Instant::now();
        let progress = Progress::new();
        progress.begin("storing", "messages", count as u64);
        for batch in set.messages.chunks(BATCH) {
            engine.blocking().put_all(batch.to_vec())?;
            progress.inc(batch.len() as u64);
        }
        progress.embed(&engine)?;
        let messages_per_second = count as f64 / started.elapsed().as_secs_f64();
        set.namespaces().try_for_each(|namespace| progress.link(&engine, namespace))?;
        Ok(IngestedSet { set, engine, messages_per_second, _folder: folder })
    }

    pub(super) fn recall(&self, namespace: &Namespace, query: Query) -> anyhow::Result<Hits> {
        Ok(self.engine.blocking().recall(namespace, query)?)
    }
}

/// A message of a ranking.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct RankedMessage {
    pub(super) id: String,
    pub(super) session: String,
    pub(super) role: Role,
    pub(super) score: f32,
}

/// The messages that a recall, or another program, found for a question, best first.
pub(super) type Ranking = Vec<RankedMessage>;

fn ranking_of(hits: &[Hit]) -> Ranking {
    let ranked = |hit: &Hit| RankedMessage {
        id: hit.message.id.clone(),
        session: hit.message.session.clone(),
        role: hit.message.role,
        score: hit.score,
    };
    hits.iter().map(ranked).collect()
}

/// Number of hits of the recall that is timed, as for a usual prompt.
pub(super) const USUAL_K: usize = 10;

/// The answers of one variant to a set's questions.
pub(super) struct Answers<'a> {
    /// Answers to the labelled questions, in the set's order.
    pub(super) labelled: Vec<Answer<'a>>,
    /// The ranking of each question of the set, in the set's order.
    pub(super) rankings: Vec<Ranking>,
    /// Answerability of each question with [`USUAL_K`] hits, in the set's order. Empty if no recall was run.
    pub(super) answerability: Vec<f64>,
    /// Latencies of the recalls with [`USUAL_K`] hits. Empty if no recall was run.
    pub(super) latencies: Times,
}

/// The ranks of the relevant messages and sessions among the hits of one labelled question.
pub(super) struct Answer<'a> {
    pub(super) question: &'a Question,
    pub(super) messages: RelevantRanks,
    pub(super) sessions: RelevantRanks,
}

impl<'a> Answers<'a> {
    /// Runs each question twice: once with `k` hits or more, enough for all metrics, and once with [`USUAL_K`] hits for
    /// the latency.
    pub(super) fn new(ingested: &IngestedSet<'a>, variant: &Variant, k: usize) -> anyhow::Result<Self> {
        let set = ingested.set;
        let progress = Progress::new();
        progress.begin(&format!("{}, {variant}", set.name), "questions", 2 * set.questions.len() as u64);
        let ask =
            |question: &Question, k: usize| ingested.recall(&question.namespace, variant.apply(set.ask(question).k(k)));
        let mut rankings = Vec::new();
        for question in &set.questions {
            rankings.push(ranking_of(&ask(question, k.max(set.depth()))?));
            progress.inc(1);
        }
        let (mut answerability, mut latencies) = (Vec::new(), Times::default());
        for question in &set.questions {
            let hits = latencies.time(|| ask(question, USUAL_K))?;
            answerability.push(f64::from(hits.answerability()));
            progress.inc(1);
        }
        Ok(Answers { answerability, latencies, ..Answers::of(set, rankings) })
    }

    /// Compares rankings with the labels of the set's questions. There is one for each question, in the same order.
    pub(super) fn of(set: &'a Set, mut rankings: Vec<Ranking>) -> Self {
        if set.benchmark == Benchmark::Beir {
            // A query that is itself a document of the corpus must not find itself, as in BEIR.
            for (question, ranking) in set.questions.iter().zip(&mut rankings) {
                ranking.retain(|message| message.id != question.id);
            }
        }
        let answers = set.questions.iter().zip(&rankings);
        let answers = answers.filter(|(question, _)| !question.relevant.is_empty());
        let labelled = answers.map(|(question, ranking)| Answer::new(question, ranking)).collect();
        Answers { labelled, rankings, answerability: Vec::new(), latencies: Times::default() }
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
            relevant: vec!["d".into(), "x".into(), "e".into()],
            sessions: vec!["1".into(), "3".into(), "9".into()],
            ..Question::new("q", "n".parse().unwrap(), "?")
        };
        let answer = Answer::new(&question, &ranking_of(&hits));
        assert_eq!((answer.messages.ranks, answer.messages.relevant), (vec![4, 5], 3));
        assert_eq!(answer.sessions.ranks, [1, 3]);
        assert_eq!(answer.sessions.hit_at(1), 1.0);
        assert!((answer.sessions.recall_at(5) - 2.0 / 3.0).abs() < 1e-12);
        assert!((answer.sessions.recall_at(2) - 1.0 / 3.0).abs() < 1e-12);
    }
}
