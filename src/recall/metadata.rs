//! The messages of a loaded namespace that a filter on metadata matches; for texts of documents, a filter on the values
//! of the documents.
//!
//! The first filter with a path reads its column from the store: the values at the path in all messages. A filter is
//! evaluated once for each distinct value of a column, so later filters with other values cost little. The set of a
//! filter is kept for later queries; messages that commits change are read again by the next query with the filter.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Instant,
};

use mnemon_index::{Bitmap, is_past};
use parking_lot::{Mutex, MutexGuard};
use serde_json::Value;

use crate::{
    error::{Error, Result},
    filter::{FieldPath, Fields, MetadataFilter},
    ids::NamespaceId,
    store::{RowMeta, Snapshot, Store, UnindexedChange},
};

/// Filters of a namespace whose sets are kept; the least recently used one is dropped first.
const MAX_FILTERS: usize = 64;
/// Columns of a namespace that are kept; the least recently used one is dropped first. A filter with more paths is
/// evaluated without columns.
const MAX_COLUMNS: usize = 32;
/// The columns are dropped when this many messages changed since the last query.
const MAX_CHANGED: usize = 16_384;

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

    /// Returns the messages that a filter matches, with all commits that were applied before this call.
    ///
    /// # Errors
    /// [`Error::DeadlineExceeded`](crate::Error::DeadlineExceeded); those of the store.
    pub(super) fn matching(
        &self,
        filter: &MetadataFilter,
        namespace: NamespaceId,
        deadline: Option<Instant>,
        store: &Store,
    ) -> Result<Arc<MatchingMessages>> {
        let set = self.set(filter);
        let mut matching = lock_before(&set.matching, deadline)?;
        // Before the snapshot: a commit that it lacks is applied later.
        let changed = std::mem::take(&mut *set.changed.lock());
        // If reading fails, nothing is kept.
        let read = match matching.take() {
            None => {
                let seqs = self.columns.matching(filter, namespace, deadline, store)?;
                Arc::new(MatchingMessages { seqs, rows: Mutex::default() })
            }
            Some(known) if changed.is_empty() => known,
            Some(known) => known.update(filter, namespace, &store.read()?, changed)?,
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

/// The columns of metadata: the values at paths in all messages.
#[derive(Default)]
struct MetadataColumns {
    /// The messages that changed since the columns were read; `None` if they are too many.
    changed: Mutex<Option<BTreeSet<u64>>>,
    /// Held while the store is read, so that concurrent queries read a column once.
    table: Mutex<Table>,
    /// The memory of the table, so that it is known while the store is read.
    bytes: AtomicUsize,
}

#[derive(Default)]
struct Table {
    /// The sequence numbers of the messages, ascending. Some of them may be deleted.
    seqs: Vec<u64>,
    columns: Vec<Column>,
}

struct Column {
    path: FieldPath,
    /// The number of each message's value.
    codes: Vec<u32>,
    /// The distinct values. The first stands for none.
    values: Vec<Option<Value>>,
    /// The numbers of the values, by their JSON.
    numbers: HashMap<String, u32>,
}

impl MetadataColumns {
    fn apply(&self, changes: &[UnindexedChange]) {
        let mut changed = self.changed.lock();
        if let Some(seqs) = &mut *changed {
            seqs.extend(changes.iter().map(|change| change.seq));
            if seqs.len() > MAX_CHANGED {
                *changed = None;
            }
        }
    }

    /// Returns the bytes of memory that the columns took when they were last used, approximately.
    fn memory_bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Returns the messages that a filter matches, with all commits that were applied before this call. It may contain
    /// deleted ones.
    ///
    /// # Errors
    /// [`Error::DeadlineExceeded`]; those of the store.
    fn matching(
        &self,
        filter: &MetadataFilter,
        namespace: NamespaceId,
        deadline: Option<Instant>,
        store: &Store,
    ) -> Result<SeqSet> {
        let mut matching = SeqSet::default();
        let in_time = || if is_past(deadline) { Err(Error::DeadlineExceeded) } else { Ok(()) };
        let Some(paths) = filter.paths(MAX_COLUMNS) else {
            let mut evaluated = Ok(());
            store.read()?.filter_fields().all(namespace, |seq, fields| {
                evaluated = std::mem::replace(&mut evaluated, Ok(())).and_then(|()| in_time());
                if evaluated.is_ok() && filter.matches_fields(fields) {
                    matching.set(seq, true);
                }
            })?;
            return evaluated.map(|()| matching);
        };
        let mut kept = lock_before(&self.table, deadline)?;
        // Before the snapshot: a commit that it lacks is applied later.
        let changed = self.changed.lock().replace(BTreeSet::new());
        // If reading fails, nothing is kept.
        let mut table = std::mem::take(&mut *kept);
        let snapshot = store.read()?;
        match changed {
            Some(changed) => table.update(namespace, &snapshot, changed)?,
            None => table = Table::default(),
        }
        table.add(paths, namespace, &snapshot)?;
        let matches = filter.select(table.seqs.len(), &mut |path, holds| table.column(path).select(holds, &in_time))?;
        table.seqs.iter().zip(matches).filter(|(_, matches)| *matches).for_each(|(&seq, _)| matching.set(seq, true));
        table.columns.drain(..table.columns.len().saturating_sub(MAX_COLUMNS));
        self.bytes.store(table.memory_bytes(), Ordering::Relaxed);
        *kept = table;
        Ok(matching)
    }
}

/// Locks a value.
///
/// # Errors
/// [`Error::DeadlineExceeded`]: another query had it until the deadline.
fn lock_before<T>(value: &Mutex<T>, deadline: Option<Instant>) -> Result<MutexGuard<'_, T>> {
    match deadline {
        None => Ok(value.lock()),
        Some(deadline) => value.try_lock_until(deadline).ok_or(Error::DeadlineExceeded),
    }
}

impl Table {
    fn memory_bytes(&self) -> usize {
        let columns = self.columns.iter().map(Column::memory_bytes).sum::<usize>();
        self.seqs.capacity() * size_of::<u64>() + columns
    }

    /// Reads messages again that changed.
    fn update(&mut self, namespace: NamespaceId, snapshot: &Snapshot, changed: BTreeSet<u64>) -> Result<()> {
        let Table { seqs, columns } = self;
        if columns.is_empty() {
            return Ok(());
        }
        snapshot.filter_fields().of(namespace, changed, |seq, fields| {
            let at = seqs.binary_search(&seq).unwrap_or_else(|at| {
                seqs.insert(at, seq);
                columns.iter_mut().for_each(|column| column.codes.insert(at, 0));
                at
            });
            columns.iter_mut().for_each(|column| column.set(at, fields));
        })?;
        // Values that no message has any more stay until the column is read again.
        columns.retain(|column| column.values.len() <= 2 * seqs.len() + 1024);
        Ok(())
    }

    /// Reads the columns of paths that have none, and moves all of these paths to the end.
    fn add(&mut self, mut paths: Vec<&FieldPath>, namespace: NamespaceId, snapshot: &Snapshot) -> Result<()> {
        let Table { seqs, columns } = self;
        columns.sort_by_key(|column| paths.contains(&&column.path));
        paths.retain(|path| columns.iter().all(|column| column.path != **path));
        let is_first = columns.is_empty();
        if is_first {
            seqs.clear();
        }
        let mut new: Vec<Column> = paths.into_iter().map(|path| Column::new(path, seqs.len())).collect();
        if new.is_empty() && !is_first {
            return Ok(());
        }
        snapshot.filter_fields().all(namespace, |seq, fields| {
            if is_first {
                seqs.push(seq);
                new.iter_mut().for_each(|column| column.codes.push(0));
            }
            // A message that is not known yet is in a commit that is applied later.
            if let Ok(at) = seqs.binary_search(&seq) {
                new.iter_mut().for_each(|column| column.set(at, Some(fields)));
            }
        })?;
        columns.extend(new);
        Ok(())
    }

    fn column(&self, path: &FieldPath) -> &Column {
        self.columns.iter().find(|column| column.path == *path).expect("each path of the filter was added")
    }
}

impl Column {
    fn new(path: &FieldPath, messages: usize) -> Self {
        Column { path: path.clone(), codes: vec![0; messages], values: vec![None], numbers: HashMap::new() }
    }

    /// A value of two words, and its JSON in a table.
    fn memory_bytes(&self) -> usize {
        self.codes.capacity() * size_of::<u32>()
            + self.values.len() * (size_of::<Value>() + 16 + 2 * size_of::<String>() + 24)
    }

    fn set(&mut self, at: usize, fields: Option<&dyn Fields>) {
        self.codes[at] = match fields.and_then(|fields| self.path.find(fields)) {
            None => 0,
            Some(value) => *self.numbers.entry(value.to_string()).or_insert_with(|| {
                self.values.push(Some(value.into_owned()));
                self.values.len() as u32 - 1
            }),
        };
    }

    /// Returns for each message if its value is chosen. The first error of `in_time` ends it.
    fn select(&self, holds: &dyn Fn(Option<&Value>) -> bool, in_time: &dyn Fn() -> Result<()>) -> Result<Vec<bool>> {
        let mut chosen = Vec::with_capacity(self.values.len());
        for values in self.values.chunks(64) {
            in_time()?;
            chosen.extend(values.iter().map(|value| holds(value.as_ref())));
        }
        Ok(self.codes.iter().map(|code| chosen[*code as usize]).collect())
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
        self.lookup()(seq)
    }

    /// Returns the function that says whether a number is in the set. It remembers the last block, so numbers that are
    /// near each other are looked up quickly.
    fn lookup(&self) -> impl FnMut(u64) -> bool + '_ {
        let mut last = None;
        move |seq| {
            let number = seq >> BLOCK_BITS;
            let block = match last {
                Some((known, block)) if known == number => block,
                _ => self.0.get(&number),
            };
            last = Some((number, block));
            block.is_some_and(|block| block.contains(position(seq)))
        }
    }
}

fn position(seq: u64) -> u32 {
    (seq % (1 << BLOCK_BITS)) as u32
}
