//! An immutable, compressed part of the index: some rows, and for each term those that have it.
//!
//! Little endian; a *varint* is LEB128 of at most 32 bits. A *local* number is a row's place in its segment.
//!
//! ```text
//! header     1 layout, 1 language, 2 analyser's version, 2 rows, 2 passages, 4 terms
//! rows       a row: varint row - previous row - 1, varint length in terms; ascending, the first after -1
//! passages   a passage: 2 local, 4 begin, 4 end; ascending
//! hashes     a term: 6; ascending, so that one is found by binary search
//! slots      a term: 4; if one row has it, from the top 1 bit set, 17 frequency, 14 local; else the offset of its block
//! postings   a block: varint rows, then a row: varint (local - previous local - 1) * 2 + more, and if it has the term
//!            more than once, varint frequency - 2
//! checksum   4: CRC-32 of all before
//! ```
//!
//! Most terms of a segment are in one row, and most rows have a term once: that is a slot alone, and one or two bytes.

mod merge;
mod read;
#[cfg(test)]
mod tests;
mod write;

use std::ops::Range;

pub(crate) use merge::merge_plan;
use read::varint;

use super::Language;

/// Most rows of a segment: what a merge writes at the most, and a local number is 14 bits.
pub(crate) const MAX_ROWS: usize = 1 << LOCAL_BITS;

/// Terms of a document that count: what follows is not indexed. A window is rarely a hundredth of that. With
/// [`MAX_ROWS`] it bounds the postings below the 2^31 bytes that an offset can say: a term in two rows or more takes at
/// most 3.5 bytes an occurrence, and there are no more than 2^29.
pub(crate) const MAX_TERMS: usize = 1 << 15;

/// The version of this layout.
const LAYOUT: u8 = 1;
const HEADER_BYTES: usize = 12;
const PASSAGE_BYTES: usize = 10;
const HASH_BYTES: usize = super::TERM_BITS as usize / 8;
const SLOT_BYTES: usize = 4;
const CRC_BYTES: usize = 4;

const LOCAL_BITS: u32 = 14;
/// In a slot: one row has the term, and this is its posting.
const SINGLE: u32 = 1 << 31;

/// What is indexed of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Document {
    pub(crate) row: u32,
    /// The window's bytes in the message's text, if that has several windows.
    pub(crate) passage: Option<Range<u32>>,
    /// In any order, with repeats; may be empty.
    pub(crate) terms: Vec<u64>,
}

#[derive(Debug)]
pub(crate) struct Segment {
    bytes: Vec<u8>,
    language: Language,
    version: u16,
    rows: Vec<u32>,
    passages: Range<usize>,
    hashes: Range<usize>,
    slots: usize,
    postings: usize,
}

impl Segment {
    /// What is stored.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Whether its terms are what the analyser of a language makes of a text now.
    pub(crate) fn is_of(&self, language: Language) -> bool {
        self.language == language && self.version == super::VERSION
    }

    /// What it was built of, with terms in the order of their numbers.
    pub(crate) fn documents(&self) -> Vec<Document> {
        let document = |(local, &row)| Document { row, passage: self.passage(local), terms: Vec::new() };
        let mut documents: Vec<Document> = (0..).zip(&self.rows).map(document).collect();
        for (at, hash) in self.hashes().iter().enumerate() {
            for (local, frequency) in self.postings_at(at) {
                let terms = &mut documents[local as usize].terms;
                terms.extend(std::iter::repeat_n(read_hash(hash), frequency as usize));
            }
        }
        documents
    }

    /// Ascending: a row's place is its local number.
    pub(crate) fn rows(&self) -> &[u32] {
        &self.rows
    }

    /// The rows' lengths in terms, in their order.
    pub(crate) fn lengths(&self) -> impl Iterator<Item = u32> + '_ {
        let mut bytes = &self.bytes[HEADER_BYTES..];
        self.rows.iter().map(move |_| {
            let gap_and_length = (varint(&mut bytes), varint(&mut bytes));
            gap_and_length.1.expect("checked when read")
        })
    }

    pub(crate) fn local(&self, row: u32) -> Option<u32> {
        self.rows.binary_search(&row).ok().map(|local| local as u32)
    }

    pub(crate) fn passage(&self, local: u32) -> Option<Range<u32>> {
        let passages = self.bytes[self.passages.clone()].as_chunks::<PASSAGE_BYTES>().0;
        let at = passages.binary_search_by_key(&local, |passage| read_passage(passage).0).ok()?;
        Some(read_passage(&passages[at]).1)
    }

    /// The rows that have a term; none if none has.
    pub(crate) fn postings(&self, term: u64) -> Option<Postings<'_>> {
        let at = self.hashes().binary_search_by_key(&term, read_hash).ok()?;
        Some(self.postings_at(at))
    }

    fn hashes(&self) -> &[[u8; HASH_BYTES]] {
        self.bytes[self.hashes.clone()].as_chunks().0
    }

    /// Of the term in this place.
    fn postings_at(&self, at: usize) -> Postings<'_> {
        let slots = self.bytes[self.slots..self.postings].as_chunks::<SLOT_BYTES>().0;
        let slot = u32::from_le_bytes(slots[at]);
        if slot & SINGLE != 0 {
            return Postings { left: 1, next: 0, source: Source::Single(slot) };
        }
        let mut bytes = &self.bytes[self.postings + slot as usize..self.bytes.len() - CRC_BYTES];
        let left = varint(&mut bytes).expect("checked when read");
        Postings { left, next: 0, source: Source::Block(bytes) }
    }
}

/// The rows of a segment that have a term, ascending: local number, frequency in the row's document.
#[derive(Clone, Debug)]
pub(crate) struct Postings<'a> {
    left: u32,
    /// The number after the last one given.
    next: u32,
    source: Source<'a>,
}

#[derive(Clone, Debug)]
enum Source<'a> {
    Single(u32),
    Block(&'a [u8]),
}

impl Iterator for Postings<'_> {
    type Item = (u32, u32);

    #[inline]
    fn next(&mut self) -> Option<(u32, u32)> {
        self.left = self.left.checked_sub(1)?;
        match &mut self.source {
            Source::Single(slot) => Some(read_single(*slot)),
            Source::Block(bytes) => {
                let (local, frequency) = read_posting(bytes, self.next).expect("checked when read");
                self.next = local + 1;
                Some((local, frequency))
            }
        }
    }

    /// What `for_each` is made of: without asking each time where the postings are.
    #[inline]
    fn fold<B, F: FnMut(B, (u32, u32)) -> B>(self, init: B, mut f: F) -> B {
        match self.source {
            Source::Single(slot) => (0..self.left).fold(init, |sum, _| f(sum, read_single(slot))),
            Source::Block(mut bytes) => {
                let mut next = self.next;
                (0..self.left).fold(init, |sum, _| {
                    let posting = read_posting(&mut bytes, next).expect("checked when read");
                    next = posting.0 + 1;
                    f(sum, posting)
                })
            }
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left as usize, Some(self.left as usize))
    }
}

impl ExactSizeIterator for Postings<'_> {}

fn read_hash(bytes: &[u8; HASH_BYTES]) -> u64 {
    let mut hash = [0; 8];
    hash[..HASH_BYTES].copy_from_slice(bytes);
    u64::from_le_bytes(hash)
}

/// Local number, bytes in the text.
fn read_passage(bytes: &[u8; PASSAGE_BYTES]) -> (u32, Range<u32>) {
    let [a, b, c, d, e, f, g, h, i, j] = *bytes;
    (u16::from_le_bytes([a, b]).into(), u32::from_le_bytes([c, d, e, f])..u32::from_le_bytes([g, h, i, j]))
}

fn read_single(slot: u32) -> (u32, u32) {
    (slot & (MAX_ROWS as u32 - 1), (slot & !SINGLE) >> LOCAL_BITS)
}

/// The next local number, at least `next`, and its frequency, at least 1.
#[inline]
fn read_posting(bytes: &mut &[u8], next: u32) -> Option<(u32, u32)> {
    let gap = varint(bytes)?;
    let frequency = if gap & 1 == 0 { 1 } else { varint(bytes)?.checked_add(2)? };
    Some((next.checked_add(gap >> 1)?, frequency))
}
