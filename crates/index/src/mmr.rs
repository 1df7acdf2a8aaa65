//! Maximal marginal relevance: chooses candidates that are relevant to a query and unlike each other (Carbonell and
//! Goldstein, "The use of MMR, diversity-based reranking", SIGIR 1998).

/// Returns the cosine similarity of two vectors; 0 if one of them is zero.
pub fn cosine(a: &[f32], b: &[f32]) -> f64 {
    cosine_with(a, length(a), b, length(b))
}

fn cosine_with(a: &[f32], a_length: f64, b: &[f32], b_length: f64) -> f64 {
    let lengths = a_length * b_length;
    if lengths == 0.0 { 0.0 } else { dot(a, b) / lengths }
}

fn length(vector: &[f32]) -> f64 {
    dot(vector, vector).sqrt()
}

fn dot(a: &[f32], b: &[f32]) -> f64 {
    a.iter().zip(b).map(|(x, y)| f64::from(*x) * f64::from(*y)).sum()
}

/// Chooses `k` of the candidates like LangChain's `maximal_marginal_relevance`, and returns their positions in the
/// order of choice. If there are no more than `k` candidates, all are returned.
///
/// The first choice is the most relevant candidate. Each further choice has the highest `lambda * relevance - (1 -
/// lambda) * similarity`, the similarity being that to the most similar candidate chosen before. Among equal candidates
/// the first wins.
///
/// `relevance` has a number for each candidate, commonly its [`cosine`] with the query. `lambda` is from 0 (after the
/// first choice, only diversity counts) to 1 (only relevance counts). Cost: up to `k` inner products for each
/// candidate.
pub fn mmr(relevance: &[f64], candidates: &[&[f32]], k: usize, lambda: f64) -> Vec<usize> {
    let lengths: Vec<f64> = candidates.iter().map(|candidate| length(candidate)).collect();
    let mut left: Vec<usize> = (0..candidates.len()).collect();
    let mut chosen: Vec<usize> = Vec::new();
    // For each candidate, the similarity to the most similar chosen one. `None` before the first choice.
    let mut redundancy: Option<Vec<f64>> = None;
    while chosen.len() < k && !left.is_empty() {
        let score = |candidate: usize| match &redundancy {
            Some(redundancy) => lambda * relevance[candidate] - (1.0 - lambda) * redundancy[candidate],
            None => relevance[candidate],
        };
        let scores = left.iter().enumerate().map(|(position, &candidate)| (score(candidate), position));
        let best = scores.reduce(|best, next| if next.0 > best.0 { next } else { best });
        let best = left.remove(best.expect("the loop ends when no candidate is left").1);
        let redundancy = redundancy.get_or_insert_with(|| vec![f64::NEG_INFINITY; candidates.len()]);
        for &other in &left {
            let similarity = cosine_with(candidates[other], lengths[other], candidates[best], lengths[best]);
            redundancy[other] = redundancy[other].max(similarity);
        }
        chosen.push(best);
    }
    chosen
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, fs, path::Path};

    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    fn choose(query: &[f32], candidates: &[Vec<f32>], k: usize, lambda: f64) -> Vec<usize> {
        let candidates: Vec<&[f32]> = candidates.iter().map(Vec::as_slice).collect();
        let relevance: Vec<f64> = candidates.iter().map(|candidate| cosine(query, candidate)).collect();
        mmr(&relevance, &candidates, k, lambda)
    }

    #[test]
    fn chooses_as_langchain_does() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/compat/fixtures/mmr.jsonl");
        let cases = fs::read_to_string(path).unwrap();
        let cases = cases.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let mut equal = 0;
        for case in cases {
            let vectors: Vec<Vec<f32>> = serde_json::from_value(case["vectors"].clone()).unwrap();
            let query: Vec<f32> = serde_json::from_value(case["query"].clone()).unwrap();
            let (k, lambda) = (case["k"].as_u64().unwrap() as usize, case["lambda"].as_f64().unwrap());
            let chosen = choose(&query, &vectors, k, lambda);
            if case["known_defect"] == "no-cosine" {
                // LangChain fails on these: no candidate has a cosine with the query. Here the first candidate wins.
                assert_eq!(chosen.first(), Some(&0));
                continue;
            }
            let expected: Vec<usize> = serde_json::from_value(case["output"].clone()).unwrap();
            assert_eq!(chosen, expected, "case {}", case["case"]);
            equal += 1;
        }
        assert!(equal >= 80, "only {equal} cases");
    }

    proptest! {
        #[test]
        fn chooses_k_distinct_candidates_in_an_order_that_does_not_depend_on_k(
            rows in proptest::collection::vec(proptest::collection::vec(-2i8..3, 3), 0..12),
            k in 0usize..15,
            lambda in 0.0f64..=1.0,
        ) {
            let rows: Vec<Vec<f32>> = rows.into_iter().map(|row| row.into_iter().map(f32::from).collect()).collect();
            let query = [1.0, 0.5, -1.0];
            let chosen = choose(&query, &rows, k, lambda);
            prop_assert_eq!(chosen.len(), k.min(rows.len()));
            prop_assert_eq!(chosen.iter().collect::<BTreeSet<_>>().len(), chosen.len(), "no candidate is chosen twice");
            // With a smaller k, the choice is a prefix of the same order.
            prop_assert_eq!(&choose(&query, &rows, k / 2, lambda)[..], &chosen[..chosen.len().min(k / 2)]);
            let mut by_similarity: Vec<usize> = (0..rows.len()).collect();
            by_similarity.sort_by(|&a, &b| cosine(&query, &rows[b]).total_cmp(&cosine(&query, &rows[a])));
            by_similarity.truncate(k);
            prop_assert_eq!(choose(&query, &rows, k, 1.0), by_similarity);
        }
    }
}
