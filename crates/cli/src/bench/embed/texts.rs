//! The texts that the bench embeds.

use std::path::Path;

use anyhow::ensure;

use crate::bench::sample;

/// The texts to embed.
pub(super) struct Texts {
    pub(super) documents: Vec<String>,
    pub(super) queries: Vec<String>,
}

impl Texts {
    pub(super) fn read(messages: Option<&Path>, queries: Option<&Path>, limit: usize) -> anyhow::Result<Self> {
        let lines = sample::messages(messages)?.into_iter();
        let mut documents: Vec<String> =
            lines.map(|(_, message)| message.searchable()).filter(|text| !text.trim().is_empty()).collect();
        documents.truncate(limit);
        let query_texts: Vec<String> = sample::queries(queries)?.into_iter().map(|line| line.query).collect();
        let name = |file: Option<&Path>| file.unwrap_or(Path::new(sample::NAME)).display().to_string();
        ensure!(!documents.is_empty(), "{}: no message has text", name(messages));
        ensure!(!query_texts.is_empty(), "{}: the file has no query", name(queries));
        Ok(Texts { documents, queries: query_texts })
    }
}
