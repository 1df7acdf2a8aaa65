//! The namespaces that are in memory: an index each, and what its rows stand for.
//!
//! A namespace is loaded when it is first asked; what is committed later is published to it. What is committed while it
//! loads is queued, and applied when it is there: so the writer never waits for a load. The loaded snapshot may have had
//! some of it already: see [`Loaded::apply`]. A row may be given to another message while a search runs without the
//! lock: then it searches again.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Arc, OnceLock, Weak, mpsc},
};

use parking_lot::{Mutex, RwLock};

use super::{
    IndexStats,
    graph::{Committed, Planners, StoredGraph, Workers},
    lexical::{self, Added, SegmentChange},
    load,
    search::{Sample, order},
    writer::Writer,
};
use crate::{
    config::Config,
    embed::Embedder,
    error::{Error, Result},
    ids::{GenerationId, NamespaceId},
    index::{Bitmap, Neighbor, VectorIndex, dot},
    lexical::{Language, LexicalIndex, Scores},
    recall::Filter,
    store::{Generation, Removed, RowMeta, Store, Transaction},
};

/// A generation in memory: its embedder, and its loaded namespaces.
pub(super) struct Spaces {
    pub(super) generation: Generation,
    pub(super) embedder: Arc<dyn Embedder>,
    pub(super) config: Config,
    store: Arc<Store>,
    /// Weak: what is queued there may hold this.
    writer: Weak<Writer>,
    spaces: RwLock<HashMap<NamespaceId, Arc<Space>>>,
    improve: mpsc::Sender<Improve>,
    /// Held while a batch is embedded and handed to the writer; and by who changes the language that batches are analysed by.
    pub(super) batching: Mutex<()>,
    /// Room for the scores of a question's terms.
    pub(super) scratch: Mutex<Vec<Scores>>,
}

/// A namespace of a generation whose index may have work to do in the background; `None` ends the thread that does it.
pub(super) type Improve = Option<(GenerationId, NamespaceId)>;

#[derive(Default)]
pub(super) struct Space {
    pub(super) state: RwLock<State>,
    /// Held by the one that loads.
    loading: Mutex<()>,
}

#[derive(Default)]
pub(super) enum State {
    #[default]
    Unloaded,
    /// With what was committed meanwhile.
    Loading(Vec<Change>),
    Loaded(Box<Loaded>),
}

pub(super) struct Loaded {
    pub(super) index: Searched,
    /// By row; `None` is dead.
    pub(super) metas: Vec<Option<RowMeta>>,
    /// The rows of each session, by message and window.
    pub(super) sessions: HashMap<u32, Vec<u32>>,
    pub(super) lexical: LexicalIndex,
    pub(super) language: Language,
    pub(super) dimension: usize,
    /// Counts the rows that were given to another message.
    pub(super) given_again: u64,
    /// Of what there is now: made when it is first asked for.
    pub(super) sample: OnceLock<Sample>,
}

/// An index, and whether its graph is in the store.
#[derive(Clone)]
pub(super) enum Searched {
    Plain(Arc<dyn VectorIndex>),
    Graph(Arc<StoredGraph>),
}

impl Searched {
    pub(super) fn index(&self) -> &dyn VectorIndex {
        match self {
            Searched::Plain(index) => &**index,
            Searched::Graph(graph) => &*graph.index,
        }
    }

    /// The nearest rows by scoring every row.
    pub(super) fn search_exactly(&self, query: &[f32], k: usize) -> Vec<Neighbor> {
        match self {
            Searched::Graph(graph) => graph.index.search_exactly(query, k),
            Searched::Plain(index) => {
                let rows: Vec<u32> = (0..index.rows() as u32).collect();
                let mut scored = Vec::with_capacity(rows.len());
                index.vectors(&rows, &mut |at, row| scored.push(Neighbor { row: rows[at], score: dot(query, row) }));
                scored.sort_unstable_by(Neighbor::order);
                scored.truncate(k);
                scored
            }
        }
    }
}

/// What a commit did to the rows of one namespace.
pub(super) enum Change {
    Added(Added),
    Removed(Removed),
    /// Segments were written again.
    Segments(NamespaceId, Option<Language>, Vec<SegmentChange>),
}

impl Change {
    fn namespace(&self) -> NamespaceId {
        match self {
            Change::Added(added) => added.rows.namespace,
            Change::Removed(removed) => removed.namespace,
            Change::Segments(namespace, ..) => *namespace,
        }
    }
}

impl Space {
    /// Returns whether it is loaded.
    pub(super) fn publish(&self, change: Change) -> bool {
        match &mut *self.state.write() {
            State::Unloaded => false,
            State::Loading(queue) => {
                queue.push(change);
                false
            }
            State::Loaded(loaded) => {
                loaded.apply(&change);
                true
            }
        }
    }
}

impl State {
    pub(super) fn loaded(&self) -> Option<&Loaded> {
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
        self.sample.take();
        match change {
            Change::Added(Added { rows: new, segments }) => {
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
                    let session = self.sessions.entry(meta.session).or_default();
                    // Nearly always the last.
                    let place =
                        match session.last().is_none_or(|&last| order(&self.metas, last) < (meta.seq, meta.window)) {
                            true => session.len(),
                            false => session.partition_point(|&row| order(&self.metas, row) < (meta.seq, meta.window)),
                        };
                    session.insert(place, row);
                    fresh.push(at);
                }
                self.set_segments(segments);
                if fresh.len() == new.rows.len() {
                    self.index.index().insert(&new.rows, &new.vectors);
                } else {
                    let rows: Vec<u32> = fresh.iter().map(|&at| new.rows[at]).collect();
                    let vectors = fresh.iter().map(|at| &new.vectors[at * self.dimension..][..self.dimension]);
                    self.index.index().insert(&rows, &vectors.collect::<Vec<_>>().concat());
                }
            }
            Change::Segments(_, language, segments) => {
                self.language = language.unwrap_or(self.language);
                self.set_segments(segments);
            }
            Change::Removed(removed) => {
                self.index.index().remove(&removed.rows);
                self.lexical.remove(&removed.rows);
                let taken = removed.rows.iter().filter_map(|&row| self.metas.get_mut(row as usize)?.take());
                let sessions: BTreeSet<u32> = taken.map(|meta| meta.session).collect();
                for session in sessions {
                    let is_left = |row: &u32| self.metas[*row as usize].is_some();
                    self.sessions.entry(session).or_default().retain(is_left);
                }
            }
        }
    }

    fn set_segments(&mut self, segments: &[SegmentChange]) {
        for (number, segment) in segments {
            let is_alive = |row: u32| self.metas.get(row as usize).is_some_and(Option::is_some);
            self.lexical.set(*number, segment.clone(), is_alive);
        }
    }

    /// The rows that a filter allows, `None` for all.
    pub(super) fn allowed(&self, filter: &Filter, session: Option<u32>) -> Option<Bitmap> {
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

impl Spaces {
    pub(super) fn new(
        store: Arc<Store>,
        writer: Weak<Writer>,
        generation: Generation,
        embedder: Arc<dyn Embedder>,
        config: Config,
        improve: mpsc::Sender<Improve>,
    ) -> Self {
        let (spaces, batching, scratch) = (RwLock::default(), Mutex::default(), Mutex::default());
        Spaces { generation, embedder, config, store, writer, spaces, improve, batching, scratch }
    }

    /// The namespaces that are loaded.
    pub(super) fn namespaces(&self) -> Vec<NamespaceId> {
        let spaces: Vec<_> =
            self.spaces.read().iter().map(|(&namespace, space)| (namespace, Arc::clone(space))).collect();
        let is_loaded = |(namespace, space): (_, Arc<Space>)| space.state.read().loaded().map(|_| namespace);
        spaces.into_iter().filter_map(is_loaded).collect()
    }

    /// The namespace's state in memory, if it is there or is being loaded.
    pub(super) fn known(&self, namespace: NamespaceId) -> Option<Arc<Space>> {
        self.spaces.read().get(&namespace).cloned()
    }

    /// The namespace's state, loaded.
    pub(super) fn loaded<T>(&self, namespace: NamespaceId, read: impl FnOnce(&Space) -> T) -> Result<T> {
        Ok(read(&*self.load(namespace)?))
    }

    /// Links rows in the transaction that stores them, where that is quick. What comes back is to be made once the
    /// transaction is committed and the rows are published.
    pub(super) fn link(
        &self,
        transaction: &mut Transaction,
        added: &[Added],
        planners: &Planners,
    ) -> Result<Vec<Committed>> {
        let mut linked = Vec::new();
        for Added { rows: new, .. } in added {
            let space = self.known(new.namespace);
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
        let space = self.known(namespace);
        if space.is_some_and(|space| space.publish(change)) {
            self.improve_later(namespace);
        }
    }

    /// Does a step of the background work of a namespace's index; all kinds of it, if it is to be thorough. Returns
    /// whether there is more.
    pub(super) fn improve(&self, namespace: NamespaceId, workers: &Workers, is_thorough: bool) -> Result<bool> {
        let Some(space) = self.known(namespace) else { return Ok(false) };
        // A lock in the condition would be held while the writer, which publishes, is waited for.
        let sparse = space.state.read().loaded().and_then(|loaded| loaded.lexical.sparse());
        if let Some((number, segment)) = sparse {
            return self.rewrite(namespace, Arc::clone(&space), number, segment, workers);
        }
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

    /// Rows in the graph of a namespace, if it is loaded and has one.
    pub(super) fn linked(&self, namespace: NamespaceId) -> usize {
        let graph = self.known(namespace).and_then(|space| space.state.read().loaded()?.graph());
        graph.map_or(0, |graph| graph.index.counts().1)
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

    pub(super) fn load(&self, namespace: NamespaceId) -> Result<Arc<Space>> {
        let space =
            self.known(namespace).unwrap_or_else(|| Arc::clone(self.spaces.write().entry(namespace).or_default()));
        if space.state.read().loaded().is_some() {
            return Ok(space);
        }
        {
            let _one_at_a_time = space.loading.lock();
            if space.state.read().loaded().is_none() {
                // Before the snapshot is taken: what is committed after it is queued.
                *space.state.write() = State::Loading(Vec::new());
                let read = self.read(namespace, &space);
                let mut state = space.state.write();
                let queue = std::mem::take(&mut *state);
                let mut loaded = read?;
                if let State::Loading(queue) = queue {
                    queue.iter().for_each(|change| loaded.apply(change));
                }
                *state = State::Loaded(Box::new(loaded));
                self.improve_later(namespace);
            }
        }
        Ok(space)
    }

    /// Reads a namespace that is being loaded; first makes its lexical index, if that is not there or damaged.
    fn read(&self, namespace: NamespaceId, space: &Arc<Space>) -> Result<Loaded> {
        let read = || load::load(&self.store, &self.generation, namespace, &self.config);
        if let Some(loaded) = read()? {
            return Ok(loaded);
        }
        let (generation, embedder, space) = (self.generation.id, Arc::clone(&self.embedder), Arc::clone(space));
        // By the writer, which tells it in its place among other commits: what they did to segments is undone by it.
        self.writer.upgrade().ok_or(Error::Closed)?.commit(
            move |transaction| lexical::rebuild(transaction, generation, namespace, &*embedder),
            move |changes| {
                space.publish(Change::Segments(namespace, None, changes));
            },
        )?;
        read()?.ok_or_else(|| Error::corrupted("a lexical index that was just made is not whole: run mnemon verify"))
    }

    pub(super) fn improve_later(&self, namespace: NamespaceId) {
        // No receiver: the engine is closing, and the index with it.
        let _ = self.improve.send(Some((self.generation.id, namespace)));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use std::{
        collections::BTreeMap,
        sync::atomic::{AtomicU32, Ordering},
    };

    use super::*;
    use crate::engine::search::{Asked, TRIES};
    use crate::{
        config::Precision,
        embed::{Model, OnnxEmbedder},
        ids::ModelIdentity,
        index::{ExactIndex, Found, Search},
        lexical::{Document, Segment},
        message::{Role, Timestamp},
        recall::Query,
        store::{GenerationState, NewRows, Options},
    };

    /// What is stored: of each row its message, its vector and its term, unless it is dead; and the segments.
    #[derive(Clone, Default)]
    struct Stored {
        rows: Vec<Option<(RowMeta, [f32; 2], u64)>>,
        segments: BTreeMap<u32, Arc<Segment>>,
    }

    const SPACE: NamespaceId = NamespaceId(0);
    const GENERATION: GenerationId = GenerationId(1);

    /// What a commit does.
    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Does {
        Gives,
        Takes,
        /// All segments anew.
        Rebuilds,
    }

    fn document(row: u32, term: u64) -> Document {
        Document { row, passage: None, terms: vec![term] }
    }

    /// A commit that gives rows to messages, those that are dead first, or takes some away, or makes all segments anew.
    fn commit(stored: &mut Stored, seq: u64, does: Does, choice: usize) -> Change {
        let rows = &mut stored.rows;
        if does == Does::Rebuilds {
            let living = (0..).zip(rows.iter()).filter_map(|(row, found)| Some(document(row, (*found)?.2)));
            let segment = Arc::new(Segment::build(Language::English, living.collect()));
            let number = stored.segments.last_key_value().map_or(0, |(number, _)| number + 1);
            let mut changes: Vec<SegmentChange> = stored.segments.keys().map(|&number| (number, None)).collect();
            changes.push((number, Some(Arc::clone(&segment))));
            stored.segments = BTreeMap::from([(number, segment)]);
            return Change::Segments(SPACE, None, changes);
        }
        if does == Does::Takes {
            let living = (0..rows.len() as u32).filter(|&row| rows[row as usize].is_some());
            // The first, every other, every third ...
            let removed: Vec<u32> = living.step_by(1 + choice % 4).take(1 + choice).collect();
            removed.iter().for_each(|&row| rows[row as usize] = None);
            return Change::Removed(Removed { generation: GENERATION, namespace: SPACE, rows: removed });
        }
        let mut new = NewRows { namespace: SPACE, rows: Vec::new(), metas: Vec::new(), vectors: Vec::new() };
        for window in 0..1 + choice as u16 {
            // A message is given again as often as another: only the vector and the term tell the two.
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
        Change::Added(Added { rows: new, segments })
    }

    fn loaded(index: Arc<dyn VectorIndex>, metas: Vec<Option<RowMeta>>) -> Loaded {
        Loaded {
            index: Searched::Plain(index),
            metas,
            sessions: HashMap::new(),
            lexical: LexicalIndex::default(),
            language: Language::English,
            dimension: 2,
            given_again: 0,
            sample: OnceLock::new(),
        }
    }

    fn load(stored: &Stored) -> Loaded {
        let index = Arc::new(ExactIndex::new(2));
        for (row, found) in stored.rows.iter().enumerate() {
            index.insert(&[row as u32], &found.map_or([0.0; 2], |(_, vector, _)| vector));
            if found.is_none() {
                index.remove(&[row as u32]);
            }
        }
        let metas = stored.rows.iter().map(|row| row.map(|(meta, ..)| meta)).collect();
        let mut loaded = loaded(index, metas);
        let segments = stored.segments.iter().map(|(&number, segment)| (number, Some(Arc::clone(segment))));
        loaded.set_segments(&segments.collect::<Vec<_>>());
        loaded
    }

    fn assert_is(loaded: &Loaded, stored: &Stored) {
        let rows = &stored.rows;
        assert_eq!(loaded.metas, load(stored).metas);
        assert_eq!(loaded.index.index().rows(), rows.len());
        for (axis, query) in [[1.0, 0.0], [0.0, 1.0]].iter().enumerate() {
            let mut found = loaded.index.index().search(query, &Search::new(1000)).neighbors;
            found.sort_unstable_by_key(|neighbor| neighbor.row);
            let scores: Vec<(u32, f32)> = found.iter().map(|neighbor| (neighbor.row, neighbor.score)).collect();
            let living = (0..).zip(rows).filter_map(|(row, found)| found.map(|(_, vector, _)| (row, vector[axis])));
            assert_eq!(scores, living.collect::<Vec<_>>());
        }
        let terms: BTreeSet<u64> = rows.iter().flatten().map(|(.., term)| *term).collect();
        for term in terms {
            let mut scores = Scores::default();
            loaded.lexical.score(&[term], &mut scores);
            let found: BTreeSet<u32> = scores.touched().iter().copied().collect();
            let said = (0..).zip(rows).filter(|(_, row)| row.is_some_and(|(.., said)| said == term));
            assert_eq!(found, said.map(|(row, _)| row).collect(), "term {term}");
        }
        assert_eq!(loaded.lexical.rows(), rows.iter().flatten().count());
    }

    fn does() -> impl Strategy<Value = Does> {
        prop_oneof![4 => Just(Does::Gives), 4 => Just(Does::Takes), 1 => Just(Does::Rebuilds)]
    }

    proptest! {
        /// A namespace that is read after some commit, and told of all from an earlier one on, ends as the last has it.
        #[test]
        fn what_a_snapshot_had_already_does_no_harm(
            commits in prop::collection::vec((does(), 0..4_usize), 1..40),
            read in any::<prop::sample::Index>(),
            queued in any::<prop::sample::Index>(),
        ) {
            let mut stored = Stored::default();
            let mut states = vec![stored.clone()];
            let mut changes = Vec::new();
            for (seq, (does, choice)) in commits.into_iter().enumerate() {
                changes.push(commit(&mut stored, seq as u64, does, choice));
                states.push(stored.clone());
            }
            let read = read.index(states.len());
            let queued = queued.index(read + 1);
            let mut loaded = load(&states[read]);
            changes[queued..].iter().for_each(|change| loaded.apply(change));
            assert_is(&loaded, &stored);
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
                spaces.publish(Change::Removed(Removed { generation: GENERATION, namespace: SPACE, rows: vec![0] }));
                spaces.publish(Change::Added(one(0, u64::from(given), [0.0, 1.0])));
            }
            found
        }

        fn vectors(&self, rows: &[u32], visit: &mut dyn FnMut(usize, &[f32])) {
            self.index.vectors(rows, visit);
        }

        fn rows(&self) -> usize {
            self.index.rows()
        }
    }

    fn one(row: u32, seq: u64, vector: [f32; 2]) -> Added {
        let meta = RowMeta { seq, created_at: None, session: 0, window: 0, role: Role::User };
        let rows = NewRows { namespace: SPACE, rows: vec![row], metas: vec![meta], vectors: vector.to_vec() };
        let document = Document { row, passage: None, terms: Vec::new() };
        let segment = Arc::new(Segment::build(Language::English, vec![document]));
        Added { rows, segments: vec![(seq as u32, Some(segment))] }
    }

    #[test]
    fn a_row_that_is_given_again_meanwhile_is_not_taken_for_another() {
        let folder = tempfile::tempdir().unwrap();
        let options = Options { create: true, cache_bytes: 1 << 20, two_phase_commit: false };
        let store = Arc::new(Store::open(&folder.path().join("a.redb"), options).unwrap());
        let identity = ModelIdentity { name: "none".into(), dimension: 2, hash: "00".into() };
        let embedder: Arc<dyn Embedder> = Arc::new(OnnxEmbedder::new(Model::find(Model::DEFAULT).unwrap()).unwrap());
        for times in 0..=TRIES {
            let generation = Generation {
                id: GENERATION,
                identity: identity.clone(),
                precision: Precision::F32,
                state: GenerationState::Serving,
            };
            let (store, embedder) = (Arc::clone(&store), Arc::clone(&embedder));
            let spaces =
                Arc::new(Spaces::new(store, Weak::new(), generation, embedder, Config::default(), mpsc::channel().0));
            let index = Arc::new(Meddling {
                index: ExactIndex::new(2),
                spaces: OnceLock::from(Arc::clone(&spaces)),
                given: AtomicU32::new(0),
                times,
            });
            let mut loaded = loaded(index, Vec::new());
            loaded.apply(&Change::Added(one(0, 0, [1.0, 0.0])));
            let space = Space { state: RwLock::new(State::Loaded(Box::new(loaded))), loading: Mutex::new(()) };
            spaces.spaces.write().insert(SPACE, Arc::new(space));
            let query = Query::new("x").strategy(crate::recall::Strategy::Dense);
            let asked = Asked {
                text: "x",
                vectors: &[vec![1.0, 0.0]],
                filter: &query.filter,
                session: None,
                except: &std::collections::HashSet::new(),
                ranking: &query.ranking,
                spans: &[],
                now: Timestamp::now(),
                deadline: None,
                exactly: false,
            };
            let found = spaces.search(SPACE, &asked, 1, 0).unwrap();
            let found: Vec<(u64, f32)> = found.ranked.iter().map(|ranked| (ranked.seq, ranked.score)).collect();
            let score = if times == 0 { 1.0 } else { 0.0 };
            assert_eq!(found, [(u64::from(times), score)], "the last that was given the row, by its own vector");
        }
    }
}
