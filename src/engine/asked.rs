//! The last questions that were asked, in memory alone: what a new generation is tried with before it serves.

use std::collections::VecDeque;

use parking_lot::Mutex;

use crate::ids::NamespaceId;

/// Questions kept.
const KEPT: usize = 256;
/// Longer ones are not: all that are kept take 1 MiB at most.
const MAX_BYTES: usize = 4096;

#[derive(Default)]
pub(super) struct Asked(Mutex<VecDeque<(NamespaceId, String)>>);

impl Asked {
    pub(super) fn note(&self, namespace: NamespaceId, text: &str) {
        if text.len() > MAX_BYTES {
            return;
        }
        let asked = (namespace, text.to_owned());
        let mut all = self.0.lock();
        if all.len() == KEPT {
            all.pop_front();
        }
        all.push_back(asked);
    }

    /// Oldest first.
    pub(super) fn all(&self) -> Vec<(NamespaceId, String)> {
        self.0.lock().iter().cloned().collect()
    }
}
