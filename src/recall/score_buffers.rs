//! Buffers that searches share.

use parking_lot::Mutex;

use crate::lexical::Scores;

/// Buffers for the BM25 scores of all rows, reused from search to search.
#[derive(Default)]
pub(crate) struct ScoreBuffers(Mutex<Vec<Scores>>);

impl ScoreBuffers {
    pub(super) fn with<T>(&self, work: impl FnOnce(&mut Scores) -> T) -> T {
        let mut scores = self.take();
        let result = work(&mut scores);
        self.put_back([scores]);
        result
    }

    pub(super) fn take(&self) -> Scores {
        self.0.lock().pop().unwrap_or_default()
    }

    pub(super) fn put_back(&self, scores: impl IntoIterator<Item = Scores>) {
        let cleared = scores.into_iter().map(|mut scores| {
            scores.clear();
            scores
        });
        self.0.lock().extend(cleared);
    }
}
