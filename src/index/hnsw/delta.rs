//! A change of the graph, and the bytes of changes and pages.
//!
//! All numbers little endian. A change: `m` (u16); how many (u32) rows come in, and for each its number (u32) and level
//! (u8); how many (u32) leave, and their numbers; how many (u32) lists change, and for each its row (u32), layer (u8) and
//! links. A page: `m` (u16), then for each row its level (u8, 255: not in the graph) and its links on each layer from 0.
//! Links: how many (u8), and their numbers (u32). The store adds a checksum; what is read is checked nevertheless.

use super::links::{Links, MAX_LEVEL};
use crate::{
    config::M,
    error::{Error, Result},
};

/// The level, on a page, of a row that is not in the graph.
const ABSENT: u8 = u8::MAX;

/// A page of a graph with lists that are all full fits this: just under what a store gives pages for.
const PAGE_BYTES: usize = (64 << 10) - 1024;

/// A change of the graph.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Delta {
    /// Rows that come into the graph, with their levels.
    pub(super) levels: Vec<(u32, u8)>,
    /// Lists as they are after it.
    pub(super) lists: Vec<List>,
    /// Rows that leave the graph, and may be given again.
    pub(super) cleared: Vec<u32>,
}

/// The links of a row on a layer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct List {
    pub(super) row: u32,
    pub(super) layer: u8,
    pub(super) links: Vec<u32>,
}

impl Delta {
    /// How many rows come into the graph.
    pub(crate) fn added(&self) -> usize {
        self.levels.len()
    }

    /// Rows that may be given again after it.
    pub(crate) fn freed(&self) -> &[u32] {
        &self.cleared
    }

    pub(super) fn encode(&self, m: usize) -> Vec<u8> {
        let mut bytes = (m as u16).to_le_bytes().to_vec();
        let number = |bytes: &mut Vec<u8>, number: usize| bytes.extend((number as u32).to_le_bytes());
        number(&mut bytes, self.levels.len());
        for &(row, level) in &self.levels {
            number(&mut bytes, row as usize);
            bytes.push(level);
        }
        number(&mut bytes, self.cleared.len());
        self.cleared.iter().for_each(|&row| number(&mut bytes, row as usize));
        number(&mut bytes, self.lists.len());
        for list in &self.lists {
            number(&mut bytes, list.row as usize);
            bytes.push(list.layer);
            push_links(&mut bytes, &list.links);
        }
        bytes
    }

    /// Reads a change of a graph of `rows` rows. Returns its `m` too.
    pub(super) fn decode(bytes: &[u8], rows: usize) -> Result<(usize, Self)> {
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
}

/// Rows of a page.
pub(super) fn rows_per_page(m: usize) -> usize {
    PAGE_BYTES / (2 + 8 * m + 8)
}

pub(super) fn encode_page(links: &Links, page: u32) -> Vec<u8> {
    let mut bytes = (links.m() as u16).to_le_bytes().to_vec();
    let first = page as usize * rows_per_page(links.m());
    // Not those after the last that is in the graph: they may be of a commit that fails.
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

/// Reads a page into the links, which have room for all rows.
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

/// The `m` that a page or change was made with.
pub(super) fn peek_m(bytes: &[u8]) -> Result<usize> {
    Reader { bytes, rows: 0 }.m()
}

fn push_links(bytes: &mut Vec<u8>, links: &[u32]) {
    bytes.push(links.len() as u8);
    links.iter().for_each(|link| bytes.extend(link.to_le_bytes()));
}

fn damaged() -> Error {
    Error::corrupted("a part of the graph is not as it was written")
}

/// Reads what [`Delta::encode`] and [`encode_page`] write.
struct Reader<'a> {
    bytes: &'a [u8],
    /// Row numbers are below.
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
            m if M.contains(&m) => Ok(m),
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
