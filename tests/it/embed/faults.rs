//! Model files that do not fit, texts that fail, devices that are missing: an error names the fault, and other calls
//! succeed.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use mnemon::{Device, Embedder, Error, Model, OnnxEmbedder, OnnxOptions, Query, RankingStrategy};

use super::{embedder, folder, manifest, open};
use crate::support::{
    Db, Hashing, chain,
    embedders::{Call, Hooked},
    message,
    model_folders::fixture,
    namespace, skipped,
};

#[test]
fn a_folder_whose_files_do_not_fit_is_an_error_that_names_the_fault() {
    let renamed = |from: &str, to: &str| {
        let mut bytes = fixture("encoder_typed");
        while let Some(at) = bytes.windows(from.len()).position(|window| window == from.as_bytes()) {
            bytes[at..at + from.len()].copy_from_slice(to.as_bytes());
        }
        bytes
    };
    let mut truncated = fixture("table");
    truncated.truncate(2000);
    let none = manifest(&[]);
    let rows: &[(Vec<u8>, String, &str)] = &[
        (
            renamed("attention_mask", "attention_task"),
            none.clone(),
            "its inputs are [\"input_ids\", \"attention_task\"",
        ),
        (renamed("token_type_ids", "position_codes"), none.clone(), ", but only [\"input_ids\", \"attention_mask\""),
        (fixture("encoder_two"), none.clone(), "\"last_hidden_state\" is not among them"),
        (fixture("encoder_two"), manifest(&[("output", "\"pooled\"")]), "of shape [1, 16] instead of [1, 4, 16]"),
        (
            fixture("encoder"),
            manifest(&[("output", "\"tokens\"")]),
            "its outputs are [\"last_hidden_state\"]; \"tokens\"",
        ),
        (fixture("encoder"), manifest(&[("pooling", "\"none\"")]), "of shape [1, 4, 16] instead of [1, 16]"),
        (
            fixture("encoder"),
            manifest(&[("dimension", "18")]),
            "instead of [1, 4, 18], which follows from manifest.toml",
        ),
        (fixture("encoder"), manifest(&[("model_dimension", "19")]), "instead of [1, 4, 19]"),
        (fixture("encoder"), manifest(&[("max_tokens", "40")]), "leave 40 tokens for a text"),
        (fixture("encoder_double"), none.clone(), "is Tensor<f64>(batch, sequence, 16), not a tensor of f32 or f16"),
        (fixture("encoder_small"), none.clone(), "does not fit model.onnx: the model fails on token 30521"),
        (b"no graph".to_vec(), none.clone(), "model.onnx: it is not an ONNX file"),
        (truncated, none.clone(), "model.onnx: it is not an ONNX file"),
        (fixture("table_outside"), none.clone(), "[files] does not name table.bin"),
    ];
    for (graph, manifest, reason) in rows {
        let error = open(graph, manifest).unwrap_err();
        assert!(matches!(error, Error::InvalidModel { .. }), "{error:?}");
        let text = chain(&error);
        assert!(text.contains(reason), "{reason}: {text}");
    }
    let unread = folder(&fixture("encoder"), &none);
    std::fs::write(unread.path().join("tokenizer.json"), "{}").unwrap();
    let error = Model::open(unread.path()).and_then(OnnxEmbedder::new).unwrap_err();
    assert!(matches!(error, Error::ModelHashMismatch { .. }), "{error:?}");
}

/// "river" gives what is not a number.
#[test]
fn only_the_text_at_fault_fails() {
    let embedder = embedder("encoder_nan", &manifest(&[]));
    let error = embedder.embed_documents(&["red dog", "blue river", "cat"]).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("a vector of length NaN, so a component is not finite; leave out this text"), "{text}");
    assert!(embedder.embed_query("river").is_err());
    // The same lengths, at the same time.
    std::thread::scope(|scope| {
        for caller in 0..6 {
            let embedder = &embedder;
            scope.spawn(move || {
                for _ in 0..50 {
                    let texts = if caller == 0 { ["red river", "blue cat"] } else { ["red dog", "blue cat"] };
                    let found = embedder.embed_documents(&texts);
                    assert_eq!(found.is_err(), caller == 0);
                }
            });
        }
    });
}

#[test]
fn a_message_that_does_not_embed_stays_pending() {
    let db = Db::new();
    let engine = db.open_with(Arc::new(embedder("encoder_nan", &manifest(&[]))));
    let space = namespace("a");
    let messages = vec![message("1", "red dog"), message("2", "blue river"), message("3", "cat")];
    engine.blocking().put(&space, messages).unwrap();
    let error = chain(&engine.blocking().flush().unwrap_err());
    assert!(error.contains("message \"2\" stays pending") && error.contains("not finite"), "{error}");
    assert_eq!(engine.blocking().pending().unwrap(), 1);
    let found = engine.blocking().recall(&space, Query::new("dog").k(5)).unwrap();
    assert_eq!(found.len(), 2);
}

#[test]
fn odd_texts_are_embedded() {
    let megabyte = "x".repeat(1 << 20);
    let commas = "a,".repeat(1 << 19);
    let odd = ["", " ", "\n\t\u{a0}", "🙂", "\u{0}", "\u{202e}", "a\u{0301}", "\u{fdfa}", &megabyte, &commas[..20_001]];
    for (graph, changes) in [
        ("encoder", manifest(&[])),
        ("table", manifest(&[("dimension", "16"), ("padding_exact", "true")])),
        ("encoder_pooled", manifest(&[("pooling", "\"none\""), ("query_prefix", "\" \"")])),
    ] {
        let embedder = embedder(graph, &changes);
        for (text, passages) in odd.iter().zip(embedder.embed_passages(&odd).unwrap()) {
            assert_eq!((passages[0].range.start, passages.last().unwrap().range.end), (0, text.len()));
            for passage in &passages {
                let norm = passage.vector.iter().map(|x| x * x).sum::<f32>().sqrt();
                assert!((norm - 1.0).abs() < 1e-3, "{norm}");
            }
            assert_eq!(
                passages.iter().map(|passage| passage.range.clone()).collect::<Vec<_>>(),
                embedder.windows(text)
            );
        }
        assert_eq!(embedder.embed_passages(&[]).unwrap(), Vec::<Vec<_>>::new());
    }
}

#[test]
fn a_gpu_that_is_not_there_is_an_error() {
    let mut options = OnnxOptions::default();
    options.device = Device::Cuda { id: 0, memory_limit: Some(1 << 30) };
    let model = Model::bundled;
    let on_gpu = match OnnxEmbedder::open(model(), options) {
        Ok(on_gpu) => on_gpu,
        Err(error) => {
            assert!(matches!(error, Error::DeviceUnavailable { .. }), "{error:?}");
            let text = error.to_string();
            let remedy = if cfg!(feature = "cuda") { "onnxruntime-gpu" } else { "feature `cuda`" };
            assert!(text.starts_with("device \"GPU 0\" cannot run models: ") && text.contains(remedy), "{text}");
            return skipped(&format!("vectors of a GPU: {text}"));
        }
    };
    let on_cpu = OnnxEmbedder::new(model()).unwrap();
    for text in ["", "hello", "When did she go to the support group?", &"a long text ".repeat(40)] {
        let (a, b) = (on_gpu.embed_query(text).unwrap(), on_cpu.embed_query(text).unwrap());
        let cosine: f32 = a.iter().zip(&b).map(|(a, b)| a * b).sum();
        assert!(cosine > 1.0 - 1e-3 || b.iter().all(|x| *x == 0.0), "{text}: {cosine}");
        assert_eq!(on_gpu.embed_documents(&[text]).unwrap()[0], a);
    }
}

/// A library that says it is an ONNX Runtime of long ago.
#[test]
fn a_runtime_that_is_too_old_is_an_error() {
    let db = Db::new();
    let source = db.folder.path().join("old.rs");
    let library =
        db.folder.path().join(format!("{}onnxruntime{}", std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX));
    std::fs::write(
        &source,
        r#"
        #[repr(C)] pub struct Base { api: extern "C" fn(u32) -> usize, version: extern "C" fn() -> *const u8 }
        extern "C" fn api(_: u32) -> usize { 0 }
        extern "C" fn version() -> *const u8 { b"1.16.3\0".as_ptr() }
        static BASE: Base = Base { api, version };
        #[unsafe(no_mangle)] pub extern "C" fn OrtGetApiBase() -> *const Base { &BASE }
        "#,
    )
    .unwrap();
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let compile = |library: &Path| {
        let mut command = std::process::Command::new(rustc);
        command.args(["--edition=2024", "--crate-type=cdylib", "-o"]).arg(library).arg(&source).status()
    };
    if !compile(&library).is_ok_and(|status| status.success()) {
        return skipped("a_runtime_that_is_too_old_is_an_error: no rustc");
    }
    let output = assert_cmd::Command::cargo_bin("mnemon")
        .unwrap()
        .env("ORT_DYLIB_PATH", &library)
        .args(["models", "bench"])
        .arg(folder(&fixture("table"), &manifest(&[])).path())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("version 1.16.3 is too old, 1.24 or newer is needed"), "{text}");
    assert!(text.contains("pip install onnxruntime"), "{text}");
}

/// A question's time is over while others are asked.
#[test]
fn a_query_past_its_deadline_is_an_error_while_others_run() {
    let embedder = embedder("encoder", &manifest(&[]));
    let past = Instant::now().checked_sub(Duration::from_secs(1)).unwrap();
    let long = "red dog ".repeat(39);
    // Nobody else: it is its turn, whatever the time.
    assert!(embedder.embed_query_before("red", Some(past)).is_ok());
    // Two threads that ask without a pause: most of the time it is another's turn.
    let (met, give_up) = (AtomicBool::new(false), Instant::now() + Duration::from_secs(60));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !met.load(Ordering::Relaxed) && Instant::now() < give_up {
                    embedder.embed_query(&long).unwrap();
                }
            });
        }
        while !met.load(Ordering::Relaxed) && Instant::now() < give_up {
            match embedder.embed_query_before("red", Some(past)) {
                Err(Error::DeadlineExceeded) => met.store(true, Ordering::Relaxed),
                other => drop(other.unwrap()),
            }
        }
    });
    assert!(met.into_inner(), "the questions never met");
    let later = Instant::now() + Duration::from_secs(60);
    assert_eq!(embedder.embed_query_before("red", Some(later)).unwrap(), embedder.embed_query("red").unwrap());
}

#[test]
fn a_recall_whose_embedder_is_busy_is_ranked_by_terms() {
    let db = Db::new();
    let busy = |call: &Call<'_>| match call {
        Call::Query { deadline: Some(_), .. } => Err(Error::DeadlineExceeded),
        _ => Ok(()),
    };
    let engine = db.open_with(Arc::new(Hooked::new(Hashing::new(32), busy)));
    let space = namespace("a");
    let messages = vec![message("1", "a red dog"), message("2", "the blue cat"), message("3", "a green tree")];
    engine.blocking().put(&space, messages).unwrap();
    engine.blocking().flush().unwrap();
    let recall = |query: Query| engine.blocking().recall(&space, query);
    // Another question: one that was asked is in the cache.
    let hits = recall(Query::new("dogs").k(2)).unwrap();
    assert!(!hits.cut_short());
    let hits = recall(Query::new("cats").k(2).within(Duration::from_millis(50))).unwrap();
    assert!(hits.cut_short());
    assert_eq!(hits[0].message.id, "2");
    let dense = Query::new("cats").strategy(RankingStrategy::Dense);
    let error = recall(dense.within(Duration::from_millis(50))).unwrap_err();
    assert!(matches!(error, Error::DeadlineExceeded), "{error:?}");
}
