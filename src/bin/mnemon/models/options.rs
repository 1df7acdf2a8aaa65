//! What `import` and `pull` can be told of a model.

use mnemon::{ImportOptions, Pooling};

#[derive(clap::Args)]
pub(super) struct Options {
    /// mean, cls, last_token, or none if the graph does it. Default: what the model's files or the catalogue say.
    #[arg(long)]
    pooling: Option<Pooling>,
    /// The graph's output that is read, such as text_embeds.
    #[arg(long, value_name = "NAME")]
    output: Option<String>,
    /// Take the first N components of what the model gives.
    #[arg(long, value_name = "N")]
    dimension: Option<usize>,
    /// Tokens of a run, special ones included.
    #[arg(long, value_name = "N")]
    max_tokens: Option<usize>,
    /// Put before each question, such as "query: ".
    #[arg(long, value_name = "TEXT")]
    query_prefix: Option<String>,
    /// Put before each text that is to be found.
    #[arg(long, value_name = "TEXT")]
    document_prefix: Option<String>,
    /// One line about the model.
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
