//! Queries of one ranking strategy, and what they find.

use mnemon::{Engine, Namespace, Query, RankingStrategy};

/// Returns the ids of the hits, best first.
pub(crate) fn recalled_ids(engine: &Engine, space: &Namespace, query: Query) -> Vec<String> {
    engine.blocking().recall(space, query).unwrap().into_iter().map(|hit| hit.message.id).collect()
}

/// Returns a query that is ranked by vectors alone and keeps duplicates.
pub(crate) fn dense(text: impl Into<String>) -> Query {
    Query::new(text).strategy(RankingStrategy::Dense).keep_duplicates()
}

/// Returns a query that is ranked by terms alone and keeps duplicates.
pub(crate) fn lexical(text: impl Into<String>) -> Query {
    Query::new(text).strategy(RankingStrategy::Lexical).keep_duplicates()
}
