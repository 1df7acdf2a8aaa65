//! Settings of an engine, with their defaults and ranges.

use std::{fmt, ops::RangeInclusive, path::PathBuf, time::Duration};

use serde::Serialize;

use crate::error::{Error, Result};

/// How vectors are searched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum IndexKind {
    /// [`Exact`](IndexKind::Exact) up to [`Config::exact_threshold`] vectors in a namespace, [`Hnsw`](IndexKind::Hnsw)
    /// above.
    #[default]
    Auto,
    /// A graph over 4 and 8 bit codes, rescored with the vectors. Approximate. Kept in the database: never built again.
    Hnsw,
    /// Compares the query with every vector (SIMD). Always right; cost grows with the namespace.
    Exact,
    /// The graph of the crate `hnsw_rs` over what it has inserted so far, exact search over the rest.
    /// Approximate. Built again from the store, in the background, whenever a namespace is loaded.
    HnswRs,
}

impl std::str::FromStr for IndexKind {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        match name {
            "auto" => Ok(IndexKind::Auto),
            "exact" => Ok(IndexKind::Exact),
            "hnsw" => Ok(IndexKind::Hnsw),
            "hnsw_rs" => Ok(IndexKind::HnswRs),
            _ => {
                Err(Error::InvalidConfig { reason: format!("index {name:?} is not one of auto, exact, hnsw, hnsw_rs") })
            }
        }
    }
}

/// Where the vectors are that a graph's best candidates are scored with. Its codes and links are always in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum VectorsIn {
    /// In memory: 4 bytes a component.
    #[default]
    Memory,
    /// In the store: they are read, a few tens of them, at the end of each search.
    Store,
}

impl std::str::FromStr for VectorsIn {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        match name {
            "memory" => Ok(VectorsIn::Memory),
            "store" => Ok(VectorsIn::Store),
            _ => Err(Error::InvalidConfig { reason: format!("vectors in {name:?}, not in memory or store") }),
        }
    }
}

/// How many bits a component of a vector has in the file. Chosen when a database is made, or by a
/// [`reindex`](crate::reindex()), and kept; what is in memory has 32 bits either way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Precision {
    /// 32 bits: the vector as the model gave it.
    #[default]
    F32,
    /// 8 bits, and a scale for the vector: a quarter of the room. Measured on LoCoMo with the default model (256 dimensions,
    /// 818 KB of text): vectors and terms take 2.7 times the text instead of 8.3; similarities move by 0.0023 at most, 99.4 % of
    /// the ten nearest stay the same, recall of the evidence moves by 0.002 at most at every rank.
    I8,
}

impl std::str::FromStr for Precision {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        match name {
            "f32" => Ok(Precision::F32),
            "i8" => Ok(Precision::I8),
            _ => Err(Error::InvalidConfig { reason: format!("precision {name:?} is not f32 or i8") }),
        }
    }
}

impl fmt::Display for Precision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Precision::F32 => "f32",
            Precision::I8 => "i8",
        })
    }
}

/// What runs a model. Written `cpu`, `cuda` for the first GPU, `cuda:1` for the second.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Device {
    /// The processor.
    #[default]
    Cpu,
    /// An NVIDIA GPU. Needs the feature `cuda`, and an ONNX Runtime that was built for CUDA: the PyPI package
    /// `onnxruntime-gpu` carries one. A GPU that is not there is an error; nothing falls back to the processor. Vectors are those of
    /// the processor but for the last digits, which may differ with a text's company: its kernels are chosen by the size of a run.
    Cuda {
        /// The GPU's number, from 0.
        id: u16,
        /// Bytes of its memory that are used for what is computed, if they are to be limited.
        memory_limit: Option<usize>,
    },
}

impl std::str::FromStr for Device {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let id = match text {
            "cpu" => return Ok(Device::Cpu),
            "cuda" => Some(0),
            _ => text.strip_prefix("cuda:").and_then(|id| id.parse().ok()),
        };
        let id = id.ok_or_else(|| Error::InvalidConfig {
            reason: format!("device {text:?} is not cpu, cuda, or the number of a GPU, as in cuda:1"),
        })?;
        Ok(Device::Cuda { id, memory_limit: None })
    }
}

/// Settings of an [`Engine`](crate::Engine). All have defaults: `Config::default()` is a good start.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Config {
    /// How vectors are searched. Default: [`IndexKind::Auto`].
    pub index: IndexKind,
    /// Vectors in a namespace up to which `Auto` searches exactly. Default: 10,000.
    pub exact_threshold: usize,
    /// Candidates that the graph keeps while searching (`ef_search`); at least k is used. 1 to 100,000. Default: 128.
    pub ef_search: usize,
    /// The recall that `ef_search` is tuned to: now and then a search is answered exactly too, in the background, and the
    /// number of candidates raised or lowered by what it missed. 0.5 to 0.9999. Default: none, it stays as it is.
    pub target_recall: Option<f64>,
    /// Links a row of a graph on its upper layers, twice that on layer 0; a graph keeps the number that it was begun with.
    /// 4 to 64. Default: 16.
    pub m: usize,
    /// Candidates that a row looks at when it comes into a graph. 8 to 4,096. Default: 200.
    pub ef_construction: usize,
    /// Where the vectors of namespaces with a graph are. Default: [`VectorsIn::Memory`].
    pub vectors: VectorsIn,
    /// How vectors are stored in a database that is made; one that is there keeps to its own. Default: [`Precision::F32`].
    pub precision: Precision,
    /// Pending messages at which a flush begins by itself, in the background. 1 to 100,000. Default: 256.
    pub flush_size: usize,
    /// Whether opening begins to embed, in the background, what was left pending. Default: true.
    pub drain_on_open: bool,
    /// Threads for embedding, as many for recall, and as many for linking. 1 to 1,024. Default: the machine's cores.
    pub threads: usize,
    /// What runs the model, where the engine loads it itself. Default: the processor.
    pub device: Device,
    /// Threads on which memory blocks work through flushed batches, mostly waiting for a language model; started when a
    /// block first has a batch. 1 to 1,024. Default: 4.
    pub block_threads: usize,
    /// When a memory block that failed is tried again first; doubled each time, up to 5 minutes. Default: 1 second.
    pub block_retry: Duration,
    /// Memory for vectors of texts that were embedded, so that unchanged text is not embedded twice, in bytes; 0 for none.
    /// Default: 16 MiB, some 10,000 messages.
    pub embedding_cache: usize,
    /// A file that keeps vectors for later runs too, made if it is missing; worth it for models that take a millisecond a text. See
    /// [`CachedEmbedderBuilder::file`](crate::CachedEmbedderBuilder::file). Default: none.
    pub embedding_cache_file: Option<PathBuf>,
    /// The most that file may be long, in bytes; 1 MiB or more. Default: 1 GiB.
    pub embedding_cache_file_bytes: u64,
    /// Memory that the store may use for its page cache, in bytes. Default: 64 MiB.
    pub cache_bytes: usize,
    /// Two-phase commit: slower by one fsync a commit, and safe against a writer that can choose the bytes
    /// written around a crash. Default: false (redb's checksummed one-phase commit).
    pub two_phase_commit: bool,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            index: IndexKind::Auto,
            exact_threshold: 10_000,
            ef_search: 128,
            target_recall: None,
            m: 16,
            ef_construction: 200,
            vectors: VectorsIn::Memory,
            precision: Precision::F32,
            flush_size: 256,
            drain_on_open: true,
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            device: Device::Cpu,
            block_threads: 4,
            block_retry: Duration::from_secs(1),
            embedding_cache: 16 << 20,
            embedding_cache_file: None,
            embedding_cache_file_bytes: 1 << 30,
            cache_bytes: 64 << 20,
            two_phase_commit: false,
        }
    }
}

/// Of [`Config::m`]. On layer 0 of a graph there must be room for a parent and its children; a list's length is a byte.
pub(crate) const M: RangeInclusive<usize> = 4..=64;
/// Of [`Config::ef_construction`].
pub(crate) const EF_CONSTRUCTION: RangeInclusive<usize> = 8..=4096;

/// Of [`Config::embedding_cache_file_bytes`].
pub(crate) const CACHE_FILE_BYTES: RangeInclusive<u64> = 1 << 20..=1 << 50;

/// # Errors
/// [`Error::InvalidConfig`] if the value is not in its range.
pub(crate) fn in_range<T: PartialOrd + fmt::Display>(name: &str, value: T, range: RangeInclusive<T>) -> Result<()> {
    if range.contains(&value) {
        return Ok(());
    }
    let reason = format!("{name} is {value}, not within {} to {}", range.start(), range.end());
    Err(Error::InvalidConfig { reason })
}

impl Config {
    pub(crate) fn check(&self) -> Result<()> {
        in_range("ef_search", self.ef_search, 1..=100_000)?;
        in_range("m", self.m, M)?;
        in_range("ef_construction", self.ef_construction, EF_CONSTRUCTION)?;
        if let Some(target) = self.target_recall
            && !(0.5..=0.9999).contains(&target)
        {
            return Err(Error::InvalidConfig {
                reason: format!("target_recall is {target}, not within 0.5 to 0.9999"),
            });
        }
        in_range("embedding_cache_file_bytes", self.embedding_cache_file_bytes, CACHE_FILE_BYTES)?;
        in_range("flush_size", self.flush_size, 1..=100_000)?;
        in_range("threads", self.threads, 1..=1024)?;
        in_range("block_threads", self.block_threads, 1..=1024)
    }
}
