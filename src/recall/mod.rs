//! Recall: a query, its candidates in a loaded namespace, their scores, and the choice of hits among them.
//!
//! A recall is a loop in `find`: a searcher finds candidates, ranked; hits are chosen among them; if they are too few,
//! the searcher looks for four times as many. The files in the order in which a recall goes through them:
//!
//! - `query` has the [`Query`], and `options` its options, once for all who tell them. `pieces` cuts a long
//!   text, `prepare` resolves the names in them and embeds the text; `when` reads the times that the text names.
//! - `search` is the searcher of one namespace, `multi_namespace` that of several, which a [`Scope`] names.
//! - `candidates` gathers the evidence from both indexes, `statistics` the numbers that it is compared with, `rank`
//!   turns evidence into scores, and `relevance` estimates what they are worth.
//! - `find` chooses the hits, by `same_text`, which recognizes near-duplicates, by `updates`, which recognizes what is out of
//!   date (with the words in `change_words`), by `echo`, which recognizes what repeats the question, and by `arrange`, which joins messages to turns and sessions.
//!
//! A loaded namespace is a `namespace`, with the `vectors` and the rows (`row_filter`) of its index. `unindexed` has the
//! messages that are not embedded yet, `metadata` those that a filter on metadata matches. `load` reads a namespace from
//! the store, `changes` applies later commits to it.
//!
//! The engine keeps loaded namespaces, applies commits to them and maintains their graphs in the background: nothing
//! here writes to the store.

mod options;
mod pieces;
mod prepare;
mod query;
mod when;

mod multi_namespace;
mod score_buffers;
mod search;

mod candidates;
mod rank;
mod relevance;
mod statistics;

mod arrange;
mod change_words;
mod echo;
mod find;
mod hit;
mod same_text;
mod updates;

mod changes;
mod load;
mod metadata;
mod namespace;
mod row_filter;
mod unindexed;
mod vectors;

pub(crate) use arrange::keep_positions;
pub(crate) use changes::{AddedRows, NamespaceChange, SegmentChange};
pub(crate) use find::find_hits;
pub(crate) use hit::Seen;
pub use hit::{Hit, Hits, ScoreBreakdown};
pub(crate) use load::{ReadGraph, StoredWords, check_graphs, check_lexical, load, read_segment, read_words};
pub use multi_namespace::Scope;
pub(crate) use multi_namespace::{LoadedHandle, Member, MultiNamespaceSearch, NamespaceSource};
pub(crate) use namespace::LoadedMessages;
pub use options::{MAX_K, QueryOptions, RankingStrategy, TimeUse, Unit};
pub(crate) use prepare::{PreparedQuery, embed_query};
pub use query::{MAX_QUERY_BYTES, Query};
pub(crate) use query::{MessageParts, check_query_text};
pub(crate) use rank::Ranked;
pub(crate) use score_buffers::ScoreBuffers;
pub(crate) use search::{NamespaceSearch, SearchResources, Searcher};
pub(crate) use unindexed::Unindexed;
pub(crate) use updates::{Asked, superseding_pairs};
pub(crate) use vectors::{Estimate, MeasuredGraph, OnSample};
pub use when::{TimeExpression, TimeSpan, time_expressions, time_expressions_in};
