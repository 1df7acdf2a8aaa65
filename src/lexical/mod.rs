//! Lexical search: which rows contain a term, scored by BM25.
//!
//! A *row* stands for one window of one message, as in the vector index, and its *document* is the list of terms of
//! that window. The [`Analyzer`] turns a text into terms, which are hashes; no string is kept. Documents are in
//! immutable [`Segment`]s, which the store keeps as bytes and the engine merges now and then. A [`LexicalIndex`] holds
//! the segments of one namespace and scores a query over the live rows.
//!
//! This module defines terms, the bytes of a segment and the scoring formula. It does not know where segments are
//! stored, what a message is, or how scores are combined with those of vectors.
//!
//! The rejected alternative is tantivy, which does all of this and phrase queries as well. But it has its own files and
//! threads, which a redb transaction cannot roll back, and several times the dependencies of this crate.

mod analyzer;
mod bm25;
mod characters;
mod collection;
mod fold;
mod index;
mod language;
mod open_segment;
mod scores;
mod segment;
mod stop_words;
mod term;
mod term_cache;
#[cfg(test)]
mod tests;
mod voice;

pub(crate) use analyzer::Analyzer;
pub(crate) use collection::Collection;
pub(crate) use index::LexicalIndex;
pub use language::Language;
pub(crate) use open_segment::OpenSegment;
pub(crate) use scores::Scores;
pub(crate) use segment::{Document, MAX_ROWS, MAX_TERMS, Segment, merge::merge_plan};
pub(crate) use voice::Voice;
