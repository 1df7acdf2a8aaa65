//! Reading a namespace into memory.

use std::{
    collections::HashMap,
    sync::{Arc, OnceLock},
};

use super::{
    graph::StoredGraph,
    lexical,
    sampling::Sampling,
    search::order,
    spaces::{Loaded, Searched},
};
use crate::{
    config::{Config, IndexKind, VectorsIn},
    error::{Error, Result},
    ids::NamespaceId,
    index::{ExactIndex, HnswOptions, HnswRsIndex, Loader, Originals, VectorIndex, is_finite},
    store::{Generation, GenerationState, RowMeta, Snapshot, Store},
};

/// The vectors of a namespace, in the store.
struct StoredVectors {
    store: Arc<Store>,
    generation: Generation,
    namespace: NamespaceId,
}

impl Originals for StoredVectors {
    fn read(&self, rows: &[u32], visit: &mut dyn FnMut(usize, &[f32])) {
        let mut vector = Vec::with_capacity(self.generation.identity.dimension);
        let read = self.store.read().and_then(|snapshot| {
            snapshot.vectors(&self.generation, self.namespace, rows, |at, row| {
                vector.clear();
                row.append_to(&mut vector);
                visit(at, &vector);
            })
        });
        if let Err(error) = read {
            // The 8-bit scores stand.
            tracing::error!(%error, "vectors were not read; verify says which");
        }
    }
}

/// `None` if the lexical index is to be made anew first.
pub(super) fn load(
    store: &Arc<Store>,
    generation: &Generation,
    namespace: NamespaceId,
    config: &Config,
) -> Result<Option<Loaded>> {
    let snapshot = store.read()?;
    let dimension = generation.identity.dimension;
    let mut metas: Vec<Option<RowMeta>> = Vec::new();
    let index = match config.index {
        IndexKind::Exact => plain(Box::new(ExactIndex::new(dimension)), &snapshot, generation, namespace, &mut metas)?,
        IndexKind::HnswRs => {
            plain(Box::new(HnswRsIndex::new(dimension, 0)), &snapshot, generation, namespace, &mut metas)?
        }
        IndexKind::Hnsw | IndexKind::Auto => {
            let options = options(config);
            let source = (config.vectors == VectorsIn::Store).then(|| -> Arc<dyn Originals> {
                Arc::new(StoredVectors { store: Arc::clone(store), generation: generation.clone(), namespace })
            });
            let alive = snapshot.alive_count(generation.id, namespace)?;
            let mut loader = Loader::new(dimension, alive, options, source);
            rows(&snapshot, generation, namespace, &mut metas, |_, vector| {
                loader.row(vector);
                Ok(())
            })?;
            let mut changes = (None, 0);
            let parts = read_parts(&snapshot, generation, namespace, &mut loader, &mut changes);
            let is_broken = match parts {
                Ok(()) => false,
                Err(error @ Error::Corrupted { .. }) => {
                    tracing::error!(%error, "a graph is built again from its vectors; until then, search is exact");
                    loader.forget_parts();
                    true
                }
                Err(error) => return Err(error),
            };
            let index = loader.finish(&snapshot.free_rows(generation.id, namespace)?);
            if is_broken {
                // Removed rows are kept as long as there is a graph in the store, whatever is in it.
                index.set_stored(true);
                changes = (None, 0);
            }
            let sampling = Sampling::new(config.ef_search, config.target_recall);
            let graph = StoredGraph::new(index, generation.id, namespace, changes, is_broken, sampling);
            Searched::Graph(Arc::new(graph))
        }
    };
    let Some(lexical) = lexical::load(&snapshot, generation.id, namespace, &metas)? else { return Ok(None) };
    let language = lexical::language(snapshot.language(namespace)?)?;
    let mut sessions: HashMap<u32, Vec<u32>> = HashMap::new();
    for (row, meta) in (0..).zip(&metas) {
        if let Some(meta) = meta {
            sessions.entry(meta.session).or_default().push(row);
        }
    }
    sessions.values_mut().for_each(|rows| rows.sort_by_key(|&row| order(&metas, row)));
    Ok(Some(Loaded { index, metas, sessions, lexical, language, dimension, given_again: 0, sample: OnceLock::new() }))
}

fn options(config: &Config) -> HnswOptions {
    let graph_above = if config.index == IndexKind::Hnsw { 0 } else { config.exact_threshold };
    HnswOptions { m: config.m, ef_construction: config.ef_construction, graph_above }
}

fn plain(
    index: Box<dyn VectorIndex>,
    snapshot: &Snapshot,
    generation: &Generation,
    namespace: NamespaceId,
    metas: &mut Vec<Option<RowMeta>>,
) -> Result<Searched> {
    let zeros = vec![0.0; generation.identity.dimension];
    rows(snapshot, generation, namespace, metas, |row, vector| {
        index.insert(&[row], vector.unwrap_or(&zeros));
        if vector.is_none() {
            index.remove(&[row]);
        }
        Ok(())
    })?;
    Ok(Searched::Plain(index.into()))
}

/// Visits the rows in order, `None` for a dead one, and collects what they stand for.
fn rows(
    snapshot: &Snapshot,
    generation: &Generation,
    namespace: NamespaceId,
    metas: &mut Vec<Option<RowMeta>>,
    mut visit: impl FnMut(u32, Option<&[f32]>) -> Result<()>,
) -> Result<()> {
    let count = snapshot.row_count(generation.id, namespace)?;
    let mut vector = Vec::with_capacity(generation.identity.dimension);
    snapshot.rows(generation, namespace, |row| {
        let number = metas.len() as u32;
        metas.push(row.meta);
        if row.meta.is_none() {
            return visit(number, None);
        }
        vector.clear();
        row.append_to(&mut vector);
        if !is_finite(&vector) {
            return Err(Error::corrupted(format!("row {number} of the vectors is not finite")));
        }
        visit(number, Some(&vector))
    })?;
    match metas.len() == count {
        true => Ok(()),
        false => Err(Error::corrupted(format!("{} rows of vectors, but {count} counted", metas.len()))),
    }
}

/// Reads what is stored of a graph. `changes` is told the last change and the bytes of all.
fn read_parts(
    snapshot: &Snapshot,
    generation: &Generation,
    namespace: NamespaceId,
    loader: &mut Loader,
    changes: &mut (Option<u32>, usize),
) -> Result<()> {
    let loader = std::cell::RefCell::new(loader);
    let page = |page: u32, bytes: &[u8]| loader.borrow_mut().page(page, bytes);
    let delta = |number: u32, bytes: &[u8]| {
        *changes = (Some(number), changes.1 + bytes.len());
        loader.borrow_mut().delta(bytes)
    };
    snapshot.graph(generation.id, namespace, page, delta).map(drop)
}

/// What is wrong with the graphs in a database, a line each.
pub(crate) fn check_graphs(store: &Store) -> Result<Vec<String>> {
    let snapshot = store.read()?;
    let mut problems = Vec::new();
    for generation in snapshot.generations()?.iter().filter(|generation| generation.state != GenerationState::Retired) {
        for namespace in snapshot.graphs(generation.id)? {
            // Links alone are looked at: rows without vectors do.
            let rows = snapshot.row_count(generation.id, namespace)?;
            let mut loader = Loader::new(1, rows, options(&Config::default()), None);
            (0..rows).for_each(|_| loader.row(None));
            let mut named = |what: String| {
                problems.push(format!("generation {}, namespace {}: {what}", generation.id.0, namespace.0));
            };
            match read_parts(&snapshot, generation, namespace, &mut loader, &mut (None, 0)) {
                Ok(()) => {
                    let free = snapshot.free_rows(generation.id, namespace)?;
                    loader.finish(&free).check_with(&free).into_iter().for_each(named);
                }
                // The checksums that are wrong are named already.
                Err(error @ Error::Corrupted { .. }) => named(format!("its graph: {error}")),
                Err(error) => return Err(error),
            }
        }
    }
    Ok(problems)
}
