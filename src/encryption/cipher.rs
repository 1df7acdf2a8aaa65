//! The cipher.

use std::io;

use chacha20poly1305::{
    KeyInit, Tag, XChaCha20Poly1305, XNonce,
    aead::{AeadInOut, inout::InOutBuf},
};

use super::EncryptionKey;
use crate::error::Result;

const NONCE_BYTES: usize = 24;
const TAG_BYTES: usize = 16;
/// Bytes by which sealed bytes are longer: the nonce and the tag, behind the ciphertext.
pub(crate) const SEAL_BYTES: usize = NONCE_BYTES + TAG_BYTES;

/// Seals bytes so that nobody reads or changes them without the key. The key is zeroed on drop.
#[derive(Clone)]
pub(crate) struct Cipher(XChaCha20Poly1305);

impl Cipher {
    /// Asks for the key.
    ///
    /// # Errors
    /// [`Error::KeyUnavailable`](crate::Error::KeyUnavailable).
    pub(crate) fn new(key: &EncryptionKey) -> Result<Self> {
        Ok(Cipher(XChaCha20Poly1305::new((&*key.secret()?).into())))
    }

    /// Seals `plain` for a context into `sealed`, which is [`SEAL_BYTES`] longer.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub(crate) fn seal(&self, context: &[u8], plain: &[u8], sealed: &mut [u8]) -> io::Result<()> {
        let (text, trailer) = sealed.split_at_mut(plain.len());
        let (nonce, tag) = trailer.split_at_mut(NONCE_BYTES);
        getrandom::fill(nonce)?;
        let nonce: &XNonce = (&*nonce).try_into().expect("the nonce has its length");
        let buffer = InOutBuf::new(plain, text).expect("the ciphertext is as long as the plaintext");
        let made = self.0.encrypt_inout_detached(nonce, context, buffer).expect("the cipher takes up to 256 GiB");
        tag.copy_from_slice(&made);
        Ok(())
    }

    /// Opens `sealed` for a context into `plain`, which is [`SEAL_BYTES`] shorter. Returns false, and leaves `plain` as
    /// it is, if the bytes were not sealed with this key for this context.
    pub(crate) fn open(&self, context: &[u8], sealed: &[u8], plain: &mut [u8]) -> bool {
        let (text, trailer) = sealed.split_at(plain.len());
        let (nonce, tag) = trailer.split_at(NONCE_BYTES);
        let nonce: &XNonce = nonce.try_into().expect("the nonce has its length");
        let tag: &Tag = tag.try_into().expect("the tag has its length");
        let buffer = InOutBuf::new(text, plain).expect("the plaintext is as long as the ciphertext");
        self.0.decrypt_inout_detached(nonce, context, buffer, tag).is_ok()
    }

    /// Returns random bytes for a secret.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub(crate) fn random(&self) -> io::Result<[u8; 32]> {
        let mut bytes = [0; 32];
        getrandom::fill(&mut bytes)?;
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sealed_bytes_open_only_as_they_are_with_their_key_and_context() {
        let cipher = |byte| Cipher::new(&EncryptionKey::from_bytes([byte; 32])).unwrap();
        let sealed = |cipher: &Cipher| {
            let mut sealed = vec![0; 100 + SEAL_BYTES];
            cipher.seal(b"here", &[b'x'; 100], &mut sealed).unwrap();
            sealed
        };
        let mine = cipher(1);
        let bytes = sealed(&mine);
        let opens = |cipher: &Cipher, context: &[u8], bytes: &[u8]| {
            let mut plain = [0; 100];
            let opened = cipher.open(context, bytes, &mut plain);
            assert_eq!(plain, if opened { [b'x'; 100] } else { [0; 100] });
            opened
        };
        assert!(opens(&mine, b"here", &bytes));
        assert!(!opens(&mine, b"there", &bytes));
        assert!(!opens(&cipher(2), b"here", &bytes));
        for bit in 0..bytes.len() * 8 {
            let mut changed = bytes.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert!(!opens(&mine, b"here", &changed));
        }
        assert_ne!(sealed(&mine), bytes, "nonces are random");
        assert!(!bytes.windows(4).any(|window| window == b"xxxx"));
    }
}
