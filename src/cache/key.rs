//! Keys of cached texts.
//!
//! A key names the text that caused its entry beside the entry itself, so that whoever forgets a text finds all entries
//! that it caused: of all models, also of those that are not in use any more, and in all windows.

use sha2::{Digest, Sha256};

use crate::ids::ModelIdentity;

/// The key of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Key {
    /// The hash of the text that caused the entry; all questions share one. Entries of one origin are forgotten together.
    pub(super) origin: Origin,
    /// SHA-256 of the model's identity, the [`TextKind`], and the text.
    pub(super) hash: [u8; 32],
}

/// The first bytes of the SHA-256 of a document's text, which say nothing about the model; or [`QUERIES`]. If two texts
/// have the same, both are forgotten with either, which costs embedding one again.
pub(super) type Origin = u64;

/// The origin of all queries. A query repeats what was said, in any words, and a window of one is cached by itself: so
/// no text leads to the queries that it caused, and all of them are forgotten with any text.
pub(super) const QUERIES: Origin = 1;

/// The role in which a text is embedded. The numbers are part of the keys in cache files.
#[derive(Clone, Copy)]
pub(super) enum TextKind {
    Query = 1,
    Document = 2,
    Passages = 3,
}

/// Returns the origin of the entries of a document.
pub(super) fn origin(text: &str) -> Origin {
    first_bytes(&Sha256::digest(text).into())
}

/// Returns the first bytes of a hash as a number.
pub(super) fn first_bytes(hash: &[u8; 32]) -> u64 {
    u64::from_le_bytes(*hash.first_chunk().expect("a hash has 32 bytes"))
}

/// Makes the keys of one model's texts.
pub(super) struct KeyMaker {
    /// SHA-256 of the model's dimension and hash, which all its keys begin with.
    identity: [u8; 32],
}

impl KeyMaker {
    pub(super) fn new(identity: &ModelIdentity) -> Self {
        let ModelIdentity { dimension, hash, .. } = identity;
        KeyMaker { identity: Sha256::digest(format!("{dimension} {hash}")).into() }
    }

    pub(super) fn keys(&self, kind: TextKind, texts: &[&str]) -> Vec<Key> {
        // One whole block of the hash function, which is computed once for all texts.
        let mut head = [0; 64];
        head[..32].copy_from_slice(&self.identity);
        head[32] = kind as u8;
        let head = Sha256::new_with_prefix(head);
        let key = |text: &&str| {
            let origin = match kind {
                TextKind::Query => QUERIES,
                TextKind::Document | TextKind::Passages => origin(text),
            };
            Key { origin, hash: head.clone().chain_update(text).finalize().into() }
        };
        texts.iter().map(key).collect()
    }
}
