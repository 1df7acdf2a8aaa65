//! The most recent queries, in memory alone: a new generation is tried with them before it serves.

use std::collections::{BTreeSet, VecDeque};

use parking_lot::Mutex;

use crate::ids::NamespaceId;

/// The number of queries kept.
const CAPACITY: usize = 256;
/// Longer queries are not kept, so that all that are kept take 1 MiB at most.
const MAX_BYTES: usize = 4096;

/// The texts of the most recent queries, with their namespaces.
#[derive(Default)]
pub(super) struct RecentQueries(Mutex<VecDeque<(NamespaceId, String)>>);

impl RecentQueries {
    pub(super) fn push(&self, namespace: NamespaceId, text: &str) {
        if text.len() > MAX_BYTES {
            return;
        }
        let query = (namespace, text.to_owned());
        let mut queries = self.0.lock();
        if queries.len() == CAPACITY {
            queries.pop_front();
        }
        queries.push_back(query);
    }

    /// Drops the queries to these namespaces: they may repeat what was forgotten there.
    pub(super) fn forget(&self, namespaces: &BTreeSet<NamespaceId>) {
        self.0.lock().retain(|(namespace, _)| !namespaces.contains(namespace));
    }

    /// Returns the queries, oldest first.
    pub(super) fn all(&self) -> Vec<(NamespaceId, String)> {
        self.0.lock().iter().cloned().collect()
    }
}
