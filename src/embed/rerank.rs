//! What scores the passages that were found for a question.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::error::{Error, Result};

/// Scores passages for a question, one by one, more closely than their vectors do.
///
/// Implement it for a remote or hand-made model; [`CrossEncoder`](crate::CrossEncoder) runs a model folder. Calls come from
/// threads of the engine's own and may block.
pub trait Reranker: Send + Sync {
    /// What errors call it.
    fn name(&self) -> &str;

    /// One score a passage, in order: finite, on any scale, higher is better.
    ///
    /// # Errors
    /// [`Error::Reranking`]; [`Error::InvalidQuery`], if the question is what it cannot take.
    fn rerank(&self, query: &str, passages: &[&str]) -> Result<Vec<f32>>;
}

/// [`Reranker::rerank`], checked: as many scores as passages, all finite. A panic in a reranker costs the call, not the
/// engine's thread.
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

    /// Gives what it is told to, whatever it is asked.
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
    fn scores_are_passed_on() {
        assert_eq!(rerank(&Fixed(|| Ok(vec![-3.0, 7.5])), "q", &["a", "b"]).unwrap(), [-3.0, 7.5]);
        assert_eq!(rerank(&Fixed(|| Ok(vec![])), "q", &[]).unwrap(), [0.0; 0]);
    }

    #[test]
    fn what_cannot_be_used_is_an_error() {
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
            assert_eq!(error, format!("reranker \"fixed\" failed: {reason}; ask without it, or give another"));
        }
    }
}
