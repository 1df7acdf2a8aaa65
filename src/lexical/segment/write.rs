//! Writing a segment: its rows, then its terms, each in ascending order.

use std::ops::Range;

use super::{Document, HASH_BYTES, LAYOUT, LOCAL_BITS, MAX_ROWS, MAX_TERMS, SINGLE, Segment};
use crate::lexical::{Language, TERM_BITS, VERSION};

impl Segment {
    /// Of documents in any order; of those of one row the last. Sorts one number a term.
    ///
    /// # Panics
    /// If they are more than [`MAX_ROWS`].
    pub(crate) fn build(language: Language, mut documents: Vec<Document>) -> Segment {
        documents.reverse();
        documents.sort_by_key(|document| document.row);
        documents.dedup_by_key(|document| document.row);
        let mut writer = Writer::new(language, VERSION);
        let mut pairs = Vec::new();
        for (local, document) in (0u64..).zip(&documents) {
            let terms = &document.terms[..document.terms.len().min(MAX_TERMS)];
            writer.row(document.row, terms.len() as u32, document.passage.clone());
            pairs.extend(terms.iter().map(|term| term << LOCAL_BITS | local));
        }
        pairs.sort_unstable();
        let mut postings = Vec::new();
        for term in pairs.chunk_by(|a, b| a >> LOCAL_BITS == b >> LOCAL_BITS) {
            postings.clear();
            let rows = term.chunk_by(|a, b| a == b);
            postings.extend(rows.map(|row| (row[0] as u32 & (MAX_ROWS as u32 - 1), row.len() as u32)));
            writer.term(term[0] >> LOCAL_BITS, &postings);
        }
        writer.finish()
    }
}

pub(super) struct Writer {
    header: Vec<u8>,
    rows: Vec<u8>,
    /// How many there are, and the number after the last.
    row_count: usize,
    next_row: u64,
    passages: Vec<u8>,
    passage_count: u16,
    hashes: Vec<u8>,
    slots: Vec<u8>,
    postings: Vec<u8>,
}

impl Writer {
    pub(super) fn new(language: Language, version: u16) -> Self {
        let [v0, v1] = version.to_le_bytes();
        Writer {
            header: vec![LAYOUT, language.code(), v0, v1],
            rows: Vec::new(),
            row_count: 0,
            next_row: 0,
            passages: Vec::new(),
            passage_count: 0,
            hashes: Vec::new(),
            slots: Vec::new(),
            postings: Vec::new(),
        }
    }

    /// Adds a row, which is greater than those before it.
    pub(super) fn row(&mut self, row: u32, length: u32, passage: Option<Range<u32>>) {
        assert!(self.row_count < MAX_ROWS, "a segment is built of at most {MAX_ROWS} rows");
        push_varint(&mut self.rows, (u64::from(row) - self.next_row) as u32);
        push_varint(&mut self.rows, length);
        if let Some(passage) = passage {
            self.passages.extend((self.row_count as u16).to_le_bytes());
            self.passages.extend(passage.start.to_le_bytes());
            self.passages.extend(passage.end.to_le_bytes());
            self.passage_count += 1;
        }
        self.row_count += 1;
        self.next_row = u64::from(row) + 1;
    }

    /// Adds a term, greater than those before it, with its rows, ascending, one at least.
    pub(super) fn term(&mut self, term: u64, postings: &[(u32, u32)]) {
        debug_assert!(term < 1 << TERM_BITS, "an analyser made it");
        self.hashes.extend(&term.to_le_bytes()[..HASH_BYTES]);
        if let [(local, frequency)] = *postings {
            self.slots.extend((SINGLE | frequency << LOCAL_BITS | local).to_le_bytes());
            return;
        }
        self.slots.extend((self.postings.len() as u32).to_le_bytes());
        push_varint(&mut self.postings, postings.len() as u32);
        let mut next = 0;
        for &(local, frequency) in postings {
            push_varint(&mut self.postings, (local - next) << 1 | u32::from(frequency > 1));
            if frequency > 1 {
                push_varint(&mut self.postings, frequency - 2);
            }
            next = local + 1;
        }
    }

    pub(super) fn finish(self) -> Segment {
        let mut bytes = self.header;
        bytes.extend((self.row_count as u16).to_le_bytes());
        bytes.extend(self.passage_count.to_le_bytes());
        bytes.extend(((self.hashes.len() / HASH_BYTES) as u32).to_le_bytes());
        for section in [self.rows, self.passages, self.hashes, self.slots, self.postings] {
            bytes.extend(section);
        }
        bytes.extend(crc32fast::hash(&bytes).to_le_bytes());
        Segment::read(bytes).expect("a segment is read as it was written")
    }
}

fn push_varint(bytes: &mut Vec<u8>, mut value: u32) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}
