//! Encryption at rest: the key that a program gives, and the cipher that encrypts pages and cache records with it.
//!
//! The cipher is XChaCha20-Poly1305 with random nonces of 192 bits: no counter has to survive a crash or a copied file,
//! and the probability that two nonces among 2^64 are equal is 1 in 2^65. Each use of a key gives the cipher another
//! context, so that what was encrypted for one place is not decrypted in another.
//!
//! Without the feature `encryption` there is no key and no value of the cipher's type, so that its users need not know
//! of the feature.

#[cfg(feature = "encryption")]
mod cipher;

#[cfg(feature = "encryption")]
pub use cipher::EncryptionKey;
#[cfg(feature = "encryption")]
pub(crate) use cipher::{Cipher, ENCRYPTION_BYTES};
#[cfg(not(feature = "encryption"))]
pub(crate) use no_cipher::{Cipher, ENCRYPTION_BYTES};

/// The cipher of a build without the feature: it has no values.
#[cfg(not(feature = "encryption"))]
mod no_cipher {
    use std::io;

    pub(crate) const ENCRYPTION_BYTES: usize = 40;

    #[derive(Clone)]
    pub(crate) enum Cipher {}

    impl Cipher {
        pub(crate) fn encrypt(&self, _context: &[u8], _plain: &[u8], _encrypted: &mut [u8]) -> io::Result<()> {
            match *self {}
        }

        pub(crate) fn decrypt(&self, _context: &[u8], _encrypted: &[u8], _plain: &mut [u8]) -> bool {
            match *self {}
        }

        pub(crate) fn random(&self) -> io::Result<[u8; 32]> {
            match *self {}
        }
    }
}
