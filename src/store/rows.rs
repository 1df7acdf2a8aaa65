//! Blocks of vectors: rows of one namespace and generation, as many as fit just under 64 KiB.
//!
//! redb gives a large value pages that are a power of two together: a block just under that wastes little, and a flush
//! rewrites at most one part-filled block, and those with rows that it gives again. A row holds what filters need, so that opening reads blocks alone.

use super::{
    codec::{self, Codec, HEADER_BYTES},
    precision,
};
use crate::{
    config::Precision,
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
    precision: Precision,
    vector: &'a [u8],
}

/// The layout of a generation's blocks.
#[derive(Clone, Copy)]
pub(super) struct Layout {
    dimension: usize,
    precision: Precision,
}

impl Layout {
    pub(super) fn new(dimension: usize, precision: Precision) -> Self {
        Layout { dimension, precision }
    }

    /// Differs, so that no block is read as one of the other precision.
    fn codec(self) -> Codec {
        match self.precision {
            Precision::F32 => Codec::Rows,
            Precision::I8 => Codec::Rows8,
        }
    }

    fn row_bytes(self) -> usize {
        META_BYTES + precision::bytes(self.precision, self.dimension)
    }

    /// Rows of a full block, at least 1.
    pub(super) fn rows_per_block(self) -> u32 {
        ((BLOCK_BYTES - HEADER_BYTES) / self.row_bytes()).max(1) as u32
    }

    pub(super) fn empty(self) -> Vec<u8> {
        codec::header(self.codec()).to_vec()
    }

    /// Writes a row of a block: the one after its last, or one that is dead. Returns it as it will be read.
    pub(super) fn put<'b>(self, block: &'b mut Vec<u8>, row: u32, meta: &RowMeta, vector: &[f32]) -> Result<Row<'b>> {
        debug_assert_eq!(vector.len(), self.dimension);
        let begin = HEADER_BYTES + row as usize * self.row_bytes();
        if begin == block.len() {
            block.resize(begin + self.row_bytes(), 0);
        }
        let bytes = block.get_mut(begin..begin + self.row_bytes());
        let bytes = bytes.ok_or_else(|| Error::corrupted("a block of vectors is too short for its rows"))?;
        let (header, stored) = bytes.split_at_mut(META_BYTES);
        if header[ALIVE] != 0 {
            return Err(Error::corrupted("a row of vectors that is in use is said to be free"));
        }
        header[0..8].copy_from_slice(&meta.seq.to_le_bytes());
        header[8..16].copy_from_slice(&meta.created_at.map_or(NO_TIME, Timestamp::as_micros).to_le_bytes());
        header[16..20].copy_from_slice(&meta.session.to_le_bytes());
        header[20..22].copy_from_slice(&meta.window.to_le_bytes());
        header[22] = super::schema::role_number(meta.role);
        header[ALIVE] = 1;
        precision::write(self.precision, vector, stored);
        Ok(Row { meta: Some(*meta), precision: self.precision, vector: stored })
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
        let payload = codec::payload(self.codec(), block)?;
        payload.chunks_exact(self.row_bytes()).nth(row as usize).map(|bytes| self.read_row(bytes)).transpose()
    }

    pub(super) fn read(self, block: &[u8]) -> Result<impl ExactSizeIterator<Item = Result<Row<'_>>>> {
        let payload = codec::payload(self.codec(), block)?;
        let row_bytes = self.row_bytes();
        if payload.is_empty()
            || !payload.len().is_multiple_of(row_bytes)
            || payload.len() / row_bytes > self.rows_per_block() as usize
        {
            return Err(Error::corrupted(format!("a block of vectors has {} bytes", block.len())));
        }
        Ok(payload.chunks_exact(row_bytes).map(move |bytes| self.read_row(bytes)))
    }

    fn read_row(self, bytes: &[u8]) -> Result<Row<'_>> {
        let (meta, vector) = bytes.split_at(META_BYTES);
        Ok(Row { meta: read_meta(meta)?, precision: self.precision, vector })
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
    /// Appends the row's components to `vector`.
    pub(crate) fn append_to(&self, vector: &mut Vec<f32>) {
        precision::read(self.precision, self.vector, vector);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAYOUTS: [Layout; 2] =
        [Layout { dimension: 2, precision: Precision::F32 }, Layout { dimension: 2, precision: Precision::I8 }];
    const META: RowMeta = RowMeta { seq: 258, created_at: None, session: 3, window: 2, role: Role::User };

    fn block(layout: Layout) -> Vec<u8> {
        let mut block = layout.empty();
        let meta = RowMeta { created_at: Timestamp::from_micros(-2), ..META };
        layout.put(&mut block, 0, &meta, &[0.6, -0.8]).unwrap();
        layout.put(&mut block, 1, &META, &[0.0, 0.0]).unwrap();
        layout.erase(&mut block, 1).unwrap();
        block
    }

    /// Stored databases outlive releases: these bytes are never changed.
    #[test]
    fn golden_bytes() {
        let meta = "0201000000000000 feffffffffffffff 03000000 0200 01 01";
        let check = |layout: Layout, header: &str, vector: &str| {
            let hex: String = block(layout).iter().map(|byte| format!("{byte:02x}")).collect();
            let dead = "00".repeat(layout.row_bytes());
            assert_eq!(hex, [header, meta, vector, &dead].concat().replace(' ', ""));
        };
        check(LAYOUTS[0], "4d6e 0201", "9a99193f cdcc4cbf");
        check(LAYOUTS[1], "4d6e 0401", "8f9bce3b 5f 81");
    }

    #[test]
    fn a_row_is_given_back_as_it_is_read() {
        for layout in LAYOUTS {
            let (mut put, mut read) = (Vec::new(), Vec::new());
            let mut bytes = layout.empty();
            layout.put(&mut bytes, 0, &META, &[0.28, 0.96]).unwrap().append_to(&mut put);
            let row = layout.row(&bytes, 0).unwrap().unwrap();
            row.append_to(&mut read);
            assert_eq!((row.meta, read), (Some(META), put));
            assert!(layout.row(&bytes, 1).unwrap().is_none());
        }
    }

    #[test]
    fn a_block_is_not_read_as_another() {
        let [full, small] = LAYOUTS;
        assert!(full.read(&block(full)).is_ok() && small.read(&block(small)).is_ok());
        assert!(full.read(&block(small)).is_err() && small.read(&block(full)).is_err());
        assert!(full.row(&block(small), 0).is_err() && small.row(&block(full), 0).is_err());
        let long = block(small);
        for cut in 0..long.len() {
            let rows = small.read(&long[..cut]).map(Iterator::count);
            assert!(rows.is_err() || (cut - HEADER_BYTES).is_multiple_of(small.row_bytes()), "cut at {cut}");
        }
    }
}
