//! The bytes of deltas, and of pages of links.
//!
//! All numbers are little endian.
//!
//! - A delta: `m` (u16); the number (u32) of rows that come in, and for each its row (u32) and level (u8); the number
//!   (u32) of rows that leave, and these rows (u32 each); the number (u32) of changed lists, and for each its row
//!   (u32), layer (u8) and links.
//! - A page: `m` (u16), then for each of its rows the level (u8; 255 if the row is not in the graph) and the links on
//!   each layer from 0.
//! - Links: their number (u8), then the rows that they lead to (u32 each).
//!
//! The store adds a checksum. Decoding checks everything nevertheless.

use super::{
    HnswOptions,
    links::{Delta, Links, List, MAX_LEVEL},
};
use crate::{Damaged, Result};

/// The level, on a page, of a row that is not in the graph.
const ABSENT: u8 = u8::MAX;

/// The maximum size in bytes of a page, whose lists may all be full: just under the size at which the store allocates
/// larger pages.
const PAGE_BYTES: usize = (64 << 10) - 1024;

pub(super) fn encode_delta(delta: &Delta, m: usize) -> Vec<u8> {
    let mut bytes = (m as u16).to_le_bytes().to_vec();
    let number = |bytes: &mut Vec<u8>, number: usize| bytes.extend((number as u32).to_le_bytes());
    number(&mut bytes, delta.levels.len());
    for &(row, level) in &delta.levels {
        number(&mut bytes, row as usize);
        bytes.push(level);
    }
    number(&mut bytes, delta.cleared.len());
    delta.cleared.iter().for_each(|&row| number(&mut bytes, row as usize));
    number(&mut bytes, delta.lists.len());
    for list in &delta.lists {
        number(&mut bytes, list.row as usize);
        bytes.push(list.layer);
        push_links(&mut bytes, &list.links);
    }
    bytes
}

/// Decodes a delta of a graph of `rows` rows. Returns the graph's `m` as well.
///
/// # Errors
/// [`Damaged`] if the bytes are not a delta, or have a row that is not below `rows`.
pub(super) fn decode_delta(bytes: &[u8], rows: usize) -> Result<(usize, Delta)> {
    let mut reader = Reader { bytes, rows };
    let m = reader.m()?;
    let mut delta = Delta::default();
    for _ in 0..reader.u32()? {
        delta.levels.push((reader.row()?, reader.level()?.ok_or_else(damaged)?));
    }
    for _ in 0..reader.u32()? {
        delta.cleared.push(reader.row()?);
    }
    for _ in 0..reader.u32()? {
        let (row, layer) = (reader.row()?, reader.u8()?);
        delta.lists.push(List { row, layer, links: reader.links(m, layer)? });
    }
    if !reader.bytes.is_empty() {
        return Err(damaged());
    }
    Ok((m, delta))
}

/// Returns the number of rows on a page. Where a page begins is part of the stored format.
pub(super) fn rows_per_page(m: usize) -> usize {
    PAGE_BYTES / (2 + 8 * m + 8)
}

pub(super) fn encode_page(links: &Links, page: u32) -> Vec<u8> {
    let mut bytes = (links.m() as u16).to_le_bytes().to_vec();
    let first = page as usize * rows_per_page(links.m());
    // Rows after the last one in the graph are left out: they may belong to a commit that fails.
    let rows = first as u32..(first + rows_per_page(links.m())).min(links.rows()) as u32;
    let end = rows.clone().rev().find(|&row| links.has(row)).map_or(rows.start, |last| last + 1);
    for row in rows.start..end {
        bytes.push(links.level(row).unwrap_or(ABSENT));
        if links.has(row) {
            links.lists(row).for_each(|(_, list)| push_links(&mut bytes, list));
        }
    }
    bytes
}

/// Decodes a page into `links`, which have room for all rows.
///
/// # Errors
/// [`Damaged`] if the bytes are not a page with this `m`, or have a row that there is no room for.
pub(super) fn decode_page(links: &mut Links, page: u32, bytes: &[u8]) -> Result<()> {
    let mut reader = Reader { bytes, rows: links.rows() };
    if reader.m()? != links.m() {
        return Err(damaged());
    }
    let first = (page as usize).checked_mul(rows_per_page(links.m())).ok_or_else(damaged)?;
    for row in first..first + rows_per_page(links.m()) {
        if reader.bytes.is_empty() {
            break;
        }
        if row >= links.rows() {
            return Err(damaged());
        }
        if let Some(level) = reader.level()? {
            links.add(row as u32, level);
            links.raise_entry(row as u32);
            for layer in 0..=level {
                links.set(row as u32, layer, &reader.links(links.m(), layer)?);
            }
        }
    }
    if reader.bytes.is_empty() { Ok(()) } else { Err(damaged()) }
}

/// Returns the `m` of an encoded page or delta.
///
/// # Errors
/// [`Damaged`] if the bytes do not begin with a valid `m`.
pub(super) fn peek_m(bytes: &[u8]) -> Result<usize> {
    Reader { bytes, rows: 0 }.m()
}

fn push_links(bytes: &mut Vec<u8>, links: &[u32]) {
    bytes.push(links.len() as u8);
    links.iter().for_each(|link| bytes.extend(link.to_le_bytes()));
}

fn damaged() -> Damaged {
    Damaged("a stored part of a graph cannot be decoded")
}

/// Reads the numbers that [`encode_delta`] and [`encode_page`] write.
struct Reader<'a> {
    bytes: &'a [u8],
    /// A row number must be below this one.
    rows: usize,
}

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N]> {
        let (first, rest) = self.bytes.split_first_chunk::<N>().ok_or_else(damaged)?;
        self.bytes = rest;
        Ok(*first)
    }

    fn u8(&mut self) -> Result<u8> {
        Ok(self.take::<1>()?[0])
    }

    fn u32(&mut self) -> Result<u32> {
        Ok(u32::from_le_bytes(self.take()?))
    }

    fn m(&mut self) -> Result<usize> {
        match usize::from(u16::from_le_bytes(self.take()?)) {
            m if HnswOptions::M.contains(&m) => Ok(m),
            _ => Err(damaged()),
        }
    }

    fn row(&mut self) -> Result<u32> {
        self.u32().and_then(|row| if (row as usize) < self.rows { Ok(row) } else { Err(damaged()) })
    }

    fn level(&mut self) -> Result<Option<u8>> {
        match self.u8()? {
            ABSENT => Ok(None),
            level if level <= MAX_LEVEL => Ok(Some(level)),
            _ => Err(damaged()),
        }
    }

    fn links(&mut self, m: usize, layer: u8) -> Result<Vec<u32>> {
        let count = usize::from(self.u8()?);
        if count > if layer == 0 { 2 * m } else { m } {
            return Err(damaged());
        }
        (0..count).map(|_| self.row()).collect()
    }
}
