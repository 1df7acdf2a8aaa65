//! Trailers: how the bytes of a page are proved to be those that were written, in that place of that file.

use std::io;

/// The protection of the pages of a file.
pub(in crate::store) enum Seal {
    /// Checksums, against damage.
    Checksum,
}

/// Bytes of a page's checksum and its number.
const CHECKSUM_TRAILER: usize = 8;
/// Bytes of the proof in a file's description that a key is the right one: a nonce and a tag. Zero without a key.
pub(super) const KEY_CHECK: usize = 40;

impl Seal {
    /// The number of [`Seal::Checksum`] in a file's description.
    pub(super) const CHECKSUM: u32 = 0;

    pub(super) fn number(&self) -> u32 {
        match self {
            Seal::Checksum => Self::CHECKSUM,
        }
    }
}

/// Seals and opens the pages of one file.
pub(super) struct Sealer {
    file_id: [u8; 16],
}

impl Sealer {
    pub(super) fn new(seal: &Seal, file_id: [u8; 16]) -> Self {
        match seal {
            Seal::Checksum => Sealer { file_id },
        }
    }

    /// Bytes of a trailer.
    pub(super) fn trailer(&self) -> usize {
        CHECKSUM_TRAILER
    }

    /// Writes the bytes of a page and their trailer to `sealed`, which has that length.
    pub(super) fn seal(&self, page: u64, bytes: &[u8], sealed: &mut [u8]) -> io::Result<()> {
        let (contents, trailer) = sealed.split_at_mut(bytes.len());
        contents.copy_from_slice(bytes);
        trailer[..4].copy_from_slice(&self.checksum(page, bytes).to_le_bytes());
        trailer[4..].copy_from_slice(&number(page));
        Ok(())
    }

    /// Checks a sealed page and copies its bytes to `bytes`.
    ///
    /// # Errors
    /// What is wrong with the page. `bytes` is then of no use.
    pub(super) fn open(&self, page: u64, sealed: &[u8], bytes: &mut [u8]) -> Result<(), &'static str> {
        let (contents, trailer) = sealed.split_at(bytes.len());
        if trailer[..4] == self.checksum(page, contents).to_le_bytes() && trailer[4..] == number(page) {
            bytes.copy_from_slice(contents);
            return Ok(());
        }
        let found = u32::from_le_bytes(*trailer[4..].first_chunk().expect("a trailer ends with a number"));
        if sealed.iter().all(|&byte| byte == 0) {
            Err("it is zero")
        } else if trailer[..4] == self.checksum(found.into(), contents).to_le_bytes() {
            Err("another page was written over it")
        } else {
            Err("its checksum does not match")
        }
    }

    /// Makes the proof of the key for a file's description.
    pub(super) fn key_check(&self) -> io::Result<[u8; KEY_CHECK]> {
        Ok([0; KEY_CHECK])
    }

    /// Returns true if a file's description is of this key.
    pub(super) fn accepts(&self, _key_check: &[u8]) -> bool {
        true
    }

    fn checksum(&self, page: u64, contents: &[u8]) -> u32 {
        let mut checksum = crc32fast::Hasher::new();
        checksum.update(&self.file_id);
        checksum.update(&page.to_le_bytes());
        checksum.update(contents);
        checksum.finalize()
    }
}

/// Returns the low half of a page's number, which tells pages apart in files below 16 TiB. The checksum covers all of it.
fn number(page: u64) -> [u8; 4] {
    (page as u32).to_le_bytes()
}
