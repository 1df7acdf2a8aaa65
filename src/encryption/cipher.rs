//! The key that a program gives, and the cipher that it makes.

use std::{
    fmt,
    fs::File,
    io::{self, Read},
    path::Path,
    sync::Arc,
};

use chacha20poly1305::{
    KeyInit, Tag, XChaCha20Poly1305, XNonce,
    aead::{AeadInOut, inout::InOutBuf},
};
use zeroize::Zeroizing;

use crate::error::{BoxError, Error, Result};

const KEY_BYTES: usize = 32;

type Secret = Zeroizing<[u8; KEY_BYTES]>;
type Ask = dyn Fn() -> std::result::Result<[u8; KEY_BYTES], BoxError> + Send + Sync;

/// A key of 256 bits for a database and the file of its embedding cache. Feature `encryption`.
///
/// The key must be random: it is used as it is, and no password is turned into a key. `openssl rand -hex 32` prints
/// one. Whoever loses the key loses the database. `Debug` does not show the key, and its memory is zeroed on drop.
///
/// ```
/// # fn main() -> mnemon::Result<()> {
/// # let folder = tempfile::tempdir().unwrap();
/// # let file = folder.path().join("key");
/// # std::fs::write(&file, "6b".repeat(32)).unwrap();
/// use mnemon::{Config, EncryptionKey};
/// let config = Config::default().encryption_key(EncryptionKey::from_file(file)?);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct EncryptionKey(Source);

#[derive(Clone)]
enum Source {
    Secret(Arc<Secret>),
    Callback(Arc<Ask>),
}

impl fmt::Debug for EncryptionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EncryptionKey(..)")
    }
}

impl EncryptionKey {
    /// Takes the key as it is.
    pub fn from_bytes(key: [u8; 32]) -> Self {
        Self::new(Zeroizing::new(key))
    }

    /// Reads the key from a file of 32 bytes, or of 64 hexadecimal digits. The file is not needed afterwards.
    ///
    /// # Errors
    /// [`Error::KeyUnavailable`]: the file cannot be read, or has something else.
    pub fn from_file(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        // No reallocation, which would leave a copy of the key in memory; more bytes are not a key.
        let mut bytes = Zeroizing::new(Vec::with_capacity(128));
        let read = File::open(path).and_then(|file| file.take(100).read_to_end(&mut bytes));
        read.map_err(|error| unavailable(path.display().to_string(), Some(error.into())))?;
        if let Ok(key) = <[u8; KEY_BYTES]>::try_from(&bytes[..]) {
            return Ok(Self::from_bytes(key));
        }
        let key = digits(bytes.trim_ascii());
        key.map(Self::new).ok_or_else(|| {
            unavailable(format!("{} has neither 32 bytes nor 64 hexadecimal digits", path.display()), None)
        })
    }

    /// Reads the key from an environment variable of 64 hexadecimal digits.
    ///
    /// # Errors
    /// [`Error::KeyUnavailable`]: the variable is not set, or has something else.
    pub fn from_env(variable: &str) -> Result<Self> {
        let value = std::env::var(variable).map(Zeroizing::new);
        let value = value.map_err(|error| unavailable(format!("the variable {variable}"), Some(error.into())))?;
        let key = digits(value.trim().as_bytes());
        key.map(Self::new)
            .ok_or_else(|| unavailable(format!("the variable {variable} has not 64 hexadecimal digits"), None))
    }

    /// Asks a function for the key each time that a file is opened: for a key service.
    ///
    /// An error of the function is the source of [`Error::KeyUnavailable`], which opening the database returns.
    pub fn from_callback(ask: impl Fn() -> std::result::Result<[u8; 32], BoxError> + Send + Sync + 'static) -> Self {
        EncryptionKey(Source::Callback(Arc::new(ask)))
    }

    fn new(secret: Secret) -> Self {
        EncryptionKey(Source::Secret(Arc::new(secret)))
    }

    fn secret(&self) -> Result<Secret> {
        match &self.0 {
            Source::Secret(secret) => Ok(Secret::clone(secret)),
            Source::Callback(ask) => {
                ask().map(Zeroizing::new).map_err(|error| unavailable("it was asked for in vain".into(), Some(error)))
            }
        }
    }
}

fn digits(text: &[u8]) -> Option<Secret> {
    let mut key = Zeroizing::new([0; KEY_BYTES]);
    let digit = |byte: u8| (byte as char).to_digit(16);
    if text.len() != 2 * KEY_BYTES {
        return None;
    }
    for (byte, [high, low]) in key.iter_mut().zip(text.as_chunks::<2>().0) {
        *byte = (digit(*high)? << 4 | digit(*low)?) as u8;
    }
    Some(key)
}

fn unavailable(reason: String, source: Option<BoxError>) -> Error {
    Error::KeyUnavailable { reason, source }
}

const NONCE_BYTES: usize = 24;
const TAG_BYTES: usize = 16;
/// Bytes by which encrypted bytes are longer: the nonce and the authentication tag, behind the ciphertext.
pub(crate) const ENCRYPTION_BYTES: usize = NONCE_BYTES + TAG_BYTES;

/// Encrypts and authenticates bytes: nobody reads or changes them without the key. The key is zeroed on drop.
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

    /// Encrypts `plain` for a context into `encrypted`, which is [`ENCRYPTION_BYTES`] longer.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub(crate) fn encrypt(&self, context: &[u8], plain: &[u8], encrypted: &mut [u8]) -> io::Result<()> {
        let (text, trailer) = encrypted.split_at_mut(plain.len());
        let (nonce, tag) = trailer.split_at_mut(NONCE_BYTES);
        getrandom::fill(nonce)?;
        let nonce: &XNonce = (&*nonce).try_into().expect("the nonce has its length");
        let buffer = InOutBuf::new(plain, text).expect("the ciphertext is as long as the plaintext");
        let made = self.0.encrypt_inout_detached(nonce, context, buffer).expect("the cipher takes up to 256 GiB");
        tag.copy_from_slice(&made);
        Ok(())
    }

    /// Decrypts `encrypted` for a context into `plain`, which is [`ENCRYPTION_BYTES`] shorter. Returns false, and
    /// leaves `plain` as it is, if the bytes were not encrypted with this key for this context.
    pub(crate) fn decrypt(&self, context: &[u8], encrypted: &[u8], plain: &mut [u8]) -> bool {
        let (text, trailer) = encrypted.split_at(plain.len());
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
    fn keys_are_read_from_files_and_functions() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        let check = |contents: &[u8], expected: Option<[u8; 32]>| {
            std::fs::write(&path, contents).unwrap();
            let found = EncryptionKey::from_file(&path).and_then(|key| key.secret());
            assert_eq!(found.ok().map(|key| *key), expected, "{contents:?}");
        };
        let mut counted = [0; 32];
        (0..32).for_each(|i| counted[i] = i as u8 * 8);
        check(&counted, Some(counted));
        let text: String = counted.iter().map(|byte| format!("{byte:02x}")).collect();
        check(text.as_bytes(), Some(counted));
        check(format!("{}\r\n", text.to_uppercase()).as_bytes(), Some(counted));
        check(b"", None);
        check(&text.as_bytes()[1..], None);
        check(format!("{text}00").as_bytes(), None);
        check("g".repeat(64).as_bytes(), None);
        check(&[7; 33], None);

        let refused = EncryptionKey::from_callback(|| Err("no such key".into())).secret().unwrap_err();
        assert_eq!(std::error::Error::source(&refused).unwrap().to_string(), "no such key");
        assert_eq!(*EncryptionKey::from_callback(|| Ok([3; 32])).secret().unwrap(), [3; 32]);
        assert!(EncryptionKey::from_env("MNEMON_NO_SUCH_VARIABLE").is_err());
        assert_eq!(format!("{:?}", EncryptionKey::from_bytes([77; 32])), "EncryptionKey(..)");
    }

    #[test]
    fn encrypted_bytes_are_decrypted_only_as_they_are_with_their_key_and_context() {
        let cipher = |byte| Cipher::new(&EncryptionKey::from_bytes([byte; 32])).unwrap();
        let encrypted = |cipher: &Cipher| {
            let mut encrypted = vec![0; 100 + ENCRYPTION_BYTES];
            cipher.encrypt(b"here", &[b'x'; 100], &mut encrypted).unwrap();
            encrypted
        };
        let mine = cipher(1);
        let bytes = encrypted(&mine);
        let opens = |cipher: &Cipher, context: &[u8], bytes: &[u8]| {
            let mut plain = [0; 100];
            let opened = cipher.decrypt(context, bytes, &mut plain);
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
        assert_ne!(encrypted(&mine), bytes, "nonces are random");
        assert!(!bytes.windows(4).any(|window| window == b"xxxx"));
    }
}
