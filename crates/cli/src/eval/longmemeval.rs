//! The figures of LongMemEval, as its script `eval_utils.py` counts them.
//!
//! Turns are ranked among the hits that are turns of the user, since the script's corpus has no others. A question
//! without a labelled user turn is left out. At session level a session has the rank of its first hit, of any role.
//! Abstention questions are left out of both; their answerability is a figure of its own.

use std::collections::BTreeMap;

use mnemon::Role;
use serde::Serialize;

use super::{
    answers::{self, Answers},
    figures::{self, figure},
    set::{ALL, Benchmark, Question, Set},
};
use crate::{
    metrics::{RelevantRanks, auc, mean},
    output::{self, counted},
};

const KS: [usize; 4] = [5, 10, 30, 50];
/// Names and definitions of the figures, for text.
const FIGURES: [(&str, &str); 3] = [
    ("recall_any@k", "share of the questions with at least one piece of evidence among the first k"),
    ("recall_all@k", "share of the questions with all their evidence among the first k"),
    ("ndcg_any@k", "sum of 1 at rank 1 and 1 / log2(rank) from rank 2 for the evidence, divided by the best possible"),
];

/// LongMemEval's figures of one ranking.
#[derive(Serialize)]
pub(super) struct LongMemEval {
    /// Figures by type of question, and of all questions.
    turn: BTreeMap<String, Level>,
    session: BTreeMap<String, Level>,
    /// `None` if no recall was run, or the set has no such questions.
    #[serde(skip_serializing_if = "Option::is_none")]
    abstention: Option<Abstention>,
}

/// Means over the questions of a type.
#[derive(Serialize)]
struct Level {
    questions: usize,
    recall_any: BTreeMap<usize, f64>,
    recall_all: BTreeMap<usize, f64>,
    ndcg_any: BTreeMap<usize, f64>,
}

/// The answerability of the questions that the history does not answer, beside that of the others.
#[derive(Serialize)]
struct Abstention {
    questions: usize,
    answerability: f64,
    answerable_questions: usize,
    answerability_of_answerable: f64,
    /// Probability that an answerable question has the higher answerability.
    auc: f64,
}

impl LongMemEval {
    /// Computes the figures if the set is one of LongMemEval's.
    pub(super) fn new(set: &Set, answers: &Answers) -> Option<Self> {
        if set.benchmark != Benchmark::LongMemEval {
            return None;
        }
        let (mut turn, mut session) = (BTreeMap::new(), BTreeMap::new());
        for (question, ranking) in set.questions.iter().zip(&answers.rankings).filter(|(one, _)| !one.abstains) {
            for group in [question.category.as_str(), ALL] {
                if !question.relevant.is_empty() {
                    let users = ranking.iter().filter(|message| message.role == Role::User);
                    let ranks = RelevantRanks::new(users.map(|message| message.id.as_str()), &question.relevant);
                    turn.entry(group.to_owned()).or_insert_with(Vec::new).push(ranks);
                }
                if !question.sessions.is_empty() {
                    let ranks = answers::session_ranks(question, ranking);
                    session.entry(group.to_owned()).or_insert_with(Vec::new).push(ranks);
                }
            }
        }
        let levels = |groups: BTreeMap<String, Vec<RelevantRanks>>| {
            groups.into_iter().map(|(group, ranks)| (group, Level::of(&ranks))).collect()
        };
        let abstention = Abstention::new(&set.questions, &answers.answerability);
        Some(LongMemEval { turn: levels(turn), session: levels(session), abstention })
    }

    pub(super) fn print(&self, variant: &str) -> anyhow::Result<()> {
        for (level, groups) in [("turn level", &self.turn), ("session level", &self.session)] {
            let mut heads = vec![format!("LongMemEval, {level} ({variant})"), "questions".to_owned()];
            for name in ["recall_any", "recall_all", "ndcg_any"] {
                heads.extend(KS.map(|k| format!("{name}@{k}")));
            }
            let mut rows = vec![heads];
            let last = groups.get_key_value(ALL);
            for (group, scores) in groups.iter().filter(|(group, _)| *group != ALL).chain(last) {
                let values = [&scores.recall_any, &scores.recall_all, &scores.ndcg_any];
                let values = values.into_iter().flat_map(BTreeMap::values).copied().map(figure);
                rows.push([group.clone(), scores.questions.to_string()].into_iter().chain(values).collect());
            }
            figures::print(&rows)?;
        }
        figures::define(&FIGURES)?;
        let Some(Abstention { questions, answerability, answerable_questions, answerability_of_answerable, auc }) =
            self.abstention
        else {
            return Ok(());
        };
        output::text(&format!(
            "\nabstention: {}, mean answerability {answerability:.3}; {}: {answerability_of_answerable:.3}; AUC {auc:.3}\n  \
             AUC: probability that an answerable question has the higher answerability",
            counted(questions, "question"),
            counted(answerable_questions, "answerable question")
        ))
    }
}

impl Level {
    fn of(ranks: &[RelevantRanks]) -> Self {
        let at = |metric: fn(&RelevantRanks, usize) -> f64| -> BTreeMap<usize, f64> {
            KS.iter().map(|&k| (k, mean(&ranks.iter().map(|ranks| metric(ranks, k)).collect::<Vec<_>>()))).collect()
        };
        Level {
            questions: ranks.len(),
            recall_any: at(RelevantRanks::hit_at),
            recall_all: at(RelevantRanks::all_at),
            ndcg_any: at(RelevantRanks::ndcg_any_at),
        }
    }
}

impl Abstention {
    fn new(questions: &[Question], answerability: &[f64]) -> Option<Self> {
        let of = |abstains: bool| -> Vec<f64> {
            let scored = questions.iter().zip(answerability);
            scored.filter(|(question, _)| question.abstains == abstains).map(|(_, value)| *value).collect()
        };
        let (answerable, mut abstained) = (of(false), of(true));
        Some(Abstention {
            auc: auc(&answerable, &mut abstained)?,
            questions: abstained.len(),
            answerability: mean(&abstained),
            answerable_questions: answerable.len(),
            answerability_of_answerable: mean(&answerable),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{super::answers::RankedMessage, *};

    #[test]
    fn figures_match_hand_computed_values() {
        let question = |id: &str, relevant: &[&str], abstains| Question {
            relevant: relevant.iter().map(|id| (*id).to_owned()).collect(),
            sessions: if abstains { Vec::new() } else { vec!["s2".to_owned()] },
            category: "a".into(),
            abstains,
            ..Question::new(id, "n".parse().unwrap(), "?")
        };
        // The third has no labelled user turn, and counts at session level alone.
        let questions = vec![
            question("1", &["s1_1", "s2_1"], false),
            question("2", &["s2_1"], false),
            question("3", &[], false),
            question("4_abs", &[], true),
        ];
        let set = Set::new("s".into(), Vec::new(), questions, Benchmark::LongMemEval);
        let ranking = |ids: &[(&str, Role)]| -> Vec<RankedMessage> {
            let ranked = |(id, role): &(&str, Role)| {
                let session = id.split('_').next().unwrap().to_owned();
                RankedMessage { id: (*id).to_owned(), session, role: *role, score: 0.0 }
            };
            ids.iter().map(ranked).collect()
        };
        let (user, assistant) = (Role::User, Role::Assistant);
        let noise: Vec<(String, Role)> = (0..5).map(|at| (format!("x_{at}"), user)).collect();
        let noise: Vec<(&str, Role)> = noise.iter().map(|(id, role)| (id.as_str(), *role)).collect();
        let first = [&[("s1_2", assistant), ("s1_1", user)][..], &noise, &[("s2_1", user)]].concat();
        let rankings = vec![
            ranking(&first),
            ranking(&[("s3_2", assistant), ("s3_1", user), ("s1_1", user), ("s2_1", user)]),
            ranking(&[("s2_2", assistant)]),
            ranking(&[("s2_1", user)]),
        ];
        let mut answers = Answers::of(&set, rankings);
        answers.answerability = vec![0.9, 0.5, 0.7, 0.6];
        let LongMemEval { turn, session, abstention } = LongMemEval::new(&set, &answers).unwrap();
        let turn = &turn[ALL];
        // User turns: ranks 1 and 7 of the first question, 3 of the second.
        assert_eq!(
            (turn.questions, turn.recall_any[&5], turn.recall_all[&5], turn.recall_all[&10]),
            (2, 1.0, 0.5, 1.0)
        );
        let second = 1.0 / 3f64.log2();
        // Of the first question, rank 1 of two pieces: 1 / (1 + 1).
        assert!((turn.ndcg_any[&5] - (0.5 + second) / 2.0).abs() < 1e-12);
        assert!((turn.ndcg_any[&10] - ((1.0 + 1.0 / 7f64.log2()) / 2.0 + second) / 2.0).abs() < 1e-12);
        // Sessions: s2 is third in both (s1, x, s2; s3, s1, s2), and first.
        let session = &session["a"];
        assert_eq!((session.questions, session.recall_any[&5]), (3, 1.0));
        assert!((session.ndcg_any[&5] - (2.0 * second + 1.0) / 3.0).abs() < 1e-12);
        let abstention = abstention.unwrap();
        assert_eq!((abstention.questions, abstention.answerable_questions), (1, 3));
        assert_eq!((abstention.auc, abstention.answerability), (2.0 / 3.0, 0.6));
    }
}
