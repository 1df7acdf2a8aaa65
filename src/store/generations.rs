//! The generations, from the first to their end: begun, built, serving, previous, retired, deleted.

use std::{borrow::Borrow, ops::RangeInclusive};

use redb::ReadableTable;

use super::{Transaction, codec, read, schema::*, storage};
use crate::{
    config::Precision,
    error::{Error, Result},
    ids::{GenerationId, ModelIdentity},
};

/// Entries that are deleted in place of a block: they take about as long.
const SMALL: usize = 256;

/// A key of the histories: namespace, session, sequence number.
pub(crate) type HistoryPlace = (u32, u32, u64);

/// The first of them.
pub(crate) const FIRST: HistoryPlace = (0, 0, 0);

impl Transaction {
    pub(super) fn live_generations(&self) -> Result<Vec<(GenerationId, GenerationRecord)>> {
        let mut all = read::all_generations(&self.table(GENERATIONS)?)?;
        all.retain(|(_, record)| record.state != GenerationState::Retired);
        Ok(all)
    }

    /// Makes the first generation, which serves.
    pub(crate) fn create_serving(&mut self, identity: &ModelIdentity, precision: Precision) -> Result<GenerationId> {
        let id = self.create_generation(GenerationRecord::new(identity, precision, GenerationState::Serving))?;
        // There are no messages yet, unless a database was mended by hand.
        self.make_pending(id, FIRST, usize::MAX)?;
        Ok(id)
    }

    /// Begins a generation beside the serving one, or goes on with the one there is of this model and precision, be it half built or the
    /// previous one. All others but the serving one are retired. What waits in one that has begun is then to be written down by
    /// [`Transaction::seed`].
    pub(crate) fn begin_building(
        &mut self,
        identity: &ModelIdentity,
        precision: Precision,
    ) -> Result<(GenerationId, GenerationState)> {
        let new = GenerationRecord::new(identity, precision, GenerationState::Begun);
        let mut known = None;
        self.change_generations(|id, record| {
            let is_wanted =
                (&record.hash, record.dimension, record.precision) == (&new.hash, new.dimension, new.precision);
            record.state = match record.state {
                GenerationState::Serving => return,
                state if state == GenerationState::Retired || !is_wanted || known.is_some() => GenerationState::Retired,
                GenerationState::Begun => GenerationState::Begun,
                _ => GenerationState::Building,
            };
            if record.state != GenerationState::Retired {
                known = Some((id, record.state));
            }
        })?;
        match known {
            Some(known) => Ok(known),
            None => Ok((self.create_generation(new)?, GenerationState::Begun)),
        }
    }

    /// Makes the next `limit` messages pending in a generation that has begun, from a place in the histories on: those with text that are
    /// in no buffer. What is put or deleted meanwhile is written to it already. Returns the place to go on from; `None`: that was the
    /// last, and it is building now.
    pub(crate) fn seed(&mut self, id: GenerationId, from: HistoryPlace, limit: usize) -> Result<Option<HistoryPlace>> {
        let next = self.make_pending(id, from, limit)?;
        if next.is_none() {
            self.change_generations(|other, record| {
                if other == id {
                    record.state = GenerationState::Building;
                }
            })?;
        }
        Ok(next)
    }

    fn create_generation(&mut self, record: GenerationRecord) -> Result<GenerationId> {
        let mut generations = self.table(GENERATIONS)?;
        let id = generations.last().map_err(storage)?.map_or(1, |(id, _)| id.value() + 1);
        generations.insert(id, codec::encode(&record).as_slice()).map_err(storage)?;
        Ok(GenerationId(id))
    }

    fn make_pending(
        &mut self,
        GenerationId(id): GenerationId,
        from: HistoryPlace,
        limit: usize,
    ) -> Result<Option<HistoryPlace>> {
        let (mut pending, messages) = (self.table(PENDING)?, self.table(MESSAGES)?);
        for (at, entry) in self.table(HISTORY)?.range(from..).map_err(storage)?.enumerate() {
            let (key, place) = entry.map_err(storage)?;
            if at == limit {
                return Ok(Some(key.value()));
            }
            if place.value() == Place::Buffer.number() {
                continue;
            }
            let (namespace, _, seq) = key.value();
            let value = messages.get((namespace, seq)).map_err(storage)?;
            let value = value.ok_or_else(|| Error::corrupted(format!("message {seq} is missing")))?;
            let record: MessageRecord = codec::decode(value.value())?;
            let revision = record.revision;
            if !record.message()?.searchable().trim().is_empty() {
                pending.insert((id, namespace, seq), revision).map_err(storage)?;
            }
        }
        Ok(None)
    }

    /// Makes a generation the serving one. The one that served is kept as the previous, or retired like all others.
    pub(crate) fn switch(&mut self, to: GenerationId, keep_previous: bool) -> Result<()> {
        self.change_generations(|id, record| {
            record.state = match record.state {
                _ if id == to => GenerationState::Serving,
                GenerationState::Serving if keep_previous => GenerationState::Previous,
                _ => GenerationState::Retired,
            };
        })
    }

    /// Retires what was begun, and does not serve.
    pub(crate) fn retire_building(&mut self) -> Result<bool> {
        self.retire(|state| matches!(state, GenerationState::Begun | GenerationState::Building))
    }

    /// Retires the previous generation. Returns whether there was one.
    pub(crate) fn retire_previous(&mut self) -> Result<bool> {
        self.retire(|state| state == GenerationState::Previous)
    }

    fn retire(&mut self, is_retired: impl Fn(GenerationState) -> bool) -> Result<bool> {
        let mut found = false;
        self.change_generations(|_, record| {
            if is_retired(record.state) {
                (record.state, found) = (GenerationState::Retired, true);
            }
        })?;
        Ok(found)
    }

    fn change_generations(&self, mut change: impl FnMut(GenerationId, &mut GenerationRecord)) -> Result<()> {
        let mut generations = self.table(GENERATIONS)?;
        for (id, old) in read::all_generations(&generations)? {
            let mut record = old.clone();
            change(id, &mut record);
            if record != old {
                generations.insert(id.0, codec::encode(&record).as_slice()).map_err(storage)?;
            }
        }
        Ok(())
    }

    /// Deletes up to `blocks` blocks of retired generations, parts of graphs and segments among them, and small entries
    /// for what is left of the number. Returns whether there is more to delete.
    pub(crate) fn sweep(&mut self, blocks: usize) -> Result<bool> {
        let mut generations = self.table(GENERATIONS)?;
        let retired = read::all_generations(&generations)?
            .into_iter()
            .find(|(_, record)| record.state == GenerationState::Retired);
        let Some((GenerationId(id), _)) = retired else { return Ok(false) };
        let rows = (id, 0, 0)..=(id, u32::MAX, u32::MAX);
        let mut left = blocks - self.sweep_segments(GenerationId(id), blocks)?;
        for table in [GRAPH_DELTAS, GRAPH_PAGES, VECTORS] {
            left -= remove(&mut self.table(table)?, rows.clone(), left)?;
        }
        let mut small = left * SMALL;
        small -= remove(&mut self.table(FREE_ROWS)?, rows, small)?;
        let all = (id, 0, 0)..=(id, u32::MAX, u64::MAX);
        small -= remove(&mut self.table(PENDING)?, all.clone(), small)?;
        small -= remove(&mut self.table(PLACES)?, all, small)?;
        let namespaces = (id, 0)..=(id, u32::MAX);
        small -= remove(&mut self.table(GRAPHS)?, namespaces.clone(), small)?;
        small -= remove(&mut self.table(COUNTS)?, namespaces, small)?;
        if small > 0 {
            generations.remove(id).map_err(storage)?;
        }
        Ok(true)
    }
}

/// Removes up to `limit` entries of this range. Returns how many.
pub(super) fn remove<'a, K: redb::Key + 'static, V: redb::Value + 'static, KR: Borrow<K::SelfType<'a>> + 'a>(
    table: &mut redb::Table<K, V>,
    range: RangeInclusive<KR>,
    limit: usize,
) -> Result<usize> {
    let removed = table.extract_from_if(range, |_, _| true).map_err(storage)?.take(limit);
    removed.map(|entry| entry.map(|_| 1).map_err(storage)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        ids::Namespace,
        message::Message,
        store::{Options, Pass, Store},
    };

    /// What is put, replaced and deleted while it is seeded, on either side of the place where that is.
    #[test]
    fn what_changes_while_it_is_seeded_is_in_it() {
        let folder = tempfile::tempdir().unwrap();
        let options = Options { create: true, cache_bytes: 1 << 20, two_phase_commit: false };
        let store = Store::open(&folder.path().join("a.redb"), options).unwrap();
        let identity = |name: &str| ModelIdentity { name: name.into(), dimension: 2, hash: name.into() };
        store.write(|t| t.create_serving(&identity("old"), Precision::F32)).unwrap();
        let space: Namespace = "a".parse().unwrap();
        let put = |session: &str, id: &str, text: &str| {
            let message = Message::user(text).with_id(id).in_session(session);
            store.write(|t| t.put(&[(space.clone(), message)])).unwrap();
        };
        let pending = |generation: GenerationId| {
            let pending = store.read().unwrap().pending(generation, &mut Pass::default(), 100).unwrap();
            let mut texts: Vec<(String, String)> = pending.into_iter().map(|found| (found.id, found.text)).collect();
            texts.sort();
            texts
        };
        for session in ["s", "t"] {
            (0..4).for_each(|i| put(session, &format!("{session}{i}"), "text"));
        }
        let begin = || store.write(|t| t.begin_building(&identity("new"), Precision::F32)).unwrap();
        let (new, state) = begin();
        assert_eq!(state, GenerationState::Begun);
        let next = store.write(|t| t.seed(new, FIRST, 5)).unwrap().unwrap();
        assert_eq!(pending(new).len(), 5);
        put("s", "s1", "changed");
        put("t", "t3", "changed");
        put("s", "s9", "new");
        put("t", "t9", "new");
        store.write(|t| t.delete(&space, &["s2".into(), "t2".into()])).unwrap();
        assert_eq!(crate::store::verify::verify(&store.read().unwrap()).unwrap().problems, [""; 0]);
        // Killed here, it begins again.
        assert_eq!(begin(), (new, GenerationState::Begun));
        store.write(|t| t.seed(new, FIRST, 2)).unwrap().unwrap();
        assert_eq!(store.write(|t| t.seed(new, next, 100)).unwrap(), None);
        assert_eq!(begin(), (new, GenerationState::Building));
        assert_eq!(pending(new), pending(GenerationId(1)));
        assert_eq!(pending(new).len(), 8);
        assert_eq!(crate::store::verify::verify(&store.read().unwrap()).unwrap().problems, [""; 0]);
        // What waits must be written down before it is checked.
        put("s", "s9", "changed");
        store.write(|t| t.table(PENDING)?.remove((new.0, 0, 0)).map(drop).map_err(storage)).unwrap();
        assert_eq!(crate::store::verify::verify(&store.read().unwrap()).unwrap().problems.len(), 1);
        // Another drops it.
        let (third, _) = store.write(|t| t.begin_building(&identity("third"), Precision::F32)).unwrap();
        assert_ne!(third, new);
        while store.write(|t| t.sweep(4)).unwrap() {}
        assert_eq!(pending(new), []);
    }
}
