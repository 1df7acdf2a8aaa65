//! Encryption of the records in a cache file.
//!
//! The key of a record has hashes of its text, by which anybody could find out whether a text that they guess is in the
//! file. So they are hashed again, with a secret of the file, which the header has in sealed form.

#![cfg_attr(not(feature = "encryption"), allow(unreachable_code, reason = "a build without the feature has no cipher"))]

use std::{io, sync::Arc};

use sha2::{Digest, Sha256};

use super::key::{Key, Origin, first_bytes};
use crate::encryption::{Cipher, SEAL_BYTES};

const SECRET_BYTES: usize = 32;
/// Bytes of the sealed secret in the header of the file. It opens with the file's key alone, and so proves the key.
pub(super) const SEALED_SECRET: usize = SECRET_BYTES + SEAL_BYTES;
/// Keeps the sealed secret apart from whatever else the key seals.
const CONTEXT: &[u8] = b"secret of an embedding cache";

/// Seals and opens the records of one file.
#[derive(Clone)]
pub(super) struct RecordSeal {
    cipher: Cipher,
    secret: [u8; SECRET_BYTES],
    sealed_secret: [u8; SEALED_SECRET],
}

impl RecordSeal {
    /// Makes the seal of a new file.
    pub(super) fn new(cipher: &Cipher) -> io::Result<Self> {
        let secret = cipher.random()?;
        let mut sealed_secret = [0; SEALED_SECRET];
        cipher.seal(CONTEXT, &secret, &mut sealed_secret)?;
        Ok(RecordSeal { cipher: cipher.clone(), secret, sealed_secret })
    }

    /// Returns the seal of the file with this sealed secret. `None`: the file has another key.
    pub(super) fn open_file(cipher: &Cipher, sealed_secret: [u8; SEALED_SECRET]) -> Option<Self> {
        let mut secret = [0; SECRET_BYTES];
        let is_open = cipher.open(CONTEXT, &sealed_secret, &mut secret);
        is_open.then(|| RecordSeal { cipher: cipher.clone(), secret, sealed_secret })
    }

    pub(super) fn sealed_secret(&self) -> &[u8] {
        &self.sealed_secret
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

    /// Seals the value of a record for its key in the file.
    pub(super) fn seal(&self, key: &Key, bytes: &[u8]) -> io::Result<Arc<[u8]>> {
        let mut sealed = vec![0; bytes.len() + SEAL_BYTES];
        self.cipher.seal(&key.hash, bytes, &mut sealed)?;
        Ok(sealed.into())
    }

    /// Opens the value of a record. `None`: it was changed.
    pub(super) fn open(&self, key: &Key, sealed: &[u8]) -> Option<Arc<[u8]>> {
        let mut bytes = vec![0; sealed.len().checked_sub(SEAL_BYTES)?];
        self.cipher.open(&key.hash, sealed, &mut bytes).then(|| bytes.into())
    }
}
