//! The layout of a segment's bytes, and the functions that read and write its fields.
//!
//! Numbers are little endian; a *varint* is an LEB128 number of at most 32 bits. A *local* number is the position of a
//! row in its segment.
//!
//! ```text
//! header     1 layout, 1 language, 2 analyzer's version, 2 rows, 2 passages, 4 terms
//! rows       a row: varint row - previous row - 1, varint length in terms, varint name * 2 + 1 for a question; ascending,
//!            the first after -1
//! names      varint names, then a name: varint terms, 6 each; in the order of the rows, numbered from 1. A row without a
//!            name has 0.
//! passages   a passage: 2 local, 4 begin, 4 end; ascending
//! hashes     a term: 6; ascending, for binary search
//! slots      a term: 4; if one row contains it, from the top 1 bit set, 17 frequency, 14 local; else the offset of its
//!            block
//! postings   a block: varint rows, then a row: varint (local - previous local - 1) * 2 + more, and if the row contains
//!            the term more than once, varint frequency - 2
//! checksum   4: CRC-32 of everything before
//! ```
//!
//! Most terms of a segment are in one row, which takes only a slot; and most rows contain a term once, which takes one
//! or two bytes.

use std::ops::Range;

use crate::lexical::stems::TERM_BITS;

/// Maximum number of rows in a segment. A local number has 14 bits, and a merge writes no more rows.
pub(crate) const MAX_ROWS: usize = 1 << LOCAL_BITS;

/// Maximum number of terms in a document, with repetitions; further terms are not indexed. A chunk rarely has a
/// hundredth of them. Together with [`MAX_ROWS`] this keeps the postings below 2^31 bytes, the range of an offset: a
/// term in two or more rows takes at most 3.5 bytes for each occurrence, and there are at most 2^29 occurrences.
pub(crate) const MAX_TERMS: usize = 1 << 15;

/// The version of this layout. The first one had no names and questions.
pub(super) const LAYOUT: u8 = 2;
pub(super) const HEADER_BYTES: usize = 12;
pub(super) const PASSAGE_BYTES: usize = 10;
pub(super) const HASH_BYTES: usize = TERM_BITS as usize / 8;
pub(super) const SLOT_BYTES: usize = 4;
pub(super) const CRC_BYTES: usize = 4;

pub(super) const LOCAL_BITS: u32 = 14;
/// The bit of a slot which marks that one row contains the term, and that the slot is its posting.
pub(super) const SINGLE: u32 = 1 << 31;

/// Reads a term.
pub(super) fn read_hash(bytes: &[u8; HASH_BYTES]) -> u64 {
    let mut hash = [0; 8];
    hash[..HASH_BYTES].copy_from_slice(bytes);
    u64::from_le_bytes(hash)
}

/// Reads a passage: local number, bytes in the text.
pub(super) fn read_passage(bytes: &[u8; PASSAGE_BYTES]) -> (u32, Range<u32>) {
    let [a, b, c, d, e, f, g, h, i, j] = *bytes;
    (u16::from_le_bytes([a, b]).into(), u32::from_le_bytes([c, d, e, f])..u32::from_le_bytes([g, h, i, j]))
}

/// Reads the posting in a slot with [`SINGLE`]: local number, frequency.
pub(super) fn read_single(slot: u32) -> (u32, u32) {
    (slot & (MAX_ROWS as u32 - 1), (slot & !SINGLE) >> LOCAL_BITS)
}

/// Reads a posting: a local number, at least `next`, and the frequency, at least 1. `None` if the bytes end or a number
/// is too large.
#[inline]
pub(super) fn read_posting(bytes: &mut &[u8], next: u32) -> Option<(u32, u32)> {
    let gap = read_varint(bytes)?;
    let frequency = if gap & 1 == 0 { 1 } else { read_varint(bytes)?.checked_add(2)? };
    Some((next.checked_add(gap >> 1)?, frequency))
}

/// Reads a varint. `None` if the bytes end or the number has more than 32 bits.
#[inline]
pub(super) fn read_varint(bytes: &mut &[u8]) -> Option<u32> {
    let (&first, rest) = bytes.split_first()?;
    *bytes = rest;
    if first < 0x80 { Some(first.into()) } else { read_long_varint(first, bytes) }
}

fn read_long_varint(first: u8, bytes: &mut &[u8]) -> Option<u32> {
    let mut value = u64::from(first & 0x7F);
    for shift in [7, 14, 21, 28] {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(byte & 0x7F) << shift;
        if byte < 0x80 {
            return u32::try_from(value).ok();
        }
    }
    None
}

/// Appends a term.
pub(super) fn push_hash(bytes: &mut Vec<u8>, term: u64) {
    bytes.extend(&term.to_le_bytes()[..HASH_BYTES]);
}

/// Appends a varint.
pub(super) fn push_varint(bytes: &mut Vec<u8>, mut value: u32) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}
