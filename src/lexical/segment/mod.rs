//! An immutable, compressed part of a lexical index: some rows, and for each term the rows that contain it.
//!
//! `layout` defines the bytes. `write` builds a segment of documents, joins segments, and decides when. A [`Segment`]
//! looks up terms in the bytes themselves; they are checked completely when they are read, so that later reads cannot
//! fail. `open` is a segment that documents enter and leave one by one, in memory alone.

mod layout;
mod open;
#[cfg(test)]
mod tests;
mod write;

use std::ops::Range;

use self::layout::{
    CRC_BYTES, HASH_BYTES, HEADER_BYTES, LAYOUT, PASSAGE_BYTES, SINGLE, SLOT_BYTES, read_hash, read_passage,
    read_posting, read_single, read_varint,
};
use super::{
    analyzer::{ANALYZER_VERSION, MAX_NAME_TERMS, SpeakerAndQuestion},
    language::Language,
    stems::TERM_BITS,
};
pub(crate) use layout::{MAX_ROWS, MAX_TERMS};
pub(crate) use open::OpenSegment;
pub(crate) use write::merge_plan;

/// The terms of a row, and the part of the text that they come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Document {
    pub(crate) row: u32,
    /// The bytes of the row's chunk in the text of its message; `None` if the text has only one chunk.
    pub(crate) passage: Option<Range<u32>>,
    /// The terms of the chunk, in any order and with repetitions. May be empty.
    pub(crate) terms: Vec<u64>,
    pub(crate) speech: SpeakerAndQuestion,
}

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
            speech: SpeakerAndQuestion { speaker: self.speaker(local).to_vec(), is_question: self.is_question(local) },
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

    /// Returns the bytes of a row's chunk in the text, by the local number of the row; `None` if the text has only one
    /// chunk.
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
        Some(self.postings_at(self.position(term)?))
    }

    /// Returns the position of a term. Terms are hashes, so they lie where their values say, but for a few times half
    /// the square root of their number: what is farther away is searched only if it must be.
    fn position(&self, term: u64) -> Option<usize> {
        let hashes = self.hashes();
        let guess = ((u128::from(term) * hashes.len() as u128) >> TERM_BITS) as usize;
        let slack = 2 * hashes.len().isqrt();
        let (begin, end) = (guess.saturating_sub(slack), hashes.len().min(guess.saturating_add(slack)));
        let near = hashes.get(begin..end).unwrap_or_default();
        match near.binary_search_by_key(&term, read_hash) {
            Ok(at) => Some(begin + at),
            Err(at) if (at > 0 || begin == 0) && (at < near.len() || end == hashes.len()) => None,
            Err(_) => hashes.binary_search_by_key(&term, read_hash).ok(),
        }
    }

    fn hashes(&self) -> &[[u8; HASH_BYTES]] {
        self.bytes[self.hashes.clone()].as_chunks().0
    }

    fn postings_at(&self, position: usize) -> Postings<'_> {
        let slots = self.bytes[self.slots..self.postings].as_chunks::<SLOT_BYTES>().0;
        let blocks = &self.bytes[self.postings..self.bytes.len() - CRC_BYTES];
        Postings::new(u32::from_le_bytes(slots[position]), blocks)
    }
}

impl Segment {
    /// Reads the bytes that [`bytes`](Segment::bytes) returned. Time is linear in the bytes; it allocates 8 bytes for
    /// each row, of at most [`MAX_ROWS`].
    ///
    /// # Errors
    /// A description of what is wrong with the bytes.
    pub(crate) fn read(bytes: Vec<u8>) -> Result<Segment, &'static str> {
        let (content, crc) = bytes.split_last_chunk::<CRC_BYTES>().ok_or("it is too short")?;
        if crc32fast::hash(content) != u32::from_le_bytes(*crc) {
            return Err("its checksum is wrong");
        }
        let (header, mut rest) = content.split_first_chunk::<HEADER_BYTES>().ok_or("it is too short")?;
        let [layout, language, v0, v1, r0, r1, p0, p1, terms @ ..] = *header;
        if layout != LAYOUT {
            return Err("its layout has an unknown version");
        }
        let language = Language::from_code(language).ok_or("its language is unknown")?;
        let Rows { rows, lengths, voices } = read_rows(&mut rest, u16::from_le_bytes([r0, r1]).into())?;
        let names = read_names(&mut rest)?;
        if voices.iter().any(|voice| usize::from(voice >> 1) > names.len()) {
            return Err("a row has a name that is missing");
        }
        let mut begin = content.len() - rest.len();
        let mut section = |count: usize, width: usize| {
            let end = count.checked_mul(width).and_then(|size| begin.checked_add(size));
            let range = begin..end.filter(|&end| end <= content.len()).ok_or("it is too short")?;
            begin = range.end;
            Ok::<Range<usize>, &'static str>(range)
        };
        let terms = u32::from_le_bytes(terms) as usize;
        let passages = section(u16::from_le_bytes([p0, p1]).into(), PASSAGE_BYTES)?;
        let hashes = section(terms, HASH_BYTES)?;
        let slots = section(terms, SLOT_BYTES)?;
        check_passages(&content[passages.clone()], rows.len())?;
        if !content[hashes.clone()].as_chunks().0.is_sorted_by(|a, b| read_hash(a) < read_hash(b)) {
            return Err("its terms are not in order");
        }
        check_postings(&content[slots.clone()], &content[slots.end..], lengths)?;
        let version = u16::from_le_bytes([v0, v1]);
        let (slots, postings) = (slots.start, slots.end);
        Ok(Segment { language, version, rows, voices, names, passages, hashes, slots, postings, bytes })
    }

    /// Returns true if an earlier release wrote these bytes, in a layout that is not read any more: the segment must be
    /// rebuilt from the messages.
    pub(crate) fn is_outdated(bytes: &[u8]) -> bool {
        bytes.first().is_some_and(|&layout| layout < LAYOUT)
    }
}

/// The rows of a segment with their lengths and voices, each in the order of the rows.
struct Rows {
    rows: Vec<u32>,
    lengths: Vec<u32>,
    voices: Vec<u16>,
}

fn read_rows(bytes: &mut &[u8], count: usize) -> Result<Rows, &'static str> {
    if count > MAX_ROWS {
        return Err("it has too many rows");
    }
    // A row takes at least three bytes.
    let capacity = count.min(bytes.len() / 3);
    let (mut rows, mut lengths) = (Vec::with_capacity(capacity), Vec::with_capacity(capacity));
    let mut voices = Vec::with_capacity(capacity);
    let mut next = Some(0u32);
    for _ in 0..count {
        let gap = read_varint(bytes).ok_or("a row is cut off")?;
        let row = next.and_then(|next| next.checked_add(gap)).ok_or("a row's number is too large")?;
        next = row.checked_add(1);
        rows.push(row);
        lengths.push(
            read_varint(bytes).filter(|&length| length as usize <= MAX_TERMS).ok_or("a row's length is too large")?,
        );
        let voice = read_varint(bytes).and_then(|voice| u16::try_from(voice).ok());
        voices.push(voice.ok_or("a row's name is cut off or too large")?);
    }
    Ok(Rows { rows, lengths, voices })
}

fn read_names(bytes: &mut &[u8]) -> Result<Vec<Vec<u64>>, &'static str> {
    let count = read_varint(bytes).filter(|&count| count as usize <= MAX_ROWS).ok_or("it has too many names")?;
    (0..count)
        .map(|_| {
            let terms = read_varint(bytes).filter(|terms| (1..=MAX_NAME_TERMS as u32).contains(terms));
            let size = terms.ok_or("a name has no terms or too many")? as usize * HASH_BYTES;
            let (name, rest) = bytes.split_at_checked(size).ok_or("a name is cut off")?;
            *bytes = rest;
            Ok(name.as_chunks().0.iter().map(read_hash).collect())
        })
        .collect()
}

fn check_passages(bytes: &[u8], rows: usize) -> Result<(), &'static str> {
    let mut next = 0;
    for (local, range) in bytes.as_chunks().0.iter().map(read_passage) {
        if local < next || local as usize >= rows || range.start > range.end {
            return Err("a passage is wrong");
        }
        next = local + 1;
    }
    Ok(())
}

/// Checks that blocks follow each other in the order of their slots, and that the frequencies in each row add up to its
/// length.
fn check_postings(slots: &[u8], postings: &[u8], mut lengths: Vec<u32>) -> Result<(), &'static str> {
    let mut count = |(local, frequency): (u32, u32)| -> Result<(), &'static str> {
        let length = lengths.get_mut(local as usize).ok_or("a posting has no row")?;
        *length = length.checked_sub(frequency).ok_or("a row has more terms than its length")?;
        Ok(())
    };
    let mut rest = postings;
    for slot in slots.as_chunks().0.iter().map(|slot| u32::from_le_bytes(*slot)) {
        if slot & SINGLE != 0 {
            let single = read_single(slot);
            if single.1 == 0 {
                return Err("a posting has no frequency");
            }
            count(single)?;
            continue;
        }
        if slot as usize != postings.len() - rest.len() {
            return Err("the postings of a term are not where its slot points");
        }
        let block = read_varint(&mut rest).ok_or("a posting is cut off")?;
        let mut next = 0;
        for _ in 0..block {
            let posting = read_posting(&mut rest, next).ok_or("a posting is cut off")?;
            count(posting)?;
            next = posting.0 + 1;
        }
    }
    let is_complete = rest.is_empty() && lengths.iter().all(|&left| left == 0);
    if is_complete { Ok(()) } else { Err("its postings do not add up to the lengths of its rows") }
}

/// An iterator over the rows of a segment that contain a term: local number, ascending, and frequency in the document.
#[derive(Clone, Debug)]
pub(crate) struct Postings<'a> {
    /// Number of postings to come.
    left: u32,
    /// The lowest local number that can follow.
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
                let (local, frequency) = read_posting(bytes, self.next).expect("a segment is checked when it is read");
                self.next = local + 1;
                Some((local, frequency))
            }
        }
    }

    /// `for_each` calls this. Decides once, not for each posting, where the postings are.
    #[inline]
    fn fold<B, F: FnMut(B, (u32, u32)) -> B>(self, init: B, mut f: F) -> B {
        match self.source {
            Source::Single(slot) => (0..self.left).fold(init, |sum, _| f(sum, read_single(slot))),
            Source::Block(mut bytes) => {
                let mut next = self.next;
                (0..self.left).fold(init, |sum, _| {
                    let posting = read_posting(&mut bytes, next).expect("a segment is checked when it is read");
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

impl<'a> Postings<'a> {
    /// The postings of a slot. `blocks` are all postings of the segment that are not in slots.
    fn new(slot: u32, blocks: &'a [u8]) -> Self {
        if slot & SINGLE != 0 {
            return Postings { left: 1, next: 0, source: Source::Single(slot) };
        }
        let mut bytes = &blocks[slot as usize..];
        let left = read_varint(&mut bytes).expect("a segment is checked when it is read");
        Postings { left, next: 0, source: Source::Block(bytes) }
    }
}
