//! The lexical index of a namespace: numbered segments, and the language it is analysed by. The store does not know what a
//! segment's bytes say.
//!
//! A segment is stored in parts just under a power of two, as redb gives out room. Segments are replaced as wholes, and are
//! behind checksums of their own.

use redb::ReadableTable;

use super::{Snapshot, Transaction, codec, schema::*, storage};
use crate::{
    error::{Error, Result},
    ids::{GenerationId, NamespaceId},
};

const PART_BYTES: usize = (1 << 16) - 256;

/// A stored segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SegmentInfo {
    pub(crate) number: u32,
    pub(crate) rows: u32,
}

fn infos(
    table: &impl ReadableTable<(u32, u32, u32), (u32, u32)>,
    GenerationId(generation): GenerationId,
    NamespaceId(namespace): NamespaceId,
) -> Result<Vec<SegmentInfo>> {
    // The last number is no segment's: an index says nowhere by it.
    let all = (generation, namespace, 0)..(generation, namespace, u32::MAX);
    table
        .range(all)
        .map_err(storage)?
        .map(|entry| {
            let (key, value) = entry.map_err(storage)?;
            Ok(SegmentInfo { number: key.value().2, rows: value.value().0 })
        })
        .collect()
}

fn read(
    segments: &impl ReadableTable<(u32, u32, u32), (u32, u32)>,
    parts: &impl ReadableTable<(u32, u32, u32, u32), &'static [u8]>,
    GenerationId(generation): GenerationId,
    NamespaceId(namespace): NamespaceId,
    number: u32,
) -> Result<Vec<u8>> {
    let missing = |what: &str| Error::corrupted(format!("{what} of segment {number} of a lexical index is missing"));
    let info = segments.get((generation, namespace, number)).map_err(storage)?.ok_or_else(|| missing("the record"))?;
    let mut bytes = Vec::new();
    for part in 0..info.value().1 {
        let value = parts.get((generation, namespace, number, part)).map_err(storage)?;
        bytes.extend(value.ok_or_else(|| missing("a part"))?.value());
    }
    Ok(bytes)
}

fn read_language(
    table: &impl ReadableTable<u32, &'static str>,
    NamespaceId(namespace): NamespaceId,
) -> Result<Option<String>> {
    Ok(table.get(namespace).map_err(storage)?.map(|value| value.value().to_owned()))
}

/// Calls `visit` with the first row, the number of rows and the text of each message that has vectors.
fn placed_texts(
    places: &impl ReadableTable<(u32, u32, u64), (u32, u32)>,
    messages: &impl ReadableTable<(u32, u64), &'static [u8]>,
    GenerationId(generation): GenerationId,
    NamespaceId(namespace): NamespaceId,
    mut visit: impl FnMut(u32, u32, &str) -> Result<()>,
) -> Result<()> {
    for entry in places.range((generation, namespace, 0)..=(generation, namespace, u64::MAX)).map_err(storage)? {
        let (key, place) = entry.map_err(storage)?;
        let (seq, (first, count)) = (key.value().2, place.value());
        let value = messages.get((namespace, seq)).map_err(storage)?;
        let value = value.ok_or_else(|| Error::corrupted(format!("message {seq}, which has vectors, is missing")))?;
        let record: MessageRecord = codec::decode(value.value())?;
        visit(first, count, &record.message()?.searchable())?;
    }
    Ok(())
}

impl Transaction {
    /// Calls `visit` with the first row, the number of rows and the text of each message of a namespace that has vectors.
    pub(crate) fn placed_texts(
        &self,
        generation: GenerationId,
        namespace: NamespaceId,
        visit: impl FnMut(u32, u32, &str) -> Result<()>,
    ) -> Result<()> {
        placed_texts(&self.table(PLACES)?, &self.table(MESSAGES)?, generation, namespace, visit)
    }

    /// The segments of a namespace, oldest first.
    pub(crate) fn segments(&self, generation: GenerationId, namespace: NamespaceId) -> Result<Vec<SegmentInfo>> {
        infos(&self.table(SEGMENTS)?, generation, namespace)
    }

    pub(crate) fn segment(&self, generation: GenerationId, namespace: NamespaceId, number: u32) -> Result<Vec<u8>> {
        read(&self.table(SEGMENTS)?, &self.table(SEGMENT_PARTS)?, generation, namespace, number)
    }

    /// Stores a segment, in place of one of this number.
    pub(crate) fn put_segment(
        &mut self,
        generation: GenerationId,
        namespace: NamespaceId,
        number: u32,
        rows: u32,
        bytes: &[u8],
    ) -> Result<()> {
        self.drop_segment(generation, namespace, number)?;
        let parts = bytes.chunks(PART_BYTES);
        let key = (generation.0, namespace.0, number);
        self.table(SEGMENTS)?.insert(key, (rows, parts.len() as u32)).map_err(storage)?;
        let mut table = self.table(SEGMENT_PARTS)?;
        for (part, bytes) in parts.enumerate() {
            table.insert((generation.0, namespace.0, number, part as u32), bytes).map_err(storage)?;
        }
        Ok(())
    }

    /// Deletes a segment. Unknown ones are ignored.
    pub(crate) fn drop_segment(&mut self, generation: GenerationId, namespace: NamespaceId, number: u32) -> Result<()> {
        let mut segments = self.table(SEGMENTS)?;
        let removed = segments.remove((generation.0, namespace.0, number)).map_err(storage)?;
        let parts = removed.map_or(0, |info| info.value().1);
        let mut table = self.table(SEGMENT_PARTS)?;
        for part in 0..parts {
            table.remove((generation.0, namespace.0, number, part)).map_err(storage)?;
        }
        Ok(())
    }

    /// Deletes all segments of a namespace, and parts that no record knows of.
    pub(crate) fn clear_segments(
        &mut self,
        GenerationId(generation): GenerationId,
        NamespaceId(namespace): NamespaceId,
    ) -> Result<()> {
        let records = (generation, namespace, 0)..=(generation, namespace, u32::MAX);
        self.table(SEGMENTS)?.retain_in(records, |_, _| false).map_err(storage)?;
        let parts = (generation, namespace, 0, 0)..=(generation, namespace, u32::MAX, u32::MAX);
        self.table(SEGMENT_PARTS)?.retain_in(parts, |_, _| false).map_err(storage)
    }

    /// The language of a namespace, if one was set.
    pub(crate) fn language(&self, namespace: NamespaceId) -> Result<Option<String>> {
        read_language(&self.table(LANGUAGES)?, namespace)
    }

    pub(crate) fn set_language(&mut self, namespace: NamespaceId, language: &str) -> Result<()> {
        self.table(LANGUAGES)?.insert(namespace.0, language).map_err(storage)?;
        Ok(())
    }

    /// Deletes up to `limit` parts of a generation's segments, and then what knows of them. Returns how many were deleted.
    pub(super) fn sweep_segments(&self, GenerationId(id): GenerationId, limit: usize) -> Result<usize> {
        let all = (id, 0, 0, 0)..=(id, u32::MAX, u32::MAX, u32::MAX);
        let swept = super::generations::remove(&mut self.table(SEGMENT_PARTS)?, all, limit)?;
        if swept < limit {
            let all = (id, 0, 0)..=(id, u32::MAX, u32::MAX);
            self.table(SEGMENTS)?.retain_in(all, |_, _| false).map_err(storage)?;
        }
        Ok(swept)
    }
}

impl Snapshot {
    /// Calls `visit` with the first row, the number of rows and the text of each message of a namespace that has vectors.
    pub(crate) fn placed_texts(
        &self,
        generation: GenerationId,
        namespace: NamespaceId,
        visit: impl FnMut(u32, u32, &str) -> Result<()>,
    ) -> Result<()> {
        placed_texts(&self.table(PLACES)?, &self.table(MESSAGES)?, generation, namespace, visit)
    }

    /// The namespaces that ever had a row.
    pub(crate) fn counted_namespaces(&self, generation: GenerationId) -> Result<Vec<NamespaceId>> {
        let table = self.table(COUNTS)?;
        let entries = table.range((generation.0, 0)..=(generation.0, u32::MAX)).map_err(storage)?;
        entries.map(|entry| Ok(NamespaceId(entry.map_err(storage)?.0.value().1))).collect()
    }

    /// The segments of a namespace, oldest first.
    pub(crate) fn segments(&self, generation: GenerationId, namespace: NamespaceId) -> Result<Vec<SegmentInfo>> {
        infos(&self.table(SEGMENTS)?, generation, namespace)
    }

    pub(crate) fn segment(&self, generation: GenerationId, namespace: NamespaceId, number: u32) -> Result<Vec<u8>> {
        read(&self.table(SEGMENTS)?, &self.table(SEGMENT_PARTS)?, generation, namespace, number)
    }

    /// The language of a namespace, if one was set.
    pub(crate) fn language(&self, namespace: NamespaceId) -> Result<Option<String>> {
        read_language(&self.table(LANGUAGES)?, namespace)
    }

    /// How many stored parts of segments no record knows of.
    pub(crate) fn stray_parts(
        &self,
        GenerationId(generation): GenerationId,
        NamespaceId(namespace): NamespaceId,
    ) -> Result<usize> {
        let segments = self.table(SEGMENTS)?;
        let all = (generation, namespace, 0, 0)..=(generation, namespace, u32::MAX, u32::MAX);
        let mut stray = 0;
        for entry in self.table(SEGMENT_PARTS)?.range(all).map_err(storage)? {
            let (_, _, number, part) = entry.map_err(storage)?.0.value();
            let record = segments.get((generation, namespace, number)).map_err(storage)?;
            stray += usize::from(record.is_none_or(|record| part >= record.value().1));
        }
        Ok(stray)
    }
}
