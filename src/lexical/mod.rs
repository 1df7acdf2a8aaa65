//! The words of a namespace: which rows have a term, scored by BM25.
//!
//! A *row* stands for one window of one message, as in the index of vectors; a row's *document* is the terms of that
//! window. A text's terms come from [`Analyzer`]; they are hashes, and no string is kept. Documents lie in immutable
//! [`Segment`]s, which the store keeps as bytes and merges now and then; [`LexicalIndex`] holds those of one namespace
//! and scores a query over the rows that are alive.
//!
//! Owns what a term is, the bytes of a segment and the formula. Does not know where segments are stored, what a message
//! is, or how scores are joined with those of vectors.
//!
//! Considered instead: tantivy, which does all of this and phrases besides, but brings a store of its own, files and
//! threads that a redb transaction cannot roll back, and a few times the dependencies of this crate.

mod analyzer;
mod cache;
mod characters;
mod fold;
mod index;
mod language;
mod scores;
mod segment;
mod stop;
#[cfg(test)]
mod tests;

pub(crate) use analyzer::Analyzer;
pub(crate) use index::LexicalIndex;
pub use language::Language;
pub(crate) use scores::{Bm25, Scores};
pub(crate) use segment::{Document, MAX_ROWS, MAX_TERMS, Segment, merge_plan};

/// The analyser's version, stored with each segment: terms of different versions are not the same, even of the same
/// text, and a segment of another one is to be built again from the messages.
pub(crate) const VERSION: u16 = 1;

/// Bits of a term. The hash of a word is cut to them, so that a term takes 6 bytes in a segment. A query's term is
/// mistaken for another of a namespace with a million distinct ones with a probability of 10^6 / 2^48, 4 in 10^9.
pub(crate) const TERM_BITS: u32 = 48;
