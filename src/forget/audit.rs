//! [`Audit`]: the chain of receipts of a database, checked.

use serde::{Deserialize, Serialize};

use super::receipt::{AuditEvent, Receipt, hash, no_hash};
use crate::message::Timestamp;

/// The audit of a database: all entries, and whether their chain holds.
///
/// An entry that was changed, removed or put elsewhere is a problem, and so is an end of the chain that is missing. The
/// chain does not prove that nobody wrote all of it anew: keep the hash of an entry elsewhere, and look it up with
/// [`Audit::find`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Audit {
    /// The entries, oldest first. One that cannot be read is left out, and is a problem.
    pub entries: Vec<Receipt>,
    /// The problems, a line each. The chain holds if there are none.
    pub problems: Vec<String>,
}

/// An entry as it is stored: its number, its JSON, and its hash.
pub(crate) type ChainedEntry = (u64, String, String);

/// The JSON of an entry.
#[derive(Deserialize)]
struct Stored {
    sequence: u64,
    at: String,
    event: AuditEvent,
    previous: String,
}

impl Audit {
    /// Reads and checks stored entries, which are in the order of their numbers. `entries` and `last` are the number of
    /// entries and the last hash that are recorded beside the chain.
    pub(crate) fn check(stored: impl IntoIterator<Item = ChainedEntry>, entries: u64, last: &str) -> Self {
        let mut audit = Audit::default();
        let (mut next, mut before) = (0, no_hash());
        for (sequence, entry, own) in stored {
            if sequence != next {
                audit.problems.push(format!("entry {next} is missing"));
            }
            next = sequence + 1;
            if hash(&entry) != own {
                audit.problems.push(format!("entry {sequence} was changed: its hash is not {own}"));
            }
            let read = serde_json::from_str(&entry).ok().and_then(|Stored { sequence, at, event, previous }| {
                Some(Receipt { sequence, at: at.parse().ok()?, event, previous, hash: own.clone(), purged_at: None })
            });
            match read {
                None => audit.problems.push(format!("entry {sequence} cannot be read")),
                Some(receipt) => {
                    if receipt.sequence != sequence || receipt.previous != before {
                        audit.problems.push(format!("entry {sequence} does not follow the entry before it"));
                    }
                    audit.entries.push(receipt);
                }
            }
            before = own;
        }
        // An audit without entries has no last hash.
        if next != entries || (entries > 0 && before != last) {
            audit.problems.push(format!("the chain ends at entry {next}, and {entries} were written"));
        }
        audit.set_purges();
        audit
    }

    /// Notes on each entry of what was forgotten the time of the first purge after it.
    fn set_purges(&mut self) {
        let purge = |entry: &Receipt| match entry.event {
            AuditEvent::Purge { covers } => Some((covers, entry.at)),
            _ => None,
        };
        let purges: Vec<(u64, Timestamp)> = self.entries.iter().filter_map(purge).collect();
        for entry in &mut self.entries {
            if let AuditEvent::Forget { .. } = entry.event {
                // A later purge covers more.
                let first = purges.partition_point(|(covers, _)| *covers <= entry.sequence);
                entry.purged_at = purges.get(first).map(|(_, at)| *at);
            }
        }
    }

    /// Returns the entry with this hash.
    pub fn find(&self, hash: &str) -> Option<&Receipt> {
        self.entries.iter().find(|entry| entry.hash == hash)
    }

    /// Returns true if the chain holds.
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
        Audit::check(chain, entries, last).problems.len()
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
            // With a hash that fits: the next entry, or the recorded end, does not.
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
