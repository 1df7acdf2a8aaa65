//! A segment that documents enter and leave one by one.

use std::collections::HashMap;

use super::MAX_TERMS;

/// The length of a document that was removed. No document is as long.
const REMOVED: u16 = u16::MAX;
const _: () = assert!(MAX_TERMS < REMOVED as usize);

/// Documents in memory, numbered from 0 in the order in which they came, and the postings of their terms.
#[derive(Clone, Debug, Default)]
pub(crate) struct OpenSegment {
    /// For each term the documents that contain it, ascending, with its frequency. Some of them may be removed.
    postings: HashMap<u64, Vec<(u32, u16)>>,
    /// The length of each document in terms, or [`REMOVED`].
    lengths: Vec<u16>,
    live: usize,
    total_length: u64,
}

impl OpenSegment {
    /// Adds a document, with as many of its terms as a stored segment takes, and returns its number.
    pub(crate) fn push(&mut self, mut terms: Vec<u64>) -> u32 {
        let document = self.lengths.len() as u32;
        terms.truncate(MAX_TERMS);
        terms.sort_unstable();
        for same in terms.chunk_by(|a, b| a == b) {
            self.postings.entry(same[0]).or_default().push((document, same.len() as u16));
        }
        self.lengths.push(terms.len() as u16);
        self.live += 1;
        self.total_length += terms.len() as u64;
        document
    }

    /// Removes a document. Its postings stay until [`compact`](Self::compact) is called.
    pub(crate) fn remove(&mut self, document: u32) {
        let length = std::mem::replace(&mut self.lengths[document as usize], REMOVED);
        assert_ne!(length, REMOVED, "a document is removed once");
        self.live -= 1;
        self.total_length -= u64::from(length);
    }

    /// Returns true if more than half of the documents were removed.
    pub(crate) fn is_sparse(&self) -> bool {
        self.live * 2 < self.lengths.len()
    }

    /// Drops what is left of removed documents. The others are numbered from 0 again, in their order.
    pub(crate) fn compact(&mut self) {
        let mut count = 0;
        let numbers: Vec<u32> = self
            .lengths
            .iter()
            .map(|&length| {
                count += u32::from(length != REMOVED);
                count.wrapping_sub(1)
            })
            .collect();
        let lengths = &self.lengths;
        self.postings.retain(|_, postings| {
            postings.retain_mut(|(document, _)| {
                let old = std::mem::replace(document, numbers[*document as usize]);
                lengths[old as usize] != REMOVED
            });
            postings.shrink_to_fit();
            !postings.is_empty()
        });
        self.postings.shrink_to_fit();
        self.lengths.retain(|&length| length != REMOVED);
    }

    /// Returns the number of documents, without the removed ones.
    pub(crate) fn len(&self) -> usize {
        self.live
    }

    /// Returns the length of a document that was not removed, in terms.
    pub(crate) fn length(&self, document: u32) -> u16 {
        self.lengths[document as usize]
    }

    /// Returns the bytes of memory that the segment takes, approximately.
    pub(crate) fn memory_bytes(&self) -> usize {
        // A posting for each distinct term of a document, at least, and a table entry and a list for each term.
        self.lengths.capacity() * 2 + self.total_length as usize * 8 + self.postings.capacity() * 72
    }

    /// Returns the number that the next document gets.
    pub(in crate::lexical) fn end(&self) -> usize {
        self.lengths.len()
    }

    pub(in crate::lexical) fn total_length(&self) -> u64 {
        self.total_length
    }

    /// Calls `visit` with the number, the frequency and the length of each document that contains the term.
    pub(in crate::lexical) fn for_each_posting(&self, term: u64, mut visit: impl FnMut(u32, u32, u16)) {
        for &(document, frequency) in self.postings.get(&term).into_iter().flatten() {
            let length = self.lengths[document as usize];
            if length != REMOVED {
                visit(document, u32::from(frequency), length);
            }
        }
    }
}
