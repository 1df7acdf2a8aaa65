//! Changes of a namespace by commits, and how they are applied to its loaded index.

use std::{collections::BTreeSet, sync::Arc};

use super::{
    namespace::{LoadedMessages, NamespaceIndex, session_order},
    row_filter::Inserted,
};
use crate::{
    ids::NamespaceId,
    lexical::{Language, Segment},
    store::{NewRows, Removed, UnindexedChange},
};

/// The change of one namespace by one commit.
pub(crate) enum NamespaceChange {
    Added(AddedRows),
    Removed(Removed),
    /// Messages began to wait to be indexed, or were deleted.
    Unindexed(NamespaceId, Vec<UnindexedChange>),
    /// Segments were rewritten. A language, if given, becomes that of the namespace.
    Segments(NamespaceId, Option<Language>, Vec<SegmentChange>),
}

/// Rows that a commit added, and the segments with their terms.
pub(crate) struct AddedRows {
    pub(crate) rows: NewRows,
    pub(crate) segments: Vec<SegmentChange>,
}

/// The number of a segment, and the segment that was stored under it; `None` if the segment was deleted.
pub(crate) type SegmentChange = (u32, Option<Arc<Segment>>);

impl NamespaceChange {
    pub(crate) fn namespace(&self) -> NamespaceId {
        match self {
            NamespaceChange::Added(added) => added.rows.namespace,
            NamespaceChange::Removed(removed) => removed.namespace,
            NamespaceChange::Unindexed(namespace, _) | NamespaceChange::Segments(namespace, ..) => *namespace,
        }
    }
}

impl LoadedMessages {
    /// Applies a commit, see [`NamespaceIndex::apply`].
    pub(crate) fn apply(&self, change: &NamespaceChange) {
        match change {
            NamespaceChange::Unindexed(_, changes) => {
                self.unindexed.apply(changes);
                self.index.read().metadata.apply(changes);
            }
            NamespaceChange::Added(added) => {
                self.index.write().apply(change);
                // After they are in the index, so that a recall finds them at every moment.
                self.unindexed.remove(added.rows.metas.iter().map(|meta| meta.seq));
            }
            _ => self.index.write().apply(change),
        }
    }
}

impl NamespaceIndex {
    /// Applies a commit. Commits are applied in order. Replaying commits that the loaded snapshot already had is
    /// harmless, as long as all later commits are applied too.
    ///
    /// A commit adds only rows that are new or were removed before. So a row that is already live was in the loaded
    /// snapshot, which had this commit; if a later commit removed the row again, that commit follows.
    pub(super) fn apply(&mut self, change: &NamespaceChange) {
        self.sample.take();
        match change {
            NamespaceChange::Unindexed(..) => {}
            NamespaceChange::Added(AddedRows { rows: new, segments }) => {
                let mut fresh = Vec::with_capacity(new.rows.len());
                for (at, (&row, &meta)) in new.rows.iter().zip(&new.metas).enumerate() {
                    match self.rows.insert(row, meta) {
                        Inserted::IsLive => continue,
                        Inserted::Reused => self.rows_reused += 1,
                        Inserted::New => {}
                    }
                    self.insert_into_session(row, meta.session);
                    fresh.push(at);
                }
                self.set_segments(segments);
                if fresh.len() == new.rows.len() {
                    self.vectors.index().insert(&new.rows, &new.vectors);
                } else {
                    let rows: Vec<u32> = fresh.iter().map(|&at| new.rows[at]).collect();
                    let vectors = fresh.iter().map(|at| &new.vectors[at * self.dimension..][..self.dimension]);
                    self.vectors.index().insert(&rows, &vectors.collect::<Vec<_>>().concat());
                }
            }
            NamespaceChange::Segments(_, language, segments) => {
                self.language = language.unwrap_or(self.language);
                self.set_segments(segments);
            }
            NamespaceChange::Removed(removed) => {
                self.vectors.index().remove(&removed.rows);
                self.lexical.remove(&removed.rows);
                let taken = removed.rows.iter().filter_map(|&row| self.rows.remove(row));
                let sessions: BTreeSet<u32> = taken.map(|meta| meta.session).collect();
                for session in sessions {
                    let is_live = |row: &u32| self.rows[*row as usize].is_some();
                    self.sessions.entry(session).or_default().retain(is_live);
                }
            }
        }
    }

    fn insert_into_session(&mut self, row: u32, session: u32) {
        let order = |row: u32| session_order(&self.rows, row);
        let rows = self.sessions.entry(session).or_default();
        // New rows nearly always come last.
        let position = match rows.last().is_none_or(|&last| order(last) < order(row)) {
            true => rows.len(),
            false => rows.partition_point(|&other| order(other) < order(row)),
        };
        rows.insert(position, row);
    }

    pub(super) fn set_segments(&mut self, segments: &[SegmentChange]) {
        for (number, segment) in segments {
            let is_live = |row: u32| self.rows.get(row as usize).is_some_and(Option::is_some);
            self.lexical.set(*number, segment.clone(), is_live);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use mnemon_index::{ExactIndex, SearchOptions, VectorIndex};
    use proptest::prelude::*;

    use super::*;
    use crate::{
        ids::GenerationId,
        lexical::{Document, LexicalIndex, Scores, SpeakerAndQuestion},
        message::Role,
        recall::vectors::Vectors,
        store::RowMeta,
    };

    /// The stored namespace: the message, vector and term of each live row, and the segments.
    #[derive(Clone, Default)]
    struct Stored {
        rows: Vec<Option<(RowMeta, [f32; 2], u64)>>,
        segments: BTreeMap<u32, Arc<Segment>>,
    }

    const NAMESPACE: NamespaceId = NamespaceId(0);
    const GENERATION: GenerationId = GenerationId(1);

    /// A kind of commit.
    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Kind {
        Adds,
        Removes,
        RebuildsSegments,
    }

    fn document(row: u32, term: u64) -> Document {
        Document { row, passage: None, terms: vec![term], speech: SpeakerAndQuestion::default() }
    }

    /// Makes a commit that adds rows, reusing removed ones first, or removes some, or rebuilds all segments.
    fn commit(stored: &mut Stored, seq: u64, kind: Kind, choice: usize) -> NamespaceChange {
        let rows = &mut stored.rows;
        if kind == Kind::RebuildsSegments {
            let live = (0..).zip(rows.iter()).filter_map(|(row, found)| Some(document(row, (*found)?.2)));
            let segment = Arc::new(Segment::build(Language::English, live.collect()));
            let number = stored.segments.last_key_value().map_or(0, |(number, _)| number + 1);
            let mut changes: Vec<SegmentChange> = stored.segments.keys().map(|&number| (number, None)).collect();
            changes.push((number, Some(Arc::clone(&segment))));
            stored.segments = BTreeMap::from([(number, segment)]);
            return NamespaceChange::Segments(NAMESPACE, None, changes);
        }
        if kind == Kind::Removes {
            let live = (0..rows.len() as u32).filter(|&row| rows[row as usize].is_some());
            // The first, every other, every third ...
            let removed: Vec<u32> = live.step_by(1 + choice % 4).take(1 + choice).collect();
            removed.iter().for_each(|&row| rows[row as usize] = None);
            return NamespaceChange::Removed(Removed { generation: GENERATION, namespace: NAMESPACE, rows: removed });
        }
        let mut new = NewRows { namespace: NAMESPACE, rows: Vec::new(), metas: Vec::new(), vectors: Vec::new() };
        for window in 0..1 + choice as u16 {
            // Sequence numbers repeat: only vector and term tell two messages of one number apart.
            let meta = RowMeta { seq: seq % 3, created_at: None, session: 0, window, role: Role::User };
            let (y, x) = (seq as f32 * 0.01 + f32::from(window)).sin_cos();
            let row = rows.iter().position(Option::is_none).unwrap_or_else(|| {
                rows.push(None);
                rows.len() - 1
            });
            rows[row] = Some((meta, [x, y], seq));
            new.rows.push(row as u32);
            new.metas.push(meta);
            new.vectors.extend([x, y]);
        }
        let documents = new.rows.iter().map(|&row| document(row, seq)).collect();
        let mut segment = Segment::build(Language::English, documents);
        let number = stored.segments.last_key_value().map_or(0, |(number, _)| number + 1);
        let mut segments = Vec::new();
        if choice > 1
            && let Some((older, last)) = stored.segments.pop_last()
        {
            segment = Segment::merge(&[&*last, &segment]);
            segments.push((older, None));
        }
        let segment = Arc::new(segment);
        segments.push((number, Some(Arc::clone(&segment))));
        stored.segments.insert(number, segment);
        NamespaceChange::Added(AddedRows { rows: new, segments })
    }

    fn load(stored: &Stored) -> NamespaceIndex {
        let index = Arc::new(ExactIndex::new(2));
        for (row, found) in stored.rows.iter().enumerate() {
            index.insert(&[row as u32], &found.map_or([0.0; 2], |(_, vector, _)| vector));
            if found.is_none() {
                index.remove(&[row as u32]);
            }
        }
        let rows = stored.rows.iter().map(|row| row.map(|(meta, ..)| meta)).collect();
        let vectors = Vectors::Plain { index, ef: 128 };
        let mut loaded = NamespaceIndex::new(vectors, 2, rows, LexicalIndex::default(), Language::English);
        let segments = stored.segments.iter().map(|(&number, segment)| (number, Some(Arc::clone(segment))));
        loaded.set_segments(&segments.collect::<Vec<_>>());
        loaded
    }

    fn assert_equal(loaded: &NamespaceIndex, stored: &Stored) {
        let rows = &stored.rows;
        assert_eq!(loaded.rows, load(stored).rows);
        assert_eq!(loaded.vectors.index().rows(), rows.len());
        for (axis, query) in [[1.0, 0.0], [0.0, 1.0]].iter().enumerate() {
            let mut found = loaded.vectors.index().search(query, &SearchOptions::new(1000)).neighbors;
            found.sort_unstable_by_key(|neighbor| neighbor.row);
            let scores: Vec<(u32, f32)> = found.iter().map(|neighbor| (neighbor.row, neighbor.score)).collect();
            let live = (0..).zip(rows).filter_map(|(row, found)| found.map(|(_, vector, _)| (row, vector[axis])));
            assert_eq!(scores, live.collect::<Vec<_>>());
        }
        let terms: BTreeSet<u64> = rows.iter().flatten().map(|(.., term)| *term).collect();
        for term in terms {
            let mut scores = Scores::default();
            loaded.lexical.score(&[term], &mut scores);
            let found: BTreeSet<u32> = scores.touched().iter().copied().collect();
            let with_term = (0..).zip(rows).filter(|(_, row)| row.is_some_and(|(.., of_row)| of_row == term));
            assert_eq!(found, with_term.map(|(row, _)| row).collect(), "term {term}");
        }
        assert_eq!(loaded.lexical.rows(), rows.iter().flatten().count());
    }

    fn kind() -> impl Strategy<Value = Kind> {
        prop_oneof![4 => Just(Kind::Adds), 4 => Just(Kind::Removes), 1 => Just(Kind::RebuildsSegments)]
    }

    proptest! {
        /// A namespace loaded after some commit, to which all commits from an earlier one on are applied, ends in the
        /// last state.
        #[test]
        fn replaying_commits_that_the_snapshot_had_does_no_harm(
            commits in prop::collection::vec((kind(), 0..4_usize), 1..40),
            read in any::<prop::sample::Index>(),
            queued in any::<prop::sample::Index>(),
        ) {
            let mut stored = Stored::default();
            let mut states = vec![stored.clone()];
            let mut changes = Vec::new();
            for (seq, (kind, choice)) in commits.into_iter().enumerate() {
                changes.push(commit(&mut stored, seq as u64, kind, choice));
                states.push(stored.clone());
            }
            let read = read.index(states.len());
            let queued = queued.index(read + 1);
            let mut loaded = load(&states[read]);
            changes[queued..].iter().for_each(|change| loaded.apply(change));
            assert_equal(&loaded, &stored);
        }
    }
}
