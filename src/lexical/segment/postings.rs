//! The postings of a term.

use super::layout::{SINGLE, read_posting, read_single, read_varint};

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
    pub(super) fn new(slot: u32, blocks: &'a [u8]) -> Self {
        if slot & SINGLE != 0 {
            return Postings { left: 1, next: 0, source: Source::Single(slot) };
        }
        let mut bytes = &blocks[slot as usize..];
        let left = read_varint(&mut bytes).expect("a segment is checked when it is read");
        Postings { left, next: 0, source: Source::Block(bytes) }
    }
}
