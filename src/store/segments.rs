//! The lexical index of a namespace: numbered segments. The store does not know what a segment's bytes mean.
//!
//! A segment is stored in parts just under a power of two, which is how redb allocates pages. Segments are replaced as
//! a whole, and their bytes contain their own checksums.

use super::{
    schema::*,
    tables::{ReadableTable, Tables, WriteTransaction},
};
use crate::{
    error::{Error, Result},
    ids::{GenerationId, NamespaceId},
};

const PART_BYTES: usize = (1 << 16) - 256;

/// The number of a stored segment, and how many rows it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SegmentInfo {
    pub(crate) number: u32,
    pub(crate) rows: u32,
}

/// The tables of segments and of their parts.
pub(crate) struct Segments<'t, T>(pub(super) &'t T);

impl<T: Tables> Segments<'_, T> {
    /// The segments of a namespace, oldest first.
    pub(crate) fn list(
        &self,
        GenerationId(generation): GenerationId,
        NamespaceId(namespace): NamespaceId,
    ) -> Result<Vec<SegmentInfo>> {
        // No segment has the last number: an index uses it for "in no segment".
        let all = (generation, namespace, 0)..(generation, namespace, u32::MAX);
        let table = self.0.table(SEGMENTS)?;
        let entries = table.range(all)?;
        entries
            .map(|entry| {
                let (key, value) = entry?;
                Ok(SegmentInfo { number: key.value().2, rows: value.value().0 })
            })
            .collect()
    }

    /// The bytes of a segment.
    ///
    /// # Errors
    /// [`Error::Corrupted`] if its record or one of its parts is missing.
    pub(crate) fn read(
        &self,
        GenerationId(generation): GenerationId,
        NamespaceId(namespace): NamespaceId,
        number: u32,
    ) -> Result<Vec<u8>> {
        let missing =
            |what: &str| Error::corrupted(format!("{what} of segment {number} of a lexical index is missing"));
        let (segments, parts) = (self.0.table(SEGMENTS)?, self.0.table(SEGMENT_PARTS)?);
        let damaged = || format!("segment {number} of a lexical index");
        let info = segments.get((generation, namespace, number)).map_err(|error| error.within(damaged))?;
        let info = info.ok_or_else(|| missing("the record"))?;
        let mut bytes = Vec::new();
        for part in 0..info.value().1 {
            let value = parts.get((generation, namespace, number, part));
            let value = value.map_err(|error| error.within(damaged))?;
            bytes.extend(value.ok_or_else(|| missing("a part"))?.value());
        }
        Ok(bytes)
    }

    /// Number of stored parts that belong to no segment.
    pub(crate) fn stray_parts(
        &self,
        GenerationId(generation): GenerationId,
        NamespaceId(namespace): NamespaceId,
    ) -> Result<usize> {
        let segments = self.0.table(SEGMENTS)?;
        let all = (generation, namespace, 0, 0)..=(generation, namespace, u32::MAX, u32::MAX);
        let mut stray = 0;
        for entry in self.0.table(SEGMENT_PARTS)?.range(all)? {
            let (_, _, number, part) = entry?.0.value();
            let record = segments.get((generation, namespace, number))?;
            stray += usize::from(record.is_none_or(|record| part >= record.value().1));
        }
        Ok(stray)
    }
}

impl Segments<'_, WriteTransaction> {
    /// Stores a segment, replacing the one with the same number.
    pub(crate) fn put(
        &self,
        generation: GenerationId,
        namespace: NamespaceId,
        number: u32,
        rows: u32,
        bytes: &[u8],
    ) -> Result<()> {
        self.remove(generation, namespace, number)?;
        let parts = bytes.chunks(PART_BYTES);
        let key = (generation.0, namespace.0, number);
        self.0.table(SEGMENTS)?.insert(key, (rows, parts.len() as u32))?;
        let mut table = self.0.table(SEGMENT_PARTS)?;
        for (part, bytes) in parts.enumerate() {
            table.insert((generation.0, namespace.0, number, part as u32), bytes)?;
        }
        Ok(())
    }

    /// Deletes a segment. Does nothing if there is no such segment.
    pub(crate) fn remove(&self, generation: GenerationId, namespace: NamespaceId, number: u32) -> Result<()> {
        let mut segments = self.0.table(SEGMENTS)?;
        let removed = segments.remove((generation.0, namespace.0, number))?;
        let parts = removed.map_or(0, |info| info.value().1);
        let mut table = self.0.table(SEGMENT_PARTS)?;
        for part in 0..parts {
            table.remove((generation.0, namespace.0, number, part))?;
        }
        Ok(())
    }

    /// Deletes all segments of a namespace, and the parts that belong to no segment.
    pub(crate) fn clear(
        &self,
        GenerationId(generation): GenerationId,
        NamespaceId(namespace): NamespaceId,
    ) -> Result<()> {
        let records = (generation, namespace, 0)..=(generation, namespace, u32::MAX);
        self.0.table(SEGMENTS)?.remove_range(records)?;
        let parts = (generation, namespace, 0, 0)..=(generation, namespace, u32::MAX, u32::MAX);
        self.0.table(SEGMENT_PARTS)?.remove_range(parts)
    }
}
