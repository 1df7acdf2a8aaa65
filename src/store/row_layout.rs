//! The layout of blocks of vectors: rows of one namespace and generation, as many as fit just under 64 KiB. What would be
//! the first of these blocks is divided into smaller ones, of which a small namespace has no more than it needs.
//!
//! redb stores a large value in a page whose size is a power of two, so a block just under one wastes little. A flush
//! rewrites at most one partly filled block, and the blocks with rows that it reuses. A row contains all that filters
//! need, so that loading an index reads blocks only. Blocks of 8 KiB alone take a fifth longer to load.

use super::{
    codec::{self, Codec, HEADER_BYTES},
    precision, schema,
};
use crate::{
    config::Precision,
    error::{Error, Result},
    message::{Role, Timestamp},
};

/// The size of a block with the page that redb stores it in.
const LARGE_BLOCK: usize = 64 << 10;
/// An upper bound of redb's own bytes in that page: its header, the key, lengths.
const PAGE_OVERHEAD: usize = 512;
/// The least size of the blocks that stand for the first large one, and a bound nearer to redb's own bytes.
const LEAST_BLOCK: usize = 8 << 10;
const SMALL_PAGE_OVERHEAD: usize = 64;
const META_BYTES: usize = 24;
/// The offset of the byte that is 1 in a live row.
const LIVE: usize = 23;
/// The stored time of a message without one. No timestamp is this early.
const NO_TIME: i64 = i64::MIN;

/// The data of a message that is stored with each of its vectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RowMeta {
    /// The message's sequence number in its namespace.
    pub(crate) seq: u64,
    pub(crate) created_at: Option<Timestamp>,
    /// The session's number in its namespace.
    pub(crate) session: u32,
    /// The number of the window in its message, from 0.
    pub(crate) window: u16,
    pub(crate) role: Role,
}

/// A row of a block. Of a dead row only its position is left: it has no `meta`, and its bytes are zero.
pub(crate) struct Row<'a> {
    pub(crate) meta: Option<RowMeta>,
    precision: Precision,
    vector: &'a [u8],
}

/// The sizes of the blocks of a generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Blocks {
    /// All just under 64 KiB, as in schema 9 and before.
    Large,
    /// Small ones stand for the first: just under 8 KiB, or under 16 or 32 if a sixteenth of that would stay empty.
    SmallFirst,
}

/// The layout of a generation's blocks of vectors.
#[derive(Clone, Copy, Debug)]
pub(super) struct RowLayout {
    dimension: usize,
    precision: Precision,
    /// The number of small blocks, which come first, and the rows of each.
    small_blocks: (u32, u32),
}

impl RowLayout {
    pub(super) fn new(dimension: usize, precision: Precision, blocks: Blocks) -> Self {
        let mut layout = RowLayout { dimension, precision, small_blocks: (0, 1) };
        let row = layout.row_bytes();
        let rows = |block: usize| (block - SMALL_PAGE_OVERHEAD - HEADER_BYTES) / row;
        let sizes = std::iter::successors(Some(LEAST_BLOCK), |size| Some(size * 2));
        let full = sizes.take_while(|size| *size < LARGE_BLOCK).find(|&size| 16 * rows(size) * row >= 15 * size);
        if let (Blocks::SmallFirst, Some(size)) = (blocks, full) {
            let rows = rows(size) as u32;
            layout.small_blocks = (layout.large_rows() / rows, rows);
        }
        layout
    }

    /// A codec for each precision, so that no block is read with the wrong one.
    fn codec(self) -> Codec {
        match self.precision {
            Precision::F32 => Codec::Rows,
            Precision::F16 => Codec::Rows16,
            Precision::I8 => Codec::Rows8,
        }
    }

    fn row_bytes(self) -> usize {
        META_BYTES + precision::bytes(self.precision, self.dimension)
    }

    /// Number of rows of a full large block, at least 1.
    fn large_rows(self) -> u32 {
        ((LARGE_BLOCK - PAGE_OVERHEAD - HEADER_BYTES) / self.row_bytes()).max(1) as u32
    }

    /// The block of a row, and the position of the row in it.
    pub(super) fn place(self, row: u32) -> (u32, u32) {
        let (count, rows) = self.small_blocks;
        match row.checked_sub(count * rows) {
            None => (row / rows, row % rows),
            Some(row) => (count + row / self.large_rows(), row % self.large_rows()),
        }
    }

    /// The first row of a block.
    pub(super) fn first_row(self, block: u32) -> u32 {
        let (count, rows) = self.small_blocks;
        block.min(count) * rows + block.saturating_sub(count).saturating_mul(self.large_rows())
    }

    /// A block without rows.
    pub(super) fn empty(self) -> Vec<u8> {
        codec::header(self.codec()).to_vec()
    }

    /// Writes a row of a block: the one after the last, or a dead one. Returns the row as it will be read.
    ///
    /// # Errors
    /// [`Error::Corrupted`] if the row is live or the block is too short.
    pub(super) fn put<'b>(self, block: &'b mut Vec<u8>, row: u32, meta: &RowMeta, vector: &[f32]) -> Result<Row<'b>> {
        debug_assert_eq!(vector.len(), self.dimension);
        let begin = HEADER_BYTES + row as usize * self.row_bytes();
        if begin == block.len() {
            block.resize(begin + self.row_bytes(), 0);
        }
        let bytes = block.get_mut(begin..begin + self.row_bytes());
        let bytes = bytes.ok_or_else(|| Error::corrupted("a block of vectors is too short for its rows"))?;
        let (header, stored) = bytes.split_at_mut(META_BYTES);
        if header[LIVE] != 0 {
            return Err(Error::corrupted("a row of vectors is recorded as free, but is in use"));
        }
        header[0..8].copy_from_slice(&meta.seq.to_le_bytes());
        header[8..16].copy_from_slice(&meta.created_at.map_or(NO_TIME, Timestamp::as_micros).to_le_bytes());
        header[16..20].copy_from_slice(&meta.session.to_le_bytes());
        header[20..22].copy_from_slice(&meta.window.to_le_bytes());
        header[22] = schema::role_number(meta.role);
        header[LIVE] = 1;
        precision::write(self.precision, vector, stored);
        Ok(Row { meta: Some(*meta), precision: self.precision, vector: stored })
    }

    /// Zeroes a row of a block, including its vector, so that nothing of a deleted message is left.
    pub(super) fn erase(self, block: &mut [u8], row: u32) -> Result<()> {
        let begin = HEADER_BYTES + row as usize * self.row_bytes();
        let row = block.get_mut(begin..begin + self.row_bytes());
        row.ok_or_else(|| Error::corrupted("a block of vectors is too short for its rows"))?.fill(0);
        Ok(())
    }

    /// One row of a block, or `None` if the block is shorter.
    pub(super) fn row(self, block: &[u8], row: u32) -> Result<Option<Row<'_>>> {
        let payload = codec::payload(self.codec(), block)?;
        payload.chunks_exact(self.row_bytes()).nth(row as usize).map(|bytes| self.read_row(bytes)).transpose()
    }

    /// All rows of a block, in order.
    pub(super) fn read(self, block: &[u8]) -> Result<impl ExactSizeIterator<Item = Result<Row<'_>>>> {
        let payload = codec::payload(self.codec(), block)?;
        let row_bytes = self.row_bytes();
        if payload.is_empty()
            || !payload.len().is_multiple_of(row_bytes)
            || payload.len() / row_bytes > self.large_rows() as usize
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
    if bytes[LIVE] == 0 {
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
        role: schema::role(bytes[22])?,
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

    const fn layout(precision: Precision) -> RowLayout {
        RowLayout { dimension: 2, precision, small_blocks: (0, 1) }
    }

    const LAYOUTS: [RowLayout; 3] = [layout(Precision::F32), layout(Precision::I8), layout(Precision::F16)];
    const META: RowMeta = RowMeta { seq: 258, created_at: None, session: 3, window: 2, role: Role::User };

    fn block(layout: RowLayout) -> Vec<u8> {
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
        let check = |layout: RowLayout, header: &str, vector: &str| {
            let hex: String = block(layout).iter().map(|byte| format!("{byte:02x}")).collect();
            let dead = "00".repeat(layout.row_bytes());
            assert_eq!(hex, [header, meta, vector, &dead].concat().replace(' ', ""));
        };
        check(LAYOUTS[0], "4d6e 0201", "9a99193f cdcc4cbf");
        check(LAYOUTS[1], "4d6e 0401", "8f9bce3b 5f 81");
        check(LAYOUTS[2], "4d6e 0501", "cd38 66ba");
    }

    /// Rows are found by their number, so their places are never changed either.
    #[test]
    fn golden_places() {
        let check = |dimension, precision, large: u32, small: (u32, u32)| {
            let of = |blocks| RowLayout::new(dimension, precision, blocks);
            let layout = of(Blocks::SmallFirst);
            assert_eq!((layout.large_rows(), layout.small_blocks), (large, small), "{dimension} {precision:?}");
            assert_eq!(of(Blocks::Large).place(3 * large + large - 1), (3, large - 1));
            for layout in [layout, of(Blocks::Large)] {
                let mut next = (0, 0);
                for row in 0..5 * large {
                    let (block, at) = layout.place(row);
                    assert!((block, at) == next || (block, at) == (next.0 + 1, 0), "row {row} is at {block}, {at}");
                    assert_eq!(layout.first_row(block) + at, row);
                    next = (block, at + 1);
                }
            }
        };
        check(256, Precision::F16, 121, (8, 15));
        check(256, Precision::I8, 228, (8, 28));
        check(384, Precision::F32, 41, (8, 5));
        check(768, Precision::F16, 41, (8, 5));
        check(1024, Precision::F16, 31, (2, 15));
        check(1536, Precision::F32, 10, (2, 5));
        check(16_000, Precision::F32, 1, (0, 1));
        check(100_000, Precision::F32, 1, (0, 1));
    }

    #[test]
    fn a_row_written_is_returned_as_it_will_be_read() {
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
    fn a_block_is_not_read_with_the_wrong_precision() {
        for layout in LAYOUTS {
            for other in LAYOUTS {
                let is_right = layout.precision == other.precision;
                assert_eq!(layout.read(&block(other)).is_ok(), is_right);
                assert_eq!(layout.row(&block(other), 0).is_ok(), is_right);
            }
            let long = block(layout);
            for cut in 0..long.len() {
                let rows = layout.read(&long[..cut]).map(Iterator::count);
                assert!(rows.is_err() || (cut - HEADER_BYTES).is_multiple_of(layout.row_bytes()), "cut at {cut}");
            }
        }
    }
}
