//! Model settings that `import` and `pull` share.

use mnemon::{ImportOptions, Pooling};

#[derive(clap::Args)]
pub(super) struct Options {
    /// How token states become one vector: mean, cls, last_token, or none if the graph does it. Default: as the model's
    /// files or the catalogue state.
    #[arg(long)]
    pooling: Option<Pooling>,
    /// The graph output to read, such as text_embeds.
    #[arg(long, value_name = "NAME")]
    output: Option<String>,
    /// Keep the first N components of the model's vectors (Matryoshka models).
    #[arg(long, value_name = "N")]
    dimension: Option<usize>,
    /// Most tokens of a text in one run, special tokens included; longer texts are split into windows.
    #[arg(long, value_name = "N")]
    max_tokens: Option<usize>,
    /// Text in front of each query, such as "query: ".
    #[arg(long, value_name = "TEXT")]
    query_prefix: Option<String>,
    /// Text in front of each document, such as "passage: ".
    #[arg(long, value_name = "TEXT")]
    document_prefix: Option<String>,
    /// A one-line description of the model.
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
    /// Where the model comes from.
    #[arg(long, value_name = "TEXT")]
    source: Option<String>,
    /// The model's licence.
    #[arg(long, value_name = "TEXT")]
    license: Option<String>,
}

impl Options {
    pub(super) fn named(self, name: String) -> ImportOptions {
        let mut options = ImportOptions::default();
        options.name = Some(name);
        options.pooling = self.pooling;
        options.output = self.output;
        options.dimension = self.dimension;
        options.max_tokens = self.max_tokens;
        options.query_prefix = self.query_prefix;
        options.document_prefix = self.document_prefix;
        options.description = self.description;
        options.source = self.source;
        options.license = self.license;
        options
    }
}
