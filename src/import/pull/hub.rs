//! The models of fastembed's catalogue, on a hub with the protocol of huggingface.co, with the prefixes of queries and
//! documents that they need.

use std::path::Path;

use fastembed::{EmbeddingModel, ModelInfo, OutputKey, Pooling as FastembedPooling, TextEmbedding};
use serde::Deserialize;

use super::{
    super::description::ImportOptions,
    download::{CatalogueEntry, Checksum, DownloadedModel, Downloader, Progress, RemoteFile, variable},
};
use crate::{
    client::http::{Failure, shown_url},
    model_folders::{Pooling, is_plain},
};

const HUB: &str = "https://huggingface.co";

/// The files beside the graph that an import reads if the repository has them.
const FILES: [&str; 8] = [
    "tokenizer.json",
    "vocab.txt",
    "config.json",
    "tokenizer_config.json",
    "modules.json",
    "sentence_bert_config.json",
    "config_sentence_transformers.json",
    "README.md",
];

/// The hub's description of a model.
#[derive(Deserialize)]
struct Repository {
    /// The commit from which all files are downloaded.
    sha: String,
    siblings: Vec<RepositoryFile>,
}

#[derive(Deserialize)]
struct RepositoryFile {
    rfilename: String,
    size: Option<u64>,
    #[serde(rename = "blobId")]
    blob_id: Option<String>,
    lfs: Option<LfsFile>,
}

/// A file in git's large file storage.
#[derive(Deserialize)]
struct LfsFile {
    sha256: String,
    size: u64,
}

/// Returns fastembed's catalogue, sorted by the names of our entries.
pub(super) fn models() -> Vec<(String, ModelInfo<EmbeddingModel>)> {
    let mut models: Vec<_> =
        TextEmbedding::list_supported_models().into_iter().map(|model| (entry_name(&model), model)).collect();
    models.sort_by(|(a, _), (b, _)| a.cmp(b));
    models
}

/// Returns the entry's name, which is the repository's name and the variant of the graph, as in
/// `all-MiniLM-L6-v2-quantized`.
fn entry_name(model: &ModelInfo<EmbeddingModel>) -> String {
    let repository = model.model_code.rsplit('/').next().unwrap_or_default();
    let file = model.model_file.rsplit('/').next().unwrap_or_default();
    match file.trim_end_matches(".onnx").strip_prefix("model_") {
        Some(kind) => format!("{repository}-{kind}"),
        None => repository.to_owned(),
    }
}

pub(super) fn entries() -> impl Iterator<Item = CatalogueEntry> {
    models().into_iter().map(|(name, model)| CatalogueEntry {
        name,
        description: model.description,
        source: format!("hub: {} {}", model.model_code, model.model_file),
        dimension: model.dim,
    })
}

/// Returns the options that a model is imported with.
pub(super) fn options(model: &ModelInfo<EmbeddingModel>) -> ImportOptions {
    let pooling = TextEmbedding::get_default_pooling_method(&model.model).map(|pooling| match pooling {
        FastembedPooling::Mean => Pooling::Mean,
        FastembedPooling::Cls => Pooling::Cls,
    });
    let output = output(model);
    let (query_prefix, document_prefix) = prefixes(&model.model_code);
    ImportOptions {
        description: Some(model.description.clone()),
        graph: Some((&model.model_file).into()),
        // A named output has one row for each text.
        pooling: if output.is_some() { Some(Pooling::None) } else { pooling },
        output: output.map(str::to_owned),
        query_prefix: Some(query_prefix.to_owned()),
        document_prefix: Some(document_prefix.to_owned()),
        ..Default::default()
    }
}

/// Returns the output that the catalogue names. For CLIP it is the vector in the space that texts share with images.
fn output(model: &ModelInfo<EmbeddingModel>) -> Option<&'static str> {
    match (&model.output_key, &model.model) {
        (Some(OutputKey::ByName(name)), _) => Some(*name),
        (None, EmbeddingModel::ClipVitB32) => Some("text_embeds"),
        _ => None,
    }
}

/// Returns the beginning of the source in the manifest of a downloaded model, which is followed by the commit.
pub(super) fn source(model: &ModelInfo<EmbeddingModel>) -> String {
    format!("{} {} at ", model.model_code, model.model_file)
}

/// Downloads the files that an import needs.
pub(super) fn fetch(
    model: &ModelInfo<EmbeddingModel>,
    into: &Path,
    progress: Progress<'_>,
) -> Result<DownloadedModel, Failure> {
    let hub = variable("HF_ENDPOINT").unwrap_or_else(|| HUB.to_owned());
    let hub = hub.trim_end_matches('/');
    let (code, hub_shown) = (&model.model_code, shown_url(hub));
    let client = Downloader::new(variable("HF_TOKEN"))?;
    let found: Repository = client.json(&format!("{hub}/api/models/{code}?blobs=true"), "application/json")?;
    let graph = &model.model_file;
    for needed in std::iter::once(graph).chain(&model.additional_files) {
        if !found.siblings.iter().any(|file| file.rfilename == *needed) {
            return Err(Failure::lasting(format!("{hub_shown} no longer has {needed} of {code}")));
        }
    }
    for listed in found.siblings.iter().filter(|file| is_read(model, &file.rfilename)) {
        let file = &listed.rfilename;
        let unknown =
            || Failure::lasting(format!("{hub_shown} does not state the size and the hash of {file} of {code}"));
        let (bytes, checksum) = match (&listed.lfs, listed.size, &listed.blob_id) {
            (Some(large), ..) => (large.size, Checksum::Sha256(large.sha256.clone())),
            (None, Some(size), Some(blob)) => (size, Checksum::Git(blob.clone())),
            _ => return Err(unknown()),
        };
        let url = format!("{hub}/{code}/resolve/{}/{file}", found.sha);
        client.file(&RemoteFile { url, bytes, checksum }, &into.join(file), &mut |done| progress(file, done, bytes))?;
    }
    Ok(DownloadedModel { folder: into.to_path_buf(), source: format!("{}{} of {hub_shown}", source(model), found.sha) })
}

/// Returns true if an import reads this file of the repository. No other file is downloaded.
fn is_read(model: &ModelInfo<EmbeddingModel>, file: &str) -> bool {
    let is_of_module = || match file.split_once('/') {
        Some((module, "config.json")) => is_plain(module) && module.starts_with(|first: char| first.is_ascii_digit()),
        _ => false,
    };
    file == model.model_file
        || model.additional_files.iter().any(|more| more == file)
        || FILES.contains(&file)
        || is_of_module()
}

/// The prefixes that the models of these repositories need.
struct PrefixRow {
    repositories: &'static [&'static str],
    query: &'static str,
    document: &'static str,
}

const INSTRUCTION: &str = "Represent this sentence for searching relevant passages: ";

/// The prefixes of queries and documents that models need. fastembed's catalogue does not contain them: they are taken
/// from the model cards. An ONNX version of a model (Qdrant's, Xenova's) has the prefixes of the original.
const PREFIXES: [PrefixRow; 7] = [
    // intfloat/multilingual-e5-small, "How to use": each input starts with "query: " or "passage: ".
    PrefixRow {
        repositories: &[
            "intfloat/multilingual-e5-small",
            "intfloat/multilingual-e5-base",
            "Qdrant/multilingual-e5-large-onnx",
        ],
        query: "query: ",
        document: "passage: ",
    },
    // nomic-ai/nomic-embed-text-v1.5, "Task instruction prefixes"; lightonai/modernbert-embed-large, "Usage": the same.
    PrefixRow {
        repositories: &[
            "nomic-ai/nomic-embed-text-v1",
            "nomic-ai/nomic-embed-text-v1.5",
            "lightonai/modernbert-embed-large",
        ],
        query: "search_query: ",
        document: "search_document: ",
    },
    // BAAI/bge-base-en-v1.5, "Model List": the query instruction for retrieval; passages have none.
    PrefixRow {
        repositories: &[
            "Xenova/bge-small-en-v1.5",
            "Xenova/bge-base-en-v1.5",
            "Xenova/bge-large-en-v1.5",
            "Qdrant/bge-small-en-v1.5-onnx-Q",
            "Qdrant/bge-base-en-v1.5-onnx-Q",
            "Qdrant/bge-large-en-v1.5-onnx-Q",
        ],
        query: INSTRUCTION,
        document: "",
    },
    // The same list, for the Chinese models.
    PrefixRow {
        repositories: &["Xenova/bge-small-zh-v1.5", "Xenova/bge-large-zh-v1.5"],
        query: "为这个句子生成表示以用于检索相关文章：",
        document: "",
    },
    // mixedbread-ai/mxbai-embed-large-v1, "Quickstart": the prompt for queries.
    PrefixRow { repositories: &["mixedbread-ai/mxbai-embed-large-v1"], query: INSTRUCTION, document: "" },
    // Snowflake/snowflake-arctic-embed-m, "Usage": the query prefix.
    PrefixRow {
        repositories: &[
            "snowflake/snowflake-arctic-embed-xs",
            "snowflake/snowflake-arctic-embed-s",
            "Snowflake/snowflake-arctic-embed-m",
            "snowflake/snowflake-arctic-embed-m-long",
            "snowflake/snowflake-arctic-embed-l",
        ],
        query: INSTRUCTION,
        document: "",
    },
    // google/embeddinggemma-300m, "Prompt instructions": retrieval.
    PrefixRow {
        repositories: &["onnx-community/embeddinggemma-300m-ONNX"],
        query: "task: search result | query: ",
        document: "title: none | text: ",
    },
];

/// Returns the prefixes of queries and documents of a repository's model, which are empty if its model card asks for none.
fn prefixes(repository: &str) -> (&'static str, &'static str) {
    let row = PREFIXES.iter().find(|row| row.repositories.contains(&repository));
    row.map_or(("", ""), |row| (row.query, row.document))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn options_name_the_outputs_of_the_catalogue() {
        for (name, model) in models() {
            let options = options(&model);
            let wanted = match name.as_str() {
                name if name.starts_with("embeddinggemma") => Some("sentence_embedding"),
                "clip-ViT-B-32-text" => Some("text_embeds"),
                _ => None,
            };
            assert_eq!(options.output.as_deref(), wanted, "{name}");
            assert_eq!(options.pooling == Some(Pooling::None), wanted.is_some(), "{name}");
            // `output` ignores outputs that are given by position.
            assert!(matches!(model.output_key, None | Some(OutputKey::ByName(_))), "{name}");
        }
    }

    #[test]
    fn every_repository_of_the_catalogue_has_known_prefixes() {
        // Models whose cards ask for no prefix.
        const NONE: [&str; 13] = [
            "Qdrant/all-MiniLM-L6-v2-onnx",
            "Xenova/all-MiniLM-L6-v2",
            "Xenova/all-MiniLM-L12-v2",
            "Xenova/all-mpnet-base-v2",
            "Qdrant/paraphrase-multilingual-MiniLM-L12-v2-onnx-Q",
            "Xenova/paraphrase-multilingual-MiniLM-L12-v2",
            "Xenova/paraphrase-multilingual-mpnet-base-v2",
            "BAAI/bge-m3",
            "Alibaba-NLP/gte-base-en-v1.5",
            "Alibaba-NLP/gte-large-en-v1.5",
            "Qdrant/clip-ViT-B-32-text",
            "jinaai/jina-embeddings-v2-base-code",
            "jinaai/jina-embeddings-v2-base-en",
        ];
        let catalogue: BTreeSet<String> = models().into_iter().map(|(_, model)| model.model_code).collect();
        let known: BTreeSet<String> =
            PREFIXES.iter().flat_map(|row| row.repositories).chain(&NONE).map(|name| (*name).to_owned()).collect();
        assert_eq!(catalogue, known);
        assert_eq!(prefixes("intfloat/multilingual-e5-base"), ("query: ", "passage: "));
        assert_eq!(prefixes("BAAI/bge-m3"), ("", ""));
    }
}
