//! The trait of rerankers, and the checked call of one.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::error::{Error, Result};

/// Scores the passages that a search found for a query, more precisely than the similarity of vectors.
///
/// Implement it for a remote model or a model of your own; `CrossEncoder` (feature `onnx`) runs a model folder. The
/// engine calls a reranker from threads of its own, so a call may block.
pub trait Reranker: Send + Sync {
    /// Returns the name that errors show.
    fn name(&self) -> &str;

    /// Returns one score for each passage, in order: finite, on any scale, higher is better.
    ///
    /// # Errors
    /// [`Error::Reranking`]; [`Error::InvalidQuery`] if the reranker cannot take this query.
    fn rerank(&self, query: &str, passages: &[&str]) -> Result<Vec<f32>>;
}

/// Calls [`Reranker::rerank`] and checks that there are as many scores as passages, all finite. A panic in a reranker
/// fails the call; it does not end the engine's thread.
pub(crate) fn rerank(reranker: &dyn Reranker, query: &str, passages: &[&str]) -> Result<Vec<f32>> {
    let failed = |reason: String| Error::Reranking { reranker: reranker.name().to_owned(), reason, source: None };
    let scores = catch_unwind(AssertUnwindSafe(|| reranker.rerank(query, passages)))
        .unwrap_or_else(|_| Err(failed("it panicked".into())))?;
    if scores.len() != passages.len() {
        return Err(failed(format!("{} scores for {} passages", scores.len(), passages.len())));
    }
    match scores.iter().find(|score| !score.is_finite()) {
        Some(score) => Err(failed(format!("a score is {score}"))),
        None => Ok(scores),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns fixed scores.
    struct Fixed(Scores);

    type Scores = fn() -> Result<Vec<f32>>;

    impl Reranker for Fixed {
        fn name(&self) -> &str {
            "fixed"
        }

        fn rerank(&self, _: &str, _: &[&str]) -> Result<Vec<f32>> {
            (self.0)()
        }
    }

    #[test]
    fn scores_are_returned() {
        assert_eq!(rerank(&Fixed(|| Ok(vec![-3.0, 7.5])), "q", &["a", "b"]).unwrap(), [-3.0, 7.5]);
        assert_eq!(rerank(&Fixed(|| Ok(vec![])), "q", &[]).unwrap(), [0.0; 0]);
    }

    #[test]
    fn unusable_scores_are_an_error() {
        let rows: [(Scores, &str); 6] = [
            (|| Ok(vec![1.0]), "1 scores for 2 passages"),
            (|| Ok(vec![1.0; 3]), "3 scores for 2 passages"),
            (|| Ok(vec![1.0, f32::NAN]), "a score is NaN"),
            (|| Ok(vec![f32::NEG_INFINITY, 1.0]), "a score is -inf"),
            (|| panic!("on purpose"), "it panicked"),
            (|| Err(Error::Reranking { reranker: "fixed".into(), reason: "busy".into(), source: None }), "busy"),
        ];
        for (fixed, reason) in rows {
            let error = rerank(&Fixed(fixed), "q", &["a", "b"]).unwrap_err().to_string();
            assert_eq!(
                error,
                format!("reranker \"fixed\" failed: {reason}; query without the reranker, or use another one")
            );
        }
    }
}
