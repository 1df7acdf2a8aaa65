//! The committed sample, compiled in: benches measure it if no file is given, wherever the command runs.

use std::path::Path;

use mnemon::{Message, Namespace};

use crate::input::{self, QueryLine};

const MESSAGES: &str = include_str!("../../../../datasets/sample/messages.jsonl");
const QUERIES: &str = include_str!("../../../../datasets/sample/queries.jsonl");
/// The name of the sample in errors and reports.
pub(super) const NAME: &str = "the sample";

/// Reads the messages of a file, or of the sample.
pub(super) fn messages(file: Option<&Path>) -> anyhow::Result<Vec<(Namespace, Message)>> {
    file.map_or_else(|| input::messages_of(MESSAGES.as_bytes(), Path::new(NAME)), input::messages)
}

/// Reads the labelled questions of a file, or of the sample.
pub(super) fn queries(file: Option<&Path>) -> anyhow::Result<Vec<QueryLine>> {
    file.map_or_else(|| input::queries_of(QUERIES.as_bytes(), Path::new(NAME)), input::queries)
}

/// Returns the texts of at most this many messages, evenly spread, as queries.
pub(super) fn spread(messages: &[(Namespace, Message)], count: usize) -> Vec<(Namespace, String)> {
    let spread = messages.iter().step_by(messages.len().div_ceil(count).max(1));
    let texts = spread.map(|(namespace, message)| (namespace.clone(), message.text()));
    texts.filter(|(_, text)| !text.trim().is_empty()).collect()
}
