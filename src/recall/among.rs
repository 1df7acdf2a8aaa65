//! A namespace among several that one query asks: what its candidates have in common with those of the others.

use super::{prepare::PreparedQuery, query::RankingStrategy};
use crate::lexical::{Analyzer, Collection, Language};

/// The context of a search of one namespace: the other namespaces that are asked. The default is a namespace alone.
#[derive(Default)]
pub(super) struct Among {
    /// The position of the namespace.
    pub(super) origin: u32,
    /// The documents of all namespaces; `None` for one alone.
    pub(super) collection: Option<Collection>,
    /// The nearest messages, and those with the best BM25.
    pub(super) nearest: Threshold,
    pub(super) by_terms: Threshold,
    /// The terms of the query in each language.
    terms: Vec<(Language, Vec<u64>)>,
}

/// The least score that a message must have to be one of the `count` best of the namespaces that were searched so far.
#[derive(Default)]
pub(super) struct Threshold {
    /// `None`: any score will do.
    count: Option<usize>,
    /// The best scores, in no order.
    best: Vec<f32>,
    least: Option<f32>,
}

impl Among {
    /// One of several namespaces, with the documents of all.
    pub(super) fn of(collection: Collection) -> Self {
        Among { collection: Some(collection), ..Among::default() }
    }

    /// Begins to search several namespaces, for the `count` nearest messages and as many by terms.
    pub(super) fn begin(&mut self, count: usize) {
        let threshold = || Threshold { count: Some(count), ..Threshold::default() };
        (self.nearest, self.by_terms) = (threshold(), threshold());
    }

    /// The terms of a query in a language; none if it is ranked by vectors alone.
    pub(super) fn terms(&mut self, language: Language, query: &PreparedQuery) -> &[u64] {
        let known = self.terms.iter().position(|(other, _)| *other == language);
        let at = known.unwrap_or_else(|| {
            let mut terms = Vec::new();
            if query.ranking.strategy != RankingStrategy::Dense {
                Analyzer::of(language).terms(&query.query.text, &mut terms);
            }
            self.terms.push((language, terms));
            self.terms.len() - 1
        });
        &self.terms[at].1
    }
}

impl Threshold {
    /// Drops what is below the threshold, which rises by the scores of the others that may be hits. Returns true if
    /// nothing was dropped.
    pub(super) fn retain<T>(
        &mut self,
        found: &mut Vec<T>,
        score: impl Fn(&T) -> f32,
        may_be_hit: impl Fn(&T) -> bool,
    ) -> bool {
        let Some(count) = self.count else { return true };
        let before = found.len();
        if let Some(least) = self.least {
            found.retain(|found| score(found) >= least);
        }
        self.best.extend(found.iter().filter(|found| may_be_hit(found)).map(score));
        if self.best.len() >= count {
            self.best.select_nth_unstable_by(count - 1, |a, b| b.total_cmp(a));
            self.best.truncate(count);
            self.least = self.best.last().copied();
        }
        found.len() == before
    }

    /// Returns true if there are as many messages as are searched for.
    pub(super) fn is_filled(&self) -> bool {
        self.least.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_below_the_best_so_far_is_dropped() {
        let mut threshold = Threshold { count: Some(3), ..Threshold::default() };
        let mut retain = |scores: &[f32]| {
            let mut found = scores.to_vec();
            (threshold.retain(&mut found, |score| *score, |score| *score != 9.0), found)
        };
        assert_eq!(retain(&[1.0, 9.0, -2.0]), (true, vec![1.0, 9.0, -2.0]));
        assert_eq!(retain(&[0.5]), (true, vec![0.5]), "9 is no hit, so -2 is the third");
        assert_eq!(retain(&[-2.0, -3.0, 0.7]), (false, vec![-2.0, 0.7]), "as good as the third");
        assert_eq!(retain(&[0.4, 0.5]), (false, vec![0.5]));
        assert!(Threshold::default().retain(&mut vec![1.0], |score| *score, |_| true));
    }
}
