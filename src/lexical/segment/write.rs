//! Builds the bytes of a segment: its rows, then its terms, each in ascending order.

use std::{collections::HashMap, ops::Range};

use super::{
    Document, Segment,
    layout::{HASH_BYTES, LAYOUT, LOCAL_BITS, MAX_ROWS, MAX_TERMS, SINGLE, push_hash, push_varint},
};
use crate::lexical::{
    Language, Voice,
    term::{ANALYZER_VERSION, TERM_BITS},
    voice::MAX_NAME_TERMS,
};

impl Segment {
    /// Builds a segment of documents in any order. Of several documents of one row the last is used. Cost: sorts one
    /// number for each term.
    ///
    /// # Panics
    /// If there are more than [`MAX_ROWS`] rows.
    pub(crate) fn build(language: Language, mut documents: Vec<Document>) -> Segment {
        documents.reverse();
        documents.sort_by_key(|document| document.row);
        documents.dedup_by_key(|document| document.row);
        let mut writer = Writer::new(language, ANALYZER_VERSION);
        let mut pairs = Vec::new();
        for (local, document) in (0u64..).zip(&documents) {
            let terms = &document.terms[..document.terms.len().min(MAX_TERMS)];
            writer.row(document.row, terms.len() as u32, document.passage.clone(), &document.voice);
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

/// The sections of a segment that is being written.
pub(super) struct Writer {
    header: Vec<u8>,
    rows: Vec<u8>,
    row_count: usize,
    /// The lowest row that can follow.
    next_row: u64,
    names: Vec<u8>,
    /// The numbers of the names.
    name_numbers: HashMap<Vec<u64>, u32>,
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
            names: Vec::new(),
            name_numbers: HashMap::new(),
            passages: Vec::new(),
            passage_count: 0,
            hashes: Vec::new(),
            slots: Vec::new(),
            postings: Vec::new(),
        }
    }

    /// Adds a row, which must be greater than the rows before.
    pub(super) fn row(&mut self, row: u32, length: u32, passage: Option<Range<u32>>, voice: &Voice) {
        assert!(self.row_count < MAX_ROWS, "a segment has at most {MAX_ROWS} rows");
        push_varint(&mut self.rows, (u64::from(row) - self.next_row) as u32);
        push_varint(&mut self.rows, length);
        let name = self.name(&voice.speaker);
        push_varint(&mut self.rows, name << 1 | u32::from(voice.is_question));
        if let Some(passage) = passage {
            self.passages.extend((self.row_count as u16).to_le_bytes());
            self.passages.extend(passage.start.to_le_bytes());
            self.passages.extend(passage.end.to_le_bytes());
            self.passage_count += 1;
        }
        self.row_count += 1;
        self.next_row = u64::from(row) + 1;
    }

    /// Returns the number of a name, which is added if it is new; 0 for no name.
    fn name(&mut self, name: &[u64]) -> u32 {
        let name = &name[..name.len().min(MAX_NAME_TERMS)];
        if name.is_empty() {
            return 0;
        }
        if let Some(&number) = self.name_numbers.get(name) {
            return number;
        }
        push_varint(&mut self.names, name.len() as u32);
        name.iter().for_each(|&term| push_hash(&mut self.names, term));
        let number = self.name_numbers.len() as u32 + 1;
        self.name_numbers.insert(name.to_vec(), number);
        number
    }

    /// Adds a term, which must be greater than the terms before, with its postings: local numbers in ascending order,
    /// at least one, and frequencies.
    pub(super) fn term(&mut self, term: u64, postings: &[(u32, u32)]) {
        debug_assert!(term < 1 << TERM_BITS, "terms come from an analyzer");
        push_hash(&mut self.hashes, term);
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

    /// Joins the sections.
    pub(super) fn finish(self) -> Segment {
        let mut bytes = self.header;
        bytes.extend((self.row_count as u16).to_le_bytes());
        bytes.extend(self.passage_count.to_le_bytes());
        bytes.extend(((self.hashes.len() / HASH_BYTES) as u32).to_le_bytes());
        let mut name_count = Vec::new();
        push_varint(&mut name_count, self.name_numbers.len() as u32);
        for section in [self.rows, name_count, self.names, self.passages, self.hashes, self.slots, self.postings] {
            bytes.extend(section);
        }
        bytes.extend(crc32fast::hash(&bytes).to_le_bytes());
        Segment::read(bytes).expect("a segment that was just written is valid")
    }
}
