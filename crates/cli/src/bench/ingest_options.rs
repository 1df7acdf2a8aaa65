//! Command line options of the benches that ingest a file of messages.

use std::path::{Path, PathBuf};

use anyhow::ensure;
use mnemon::{IndexKind, Message, Namespace, Precision};

use super::sample;
use crate::usage;

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

    /// Reads the messages, which are at least one.
    pub(super) fn messages(&self) -> anyhow::Result<Vec<(Namespace, Message)>> {
        let messages = sample::messages(self.messages.as_deref())?;
        ensure!(
            !messages.is_empty(),
            "{}: the file has no messages",
            self.messages.as_deref().unwrap_or(Path::new(sample::NAME)).display()
        );
        Ok(messages)
    }
}
