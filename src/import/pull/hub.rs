//! The models of fastembed's catalogue, on a hub with the protocol of huggingface.co.

use std::{env, path::Path};

use fastembed::{EmbeddingModel, ModelInfo, OutputKey, Pooling as FastembedPooling, TextEmbedding};
use serde::Deserialize;

use super::{
    super::options::ImportOptions,
    download::{Checksum, Downloader, Wanted},
    entry::{CatalogueEntry, Fetched, Progress},
    prefixes,
};
use crate::{
    client::http::{Failure, shown},
    models::{Pooling, is_plain},
};

const HUB: &str = "https://huggingface.co";

/// Files beside the graph that an import reads, if the repository has them.
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
    /// The commit that all files are downloaded from.
    sha: String,
    siblings: Vec<Sibling>,
}

#[derive(Deserialize)]
struct Sibling {
    rfilename: String,
    size: Option<u64>,
    #[serde(rename = "blobId")]
    blob_id: Option<String>,
    lfs: Option<Large>,
}

/// A file in large file storage.
#[derive(Deserialize)]
struct Large {
    sha256: String,
    size: u64,
}

/// Returns fastembed's catalogue, sorted by the names of the entries here.
pub(super) fn rows() -> Vec<(String, ModelInfo<EmbeddingModel>)> {
    let mut rows: Vec<_> =
        TextEmbedding::list_supported_models().into_iter().map(|model| (name(&model), model)).collect();
    rows.sort_by(|(a, _), (b, _)| a.cmp(b));
    rows
}

/// Returns the entry's name: the repository's name, and the variant of the graph, as in `all-MiniLM-L6-v2-quantized`.
fn name(model: &ModelInfo<EmbeddingModel>) -> String {
    let repository = model.model_code.rsplit('/').next().unwrap_or_default();
    let file = model.model_file.rsplit('/').next().unwrap_or_default();
    match file.trim_end_matches(".onnx").strip_prefix("model_") {
        Some(kind) => format!("{repository}-{kind}"),
        None => repository.to_owned(),
    }
}

pub(super) fn entries() -> impl Iterator<Item = CatalogueEntry> {
    rows().into_iter().map(|(name, model)| CatalogueEntry {
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
    let (query_prefix, document_prefix) = prefixes::of(&model.model_code);
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

/// Returns the output that the catalogue names; for CLIP, the vector in the space shared with images.
fn output(model: &ModelInfo<EmbeddingModel>) -> Option<&'static str> {
    match (&model.output_key, &model.model) {
        (Some(OutputKey::ByName(name)), _) => Some(*name),
        (None, EmbeddingModel::ClipVitB32) => Some("text_embeds"),
        _ => None,
    }
}

/// Returns the beginning of the source that the manifest of such a model has.
pub(super) fn source(model: &ModelInfo<EmbeddingModel>) -> String {
    format!("{} {} at ", model.model_code, model.model_file)
}

/// Downloads the files that an import needs.
pub(super) fn fetch(
    model: &ModelInfo<EmbeddingModel>,
    into: &Path,
    progress: Progress<'_>,
) -> Result<Fetched, Failure> {
    let variable = |name| env::var(name).ok().map(|value| value.trim().to_owned()).filter(|value| !value.is_empty());
    let hub = variable("HF_ENDPOINT").unwrap_or_else(|| HUB.to_owned());
    let hub = hub.trim_end_matches('/');
    let (code, hub_shown) = (&model.model_code, shown(hub));
    let client = Downloader::new(variable("HF_TOKEN"))?;
    let found: Repository = client.json(&format!("{hub}/api/models/{code}?blobs=true"), "application/json")?;
    let graph = &model.model_file;
    for needed in std::iter::once(graph).chain(&model.additional_files) {
        if !found.siblings.iter().any(|sibling| sibling.rfilename == *needed) {
            return Err(Failure::lasting(format!("{hub_shown} no longer has {needed} of {code}")));
        }
    }
    for sibling in found.siblings.iter().filter(|sibling| wanted(model, &sibling.rfilename)) {
        let file = &sibling.rfilename;
        let unknown =
            || Failure::lasting(format!("{hub_shown} does not state the size and the hash of {file} of {code}"));
        let (bytes, checksum) = match (&sibling.lfs, sibling.size, &sibling.blob_id) {
            (Some(large), ..) => (large.size, Checksum::Sha256(large.sha256.clone())),
            (None, Some(size), Some(blob)) => (size, Checksum::Git(blob.clone())),
            _ => return Err(unknown()),
        };
        let url = format!("{hub}/{code}/resolve/{}/{file}", found.sha);
        client.file(&Wanted { url, bytes, checksum }, &into.join(file), &mut |done| progress(file, done, bytes))?;
    }
    Ok(Fetched { folder: into.to_path_buf(), source: format!("{}{} of {hub_shown}", source(model), found.sha) })
}

/// Returns true if an import reads this file of the repository. No other file is downloaded.
fn wanted(model: &ModelInfo<EmbeddingModel>, file: &str) -> bool {
    let of_module = || match file.split_once('/') {
        Some((module, "config.json")) => is_plain(module) && module.starts_with(|first: char| first.is_ascii_digit()),
        _ => false,
    };
    file == model.model_file
        || model.additional_files.iter().any(|more| more == file)
        || FILES.contains(&file)
        || of_module()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_name_the_outputs_of_the_catalogue() {
        for (name, model) in rows() {
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
}
