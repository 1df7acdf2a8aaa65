//! Reads a namespace from the store into memory.

use std::{cell::RefCell, sync::Arc};

use mnemon_index::{ExactIndex, HnswIndex, HnswOptions, Loader, Originals, VectorIndex, is_finite};

use super::{
    measured_graph::{MeasuredGraph, OnSample},
    namespace::{NamespaceIndex, Vectors},
    segments::{language, load_lexical},
    unindexed::Unindexed,
};
use crate::{
    config::{Config, IndexKind, Precision, VectorStorage},
    error::{Error, Result},
    ids::NamespaceId,
    store::{Generation, RowMeta, Snapshot, Store},
};

/// A namespace that was read from the store.
pub(crate) struct ReadNamespace {
    pub(crate) index: NamespaceIndex,
    /// The graph in `index`, if it has one.
    pub(crate) graph: Option<ReadGraph>,
    pub(crate) unindexed: Unindexed,
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
    let dimension = generation.identity.dimension;
    let mut metas: Vec<Option<RowMeta>> = Vec::new();
    let mut graph = None;
    let vectors = match config.index {
        IndexKind::Exact => {
            let index = Arc::new(ExactIndex::new(dimension));
            read_plain(&*index, &snapshot, generation, namespace, &mut metas)?;
            Vectors::Plain { index, ef: config.ef_search }
        }
        #[cfg(feature = "hnsw_rs")]
        IndexKind::HnswRs => {
            let index = Arc::new(mnemon_index::HnswRsIndex::new(dimension, 0));
            read_plain(&*index, &snapshot, generation, namespace, &mut metas)?;
            Vectors::Plain { index, ef: config.ef_search }
        }
        IndexKind::Hnsw | IndexKind::Auto => {
            let source = (config.vectors == VectorStorage::Store).then(|| -> Arc<dyn Originals> {
                Arc::new(StoredVectors { store: Arc::clone(store), generation: generation.clone(), namespace })
            });
            let live = snapshot.rows().live_count(generation.id, namespace)?;
            let mut loader = Loader::new(dimension, live, graph_options(config, generation.precision), source);
            read_rows(&snapshot, generation, namespace, &mut metas, |_, vector| {
                loader.row(vector);
                Ok(())
            })?;
            let (index, deltas, is_broken) = read_graph(loader, &snapshot, generation, namespace)?;
            if store.is_read_only() {
                // There is no background work that would do it.
                index.code_neighbors(usize::MAX);
            }
            let measured = MeasuredGraph::new(index, config.ef_search, config.target_recall, Arc::clone(on_sample));
            let measured = Arc::new(measured);
            graph = Some(ReadGraph { graph: Arc::clone(&measured), deltas, is_broken });
            Vectors::Graph(measured)
        }
    };
    let language = language(snapshot.namespaces().language(namespace)?)?;
    let lexical = load_lexical(&snapshot, generation.id, namespace, language, &metas)?;
    let Some(lexical) = lexical else { return Ok(None) };
    let unindexed = Unindexed::new(snapshot.pending().unindexed(generation.id, namespace)?);
    let index = NamespaceIndex::new(vectors, dimension, metas, lexical, language);
    Ok(Some(ReadNamespace { index, graph, unindexed }))
}

pub(super) fn graph_options(config: &Config, precision: Precision) -> HnswOptions {
    let mut options = HnswOptions::default();
    (options.m, options.ef_construction) = (config.m, config.ef_construction);
    options.graph_above = if config.index == IndexKind::Hnsw { 0 } else { config.exact_threshold };
    (options.neighbor_codes, options.half_precision) = (config.neighbor_codes, precision == Precision::F16);
    options
}

fn read_plain(
    index: &dyn VectorIndex,
    snapshot: &Snapshot,
    generation: &Generation,
    namespace: NamespaceId,
    metas: &mut Vec<Option<RowMeta>>,
) -> Result<()> {
    let zeros = vec![0.0; generation.identity.dimension];
    read_rows(snapshot, generation, namespace, metas, |row, vector| {
        index.insert(&[row], vector.unwrap_or(&zeros));
        if vector.is_none() {
            index.remove(&[row]);
        }
        Ok(())
    })
}

/// Visits the vectors of all rows in order, `None` for a removed row, and collects the rows' metadata.
fn read_rows(
    snapshot: &Snapshot,
    generation: &Generation,
    namespace: NamespaceId,
    metas: &mut Vec<Option<RowMeta>>,
    mut visit: impl FnMut(u32, Option<&[f32]>) -> Result<()>,
) -> Result<()> {
    let count = snapshot.rows().count(generation.id, namespace)?;
    let mut vector = Vec::with_capacity(generation.identity.dimension);
    snapshot.vectors().scan(generation, namespace, |row| {
        let number = metas.len() as u32;
        metas.push(row.meta);
        if row.meta.is_none() {
            return visit(number, None);
        }
        vector.clear();
        row.append_to(&mut vector);
        if !is_finite(&vector) {
            return Err(Error::corrupted(format!("the vector of row {number} is not finite")));
        }
        visit(number, Some(&vector))
    })?;
    match metas.len() == count {
        true => Ok(()),
        false => Err(Error::corrupted(format!("{} rows of vectors are stored, but {count} are counted", metas.len()))),
    }
}

/// Reads the links of a graph whose vectors are in the loader. The last value returned is true if they are damaged:
/// then the graph is empty.
fn read_graph(
    mut loader: Loader,
    snapshot: &Snapshot,
    generation: &Generation,
    namespace: NamespaceId,
) -> Result<(HnswIndex, StoredDeltas, bool)> {
    let links = read_links(snapshot, generation, namespace, &mut loader);
    let (deltas, is_broken) = match links {
        Ok(deltas) => (deltas, false),
        Err(error @ Error::Corrupted { .. }) => {
            tracing::error!(%error, "a graph is built again from its vectors; until then, search is exact");
            loader.forget_parts();
            (StoredDeltas::default(), true)
        }
        Err(error) => return Err(error),
    };
    let index = loader.finish(&snapshot.rows().free(generation.id, namespace)?);
    if is_broken {
        // Removed rows are kept as long as a graph is stored, even a damaged one.
        index.set_stored(true);
    }
    Ok((index, deltas, is_broken))
}

/// Reads the stored pages and deltas of a graph into the loader.
pub(super) fn read_links(
    snapshot: &Snapshot,
    generation: &Generation,
    namespace: NamespaceId,
    loader: &mut Loader,
) -> Result<StoredDeltas> {
    let loader = RefCell::new(loader);
    let mut deltas = StoredDeltas::default();
    let page = |page: u32, bytes: &[u8]| Ok(loader.borrow_mut().page(page, bytes)?);
    let delta = |number: u32, bytes: &[u8]| {
        deltas = StoredDeltas { last: Some(number), bytes: deltas.bytes + bytes.len() };
        Ok(loader.borrow_mut().delta(bytes)?)
    };
    snapshot.graphs().read(generation.id, namespace, page, delta)?;
    loader.into_inner().check_parents()?;
    Ok(deltas)
}
