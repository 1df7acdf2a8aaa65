//! The namespaces that are in memory: an index each, and what its rows stand for.
//!
//! A namespace is loaded when it is first asked; what is committed later is published to it. Loading holds the
//! namespace's lock, so a publication waits for it and then finds its rows there already: nothing is missed, nothing
//! is doubled.

use std::{
    collections::HashMap,
    sync::{Arc, mpsc},
};

use parking_lot::RwLock;

use crate::{
    config::{Config, IndexKind},
    error::{Error, Result},
    ids::NamespaceId,
    index::{Bitmap, ExactIndex, HnswRsIndex, Neighbor, VectorIndex},
    recall::{self, Filter},
    store::{Generation, NewRows, Removed, RowMeta, Store},
};

/// The loaded namespaces of one generation.
pub(super) struct Spaces {
    generation: Generation,
    config: Config,
    spaces: RwLock<HashMap<NamespaceId, Arc<Space>>>,
    improve: mpsc::Sender<Improve>,
}

/// An index that may have work to do in the background; `None` ends the thread that does it.
pub(super) type Improve = Option<Arc<dyn VectorIndex>>;

#[derive(Default)]
struct Space {
    loaded: RwLock<Option<Loaded>>,
}

struct Loaded {
    index: Arc<dyn VectorIndex>,
    /// By row; `None` is dead.
    metas: Vec<Option<RowMeta>>,
}

impl Spaces {
    pub(super) fn new(generation: Generation, config: Config, improve: mpsc::Sender<Improve>) -> Self {
        Spaces { generation, config, spaces: RwLock::default(), improve }
    }

    /// The `k` messages nearest to any of `vectors`: sequence numbers and scores, best first. `session` is the number
    /// of the filter's session.
    pub(super) fn search(
        &self,
        store: &Store,
        namespace: NamespaceId,
        vectors: &[Vec<f32>],
        k: usize,
        filter: &Filter,
        session: Option<u32>,
    ) -> Result<Vec<(u64, f32)>> {
        let space = self.load(store, namespace)?;
        let (index, rows, allowed) = {
            let guard = space.loaded.read();
            let loaded = guard.as_ref().expect("just loaded");
            let allows = |meta: &RowMeta| {
                filter.allows(meta.role, meta.created_at) && session.is_none_or(|session| session == meta.session)
            };
            let allowed = (!filter.is_empty()).then(|| {
                Bitmap::from_fn(loaded.metas.len(), |row| loaded.metas[row as usize].as_ref().is_some_and(allows))
            });
            (Arc::clone(&loaded.index), loaded.metas.len(), allowed)
        };
        // Long messages have several rows: ask for more until there are k messages.
        let mut want = k;
        loop {
            let found: Vec<Vec<Neighbor>> = vectors
                .iter()
                .map(|vector| index.search(vector, want, self.config.ef_search, allowed.as_ref()))
                .collect();
            let guard = space.loaded.read();
            let metas = &guard.as_ref().expect("loaded once, loaded for ever").metas;
            let messages = recall::best_messages(&found.concat(), k, |row| metas[row as usize].map(|meta| meta.seq));
            // A list that was cut must not hide anything better than the last message, under any of the query's windows.
            let worst = messages.get(k - 1).map_or(f32::NEG_INFINITY, |(_, score)| *score);
            let complete = |list: &Vec<Neighbor>| list.len() < want || list[want - 1].score <= worst;
            if want >= rows || found.iter().all(complete) {
                return Ok(messages);
            }
            want = want.saturating_mul(2);
        }
    }

    /// Makes committed rows findable, if their namespace is in memory.
    pub(super) fn publish(&self, rows: &NewRows) {
        let Some(space) = self.spaces.read().get(&rows.namespace).cloned() else { return };
        let mut guard = space.loaded.write();
        let Some(loaded) = guard.as_mut() else { return };
        // What was loaded after the commit is there already.
        let known = loaded.metas.len().saturating_sub(rows.first as usize).min(rows.metas.len());
        if known == rows.metas.len() {
            return;
        }
        loaded.index.insert(&rows.vectors[known * self.generation.identity.dimension..]);
        loaded.metas.extend(rows.metas[known..].iter().copied().map(Some));
        self.improve_later(&loaded.index);
    }

    /// Makes dead rows unfindable.
    pub(super) fn retract(&self, removed: &Removed) {
        let Some(space) = self.spaces.read().get(&removed.namespace).cloned() else { return };
        let mut guard = space.loaded.write();
        let Some(loaded) = guard.as_mut() else { return };
        loaded.index.remove(&removed.rows);
        for &row in &removed.rows {
            if let Some(meta) = loaded.metas.get_mut(row as usize) {
                *meta = None;
            }
        }
    }

    /// Does all background work of a namespace's index now.
    pub(super) fn optimize(&self, store: &Store, namespace: NamespaceId) -> Result<()> {
        let space = self.load(store, namespace)?;
        let index = Arc::clone(&space.loaded.read().as_ref().expect("just loaded").index);
        while index.improve() {}
        Ok(())
    }

    fn load(&self, store: &Store, namespace: NamespaceId) -> Result<Arc<Space>> {
        let known = self.spaces.read().get(&namespace).cloned();
        let space = known.unwrap_or_else(|| Arc::clone(self.spaces.write().entry(namespace).or_default()));
        if space.loaded.read().is_some() {
            return Ok(space);
        }
        {
            let mut guard = space.loaded.write();
            if guard.is_none() {
                let loaded = self.read(store, namespace)?;
                self.improve_later(&loaded.index);
                *guard = Some(loaded);
            }
        }
        Ok(space)
    }

    fn read(&self, store: &Store, namespace: NamespaceId) -> Result<Loaded> {
        let snapshot = store.read()?;
        let rows = snapshot.row_count(self.generation.id, namespace)?;
        let dimension = self.generation.identity.dimension;
        let index: Arc<dyn VectorIndex> = match self.config.index {
            IndexKind::Exact => Arc::new(ExactIndex::new(dimension)),
            IndexKind::HnswRs => Arc::new(HnswRsIndex::new(dimension, 0, self.config.threads)),
            IndexKind::Auto => Arc::new(HnswRsIndex::new(dimension, self.config.exact_threshold, self.config.threads)),
        };
        let mut metas = Vec::with_capacity(rows);
        let mut dead = Vec::new();
        let mut vector = Vec::with_capacity(dimension);
        snapshot.rows(&self.generation, namespace, |row| {
            if row.meta.is_none() {
                dead.push(metas.len() as u32);
            }
            metas.push(row.meta);
            vector.clear();
            vector.extend(row.components());
            if vector.iter().any(|x| !x.is_finite()) {
                return Err(Error::corrupted(format!("row {} of the vectors is not finite", metas.len() - 1)));
            }
            index.insert(&vector);
            Ok(())
        })?;
        if metas.len() != rows {
            return Err(Error::corrupted(format!("{} rows of vectors, but {rows} counted", metas.len())));
        }
        index.remove(&dead);
        Ok(Loaded { index, metas })
    }

    fn improve_later(&self, index: &Arc<dyn VectorIndex>) {
        // No receiver: the engine is closing, and the index with it.
        let _ = self.improve.send(Some(Arc::clone(index)));
    }
}
