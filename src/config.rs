//! The settings of an engine, with their defaults and ranges, and how stale its reads may be.

use std::{fmt, ops::RangeInclusive, path::PathBuf, time::Duration};

use mnemon_index::HnswOptions;
use serde::Serialize;

#[cfg(feature = "encryption")]
use crate::encryption::EncryptionKey;
use crate::{
    encryption::Cipher,
    error::{Error, Result, setters},
    ids::Anchor,
};

/// The index that vectors are searched with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum IndexKind {
    /// [`Exact`](IndexKind::Exact) up to [`Config::exact_threshold`] vectors in a namespace, [`Hnsw`](IndexKind::Hnsw)
    /// above.
    #[default]
    Auto,
    /// A graph over 4-bit and 8-bit codes, whose best candidates are rescored with the vectors. Approximate. It is
    /// stored in the database and never rebuilt.
    Hnsw,
    /// Compares the query with every vector, with SIMD. Exact; the cost is linear in the size of the namespace.
    Exact,
    /// The graph of the crate `hnsw_rs` over the rows inserted so far, and exact search over the others. Approximate.
    /// Rebuilt from the store, in the background, whenever a namespace is loaded. Feature `hnsw_rs`.
    #[cfg(feature = "hnsw_rs")]
    HnswRs,
}

impl std::str::FromStr for IndexKind {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        match name {
            "auto" => Ok(IndexKind::Auto),
            "exact" => Ok(IndexKind::Exact),
            "hnsw" => Ok(IndexKind::Hnsw),
            #[cfg(feature = "hnsw_rs")]
            "hnsw_rs" => Ok(IndexKind::HnswRs),
            #[cfg(not(feature = "hnsw_rs"))]
            "hnsw_rs" => Err(Error::InvalidConfig {
                reason:
                    "index \"hnsw_rs\" needs mnemon built with the feature `hnsw_rs`; use hnsw, or enable the feature"
                        .into(),
            }),
            _ => {
                Err(Error::InvalidConfig { reason: format!("index {name:?} is not one of auto, exact, hnsw, hnsw_rs") })
            }
        }
    }
}

/// The storage of the vectors of a graph. Its codes of 8 bits a component and its links are always in memory. Namespaces
/// without a graph have their vectors in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum VectorStorage {
    /// Memory as well as the file: 2 bytes for each component with [`Precision::F16`], otherwise 4. That is more than
    /// twice the memory of [`VectorStorage::Store`], and searches by vectors alone take about 0.7 times as long.
    Memory,
    /// The file alone. Cosines are those of the codes, within about .002. A search by vectors alone
    /// ([`RankingStrategy::Dense`](crate::recall::RankingStrategy)) reads the vectors whose cosines are too close to tell
    /// which are among the nearest, a few of them; other searches read none.
    #[default]
    Store,
}

impl std::str::FromStr for VectorStorage {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        match name {
            "memory" => Ok(VectorStorage::Memory),
            "store" => Ok(VectorStorage::Store),
            _ => Err(Error::InvalidConfig { reason: format!("vector storage {name:?} is not memory or store") }),
        }
    }
}

/// The number of bits of a vector's component in the file. Chosen when a database is created, or by a reindex.
///
/// See [`DatabaseFile::reindex`](crate::DatabaseFile::reindex).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Precision {
    /// 32 bits: the vector as the model computed it.
    ///
    /// In twice the space of [`Precision::F16`].
    F32,
    /// 16 bits: IEEE 754's half precision.
    ///
    /// In memory too with [`IndexKind::Auto`] and [`IndexKind::Hnsw`]. Similarities move by less than 0.0005; on LoCoMo and two other sets, recall of the evidence by hybrid hits moves
    /// by 0.001 at most.
    #[default]
    F16,
    /// 8 bits, and one scale for each vector.
    ///
    /// In the file half of the space of [`Precision::F16`]; vectors in memory have 32 bits. Measured on LoCoMo with the default model (256 dimensions, 818 KB of text): vectors and terms take
    /// 2.8 times the text, 4.7 times with 16 bits and 8.3 times with 32; similarities move by 0.0023 at most, 99.4 % of
    /// the ten nearest stay the same, recall of the evidence moves by 0.002 at most at every rank; on other sets by
    /// 0.003.
    I8,
}

impl std::str::FromStr for Precision {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        match name {
            "f32" => Ok(Precision::F32),
            "f16" => Ok(Precision::F16),
            "i8" => Ok(Precision::I8),
            _ => Err(Error::InvalidConfig { reason: format!("precision {name:?} is not f32, f16 or i8") }),
        }
    }
}

impl fmt::Display for Precision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Precision::F32 => "f32",
            Precision::F16 => "f16",
            Precision::I8 => "i8",
        })
    }
}

/// The failures that a commit survives. As text: `disk`, `process`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Durability {
    /// A commit survives kills of the process, crashes of the system and power failures: it is synced to the disk before the
    /// call returns.
    #[default]
    Disk,
    /// A commit survives kills of the process **but not a crash of the system or a power failure**: it is given to the
    /// system, which writes it to the disk later. After a crash of the system the last commits may
    /// be missing, **or the file may be damaged**, so that what is left must be
    /// [salvaged](crate::DatabaseFile::salvage). Closing the engine syncs the file, and so do [`Engine::backup`] and
    /// [`Engine::purge`] with the file that they write. A put takes about a third of the time. For memories that can be
    /// made again, and tests.
    ///
    /// [`Engine::backup`]: crate::Engine::backup
    /// [`Engine::purge`]: crate::Engine::purge
    Process,
}

impl std::str::FromStr for Durability {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        match name {
            "disk" => Ok(Durability::Disk),
            "process" => Ok(Durability::Process),
            _ => Err(Error::InvalidConfig { reason: format!("durability {name:?} is not disk or process") }),
        }
    }
}

/// The device that runs a model. As text: `cpu`, `cuda` for the first GPU, `cuda:1` for the second.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Device {
    /// The processor.
    #[default]
    Cpu,
    /// An NVIDIA GPU. Needs the feature `cuda`, and an ONNX Runtime that was built for CUDA: the PyPI package
    /// `onnxruntime-gpu` carries one. A missing GPU is an error; nothing falls back to the processor. Vectors equal
    /// those of the processor except for the last digits, which may depend on the other texts in the batch: the GPU's
    /// kernels are chosen by the batch size.
    Cuda {
        /// The GPU's number, from 0.
        id: u16,
        /// Maximum bytes of the GPU's memory for intermediate results. `None`: no limit.
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

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Device::Cpu => f.write_str("cpu"),
            Device::Cuda { id: 0, .. } => f.write_str("cuda"),
            Device::Cuda { id, .. } => write!(f, "cuda:{id}"),
        }
    }
}

/// How stale a read may be, in an engine with [`EngineBuilder::shared`](crate::EngineBuilder::shared), whose file is a
/// replica of the database that several machines share. What this engine wrote itself is always seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Freshness {
    /// Sees everything that was acknowledged anywhere before the read began. Cost: one round trip to the shared
    /// database, and a pull if the namespace changed.
    Latest,
    /// Sees everything that was acknowledged at least this long ago. In a namespace that is in use the cost is nothing:
    /// changes are fetched in the background as they are announced. If the shared database does not answer for a
    /// second, the read goes on with the replica, and later reads do so at once until it answers again;
    /// [`Hits::age`](crate::Hits::age) says how stale that is.
    Within(Duration),
    /// Sees what is in the replica, whatever its staleness. Works without the shared database.
    Local,
}

/// Within one second.
impl Default for Freshness {
    fn default() -> Self {
        Freshness::Within(Duration::from_secs(1))
    }
}

/// Settings of an [`Engine`](crate::Engine). All have defaults.
///
/// ```
/// let config = mnemon::Config::default().threads(2).flush_size(64);
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Config {
    /// The index that vectors are searched with. Default: [`IndexKind::Auto`].
    pub index: IndexKind,
    /// Largest number of vectors in a namespace that [`IndexKind::Auto`] searches exactly. Default: 10,000.
    pub exact_threshold: usize,
    /// Candidates that a search of the graph keeps (`ef_search`); at least k. 1 to 100,000. Default: 128.
    pub ef_search: usize,
    /// The recall that `ef_search` is tuned to: some searches are repeated exactly, in the background, and the number
    /// of candidates is raised or lowered by the hits that the graph missed. 0.5 to 0.9999. Default: none, which keeps
    /// `ef_search` fixed.
    pub target_recall: Option<f64>,
    /// Links of a row on the upper layers of a graph; twice as many on layer 0. A graph keeps the number that it was
    /// created with. 4 to 64. Default: 16.
    pub m: usize,
    /// Candidates that are considered as neighbors of a row inserted into a graph. 8 to 4,096. Default: 200.
    pub ef_construction: usize,
    /// Faster searches of graphs for 2.2 times their memory: see
    /// [`HnswOptions::neighbor_codes`](crate::HnswOptions::neighbor_codes). Default: false.
    pub neighbor_codes: bool,
    /// Storage of the vectors of namespaces with a graph. Default: [`VectorStorage::Store`].
    pub vectors: VectorStorage,
    /// The precision of vectors in the file of a new database; an existing one keeps its own. Default:
    /// [`Precision::F16`].
    pub precision: Precision,
    /// Number of pending messages at which they are embedded in the background. 1 to 100,000. Default: 256.
    pub flush_size: usize,
    /// The time after the last put when the pending messages are embedded in the background, so that they are found by
    /// meaning and not only by words. `None`: only once there are `flush_size` of them. Default: 1 second.
    pub idle_flush: Option<Duration>,
    /// Whether opening a database starts to embed its pending messages in the background. Default: true.
    pub drain_on_open: bool,
    /// Threads for embedding; as many again for recall, and as many for building graphs. 1 to 1,024. Default: the
    /// number of cores.
    pub threads: usize,
    /// The device that runs the model, if the engine loads the model itself. Default: the processor.
    pub device: Device,
    /// Threads on which memory blocks process flushed batches, mostly waiting for a language model. They start with a
    /// block's first batch. 1 to 1,024. Default: 4.
    pub block_threads: usize,
    /// Wait before a failed memory block is first retried; doubled with each failure, up to 5 minutes. Default: 1
    /// second.
    pub block_retry: Duration,
    /// How long closing the engine waits for memory blocks that work on flushed batches, or are to; not for those that failed.
    /// What is left is handed over after the next opening. Default: 5 seconds.
    pub block_close_wait: Duration,
    /// Time limit of a call of a shared database. A change waits at most twice as long, behind another one. 10 ms to an
    /// hour. Default: 10 seconds.
    pub shared_timeout: Duration,
    /// Memory of the embedding cache, which spares embedding unchanged text again, in bytes; 0 for none. Default: 16
    /// MiB, about 10,000 messages.
    pub embedding_cache: usize,
    /// A file that keeps cached vectors for later runs, created if it is missing. Useful for models that need a
    /// millisecond or more for each text. See [`CachedEmbedderBuilder::file`](crate::CachedEmbedderBuilder::file).
    /// Default: none.
    pub embedding_cache_file: Option<PathBuf>,
    /// Maximum length of that file, in bytes; 1 MiB or more. Default: 1 GiB.
    pub embedding_cache_file_bytes: u64,
    /// Memory that loaded namespaces may take together, in bytes: their vectors, graphs and words. A namespace is
    /// loaded when it is first recalled from. Above the budget, those that were not used for the longest time are
    /// unloaded. One that is larger than the budget is loaded all the same. [`Engine::stats`](crate::Engine::stats)
    /// tells how much is used. Default: 1 GiB.
    pub memory_budget: usize,
    /// Number of recalls that the journal of the database keeps, over all namespaces; the oldest are dropped first.
    /// [`Engine::journal`](crate::Engine::journal) reads them, [`Engine::replay`](crate::Engine::replay) asks one
    /// again. Up to 10,000,000; 0 for no journal. Default: 0.
    ///
    /// Recalls over several namespaces, or of a namespace that does not exist, are not noted, and none is in an engine
    /// that was opened for reading. Cost: about 500 bytes for each hit, so 1,000 recalls of 10 hits take 5 MB, and a
    /// recall whose question and hits take more than 256 KiB is not noted; at most about one commit a second in the
    /// background, which no recall waits for, and which is shared with other writes. A process that dies may lose the
    /// recalls of its last second, or the last 64.
    pub journal: usize,
    /// Whether a message whose text, role or name is replaced keeps what it was, with the time of the change:
    /// [`Engine::versions`](crate::Engine::versions) returns it, and [`Query::as_of`](crate::Query::as_of) finds and returns
    /// messages as they were. Versions that are kept stay when it is false again; they go with their message. With a shared
    /// database, each machine keeps those of the messages that it replaces. Cost: a copy of the message for each change of
    /// it, in the same commit. Default: false.
    pub keep_versions: bool,
    /// Memory of the store's page cache, in bytes. The system caches the file as well. Default: 16 MiB.
    pub cache_bytes: usize,
    /// The failures that a commit survives: power failures too, or only kills of the process. Default: [`Durability::Disk`].
    pub durability: Durability,
    /// Whether a commit's pages are synced before the header that makes it the last one, which costs one more fsync for each
    /// commit. It is then safe against a writer that can choose the bytes written around a power failure. Without it a commit is
    /// one fsync, and opening a file after a power failure finds by checksums whether the last commit is whole. Default: false.
    pub two_phase_commit: bool,
    /// Whether other processes may read the file while this engine has it open
    /// ([`Engine::open_read_only`](crate::Engine::open_read_only), [`DatabaseFile::stats`](crate::DatabaseFile::stats),
    /// [`DatabaseFile::verify`](crate::DatabaseFile::verify)). Default: true.
    pub other_readers: bool,
    /// A commit that the database must have, as [`Engine::anchor`](crate::Engine::anchor) returned it: the opening of an older
    /// copy of it, also if it got other commits since, or of another file fails with [`Error::OlderDatabase`]. Of a commit that is not
    /// among the last 65,536 of the file, the number counts alone. Default: none.
    pub anchor: Option<Anchor>,
    /// The key that the database, and the file of the embedding cache, are encrypted with. It is needed at every
    /// opening of a database that was created with it. Feature `encryption`. Default: none.
    #[cfg(feature = "encryption")]
    pub encryption_key: Option<EncryptionKey>,
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
            neighbor_codes: false,
            vectors: VectorStorage::Store,
            precision: Precision::F16,
            flush_size: 256,
            idle_flush: Some(Duration::from_secs(1)),
            drain_on_open: true,
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            device: Device::Cpu,
            block_threads: 4,
            block_retry: Duration::from_secs(1),
            block_close_wait: Duration::from_secs(5),
            shared_timeout: Duration::from_secs(10),
            embedding_cache: 16 << 20,
            embedding_cache_file: None,
            embedding_cache_file_bytes: 1 << 30,
            memory_budget: 1 << 30,
            journal: 0,
            keep_versions: false,
            cache_bytes: 16 << 20,
            durability: Durability::Disk,
            two_phase_commit: false,
            other_readers: true,
            anchor: None,
            #[cfg(feature = "encryption")]
            encryption_key: None,
        }
    }
}

setters!(Config {
    index: IndexKind,
    exact_threshold: usize,
    ef_search: usize,
    m: usize,
    ef_construction: usize,
    neighbor_codes: bool,
    vectors: VectorStorage,
    precision: Precision,
    flush_size: usize,
    drain_on_open: bool,
    threads: usize,
    device: Device,
    block_threads: usize,
    block_retry: Duration,
    block_close_wait: Duration,
    shared_timeout: Duration,
    embedding_cache: usize,
    embedding_cache_file_bytes: u64,
    memory_budget: usize,
    journal: usize,
    keep_versions: bool,
    cache_bytes: usize,
    durability: Durability,
    two_phase_commit: bool,
    other_readers: bool,
});

impl Config {
    /// Sets [`target_recall`](field@Config::target_recall).
    pub fn target_recall(mut self, recall: f64) -> Self {
        self.target_recall = Some(recall);
        self
    }

    /// Sets [`anchor`](field@Config::anchor).
    pub fn anchor(mut self, anchor: Anchor) -> Self {
        self.anchor = Some(anchor);
        self
    }

    /// Sets [`embedding_cache_file`](field@Config::embedding_cache_file).
    pub fn embedding_cache_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.embedding_cache_file = Some(path.into());
        self
    }

    /// Sets [`encryption_key`](field@Config::encryption_key).
    #[cfg(feature = "encryption")]
    pub fn encryption_key(mut self, key: EncryptionKey) -> Self {
        self.encryption_key = Some(key);
        self
    }
}

/// Range of [`Config::embedding_cache_file_bytes`].
pub(crate) const CACHE_FILE_BYTES: RangeInclusive<u64> = 1 << 20..=1 << 50;

/// Checks that a setting is in its range.
///
/// # Errors
/// [`Error::InvalidConfig`].
pub(crate) fn in_range<T: PartialOrd + fmt::Display>(name: &str, value: T, range: RangeInclusive<T>) -> Result<()> {
    if range.contains(&value) {
        return Ok(());
    }
    let reason = format!("{name} is {value}, not within {} to {}", range.start(), range.end());
    Err(Error::InvalidConfig { reason })
}

impl Config {
    /// Asks for the key and returns its cipher. `None`: the settings have no key.
    ///
    /// # Errors
    /// [`Error::KeyUnavailable`].
    pub(crate) fn cipher(&self) -> Result<Option<Cipher>> {
        #[cfg(feature = "encryption")]
        let cipher = self.encryption_key.as_ref().map(Cipher::new).transpose();
        #[cfg(not(feature = "encryption"))]
        let cipher = Ok(None);
        cipher
    }

    pub(crate) fn check(&self) -> Result<()> {
        in_range("ef_search", self.ef_search, 1..=100_000)?;
        in_range("m", self.m, HnswOptions::M)?;
        in_range("ef_construction", self.ef_construction, HnswOptions::EF_CONSTRUCTION)?;
        if let Some(target) = self.target_recall
            && !(0.5..=0.9999).contains(&target)
        {
            return Err(Error::InvalidConfig {
                reason: format!("target_recall is {target}, not within 0.5 to 0.9999"),
            });
        }
        in_range("embedding_cache_file_bytes", self.embedding_cache_file_bytes, CACHE_FILE_BYTES)?;
        in_range("flush_size", self.flush_size, 1..=100_000)?;
        in_range("journal", self.journal, 0..=10_000_000)?;
        in_range("threads", self.threads, 1..=1024)?;
        if !(Duration::from_millis(10)..=Duration::from_secs(3600)).contains(&self.shared_timeout) {
            let reason = format!("shared_timeout is {:?}, not within 10 ms to an hour", self.shared_timeout);
            return Err(Error::InvalidConfig { reason });
        }
        in_range("block_threads", self.block_threads, 1..=1024)
    }
}
