//! Folders of embedding models that are damaged or do not fit: an error that names the fault.

use std::{fs, path::Path};

use mnemon::{Error, Model, OnnxEmbedder};

use crate::support::{chain, root};

/// A copy of the default model's folder, to be damaged.
fn model_folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let source = root("models/static-en-256");
    for entry in fs::read_dir(source).unwrap() {
        let path = entry.unwrap().path();
        fs::copy(&path, folder.path().join(path.file_name().unwrap())).unwrap();
    }
    folder
}

#[test]
fn a_damaged_model_folder_is_an_error_that_names_the_fault() {
    let load = |folder: &Path| Model::open(folder).and_then(OnnxEmbedder::new);
    let manifest = |folder: &Path, from: &str, to: &str| {
        let path = folder.join("manifest.toml");
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains(from));
        fs::write(path, text.replace(from, to)).unwrap();
    };
    load(model_folder().path()).unwrap();
    type Damage<'a> = &'a dyn Fn(&Path);
    let rows: &[(Damage, &str)] = &[
        (&|f| fs::remove_file(f.join("manifest.toml")).unwrap(), "manifest.toml"),
        (&|f| fs::remove_file(f.join("tokenizer.json")).unwrap(), "tokenizer.json is missing"),
        (&|f| fs::write(f.join("manifest.toml"), "name = ").unwrap(), "manifest"),
        (&|f| manifest(f, "pooling = \"none\"", "pooling = \"best\""), "pooling"),
        (&|f| manifest(f, "normalize = true", "normalize = false"), "normalize = false is not supported"),
        (
            &|f| manifest(f, "dimension = 256", "dimension = 128"),
            "instead of [1, 128], which follows from manifest.toml",
        ),
        (&|f| manifest(f, "max_tokens = 512", "max_tokens = 20"), "leave 20 tokens for a text"),
        (&|f| manifest(f, "\"tokenizer.json\" =", "\"config.json\" ="), "manifest.toml"),
        (&|f| manifest(f, "\"tokenizer.json\" =", "\"other.json\" ="), "does not name tokenizer.json"),
        (&|f| manifest(f, "\"config.json\" =", "\"other.json\" ="), "other.json is missing"),
        (&|f| manifest(f, "\"config.json\" =", "\"../config.json\" ="), "only names of files in the folder itself"),
        (&|f| manifest(f, "[files]", "[files]\n\"more.json\" = \"123\""), "is not a sha256"),
        (&|f| manifest(f, "dimension = 256", "dimension = 0"), "not within 1 to 65535"),
        (&|f| manifest(f, "max_tokens = 512", "max_tokens = 0"), "not within 1 to 131072"),
        (
            &|f| manifest(f, "dimension = 256", "dimension = 256\nmodel_dimension = 128"),
            "dimension 256 is larger than model_dimension 128",
        ),
        (&|f| manifest(f, "pooling =", "output = \"\"\npooling ="), "output is empty"),
        (&|f| manifest(f, "quantization = \"none\"", "quantization = \"dynamic\""), "padding_exact = true contradicts"),
        (
            &|f| {
                let path = f.join("model.onnx");
                let mut bytes = fs::read(&path).unwrap();
                let middle = bytes.len() / 2;
                bytes[middle] ^= 1;
                fs::write(path, bytes).unwrap();
            },
            "the file was damaged or replaced",
        ),
    ];
    for file in ["config.json", "special_tokens_map.json", "tokenizer_config.json"] {
        let folder = model_folder();
        let path = folder.path().join(file);
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, text + " ").unwrap();
        let error = load(folder.path()).unwrap_err();
        assert!(matches!(&error, Error::ModelHashMismatch { path: found, .. } if *found == path), "{error}");
    }
    for (damage, reason) in rows {
        let folder = model_folder();
        damage(folder.path());
        let text = chain(&load(folder.path()).unwrap_err());
        assert!(text.contains(reason), "{reason}: {text}");
    }
    let missing = Model::find("no-such-model").unwrap_err().to_string();
    assert!(missing.contains("no-such-model") && missing.contains("models"), "{missing}");
}
