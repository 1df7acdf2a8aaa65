//! The structure of `src`, checked on its sources: what each module imports, and that no files use each other in a
//! circle.
//!
//! `ROOMS` lists exactly the imports that there are, so that a new one is seen in review and an old one does not stay
//! allowed. When it differs from the sources, the test prints the whole table as it should be. The same holds for
//! `CONFINED` and `CIRCLES`.

mod graph;
mod report;
mod scanner_tests;
mod source;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write,
    path::PathBuf,
};

use graph::Crate;

/// (layer, module, modules that it imports from lower layers, modules that it imports from its own layer).
///
/// A module imports only modules of rows above its own.
#[rustfmt::skip]
const ROOMS: &[(u32, &str, &[&str], &[&str])] = &[
    (0, "error", &[], &[]),
    (0, "read_budget", &[], &["error"]),
    (0, "ids", &[], &["error"]),
    (0, "encryption", &[], &["error"]),
    (0, "config", &[], &["encryption", "error", "ids"]),
    (0, "lock", &[], &[]),
    (0, "new_file", &[], &["lock"]),
    (0, "calls", &[], &[]),
    (1, "tokens", &["error"], &[]),
    (1, "message", &["error", "ids", "read_budget"], &["tokens"]),
    (1, "formats", &["error", "ids"], &["message"]),
    (1, "filter", &["error"], &["message"]),
    (1, "forget", &["error", "ids"], &["filter", "message"]),
    (1, "chat", &["calls", "error"], &["message"]),
    (1, "embed", &["calls", "error", "ids"], &[]),
    (1, "lexical", &["error"], &[]),
    (1, "model_folders", &["error", "ids"], &[]),
    (1, "onnx", &["config", "error", "ids"], &["embed", "model_folders"]),
    (1, "client", &["error", "ids"], &["chat", "embed", "message"]),
    (1, "import", &["error", "ids", "lock"], &["client", "model_folders", "onnx"]),
    (2, "default_embedder", &["config", "embed", "error", "ids", "model_folders", "onnx"], &[]),
    (2, "store", &["config", "encryption", "error", "filter", "forget", "ids", "lexical", "lock", "message", "new_file", "read_budget"], &[]),
    (2, "cache", &["config", "embed", "encryption", "error", "ids", "lock", "new_file"], &[]),
    (3, "shared", &["error", "ids", "store"], &[]),
    (3, "recall", &["config", "embed", "error", "filter", "ids", "lexical", "message", "read_budget", "store"], &[]),
    (3, "journal", &["error", "ids", "message"], &["recall"]),
    (3, "buffer", &["error", "message"], &[]),
    (3, "block", &["chat", "error", "forget", "ids", "message"], &["recall"]),
    (3, "compose", &["error", "ids", "message"], &["block", "recall"]),
    (3, "documents", &["error", "filter", "ids", "message"], &["recall"]),
    (3, "history", &["error", "ids", "lock", "message", "new_file"], &[]),
    (3, "fewshot", &["embed", "error", "lexical", "tokens"], &["recall"]),
    (4, "engine", &["cache", "calls", "config", "default_embedder", "documents", "embed", "encryption", "error", "fewshot", "filter", "forget", "formats", "ids", "journal", "lexical", "message", "read_budget", "recall", "shared", "store"], &[]),
    (4, "memory", &["block", "buffer", "calls", "compose", "error", "history", "ids", "message", "read_budget", "recall", "store", "tokens"], &["engine"]),
    (4, "knowledge", &["block", "chat", "documents", "error", "filter", "forget", "ids", "message"], &["engine"]),
    (4, "admin", &["config", "default_embedder", "embed", "encryption", "error", "forget", "ids", "lexical", "message", "recall", "shared", "store"], &["engine"]),
    (4, "fuzzing", &["lexical", "model_folders", "onnx", "store"], &[]),
];

/// (external crate, the modules of the library and the packages that name it).
#[rustfmt::skip]
const CONFINED: &[(&str, &[&str])] = &[
    ("redb", &["store"]),
    ("bincode", &["store"]),
    ("ort", &["onnx"]),
    // Its catalogue; and the command measures beside it.
    ("fastembed", &["import", "crates/cli"]),
    ("tokenizers", &["import", "onnx", "tokens"]),
    ("aho_corasick", &["onnx"]),
    ("foldhash", &["onnx"]),
    ("tiktoken_rs", &["tokens"]),
    ("mnemon_index", &["config", "engine", "error", "fewshot", "fuzzing", "lib", "onnx", "recall"]),
    ("quick_cache", &["cache"]),
    ("chacha20poly1305", &["encryption"]),
    ("zeroize", &["encryption"]),
    ("same_file", &["lock", "store", "crates/cli"]),
    ("rust_stemmers", &["lexical"]),
    ("snowball_stemmers_rs", &["lexical"]),
    ("whatlang", &["lexical"]),
    ("unicode_segmentation", &["lexical"]),
    ("ureq", &["client", "import", "crates/cli", "crates/server"]),
    ("base64", &["client", "message", "crates/server"]),
    ("prost", &["onnx"]),
    ("safetensors", &["import"]),
    ("half", &["import", "onnx", "store"]),
    ("sha1", &["import"]),
    ("zip", &["formats", "import"]),
    ("imagesize", &["message"]),
    ("tokio_postgres", &["shared"]),
    ("deadpool_postgres", &["shared"]),
    ("tokio_postgres_rustls", &["shared"]),
    ("pgvector", &["shared"]),
    ("rustls", &["shared", "crates/server"]),
    ("webpki_roots", &["shared"]),
    ("rustls_native_certs", &["shared"]),
    ("x509_cert", &["shared"]),
    ("p521", &["shared"]),
    ("futures_util", &["shared", "crates/server"]),
    ("unicode_normalization", &["lexical", "onnx"]),
    ("rayon", &["engine"]),
    ("axum", &["crates/server"]),
    ("hyper", &["crates/cli", "crates/server"]),
    ("rmcp", &["crates/server"]),
    ("clap", &["crates/cli"]),
    ("anyhow", &["crates/cli", "crates/server"]),
    ("indicatif", &["crates/cli"]),
    ("strsim", &["crates/cli"]),
];

/// The circles of files that are still to be taken apart.
#[rustfmt::skip]
const CIRCLES: &[&[&str]] = &[];

#[test]
fn every_module_imports_exactly_what_its_row_lists() {
    let actual = library().top_modules();
    let table = table(&actual, ROOMS).unwrap_or_else(|fault| panic!("{fault}"));
    let expected: String = ROOMS.iter().map(row).collect();
    assert!(
        table == expected,
        "\nThe imports of `src` differ from ROOMS in tests/it/layers/mod.rs:\n{}\nIf they are meant to be so, replace the \
         rows by these, and check the layer of a new module:\n\n{table}",
        difference(&expected, &table)
    );
}

#[test]
fn external_crates_are_named_by_the_listed_modules_only() {
    let (library, server, command) = (library(), server(), command());
    let mut actual = String::new();
    let mut expected = String::new();
    for (name, listed) in CONFINED {
        let mut modules: Vec<String> = library.naming(name).into_iter().collect();
        let packages = [("cli", &command), ("server", &server)]
            .into_iter()
            .filter(|(_, package)| !package.naming(name).is_empty());
        modules.extend(packages.map(|(package, _)| format!("crates/{package}")));
        let mut listed = listed.to_vec();
        let key = |module: &str| (module.starts_with("crates/"), module.to_owned());
        listed.sort_by_key(|module| key(module));
        writeln!(actual, "    ({name:?}, {}),", quoted(&modules)).unwrap();
        writeln!(expected, "    ({name:?}, {}),", quoted(&listed)).unwrap();
    }
    assert!(
        actual == expected,
        "\nThe modules that name external crates differ from CONFINED in tests/it/layers/mod.rs:\n{}\nIf they are meant to be \
         so, replace the rows by these:\n\n{actual}",
        difference(&expected, &actual)
    );
}

#[test]
fn no_files_use_each_other_in_a_circle() {
    let mut actual = String::new();
    let mut explained = String::new();
    for (folder, sources) in [("src/", library()), ("crates/server/src/", server()), ("crates/cli/src/", command())] {
        for circle in sources.circles() {
            let files: Vec<String> = circle.files.iter().map(|file| format!("{folder}{file}")).collect();
            writeln!(actual, "    {},", quoted(&files)).unwrap();
            writeln!(explained, "\n{} files in {folder}:\n  {}", files.len(), circle.edges.join("\n  ")).unwrap();
        }
    }
    let expected: String = CIRCLES.iter().map(|circle| format!("    {},\n", quoted(circle))).collect();
    assert!(
        actual == expected,
        "\nThe circles of files differ from CIRCLES in tests/it/layers/mod.rs:\n{}\nTake a new one apart: move what both files \
         need to a file of its own, or hand it over as an argument. Take one that is gone off the list. All circles that there \
         are:\n\n{actual}\n{explained}",
        difference(&expected, &actual)
    );
}

#[test]
fn the_files_of_the_architecture_exist() {
    let text = std::fs::read_to_string(root().join("docs/architecture.md")).unwrap();
    let paths = text.split("## The paths").nth(1).unwrap().split("## Invariants").next().unwrap();
    let named: BTreeSet<&str> = paths.split('`').skip(1).step_by(2).filter(|name| name.contains('/')).collect();
    assert!(named.len() > 30, "{named:?}");
    for name in named {
        let path = root().join("src").join(name);
        assert!(path.with_extension("rs").exists() || path.join("mod.rs").exists(), "there is no {name}");
    }
}

/// A program must not look for anything on the machine that built it. Unit tests may: they run there.
#[test]
fn no_path_of_the_build_machine_is_in_a_program() {
    let mut folders: Vec<PathBuf> =
        ["src", "crates/cli/src", "crates/memory_tool/src", "crates/secrets/src", "crates/server/src"]
            .map(|folder| root().join(folder))
            .into();
    let mut files = 0;
    while let Some(folder) = folders.pop() {
        for entry in folder.read_dir().unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.file_name().is_some_and(|name| name != "tests.rs") {
                let text = std::fs::read_to_string(&path).unwrap();
                let program = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
                for part in ["CARGO_MANIFEST_DIR", "option_env!", "OUT_DIR"] {
                    assert!(!program.contains(part), "{} contains {part}", path.display());
                }
                files += 1;
            }
        }
    }
    assert!(files > 100, "{files} files");
}

/// A published package has only its own files.
#[test]
fn a_package_includes_no_file_of_another() {
    let mut included = 0;
    for package in ["crates/cli", "crates/index", "crates/memory_tool", "crates/secrets", "crates/server"]
        .map(|folder| root().join(folder))
    {
        let mut folders = vec![package.join("src")];
        while let Some(folder) = folders.pop() {
            for path in folder.read_dir().unwrap().map(|entry| entry.unwrap().path()) {
                if path.is_dir() {
                    folders.push(path);
                    continue;
                }
                let text = std::fs::read_to_string(&path).unwrap();
                for macro_name in ["include_str!(\"", "include_bytes!(\""] {
                    for rest in text.split(macro_name).skip(1) {
                        let file = folder.join(rest.split('"').next().unwrap()).canonicalize().unwrap();
                        assert!(file.starts_with(&package), "{} includes {}", path.display(), file.display());
                        included += 1;
                    }
                }
            }
        }
    }
    assert!(included > 0);
}

fn library() -> Crate {
    Crate::read(&root().join("src/lib.rs"))
}

fn command() -> Crate {
    Crate::read(&root().join("crates/cli/src/lib.rs"))
}

fn server() -> Crate {
    Crate::read(&root().join("crates/server/src/lib.rs"))
}

/// The checkout that is examined: this one, or that in the variable, so that an older one can be compared.
fn root() -> PathBuf {
    let here = crate::support::root("");
    std::env::var_os("MNEMON_STRUCTURE_OF").map_or_else(|| here.clone(), PathBuf::from)
}

type Row<'a> = (u32, &'a str, &'a [&'a str], &'a [&'a str]);

/// The rows that describe `actual`, with the layers of `known`. A module that is not known gets the lowest layer from
/// which its imports go up nowhere.
///
/// # Errors
/// An import from a higher layer, or modules of one layer that import each other in a circle.
fn table(actual: &BTreeMap<String, BTreeSet<String>>, known: &[Row<'_>]) -> Result<String, String> {
    let mut layers: BTreeMap<&str, u32> = known
        .iter()
        .map(|(layer, module, ..)| (*module, *layer))
        .filter(|(module, _)| actual.contains_key(*module))
        .collect();
    for _ in 0..actual.len() {
        for (module, imports) in actual.iter().filter(|(module, _)| !known.iter().any(|row| row.1 == *module)) {
            let highest = imports.iter().filter_map(|import| layers.get(import.as_str())).max().copied();
            layers.insert(module, highest.unwrap_or(0));
        }
    }
    let layers_of = &layers;
    let above = actual.iter().flat_map(|(module, imports)| {
        let above = imports.iter().filter(|import| layers_of[import.as_str()] > layers_of[module.as_str()]);
        above.map(move |import| {
            let (own, higher) = (layers_of[module.as_str()], layers_of[import.as_str()]);
            format!("`{module}` (layer {own}) imports `{import}` (layer {higher}): imports go down")
        })
    });
    let above: Vec<String> = above.collect();
    if !above.is_empty() {
        return Err(above.join("\n"));
    }
    let mut rows = String::new();
    let mut placed: BTreeSet<&str> = BTreeSet::new();
    let mut waiting: Vec<(&str, &BTreeSet<String>)> =
        actual.iter().map(|(module, imports)| (module.as_str(), imports)).collect();
    // In the order of the table as it is, new modules last.
    waiting.sort_by_key(|(module, _)| {
        (layers[module], known.iter().position(|row| row.1 == *module).unwrap_or(usize::MAX))
    });
    while !waiting.is_empty() {
        let ready = waiting.iter().position(|(module, imports)| {
            let lowest = layers[module] == layers[waiting[0].0];
            lowest && imports.iter().all(|import| placed.contains(import.as_str()))
        });
        let Some(ready) = ready else {
            let layer = layers[waiting[0].0];
            let circle: Vec<&str> =
                waiting.iter().map(|(module, _)| *module).filter(|module| layers[module] == layer).collect();
            return Err(format!("among these modules of layer {layer} some import each other in a circle: {circle:?}"));
        };
        let (module, imports) = waiting.remove(ready);
        placed.insert(module);
        let (beside, below): (Vec<&str>, Vec<&str>) =
            imports.iter().map(String::as_str).partition(|import| layers[import] == layers[module]);
        rows += &row(&(layers[module], module, &below, &beside));
    }
    Ok(rows)
}

fn row(row: &Row<'_>) -> String {
    let (layer, module, below, beside) = row;
    format!("    ({layer}, {module:?}, {}, {}),\n", quoted(below), quoted(beside))
}

fn quoted(names: &[impl AsRef<str>]) -> String {
    let names: Vec<String> = names.iter().map(|name| format!("{:?}", name.as_ref())).collect();
    format!("&[{}]", names.join(", "))
}

/// The lines that only one of two texts has.
fn difference(expected: &str, actual: &str) -> String {
    let only = |a: &str, b: &str, mark: char| -> String {
        a.lines().filter(|line| !b.lines().any(|other| other == *line)).map(|line| format!("{mark}{line}\n")).collect()
    };
    let lines = only(expected, actual, '-') + &only(actual, expected, '+');
    if lines.is_empty() { "the order of the rows\n".into() } else { lines }
}
