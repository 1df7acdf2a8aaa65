//! Imports go down only: DESIGN's layer table, checked on the sources.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

/// Module → the modules of this crate that it may import, besides itself.
const ALLOWED: &[(&str, &[&str])] = &[
    ("error", &[]),
    ("ids", &["error"]),
    ("config", &["error"]),
    ("tokens", &["error", "ids", "config"]),
    ("message", &["error", "ids", "config", "tokens"]),
    ("http", &["error", "ids", "config"]),
    ("chat", &["error", "ids", "config", "tokens", "message", "http"]),
    ("embed", &["error", "ids", "config", "http"]),
    ("index", &["error", "ids", "config"]),
    ("lexical", &["error", "ids", "config"]),
    ("store", &["error", "ids", "config", "message"]),
    ("cache", &["error", "ids", "config", "embed"]),
    ("recall", &["error", "ids", "config", "message", "embed", "index", "lexical", "store"]),
    ("buffer", &["error", "ids", "config", "tokens", "message"]),
    ("block", &["error", "ids", "config", "tokens", "message", "chat", "recall"]),
    ("compose", &["error", "ids", "config", "tokens", "message", "block"]),
    ("history", &["error", "ids", "config", "message"]),
    ("fewshot", &["error", "ids", "config", "tokens", "message", "embed", "index"]),
    ("engine", &["error", "ids", "config", "message", "embed", "index", "lexical", "store", "cache", "recall"]),
    (
        "memory",
        &[
            "error", "ids", "config", "tokens", "message", "chat", "store", "recall", "buffer", "history", "block",
            "compose", "engine",
        ],
    ),
    ("reindex", &["error", "ids", "config", "message", "embed", "index", "lexical", "store", "recall", "engine"]),
    ("maintenance", &["error", "ids", "config", "message", "embed", "index", "lexical", "store", "recall", "engine"]),
];

/// Crate → the only modules that may name it.
const CONFINED: &[(&str, &[&str])] = &[
    ("redb", &["store"]),
    ("bincode", &["store"]),
    ("ort", &["embed"]),
    // Its catalogue; and the command measures beside it.
    ("fastembed", &["embed", "bin"]),
    ("tokenizers", &["embed", "tokens"]),
    ("aho_corasick", &["embed"]),
    ("foldhash", &["embed"]),
    ("tiktoken_rs", &["tokens"]),
    ("hnsw_rs", &["index"]),
    ("quick_cache", &["cache"]),
    ("same_file", &["cache", "embed"]),
    ("rust_stemmers", &["lexical"]),
    ("unicode_segmentation", &["lexical"]),
    // Two clients: of servers that are asked, and of what models are fetched from.
    ("ureq", &["http", "embed"]),
    ("base64", &["embed"]),
    ("prost", &["embed"]),
    ("safetensors", &["embed"]),
    ("half", &["embed"]),
    ("sha1", &["embed"]),
    ("zip", &["embed"]),
    ("unicode_normalization", &["lexical", "embed"]),
    ("rayon", &["engine", "index"]),
    ("clap", &["bin"]),
    ("anyhow", &["bin"]),
    ("indicatif", &["bin"]),
];

#[test]
fn imports_go_down_only() {
    let allowed: BTreeMap<&str, &[&str]> = ALLOWED.iter().copied().collect();
    let exported = exports(&fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("src/lib.rs")).unwrap());
    assert_eq!(exported["Engine"], "engine");
    let mut faults = Vec::new();
    for (module, path, text) in sources() {
        for imported in imports(&text) {
            // A name re-exported at the root (`crate::Engine`) is its module's.
            let imported = exported.get(&imported).cloned().unwrap_or(imported);
            let is_module = allowed.contains_key(imported.as_str());
            let may =
                module == imported || allowed.get(module.as_str()).is_none_or(|may| may.contains(&imported.as_str()));
            if is_module && !may {
                faults.push(format!("{}: {module} imports {imported}", path.display()));
            }
        }
        for (name, homes) in CONFINED {
            if names_crate(&text, name) && !homes.contains(&module.as_str()) {
                faults.push(format!("{}: {module} names the crate {name}", path.display()));
            }
        }
    }
    assert_eq!(faults, [""; 0]);
}

#[test]
fn every_module_has_a_layer() {
    let mut modules: Vec<String> =
        sources().map(|(module, ..)| module).filter(|module| module != "lib" && module != "bin").collect();
    modules.sort();
    modules.dedup();
    let mut known: Vec<&str> = ALLOWED.iter().map(|(module, _)| *module).collect();
    known.sort_unstable();
    assert_eq!(modules, known);
}

#[test]
fn the_check_finds_what_is_forbidden() {
    assert_eq!(
        imports("use crate::{\n    error::Result,\n    store::{A, B},\n};\nfn f() { crate::embed::x() }"),
        ["embed", "error", "store"]
    );
    assert!(names_crate("let a = redb::Database::create(p);", "redb"));
    assert!(names_crate("use ::hnsw_rs::prelude::Hnsw;", "hnsw_rs"));
    assert!(!names_crate("//! Knows redb::Database not.\nuse crate::store;", "redb"));
}

/// (top module, path, text) of each file of `src`.
fn sources() -> impl Iterator<Item = (String, PathBuf, String)> {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    let mut folders = vec![src.clone()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                files.push(path);
            }
        }
    }
    assert!(files.len() > 20, "the sources are found");
    files.into_iter().map(move |path| {
        let relative = path.strip_prefix(&src).unwrap().to_path_buf();
        let first = relative.components().next().unwrap().as_os_str().to_str().unwrap();
        let text = fs::read_to_string(&path).unwrap();
        (first.trim_end_matches(".rs").to_owned(), relative, text)
    })
}

fn code(text: &str) -> String {
    text.lines().filter(|line| !line.trim_start().starts_with("//")).map(|line| format!("{line}\n")).collect()
}

/// The modules that follow `crate::`, in a path or at the first level of a `use crate::{...}` tree.
fn imports(text: &str) -> Vec<String> {
    let code = code(text);
    let mut found = Vec::new();
    for (at, prefix) in code.match_indices("crate::") {
        let rest = &code[at + prefix.len()..];
        let Some(tree) = rest.strip_prefix('{') else {
            found.push(identifier(rest));
            continue;
        };
        let mut depth = 0;
        let mut item = String::new();
        for c in tree.chars() {
            match c {
                '{' => depth += 1,
                '}' if depth == 0 => break,
                '}' => depth -= 1,
                ',' if depth == 0 => found.push(identifier(std::mem::take(&mut item).trim_start())),
                _ if depth == 0 => item.push(c),
                _ => {}
            }
        }
        found.push(identifier(item.trim_start()));
    }
    found.retain(|name| !name.is_empty());
    found.sort();
    found.dedup();
    found
}

/// Name → module, of the `pub use module::{Name, ...}` of lib.rs.
fn exports(lib: &str) -> BTreeMap<String, String> {
    let code = code(lib);
    let mut found = BTreeMap::new();
    for (at, prefix) in code.match_indices("pub use ") {
        let (module, rest) = code[at + prefix.len()..].split_once("::").unwrap();
        let names = rest.split_once(';').unwrap().0;
        for name in names.split(|c: char| !(c.is_alphanumeric() || c == '_')).filter(|name| !name.is_empty()) {
            found.insert(name.to_owned(), module.to_owned());
        }
    }
    found
}

fn identifier(text: &str) -> String {
    text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
}

fn names_crate(text: &str, name: &str) -> bool {
    let code = code(text);
    code.match_indices(&format!("{name}::")).any(|(at, _)| {
        let before = code[..at].chars().next_back();
        before.is_none_or(|c| !(c.is_alphanumeric() || c == '_')) && !code[..at].ends_with("crate::")
    })
}
