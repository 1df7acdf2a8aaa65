//! The file of tokens.
//!
//! The file has the SHA-256 of each token. A token is 32 random bytes, so its hash cannot be guessed from; hashes are
//! compared in constant time.

use std::{num::NonZeroU32, path::Path, sync::Arc};

use anyhow::{Context, ensure};
use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use mnemon::Namespace;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use super::caller::{Caller, Right};

const BYTES: usize = 32;

/// A token that was just made, and its entry for the file of tokens.
#[derive(Debug)]
pub struct NewToken {
    /// The token, which is nowhere stored.
    pub token: String,
    entry: Entry,
}

impl NewToken {
    /// Makes a token: for the namespaces under a prefix, or all; with these rights; and with these requests a second, or
    /// those of the server's limits.
    ///
    /// # Errors
    /// The system gives no random numbers.
    pub fn make(
        name: String,
        prefix: Option<Namespace>,
        rights: Vec<Right>,
        rate: Option<NonZeroU32>,
    ) -> anyhow::Result<Self> {
        let mut bytes = [0; BYTES];
        getrandom::fill(&mut bytes).context("the system gives no random numbers")?;
        let token = format!("mnemon_{}", BASE64_URL_SAFE_NO_PAD.encode(bytes));
        let entry = Entry { name, sha256: hex(&hash(&token)), prefix, rights, rate };
        Ok(NewToken { token, entry })
    }

    /// The entry as JSON.
    pub fn entry(&self) -> serde_json::Value {
        serde_json::to_value(&self.entry).expect("texts and numbers are JSON")
    }

    /// The entry as lines of a file of tokens.
    pub fn lines(self) -> String {
        toml::to_string(&File { token: vec![self.entry] }).expect("texts and numbers are TOML")
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    token: Vec<Entry>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    name: String,
    sha256: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    prefix: Option<Namespace>,
    rights: Vec<Right>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rate: Option<NonZeroU32>,
}

/// The tokens that a server accepts: their hashes, and who holds them.
pub(super) struct Tokens(Vec<([u8; 32], Arc<Caller>)>);

impl Tokens {
    /// Reads a file of tokens. Those whose entries have no rate get this one.
    pub(super) fn read(path: &Path, rate: NonZeroU32) -> anyhow::Result<Self> {
        let place = || path.display().to_string();
        let text = std::fs::read_to_string(path).with_context(place)?;
        let file: File = toml::from_str(&text).with_context(place)?;
        ensure!(!file.token.is_empty(), "{}: it has no [[token]]; `mnemon token` makes one", place());
        let holder = |entry: Entry| {
            let hash = unhex(&entry.sha256);
            let hash = hash
                .with_context(|| format!("{}: token {:?}: sha256 is not 64 hexadecimal digits", place(), entry.name))?;
            let rate = entry.rate.unwrap_or(rate);
            Ok((hash, Arc::new(Caller::new(entry.sha256, entry.prefix, entry.rights, rate))))
        };
        Ok(Tokens(file.token.into_iter().map(holder).collect::<anyhow::Result<_>>()?))
    }

    /// Returns the holder of a token. Takes as long for each token, whichever it is.
    pub(super) fn holder(&self, token: &str) -> Option<Arc<Caller>> {
        let given = hash(token);
        let mut holder = None;
        for (hash, caller) in &self.0 {
            if bool::from(hash.ct_eq(&given)) {
                holder = Some(Arc::clone(caller));
            }
        }
        holder
    }
}

fn hash(token: &str) -> [u8; 32] {
    Sha256::digest(token.as_bytes()).into()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(digits: &str) -> Option<[u8; 32]> {
    let mut bytes = [0; 32];
    let is_whole = digits.len() == 64 && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    for (at, byte) in bytes.iter_mut().enumerate().filter(|_| is_whole) {
        *byte = u8::from_str_radix(&digits[2 * at..2 * at + 2], 16).ok()?;
    }
    is_whole.then_some(bytes)
}
