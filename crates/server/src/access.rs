//! Who may ask, and for what: the hosts that a request may name, the callers with their rights, and the file of tokens.
//!
//! - The check of host and origin is against DNS rebinding: a page of another site in the user's browser could otherwise
//!   talk to a server on loopback by a name that resolves to it.
//! - A caller sees only namespaces under its prefix.
//! - The file of tokens has the SHA-256 of each. A token is 32 random bytes, so nobody can guess it from its hash. Hashes
//!   are compared in constant time.

use std::{
    fmt,
    net::{IpAddr, SocketAddr},
    num::NonZeroU32,
    path::Path,
    sync::Arc,
};

use anyhow::{Context, ensure};
use axum::{
    Extension,
    http::{Extensions, HeaderMap, HeaderValue, Uri, header, uri::Authority},
};
use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use governor::{DefaultDirectRateLimiter, Quota, RateLimiter, clock::Clock};
use mnemon::Namespace;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::problem::Problem;

/// Random bytes of a token.
const BYTES: usize = 32;

/// The names and addresses by which clients may reach the server.
pub(crate) struct Hosts {
    names: Vec<String>,
    address: Option<IpAddr>,
    /// The origins of other pages that may call the server.
    pub(crate) origins: Vec<HeaderValue>,
}

/// Reads the origin of a page, as browsers send it.
///
/// # Errors
/// It is none, or stands for many pages.
pub(crate) fn origin(text: &str) -> anyhow::Result<HeaderValue> {
    let authority = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    let authority = authority.and_then(|authority| authority.parse::<Authority>().ok());
    ensure!(
        authority.is_some_and(|authority| !authority.as_str().contains(['@', '*'])
            && authority.as_str() == authority.as_str().to_lowercase()),
        "{text:?} is no origin of a page; give its scheme, host and port as a browser's address begins, such as https://app.example \
         or http://localhost:5173"
    );
    Ok(text.parse()?)
}

impl Hosts {
    pub(crate) fn new(address: Option<SocketAddr>, names: &[String], origins: Vec<HeaderValue>) -> Self {
        let names = names.iter().map(|name| name.to_ascii_lowercase()).chain(["localhost".to_owned()]).collect();
        Hosts { names, address: address.map(|address| address.ip()), origins }
    }

    /// Refuses a request that names another host, and a request that a page of another site makes.
    pub(crate) fn check(&self, uri: &Uri, headers: &HeaderMap) -> Result<(), Problem> {
        let text = |name| headers.get(name).map(|value: &HeaderValue| value.to_str().unwrap_or("\0"));
        let host = uri.authority().map(Authority::as_str).or(text(header::HOST));
        if !host.is_some_and(|host| self.allows(host)) {
            return Err(Problem::forbidden(
                "this server does not answer for that host; start it with --host to allow it",
            ));
        }
        let is_allowed = |origin: &str| self.origins.iter().any(|allowed| allowed == origin);
        match text(header::ORIGIN) {
            Some(origin) if is_allowed(origin) => Ok(()),
            Some(origin) if origin.split_once("://").is_none_or(|(_, authority)| Some(authority) != host) => {
                Err(Problem::forbidden(
                    "pages of other origins may not use this server; start it with --allow-origin to allow one",
                ))
            }
            _ => Ok(()),
        }
    }

    fn allows(&self, authority: &str) -> bool {
        let Ok(authority) = authority.parse::<Authority>() else { return false };
        let host = authority.host();
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        match bare.parse::<IpAddr>() {
            // DNS cannot rebind an address: the client connected to it.
            Ok(ip) => ip.is_loopback() || self.address.is_some_and(|own| own == ip || own.is_unspecified()),
            Err(_) => self.names.iter().any(|name| name.eq_ignore_ascii_case(host)),
        }
    }
}

/// A right that a token gives to its holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Right {
    /// Reading memories.
    Read,
    /// Storing and replacing memories.
    Write,
    /// Deleting and forgetting memories.
    Forget,
    /// Work on the whole database: its audit, backups, reindex, metrics and statistics.
    Admin,
}

impl fmt::Display for Right {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Right::Read => "read",
            Right::Write => "write",
            Right::Forget => "forget",
            Right::Admin => "admin",
        })
    }
}

/// The caller of a request, as an argument of its handler.
pub(crate) type CallerExtension = Extension<Arc<Caller>>;

/// The holder of a token, or the owner of a server without tokens.
pub(crate) struct Caller {
    /// Distinguishes callers, whose idempotency keys may be equal.
    pub(crate) id: String,
    prefix: Option<Namespace>,
    rights: Vec<Right>,
    rate: Option<DefaultDirectRateLimiter>,
}

impl Caller {
    /// Returns the caller of a request from its extensions, where the guard puts it before any route runs.
    pub(crate) fn of(extensions: &Extensions) -> &Arc<Caller> {
        extensions.get().expect("the guard sets the caller")
    }

    /// The caller of every request to a server without tokens, and of clients of the socket.
    pub(crate) fn owner() -> Self {
        let rights = vec![Right::Read, Right::Write, Right::Forget, Right::Admin];
        Caller { id: String::new(), prefix: None, rights, rate: None }
    }

    /// The caller of a probe without a token, who has no rights.
    pub(crate) fn nobody() -> Self {
        Caller { id: String::new(), prefix: None, rights: Vec::new(), rate: None }
    }

    pub(crate) fn new(id: String, prefix: Option<Namespace>, rights: Vec<Right>, rate: NonZeroU32) -> Self {
        Caller { id, prefix, rights, rate: Some(RateLimiter::direct(Quota::per_second(rate))) }
    }

    /// Returns the namespace under which are all that this caller may see, or `None` for all of the database.
    pub(crate) fn prefix(&self) -> Option<&Namespace> {
        self.prefix.as_ref()
    }

    /// Counts a request, and refuses it if the caller makes more of them a second than it may.
    pub(crate) fn count_request(&self) -> Result<(), Problem> {
        match self.rate.as_ref().map(|rate| (rate.check(), rate)) {
            Some((Err(until), rate)) => Err(Problem::too_many_requests(until.wait_time_from(rate.clock().now()))),
            _ => Ok(()),
        }
    }

    pub(crate) fn require(&self, right: Right) -> Result<(), Problem> {
        match self.rights.contains(&right) {
            true => Ok(()),
            false => Err(Problem::forbidden(format!("this token has no right to {right}"))),
        }
    }

    /// Reads the name of a namespace. One that this caller may not see does not exist.
    pub(crate) fn namespace(&self, text: &str) -> Result<Namespace, Problem> {
        let namespace = Namespace::new(text)?;
        match self.sees(&namespace) {
            true => Ok(namespace),
            false => Err(Problem::not_found("there is no such namespace")),
        }
    }

    pub(crate) fn sees(&self, namespace: &Namespace) -> bool {
        self.prefix.as_ref().is_none_or(|prefix| namespace.starts_with(prefix))
    }

    /// Returns the prefix of a list of namespaces: the requested one, or else that of the caller.
    pub(crate) fn list_prefix(&self, requested: Option<&str>) -> Result<Option<Namespace>, Problem> {
        match requested {
            Some(text) => self.namespace(text).map(Some),
            None => Ok(self.prefix.clone()),
        }
    }
}

/// A new token, and its entry for the file of tokens.
#[derive(Debug)]
pub struct NewToken {
    /// The token. It is stored nowhere: its holder has to keep it.
    pub token: String,
    entry: Entry,
}

impl NewToken {
    /// Makes a token from 32 random bytes. Its holder sees the namespaces under `prefix`, or all, and may make `rate`
    /// requests a second, or those of [`Limits::rate`](crate::Limits::rate). With `llm_tokens_per_day`, the language model
    /// may take so many tokens a day (UTC) to form memories in those namespaces, whoever wrote the messages.
    ///
    /// # Errors
    /// The system gives no random numbers.
    pub fn make(
        name: String,
        prefix: Option<Namespace>,
        rights: Vec<Right>,
        rate: Option<NonZeroU32>,
        llm_tokens_per_day: Option<u64>,
    ) -> anyhow::Result<Self> {
        let mut bytes = [0; BYTES];
        getrandom::fill(&mut bytes).context("the system gives no random numbers")?;
        let token = format!("mnemon_{}", BASE64_URL_SAFE_NO_PAD.encode(bytes));
        let entry = Entry { name, sha256: hex(&hash(&token)), prefix, rights, rate, llm_tokens_per_day };
        Ok(NewToken { token, entry })
    }

    /// Returns the entry as JSON.
    pub fn entry(&self) -> serde_json::Value {
        serde_json::to_value(&self.entry).expect("texts and numbers are JSON")
    }

    /// Returns the entry as lines of a file of tokens, which is TOML.
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
    #[serde(skip_serializing_if = "Option::is_none")]
    llm_tokens_per_day: Option<u64>,
}

/// A limit on the tokens that a language model may take in a day, of the namespaces at and under a prefix.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct DailyLimit {
    /// Null: all namespaces.
    pub(crate) prefix: Option<Namespace>,
    pub(crate) tokens_per_day: u64,
    /// Tokens of today, which is a day of UTC.
    pub(crate) used: u64,
}

/// The tokens that a server accepts: their hashes, and who holds them.
pub(crate) struct Tokens {
    holders: Vec<([u8; 32], Arc<Caller>)>,
    daily_limits: Vec<DailyLimit>,
}

impl Tokens {
    /// Reads a file of tokens. An entry without a rate has the rate `rate`.
    pub(crate) fn read(path: &Path, rate: NonZeroU32) -> anyhow::Result<Self> {
        let place = || path.display().to_string();
        let text = std::fs::read_to_string(path).with_context(place)?;
        let file: File = toml::from_str(&text).with_context(place)?;
        ensure!(!file.token.is_empty(), "{}: it has no [[token]]; `mnemon token` makes one", place());
        let daily_limit = |entry: &Entry| {
            let tokens_per_day = entry.llm_tokens_per_day?;
            Some(DailyLimit { prefix: entry.prefix.clone(), tokens_per_day, used: 0 })
        };
        let daily_limits = file.token.iter().filter_map(daily_limit).collect();
        let holder = |entry: Entry| {
            let hash = unhex(&entry.sha256);
            let hash = hash
                .with_context(|| format!("{}: token {:?}: sha256 is not 64 hexadecimal digits", place(), entry.name))?;
            let rate = entry.rate.unwrap_or(rate);
            Ok((hash, Arc::new(Caller::new(entry.sha256, entry.prefix, entry.rights, rate))))
        };
        Ok(Tokens { holders: file.token.into_iter().map(holder).collect::<anyhow::Result<_>>()?, daily_limits })
    }

    /// Returns the limits of the tokens of a language model.
    pub(crate) fn daily_limits(&self) -> impl Iterator<Item = DailyLimit> {
        self.daily_limits.iter().cloned()
    }

    /// Returns the holder of a token. It compares with every hash, so that the time says nothing about the token.
    pub(crate) fn holder(&self, token: &str) -> Option<Arc<Caller>> {
        let given = hash(token);
        let mut holder = None;
        for (hash, caller) in &self.holders {
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
