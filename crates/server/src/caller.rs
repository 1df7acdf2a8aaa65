//! Who makes a request, and what they may do.

use std::{fmt, num::NonZeroU32};

use governor::{DefaultDirectRateLimiter, Quota, RateLimiter, clock::Clock};
use mnemon::Namespace;
use serde::{Deserialize, Serialize};

use super::problem::Problem;

/// A kind of operation that a token allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Right {
    /// Reading memories.
    Read,
    /// Putting and replacing them.
    Write,
    /// Deleting and forgetting them.
    Forget,
    /// Everything about the whole database: its audit, backups, reindex and statistics.
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

/// The holder of a token, or the owner of a server without tokens.
pub(super) struct Caller {
    /// Tells callers apart, as for idempotency keys.
    pub(super) id: String,
    prefix: Option<Namespace>,
    rights: Vec<Right>,
    rate: Option<DefaultDirectRateLimiter>,
}

impl Caller {
    /// Whoever asks a server without tokens.
    pub(super) fn owner() -> Self {
        let rights = vec![Right::Read, Right::Write, Right::Forget, Right::Admin];
        Caller { id: String::new(), prefix: None, rights, rate: None }
    }

    /// A prober without a token, who may do nothing.
    pub(super) fn nobody() -> Self {
        Caller { id: String::new(), prefix: None, rights: Vec::new(), rate: None }
    }

    pub(super) fn new(id: String, prefix: Option<Namespace>, rights: Vec<Right>, rate: NonZeroU32) -> Self {
        Caller { id, prefix, rights, rate: Some(RateLimiter::direct(Quota::per_second(rate))) }
    }

    /// The namespace under which all are that this caller may see.
    pub(super) fn prefix(&self) -> Option<&Namespace> {
        self.prefix.as_ref()
    }

    /// Takes one request from the caller's rate.
    pub(super) fn take(&self) -> Result<(), Problem> {
        match self.rate.as_ref().map(|rate| (rate.check(), rate)) {
            Some((Err(until), rate)) => Err(Problem::too_many_requests(until.wait_time_from(rate.clock().now()))),
            _ => Ok(()),
        }
    }

    pub(super) fn require(&self, right: Right) -> Result<(), Problem> {
        match self.rights.contains(&right) {
            true => Ok(()),
            false => Err(Problem::forbidden(format!("this token has no right to {right}"))),
        }
    }

    /// Returns a namespace if this caller may see it. To others it does not exist.
    pub(super) fn namespace(&self, text: &str) -> Result<Namespace, Problem> {
        let namespace = Namespace::new(text)?;
        match self.sees(&namespace) {
            true => Ok(namespace),
            false => Err(Problem::not_found("there is no such namespace")),
        }
    }

    pub(super) fn sees(&self, namespace: &Namespace) -> bool {
        self.prefix.as_ref().is_none_or(|prefix| namespace.starts_with(prefix))
    }

    /// The prefix of a list: what was asked for, or all that this caller may see.
    pub(super) fn list_prefix(&self, asked: Option<&str>) -> Result<Option<Namespace>, Problem> {
        match asked {
            Some(text) => self.namespace(text).map(Some),
            None => Ok(self.prefix.clone()),
        }
    }
}
