//! Recall: a query, its candidates in a loaded namespace, their scores, and the choice of hits among them.
//!
//! A recall goes down through these files: `prepare` resolves and embeds the [`Query`]; `choose` finds the hits, by
//! `search`, which searches wider and wider, `candidates`, which gathers the evidence from both indexes of the
//! `namespace`, and `rank`, which turns evidence into scores. `join` joins messages to turns and sessions; `supersede`
//! finds out which hits are out of date. `several` does so for several namespaces together. `load`
//! reads a namespace from the store, `changes` applies later commits to it. `unindexed` has the messages that are not
//! embedded yet, `metadata` those that a filter on metadata matches.
//!
//! The engine keeps loaded namespaces, applies commits to them and maintains their graphs in the background: nothing
//! here writes to the store.

mod among;
mod answerability;
mod candidate_vectors;
mod candidates;
mod changes;
mod check;
mod choose;
mod duplicates;
mod hit;
mod join;
mod load;
mod measured_graph;
mod metadata;
mod metadata_columns;
mod namespace;
mod positions;
mod prepare;
mod query;
mod query_options;
mod rank;
mod row_metas;
mod sample;
mod scope;
mod search;
mod segments;
mod seq_set;
mod several;
mod statistics;
mod supersede;
mod unindexed;
mod unit;
mod when;

pub(crate) use changes::{AddedRows, NamespaceChange, SegmentChange};
pub(crate) use check::{check_graphs, check_lexical};
pub(crate) use choose::find_hits;
pub(crate) use hit::Seen;
pub use hit::{Hit, Hits, ScoreBreakdown};
pub(crate) use load::{ReadGraph, load};
pub(crate) use measured_graph::{Estimate, MeasuredGraph, OnSample};
pub(crate) use namespace::NamespaceIndex;
pub(crate) use positions::keep_positions;
pub(crate) use prepare::{PreparedQuery, embed_query};
pub(crate) use query::check_query_text;
pub use query::{MAX_K, MAX_QUERY_BYTES, Query, RankingStrategy, TimeUse};
pub(crate) use rank::Ranked;
pub use scope::Scope;
pub(crate) use search::{ScoreBuffers, SearchOutcome, search_until};
pub(crate) use segments::{language, read_segment};
pub(crate) use several::find_hits_in_several;
pub(crate) use supersede::superseding_pairs;
pub(crate) use unindexed::Unindexed;
pub use unit::Unit;
pub use when::{TimeExpression, TimeSpan, time_expressions, time_expressions_at_offset};
