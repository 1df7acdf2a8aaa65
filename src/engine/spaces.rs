//! The namespaces that are in memory: an index each, and what its rows stand for.
//!
//! A namespace is loaded when it is first asked; what is committed later is published to it. What is committed while it
//! loads is queued, and applied when it is there: so the writer never waits for a load. The loaded snapshot may have had
//! some of it already: see [`Loaded::apply`]. A row may be given to another message while a search runs without the
//! lock: then it searches again.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Arc, mpsc},
    time::Instant,
};

use parking_lot::{Mutex, RwLock, RwLockReadGuard};

use super::{
    IndexStats,
    graph::{Committed, Planners, StoredGraph, Workers},
    load,
};
use crate::{
    config::Config,
    error::Result,
    ids::NamespaceId,
    index::{Bitmap, Found, Neighbor, Search, VectorIndex},
    recall::{self, Filter},
    store::{Generation, NewRows, Removed, RowMeta, Store, Transaction},
};

/// The loaded namespaces of one generation.
pub(super) struct Spaces {
    generation: Generation,
    config: Config,
    store: Arc<Store>,
    spaces: RwLock<HashMap<NamespaceId, Arc<Space>>>,
    improve: mpsc::Sender<Improve>,
}

/// A namespace whose index may have work to do in the background; `None` ends the thread that does it.
pub(super) type Improve = Option<NamespaceId>;

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

pub(super) struct Loaded {
    pub(super) index: Searched,
    /// By row; `None` is dead.
    pub(super) metas: Vec<Option<RowMeta>>,
    /// The rows of each session.
    pub(super) sessions: HashMap<u32, Vec<u32>>,
    pub(super) dimension: usize,
    /// Counts the rows that were given to another message.
    pub(super) given_again: u64,
}

/// An index, and whether its graph is in the store.
#[derive(Clone)]
pub(super) enum Searched {
    Plain(Arc<dyn VectorIndex>),
    Graph(Arc<StoredGraph>),
}

impl Searched {
    fn index(&self) -> &dyn VectorIndex {
        match self {
            Searched::Plain(index) => &**index,
            Searched::Graph(graph) => &*graph.index,
        }
    }
}

/// Searches that a row given meanwhile may spoil, before one that writers wait for.
const TRIES: u32 = 3;

/// What a commit did to the rows of one namespace.
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
    fn graph(&self) -> Option<Arc<StoredGraph>> {
        match &self.index {
            Searched::Graph(graph) => Some(Arc::clone(graph)),
            Searched::Plain(_) => None,
        }
    }

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
                    self.sessions.entry(meta.session).or_default().push(row);
                    fresh.push(at);
                }
                if fresh.len() == new.rows.len() {
                    self.index.index().insert(&new.rows, &new.vectors);
                } else {
                    let rows: Vec<u32> = fresh.iter().map(|&at| new.rows[at]).collect();
                    let vectors = fresh.iter().map(|at| &new.vectors[at * self.dimension..][..self.dimension]);
                    self.index.index().insert(&rows, &vectors.collect::<Vec<_>>().concat());
                }
            }
            Change::Removed(removed) => {
                self.index.index().remove(&removed.rows);
                let taken = removed.rows.iter().filter_map(|&row| self.metas.get_mut(row as usize)?.take());
                let sessions: BTreeSet<u32> = taken.map(|meta| meta.session).collect();
                for session in sessions {
                    let is_left = |row: &u32| self.metas[*row as usize].is_some();
                    self.sessions.entry(session).or_default().retain(is_left);
                }
            }
        }
    }

    /// The rows that a filter allows, `None` for all.
    fn allowed(&self, filter: &Filter, session: Option<u32>) -> Option<Bitmap> {
        if filter.is_empty() {
            return None;
        }
        let allows =
            |row: u32| self.metas[row as usize].as_ref().is_some_and(|meta| filter.allows(meta.role, meta.created_at));
        let rows = self.metas.len();
        Some(match session {
            None => Bitmap::from_fn(rows, allows),
            Some(session) => {
                let mut bitmap = Bitmap::default();
                // What is listed is alive: only other wishes ask for a look at each.
                let is_all = filter.is_session_only();
                for &row in self.sessions.get(&session).into_iter().flatten().filter(|&&row| is_all || allows(row)) {
                    bitmap.insert(row);
                }
                bitmap
            }
        })
    }
}

/// What the rows that were found stand for.
pub(super) struct FoundMessages {
    /// Sequence numbers and scores, best first.
    pub(super) messages: Vec<(u64, f32)>,
    pub(super) cut_short: bool,
}

impl Spaces {
    pub(super) fn new(
        store: Arc<Store>,
        generation: Generation,
        config: Config,
        improve: mpsc::Sender<Improve>,
    ) -> Self {
        Spaces { generation, config, store, spaces: RwLock::default(), improve }
    }

    /// The `k` messages nearest to any of `vectors`. `session` is the number of the filter's session.
    pub(super) fn search(
        &self,
        namespace: NamespaceId,
        vectors: &[Vec<f32>],
        k: usize,
        filter: &Filter,
        session: Option<u32>,
        deadline: Option<Instant>,
    ) -> Result<FoundMessages> {
        let space = self.load(namespace)?;
        let mut state = space.state.read();
        let mut tries = 0;
        'again: loop {
            let loaded = state.loaded().expect("just loaded");
            let allowed = loaded.allowed(filter, session);
            let (index, rows, given_again) = (loaded.index.clone(), loaded.metas.len(), loaded.given_again);
            let ef = match &index {
                Searched::Graph(graph) => graph.sampling.ef(),
                Searched::Plain(_) => self.config.ef_search,
            };
            // Long messages have several rows: ask for more until there are k messages.
            let mut want = k;
            loop {
                let search = || -> Vec<Found> {
                    let search = Search::new(want).ef(ef).allowed(allowed.as_ref()).deadline(deadline);
                    vectors.iter().map(|vector| index.index().search(vector, &search)).collect()
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
                // What a search missed because its time was up says nothing of the graph.
                if let (Searched::Graph(graph), [vector], None) = (&index, vectors, &allowed)
                    && !found[0].cut_short
                    && graph.sampling.offer(vector, &found[0].neighbors)
                {
                    self.improve_later(namespace);
                }
                let cut_short = found.iter().any(|found| found.cut_short);
                let found: Vec<Vec<Neighbor>> = found.into_iter().map(|found| found.neighbors).collect();
                let messages =
                    recall::best_messages(&found.concat(), k, |row| loaded.metas[row as usize].map(|meta| meta.seq));
                // A list that was cut must not hide anything better than the last message, under any of the query's
                // windows.
                let worst = messages.get(k - 1).map_or(f32::NEG_INFINITY, |(_, score)| *score);
                let complete = |list: &Vec<Neighbor>| list.len() < want || list[want - 1].score <= worst;
                if want >= rows || cut_short || found.iter().all(complete) {
                    return Ok(FoundMessages { messages, cut_short });
                }
                want = want.saturating_mul(2);
            }
        }
    }

    /// Links rows in the transaction that stores them, where that is quick. What comes back is to be made once the
    /// transaction is committed and the rows are published.
    pub(super) fn link(
        &self,
        transaction: &mut Transaction,
        added: &[NewRows],
        planners: &Planners,
    ) -> Result<Vec<Committed>> {
        let mut linked = Vec::new();
        for new in added {
            let space = self.spaces.read().get(&new.namespace).cloned();
            let graph = space.and_then(|space| space.state.read().loaded()?.graph());
            if let Some(graph) = graph {
                linked.extend(graph.link(transaction, new, planners)?);
            }
        }
        Ok(linked)
    }

    /// Makes what was committed findable, or unfindable, if its namespace is in memory.
    pub(super) fn publish(&self, change: Change) {
        let namespace = change.namespace();
        let Some(space) = self.spaces.read().get(&namespace).cloned() else { return };
        match &mut *space.state.write() {
            State::Unloaded => {}
            State::Loading(queue) => queue.push(change),
            State::Loaded(loaded) => {
                loaded.apply(&change);
                self.improve_later(namespace);
            }
        }
    }

    /// Does a step of the background work of a namespace's index; all kinds of it, if it is to be thorough. Returns
    /// whether there is more.
    pub(super) fn improve(&self, namespace: NamespaceId, workers: &Workers, is_thorough: bool) -> Result<bool> {
        let Some(space) = self.spaces.read().get(&namespace).cloned() else { return Ok(false) };
        let index = space.state.read().loaded().map(|loaded| loaded.index.clone());
        match index {
            None => Ok(false),
            Some(Searched::Plain(index)) => Ok(index.improve()),
            Some(Searched::Graph(graph)) => graph.step(workers, is_thorough),
        }
    }

    /// Stores what background work has not stored yet.
    pub(super) fn close(&self, workers: &Workers) {
        let spaces: Vec<Arc<Space>> = self.spaces.read().values().cloned().collect();
        for graph in spaces.iter().filter_map(|space| space.state.read().loaded()?.graph()) {
            if let Err(error) = graph.close(workers) {
                tracing::error!(%error, "links were not stored; the next opening makes them again");
            }
        }
    }

    /// Does all background work of a namespace's index now.
    pub(super) fn optimize(&self, namespace: NamespaceId, workers: &Workers) -> Result<()> {
        self.load(namespace)?;
        while self.improve(namespace, workers, true)? {}
        Ok(())
    }

    /// What the index of a namespace is like.
    pub(super) fn index_stats(&self, namespace: NamespaceId) -> Result<IndexStats> {
        let space = self.load(namespace)?;
        let state = space.state.read();
        let loaded = state.loaded().expect("just loaded");
        Ok(match &loaded.index {
            Searched::Plain(_) => IndexStats {
                vectors: loaded.metas.iter().flatten().count(),
                linked: 0,
                ef_search: self.config.ef_search,
                recall: None,
                samples: 0,
            },
            Searched::Graph(graph) => {
                let ((vectors, linked), estimate) = (graph.index.counts(), graph.sampling.estimate());
                let (recall, samples, ef_search) = (estimate.recall, estimate.samples, estimate.ef);
                IndexStats { vectors, linked, ef_search, recall, samples }
            }
        })
    }

    fn load(&self, namespace: NamespaceId) -> Result<Arc<Space>> {
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
                let read = load::load(&self.store, &self.generation, namespace, &self.config);
                let mut state = space.state.write();
                let queue = std::mem::take(&mut *state);
                let mut loaded = read?;
                if let State::Loading(queue) = queue {
                    queue.iter().for_each(|change| loaded.apply(change));
                }
                *state = State::Loaded(loaded);
                self.improve_later(namespace);
            }
        }
        Ok(space)
    }

    fn improve_later(&self, namespace: NamespaceId) {
        // No receiver: the engine is closing, and the index with it.
        let _ = self.improve.send(Some(namespace));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use std::sync::{
        OnceLock,
        atomic::{AtomicU32, Ordering},
    };

    use super::*;
    use crate::{
        ids::{GenerationId, ModelIdentity},
        index::ExactIndex,
        message::Role,
        store::{GenerationState, Options},
    };

    /// What is stored: of each row its message and vector, unless it is dead.
    type Rows = Vec<Option<(RowMeta, [f32; 2])>>;

    const SPACE: NamespaceId = NamespaceId(0);

    /// A commit that gives rows to messages, those that are dead first, or takes some away.
    fn commit(rows: &mut Rows, seq: u64, gives: bool, choice: usize) -> Change {
        if !gives {
            let living = (0..rows.len() as u32).filter(|&row| rows[row as usize].is_some());
            // The first, every other, every third ...
            let removed: Vec<u32> = living.step_by(1 + choice % 4).take(1 + choice).collect();
            removed.iter().for_each(|&row| rows[row as usize] = None);
            return Change::Removed(Removed { namespace: SPACE, rows: removed });
        }
        let mut new = NewRows { namespace: SPACE, rows: Vec::new(), metas: Vec::new(), vectors: Vec::new() };
        for window in 0..1 + choice as u16 {
            // A message is given again as often as another: only the vector tells the two.
            let meta = RowMeta { seq: seq % 3, created_at: None, session: 0, window, role: Role::User };
            let (y, x) = (seq as f32 * 0.01 + f32::from(window)).sin_cos();
            let row = rows.iter().position(Option::is_none).unwrap_or_else(|| {
                rows.push(None);
                rows.len() - 1
            });
            rows[row] = Some((meta, [x, y]));
            new.rows.push(row as u32);
            new.metas.push(meta);
            new.vectors.extend([x, y]);
        }
        Change::Added(new)
    }

    fn load(rows: &Rows) -> Loaded {
        let index = Arc::new(ExactIndex::new(2));
        for (row, found) in rows.iter().enumerate() {
            index.insert(&[row as u32], &found.map_or([0.0; 2], |(_, vector)| vector));
            if found.is_none() {
                index.remove(&[row as u32]);
            }
        }
        let metas = rows.iter().map(|row| row.map(|(meta, _)| meta)).collect();
        Loaded { index: Searched::Plain(index), metas, sessions: HashMap::new(), dimension: 2, given_again: 0 }
    }

    fn assert_is(loaded: &Loaded, rows: &Rows) {
        assert_eq!(loaded.metas, load(rows).metas);
        assert_eq!(loaded.index.index().rows(), rows.len());
        for (axis, query) in [[1.0, 0.0], [0.0, 1.0]].iter().enumerate() {
            let mut found = loaded.index.index().search(query, &Search::new(1000)).neighbors;
            found.sort_unstable_by_key(|neighbor| neighbor.row);
            let scores: Vec<(u32, f32)> = found.iter().map(|neighbor| (neighbor.row, neighbor.score)).collect();
            let living = (0..).zip(rows).filter_map(|(row, found)| found.map(|(_, vector)| (row, vector[axis])));
            assert_eq!(scores, living.collect::<Vec<_>>());
        }
    }

    proptest! {
        /// A namespace that is read after some commit, and told of all from an earlier one on, ends as the last has it.
        #[test]
        fn what_a_snapshot_had_already_does_no_harm(
            commits in prop::collection::vec((any::<bool>(), 0..4_usize), 1..40),
            read in any::<prop::sample::Index>(),
            queued in any::<prop::sample::Index>(),
        ) {
            let mut rows = Rows::new();
            let mut states = vec![rows.clone()];
            let mut changes = Vec::new();
            for (seq, (gives, choice)) in commits.into_iter().enumerate() {
                changes.push(commit(&mut rows, seq as u64, gives, choice));
                states.push(rows.clone());
            }
            let read = read.index(states.len());
            let queued = queued.index(read + 1);
            let mut loaded = load(&states[read]);
            changes[queued..].iter().for_each(|change| loaded.apply(change));
            assert_is(&loaded, &rows);
        }
    }

    /// Gives row 0 to the next message whenever it has been searched, so many times.
    struct Meddling {
        index: ExactIndex,
        spaces: OnceLock<Arc<Spaces>>,
        given: AtomicU32,
        times: u32,
    }

    impl VectorIndex for Meddling {
        fn insert(&self, rows: &[u32], vectors: &[f32]) {
            self.index.insert(rows, vectors);
        }

        fn remove(&self, rows: &[u32]) {
            self.index.remove(rows);
        }

        fn search(&self, query: &[f32], search: &Search) -> Found {
            let found = self.index.search(query, search);
            let given = self.given.fetch_add(1, Ordering::Relaxed) + 1;
            if given <= self.times {
                let spaces = self.spaces.get().unwrap();
                spaces.publish(Change::Removed(Removed { namespace: SPACE, rows: vec![0] }));
                spaces.publish(Change::Added(one(0, u64::from(given), [0.0, 1.0])));
            }
            found
        }

        fn rows(&self) -> usize {
            self.index.rows()
        }
    }

    fn one(row: u32, seq: u64, vector: [f32; 2]) -> NewRows {
        let meta = RowMeta { seq, created_at: None, session: 0, window: 0, role: Role::User };
        NewRows { namespace: SPACE, rows: vec![row], metas: vec![meta], vectors: vector.to_vec() }
    }

    #[test]
    fn a_row_that_is_given_again_meanwhile_is_not_taken_for_another() {
        let folder = tempfile::tempdir().unwrap();
        let options = Options { create: true, cache_bytes: 1 << 20, two_phase_commit: false };
        let store = Arc::new(Store::open(&folder.path().join("a.redb"), options).unwrap());
        let identity = ModelIdentity { name: "none".into(), dimension: 2, hash: "00".into() };
        for times in 0..=TRIES {
            let generation =
                Generation { id: GenerationId(1), identity: identity.clone(), state: GenerationState::Serving };
            let spaces = Arc::new(Spaces::new(Arc::clone(&store), generation, Config::default(), mpsc::channel().0));
            let index = Arc::new(Meddling {
                index: ExactIndex::new(2),
                spaces: OnceLock::from(Arc::clone(&spaces)),
                given: AtomicU32::new(0),
                times,
            });
            let mut loaded = Loaded {
                index: Searched::Plain(index),
                metas: Vec::new(),
                sessions: HashMap::new(),
                dimension: 2,
                given_again: 0,
            };
            loaded.apply(&Change::Added(one(0, 0, [1.0, 0.0])));
            let space = Space { state: RwLock::new(State::Loaded(loaded)), loading: Mutex::new(()) };
            spaces.spaces.write().insert(SPACE, Arc::new(space));
            let found = spaces.search(SPACE, &[vec![1.0, 0.0]], 1, &Filter::default(), None, None).unwrap();
            let score = if times == 0 { 1.0 } else { 0.0 };
            assert_eq!(
                found.messages,
                [(u64::from(times), score)],
                "the last that was given the row, by its own vector"
            );
        }
    }
}
