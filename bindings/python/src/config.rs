//! Settings.

use std::sync::Arc;

use mnemon::{EncryptionKey, Error};
use pyo3::{
    prelude::*,
    types::{PyDict, PyTuple},
};

use crate::{
    errors::{invalid, not_a, raised},
    query::seconds,
    values::{FilePath, Text, count, number, switch},
};

/// Settings of an engine, by name. A value out of its range raises `InvalidConfigError`, here or when an engine is opened.
/// Two are equal if the same settings were given.
///
/// Searching:
///
/// - `index`: the index that vectors are searched with. `"exact"` compares the query with every vector; `"hnsw"` is a graph,
///   which is approximate and stored in the file; `"auto"` is the first up to `exact_threshold` vectors in a namespace and
///   the second above. `"hnsw_rs"` is not in this package. Default: `"auto"`.
/// - `exact_threshold`: vectors in a namespace, from 0. Default: 10,000.
/// - `ef_search`: candidates that a search of a graph keeps, 1 to 100,000: more find more, and take longer. Default: 128.
/// - `target_recall`: the share of the true neighbors, 0.5 to 0.9999, that `ef_search` is raised or lowered to find.
///   Default: `None`, which keeps `ef_search` fixed.
/// - `m`: links of a row in a graph, 4 to 64; a graph keeps the number that it was made with. Default: 16.
/// - `ef_construction`: candidates for the neighbors of a new row of a graph, 8 to 4,096. Default: 200.
/// - `neighbor_codes`: faster searches of graphs for 2.2 times their memory. Default: `False`.
/// - `vectors`: where a graph's vectors are: `"store"`, in the file, with 8-bit codes in memory, or `"memory"`, which takes more
///   than twice the memory and makes searches by vectors alone faster. Default: `"store"`.
/// - `precision`: bits of a vector's component in the file of a new database, `"f32"`, `"f16"` or `"i8"`; an existing one
///   keeps its own. Default: `"f16"`.
/// - `memory_budget`: bytes that loaded namespaces may take together, from 0; those that were not used for the longest time
///   are unloaded. Default: 1 GiB.
///
/// Embedding:
///
/// - `threads`: threads for embedding, and as many again for recalls and for graphs, 1 to 1,024. Default: the cores.
/// - `device`: what runs a model of a folder, `"cpu"`, `"cuda"` or `"cuda:1"` for the second GPU. Default: `"cpu"`.
/// - `flush_size`: pending messages that are embedded at once, in the background, 1 to 100,000. Default: 256.
/// - `idle_flush`: seconds after the last put when pending messages are embedded in the background; `None`: only once there
///   are `flush_size` of them. Default: 1.
/// - `drain_on_open`: whether messages that are pending when the file is opened are embedded at once. Default: `True`.
/// - `embedding_cache`: bytes of memory for vectors of texts that come again; 0: none. Default: 16 MiB.
/// - `embedding_cache_file`: the path of a file that keeps such vectors for later runs. Default: `None`.
/// - `embedding_cache_file_bytes`: its greatest length in bytes, 1 MiB or more. Default: 1 GiB.
///
/// Memory blocks:
///
/// - `block_threads`: threads on which blocks take batches, 1 to 1,024. Default: 4.
/// - `block_retry`: seconds before a block that failed is first tried again; doubled each time, up to 5 minutes. Default: 1.
/// - `block_close_wait`: seconds that closing the engine waits for blocks that work on batches; the others get them after the next
///   opening. Default: 5.
///
/// The file:
///
/// - `journal`: the number of recalls that the file keeps for `Engine.journal`, up to 10,000,000; 0: none. Default: 0.
/// - `keep_versions`: whether messages whose text, role or name is replaced keep what they were, for `Engine.versions` and
///   `Query(as_of=...)`. Default: `False`.
/// - `cache_bytes`: bytes of memory for pages of the file, which the system caches too. Default: 16 MiB.
/// - `durability`: what a commit survives, `"disk"` or `"process"`. `"process"` syncs only when the file is closed: a put takes a
///   third of the time and survives a kill, but a power failure may lose the last commits or damage the file. Default: `"disk"`.
/// - `other_readers`: whether other processes may read the file meanwhile. Default: `True`.
/// - `two_phase_commit`: one more fsync for each commit, and safety against a writer who chooses what is written around a
///   crash. Default: `False`.
/// - `shared_timeout`: seconds that a call of a shared database waits for Postgres, 0.01 to 3,600; a change that waits behind
///   another one, twice as long. Default: 10.
/// - `anchor`: a commit that the database must have, as `Engine.anchor` returned it: an older copy in its place, also if it
///   got other commits since, raises `OlderDatabaseError`. Default: `None`.
/// - `encryption_key`: 32 bytes that the database is, or a new one will be, encrypted with. Default: `None`.
#[pyclass(frozen, module = "mnemon")]
pub(crate) struct Config {
    pub(crate) config: mnemon::Config,
    /// The settings that were given, by name.
    given: Option<Arc<Py<PyDict>>>,
}

#[pymethods]
impl Config {
    #[new]
    #[pyo3(signature = (**settings))]
    fn new(py: Python<'_>, settings: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        let mut config = mnemon::Config::default();
        for (name, value) in settings.into_iter().flatten() {
            let name = name.extract::<Text>()?;
            set(&mut config, &name, &value).map_err(|error| {
                let text = error.value(py).to_string();
                let reason = format!("{}: {}", &*name, text.trim_start_matches("invalid setting: "));
                raised(py, Error::InvalidConfig { reason })
            })?;
        }
        let given = settings.map(|settings| Ok::<_, PyErr>(Arc::new(settings.copy()?.unbind()))).transpose()?;
        Ok(Config { config, given })
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let setting = |(name, value): (Bound<'_, PyAny>, Bound<'_, PyAny>)| {
            let name = name.to_string();
            let value = if name == "encryption_key" { "...".to_owned() } else { value.repr()?.to_string() };
            Ok(format!("{name}={value}"))
        };
        let settings = self.settings(py).into_iter().map(setting).collect::<PyResult<Vec<_>>>()?;
        Ok(format!("Config({})", settings.join(", ")))
    }

    fn __eq__(&self, py: Python<'_>, other: &Bound<'_, PyAny>) -> PyResult<bool> {
        match other.cast::<Config>() {
            Ok(other) => self.settings(py).eq(other.get().settings(py)),
            Err(_) => Ok(false),
        }
    }

    /// Pickles and copies the settings, the key too.
    fn __getnewargs_ex__<'py>(&self, py: Python<'py>) -> (Bound<'py, PyTuple>, Bound<'py, PyDict>) {
        (PyTuple::empty(py), self.settings(py))
    }
}

/// The settings of a `Config`.
#[derive(Default)]
pub(crate) struct ConfigLike(pub(crate) mnemon::Config);

impl<'py> FromPyObject<'_, 'py> for ConfigLike {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        object
            .cast::<Config>()
            .map(|config| ConfigLike(config.get().config.clone()))
            .map_err(|_| not_a("a Config", &object))
    }
}

impl Config {
    /// Returns the settings that were given.
    fn settings<'py>(&self, py: Python<'py>) -> Bound<'py, PyDict> {
        self.given.as_ref().map_or_else(|| PyDict::new(py), |given| given.bind(py).clone())
    }
}

fn set(config: &mut mnemon::Config, name: &str, value: &Bound<'_, PyAny>) -> PyResult<()> {
    let py = value.py();
    let failed = |error| raised(py, error);
    let optional = || Some(value).filter(|value| !value.is_none());
    let text = || value.extract::<Text>();
    let wait = |value: &Bound<'_, PyAny>| seconds(py, number(value)?);
    match name {
        "exact_threshold" => config.exact_threshold = count(value)?,
        "ef_search" => config.ef_search = count(value)?,
        "target_recall" => config.target_recall = optional().map(number).transpose()?,
        "m" => config.m = count(value)?,
        "ef_construction" => config.ef_construction = count(value)?,
        "neighbor_codes" => config.neighbor_codes = switch(value)?,
        "flush_size" => config.flush_size = count(value)?,
        "threads" => config.threads = count(value)?,
        "block_threads" => config.block_threads = count(value)?,
        "embedding_cache" => config.embedding_cache = count(value)?,
        "embedding_cache_file_bytes" => config.embedding_cache_file_bytes = count(value)?,
        "memory_budget" => config.memory_budget = count(value)?,
        "journal" => config.journal = count(value)?,
        "keep_versions" => config.keep_versions = switch(value)?,
        "cache_bytes" => config.cache_bytes = count(value)?,
        "idle_flush" => config.idle_flush = optional().map(wait).transpose()?,
        "block_retry" => config.block_retry = wait(value)?,
        "block_close_wait" => config.block_close_wait = wait(value)?,
        "shared_timeout" => config.shared_timeout = wait(value)?,
        "index" => match &*text()? {
            "hnsw_rs" => return Err(invalid(py, "\"hnsw_rs\" is not in this package; \"hnsw\" is")),
            name => config.index = name.parse().map_err(failed)?,
        },
        "vectors" => config.vectors = text()?.parse().map_err(failed)?,
        "precision" => config.precision = text()?.parse().map_err(failed)?,
        "device" => config.device = text()?.parse().map_err(failed)?,
        "drain_on_open" => config.drain_on_open = switch(value)?,
        "durability" => config.durability = text()?.parse().map_err(failed)?,
        "two_phase_commit" => config.two_phase_commit = switch(value)?,
        "other_readers" => config.other_readers = switch(value)?,
        "embedding_cache_file" => {
            config.embedding_cache_file =
                optional().map(|path| Ok::<_, PyErr>(path.extract::<FilePath>()?.0)).transpose()?;
        }
        "anchor" => {
            let anchor = optional().map(|value| value.extract::<Text>()?.parse().map_err(failed));
            config.anchor = anchor.transpose()?;
        }
        "encryption_key" => config.encryption_key = optional().map(key).transpose()?,
        _ => return Err(invalid(py, "there is no such setting; help(mnemon.Config) lists all")),
    }
    Ok(())
}

fn key(value: &Bound<'_, PyAny>) -> PyResult<EncryptionKey> {
    // The key itself is in no text.
    let bytes = value.extract::<Vec<u8>>().ok().and_then(|bytes| <[u8; 32]>::try_from(bytes).ok());
    bytes.map(EncryptionKey::from_bytes).ok_or_else(|| invalid(value.py(), "an encryption key has 32 bytes"))
}
