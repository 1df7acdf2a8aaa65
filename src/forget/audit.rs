//! The audit of a database: receipts, each of which has the hash of the one before, and the check of this chain.

use std::ops::Range;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::{error::Result, ids::hex, message::Timestamp};

/// The most problems that are listed, so that a file with another chain is no long answer.
const MAX_PROBLEMS: usize = 1000;

/// An entry of the audit of a database: something was forgotten, a legal hold was set or released, or the file was
/// purged.
///
/// It has no content, no id and no name. It does not even have their hashes, because names and ids can be guessed, and a
/// hash would confirm the guess. To know later what a receipt was for, keep its [`hash`](field@Self::hash) with the
/// request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Receipt {
    /// The number of the entry in its database, from 0.
    pub sequence: u64,
    /// The time of the commit.
    pub at: Timestamp,
    /// The event that the entry records.
    pub event: AuditEvent,
    /// The hash of the previous entry; 64 zeros for the first.
    pub previous: String,
    /// SHA-256 of the entry as JSON with the fields above, in their order; hexadecimal.
    pub hash: String,
    /// The time of the first purge of the file after the entry. Until then, bytes of what was forgotten may be in unused
    /// pages of the file.
    ///
    /// [`Engine::audit`](crate::Engine::audit) sets it for entries of [`AuditEvent::Forget`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub purged_at: Option<Timestamp>,
}

/// The event that an entry of the audit records.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum AuditEvent {
    /// Something was forgotten. No answer contains it since then.
    Forget {
        /// The kind of the request.
        requested: ForgetTarget,
        /// The total of what the call has removed in this commit and the ones before.
        forgotten: Forgotten,
        /// False if the call continued after this commit. If no complete entry of the call follows, it was interrupted.
        complete: bool,
        /// True if there was nothing to forget: no such namespace, or nothing in it that the request means. Everything was
        /// forgotten before, or a name or an id in the request is wrong.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        nothing_found: bool,
    },
    /// A legal hold was set, or its reason was changed.
    Hold {
        /// The random number of the hold.
        ///
        /// See [`Hold::id`](field@crate::Hold::id).
        hold: String,
    },
    /// A legal hold was released.
    Release {
        /// The random number of the hold.
        hold: String,
    },
    /// The file was purged.
    Purge {
        /// The number of entries that the audit had when the purge began. The file has no byte of what these entries
        /// record as forgotten.
        covers: u64,
    },
}

/// The kind of a request to forget, without names and ids.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(tag = "by", rename_all = "snake_case")]
#[non_exhaustive]
pub enum ForgetTarget {
    /// Messages by their ids.
    Messages {
        /// Number of ids.
        ids: u64,
    },
    /// Documents by their keys.
    Documents {
        /// Number of keys.
        keys: u64,
    },
    /// A session.
    Session,
    /// The messages that match a filter.
    Matching,
    /// A namespace.
    Namespace,
    /// All namespaces under a prefix.
    Prefix,
}

/// The numbers of removed things of each kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(default)]
#[non_exhaustive]
pub struct Forgotten {
    /// Messages.
    pub messages: u64,
    /// Earlier versions of messages that were kept for checkpoints, or by
    /// [`Config::keep_versions`](field@crate::Config::keep_versions).
    pub old_messages: u64,
    /// Documents.
    pub documents: u64,
    /// Indexed texts of documents.
    pub document_texts: u64,
    /// Vectors, in all generations.
    pub vectors: u64,
    /// Segments of lexical indexes that were rewritten without the forgotten terms, or removed. Segments of removed
    /// namespaces are not counted.
    pub segments: u64,
    /// States of blocks that were dropped because they were made of forgotten messages.
    pub block_states: u64,
    /// Entries of embedding caches, in memory and in the file.
    pub cached: u64,
    /// Names of sessions.
    pub sessions: u64,
    /// Names of namespaces.
    pub namespaces: u64,
}

impl Forgotten {
    pub(crate) fn add(&mut self, other: Forgotten) {
        self.messages += other.messages;
        self.old_messages += other.old_messages;
        self.documents += other.documents;
        self.document_texts += other.document_texts;
        self.vectors += other.vectors;
        self.segments += other.segments;
        self.block_states += other.block_states;
        self.cached += other.cached;
        self.sessions += other.sessions;
        self.namespaces += other.namespaces;
    }
}

/// The fields of an entry that are hashed.
#[derive(Serialize)]
struct HashedFields<'a> {
    sequence: u64,
    at: Timestamp,
    event: &'a AuditEvent,
    previous: &'a str,
}

impl Receipt {
    /// Creates the entry that follows the one with the hash `previous`.
    pub(crate) fn new(sequence: u64, at: Timestamp, event: AuditEvent, previous: String) -> Self {
        let mut receipt = Receipt { sequence, at, event, previous, hash: String::new(), purged_at: None };
        receipt.hash = hash(&receipt.hashed());
        receipt
    }

    /// Returns the JSON of the hashed fields, which is what the store keeps of the entry.
    pub(crate) fn hashed(&self) -> String {
        let Receipt { sequence, at, event, previous, .. } = self;
        let hashed = HashedFields { sequence: *sequence, at: *at, event, previous };
        serde_json::to_string(&hashed).expect("numbers and strings are valid JSON")
    }

    /// Returns the numbers of removed things, which are all 0 unless the event is [`AuditEvent::Forget`].
    pub fn forgotten(&self) -> Forgotten {
        match self.event {
            AuditEvent::Forget { forgotten, .. } => forgotten,
            _ => Forgotten::default(),
        }
    }
}

/// Returns the `previous` hash of the first entry.
pub(crate) fn no_hash() -> String {
    "0".repeat(64)
}

pub(super) fn hash(entry: &str) -> String {
    hex(&Sha256::digest(entry))
}

/// The audit of a database: its entries, and the problems of their chain.
///
/// The check finds entries that were changed, removed or moved, and a missing end of the chain. It cannot find that
/// somebody rewrote the whole chain: to exclude that, keep the hash of an entry elsewhere, and look it up with
/// [`Audit::find`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Audit {
    /// The entries, oldest first. An entry that cannot be read is left out and reported as a problem.
    pub entries: Vec<Receipt>,
    /// The first 1,000 problems, one line each. The chain is sound if there are none.
    pub problems: Vec<String>,
}

/// An entry as it is stored: its number, its JSON, and its hash.
pub(crate) type ChainedEntry = (u64, String, String);

/// The stored JSON of an entry.
#[derive(Deserialize)]
struct StoredEntry {
    sequence: u64,
    at: String,
    event: AuditEvent,
    previous: String,
}

impl Audit {
    /// Reads and checks all stored entries, in the order of their numbers, and keeps those whose numbers are in `kept`. `entries` and
    /// `last` are the number of entries and the last hash, which the store records beside the chain.
    pub(crate) fn check(
        stored: impl IntoIterator<Item = Result<ChainedEntry>>,
        kept: Range<u64>,
        entries: u64,
        last: &str,
    ) -> Result<Self> {
        let (mut audit, mut purges) = (Audit::default(), Vec::new());
        let (mut next, mut before) = (0, no_hash());
        for stored in stored {
            let (sequence, entry, own) = stored?;
            if sequence != next {
                audit.problem(format!("entry {next} is missing"));
            }
            next = sequence + 1;
            if hash(&entry) != own {
                audit.problem(format!("entry {sequence} was changed: its hash is not {own}"));
            }
            let read = serde_json::from_str(&entry).ok().and_then(|StoredEntry { sequence, at, event, previous }| {
                Some(Receipt { sequence, at: at.parse().ok()?, event, previous, hash: own.clone(), purged_at: None })
            });
            match read {
                None => audit.problem(format!("entry {sequence} cannot be read")),
                Some(receipt) => {
                    if receipt.sequence != sequence || receipt.previous != before {
                        audit.problem(format!("entry {sequence} does not follow the entry before it"));
                    }
                    if let AuditEvent::Purge { covers } = receipt.event {
                        purges.push((covers, receipt.at));
                    }
                    if kept.contains(&sequence) {
                        audit.entries.push(receipt);
                    }
                }
            }
            before = own;
        }
        // An audit without entries has no last hash.
        if next != entries || (entries > 0 && before != last) {
            audit.problem(format!("the chain ends at entry {next}, and {entries} were written"));
        }
        audit.set_purges(&purges);
        Ok(audit)
    }

    fn problem(&mut self, line: String) {
        if self.problems.len() < MAX_PROBLEMS {
            self.problems.push(line);
        }
    }

    /// Sets the time of the first later purge in each entry of [`AuditEvent::Forget`]. Of each purge, the entries that it covers and its
    /// time are given.
    fn set_purges(&mut self, purges: &[(u64, Timestamp)]) {
        for entry in &mut self.entries {
            if let AuditEvent::Forget { .. } = entry.event {
                // Purges are in the order of their times, and a later purge covers more entries.
                let first = purges.partition_point(|(covers, _)| *covers <= entry.sequence);
                entry.purged_at = purges.get(first).map(|(_, at)| *at);
            }
        }
    }

    /// Returns the entry with this hash.
    pub fn find(&self, hash: &str) -> Option<&Receipt> {
        self.entries.iter().find(|entry| entry.hash == hash)
    }

    /// Returns true if the chain has no problems.
    pub fn is_sound(&self) -> bool {
        self.problems.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chain(entries: u64) -> (Vec<ChainedEntry>, String) {
        let (mut chain, mut last) = (Vec::new(), no_hash());
        for sequence in 0..entries {
            let event =
                if sequence == 2 { AuditEvent::Purge { covers: 2 } } else { AuditEvent::Hold { hold: "h".into() } };
            let receipt = Receipt::new(sequence, Timestamp::now(), event, last);
            last = receipt.hash.clone();
            chain.push((sequence, receipt.hashed(), receipt.hash));
        }
        (chain, last)
    }

    fn problems(chain: Vec<ChainedEntry>, entries: u64, last: &str) -> usize {
        Audit::check(chain.into_iter().map(Ok), 0..u64::MAX, entries, last).unwrap().problems.len()
    }

    #[test]
    fn a_changed_removed_or_reordered_entry_is_found() {
        let (whole, last) = chain(5);
        assert_eq!(problems(whole.clone(), 5, &last), 0);
        assert_eq!(problems(Vec::new(), 0, ""), 0);
        for at in 0..5 {
            let mut changed = whole.clone();
            changed[at].1 = changed[at].1.replace("20", "21");
            assert!(problems(changed, 5, &last) > 0, "{at} was changed");
            // With a hash that fits the change: the next entry, or the recorded end, does not fit.
            let mut forged = whole.clone();
            forged[at].1 = forged[at].1.replace("20", "21");
            forged[at].2 = hash(&forged[at].1);
            assert!(problems(forged, 5, &last) > 0, "{at} was forged");
            let mut removed = whole.clone();
            removed.remove(at);
            assert!(problems(removed.clone(), 5, &last) > 0, "{at} was removed");
            let renumbered = (0..).zip(removed).map(|(number, (_, entry, hash))| (number, entry, hash)).collect();
            assert!(problems(renumbered, 4, &last) > 0, "{at} was removed, and the others renumbered");
        }
        for at in 0..4 {
            let mut swapped = whole.clone();
            swapped.swap(at, at + 1);
            (swapped[at].0, swapped[at + 1].0) = (at as u64, at as u64 + 1);
            assert!(problems(swapped, 5, &last) > 0, "{at} was swapped");
        }
    }
}
