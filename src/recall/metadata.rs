//! The messages of a loaded namespace that a filter on metadata matches.
//!
//! The first query with a filter evaluates it on the metadata of all messages, which are read from the store. The set
//! is kept for later queries; messages that commits change are read again by the next query with the filter.

use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
};

use parking_lot::Mutex;

use crate::{
    error::Result,
    filter::MetadataFilter,
    ids::NamespaceId,
    index::Bitmap,
    store::{RowMeta, Snapshot, UnindexedChange},
};

/// Filters of a namespace whose sets are kept; the least recently used one is dropped first.
const MAX_FILTERS: usize = 64;
/// A filter is dropped when this many messages changed since its last query.
const MAX_CHANGED: usize = 16_384;

/// The filters that were queried, and the sets of messages that they match.
#[derive(Default)]
pub(crate) struct MetadataSets(Mutex<Vec<Arc<FilterSet>>>);

struct FilterSet {
    filter: MetadataFilter,
    /// The messages that changed since `matching` was read.
    changed: Mutex<HashSet<u64>>,
    /// Held while the store is read, so that concurrent queries with the filter read it once.
    matching: Mutex<Option<Arc<MatchingMessages>>>,
}

impl MetadataSets {
    /// Applies a commit.
    pub(crate) fn apply(&self, changes: &[UnindexedChange]) {
        self.0.lock().retain(|set| {
            let mut changed = set.changed.lock();
            changed.extend(changes.iter().map(|change| change.seq));
            changed.len() <= MAX_CHANGED
        });
    }

    /// Returns the messages that a filter matches, with all commits that were applied before this call. `snapshot`
    /// returns the present state of the store.
    pub(super) fn matching(
        &self,
        filter: &MetadataFilter,
        namespace: NamespaceId,
        snapshot: impl Fn() -> Result<Snapshot>,
    ) -> Result<Arc<MatchingMessages>> {
        let set = self.set(filter);
        let mut matching = set.matching.lock();
        // Before the snapshot: a commit that it lacks is applied later.
        let changed = std::mem::take(&mut *set.changed.lock());
        // If reading fails, nothing is kept.
        let read = match matching.take() {
            None => Arc::new(MatchingMessages::read(filter, namespace, &snapshot()?)?),
            Some(known) if changed.is_empty() => known,
            Some(known) => known.update(filter, namespace, &snapshot()?, changed)?,
        };
        Ok(Arc::clone(matching.insert(read)))
    }

    fn set(&self, filter: &MetadataFilter) -> Arc<FilterSet> {
        let mut sets = self.0.lock();
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
    fn read(filter: &MetadataFilter, namespace: NamespaceId, snapshot: &Snapshot) -> Result<Self> {
        let mut seqs = SeqSet::default();
        snapshot.messages().all_metadata(namespace, |seq, metadata| {
            if filter.matches_fields(&metadata) {
                seqs.set(seq, true);
            }
        })?;
        Ok(MatchingMessages { seqs, rows: Mutex::default() })
    }

    /// Returns the messages after some of them changed: the same value if the filter matches as before.
    fn update(
        self: Arc<Self>,
        filter: &MetadataFilter,
        namespace: NamespaceId,
        snapshot: &Snapshot,
        changed: HashSet<u64>,
    ) -> Result<Arc<Self>> {
        let mut seqs = None;
        snapshot.messages().metadata(namespace, changed, |seq, metadata| {
            let matches = metadata.is_some_and(|metadata| filter.matches_fields(&metadata));
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
        for row in known.checked..rows.len() {
            if rows[row].is_some_and(|meta| self.contains(meta.seq)) {
                known.rows.insert(row as u32);
            }
        }
        known.checked = known.checked.max(rows.len());
        known.rows.clone()
    }
}

/// A set of sequence numbers: for each block of numbers, those within it.
#[derive(Clone, Default)]
struct SeqSet(BTreeMap<u64, Bitmap>);

/// The bits of a sequence number that are its position in a block.
const BLOCK_BITS: u32 = 20;

impl SeqSet {
    fn set(&mut self, seq: u64, is_in: bool) {
        let block = self.0.entry(seq >> BLOCK_BITS).or_default();
        match is_in {
            true => block.insert(position(seq)),
            false => block.remove(position(seq)),
        };
    }

    fn contains(&self, seq: u64) -> bool {
        self.0.get(&(seq >> BLOCK_BITS)).is_some_and(|block| block.contains(position(seq)))
    }
}

fn position(seq: u64) -> u32 {
    (seq % (1 << BLOCK_BITS)) as u32
}
