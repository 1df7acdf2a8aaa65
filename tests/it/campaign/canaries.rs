//! The matrix of canaries: each public method of the engine and its handles has a row that says which test shows that
//! it keeps to its namespace, or why it needs none. A method without a row fails the test.

use std::{collections::BTreeMap, fs, path::Path};

use proc_macro2::{Delimiter, TokenStream, TokenTree};

use crate::support::root;

/// How a method is known to keep tenants apart.
enum Wall {
    /// It is this surface in `tests/it/engine/tenants.rs`, which shows the own word and no other.
    Surface(&'static str),
    /// It is this change in the same file, after which the other tenants have what they had.
    Change(&'static str),
    /// It returns a handle or a setting, and reads and writes nothing.
    Handle,
    /// It is about the whole database, and shows no content.
    Whole(&'static str),
}

use Wall::*;

#[rustfmt::skip]
const ROWS: &[(&str, &[(&str, Wall)])] = &[
    ("Engine", &[
        ("open", Handle), ("open_read_only", Handle), ("in_memory", Handle), ("builder", Handle),
        ("builder_in_memory", Handle), ("reopen", Handle), ("model", Handle), ("embedder", Handle),
        ("precision", Handle), ("close", Handle), ("blocking", Handle), ("documents", Handle), ("memory", Handle),
        ("put", Change("put")), ("put_all", Change("put_all")),
        ("put_in_batches", Change("put_all")),
        ("flush", Whole("embeds what is pending; the surfaces are asked before and after it")),
        ("link", Whole("changes how fast answers are, and none")),
        ("pending", Whole("a count")),
        ("recall", Surface("recall")), ("recall_in", Surface("recall in a scope")), ("get", Surface("get")),
        ("versions", Surface("versions")),
        ("journal", Surface("journal")), ("replay", Surface("replay")),
        ("set_metadata", Change("set_metadata")),
        ("delete", Change("delete")),
        ("sessions", Surface("sessions")), ("blocks", Surface("blocks")), ("history", Surface("history")),
        ("history_after", Surface("history")), ("history_page", Surface("history")),
        ("history_before", Surface("history")), ("version_page", Surface("versions")),
        ("block_names", Surface("blocks")), ("block", Surface("blocks")),
        ("session_page", Surface("sessions")), ("vectors", Whole("numbers alone, of ids that the caller knows")),
        ("copy_session", Change("copy_session")), ("delete_session", Change("delete_session")),
        ("delete_namespace", Change("delete_namespace")), ("delete_namespaces", Change("delete_namespaces")),
        ("delete_namespaces_within", Change("delete_namespaces")),
        ("forget", Change("forget")), ("hold", Change("hold")), ("release", Change("release")),
        ("holds", Whole("all holds are its purpose")), ("audit", Whole("has no content, no id and no name")),
        ("audit_part", Whole("as `audit`")),
        ("namespaces", Surface("namespaces")),
        ("count_namespaces", Whole("counts, which `engine::namespaces` compares")),
        ("set_language", Change("set_language")), ("set_ttl", Change("set_ttl")),
        ("index_stats", Whole("counts of one namespace")), ("stats", Whole("counts")), ("cache_stats", Whole("counts")),
        ("reindex", Whole("embeds every message again; `reindex::live` recalls meanwhile")),
        ("rollback", Whole("switches the generation of all namespaces")),
        ("drop_previous", Whole("deletes a generation of all namespaces")),
        ("document_batch", Surface("batch")), ("document_namespaces", Surface("document namespaces")),
        ("export", Surface("export")), ("export_all", Whole("all namespaces are its purpose")),
        ("import", Whole("reads what `export_all` wrote, with its namespaces")), ("import_as", Surface("import")),
        ("history_store", Surface("history store")),
        ("backup", Whole("copies all namespaces")), ("backup_with_key", Whole("copies all namespaces")),
        ("purge", Whole("copies all namespaces")),
        ("failed_batches", Whole("has names and numbers of namespaces under a prefix, and no text")),
        ("retry_failed_batches", Whole("hands over batches under a prefix, each to its own blocks")),
        ("within", Handle), ("check_file", Whole("looks at the file alone")), ("anchor", Whole("names the last commit")),
        ("remove_if_unused", Whole("removes a file in which nothing was stored")),
    ]),
    ("BlockingEngine", &[
        ("stats", Whole("counts")), ("cache_stats", Whole("counts")),
        ("reindex", Whole("see Engine")), ("rollback", Whole("see Engine")),
        ("export", Surface("export")), ("export_all", Whole("see Engine")),
        ("import", Whole("see Engine")), ("import_as", Surface("import")),
        ("link_with", Whole("see Engine")), ("optimize", Change("optimize")),
        ("backup", Whole("see Engine")), ("purge", Whole("see Engine")),
    ]),
    ("EngineBuilder", &[
        ("config", Handle), ("embedder", Handle), ("reranker", Handle), ("create", Handle), ("open", Handle),
        ("open_read_only", Handle), ("shared", Handle), ("freshness", Handle),
    ]),
    ("Documents", &[
        ("namespace", Handle), ("refresh_on_read", Handle), ("blocking", Handle),
        ("put", Change("put of a document")), ("get", Surface("document")), ("delete", Change("delete of a document")),
        ("search", Surface("documents")), ("vectors", Whole("numbers alone, of keys that the caller knows")),
    ]),
    ("MemoryBuilder", &[
        ("limits", Handle), ("token_counter", Handle), ("message_counter", Handle), ("insert_method", Handle),
        ("renderer", Handle), ("block", Handle), ("block_deadline", Handle), ("checkpoint_each_put", Handle),
        ("keep_checkpoints", Handle), ("keep_checkpoints_within", Handle),
        ("flush_on_drop", Handle), ("open", Handle),
    ]),
    ("Memory", &[
        ("namespace", Handle), ("session", Handle), ("blocking", Handle),
        ("put", Change("put of a memory")), ("update", Change("update")), ("sync", Change("sync")),
        ("set", Change("set of a memory")), ("flush", Change("flush of a memory")),
        ("clear", Change("clear")), ("reset", Change("reset")),
        ("search", Surface("search of a memory")), ("messages", Surface("buffer")),
        ("history", Surface("history of a memory")), ("get", Surface("prompt")),
        ("assemble", Surface("assembled prompt")),
        ("add_step", Whole("kept in the handle alone")), ("steps", Whole("kept in the handle alone")),
        ("settle", Change("settle")), ("status", Whole("counts of one session")),
        ("retry_failed", Change("retry_failed")),
        ("block_state", Surface("block state")), ("change_block", Change("change_block")),
        ("checkpoint", Change("checkpoint")), ("checkpoints", Surface("checkpoints")),
        ("messages_at", Surface("messages at a checkpoint")),
        ("restore", Change("restore")), ("fork", Change("fork")), ("refine", Change("change_block")),
    ]),
    ("BlockingMemory", &[("change_block", Change("change_block"))]),
    ("EngineExampleSelector", &[
        ("new", Handle), ("message", Handle), ("add", Surface("examples")), ("add_blocking", Surface("examples")),
        ("find", Surface("examples")),
    ]),
    ("Profile", &[
        ("new", Handle), ("describe", Handle), ("of", Handle), ("blocking", Handle),
        ("get", Surface("profile")), ("set", Change("set of a profile")), ("patch", Change("patch")),
        ("update", Change("set of a profile")),
    ]),
    ("Collection", &[
        ("new", Handle), ("describe", Handle), ("index", Handle), ("of", Handle), ("shown", Handle),
        ("blocking", Handle), ("add", Surface("collection")), ("get", Surface("document")),
        ("delete", Change("delete of an item")), ("search", Surface("collection")),
        ("update", Change("delete of an item")), ("sources", Surface("collection")),
        ("updates", Surface("collection")), ("undo", Change("delete of an item")),
    ]),
];

#[test]
fn every_public_method_has_a_row() {
    let mut methods: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for folder in ["engine", "memory", "knowledge", "documents"] {
        read(&root("src").join(folder), &mut methods);
    }
    let tenants = fs::read_to_string(root("tests/it/engine/tenants.rs")).unwrap();
    let mut faults = Vec::new();
    for (handle, rows) in ROWS {
        let found = methods.remove(*handle).unwrap_or_default();
        for method in found.iter().filter(|method| !rows.iter().any(|row| row.0 == *method)) {
            faults.push(format!("{handle}::{method} has no row: which test shows that it keeps to its namespace?"));
        }
        for (method, wall) in *rows {
            if !found.iter().any(|found| found == method) {
                faults.push(format!("{handle}::{method} has a row, and does not exist"));
            }
            match wall {
                Surface(name) if !tenants.contains(&format!("(\"{name}\", ")) => {
                    faults.push(format!("{handle}::{method}: tenants.rs has no surface {name:?}"));
                }
                Change(name) if !tenants.contains(&format!("(\"{name}\", Box::new(")) => {
                    faults.push(format!("{handle}::{method}: tenants.rs has no change {name:?}"));
                }
                Whole("") => faults.push(format!("{handle}::{method}: no reason")),
                _ => {}
            }
        }
    }
    // A new handle: its methods are async, or it has a `blocking` twin.
    for (handle, found) in methods.iter().filter(|(_, found)| found.iter().any(|method| method == "blocking")) {
        faults.push(format!("{handle} has no rows: {found:?}"));
    }
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}

/// Adds the public methods of all types in a folder: type -> names.
fn read(folder: &Path, methods: &mut BTreeMap<String, Vec<String>>) {
    for entry in folder.read_dir().unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            read(&path, methods);
            continue;
        }
        let tokens: TokenStream = fs::read_to_string(&path).unwrap().parse().unwrap();
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        for (at, _) in tokens.iter().enumerate().filter(|(_, token)| token.to_string() == "impl") {
            let head: Vec<&TokenTree> = tokens[at + 1..].iter().take_while(|token| !is_body(token)).collect();
            let is_trait = head.iter().any(|token| token.to_string() == "for");
            let (Some(TokenTree::Ident(name)), Some(TokenTree::Group(body)), false) =
                (head.first(), tokens.get(at + 1 + head.len()), is_trait)
            else {
                continue;
            };
            methods.entry(name.to_string()).or_default().extend(public(body.stream()));
        }
    }
}

fn is_body(token: &TokenTree) -> bool {
    matches!(token, TokenTree::Group(group) if group.delimiter() == Delimiter::Brace)
}

/// The names of the functions that are `pub` without a restriction.
fn public(body: TokenStream) -> Vec<String> {
    let tokens: Vec<String> = body.into_iter().map(|token| token.to_string()).collect();
    let names = tokens.iter().enumerate().filter(|(_, token)| *token == "pub").filter_map(|(at, _)| {
        let rest: Vec<&str> = tokens[at + 1..].iter().map(String::as_str).take(3).collect();
        match rest.as_slice() {
            ["fn", name, ..] | ["async", "fn", name] => Some((*name).to_owned()),
            _ => None,
        }
    });
    names.collect()
}
