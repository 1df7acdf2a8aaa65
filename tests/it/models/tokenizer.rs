//! Files of tokenizers whose parts do not fit each other: an error that says what to do, never a panic.

use std::fs;

use mnemon::{CrossEncoder, Error, ImportOptions, Model, OnnxEmbedder, Pooling, Result};
use serde_json::{Value, json};

use super::external::{faults, imported_from, put};
use crate::support::{
    model_folders::{fixture, reranker_folder_with, tokenizer},
    tiny_models::{SHAPE, Tiny},
};

/// Returns parts of a tokenizer, and what each is replaced by.
fn misfits() -> [(&'static str, Value); 4] {
    let sequence = |id: &str| json!({"Sequence": {"id": id, "type_id": 0}});
    let cls = json!({"SpecialToken": {"id": "[CLS]", "type_id": 0}});
    let template = |single: Value| {
        let pair = json!([sequence("A"), sequence("B")]);
        json!({"type": "TemplateProcessing", "single": single, "pair": pair, "special_tokens": {}})
    };
    [
        ("normalizer", json!({"type": "Precompiled", "precompiled_charsmap": ""})),
        ("post_processor", template(json!([cls, sequence("A")]))),
        ("post_processor", template(json!([sequence("B")]))),
        ("model", json!({"type": "WordLevel", "vocab": {}, "unk_token": "[UNK]"})),
    ]
}

fn exchanged(tokenizer: &[u8], part: &str, value: Value) -> Vec<u8> {
    let mut tokenizer: Value = serde_json::from_slice(tokenizer).unwrap();
    tokenizer[part] = value;
    if part == "model" {
        tokenizer["added_tokens"] = json!([]);
    }
    tokenizer.to_string().into_bytes()
}

fn check<T>(opened: Result<T>) {
    let error = opened.err().expect("it is no tokenizer");
    let text = error.to_string();
    assert!(matches!(error, Error::InvalidModel { .. }), "{error:?}");
    assert!(text.contains("tokenizer.json is not a valid tokenizer") && text.contains("save_pretrained"), "{text}");
}

#[test]
fn tokenizers_that_panic_are_refused() {
    for (part, value) in misfits() {
        let (_folder, model) = imported_from("external.onnx");
        let sound = fs::read(model.join("tokenizer.json")).unwrap();
        let misfit = exchanged(&sound, part, value.clone());
        put(&model, "tokenizer.json", &misfit);
        check(Model::open(&model).and_then(OnnxEmbedder::new));
        assert!(faults(&model)[1].contains("not a valid tokenizer"));

        let folder = tempfile::tempdir().unwrap();
        let source = folder.path().join("source");
        fs::create_dir(&source).unwrap();
        Tiny::new(SHAPE).write(&source, "mean_tokens");
        fs::write(source.join("tokenizer.json"), &misfit).unwrap();
        let mut options = ImportOptions::default();
        options.pooling = Some(Pooling::Mean);
        check(Model::import(&source, folder.path().join("model"), &options));

        let misfit = exchanged(&tokenizer(), part, value);
        check(CrossEncoder::open(reranker_folder_with(&fixture("overlap.onnx"), &misfit, "none").path()));
    }
}

/// Only rerankers need the template that joins a pair.
#[test]
fn tokenizers_of_rerankers_are_tried_with_pairs() {
    let special = |id: &str| json!({"SpecialToken": {"id": id, "type_id": 0}});
    let sequence = json!({"Sequence": {"id": "A", "type_id": 0}});
    let template = json!({
        "type": "TemplateProcessing", "single": [sequence], "pair": [sequence, special("[SEP]"), sequence],
        "special_tokens": {},
    });
    let misfit = exchanged(&tokenizer(), "post_processor", template);
    check(CrossEncoder::open(reranker_folder_with(&fixture("overlap.onnx"), &misfit, "none").path()));
}
