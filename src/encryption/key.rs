//! The key that a program gives.

use std::{fmt, fs::File, io::Read, path::Path, sync::Arc};

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

    /// Returns the key.
    pub(super) fn secret(&self) -> Result<Secret> {
        match &self.0 {
            Source::Secret(secret) => Ok(Secret::clone(secret)),
            Source::Callback(ask) => {
                ask().map(Zeroizing::new).map_err(|error| unavailable("it was asked for in vain".into(), Some(error)))
            }
        }
    }
}

/// Decodes a key of hexadecimal digits.
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
}
