//! Runs a model folder with fastembed, for comparison.

use std::path::Path;

use anyhow::Context;
use fastembed::{InitOptionsUserDefined, Pooling, TextEmbedding, TokenizerFiles, UserDefinedEmbeddingModel};

pub(super) struct Fastembed {
    model: TextEmbedding,
}

impl Fastembed {
    /// Opens a model with mean pooling, as the small models of sentence-transformers have.
    pub(super) fn open(folder: &str, threads: usize) -> anyhow::Result<Self> {
        let read = |name: &str| {
            let path = Path::new(folder).join(name);
            std::fs::read(&path).with_context(|| path.display().to_string())
        };
        let tokenizer = TokenizerFiles {
            tokenizer_file: read("tokenizer.json")?,
            config_file: read("config.json")?,
            special_tokens_map_file: read("special_tokens_map.json")?,
            tokenizer_config_file: read("tokenizer_config.json")?,
        };
        let model = UserDefinedEmbeddingModel::new(read("model.onnx")?, tokenizer).with_pooling(Pooling::Mean);
        // fastembed's defaults, except for the threads, which are the same for all.
        let options = InitOptionsUserDefined::new().with_intra_threads(threads);
        Ok(Fastembed { model: TextEmbedding::try_new_from_user_defined(model, options)? })
    }

    pub(super) fn embed(&mut self, texts: &[&str], batch: Option<usize>) -> anyhow::Result<()> {
        let rows = self.model.embed(texts, batch)?;
        anyhow::ensure!(rows.len() == texts.len(), "fastembed gave {} rows for {} texts", rows.len(), texts.len());
        Ok(())
    }
}
