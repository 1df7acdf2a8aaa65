//! The namespaces that are in memory: an index each, and what its rows stand for.
//!
//! A namespace is loaded when it is first asked; what is committed later is published to it. What is committed while it
//! loads is queued, and applied when it is there: so the writer never waits for a load. The loaded snapshot may have had
//! some of it already: see [`Loaded::apply`]. A row may be given to another message while a search runs without the
//! lock: then it searches again.

use std::{
    collections::HashMap,
    sync::{Arc, mpsc},
};

use parking_lot::{Mutex, RwLock, RwLockReadGuard};

use crate::{
    config::{Config, IndexKind},
    error::{Error, Result},
    ids::NamespaceId,
    index::{Bitmap, ExactIndex, HnswRsIndex, Neighbor, Search, VectorIndex},
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
    state: RwLock<State>,
    /// Held by the one that loads.
    loading: Mutex<()>,
}

#[derive(Default)]
enum State {
    #[default]
    Unloaded,
    /// With what was committed meanwhile.
    Loading(Vec<Change>),
    Loaded(Loaded),
}

struct Loaded {
    index: Arc<dyn VectorIndex>,
    /// By row; `None` is dead.
    metas: Vec<Option<RowMeta>>,
    dimension: usize,
    /// Counts the rows that were given to another message.
    given_again: u64,
}

/// Searches that a row given meanwhile may spoil, before one that writers wait for.
const TRIES: u32 = 3;

/// What a commit did to the rows of one namespace.
#[derive(Clone)]
pub(super) enum Change {
    Added(NewRows),
    Removed(Removed),
}

impl Change {
    fn namespace(&self) -> NamespaceId {
        match self {
            Change::Added(rows) => rows.namespace,
            Change::Removed(removed) => removed.namespace,
        }
    }
}

impl State {
    fn loaded(&self) -> Option<&Loaded> {
        match self {
            State::Loaded(loaded) => Some(loaded),
            _ => None,
        }
    }
}

impl Loaded {
    /// Makes this what it is after a commit: all of them in order, from some commit on that this has already.
    ///
    /// In the order of commits, a row that is given was dead or not there. So one that is alive when it is given is so from
    /// the loaded snapshot, which had this commit; if a later one took it away again, that follows in the queue.
    fn apply(&mut self, change: &Change) {
        match change {
            Change::Added(new) => {
                let mut fresh = Vec::with_capacity(new.rows.len());
                for (at, (&row, &meta)) in new.rows.iter().zip(&new.metas).enumerate() {
                    match self.metas.get_mut(row as usize) {
                        Some(Some(_)) => continue,
                        Some(dead) => {
                            *dead = Some(meta);
                            self.given_again += 1;
                        }
                        None => self.metas.push(Some(meta)),
                    }
                    fresh.push(at);
                }
                if fresh.len() == new.rows.len() {
                    self.index.insert(&new.rows, &new.vectors);
                } else {
                    let rows: Vec<u32> = fresh.iter().map(|&at| new.rows[at]).collect();
                    let vectors = fresh.iter().map(|at| &new.vectors[at * self.dimension..][..self.dimension]);
                    self.index.insert(&rows, &vectors.collect::<Vec<_>>().concat());
                }
            }
            Change::Removed(removed) => {
                self.index.remove(&removed.rows);
                for &row in &removed.rows {
                    if let Some(meta) = self.metas.get_mut(row as usize) {
                        *meta = None;
                    }
                }
            }
        }
    }
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
        let mut state = space.state.read();
        let mut tries = 0;
        'again: loop {
            let loaded = state.loaded().expect("just loaded");
            let allows = |meta: &RowMeta| {
                filter.allows(meta.role, meta.created_at) && session.is_none_or(|session| session == meta.session)
            };
            let allowed = (!filter.is_empty()).then(|| {
                Bitmap::from_fn(loaded.metas.len(), |row| loaded.metas[row as usize].as_ref().is_some_and(allows))
            });
            let (index, rows, given_again) = (Arc::clone(&loaded.index), loaded.metas.len(), loaded.given_again);
            // Long messages have several rows: ask for more until there are k messages.
            let mut want = k;
            loop {
                let search = || -> Vec<Vec<Neighbor>> {
                    let search = Search::new(want).ef(self.config.ef_search).allowed(allowed.as_ref());
                    vectors.iter().map(|vector| index.search(vector, &search).neighbors).collect()
                };
                let found = match tries < TRIES {
                    true => RwLockReadGuard::unlocked(&mut state, search),
                    false => search(),
                };
                let loaded = state.loaded().expect("loaded once, loaded for ever");
                if loaded.given_again != given_again {
                    tries += 1;
                    continue 'again;
                }
                let messages =
                    recall::best_messages(&found.concat(), k, |row| loaded.metas[row as usize].map(|meta| meta.seq));
                // A list that was cut must not hide anything better than the last message, under any of the query's
                // windows.
                let worst = messages.get(k - 1).map_or(f32::NEG_INFINITY, |(_, score)| *score);
                let complete = |list: &Vec<Neighbor>| list.len() < want || list[want - 1].score <= worst;
                if want >= rows || found.iter().all(complete) {
                    return Ok(messages);
                }
                want = want.saturating_mul(2);
            }
        }
    }

    /// Makes what was committed findable, or unfindable, if its namespace is in memory.
    pub(super) fn publish(&self, change: Change) {
        let Some(space) = self.spaces.read().get(&change.namespace()).cloned() else { return };
        match &mut *space.state.write() {
            State::Unloaded => {}
            State::Loading(queue) => queue.push(change),
            State::Loaded(loaded) => {
                loaded.apply(&change);
                self.improve_later(&loaded.index);
            }
        }
    }

    /// Does all background work of a namespace's index now.
    pub(super) fn optimize(&self, store: &Store, namespace: NamespaceId) -> Result<()> {
        let space = self.load(store, namespace)?;
        let index = Arc::clone(&space.state.read().loaded().expect("just loaded").index);
        while index.improve() {}
        Ok(())
    }

    fn load(&self, store: &Store, namespace: NamespaceId) -> Result<Arc<Space>> {
        let known = self.spaces.read().get(&namespace).cloned();
        let space = known.unwrap_or_else(|| Arc::clone(self.spaces.write().entry(namespace).or_default()));
        if space.state.read().loaded().is_some() {
            return Ok(space);
        }
        {
            let _one_at_a_time = space.loading.lock();
            if space.state.read().loaded().is_none() {
                // Before the snapshot is taken: what is committed after it is queued.
                *space.state.write() = State::Loading(Vec::new());
                let read = self.read(store, namespace);
                let mut state = space.state.write();
                let queue = std::mem::take(&mut *state);
                let mut loaded = read?;
                if let State::Loading(queue) = queue {
                    queue.iter().for_each(|change| loaded.apply(change));
                }
                self.improve_later(&loaded.index);
                *state = State::Loaded(loaded);
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
            IndexKind::HnswRs => Arc::new(HnswRsIndex::new(dimension, 0)),
            IndexKind::Auto => Arc::new(HnswRsIndex::new(dimension, self.config.exact_threshold)),
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
            index.insert(&[metas.len() as u32 - 1], &vector);
            Ok(())
        })?;
        if metas.len() != rows {
            return Err(Error::corrupted(format!("{} rows of vectors, but {rows} counted", metas.len())));
        }
        index.remove(&dead);
        Ok(Loaded { index, metas, dimension, given_again: 0 })
    }

    fn improve_later(&self, index: &Arc<dyn VectorIndex>) {
        // No receiver: the engine is closing, and the index with it.
        let _ = self.improve.send(Some(Arc::clone(index)));
    }
}
