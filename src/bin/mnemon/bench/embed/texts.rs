//! The texts that the bench embeds.

use std::path::Path;

use anyhow::ensure;

use crate::input;

/// The texts to embed.
pub(super) struct Texts {
    pub(super) documents: Vec<String>,
    pub(super) queries: Vec<String>,
}

impl Texts {
    pub(super) fn read(messages: &Path, queries: &Path, limit: usize) -> anyhow::Result<Self> {
        let lines = input::messages(messages)?.into_iter();
        let mut documents: Vec<String> =
            lines.map(|(_, message)| message.searchable()).filter(|text| !text.trim().is_empty()).collect();
        documents.truncate(limit);
        let query_texts: Vec<String> = input::queries(queries)?.into_iter().map(|line| line.query).collect();
        ensure!(!documents.is_empty(), "{}: no message has text", messages.display());
        ensure!(!query_texts.is_empty(), "{}: the file has no query", queries.display());
        Ok(Texts { documents, queries: query_texts })
    }
}
