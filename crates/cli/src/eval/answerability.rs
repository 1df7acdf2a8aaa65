//! Measures how well answerability separates questions that a namespace can answer from those that it cannot.

use std::collections::BTreeMap;

use mnemon::Namespace;
use serde::Serialize;

use super::{
    answers::{Answers, IngestedSet, USUAL_K},
    figures::{self, figure},
    set::{ADVERSARIAL, Set},
    variant::Variant,
};
use crate::{
    metrics::{Random, auc, mean},
    output::{self, counted},
};

/// Number of questions that are taken from other sets.
const SAMPLE: usize = 300;
const SEED: u64 = 7;

const OTHER_NAMESPACE: &str = "other namespace";
const OTHER_SETS: &str = "other sets";

#[derive(Serialize)]
pub(super) struct Answerability {
    /// Number of questions whose answer is in their namespace.
    answerable: usize,
    /// Questions whose answer is not in the namespace, by kind.
    negatives: BTreeMap<&'static str, Negatives>,
    thresholds: Vec<Threshold>,
    /// All but the adversarial questions, in ten groups of equal size by ascending answerability.
    calibration: Vec<Tenth>,
}

#[derive(Serialize)]
struct Negatives {
    questions: usize,
    /// The probability that an answerable question has a higher answerability than one of these.
    auc: f64,
}

/// The effect of refusing all questions below an answerability.
#[derive(Serialize)]
struct Threshold {
    least: f64,
    /// Share of the answerable questions that are still answered.
    answered: f64,
    /// Share of the questions that are refused, by kind.
    refused: BTreeMap<&'static str, f64>,
}

#[derive(Serialize)]
struct Tenth {
    questions: usize,
    answerability: f64,
    /// Share of the questions whose answer is in the namespace.
    answerable: f64,
}

impl Answerability {
    /// Measures the answers of a variant, and asks the namespaces questions of other namespaces and sets with the same
    /// variant.
    pub(super) fn new(
        ingested: &IngestedSet,
        variant: &Variant,
        answers: &Answers,
        sets: &[Set],
    ) -> anyhow::Result<Self> {
        let (set, questions) = (ingested.set, &ingested.set.questions);
        let scored = || questions.iter().zip(&answers.answerability);
        let answerable: Vec<f64> =
            scored().filter(|(question, _)| question.is_answerable()).map(|(_, &value)| value).collect();
        let adversarial = scored().filter(|(question, _)| question.is_adversarial()).map(|(_, &value)| value).collect();

        let namespaces: Vec<&Namespace> = set.namespaces().collect();
        let ask = |(namespace, text): (&Namespace, &str)| -> anyhow::Result<f64> {
            let hits = ingested.recall(namespace, variant.apply(set.query(namespace, text).k(USUAL_K)))?;
            Ok(f64::from(hits.answerability()))
        };
        let next = |namespace: &Namespace| {
            let other = namespaces.iter().find(|other| **other > namespace).or(namespaces.first())?;
            (*other != namespace).then_some(*other)
        };
        let own = questions.iter().filter(|question| question.is_answerable());
        let elsewhere = own.filter_map(|question| Some((next(&question.namespace)?, question.text.as_str())));
        let others = sets.iter().filter(|other| !std::ptr::eq(*other, set)).flat_map(|other| &other.questions);
        let others =
            others.filter(|question| question.is_answerable()).map(|question| question.text.as_str()).collect();
        let others = Random::new(SEED).sample(others, SAMPLE);
        let foreign = namespaces.iter().copied().cycle().zip(others);

        let negatives = [
            (ADVERSARIAL, adversarial),
            (OTHER_NAMESPACE, elsewhere.map(ask).collect::<anyhow::Result<Vec<f64>>>()?),
            (OTHER_SETS, foreign.map(ask).collect::<anyhow::Result<Vec<f64>>>()?),
        ];
        Ok(Answerability::of(&answerable, negatives.into_iter().collect()))
    }

    fn of(answerable: &[f64], mut negatives: BTreeMap<&'static str, Vec<f64>>) -> Self {
        let share = |values: &[f64], is: &dyn Fn(f64) -> bool| {
            values.iter().filter(|&&value| is(value)).count() as f64 / values.len().max(1) as f64
        };
        negatives.retain(|_, values| !values.is_empty());
        let threshold = |tenths: u32| {
            let least = f64::from(tenths) / 10.0;
            let refused =
                negatives.iter().map(|(&kind, values)| (kind, share(values, &|value| value < least))).collect();
            Threshold { least, answered: share(answerable, &|value| value >= least), refused }
        };
        // Adversarial questions are about topics of the namespace: only reading shows that they have no answer.
        let strangers = negatives.iter().filter(|(kind, _)| **kind != ADVERSARIAL).flat_map(|(_, values)| values);
        let mut all: Vec<(f64, f64)> = answerable.iter().map(|&value| (value, 1.0)).collect();
        all.extend(strangers.map(|&value| (value, 0.0)));
        all.sort_by(|a, b| a.0.total_cmp(&b.0));
        let tenth = |tenth: usize| {
            let of = &all[all.len() * tenth / 10..all.len() * (tenth + 1) / 10];
            let (answerability, answerable): (Vec<f64>, Vec<f64>) = of.iter().copied().unzip();
            Tenth { questions: of.len(), answerability: mean(&answerability), answerable: mean(&answerable) }
        };
        let mut answerability = Answerability {
            answerable: answerable.len(),
            thresholds: (1..10).map(threshold).collect(),
            calibration: (0..10).map(tenth).filter(|tenth| tenth.questions > 0).collect(),
            negatives: BTreeMap::new(),
        };
        for (kind, mut values) in negatives {
            if let Some(auc) = auc(answerable, &mut values) {
                answerability.negatives.insert(kind, Negatives { questions: values.len(), auc });
            }
        }
        answerability
    }

    pub(super) fn print(&self, variant: &str) -> anyhow::Result<()> {
        output::text(&format!("\nanswerability ({variant}): {}", counted(self.answerable, "answerable question")))?;
        let mut rows = vec![vec!["against".to_owned(), "questions".to_owned(), "AUC".to_owned()]];
        for (kind, Negatives { questions, auc }) in &self.negatives {
            rows.push(vec![(*kind).to_owned(), questions.to_string(), figure(*auc)]);
        }
        figures::print(&rows)?;
        let mut rows = vec![vec!["at least".to_owned(), "answered".to_owned()]];
        rows[0].extend(self.negatives.keys().map(|kind| format!("{kind} refused")));
        for Threshold { least, answered, refused } in &self.thresholds {
            let mut row = vec![format!("{least:.1}"), figure(*answered)];
            row.extend(refused.values().copied().map(figure));
            rows.push(row);
        }
        figures::print(&rows)?;
        let tenths = |head: &str, of: fn(&Tenth) -> f64| {
            std::iter::once(head.to_owned()).chain(self.calibration.iter().map(|tenth| figure(of(tenth)))).collect()
        };
        figures::print(&[
            tenths("tenths of all but adversarial: mean answerability", |tenth| tenth.answerability),
            tenths("share of answerable questions", |tenth| tenth.answerable),
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn aucs_thresholds_and_tenths_match_hand_computed_values() {
        let negatives = [(ADVERSARIAL, vec![0.95, 0.2]), (OTHER_NAMESPACE, vec![0.05, 0.3]), (OTHER_SETS, vec![])];
        let made = Answerability::of(&[0.9, 0.8, 0.4], negatives.into_iter().collect());
        let aucs: Vec<_> = made.negatives.iter().map(|(kind, one)| (*kind, one.questions, one.auc)).collect();
        assert_eq!(aucs, [(ADVERSARIAL, 2, 0.5), (OTHER_NAMESPACE, 2, 1.0)]);
        let Threshold { least, answered, refused } = &made.thresholds[4];
        assert_eq!((*least, *answered), (0.5, 2.0 / 3.0));
        assert_eq!(refused.values().collect::<Vec<_>>(), [&0.5, &1.0]);
        // A question exactly at the threshold is answered: 0.4 is.
        assert_eq!(made.thresholds[3].answered, 1.0);
        // Five questions: each is a tenth of its own.
        let tenths: Vec<_> = made.calibration.iter().map(|tenth| (tenth.answerability, tenth.answerable)).collect();
        assert_eq!(tenths, [(0.05, 0.0), (0.3, 0.0), (0.4, 1.0), (0.8, 1.0), (0.9, 1.0)]);
    }
}
