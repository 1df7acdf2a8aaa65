//! Folders of models, made of the graphs in `tests/it/fixtures` and the default model's tokenizer.

use std::fs;

use sha2::{Digest, Sha256};
use tempfile::TempDir;

use super::root;

/// The `max_tokens` of the rerankers; the tokenizer adds 3 tokens to a pair.
pub(crate) const RERANKER_MAX_TOKENS: usize = 67;

/// Returns the bytes of a file of the fixtures; graphs are named without their extension.
pub(crate) fn fixture(name: &str) -> Vec<u8> {
    let name = if name.contains('.') { name.to_owned() } else { format!("{name}.onnx") };
    fs::read(root("tests/it/fixtures").join(name)).unwrap()
}

/// Returns the default model's tokenizer.
pub(crate) fn tokenizer() -> Vec<u8> {
    fs::read(root("models/static-en-256/tokenizer.json")).unwrap()
}

/// Returns the SHA-256 in hexadecimal digits.
pub(crate) fn sha256(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns a reranker's folder with this graph.
pub(crate) fn reranker_folder(graph: &[u8], quantization: &str) -> TempDir {
    reranker_folder_with(graph, &tokenizer(), quantization)
}

pub(crate) fn reranker_folder_with(graph: &[u8], tokenizer: &[u8], quantization: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let manifest = format!(
        "kind = \"reranker\"\nname = \"overlap\"\ndescription = \"shared words\"\nsource = \"made here\"\nlicense = \"MIT\"\n\
         max_tokens = {RERANKER_MAX_TOKENS}\nquantization = {quantization:?}\n\n[files]\n\"model.onnx\" = {:?}\n\"tokenizer.json\" = {:?}\n",
        sha256(graph),
        sha256(tokenizer)
    );
    for (name, bytes) in [("model.onnx", graph), ("tokenizer.json", tokenizer), ("manifest.toml", manifest.as_bytes())]
    {
        fs::write(folder.path().join(name), bytes).unwrap();
    }
    folder
}
