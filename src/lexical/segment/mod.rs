//! An immutable, compressed part of a lexical index: some rows, and for each term the rows that contain it.
//!
//! `layout` defines the bytes. `write` builds a segment of documents, `read` checks stored bytes, `merge` joins
//! segments and decides when. A [`Segment`] looks up terms in the bytes themselves.

mod document;
mod layout;
pub(super) mod merge;
mod postings;
mod read;
#[cfg(test)]
mod tests;
mod write;

use std::ops::Range;

use self::{
    layout::{CRC_BYTES, HASH_BYTES, HEADER_BYTES, PASSAGE_BYTES, SLOT_BYTES, read_hash, read_passage, read_varint},
    postings::Postings,
};
use super::{Language, Voice, term::ANALYZER_VERSION};
pub(crate) use document::Document;
pub(crate) use layout::{MAX_ROWS, MAX_TERMS};

/// A segment in its stored form, whose bytes have been checked. Rows are decoded; everything else is read from the
/// bytes.
#[derive(Debug)]
pub(crate) struct Segment {
    bytes: Vec<u8>,
    language: Language,
    version: u16,
    rows: Vec<u32>,
    /// For each row the number of its speaker's name times 2, and 1 for a question.
    voices: Vec<u16>,
    /// The terms of the speakers' names, numbered from 1.
    names: Vec<Vec<u64>>,
    /// The positions of the sections in the bytes.
    passages: Range<usize>,
    hashes: Range<usize>,
    slots: usize,
    postings: usize,
}

impl Segment {
    /// Returns the bytes to store.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the bytes of memory that the segment takes.
    pub(crate) fn memory_bytes(&self) -> usize {
        let rows = self.rows.capacity() * size_of::<u32>() + self.voices.capacity() * size_of::<u16>();
        let names = self.names.iter().map(|name| size_of::<Vec<u64>>() + name.capacity() * size_of::<u64>());
        size_of::<Self>() + self.bytes.capacity() + rows + names.sum::<usize>()
    }

    /// Returns true if the present analyzer of this language made the terms, so that the segment can be used.
    pub(crate) fn is_of(&self, language: Language) -> bool {
        self.language == language && self.version == ANALYZER_VERSION
    }

    /// Returns the documents that the segment was built of, with terms in ascending order.
    pub(crate) fn documents(&self) -> Vec<Document> {
        let document = |(local, &row)| Document {
            row,
            passage: self.passage(local),
            terms: Vec::new(),
            voice: Voice { speaker: self.speaker(local).to_vec(), is_question: self.is_question(local) },
        };
        let mut documents: Vec<Document> = (0..).zip(&self.rows).map(document).collect();
        for (position, hash) in self.hashes().iter().enumerate() {
            for (local, frequency) in self.postings_at(position) {
                let terms = &mut documents[local as usize].terms;
                terms.extend(std::iter::repeat_n(read_hash(hash), frequency as usize));
            }
        }
        documents
    }

    /// Returns the rows in ascending order. The position of a row is its local number.
    pub(crate) fn rows(&self) -> &[u32] {
        &self.rows
    }

    /// Returns the number of terms of each row, in the order of the rows.
    pub(crate) fn lengths(&self) -> impl Iterator<Item = u32> + '_ {
        let mut bytes = &self.bytes[HEADER_BYTES..];
        self.rows.iter().map(move |_| {
            let [_gap, length, _voice] = [(); 3].map(|()| read_varint(&mut bytes));
            length.expect("a segment is checked when it is read")
        })
    }

    /// Returns the bytes of a row's window in the text, by the local number of the row; `None` if the text has only one
    /// window.
    pub(crate) fn passage(&self, local: u32) -> Option<Range<u32>> {
        let passages = self.bytes[self.passages.clone()].as_chunks::<PASSAGE_BYTES>().0;
        let position = passages.binary_search_by_key(&local, |passage| read_passage(passage).0).ok()?;
        Some(read_passage(&passages[position]).1)
    }

    /// Returns the terms of the name of a row's speaker, by the local number of the row; none without a name.
    pub(crate) fn speaker(&self, local: u32) -> &[u64] {
        let number = usize::from(self.voices[local as usize] >> 1);
        number.checked_sub(1).map_or(&[], |name| &self.names[name])
    }

    /// Returns true if the message of a row, by the local number of the row, ends with a question mark.
    pub(crate) fn is_question(&self, local: u32) -> bool {
        self.voices[local as usize] & 1 == 1
    }

    /// Returns the postings of a term; `None` if no row contains the term.
    pub(crate) fn postings(&self, term: u64) -> Option<Postings<'_>> {
        let position = self.hashes().binary_search_by_key(&term, read_hash).ok()?;
        Some(self.postings_at(position))
    }

    fn hashes(&self) -> &[[u8; HASH_BYTES]] {
        self.bytes[self.hashes.clone()].as_chunks().0
    }

    /// Returns the postings of the term at this position.
    fn postings_at(&self, position: usize) -> Postings<'_> {
        let slots = self.bytes[self.slots..self.postings].as_chunks::<SLOT_BYTES>().0;
        let blocks = &self.bytes[self.postings..self.bytes.len() - CRC_BYTES];
        Postings::new(u32::from_le_bytes(slots[position]), blocks)
    }
}
