//! Looking at a database that no engine has open: what is in it, and whether it is sound.

use std::path::Path;

use serde::Serialize;

pub use crate::store::{GenerationState, VerifyReport};
use crate::{
    config::{Config, Precision},
    engine::{lexical::check_lexical, load::check_graphs},
    error::Result,
    ids::{ModelIdentity, Namespace},
    store::{Options, Sizes, Store},
};

/// What is in a database.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Stats {
    /// Bytes of the file.
    pub file_bytes: u64,
    /// What of them holds what; the rest is free, or the database's own.
    pub sizes: Sizes,
    /// The serving generation; beside it one that a reindex is making, the previous one, or old ones that are being deleted.
    pub generations: Vec<GenerationStats>,
    /// All namespaces, by name.
    pub namespaces: Vec<NamespaceStats>,
}

/// One generation: a complete set of vectors made by one model.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct GenerationStats {
    /// The model.
    pub model: ModelIdentity,
    /// How its vectors are stored.
    pub precision: Precision,
    /// Whether it answers recalls.
    pub state: GenerationState,
    /// Messages that wait to be embedded for it.
    pub pending: u64,
}

/// One namespace, as the serving generation has it.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct NamespaceStats {
    /// Its name.
    pub namespace: Namespace,
    /// Messages stored.
    pub messages: u64,
    /// Sessions they belong to.
    pub sessions: u64,
    /// Vectors; a long message has several.
    pub vectors: u64,
    /// Messages that wait to be embedded.
    pub pending: u64,
    /// Messages in the short-term buffers of its sessions: not recalled yet, and not pending.
    pub buffered: u64,
}

/// Counts what is in a database. Cost: a pass over the keys of its messages.
///
/// # Errors
/// Those of opening, but for the model's; [`Error::Corrupted`](crate::Error::Corrupted).
pub fn stats(path: impl AsRef<Path>) -> Result<Stats> {
    let store = open(path.as_ref())?;
    let snapshot = store.read()?;
    let namespaces = match snapshot.serving()? {
        Some(generation) => snapshot.facts(generation.id)?,
        None => Vec::new(),
    };
    let file_bytes = std::fs::metadata(store.path()).map_err(|error| crate::Error::Storage(error.into()))?.len();
    Ok(Stats {
        file_bytes,
        sizes: snapshot.sizes()?,
        generations: snapshot
            .generations()?
            .into_iter()
            .map(|generation| {
                Ok(GenerationStats {
                    pending: snapshot.pending_count(generation.id)?,
                    model: generation.identity,
                    precision: generation.precision,
                    state: generation.state,
                })
            })
            .collect::<Result<_>>()?,
        namespaces: namespaces
            .into_iter()
            .map(|facts| NamespaceStats {
                namespace: facts.namespace,
                messages: facts.messages,
                sessions: facts.sessions,
                vectors: facts.vectors,
                pending: facts.pending,
                buffered: facts.buffered,
            })
            .collect(),
    })
}

/// Checks the file's pages, and every record against every other. Cost: a pass over the whole file, and memory for an
/// entry a message.
///
/// # Errors
/// Those of opening, but for the model's; what is wrong inside is in the report.
pub fn verify(path: impl AsRef<Path>) -> Result<VerifyReport> {
    let mut store = open(path.as_ref())?;
    let mut report = store.verify()?;
    // Where pages or rows are broken, what is left need not make sense.
    if report.problems.is_empty() {
        report.problems = check_graphs(&store)?;
        report.problems.extend(check_lexical(&store)?);
    }
    Ok(report)
}

fn open(path: &Path) -> Result<Store> {
    let config = Config::default();
    let options = Options { create: false, cache_bytes: config.cache_bytes, two_phase_commit: config.two_phase_commit };
    Store::open(path, options)
}
