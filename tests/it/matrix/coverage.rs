//! Nothing that users can call is without a row of the matrix.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{
    command, library,
    operations::{Answer, Model, operations},
    server,
};
use crate::{
    server::Server,
    support::{Db, root},
};

/// Methods of mem0's client that are tested elsewhere, with the reason.
const MEM0_LEFT_OUT: [(&str, &str); 0] = [];
/// Routes that are tested elsewhere.
const ROUTES_LEFT_OUT: [(&str, &str); 0] = [];

/// The public async methods of the engine, its documents and its memories, by the sources.
fn library_methods() -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for folder in ["src/engine", "src/engine/reindex", "src/memory"] {
        for entry in std::fs::read_dir(root(folder)).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_none_or(|extension| extension != "rs") {
                continue;
            }
            let mut owner = None;
            for line in std::fs::read_to_string(&path).unwrap().lines() {
                if let Some(rest) = line.strip_prefix("impl ") {
                    owner = rest.split([' ', '<', '{']).next().map(str::to_owned);
                }
                let Some(rest) = line.trim_start().strip_prefix("pub async fn ") else { continue };
                let name = rest.split(['(', '<']).next().unwrap();
                found.insert(format!("{}::{name}", owner.as_deref().unwrap()));
            }
        }
    }
    found
}

/// The subcommands that the help lists.
fn commands() -> BTreeSet<String> {
    let program = assert_cmd::cargo::cargo_bin!("mnemon");
    let help = std::process::Command::new(program).arg("--help").output().unwrap().stdout;
    let help = String::from_utf8(help).unwrap();
    let list = help.split_once("Commands:").unwrap().1.split_once("Options:").unwrap().0;
    let names = list.lines().filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    names.map(|line| line.split_whitespace().next().unwrap().to_owned()).collect()
}

/// The routes of the OpenAPI description.
fn routes() -> BTreeSet<String> {
    let description = std::fs::read_to_string(root("docs/openapi.json")).unwrap();
    let description: Value = serde_json::from_str(&description).unwrap();
    let paths = description["paths"].as_object().unwrap();
    let methods = paths.iter().flat_map(|(path, methods)| {
        let methods = methods.as_object().unwrap().keys().filter(|name| *name != "parameters");
        methods.map(move |method| format!("{} {path}", method.to_uppercase()))
    });
    methods.collect()
}

/// The tools that a server lists.
fn tools() -> BTreeSet<String> {
    let db = Db::new();
    let server = Server::start(&db);
    let request = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" });
    let reply = server.send("POST", "/mcp", &[("accept", "application/json, text/event-stream")], Some(request));
    let tools = reply.body["result"]["tools"].as_array().unwrap().clone();
    tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}

/// The methods of mem0's client that `docs/server.md` promises.
fn mem0_methods() -> BTreeSet<String> {
    let text = std::fs::read_to_string(root("docs/server.md")).unwrap();
    let table = text.split_once("| method | route |").unwrap().1.split_once("\n\n").unwrap().0;
    let first = table.lines().filter_map(|line| line.strip_prefix("| `")?.split_once(" | "));
    first.flat_map(|(names, _)| names.split(", ").map(|name| name.trim_matches('`').to_owned())).collect()
}

#[test]
fn nothing_is_without_a_row() {
    let actions: Vec<&str> = operations().iter().map(|operation| operation.action).collect();
    let rows = |calls: fn(&str) -> &'static [&'static str], left_out: &[(&str, &str)]| -> BTreeSet<String> {
        let called = actions.iter().flat_map(|action| calls(action)).copied();
        called.chain(left_out.iter().map(|(name, _)| *name)).map(str::to_owned).collect()
    };
    assert_eq!(library_methods(), rows(library::calls, &library::LEFT_OUT));
    assert_eq!(commands(), rows(command::calls, &command::LEFT_OUT));
    assert_eq!(routes(), rows(server::routes, &ROUTES_LEFT_OUT));
    assert_eq!(tools(), rows(server::tools, &[]));
    assert_eq!(mem0_methods(), rows(server::methods, &MEM0_LEFT_OUT));
}

/// The table for Python: each operation with what the model has at first, what it answers the first and the second time,
/// and what is left.
#[test]
fn python_has_the_same_table() {
    let answer = |answer: Answer| match answer {
        Ok(value) => json!({ "value": value }),
        Err(refusal) => json!({ "refused": refusal }),
    };
    let rows = operations().into_iter().map(|operation| {
        let mut row = serde_json::to_value(&operation).unwrap();
        for (kind, mut model) in [("filled", Model::fixture(operation.held)), ("new", Model::default())] {
            let before = model.clone();
            let first = answer(model.apply(&operation));
            let after = model.clone();
            let second = answer(model.apply(&operation));
            assert_eq!(after, model, "{}: the same again changes something", operation.name());
            row[kind] = json!({ "before": before, "first": first, "second": second, "after": after });
        }
        row
    });
    let table: String = rows.map(|row| row.to_string() + "\n").collect();
    let path = root("tests/it/matrix/operations.jsonl");
    if std::env::var_os("MNEMON_UPDATE").is_some() {
        std::fs::write(&path, &table).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(committed, table, "run the test with MNEMON_UPDATE=1 to write the table");
}
