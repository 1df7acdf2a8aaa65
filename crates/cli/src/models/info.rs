//! `mnemon models info`

use mnemon::{Model, ModelFile, ModelInfo, RerankerInfo};

use super::list;
use crate::{
    output::{self, Format},
    status::Status,
};

/// Show the manifest and the files of an embedding model or a reranker.
#[derive(clap::Args)]
pub(super) struct Args {
    /// A model folder or name.
    #[arg(value_name = "DIR|NAME")]
    model: String,
}

pub(super) fn run(args: &Args, format: Format) -> anyhow::Result<Status> {
    match (Model::find(&args.model), RerankerInfo::find(&args.model)) {
        (Err(_), Ok(info)) => print_reranker(&info, format)?,
        (model, _) => print(&model?.info()?, format)?,
    }
    Ok(Status::SUCCESS)
}

/// Prints a model's information, one fact per line.
pub(super) fn print(info: &ModelInfo, format: Format) -> anyhow::Result<()> {
    if format == Format::Json {
        return output::json(info);
    }
    let of = info.model_dimension.map(|width| format!(" of {width}")).unwrap_or_default();
    let output = info.output.as_ref().map(|output| format!(", read from output {output}")).unwrap_or_default();
    let padding = if info.padding_exact { "exact" } else { "not exact" };
    let facts = [
        ("name", info.name.clone()),
        ("folder", info.path.display().to_string()),
        ("description", info.description.clone()),
        ("source", info.source.clone()),
        ("licence", info.license.clone()),
        ("dimension", format!("{}{of}", info.dimension)),
        ("pooling", format!("{}{output}", info.pooling)),
        ("max tokens", info.max_tokens.to_string()),
        ("query prefix", format!("{:?}", info.query_prefix)),
        ("document prefix", format!("{:?}", info.document_prefix)),
        ("quantization", info.quantization.to_string()),
        ("padding", padding.to_owned()),
        ("identity", info.hash.clone()),
    ];
    print_facts(&facts, &info.files)
}

fn print_reranker(info: &RerankerInfo, format: Format) -> anyhow::Result<()> {
    if format == Format::Json {
        return output::json(&list::reranker(info)?);
    }
    let facts = [
        ("name", info.name.clone()),
        ("kind", "reranker".to_owned()),
        ("folder", info.path.display().to_string()),
        ("description", info.description.clone()),
        ("source", info.source.clone()),
        ("licence", info.license.clone()),
        ("max tokens", info.max_tokens.to_string()),
        ("quantization", info.quantization.to_string()),
    ];
    print_facts(&facts, &info.files)
}

fn print_facts(facts: &[(&str, String)], files: &[ModelFile]) -> anyhow::Result<()> {
    for (name, value) in facts {
        output::line(&format!("{name:<16} {value}"))?;
    }
    files.iter().try_for_each(|file| output::line(&format!("{:>12}  {}  {}", file.bytes, file.sha256, file.name)))
}
