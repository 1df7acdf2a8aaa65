//! The filter of a query, and the metadata of a namespace's rows by which it allows them.
//!
//! Each block of 64 rows has a word of bits for each role, and the earliest and the latest time of its rows. So a
//! filter decides on most blocks as a whole; only a block in which a span of time begins or ends is read row by row.
//! (Messages arrive in the order of their times, more or less.)

use std::{collections::BTreeSet, ops::Deref};

use mnemon_index::Bitmap;

use super::{options::QueryOptions, when::TimeSpan};
use crate::{
    filter::MetadataFilter,
    message::{Message, Role, Timestamp},
    store::RowMeta,
};

/// Rows in a block: the bits of a word.
const BLOCK: usize = 64;

/// Conditions that all hits meet.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Filter {
    pub(super) session: Option<String>,
    pub(super) role: Option<Role>,
    pub(super) since: Option<Timestamp>,
    pub(super) until: Option<Timestamp>,
    /// Only what was known at this time is allowed. The time of the put is checked beside the filter, and in an index that of the
    /// message too, because it may have been another one then.
    pub(super) as_of: Option<Timestamp>,
    /// Allowed times, if there are any.
    pub(super) spans: Vec<TimeSpan>,
    pub(super) metadata: Option<MetadataFilter>,
    /// Allowed ids.
    pub(super) ids: Option<BTreeSet<String>>,
}

/// The metadata of each row; `None` for a removed one.
#[derive(Debug, Default, PartialEq)]
pub(super) struct RowMetas {
    rows: Vec<Option<RowMeta>>,
    blocks: Vec<Block>,
}

/// A summary of 64 rows.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Block {
    /// The live rows of each role.
    roles: [u64; Role::ALL.len()],
    /// The live rows that have a time.
    timed: u64,
    /// A span of time that contains the times of these rows, and those of rows that were removed.
    times: Option<(Timestamp, Timestamp)>,
}

impl Filter {
    pub(super) fn of(options: &QueryOptions) -> Self {
        Filter {
            session: options.session.clone(),
            role: options.role,
            since: options.since,
            until: options.until,
            as_of: options.as_of,
            spans: Vec::new(),
            metadata: options.filter.clone(),
            ids: options.ids.clone(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        *self == Filter::default()
    }

    pub(super) fn is_session_only(&self) -> bool {
        *self == Filter { session: self.session.clone(), ..Filter::default() }
    }

    pub(super) fn allows_message(&self, message: &Message) -> bool {
        self.allows(message.role, message.created_at)
            && self.was_known(message.created_at)
            && self.session.as_ref().is_none_or(|session| *session == message.session)
            && self.metadata.as_ref().is_none_or(|metadata| metadata.matches_fields(message))
            && self.ids.as_ref().is_none_or(|ids| ids.contains(&message.id))
    }

    /// Returns true if there is a limit on time.
    pub(super) fn has_times(&self) -> bool {
        self.since.is_some() || self.until.is_some() || !self.spans.is_empty()
    }

    /// Returns whether all times from `first` to `last` are allowed, or none; `None` if that depends on the time.
    pub(super) fn allows_times(&self, first: Timestamp, last: Timestamp) -> Option<bool> {
        let is_outside = self.since.is_some_and(|since| last < since)
            || self.until.is_some_and(|until| first >= until)
            || (!self.spans.is_empty() && self.spans.iter().all(|span| last < span.since || first >= span.until));
        let is_inside = self.since.is_none_or(|since| first >= since)
            && self.until.is_none_or(|until| last < until)
            && (self.spans.is_empty() || self.spans.iter().any(|span| span.contains(first) && span.contains(last)));
        match (is_inside, is_outside) {
            (true, _) => Some(true),
            (_, true) => Some(false),
            _ => None,
        }
    }

    /// Returns true if a message of this time may have been known at the time that the query asks for, if there is one.
    pub(super) fn was_known(&self, time: Option<Timestamp>) -> bool {
        self.as_of.is_none_or(|as_of| time.is_none_or(|time| time <= as_of))
    }

    /// Returns true if the role and the time are allowed. A message without a time is outside of every limit on time.
    pub(super) fn allows(&self, role: Role, time: Option<Timestamp>) -> bool {
        self.role.is_none_or(|wanted| wanted == role)
            && self.since.is_none_or(|since| time.is_some_and(|time| time >= since))
            && self.until.is_none_or(|until| time.is_some_and(|time| time < until))
            && (self.spans.is_empty() || time.is_some_and(|time| self.spans.iter().any(|span| span.contains(time))))
    }
}

impl RowMetas {
    pub(super) fn new(rows: Vec<Option<RowMeta>>) -> Self {
        let mut metas = RowMetas { blocks: vec![Block::default(); rows.len().div_ceil(BLOCK)], rows };
        for row in 0..metas.rows.len() {
            if let Some(meta) = metas.rows[row] {
                metas.blocks[row / BLOCK].insert(row, &meta);
            }
        }
        metas
    }

    /// Sets the metadata of a row that has none, or of the next row.
    pub(super) fn insert(&mut self, row: u32, meta: RowMeta) -> Inserted {
        let at = row as usize;
        let inserted = match self.rows.get_mut(at) {
            Some(Some(_)) => return Inserted::IsLive,
            Some(removed) => {
                *removed = Some(meta);
                Inserted::Reused
            }
            None => {
                self.rows.push(Some(meta));
                self.blocks.resize(self.rows.len().div_ceil(BLOCK), Block::default());
                Inserted::New
            }
        };
        self.blocks[at / BLOCK].insert(at, &meta);
        inserted
    }

    /// Removes a row. Returns its metadata, if it was live.
    pub(super) fn remove(&mut self, row: u32) -> Option<RowMeta> {
        let at = row as usize;
        let meta = self.rows.get_mut(at)?.take()?;
        self.blocks[at / BLOCK].remove(at);
        Some(meta)
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.rows.capacity() * size_of::<Option<RowMeta>>() + self.blocks.capacity() * size_of::<Block>()
    }

    /// Returns the live rows whose role and time a filter allows.
    pub(super) fn allowed(&self, filter: &Filter) -> Bitmap {
        let words = self.blocks.iter().zip(self.rows.chunks(BLOCK)).map(|(block, rows)| block.allowed(rows, filter));
        Bitmap::from_words(words.collect())
    }
}

/// The outcome of [`RowMetas::insert`].
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Inserted {
    /// A new row.
    New,
    /// A row that was removed before.
    Reused,
    /// Nothing: the row is live.
    IsLive,
}

impl Deref for RowMetas {
    type Target = [Option<RowMeta>];

    fn deref(&self) -> &Self::Target {
        &self.rows
    }
}

impl Block {
    fn insert(&mut self, row: usize, meta: &RowMeta) {
        let bit = 1 << (row % BLOCK);
        self.roles[meta.role as usize] |= bit;
        if let Some(time) = meta.created_at {
            self.timed |= bit;
            self.times = Some(self.times.map_or((time, time), |(first, last)| (first.min(time), last.max(time))));
        }
    }

    fn remove(&mut self, row: usize) {
        let others = !(1 << (row % BLOCK));
        self.roles.iter_mut().for_each(|role| *role &= others);
        self.timed &= others;
    }

    /// Returns the rows that a filter on role and time allows. `rows` are those of the block.
    fn allowed(&self, rows: &[Option<RowMeta>], filter: &Filter) -> u64 {
        let of_role = match filter.role {
            Some(role) => self.roles[role as usize],
            None => self.roles.iter().fold(0, |all, role| all | role),
        };
        if !filter.has_times() {
            return of_role;
        }
        let timed = of_role & self.timed;
        let Some((first, last)) = self.times.filter(|_| timed != 0) else { return 0 };
        match filter.allows_times(first, last) {
            Some(true) => timed,
            Some(false) => 0,
            None => {
                let is_allowed = |meta: &RowMeta| filter.allows(meta.role, meta.created_at);
                let bits = rows.iter().enumerate().filter(|(_, row)| row.as_ref().is_some_and(is_allowed));
                bits.fold(0, |word, (bit, _)| word | 1 << bit)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::recall::TimeSpan;

    fn time() -> impl Strategy<Value = Timestamp> {
        (0..40i64).prop_map(|second| Timestamp::from_micros(second * 1_000_000).unwrap())
    }

    fn filter() -> impl Strategy<Value = Filter> {
        let span = (time(), time()).prop_map(|(a, b)| TimeSpan { since: a.min(b), until: a.max(b) });
        let spans = proptest::collection::vec(span, 0..3);
        let role = proptest::option::of(proptest::sample::select(&Role::ALL[..]));
        (role, proptest::option::of(time()), proptest::option::of(time()), spans)
            .prop_map(|(role, since, until, spans)| Filter { role, since, until, spans, ..Filter::default() })
    }

    proptest! {
        /// Rows come, go and are reused; their times are in order, nearly, or not at all.
        #[test]
        fn blocks_allow_what_rows_do(
            changes in proptest::collection::vec((0u32..300, 0usize..4, proptest::option::of(0..40i64), 0..4u8), 0..600),
            is_in_order in any::<bool>(),
            filters in proptest::collection::vec(filter(), 1..6),
        ) {
            let mut metas = RowMetas::default();
            for (row, role, second, action) in changes {
                let row = row.min(metas.len() as u32);
                let second = second.map(|second| if is_in_order { i64::from(row) / 8 } else { second });
                let created_at = second.map(|second| Timestamp::from_micros(second * 1_000_000).unwrap());
                let meta = RowMeta { seq: 0, created_at, session: 0, window: 0, role: Role::ALL[role] };
                if action == 0 {
                    metas.remove(row);
                } else if action == 1 {
                    metas.insert(row, meta);
                } else {
                    metas.insert(metas.len() as u32, meta);
                }
            }
            for filter in filters {
                let allows = |row: u32| metas[row as usize].is_some_and(|meta| filter.allows(meta.role, meta.created_at));
                let wanted = Bitmap::from_fn(metas.len(), allows);
                let allowed = metas.allowed(&filter);
                prop_assert_eq!(allowed.iter().collect::<Vec<_>>(), wanted.iter().collect::<Vec<_>>());
                prop_assert_eq!(allowed.count(), wanted.count());
            }
        }
    }
}
