//! Checks the bytes of a stored segment completely, so that later reads cannot fail.

use std::ops::Range;

use super::{
    Segment,
    layout::{
        CRC_BYTES, HASH_BYTES, HEADER_BYTES, LAYOUT, MAX_ROWS, MAX_TERMS, PASSAGE_BYTES, SINGLE, SLOT_BYTES, read_hash,
        read_passage, read_posting, read_single, read_varint,
    },
};
use crate::lexical::{Language, voice::MAX_NAME_TERMS};

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

/// Reads the rows.
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

/// Reads the names of speakers.
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

/// Checks that passages are ascending and belong to rows.
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
