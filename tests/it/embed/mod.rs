//! Embedders and rerankers: small ONNX graphs whose vectors are known, the bundled model, and a client of servers.

mod batching;
mod bundled;
mod faults;
mod forms;
mod rerank;
mod server;
mod submit;

use std::fs;

use mnemon::{Model, OnnxEmbedder, Result};
use tempfile::TempDir;

use crate::support::model_folders::{fixture, sha256, tokenizer};

/// Words that the tokenizer has whole, and their numbers.
pub(crate) const WORDS: [(&str, u32); 8] = [
    ("red", 2417),
    ("blue", 2630),
    ("green", 2665),
    ("dog", 3899),
    ("cat", 4937),
    ("horse", 3586),
    ("tree", 3392),
    ("river", 2314),
];

/// Lines of a manifest that most of these models have.
const MANIFEST: &str = "pooling = \"mean\"\ndimension = 16\nmax_tokens = 80\nquantization = \"none\"\n\
                        query_prefix = \"\"\ndocument_prefix = \"\"\n";

/// A model's folder: a graph of the fixtures, the default model's tokenizer, and these lines in the manifest.
pub(crate) fn folder(graph: &[u8], manifest: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let files = [
        ("model.onnx", graph.to_vec()),
        ("tokenizer.json", tokenizer()),
        ("config.json", b"{}".to_vec()),
        ("special_tokens_map.json", b"{}".to_vec()),
        ("tokenizer_config.json", b"{}".to_vec()),
    ];
    let mut text = format!(
        "name = \"test\"\ndescription = \"a test\"\nsource = \"made here\"\nlicense = \"MIT\"\nnormalize = true\n\
         {manifest}\n[files]\n"
    );
    for (name, bytes) in files {
        let hash = sha256(&bytes);
        text += &format!("{name:?} = {hash:?}\n");
        fs::write(folder.path().join(name), bytes).unwrap();
    }
    fs::write(folder.path().join("manifest.toml"), text).unwrap();
    folder
}

fn open(graph: &[u8], manifest: &str) -> Result<OnnxEmbedder> {
    OnnxEmbedder::new(Model::open(folder(graph, manifest).path())?)
}

fn embedder(graph: &str, manifest: &str) -> OnnxEmbedder {
    open(&fixture(graph), manifest).unwrap()
}

/// [`MANIFEST`] with another value for a key.
pub(crate) fn manifest(changes: &[(&str, &str)]) -> String {
    let line = |line: &str| {
        let key = line.split(" =").next().unwrap();
        let value = changes.iter().find(|(changed, _)| *changed == key).map(|(_, value)| format!("{key} = {value}"));
        value.unwrap_or_else(|| line.to_owned())
    };
    let known: Vec<String> = MANIFEST.lines().map(line).collect();
    let more = changes.iter().filter(|(key, _)| !MANIFEST.contains(&format!("{key} =")));
    known.into_iter().chain(more.map(|(key, value)| format!("{key} = {value}"))).collect::<Vec<_>>().join("\n")
}
