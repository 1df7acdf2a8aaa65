//! Which model folders are one model: the same weights, tokenizer and settings, whichever tool built the graph.

use std::{fs, path::Path};

use mnemon::{ImportOptions, Model};

use super::{Output, mnemon, run};
use crate::support::{
    Db,
    model_folders::sha256,
    tiny_models::{SHAPE, Shape, Tiny},
};

/// Imports a tiny encoder made from this seed.
fn import(seed: u64, folder: &Path) -> Model {
    let source = tempfile::tempdir().unwrap();
    Tiny::new(Shape { seed, ..SHAPE }).write(source.path(), "mean_tokens");
    let mut options = ImportOptions::default();
    options.name = Some("tiny".into());
    Model::import(source.path(), folder, &options).unwrap()
}

/// Copies a model folder, with changed contents of the graph and of the manifest.
fn copy(from: &Path, to: &Path, graph: impl FnOnce(&mut Vec<u8>), manifest: impl FnOnce(&mut String)) -> Model {
    fs::create_dir_all(to).unwrap();
    fs::copy(from.join("tokenizer.json"), to.join("tokenizer.json")).unwrap();
    let mut bytes = fs::read(from.join("model.onnx")).unwrap();
    let before = sha256(&bytes);
    graph(&mut bytes);
    let mut text = fs::read_to_string(from.join("manifest.toml")).unwrap().replace(&before, &sha256(&bytes));
    manifest(&mut text);
    fs::write(to.join("model.onnx"), bytes).unwrap();
    fs::write(to.join("manifest.toml"), text).unwrap();
    Model::open(to).unwrap()
}

/// Removes what versions before `made_from` did not write.
fn of_an_earlier_version(manifest: &mut String) {
    let at = manifest.find("\n[made_from]").expect("the manifest names the weights");
    let rest = &manifest[at + 1..];
    let end = rest.find("\n[").map_or(manifest.len(), |end| at + 1 + end);
    manifest.replace_range(at..end, "");
}

fn ingest(db: &Db, model: &Path) -> Output {
    let line = r#"{"role":"user","content":"red dog runs","id":"1"}"#;
    run(mnemon()
        .args(["ingest", "--namespace", "a", "--model"])
        .arg(model)
        .arg("--db")
        .arg(&db.path)
        .arg("-")
        .write_stdin(line))
}

#[test]
fn the_same_weights_are_the_same_model() {
    let home = tempfile::tempdir().unwrap();
    let [built, rebuilt, earlier, other] = ["built", "rebuilt", "earlier", "other"].map(|name| home.path().join(name));
    let model = import(1, &built);
    // Another tool builds another file of the same weights; here it has a remark (field 6 of the format).
    let same = copy(&built, &rebuilt, |graph| graph.extend([0x32, 1, b'x']), |_| {});
    assert_eq!(model.identity(), same.identity());
    assert_ne!(model.identity(), import(2, &other).identity());
    let db = Db::new();
    assert_eq!(ingest(&db, &built).code, 0);
    let opened = ingest(&db, &rebuilt);
    assert_eq!(opened.code, 0, "{}", opened.stderr);

    // A database of an earlier version, and its folder, which has the old identity.
    let old = copy(&built, &earlier, |_| {}, of_an_earlier_version);
    assert_ne!(old.identity().hash, model.identity().hash);
    let db = Db::new();
    for folder in [&earlier, &built] {
        let opened = ingest(&db, folder);
        assert_eq!(opened.code, 0, "{}", opened.stderr);
    }
    let refused = ingest(&db, &other);
    assert!(refused.code == 1 && refused.stderr.contains(&old.identity().to_string()), "{}", refused.stderr);
}

#[test]
fn of_two_models_of_one_name_the_one_that_made_the_database_is_opened() {
    let home = tempfile::tempdir().unwrap();
    let [first, second] = ["tiny", "another"].map(|name| home.path().join(name));
    let [first, made] = [import(1, &first), import(2, &second)].map(|model| model.identity().clone());
    assert_eq!(first.name, made.name);
    let db = Db::new();
    assert_eq!(ingest(&db, &second).code, 0);
    let recall = || {
        let arguments = ["recall", "--namespace", "a", "red dog", "--db"];
        run(mnemon().env("MNEMON_MODELS", home.path()).args(arguments).arg(&db.path))
    };
    let found = recall();
    assert!(found.code == 0 && found.stdout.contains("red dog runs"), "{}", found.stderr);

    // Without it, the error tells the two apart.
    fs::remove_dir_all(&second).unwrap();
    let refused = recall();
    let place = format!("{first} in {}", home.path().join("tiny").display());
    for part in [made.to_string(), place, "reindex".to_owned()] {
        assert!(refused.code == 1 && refused.stderr.contains(&part), "{part}: {}", refused.stderr);
    }
}
