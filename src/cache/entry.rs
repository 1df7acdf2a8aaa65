//! Entries of the cache: their keys, the encoding of their vectors, and their encryption in a file.
//!
//! A key names the text that caused its entry beside the entry itself, so that whoever forgets a text finds all entries
//! that it caused: of all models, also of those that are not in use any more, and in all chunks of the text.

#![cfg_attr(not(feature = "encryption"), allow(unreachable_code, reason = "a build without the feature has no cipher"))]

use std::{io, ops::Range, sync::Arc};

use sha2::{Digest, Sha256};

use crate::{
    embed::Passage,
    encryption::{Cipher, ENCRYPTION_BYTES},
    ids::ModelIdentity,
};

/// The key of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Key {
    /// The hash of the text that caused the entry; one constant for all queries. Entries of one origin are forgotten
    /// together.
    pub(super) origin: Origin,
    /// SHA-256 of the model's identity, the [`TextKind`], and the text.
    pub(super) hash: [u8; 32],
}

/// The first bytes of the SHA-256 of a document's text, whatever the model; or [`QUERIES`]. Two texts with the same
/// origin are forgotten together, which only costs embedding one of them again.
pub(super) type Origin = u64;

/// The origin of all queries. A query may repeat a text in any words, so the queries that a text caused cannot be
/// found, and all of them are forgotten with any text.
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

const COUNT_BYTES: usize = 4;
/// Start and end, 8 bytes each.
const RANGE_BYTES: usize = 16;

/// Encodes the passages of a text: their number, the range of each, then their vectors. All numbers are little endian.
pub(super) fn encode(passages: &[Passage]) -> Arc<[u8]> {
    let components: usize = passages.iter().map(|passage| passage.vector.len()).sum();
    let mut bytes = Vec::with_capacity(COUNT_BYTES + passages.len() * RANGE_BYTES + components * 4);
    bytes.extend((passages.len() as u32).to_le_bytes());
    for Range { start, end } in passages.iter().map(|passage| &passage.range) {
        bytes.extend((*start as u64).to_le_bytes());
        bytes.extend((*end as u64).to_le_bytes());
    }
    for Passage { vector, .. } in passages {
        let begin = bytes.len();
        bytes.resize(begin + vector.len() * 4, 0);
        for (bytes, x) in bytes[begin..].as_chunks_mut::<4>().0.iter_mut().zip(vector) {
            *bytes = x.to_le_bytes();
        }
    }
    bytes.into()
}

/// Decodes the passages of a text of `text_bytes` bytes, at least one, each with a vector of this dimension. `None`:
/// the bytes encode anything else.
pub(super) fn decode(bytes: &[u8], dimension: usize, text_bytes: usize) -> Option<Vec<Passage>> {
    let (count, rest) = bytes.split_first_chunk::<COUNT_BYTES>()?;
    let count = u32::from_le_bytes(*count) as usize;
    let (ranges, vectors) = rest.split_at_checked(count.checked_mul(RANGE_BYTES)?)?;
    if count == 0 || dimension == 0 || vectors.len() != count.checked_mul(dimension)?.checked_mul(4)? {
        return None;
    }
    let position =
        |bytes: &[u8; 8]| usize::try_from(u64::from_le_bytes(*bytes)).ok().filter(|&position| position <= text_bytes);
    ranges
        .as_chunks::<8>()
        .0
        .as_chunks::<2>()
        .0
        .iter()
        .zip(vectors.chunks_exact(dimension * 4))
        .map(|([start, end], vector)| {
            let (start, end) = (position(start)?, position(end)?);
            let vector = vector.as_chunks::<4>().0.iter().map(|x| f32::from_le_bytes(*x)).collect();
            (start <= end).then_some(Passage { range: start..end, vector })
        })
        .collect()
}

const SECRET_BYTES: usize = 32;
/// Bytes of the encrypted secret in the header of the file. Only the file's key decrypts it, which proves the key.
pub(super) const ENCRYPTED_SECRET_BYTES: usize = SECRET_BYTES + ENCRYPTION_BYTES;
/// Keeps the encrypted secret apart from whatever else the key encrypts.
const CONTEXT: &[u8] = b"secret of an embedding cache";

/// Encrypts and decrypts the records of one file.
///
/// The key of a record has hashes of its text, by which anybody could find out whether a text that they guess is in the
/// file. So they are hashed again, with a secret of the file, which the header has in encrypted form.
#[derive(Clone)]
pub(super) struct RecordCipher {
    cipher: Cipher,
    secret: [u8; SECRET_BYTES],
    encrypted_secret: [u8; ENCRYPTED_SECRET_BYTES],
}

impl RecordCipher {
    /// Makes the secret of a new file.
    pub(super) fn new(cipher: &Cipher) -> io::Result<Self> {
        let secret = cipher.random()?;
        let mut encrypted_secret = [0; ENCRYPTED_SECRET_BYTES];
        cipher.encrypt(CONTEXT, &secret, &mut encrypted_secret)?;
        Ok(RecordCipher { cipher: cipher.clone(), secret, encrypted_secret })
    }

    /// Opens a file by its encrypted secret. `None`: the file has another key.
    pub(super) fn open_file(cipher: &Cipher, encrypted_secret: [u8; ENCRYPTED_SECRET_BYTES]) -> Option<Self> {
        let mut secret = [0; SECRET_BYTES];
        let is_valid = cipher.decrypt(CONTEXT, &encrypted_secret, &mut secret);
        is_valid.then(|| RecordCipher { cipher: cipher.clone(), secret, encrypted_secret })
    }

    pub(super) fn encrypted_secret(&self) -> &[u8] {
        &self.encrypted_secret
    }

    /// Returns the key under which the file has a record.
    pub(super) fn key(&self, key: &Key) -> Key {
        let hash = Sha256::new().chain_update(self.secret).chain_update(key.hash).finalize().into();
        Key { origin: self.origin(key.origin), hash }
    }

    /// Returns the origin that the file has in place of this one.
    pub(super) fn origin(&self, origin: Origin) -> Origin {
        first_bytes(&Sha256::new().chain_update(self.secret).chain_update(origin.to_le_bytes()).finalize().into())
    }

    /// Encrypts the value of a record for its key in the file.
    pub(super) fn encrypt(&self, key: &Key, bytes: &[u8]) -> io::Result<Arc<[u8]>> {
        let mut encrypted = vec![0; bytes.len() + ENCRYPTION_BYTES];
        self.cipher.encrypt(&key.hash, bytes, &mut encrypted)?;
        Ok(encrypted.into())
    }

    /// Decrypts the value of a record. `None`: it was changed.
    pub(super) fn decrypt(&self, key: &Key, encrypted: &[u8]) -> Option<Arc<[u8]>> {
        let mut bytes = vec![0; encrypted.len().checked_sub(ENCRYPTION_BYTES)?];
        self.cipher.decrypt(&key.hash, encrypted, &mut bytes).then(|| bytes.into())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn encoded_passages_are_decoded(count in 1usize..4, dimension in 1usize..9, bits in prop::collection::vec(any::<u32>(), 32)) {
            let passages: Vec<Passage> = (0..count)
                .map(|i| {
                    let vector = (0..dimension).map(|j| f32::from_bits(bits[i * dimension + j])).collect();
                    Passage { range: i * 3..i * 5, vector }
                })
                .collect();
            let bytes = encode(&passages);
            let decoded = decode(&bytes, dimension, 15).unwrap();
            // Compared as bits, because NaN is not equal to itself.
            prop_assert_eq!(encode(&decoded), bytes.clone());
            prop_assert_eq!(decoded.len(), count);
            let other_dimension = decode(&bytes, dimension + 1, 15);
            prop_assert!(other_dimension.is_none());
            // The text is one byte shorter than the end of the last passage, if that is not empty.
            let outside = decode(&bytes, dimension, ((count - 1) * 5).saturating_sub(1));
            prop_assert_eq!(outside.is_some(), count == 1);
            for cut in 0..bytes.len() {
                prop_assert!(decode(&bytes[..cut], dimension, 15).is_none());
            }
        }
    }
}
