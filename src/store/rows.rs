//! Blocks of vectors: rows of one namespace and generation, as many as fit just under 64 KiB.
//!
//! redb gives a large value pages that are a power of two together: a block just under that wastes little, and a flush
//! rewrites at most one part-filled block, and those with rows that it gives again. A row holds what filters need, so that opening reads blocks alone.

use super::codec::{self, Codec, HEADER_BYTES};
use crate::{
    error::{Error, Result},
    message::{Role, Timestamp},
};

/// redb's own bytes in the pages of a value: key, lengths, page header. Generous.
const PAGE_OVERHEAD: usize = 512;
const BLOCK_BYTES: usize = (64 << 10) - PAGE_OVERHEAD;
const META_BYTES: usize = 24;
/// The byte that says whether the row is alive.
const ALIVE: usize = 23;
/// Stands for "no time": a time this far back cannot be parsed.
const NO_TIME: i64 = i64::MIN;

/// What a row says of the message whose vector it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RowMeta {
    /// The message's sequence number in its namespace.
    pub(crate) seq: u64,
    pub(crate) created_at: Option<Timestamp>,
    /// The session's number in its namespace.
    pub(crate) session: u32,
    /// Which window of the message this is, from 0.
    pub(crate) window: u16,
    pub(crate) role: Role,
}

/// A row of a block: dead rows keep their place and nothing else.
pub(crate) struct Row<'a> {
    pub(crate) meta: Option<RowMeta>,
    pub(crate) vector: &'a [u8],
}

/// The layout for one dimension.
#[derive(Clone, Copy)]
pub(super) struct Layout {
    dimension: usize,
}

impl Layout {
    pub(super) fn new(dimension: usize) -> Self {
        Layout { dimension }
    }

    fn row_bytes(self) -> usize {
        META_BYTES + self.dimension * 4
    }

    /// Rows of a full block, at least 1.
    pub(super) fn rows_per_block(self) -> u32 {
        ((BLOCK_BYTES - HEADER_BYTES) / self.row_bytes()).max(1) as u32
    }

    pub(super) fn empty(self) -> Vec<u8> {
        codec::header(Codec::Rows).to_vec()
    }

    /// Writes a row of a block: the one after its last, or one that is dead.
    pub(super) fn put(self, block: &mut Vec<u8>, row: u32, meta: &RowMeta, vector: &[f32]) -> Result<()> {
        debug_assert_eq!(vector.len(), self.dimension);
        let begin = HEADER_BYTES + row as usize * self.row_bytes();
        if begin == block.len() {
            block.resize(begin + self.row_bytes(), 0);
        }
        let bytes = block.get_mut(begin..begin + self.row_bytes());
        let bytes = bytes.ok_or_else(|| Error::corrupted("a block of vectors is too short for its rows"))?;
        let (header, components) = bytes.split_at_mut(META_BYTES);
        if header[ALIVE] != 0 {
            return Err(Error::corrupted("a row of vectors that is in use is said to be free"));
        }
        header[0..8].copy_from_slice(&meta.seq.to_le_bytes());
        header[8..16].copy_from_slice(&meta.created_at.map_or(NO_TIME, Timestamp::as_micros).to_le_bytes());
        header[16..20].copy_from_slice(&meta.session.to_le_bytes());
        header[20..22].copy_from_slice(&meta.window.to_le_bytes());
        header[22] = super::schema::role_number(meta.role);
        header[ALIVE] = 1;
        for (bytes, x) in components.as_chunks_mut::<4>().0.iter_mut().zip(vector) {
            *bytes = x.to_le_bytes();
        }
        Ok(())
    }

    /// Erases a row of a block: the vector's bytes too, so that nothing of a deleted message stays.
    pub(super) fn erase(self, block: &mut [u8], row: u32) -> Result<()> {
        let begin = HEADER_BYTES + row as usize * self.row_bytes();
        let row = block.get_mut(begin..begin + self.row_bytes());
        row.ok_or_else(|| Error::corrupted("a block of vectors is too short for its rows"))?.fill(0);
        Ok(())
    }

    /// One row of a block, if the block is that long.
    pub(super) fn row(self, block: &[u8], row: u32) -> Result<Option<Row<'_>>> {
        let payload = codec::payload(Codec::Rows, block)?;
        let Some(row) = payload.chunks_exact(self.row_bytes()).nth(row as usize) else { return Ok(None) };
        let (meta, vector) = row.split_at(META_BYTES);
        Ok(Some(Row { meta: read_meta(meta)?, vector }))
    }

    pub(super) fn read(self, block: &[u8]) -> Result<impl ExactSizeIterator<Item = Result<Row<'_>>>> {
        let payload = codec::payload(Codec::Rows, block)?;
        let row_bytes = self.row_bytes();
        if payload.is_empty()
            || !payload.len().is_multiple_of(row_bytes)
            || payload.len() / row_bytes > self.rows_per_block() as usize
        {
            return Err(Error::corrupted(format!("a block of vectors has {} bytes", block.len())));
        }
        Ok(payload.chunks_exact(row_bytes).map(|row| {
            let (meta, vector) = row.split_at(META_BYTES);
            Ok(Row { meta: read_meta(meta)?, vector })
        }))
    }
}

fn read_meta(bytes: &[u8]) -> Result<Option<RowMeta>> {
    if bytes[ALIVE] == 0 {
        return Ok(None);
    }
    let micros = i64::from_le_bytes(bytes[8..16].try_into().expect("8 bytes"));
    let created_at = match micros {
        NO_TIME => None,
        micros => Some(Timestamp::from_micros(micros).ok_or_else(|| Error::corrupted("a row's time is out of range"))?),
    };
    Ok(Some(RowMeta {
        seq: u64::from_le_bytes(bytes[0..8].try_into().expect("8 bytes")),
        created_at,
        session: u32::from_le_bytes(bytes[16..20].try_into().expect("4 bytes")),
        window: u16::from_le_bytes(bytes[20..22].try_into().expect("2 bytes")),
        role: super::schema::role(bytes[22])?,
    }))
}

impl Row<'_> {
    pub(crate) fn components(&self) -> impl Iterator<Item = f32> + '_ {
        self.vector.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes))
    }
}
