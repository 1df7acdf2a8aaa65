//! The terms of the hybrid score that factors are fitted for.

use mnemon::{Hit, ScoreBreakdown};

/// A term of the score.
pub(super) struct Term {
    pub(super) name: &'static str,
    pub(super) value: fn(&ScoreBreakdown) -> f32,
}

/// The terms, one a line. What a score has beyond these keeps its factor of 1.
pub(super) const TERMS: [Term; 8] = [
    Term { name: "dense", value: |score| score.dense },
    Term { name: "lexical", value: |score| score.lexical },
    Term { name: "neighbor", value: |score| score.neighbor },
    Term { name: "speaker", value: |score| score.speaker },
    Term { name: "question", value: |score| score.question },
    Term { name: "length", value: |score| score.length },
    Term { name: "time", value: |score| score.time },
    Term { name: "recency", value: |score| score.recency },
];

/// A value, or a factor, for each of the terms.
pub(super) type PerTerm = [f64; TERMS.len()];

/// The factors that the score has built in.
pub(super) const BUILT_IN: PerTerm = [1.0; TERMS.len()];

/// A hit as the fit sees it.
pub(super) struct Candidate {
    pub(super) terms: PerTerm,
    /// The part of the score that is no term of the table.
    pub(super) rest: f64,
    pub(super) id: String,
    pub(super) is_relevant: bool,
}

impl Candidate {
    pub(super) fn new(hit: &Hit, relevant: &[String]) -> Self {
        let terms: PerTerm = std::array::from_fn(|at| f64::from((TERMS[at].value)(&hit.breakdown)));
        Candidate {
            rest: f64::from(hit.score) - terms.iter().sum::<f64>(),
            terms,
            is_relevant: relevant.contains(&hit.message.id),
            id: hit.message.id.clone(),
        }
    }

    pub(super) fn score(&self, factors: &PerTerm) -> f64 {
        self.rest + self.terms.iter().zip(factors).map(|(term, factor)| term * factor).sum::<f64>()
    }
}

#[cfg(test)]
mod tests {
    use mnemon::Message;

    use super::*;

    #[test]
    fn factors_scale_the_terms_of_the_table_alone() {
        let mut hit = Hit::new(Message::user("x").with_id("a"), 6.0, 1);
        (hit.breakdown.dense, hit.breakdown.lexical) = (3.0, 2.0);
        let candidate = Candidate::new(&hit, &["a".to_owned()]);
        assert!(candidate.is_relevant && (candidate.score(&BUILT_IN) - 6.0).abs() < 1e-6);
        let mut factors = BUILT_IN;
        factors[0] = 2.0;
        // 2 * 3 + 2, and 1 that is no term.
        assert!((candidate.score(&factors) - 9.0).abs() < 1e-6);
    }
}
