//! Reads a namespace from the store into memory, and checks what is stored of its graph and its lexical index.

use std::{
    cell::RefCell,
    collections::HashMap,
    ops::Range,
    panic::resume_unwind,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use mnemon_index::{ExactIndex, HnswIndex, HnswOptions, Loader, Originals, VectorIndex, is_finite};
use parking_lot::{Mutex, RwLock};

use super::{
    namespace::{LoadedMessages, NamespaceIndex},
    unindexed::Unindexed,
    vectors::{MeasuredGraph, OnSample, Vectors},
};
use crate::{
    config::{Config, IndexKind, Precision, VectorStorage},
    error::{Error, Result},
    ids::NamespaceId,
    lexical::{Analyzer, Document, Language, LexicalIndex, MAX_TERMS, Segment, SpeakerAndQuestion},
    store::{Generation, GenerationState, RowMeta, SegmentInfo, Snapshot, Store},
};

/// A namespace that was read from the store.
pub(crate) struct ReadNamespace {
    pub(crate) messages: LoadedMessages,
    /// The graph of the index, if it has one.
    pub(crate) graph: Option<ReadGraph>,
}

/// A graph that was read from the store.
pub(crate) struct ReadGraph {
    pub(crate) graph: Arc<MeasuredGraph>,
    pub(crate) deltas: StoredDeltas,
    /// The stored graph cannot be read: it is to be deleted, and built again from the vectors.
    pub(crate) is_broken: bool,
}

/// The changes of a graph that are stored beside its pages.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct StoredDeltas {
    /// The number of the last one.
    pub(crate) last: Option<u32>,
    /// The bytes of all.
    pub(crate) bytes: usize,
}

/// The original vectors of a namespace, read from the store when a search needs them.
struct StoredVectors {
    store: Arc<Store>,
    generation: Generation,
    namespace: NamespaceId,
}

impl Originals for StoredVectors {
    fn read(&self, rows: &[u32], visit: &mut dyn FnMut(usize, &[f32])) {
        let mut vector = Vec::with_capacity(self.generation.identity.dimension);
        let read = self.store.read().and_then(|snapshot| {
            snapshot.vectors().get(&self.generation, self.namespace, rows, |at, row| {
                vector.clear();
                row.append_to(&mut vector);
                visit(at, &vector);
            })
        });
        if let Err(error) = read {
            // The hits keep their scores by the 8-bit codes.
            tracing::error!(%error, "stored vectors were not read; verify the database to find the damage");
        }
    }
}

/// The words of a namespace, without its vectors and its rows.
pub(crate) struct StoredWords {
    pub(super) lexical: LexicalIndex,
    pub(super) language: Language,
    pub(super) unindexed: Unindexed,
}

/// Reads the words of a namespace. `None` if that takes its rows, because some were removed, or if its lexical index must be rebuilt.
pub(crate) fn read_words(
    snapshot: &Snapshot,
    generation: &Generation,
    namespace: NamespaceId,
) -> Result<Option<StoredWords>> {
    let rows = snapshot.rows().count(generation.id, namespace)?;
    if snapshot.rows().live_count(generation.id, namespace)? != rows {
        return Ok(None);
    }
    let language = snapshot.namespaces().language(namespace)?.language;
    let stored = StoredNamespace { snapshot, generation, id: namespace };
    let Some(segments) = stored.read_segments(language)? else { return Ok(None) };
    let lexical = lexical_index(segments, rows, |row| (row as usize) < rows);
    let unindexed = Unindexed::new(snapshot.pending().unindexed(generation.id, namespace)?);
    Ok(lexical.map(|lexical| StoredWords { lexical, language, unindexed }))
}

/// Reads a namespace. `None` if its lexical index is missing or damaged, and must be rebuilt first.
///
/// `on_sample` is called when a search of its graph was kept as a sample.
pub(crate) fn load(
    store: &Arc<Store>,
    generation: &Generation,
    namespace: NamespaceId,
    config: &Config,
    on_sample: &OnSample,
) -> Result<Option<ReadNamespace>> {
    let snapshot = store.read()?;
    let stored = StoredNamespace { snapshot: &snapshot, generation, id: namespace };
    let dimension = generation.identity.dimension;
    let language = snapshot.namespaces().language(namespace)?.language;
    let read_segments = || stored.read_segments(language);
    let (mut metas, mut graph) = (Vec::new(), None);
    let (vectors, segments) = match config.index {
        IndexKind::Exact => {
            let index = Arc::new(ExactIndex::new(dimension));
            metas = stored.read_vectors(&*index)?;
            (Vectors::Plain { index, ef: config.ef_search }, read_segments())
        }
        #[cfg(feature = "hnsw_rs")]
        IndexKind::HnswRs => {
            let index = Arc::new(mnemon_index::HnswRsIndex::new(dimension, 0));
            metas = stored.read_vectors(&*index)?;
            (Vectors::Plain { index, ef: config.ef_search }, read_segments())
        }
        IndexKind::Hnsw | IndexKind::Auto => {
            let source = (config.vectors == VectorStorage::Store).then(|| -> Arc<dyn Originals> {
                Arc::new(StoredVectors { store: Arc::clone(store), generation: generation.clone(), namespace })
            });
            let live = snapshot.rows().live_count(generation.id, namespace)?;
            let mut loader = Loader::new(dimension, live, graph_options(config, generation.precision), source);
            let count = snapshot.rows().count(generation.id, namespace)?;
            let parts = in_parallel(count.div_ceil(Loader::PART_ROWS).max(1), config.threads, |at| {
                let (mut part, first) = (loader.part(), at * Loader::PART_ROWS);
                let metas = stored.read_rows(first..count.min(first + Loader::PART_ROWS), |vector| part.row(vector))?;
                Ok((metas, part))
            })?;
            for (of_part, part) in parts {
                metas.extend(of_part);
                loader.append(part);
            }
            let read_graph = || {
                stored.read_graph(loader, |index| {
                    if store.is_read_only() {
                        // There is no background work that would do it.
                        index.code_neighbors(usize::MAX);
                    }
                    MeasuredGraph::new(index, config.ef_search, config.target_recall, Arc::clone(on_sample))
                })
            };
            let (found, segments) = match count > Loader::PART_ROWS {
                true => at_once(read_graph, read_segments),
                false => (read_graph(), read_segments()),
            };
            (Vectors::Graph(Arc::clone(&graph.insert(found?).graph)), segments)
        }
    };
    let is_live = |row: u32| metas.get(row as usize).is_some_and(Option::is_some);
    let lexical = segments?.and_then(|segments| lexical_index(segments, metas.len(), is_live));
    let Some(lexical) = lexical else { return Ok(None) };
    let unindexed = Unindexed::new(snapshot.pending().unindexed(generation.id, namespace)?);
    let index = NamespaceIndex::new(vectors, dimension, metas, lexical, language);
    Ok(Some(ReadNamespace { messages: LoadedMessages { index: RwLock::new(index), unindexed }, graph }))
}

/// A namespace in the store, as a generation has it.
struct StoredNamespace<'a> {
    snapshot: &'a Snapshot,
    generation: &'a Generation,
    id: NamespaceId,
}

impl StoredNamespace<'_> {
    /// Appends all rows to an index that is only in memory. Returns the rows' metadata.
    fn read_vectors(&self, index: &dyn VectorIndex) -> Result<Vec<Option<RowMeta>>> {
        let zeros = vec![0.0; self.generation.identity.dimension];
        let count = self.snapshot.rows().count(self.generation.id, self.id)?;
        self.read_rows(0..count, |vector| {
            let row = index.rows() as u32;
            index.insert(&[row], vector.unwrap_or(&zeros));
            if vector.is_none() {
                index.remove(&[row]);
            }
        })
    }

    /// Visits the vectors of some rows in order, `None` for a removed row. Returns the rows' metadata.
    fn read_rows(&self, rows: Range<usize>, mut visit: impl FnMut(Option<&[f32]>)) -> Result<Vec<Option<RowMeta>>> {
        let StoredNamespace { snapshot, generation, id } = *self;
        let count = snapshot.rows().count(generation.id, id)?;
        // More rows than are counted are noticed.
        let end = if rows.end == count { u32::MAX } else { rows.end as u32 };
        // In a damaged database the count may be any number.
        let mut metas = Vec::with_capacity(rows.len().min(Loader::PART_ROWS));
        let mut vector = Vec::with_capacity(generation.identity.dimension);
        snapshot.vectors().scan(generation, id, rows.start as u32..end, |row| {
            metas.push(row.meta);
            if row.meta.is_none() {
                visit(None);
                return Ok(());
            }
            vector.clear();
            row.append_to(&mut vector);
            if !is_finite(&vector) {
                let number = rows.start + metas.len() - 1;
                return Err(Error::corrupted(format!("the vector of row {number} is not finite")));
            }
            visit(Some(&vector));
            Ok(())
        })?;
        match metas.len() == rows.len() {
            true => Ok(metas),
            false => {
                let found = rows.start + metas.len();
                Err(Error::corrupted(format!("{found} rows of vectors are stored, but {count} are counted")))
            }
        }
    }

    /// Reads the links of a graph whose vectors are in the loader. If they are damaged, the graph is empty.
    fn read_graph(&self, mut loader: Loader, measured: impl FnOnce(HnswIndex) -> MeasuredGraph) -> Result<ReadGraph> {
        let (deltas, is_broken) = match self.read_links(&mut loader) {
            Ok(deltas) => (deltas, false),
            Err(error @ Error::Corrupted { .. }) => {
                tracing::error!(%error, "a graph is built again from its vectors; until then, search is exact");
                loader.forget_parts();
                (StoredDeltas::default(), true)
            }
            Err(error) => return Err(error),
        };
        let index = loader.finish(&self.snapshot.rows().free(self.generation.id, self.id)?);
        if is_broken {
            // Removed rows are kept as long as a graph is stored, even a damaged one.
            index.set_stored(true);
        }
        Ok(ReadGraph { graph: Arc::new(measured(index)), deltas, is_broken })
    }

    fn read_links(&self, loader: &mut Loader) -> Result<StoredDeltas> {
        let loader = RefCell::new(loader);
        let mut deltas = StoredDeltas::default();
        let page = |page: u32, bytes: &[u8]| Ok(loader.borrow_mut().page(page, bytes)?);
        let delta = |number: u32, bytes: &[u8]| {
            deltas = StoredDeltas { last: Some(number), bytes: deltas.bytes + bytes.len() };
            Ok(loader.borrow_mut().delta(bytes)?)
        };
        self.snapshot.graphs().read(self.generation.id, self.id, page, delta)?;
        loader.into_inner().check_parents()?;
        Ok(deltas)
    }

    /// Reads the segments of the lexical index. `None` if one is damaged, or was analyzed by another language or an earlier
    /// release.
    fn read_segments(&self, language: Language) -> Result<Option<Vec<(u32, Segment)>>> {
        let StoredNamespace { snapshot, generation, id } = *self;
        let mut segments = Vec::new();
        for info in snapshot.segments().list(generation.id, id)? {
            let bytes = snapshot.segments().read(generation.id, id, info.number);
            if bytes.as_ref().is_ok_and(|bytes| Segment::is_outdated(bytes)) {
                return Ok(None);
            }
            match bytes.and_then(|bytes| read_segment(bytes, info)) {
                Ok(segment) if segment.is_of(language) => segments.push((info.number, segment)),
                Ok(_) => return Ok(None),
                Err(error @ Error::Corrupted { .. }) => {
                    tracing::error!(%error, "a damaged lexical index is rebuilt from the messages");
                    return Ok(None);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(Some(segments))
    }
}

/// Joins the segments of a namespace. `None` if a live row is in none of them.
fn lexical_index(segments: Vec<(u32, Segment)>, rows: usize, is_live: impl Fn(u32) -> bool) -> Option<LexicalIndex> {
    let mut index = LexicalIndex::default();
    for (number, segment) in segments {
        index.set(number, Some(Arc::new(segment)), &is_live);
    }
    let is_complete = (0..rows as u32).all(|row| !is_live(row) || index.covers(row));
    is_complete.then_some(index)
}

/// Does numbered jobs, on this thread and on others if there are several. Returns the results in order; after an error no
/// more jobs are begun. (In a pool of rayon this thread would do other recalls while it waits, and these may wait for the
/// namespace that it loads.)
fn in_parallel<T: Send>(jobs: usize, threads: usize, job: impl Fn(usize) -> Result<T> + Sync) -> Result<Vec<T>> {
    let (next, done) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let work = || {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            if at >= jobs {
                break;
            }
            let result = job(at);
            if result.is_err() {
                next.store(jobs, Ordering::Relaxed);
            }
            done.lock().push((at, result));
        }
    };
    thread::scope(|scope| {
        let spawn = |_| thread::Builder::new().name("mnemon-load".into()).spawn_scoped(scope, work);
        // Where the system refuses threads, this one does all jobs.
        let others: Vec<_> = (1..threads.min(jobs)).map_while(|at| spawn(at).ok()).collect();
        work();
        others.into_iter().for_each(|other| other.join().unwrap_or_else(|panic| resume_unwind(panic)));
    });
    let mut done = done.into_inner();
    done.sort_unstable_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, result)| result).collect()
}

/// Does two things at once, the second on another thread if the system gives one.
fn at_once<A, B: Send>(first: impl FnOnce() -> A, second: impl Fn() -> B + Sync) -> (A, B) {
    thread::scope(|scope| {
        let other = thread::Builder::new().name("mnemon-load".into()).spawn_scoped(scope, &second);
        let first = first();
        let second = other.map_or_else(|_| second(), |other| other.join().unwrap_or_else(|panic| resume_unwind(panic)));
        (first, second)
    })
}

fn graph_options(config: &Config, precision: Precision) -> HnswOptions {
    let mut options = HnswOptions::default();
    (options.m, options.ef_construction) = (config.m, config.ef_construction);
    options.graph_above = if config.index == IndexKind::Hnsw { 0 } else { config.exact_threshold };
    (options.neighbor_codes, options.half_precision) = (config.neighbor_codes, precision == Precision::F16);
    options
}

/// Parses a stored segment.
///
/// # Errors
/// [`Error::Corrupted`] if its bytes are damaged, or it does not have as many rows as its record states.
pub(crate) fn read_segment(bytes: Vec<u8>, SegmentInfo { number, rows }: SegmentInfo) -> Result<Segment> {
    let damaged =
        |reason: &str| Error::corrupted(format!("segment {number} of a lexical index: {reason}; loading repairs it"));
    let segment = Segment::read(bytes).map_err(damaged)?;
    match segment.rows().len() {
        found if found == rows as usize => Ok(segment),
        found => Err(damaged(&format!("it has {found} rows, not {rows}"))),
    }
}

/// Checks the graphs of all generations that are not being deleted. Returns a line for each problem.
pub(crate) fn check_graphs(store: &Store) -> Result<Vec<String>> {
    let snapshot = store.read()?;
    let mut problems = Vec::new();
    for generation in &checked(&snapshot)? {
        for namespace in snapshot.graphs().namespaces(generation.id)? {
            // Only links are checked, for which rows without vectors suffice.
            let rows = snapshot.rows().count(generation.id, namespace)?;
            let mut loader = Loader::new(1, rows, graph_options(&Config::default(), Precision::F32), None);
            (0..rows).for_each(|_| loader.row(None));
            let mut report = |problem: String| problems.push(located(generation, namespace, &problem));
            let stored = StoredNamespace { snapshot: &snapshot, generation, id: namespace };
            match stored.read_links(&mut loader) {
                Ok(_) => {
                    let free = snapshot.rows().free(generation.id, namespace)?;
                    loader.finish(&free).check_with(&free).into_iter().for_each(report);
                }
                // The store's own check reports wrong checksums.
                Err(error @ Error::Corrupted { .. }) => report(format!("its graph: {error}")),
                Err(error) => return Err(error),
            }
        }
    }
    Ok(problems)
}

/// Checks the lexical indexes of all generations that are not being deleted. Returns a line for each problem.
pub(crate) fn check_lexical(store: &Store) -> Result<Vec<String>> {
    let snapshot = store.read()?;
    let mut problems = Vec::new();
    for generation in &checked(&snapshot)? {
        for namespace in snapshot.rows().namespaces(generation.id)? {
            check_segments(&snapshot, generation, namespace, &mut problems)?;
        }
    }
    Ok(problems)
}

fn checked(snapshot: &Snapshot) -> Result<Vec<Generation>> {
    let mut generations = snapshot.generations().all()?;
    generations.retain(|generation| generation.state != GenerationState::Retired);
    Ok(generations)
}

fn located(generation: &Generation, namespace: NamespaceId, problem: &str) -> String {
    format!("generation {}, namespace {}: {problem}", generation.id.0, namespace.0)
}

fn check_segments(
    snapshot: &Snapshot,
    generation: &Generation,
    namespace: NamespaceId,
    problems: &mut Vec<String>,
) -> Result<()> {
    let mut report = |problem: String| problems.push(located(generation, namespace, &problem));
    let stray = snapshot.segments().stray_parts(generation.id, namespace)?;
    if stray > 0 {
        report(format!("{stray} parts of its lexical index belong to no segment"));
    }
    let segments = snapshot.segments().list(generation.id, namespace)?;
    if segments.is_empty() {
        // The namespace was written by an older release: its lexical index is built when it is first loaded.
        return Ok(());
    }
    let language = match snapshot.namespaces().language(namespace) {
        Err(error @ Error::Corrupted { .. }) => {
            report(error.to_string());
            return Ok(());
        }
        language => language?.language,
    };
    // The document of each row is that of its newest segment.
    let mut documents: HashMap<u32, Document> = HashMap::new();
    for info in segments {
        let bytes = snapshot.segments().read(generation.id, namespace, info.number);
        if bytes.as_ref().is_ok_and(|bytes| Segment::is_outdated(bytes)) {
            return Ok(());
        }
        match bytes.and_then(|bytes| read_segment(bytes, info)) {
            Err(error @ Error::Corrupted { .. }) => report(error.to_string()),
            Err(error) => return Err(error),
            Ok(segment) if !segment.is_of(language) => return Ok(()),
            Ok(segment) => {
                documents.extend(segment.documents().into_iter().map(|document| (document.row, document)));
            }
        }
    }
    // One line for all rows: a damaged segment affects many.
    let (mut missing, mut different) = (Vec::new(), Vec::new());
    let analyzer = Analyzer::of(language);
    snapshot.rows().texts(generation.id, namespace, |first, count, text| {
        for row in first..first.saturating_add(count) {
            let Some(document) = documents.get(&row) else {
                missing.push(row);
                break;
            };
            let passage = document.passage.as_ref().map_or(0..text.len(), |at| at.start as usize..at.end as usize);
            let mut terms = Vec::new();
            analyzer.terms(text.get(passage).unwrap_or(""), &mut terms);
            terms.truncate(MAX_TERMS);
            terms.sort_unstable();
            let is_same =
                document.terms == terms && document.speech == SpeakerAndQuestion::of(analyzer, text.name(), text);
            if !is_same || document.passage.is_some() != (count > 1) {
                different.push(row);
            }
        }
        Ok(())
    })?;
    if let Some(row) = missing.first() {
        report(format!("row {row} is in no segment of its lexical index; {} messages in all", missing.len()));
    }
    if let Some(row) = different.first() {
        let rows = different.len();
        report(format!("row {row} has other terms in its lexical index than in its text; {rows} rows in all"));
    }
    Ok(())
}
