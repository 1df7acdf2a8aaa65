//! Lexical search: which rows contain a term, scored by BM25.
//!
//! A *row* stands for one chunk of the text of one message, as in the vector index, and its *document* is the list of terms of
//! that chunk. The [`Analyzer`] turns a text into terms, which are hashes, by its [`Language`] and the classes of its
//! `characters`. Documents are in immutable [`Segment`]s, which the store keeps as bytes and the engine merges now and
//! then. A [`LexicalIndex`] holds the segments of one namespace and scores a query over the live rows by BM25.
//!
//! This module defines terms, the bytes of a segment and the scoring formula. It does not know where segments are
//! stored, what a message is, or how scores are combined with those of vectors.
//!
//! The rejected alternative is tantivy, which does all of this and phrase queries as well. But it has its own files and
//! threads, which a redb transaction cannot roll back, and several times the dependencies of this crate.

mod analyzer;
mod characters;
mod compound;
mod digits;
mod guess;
mod index;
mod language;
mod numbers;
mod pieces;
mod segment;
mod stems;
mod terms;
#[cfg(test)]
mod tests;

pub(crate) use analyzer::{Analyzer, SpeakerAndQuestion};
pub(crate) use characters::is_unspaced;
pub(crate) use guess::LanguageGuesser;
pub(crate) use index::{Collection, LexicalIndex, Scores};
pub(crate) use language::ChosenLanguage;
pub use language::{Language, LanguageOrigin};
pub(crate) use segment::{Document, MAX_ROWS, MAX_TERMS, OpenSegment, Segment, merge_plan};
