//! The windows of stored texts, as their rows have them.

use std::{collections::HashMap, ops::Range};

use sha2::{Digest, Sha256};

use crate::{
    embed::{self, Embedder},
    error::{Error, Result},
    ids::{GenerationId, NamespaceId},
    store::Snapshot,
};

/// Splits a text into the windows of its `count` rows.
///
/// # Errors
/// The embedder's; [`Error::Corrupted`] if the text cannot have so many rows.
pub(super) fn stored_windows(embedder: &dyn Embedder, text: &str, count: usize) -> Result<Vec<Range<usize>>> {
    if count == 1 {
        return Ok(whole(text));
    }
    let windows = embed::window_ranges(embedder, text)?;
    if windows.len() == count {
        return Ok(windows);
    }
    if count > text.len() {
        return Err(Error::corrupted(format!("a text of {} bytes has {count} rows", text.len())));
    }
    // The embedder splits the text differently than it did. Even parts contain the same words, in nearly the same rows.
    let end = |part: usize| text.floor_char_boundary(text.len() * part / count);
    Ok((0..count).map(|part| end(part)..end(part + 1)).collect())
}

/// The windows of texts that have several rows, computed before the transaction that needs them: an embedder is the
/// user's code, which may take long, and every write would wait for it.
#[derive(Clone, Default)]
pub(super) struct TextWindows(HashMap<TextKey, Vec<Range<usize>>>);

/// The SHA-256 of a text, and the number of its rows. Windows of another text could end inside a character.
type TextKey = ([u8; 32], usize);

impl TextWindows {
    /// Computes the windows of all texts of a namespace that have several rows.
    pub(super) fn read(
        snapshot: &Snapshot,
        generation: GenerationId,
        namespace: NamespaceId,
        embedder: &dyn Embedder,
    ) -> Result<Self> {
        let mut windows = TextWindows::default();
        snapshot.rows().texts(generation, namespace, |_, count, text| windows.add(embedder, text, count as usize))?;
        Ok(windows)
    }

    /// Computes the windows of a text with `count` rows, unless they are known.
    pub(super) fn add(&mut self, embedder: &dyn Embedder, text: &str, count: usize) -> Result<()> {
        let key = key(text, count);
        if count > 1 && !self.0.contains_key(&key) {
            self.0.insert(key, stored_windows(embedder, text, count)?);
        }
        Ok(())
    }

    /// The windows of a text with `count` rows; `None` if they were not computed.
    pub(super) fn get(&self, text: &str, count: usize) -> Option<Vec<Range<usize>>> {
        match count {
            1 => Some(whole(text)),
            _ => self.0.get(&key(text, count)).cloned(),
        }
    }
}

fn whole(text: &str) -> Vec<Range<usize>> {
    std::iter::once(0..text.len()).collect()
}

fn key(text: &str, count: usize) -> TextKey {
    (Sha256::digest(text).into(), count)
}
