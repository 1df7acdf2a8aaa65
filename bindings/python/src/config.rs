//! Settings.

use std::path::PathBuf;

use mnemon::EncryptionKey;
use pyo3::{
    exceptions::{PyTypeError, PyValueError},
    prelude::*,
    types::PyDict,
};

use crate::{errors::raised, query::seconds};

/// Settings of an engine, by name; see `Config` of the crate for their ranges and defaults.
///
/// Numbers: `exact_threshold`, `ef_search`, `target_recall`, `m`, `ef_construction`, `flush_size`, `threads`,
/// `block_threads`, `embedding_cache`, `embedding_cache_file_bytes`, `memory_budget`, `journal`, `cache_bytes`;
/// seconds: `idle_flush` (`None`: only when `flush_size` messages are pending), `block_retry`; names: `index`,
/// `vectors`, `precision`, `device`; switches: `neighbor_codes`, `drain_on_open`, `two_phase_commit`, `other_readers`;
/// `embedding_cache_file`, a path; `encryption_key`, 32 bytes. Values out of their ranges raise `InvalidConfigError`
/// when an engine is opened.
#[pyclass(frozen, from_py_object, module = "mnemon")]
#[derive(Clone, Default)]
pub(crate) struct Config(pub(crate) mnemon::Config);

#[pymethods]
impl Config {
    #[new]
    #[pyo3(signature = (**settings))]
    fn new(settings: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        let mut config = mnemon::Config::default();
        for (name, value) in settings.into_iter().flatten() {
            set(&mut config, name.extract()?, &value)?;
        }
        Ok(Config(config))
    }

    fn __repr__(&self) -> String {
        format!("{:?}", self.0)
    }
}

fn set(config: &mut mnemon::Config, name: &str, value: &Bound<'_, PyAny>) -> PyResult<()> {
    let failed = |error| raised(value.py(), error);
    match name {
        "exact_threshold" => config.exact_threshold = value.extract()?,
        "ef_search" => config.ef_search = value.extract()?,
        "target_recall" => config.target_recall = value.extract()?,
        "m" => config.m = value.extract()?,
        "ef_construction" => config.ef_construction = value.extract()?,
        "neighbor_codes" => config.neighbor_codes = value.extract()?,
        "flush_size" => config.flush_size = value.extract()?,
        "threads" => config.threads = value.extract()?,
        "block_threads" => config.block_threads = value.extract()?,
        "embedding_cache" => config.embedding_cache = value.extract()?,
        "embedding_cache_file_bytes" => config.embedding_cache_file_bytes = value.extract()?,
        "memory_budget" => config.memory_budget = value.extract()?,
        "journal" => config.journal = value.extract()?,
        "cache_bytes" => config.cache_bytes = value.extract()?,
        "idle_flush" => config.idle_flush = value.extract::<Option<f64>>()?.map(seconds).transpose()?,
        "block_retry" => config.block_retry = seconds(value.extract()?)?,
        "index" => config.index = value.extract::<&str>()?.parse().map_err(failed)?,
        "vectors" => config.vectors = value.extract::<&str>()?.parse().map_err(failed)?,
        "precision" => config.precision = value.extract::<&str>()?.parse().map_err(failed)?,
        "device" => config.device = value.extract::<&str>()?.parse().map_err(failed)?,
        "drain_on_open" => config.drain_on_open = value.extract()?,
        "two_phase_commit" => config.two_phase_commit = value.extract()?,
        "other_readers" => config.other_readers = value.extract()?,
        "embedding_cache_file" => config.embedding_cache_file = value.extract::<Option<PathBuf>>()?,
        "encryption_key" => config.encryption_key = value.extract::<Option<Vec<u8>>>()?.map(key).transpose()?,
        _ => {
            return Err(PyTypeError::new_err(format!("Config has no setting {name:?}; help(mnemon.Config) lists all")));
        }
    }
    Ok(())
}

fn key(bytes: Vec<u8>) -> PyResult<EncryptionKey> {
    let bytes: [u8; 32] = bytes.try_into().map_err(|_| PyValueError::new_err("an encryption key has 32 bytes"))?;
    Ok(EncryptionKey::from_bytes(bytes))
}
