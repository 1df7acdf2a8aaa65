//! The messages and queries that benches measure with, the databases that they fill, and the memory of the process.
//!
//! The sample in `datasets/sample` is compiled in: benches measure it if no file is given, wherever the command runs.

use std::path::{Path, PathBuf};

use anyhow::ensure;
use mnemon::{Config, Engine, IndexKind, Message, Namespace, Precision, sample};

use crate::{
    database::Temporary,
    input::{self, QueryLine},
    usage,
};

/// The options of benches that ingest a file of messages.
#[derive(clap::Args)]
pub(super) struct IngestOptions {
    /// The messages. Default: the built-in sample.
    #[arg(long, value_name = "M.jsonl")]
    messages: Option<PathBuf>,
    /// A model folder or name.
    #[arg(long, value_name = "DIR|NAME")]
    pub(super) model: Option<String>,
    /// The vector index: exact, hnsw, hnsw_rs, or auto, which depends on the size of the namespace.
    #[arg(long, default_value = "auto")]
    pub(super) index: IndexKind,
    /// Precision of the stored vectors: f32, f16 or i8.
    #[arg(long, default_value_t)]
    pub(super) precision: Precision,
    /// Messages per put.
    #[arg(long, default_value_t = 512, value_parser = usage::within(1..=1_000_000))]
    pub(super) batch: usize,
}

impl IngestOptions {
    /// Returns true if the messages are not the sample's.
    #[cfg(feature = "serve")]
    pub(super) fn has_file(&self) -> bool {
        self.messages.is_some()
    }

    /// Reads the messages. There is at least one.
    pub(super) fn messages(&self) -> anyhow::Result<Vec<(Namespace, Message)>> {
        let messages = messages_or_sample(self.messages.as_deref())?;
        ensure!(
            !messages.is_empty(),
            "{}: the file has no messages",
            self.messages.as_deref().unwrap_or(Path::new(SAMPLE)).display()
        );
        Ok(messages)
    }

    /// Creates a database with these settings.
    pub(super) fn database(&self) -> anyhow::Result<Temporary> {
        let config = Config::default().index(self.index).precision(self.precision);
        Temporary::new(self.model.as_deref(), config)
    }

    /// Puts the messages in batches, and embeds them.
    pub(super) fn ingest(&self, engine: &Engine, messages: &[(Namespace, Message)]) -> mnemon::Result<()> {
        for batch in messages.chunks(self.batch) {
            engine.blocking().put_all(batch.to_vec())?;
        }
        engine.blocking().flush().map(drop)
    }
}

/// The name of the sample in errors and reports.
pub(super) const SAMPLE: &str = "the sample";

/// Reads the messages of a file, or of the sample.
pub(super) fn messages_or_sample(file: Option<&Path>) -> anyhow::Result<Vec<(Namespace, Message)>> {
    file.map_or_else(|| input::messages_of(sample::MESSAGES.as_bytes(), Path::new(SAMPLE)), input::messages)
}

/// Reads the labelled questions of a file, or of the sample.
pub(super) fn queries_or_sample(file: Option<&Path>) -> anyhow::Result<Vec<QueryLine>> {
    file.map_or_else(|| input::queries_of(sample::QUERIES.as_bytes(), Path::new(SAMPLE)), input::queries)
}

/// Returns the texts of at most this many messages, evenly spread, as queries.
pub(super) fn spread(messages: &[(Namespace, Message)], count: usize) -> Vec<(Namespace, String)> {
    let spread = messages.iter().step_by(messages.len().div_ceil(count).max(1));
    let texts = spread.map(|(namespace, message)| (namespace.clone(), message.text()));
    texts.filter(|(_, text)| !text.trim().is_empty()).collect()
}

/// Returns the peak of this process's resident memory in bytes, where the system reports it (Linux).
pub(super) fn peak_bytes() -> Option<u64> {
    status_bytes("VmHWM:")
}

/// Returns the resident memory in bytes.
pub(super) fn resident_bytes() -> Option<u64> {
    status_bytes("VmRSS:")
}

/// Returns the growth of the resident memory, in whole MiB, since it was `before` bytes.
pub(super) fn growth_mib(before: Option<u64>) -> Option<f64> {
    let growth = resident_bytes()?.saturating_sub(before?);
    Some((growth as f64 / f64::from(1 << 20)).round())
}

fn status_bytes(field: &str) -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let value = status.lines().find_map(|line| line.strip_prefix(field))?;
    Some(value.trim().trim_end_matches(" kB").parse::<u64>().ok()? * 1024)
}
