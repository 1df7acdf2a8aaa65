//! Weights in files beside the graph: read from the model's folder, refused from everywhere else.

use std::{
    fs,
    path::{Path, PathBuf},
};

use assert_cmd::Command;
use mnemon::{CrossEncoder, Embedder, ImportOptions, Model, OnnxEmbedder, Pooling};
use tempfile::TempDir;

use crate::support::{
    chain,
    model_folders::{fixture, reranker_folder, sha256},
    tiny_models::{SHAPE, Tiny, cosine, ids, mean},
};

/// Graphs with the table as an initializer, and as a constant in a node of a branch with 32-bit numbers.
const GRAPHS: [&str; 2] = ["external.onnx", "external_inner.onnx"];

/// A token table with its rows in `table.bin`, imported.
fn imported() -> (TempDir, PathBuf) {
    imported_from("external.onnx")
}

pub(super) fn imported_from(graph: &str) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let (source, model) = (folder.path().join("source"), folder.path().join("model"));
    fs::create_dir_all(source.join("onnx")).unwrap();
    Tiny::new(SHAPE).write(&source, "mean_tokens");
    fs::write(source.join("onnx/model.onnx"), fixture(graph)).unwrap();
    fs::write(source.join("onnx/table.bin"), fixture("external.bin")).unwrap();
    let mut options = ImportOptions::default();
    options.pooling = Some(Pooling::Mean);
    Model::import(&source, &model, &options).unwrap();
    (folder, model)
}

/// Returns the errors of opening and of verifying a folder.
pub(super) fn faults(folder: &Path) -> [String; 2] {
    let opened = Model::open(folder).and_then(OnnxEmbedder::new).map(|_| ());
    let problems = Model::open(folder).map_or_else(|error| chain(&error), |model| model.verify().unwrap().join("\n"));
    [opened.map_or_else(|error| chain(&error), |()| String::new()), problems]
}

/// Puts the file into the folder, with its hash in the manifest.
pub(super) fn put(folder: &Path, file: &str, bytes: &[u8]) {
    fs::write(folder.join(file), bytes).unwrap();
    let hash = sha256(bytes);
    let manifest = fs::read_to_string(folder.join("manifest.toml")).unwrap();
    let start = format!("\"{file}\" =");
    let lines = manifest.lines().map(|line| match line.starts_with(&start) {
        true => format!("{start} \"{hash}\"\n"),
        false => format!("{line}\n"),
    });
    let manifest: String = lines.collect();
    fs::write(folder.join("manifest.toml"), manifest).unwrap();
}

fn replaced(bytes: &[u8], from: &str, to: &str) -> Vec<u8> {
    assert_eq!(from.len(), to.len(), "lengths are in the file");
    let at = bytes.windows(from.len()).position(|window| window == from.as_bytes()).unwrap();
    [&bytes[..at], to.as_bytes(), &bytes[at + from.len()..]].concat()
}

#[test]
fn weights_beside_the_graph_are_imported_and_run() {
    let table: Vec<f64> =
        fixture("external.bin").as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes).into()).collect();
    let rows: Vec<Vec<f64>> = ids("red dog runs").iter().map(|id| table[id * 4..][..4].to_vec()).collect();
    for graph in GRAPHS {
        let (_folder, model) = imported_from(graph);
        assert_eq!(faults(&model), ["", ""], "{graph}");
        let embedder = OnnxEmbedder::new(Model::open(&model).unwrap()).unwrap();
        assert!(cosine(&embedder.embed_query("red dog runs").unwrap(), &mean(&rows)) > 0.999_999, "{graph}");
    }
}

/// Files of the same name where the program runs are not the model's.
#[test]
fn weights_in_the_working_directory_are_not_read() {
    let elsewhere = tempfile::tempdir().unwrap();
    fs::write(elsewhere.path().join("table.bin"), f32::NAN.to_le_bytes().repeat(68)).unwrap();
    for graph in GRAPHS {
        let (_folder, model) = imported_from(graph);
        let mut command = Command::cargo_bin("mnemon").unwrap();
        let output = command.current_dir(&elsewhere).args(["models", "verify"]).arg(&model).output().unwrap();
        assert_eq!(String::from_utf8(output.stdout).unwrap(), "sound\n", "{graph}");
    }
}

#[test]
fn weights_elsewhere_are_refused() {
    // What is named is there each time, with the right bytes: only the place is wrong.
    for location in ["../ta.bin", "./tab.bin", "a/tab.bin", "/tmp/tbin", "a\\tab.bin", "C:tab.bin", "........."] {
        let (folder, model) = imported();
        fs::create_dir(model.join("a")).unwrap();
        for place in ["ta.bin", "model/tab.bin", "model/a/tab.bin", "model/a\\tab.bin", "model/C:tab.bin"] {
            fs::write(folder.path().join(place), fixture("external.bin")).unwrap();
        }
        put(&model, "model.onnx", &replaced(&fixture("external.onnx"), "table.bin", location));
        for fault in faults(&model) {
            let plain = location == ".........";
            let reason = if plain {
                "[files] does not name ........."
            } else {
                "only files in the model's own folder are allowed"
            };
            assert!(fault.contains(reason), "{location}: {fault}");
        }
    }
}

#[test]
fn weights_are_checked() {
    type Damage<'d> = &'d dyn Fn(&Path, &Path);
    let rows: &[(Damage, &str)] = &[
        (&|_, m| fs::write(m.join("table.bin"), [0; 272]).unwrap(), "but manifest.toml has"),
        (&|_, m| put(m, "table.bin", &fixture("external.bin")[..200]), "ends at byte 272 of table.bin, which has 200"),
        (&|_, m| fs::remove_file(m.join("table.bin")).unwrap(), "table.bin is missing"),
        (
            &|_, m| {
                let manifest = fs::read_to_string(m.join("manifest.toml")).unwrap();
                let lines: Vec<&str> = manifest.lines().filter(|line| !line.starts_with("\"table.bin\"")).collect();
                fs::write(m.join("manifest.toml"), lines.join("\n")).unwrap();
            },
            "[files] does not name table.bin",
        ),
        #[cfg(unix)]
        (
            &|folder, m| {
                fs::rename(m.join("table.bin"), folder.join("outside.bin")).unwrap();
                std::os::unix::fs::symlink(folder.join("outside.bin"), m.join("table.bin")).unwrap();
            },
            "is a symbolic link out of the folder",
        ),
        (&|_, m| put(m, "model.onnx", b"\x3a\xff\xff\xff\xff\x0f"), "model.onnx: it is not an ONNX file"),
    ];
    for (damage, reason) in rows {
        let (folder, model) = imported();
        damage(folder.path(), &model);
        for fault in faults(&model) {
            assert!(fault.contains(reason), "{reason}: {fault}");
        }
    }
    // A link to a file of the folder itself leads nowhere else.
    #[cfg(unix)]
    {
        let (_folder, model) = imported();
        fs::rename(model.join("table.bin"), model.join("kept.bin")).unwrap();
        std::os::unix::fs::symlink("kept.bin", model.join("table.bin")).unwrap();
        assert_eq!(faults(&model), ["", ""]);
    }
}

#[test]
fn a_reranker_with_weights_in_another_file_is_refused() {
    let folder = reranker_folder(&fixture("external.onnx"), "none");
    let manifest = folder.path().join("manifest.toml");
    put(folder.path(), "table.bin", &fixture("external.bin"));
    let hash = sha256(&fixture("external.bin"));
    let text = fs::read_to_string(&manifest).unwrap() + &format!("\"table.bin\" = \"{hash}\"\n");
    fs::write(manifest, text).unwrap();
    let fault = chain(&CrossEncoder::open(folder.path()).unwrap_err());
    assert!(fault.contains("weights in other files; save the graph as one file"), "{fault}");
}
