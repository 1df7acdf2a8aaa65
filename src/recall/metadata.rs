//! The messages of a loaded namespace that a filter on metadata matches; for texts of documents, a filter on the values
//! of the documents.
//!
//! The first query with a filter evaluates it on the columns of its paths. The set is kept for later queries; messages
//! that commits change are read again by the next query with the filter.

use std::{collections::BTreeSet, sync::Arc, time::Instant};

use mnemon_index::Bitmap;
use parking_lot::Mutex;

use super::{
    metadata_columns::{MAX_CHANGED, MetadataColumns, lock_before},
    seq_set::SeqSet,
};
use crate::{
    error::Result,
    filter::MetadataFilter,
    ids::NamespaceId,
    store::{RowMeta, Snapshot, UnindexedChange},
};

/// Filters of a namespace whose sets are kept; the least recently used one is dropped first.
const MAX_FILTERS: usize = 64;

/// The filters that were queried, and the sets of messages that they match.
#[derive(Default)]
pub(crate) struct MetadataSets {
    sets: Mutex<Vec<Arc<FilterSet>>>,
    columns: MetadataColumns,
}

struct FilterSet {
    filter: MetadataFilter,
    /// The messages that changed since `matching` was read.
    changed: Mutex<BTreeSet<u64>>,
    /// Held while the store is read, so that concurrent queries with the filter read it once.
    matching: Mutex<Option<Arc<MatchingMessages>>>,
}

impl MetadataSets {
    /// Returns the bytes of memory that they take, approximately: the columns, and for each filter two bits for a
    /// message.
    pub(crate) fn memory_bytes(&self, rows: usize) -> usize {
        self.columns.memory_bytes() + self.sets.lock().len() * rows / 4
    }

    /// Applies a commit.
    pub(crate) fn apply(&self, changes: &[UnindexedChange]) {
        // The columns first: a set that lacks the commit is then made from columns that have it.
        self.columns.apply(changes);
        self.sets.lock().retain(|set| {
            let mut changed = set.changed.lock();
            changed.extend(changes.iter().map(|change| change.seq));
            changed.len() <= MAX_CHANGED
        });
    }

    /// Returns the messages that a filter matches, with all commits that were applied before this call. `snapshot`
    /// returns the present state of the store.
    ///
    /// # Errors
    /// [`Error::DeadlineExceeded`](crate::Error::DeadlineExceeded); those of the store.
    pub(super) fn matching(
        &self,
        filter: &MetadataFilter,
        namespace: NamespaceId,
        deadline: Option<Instant>,
        snapshot: impl Fn() -> Result<Snapshot>,
    ) -> Result<Arc<MatchingMessages>> {
        let set = self.set(filter);
        let mut matching = lock_before(&set.matching, deadline)?;
        // Before the snapshot: a commit that it lacks is applied later.
        let changed = std::mem::take(&mut *set.changed.lock());
        // If reading fails, nothing is kept.
        let read = match matching.take() {
            None => {
                let seqs = self.columns.matching(filter, namespace, deadline, &snapshot)?;
                Arc::new(MatchingMessages { seqs, rows: Mutex::default() })
            }
            Some(known) if changed.is_empty() => known,
            Some(known) => known.update(filter, namespace, &snapshot()?, changed)?,
        };
        Ok(Arc::clone(matching.insert(read)))
    }

    fn set(&self, filter: &MetadataFilter) -> Arc<FilterSet> {
        let mut sets = self.sets.lock();
        let set = match sets.iter().position(|set| set.filter == *filter) {
            Some(at) => sets.remove(at),
            None => {
                if sets.len() == MAX_FILTERS {
                    sets.remove(0);
                }
                Arc::new(FilterSet { filter: filter.clone(), changed: Mutex::default(), matching: Mutex::default() })
            }
        };
        sets.push(Arc::clone(&set));
        set
    }
}

/// The messages that a filter matches.
#[derive(Default)]
pub(super) struct MatchingMessages {
    seqs: SeqSet,
    rows: Mutex<MatchingRows>,
}

/// The rows of the messages, among the first rows of the namespace.
#[derive(Default)]
struct MatchingRows {
    rows: Bitmap,
    /// The number of rows that were checked.
    checked: usize,
    /// The namespace's count of reused rows when they were.
    rows_reused: u64,
}

impl MatchingMessages {
    /// Returns the messages after some of them changed: the same value if the filter matches as before.
    fn update(
        self: Arc<Self>,
        filter: &MetadataFilter,
        namespace: NamespaceId,
        snapshot: &Snapshot,
        changed: BTreeSet<u64>,
    ) -> Result<Arc<Self>> {
        let mut seqs = None;
        snapshot.filter_fields().of(namespace, changed, |seq, fields| {
            let matches = fields.is_some_and(|fields| filter.matches_fields(fields));
            if matches != self.contains(seq) {
                seqs.get_or_insert_with(|| self.seqs.clone()).set(seq, matches);
            }
        })?;
        Ok(seqs.map_or(self, |seqs| Arc::new(MatchingMessages { seqs, rows: Mutex::default() })))
    }

    pub(super) fn contains(&self, seq: u64) -> bool {
        self.seqs.contains(seq)
    }

    /// Returns the rows of the messages. Some may have been removed since an earlier call.
    pub(super) fn rows(&self, rows: &[Option<RowMeta>], rows_reused: u64) -> Bitmap {
        let mut known = self.rows.lock();
        if known.rows_reused != rows_reused {
            *known = MatchingRows { rows_reused, ..MatchingRows::default() };
        }
        let mut contains = self.seqs.lookup();
        for (row, meta) in (known.checked as u32..).zip(rows.iter().skip(known.checked)) {
            if meta.is_some_and(|meta| contains(meta.seq)) {
                known.rows.insert(row);
            }
        }
        known.checked = known.checked.max(rows.len());
        known.rows.clone()
    }
}
