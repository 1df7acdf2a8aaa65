//! Reads the lexical segments of a namespace from the store.

use std::sync::Arc;

use crate::{
    error::{Error, Result},
    ids::{GenerationId, NamespaceId},
    lexical::{Language, LexicalIndex, Segment},
    store::{RowMeta, SegmentInfo, Snapshot},
};

/// Parses the language stored for a namespace; the default one if none is stored.
///
/// # Errors
/// [`Error::Corrupted`] if it is no language.
pub(crate) fn language(stored: Option<String>) -> Result<Language> {
    stored.map_or(Ok(Language::default()), |name| {
        name.parse().map_err(|_| Error::corrupted(format!("the stored language {name:?} of a namespace is unknown")))
    })
}

/// Parses a stored segment.
///
/// # Errors
/// [`Error::Corrupted`] if its bytes are damaged, or it does not have as many rows as its record states.
pub(crate) fn read_segment(bytes: Vec<u8>, SegmentInfo { number, rows }: SegmentInfo) -> Result<Segment> {
    let damaged =
        |reason: &str| Error::corrupted(format!("segment {number} of a lexical index: {reason}; loading repairs it"));
    let segment = Segment::read(bytes).map_err(damaged)?;
    match segment.rows().len() {
        found if found == rows as usize => Ok(segment),
        found => Err(damaged(&format!("it has {found} rows, not {rows}"))),
    }
}

/// Reads the lexical index of a namespace. `None` if it is incomplete or damaged, or was analyzed by another language
/// or an earlier release.
pub(super) fn load_lexical(
    snapshot: &Snapshot,
    generation: GenerationId,
    namespace: NamespaceId,
    language: Language,
    metas: &[Option<RowMeta>],
) -> Result<Option<LexicalIndex>> {
    let is_live = |row: u32| metas.get(row as usize).is_some_and(Option::is_some);
    let mut index = LexicalIndex::default();
    for info in snapshot.segments().list(generation, namespace)? {
        let bytes = snapshot.segments().read(generation, namespace, info.number);
        if bytes.as_ref().is_ok_and(|bytes| Segment::is_outdated(bytes)) {
            return Ok(None);
        }
        match bytes.and_then(|bytes| read_segment(bytes, info)) {
            Ok(segment) if segment.is_of(language) => index.set(info.number, Some(Arc::new(segment)), is_live),
            Ok(_) => return Ok(None),
            Err(error @ Error::Corrupted { .. }) => {
                tracing::error!(%error, "a damaged lexical index is rebuilt from the messages");
                return Ok(None);
            }
            Err(error) => return Err(error),
        }
    }
    let is_complete = (0..metas.len() as u32).all(|row| !is_live(row) || index.covers(row));
    Ok(is_complete.then_some(index))
}
