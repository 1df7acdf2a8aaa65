//! Fits factors by listwise logistic regression: a softmax over the candidates of each question.
//!
//! The objective is concave, so that Newton's method finds its maximum in a few steps. A normal prior with mean 1 and
//! deviation 1 on each factor keeps a few questions from moving the factors far, and leaves a term that no candidate has
//! at 1.

use super::terms::{BUILT_IN, Candidate, PerTerm, TERMS};

const STEPS: usize = 40;
const COUNT: usize = TERMS.len();

/// The candidates of a question, with the weight that it has in the fit.
pub(super) struct Example<'a> {
    pub(super) candidates: &'a [Candidate],
    pub(super) weight: f64,
}

/// The objective at some factors, with its gradient and the negative of its Hessian.
struct Point {
    value: f64,
    gradient: PerTerm,
    curvature: [PerTerm; COUNT],
}

/// Returns the factors with the highest likelihood of the relevant candidates. Questions without one say nothing.
pub(super) fn fit(examples: &[Example]) -> PerTerm {
    let mut factors = BUILT_IN;
    let mut point = Point::new(examples, &factors);
    for _ in 0..STEPS {
        let step = solve(point.curvature, point.gradient);
        // Half of it until the objective rises: far from the maximum a whole step may overshoot.
        let mut share = 1.0;
        let next = loop {
            let next: PerTerm = std::array::from_fn(|at| factors[at] + share * step[at]);
            let reached = Point::new(examples, &next);
            if reached.value > point.value {
                break Some((next, reached));
            }
            share /= 2.0;
            if share < 1e-4 {
                break None;
            }
        };
        let Some((next, reached)) = next else { break };
        let gain = reached.value - point.value;
        (factors, point) = (next, reached);
        if gain < 1e-9 {
            break;
        }
    }
    factors
}

impl Point {
    fn new(examples: &[Example], factors: &PerTerm) -> Self {
        let mut point = Point { value: 0.0, gradient: [0.0; COUNT], curvature: [[0.0; COUNT]; COUNT] };
        for at in 0..COUNT {
            let off = factors[at] - BUILT_IN[at];
            point.value -= off * off / 2.0;
            point.gradient[at] -= off;
            point.curvature[at][at] += 1.0;
        }
        for Example { candidates, weight } in examples {
            point.add(candidates, *weight, factors);
        }
        point
    }

    /// Adds the mean log-likelihood of a question's relevant candidates, times its weight.
    fn add(&mut self, candidates: &[Candidate], weight: f64, factors: &PerTerm) {
        let relevant = candidates.iter().filter(|candidate| candidate.is_relevant).count() as f64;
        if relevant == 0.0 {
            return;
        }
        let scores: Vec<f64> = candidates.iter().map(|candidate| candidate.score(factors)).collect();
        let highest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let odds: Vec<f64> = scores.iter().map(|score| (score - highest).exp()).collect();
        let sum: f64 = odds.iter().sum();
        let (mut mean, mut square) = ([0.0; COUNT], [[0.0; COUNT]; COUNT]);
        for ((candidate, score), odds) in candidates.iter().zip(&scores).zip(odds) {
            let share = odds / sum;
            for a in 0..COUNT {
                let product = share * candidate.terms[a];
                mean[a] += product;
                for (sum, term) in square[a].iter_mut().zip(&candidate.terms).take(a + 1) {
                    *sum += product * term;
                }
            }
            if candidate.is_relevant {
                self.value += weight / relevant * (score - highest - sum.ln());
                for a in 0..COUNT {
                    self.gradient[a] += weight / relevant * candidate.terms[a];
                }
            }
        }
        for a in 0..COUNT {
            self.gradient[a] -= weight * mean[a];
            for b in 0..COUNT {
                self.curvature[a][b] += weight * (square[a.max(b)][a.min(b)] - mean[a] * mean[b]);
            }
        }
    }
}

/// Solves a system with a symmetric, positive definite matrix by elimination.
fn solve(mut matrix: [PerTerm; COUNT], mut right: PerTerm) -> PerTerm {
    for pivot in 0..COUNT {
        for row in pivot + 1..COUNT {
            let factor = matrix[row][pivot] / matrix[pivot][pivot];
            let above = matrix[pivot];
            for (value, above) in matrix[row].iter_mut().zip(above).skip(pivot) {
                *value -= factor * above;
            }
            right[row] -= factor * right[pivot];
        }
    }
    for row in (0..COUNT).rev() {
        let known: f64 = (row + 1..COUNT).map(|column| matrix[row][column] * right[column]).sum();
        right[row] = (right[row] - known) / matrix[row][row];
    }
    right
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(dense: f64, lexical: f64, is_relevant: bool) -> Candidate {
        let mut terms = [0.0; COUNT];
        (terms[0], terms[1]) = (dense, lexical);
        Candidate { terms, rest: 0.0, id: String::new(), is_relevant }
    }

    #[test]
    fn factors_reach_the_maximum_likelihood() {
        // In three of four questions the first candidate is relevant, whose dense term is higher by 1: the odds of 3 have
        // the factor ln 3. With weights of 1,000 the prior is negligible.
        let question = |first| vec![candidate(1.0, 0.5, first), candidate(0.0, 0.5, !first)];
        let questions = [question(true), question(true), question(true), question(false)];
        let examples: Vec<Example> =
            questions.iter().map(|candidates| Example { candidates, weight: 1_000.0 }).collect();
        let factors = fit(&examples);
        assert!((factors[0] - 3f64.ln()).abs() < 1e-3, "{factors:?}");
        // The lexical term is the same everywhere and says nothing: it keeps its factor.
        assert!(factors[1..].iter().all(|factor| (factor - 1.0).abs() < 1e-9), "{factors:?}");
        // Questions without a relevant candidate say nothing.
        let nothing = [candidate(5.0, 0.0, false), candidate(0.0, 0.0, false)];
        assert_eq!(fit(&[Example { candidates: &nothing, weight: 9.0 }]), BUILT_IN);
    }

    #[test]
    fn a_few_separable_questions_stay_near_the_built_in_factors() {
        let question = [candidate(1.0, 0.0, true), candidate(0.0, 3.0, false)];
        let factors = fit(&[Example { candidates: &question, weight: 1.0 }]);
        assert!(factors[0] > 1.0 && factors[0] < 3.0 && factors[1] < 1.0 && factors[1] > -1.0, "{factors:?}");
        // The gradient is 0 at the maximum.
        let point = Point::new(&[Example { candidates: &question, weight: 1.0 }], &factors);
        assert!(point.gradient.iter().all(|slope| slope.abs() < 1e-4), "{:?}", point.gradient);
    }
}
