//! Writes the bytes of segments: of documents, or of other segments that are merged by the logarithmic method. The rows of
//! a segment come first, then its terms, each in ascending order.

use std::{collections::HashMap, ops::Range};

use super::{
    Document, Segment,
    layout::{HASH_BYTES, LAYOUT, LOCAL_BITS, MAX_ROWS, MAX_TERMS, SINGLE, push_hash, push_varint, read_hash},
};
use crate::lexical::{
    analyzer::{ANALYZER_VERSION, MAX_NAME_TERMS, SpeakerAndQuestion},
    language::Language,
    stems::TERM_BITS,
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
            writer.row(document.row, terms.len() as u32, document.passage.clone(), &document.speech);
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
struct Writer {
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
    fn new(language: Language, version: u16) -> Self {
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
    fn row(&mut self, row: u32, length: u32, passage: Option<Range<u32>>, speech: &SpeakerAndQuestion) {
        assert!(self.row_count < MAX_ROWS, "a segment has at most {MAX_ROWS} rows");
        push_varint(&mut self.rows, (u64::from(row) - self.next_row) as u32);
        push_varint(&mut self.rows, length);
        let name = self.name(&speech.speaker);
        push_varint(&mut self.rows, name << 1 | u32::from(speech.is_question));
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
    fn term(&mut self, term: u64, postings: &[(u32, u32)]) {
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

    fn finish(self) -> Segment {
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

impl Segment {
    /// Merges segments, at least one, of the same language and analyzer version. A row in several segments is taken
    /// from the newest.
    ///
    /// # Panics
    /// If the result has more than [`MAX_ROWS`] rows.
    pub(crate) fn merge(older_to_newer: &[&Segment]) -> Segment {
        merge_where(older_to_newer, |_| true)
    }

    /// Returns a segment with only the rows for which `keep` returns true; `None` if there are none.
    pub(crate) fn retain(&self, keep: impl Fn(u32) -> bool) -> Option<Segment> {
        let kept = merge_where(&[self], keep);
        (!kept.rows.is_empty()).then_some(kept)
    }
}

fn merge_where(older_to_newer: &[&Segment], keep: impl Fn(u32) -> bool) -> Segment {
    let newest = older_to_newer.last().expect("at least one segment is merged");
    let is_alike = |segment: &&Segment| (segment.language, segment.version) == (newest.language, newest.version);
    assert!(older_to_newer.iter().all(is_alike), "merged segments have one language and one analyzer version");
    let mut writer = Writer::new(newest.language, newest.version);
    let locals = merge_rows(older_to_newer, keep, &mut writer);

    let mut heads = vec![0; older_to_newer.len()];
    let mut postings = Vec::new();
    loop {
        let terms = older_to_newer.iter().zip(&heads).map(|(segment, &at)| segment.hashes().get(at).map(read_hash));
        let Some(term) = terms.flatten().min() else { break };
        postings.clear();
        for ((segment, at), locals) in older_to_newer.iter().zip(&mut heads).zip(&locals) {
            if segment.hashes().get(*at).map(read_hash) == Some(term) {
                let kept = segment.postings_at(*at);
                postings.extend(kept.filter_map(|(local, frequency)| Some((locals[local as usize]?, frequency))));
                *at += 1;
            }
        }
        if !postings.is_empty() {
            postings.sort_unstable();
            writer.term(term, &postings);
        }
    }
    writer.finish()
}

/// Writes the rows. Returns, for each segment and old local number, the new local number; `None` for a row that was
/// dropped or taken from a newer segment.
fn merge_rows(older_to_newer: &[&Segment], keep: impl Fn(u32) -> bool, writer: &mut Writer) -> Vec<Vec<Option<u32>>> {
    let mut locals: Vec<Vec<Option<u32>>> =
        older_to_newer.iter().map(|segment| vec![None; segment.rows.len()]).collect();
    let mut rows = Vec::new();
    for (from, segment) in older_to_newer.iter().enumerate().rev() {
        rows.extend(
            segment
                .rows
                .iter()
                .zip(segment.lengths())
                .zip(0..)
                .map(|((&row, length), local)| (row, from, local, length)),
        );
    }
    // The sort is stable, so the newest document of each row comes first.
    rows.sort_by_key(|&(row, ..)| row);
    rows.dedup_by_key(|&mut (row, ..)| row);
    rows.retain(|&(row, ..)| keep(row));
    for (new, &(row, from, local, length)) in (0..).zip(&rows) {
        let segment = older_to_newer[from];
        let speech =
            SpeakerAndQuestion { speaker: segment.speaker(local).to_vec(), is_question: segment.is_question(local) };
        writer.row(row, length, segment.passage(local), &speech);
        locals[from][local as usize] = Some(new);
    }
    locals
}

/// Returns the number of stored segments, counted from the newest, that a new segment of `new` rows is merged with.
/// `sizes` are the numbers of rows of the stored segments, oldest first. The merged segment has at most [`MAX_ROWS`]
/// rows.
///
/// This is the logarithmic method (Bentley and Saxe, "Decomposable searching problems I", J. Algorithms 1980), which
/// log-structured merge trees use: a segment is merged when the new rows are more than half of it. So the segment of a
/// row grows by at least half whenever the row is written again, which happens at most 24 times up to [`MAX_ROWS`]. And
/// of two neighboring segments, the older has at least twice the rows of the newer, or both together exceed
/// [`MAX_ROWS`], so there are few segments.
pub(crate) fn merge_plan(sizes: &[usize], new: usize) -> usize {
    let mut merged = new;
    let is_merged = |&&size: &&usize| {
        let is_due = size < 2 * merged && size + merged <= MAX_ROWS;
        merged += if is_due { size } else { 0 };
        is_due
    };
    sizes.iter().rev().take_while(is_merged).count()
}
