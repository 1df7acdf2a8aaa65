//! Command line options of the benches that ingest a file of messages.

use std::path::PathBuf;

use mnemon::{IndexKind, Precision};

#[derive(clap::Args)]
pub(super) struct IngestOptions {
    /// The messages.
    #[arg(long, value_name = "M.jsonl", default_value = "datasets/sample/messages.jsonl")]
    pub(super) messages: PathBuf,
    /// A model folder or name.
    #[arg(long, value_name = "DIR|NAME")]
    pub(super) model: Option<String>,
    /// The vector index: exact, hnsw, hnsw_rs, or auto, which depends on the size of the namespace.
    #[arg(long, default_value = "auto")]
    pub(super) index: IndexKind,
    /// Precision of the stored vectors: f32 or i8.
    #[arg(long, default_value = "f32")]
    pub(super) precision: Precision,
    /// Messages per put.
    #[arg(long, default_value_t = 512)]
    pub(super) batch: usize,
}
