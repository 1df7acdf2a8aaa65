//! Encryption at rest: the key that a program gives, and the cipher that seals pages and cache records with it.
//!
//! The cipher is XChaCha20-Poly1305 with random nonces of 192 bits: no counter has to survive a crash or a copied file,
//! and the probability that two nonces among 2^64 are equal is 1 in 2^65. Each use of a key gives the cipher another
//! context, so that what was sealed for one place does not open in another.
//!
//! Without the feature `encryption` there is no key and no value of the cipher's type, so that its users need not know
//! of the feature.

#[cfg(feature = "encryption")]
mod cipher;
#[cfg(not(feature = "encryption"))]
#[path = "no_cipher.rs"]
mod cipher;
#[cfg(feature = "encryption")]
mod key;

pub(crate) use cipher::{Cipher, SEAL_BYTES};
#[cfg(feature = "encryption")]
pub use key::EncryptionKey;
