//! Trailers: how the bytes of a page are proved to be those that were written, in that place of that file.

use std::io;

use crate::{
    config::Config,
    encryption::{Cipher, ENCRYPTION_BYTES},
    error::Result,
};

/// The protection of the pages of a file.
#[derive(Clone)]
pub(in crate::store) enum Seal {
    /// Checksums, against damage.
    Checksum,
    /// Encryption, which finds damage too.
    Key(Cipher),
}

/// Bytes of a page's checksum and its number.
const CHECKSUM_TRAILER: usize = 8;
/// Bytes of the proof in a file's description that a key is the right one: a nonce and a tag. Zero without a key.
pub(super) const KEY_CHECK: usize = ENCRYPTION_BYTES;

impl Seal {
    /// The number of [`Seal::Checksum`] in a file's description.
    pub(super) const CHECKSUM: u32 = 0;

    /// Returns the seal that the settings ask for.
    ///
    /// # Errors
    /// [`Error::KeyUnavailable`](crate::Error::KeyUnavailable).
    pub(in crate::store) fn of(config: &Config) -> Result<Self> {
        Ok(config.cipher()?.map_or(Seal::Checksum, Seal::Key))
    }

    pub(super) fn number(&self) -> u32 {
        match self {
            Seal::Checksum => Self::CHECKSUM,
            Seal::Key(_) => 1,
        }
    }
}

/// Seals and opens the pages of one file.
pub(super) struct Sealer {
    seal: Seal,
    file_id: [u8; 16],
}

impl Sealer {
    pub(super) fn new(seal: &Seal, file_id: [u8; 16]) -> Self {
        Sealer { seal: seal.clone(), file_id }
    }

    /// Bytes of a trailer.
    pub(super) fn trailer(&self) -> usize {
        match self.seal {
            Seal::Checksum => CHECKSUM_TRAILER,
            Seal::Key(_) => ENCRYPTION_BYTES,
        }
    }

    /// Writes the bytes of a page and their trailer to `sealed`, which has that length.
    pub(super) fn seal(&self, page: u64, bytes: &[u8], sealed: &mut [u8]) -> io::Result<()> {
        match &self.seal {
            Seal::Checksum => {
                let (contents, trailer) = sealed.split_at_mut(bytes.len());
                contents.copy_from_slice(bytes);
                trailer[..4].copy_from_slice(&self.checksum(page, bytes).to_le_bytes());
                trailer[4..].copy_from_slice(&number(page));
                Ok(())
            }
            Seal::Key(cipher) => cipher.encrypt(&self.context(page), bytes, sealed),
        }
    }

    /// Checks a sealed page and copies its bytes to `bytes`.
    ///
    /// # Errors
    /// What is wrong with the page. `bytes` is then of no use.
    pub(super) fn open(&self, page: u64, sealed: &[u8], bytes: &mut [u8]) -> Result<(), &'static str> {
        let reason = match &self.seal {
            Seal::Checksum => {
                let (contents, trailer) = sealed.split_at(bytes.len());
                if trailer[..4] == self.checksum(page, contents).to_le_bytes() && trailer[4..] == number(page) {
                    bytes.copy_from_slice(contents);
                    return Ok(());
                }
                let found = u32::from_le_bytes(*trailer[4..].first_chunk().expect("a trailer ends with a number"));
                let is_misplaced = trailer[..4] == self.checksum(found.into(), contents).to_le_bytes();
                if is_misplaced { "another page was written over it" } else { "its checksum does not match" }
            }
            Seal::Key(cipher) => {
                if cipher.decrypt(&self.context(page), sealed, bytes) {
                    return Ok(());
                }
                "it was changed, or written to another place or with another key"
            }
        };
        Err(if sealed.iter().all(|&byte| byte == 0) { "it is zero" } else { reason })
    }

    /// Makes the proof of the key for a file's description.
    pub(super) fn key_check(&self) -> io::Result<[u8; KEY_CHECK]> {
        let mut check = [0; KEY_CHECK];
        match &self.seal {
            Seal::Checksum => {}
            Seal::Key(cipher) => cipher.encrypt(&self.file_id, &[], &mut check)?,
        }
        Ok(check)
    }

    /// Returns true if a file's description is of this key.
    pub(super) fn accepts(&self, key_check: &[u8]) -> bool {
        match &self.seal {
            Seal::Checksum => true,
            Seal::Key(cipher) => cipher.decrypt(&self.file_id, key_check, &mut []),
        }
    }

    fn checksum(&self, page: u64, contents: &[u8]) -> u32 {
        let mut checksum = crc32fast::Hasher::new();
        checksum.update(&self.context(page));
        checksum.update(contents);
        checksum.finalize()
    }

    /// Returns the place of a page: the file's id and the page's number.
    fn context(&self, page: u64) -> [u8; 24] {
        let mut context = [0; 24];
        context[..16].copy_from_slice(&self.file_id);
        context[16..].copy_from_slice(&page.to_le_bytes());
        context
    }
}

/// Returns the low half of a page's number, which tells pages apart in files below 16 TiB. The checksum covers all of
/// it.
fn number(page: u64) -> [u8; 4] {
    (page as u32).to_le_bytes()
}
