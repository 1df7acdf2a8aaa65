//! A set of sequence numbers of messages.

use std::collections::BTreeMap;

use mnemon_index::Bitmap;

/// A set of sequence numbers: for each block of numbers, those within it.
#[derive(Clone, Default)]
pub(super) struct SeqSet(BTreeMap<u64, Bitmap>);

/// The bits of a sequence number that are its position in a block.
const BLOCK_BITS: u32 = 20;

impl SeqSet {
    pub(super) fn set(&mut self, seq: u64, is_in: bool) {
        let block = self.0.entry(seq >> BLOCK_BITS).or_default();
        match is_in {
            true => block.insert(position(seq)),
            false => block.remove(position(seq)),
        };
    }

    pub(super) fn contains(&self, seq: u64) -> bool {
        self.lookup()(seq)
    }

    /// Returns the function that says whether a number is in the set. It remembers the last block, so numbers that are
    /// near each other are looked up quickly.
    pub(super) fn lookup(&self) -> impl FnMut(u64) -> bool + '_ {
        let mut last = None;
        move |seq| {
            let number = seq >> BLOCK_BITS;
            let block = match last {
                Some((known, block)) if known == number => block,
                _ => self.0.get(&number),
            };
            last = Some((number, block));
            block.is_some_and(|block| block.contains(position(seq)))
        }
    }
}

fn position(seq: u64) -> u32 {
    (seq % (1 << BLOCK_BITS)) as u32
}
