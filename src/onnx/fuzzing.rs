//! Reads a graph without ONNX Runtime, for the fuzz targets.

use std::path::Path;

use bytes::Bytes;

use super::{
    graph::{files, tensors},
    token_table::TokenTable,
};
use crate::model_folders::folder::{self, Manifest, ModelKind};

const MANIFEST: &str = r#"
name = "fuzz"
description = ""
source = ""
license = ""
dimension = 4
pooling = "none"
normalize = true
max_tokens = 512
query_prefix = ""
document_prefix = ""
quantization = "none"
padding_exact = true
[files]
"#;

/// Parses a graph, finds its weights, rewrites it, and runs it if it is a table of tokens.
pub(crate) fn read_graph(data: &[u8]) {
    let bytes = Bytes::copy_from_slice(data);
    let _ = files::weight_files(data);
    let _ = tensors::rewritten(data, |tensor, out| {
        tensor.put(out);
        Ok(())
    });
    let Ok(model) = files::parse(Path::new("fuzz"), "model.onnx", &bytes) else { return };
    let manifest: Manifest = folder::parse_manifest(MANIFEST, ModelKind::Embedder).expect("the manifest is a constant");
    if let Some(table) = TokenTable::of(&model, &manifest) {
        for token in [0, 1, u32::MAX] {
            let _ = table.vector(&[token]);
        }
    }
}
