//! Keys of cached texts.

use sha2::{Digest, Sha256};

use crate::ids::ModelIdentity;

/// SHA-256 of the model's identity, the [`TextKind`], and the text.
pub(super) type Key = [u8; 32];

/// The role in which a text is embedded. The numbers are part of the keys in cache files.
#[derive(Clone, Copy)]
pub(super) enum TextKind {
    Query = 1,
    Document = 2,
    Passages = 3,
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

    /// Returns the keys of texts in all roles.
    pub(super) fn all_keys(&self, texts: &[&str]) -> Vec<Key> {
        let kinds = [TextKind::Query, TextKind::Document, TextKind::Passages];
        kinds.into_iter().flat_map(|kind| self.keys(kind, texts)).collect()
    }

    pub(super) fn keys(&self, kind: TextKind, texts: &[&str]) -> Vec<Key> {
        // One whole block of the hash function, which is computed once for all texts.
        let mut head = [0; 64];
        head[..32].copy_from_slice(&self.identity);
        head[32] = kind as u8;
        let head = Sha256::new_with_prefix(head);
        texts.iter().map(|text| head.clone().chain_update(text).finalize().into()).collect()
    }
}
