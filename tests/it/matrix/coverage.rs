//! Nothing that users can call is without a row of the matrix.

use std::collections::BTreeSet;

use mnemon::recall::QueryOptions;
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
const ROUTES_LEFT_OUT: [(&str, &str); 9] = [
    ("POST /v1/import", "as the import into one namespace, under the names of the file; server::import"),
    ("GET /v1/namespaces/{namespace}/updates", "a language model makes them; server::model_down"),
    ("POST /v1/namespaces/{namespace}/updates/undo", "a language model makes them; server::model_down"),
    ("GET /v1/formation", "it needs a language model; server::formation has one"),
    ("POST /v1/formation/retry", "it needs a language model; server::formation has one"),
    ("GET /v1/namespaces/{namespace}/messages/{id}/versions", "needs a server that keeps them; `server::requests`"),
    ("POST /v1/namespaces/{namespace}/memory_tool", "memory_tool: its operations are its own"),
    (
        "POST /v1/namespaces/{namespace}/sessions/{session}/retry",
        "it needs a language model; server::formation has one",
    ),
    ("POST /v1/namespaces/{namespace}/sessions/{session}/refine", "it needs a language model; server::formed has one"),
];
/// Tools of MCP that are tested elsewhere.
const TOOLS_LEFT_OUT: [(&str, &str); 1] = [("memory", "memory_tool")];

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

fn help(arguments: &[&str]) -> String {
    let program = assert_cmd::cargo::cargo_bin!("mnemon");
    let help = std::process::Command::new(program).args(arguments).output().unwrap().stdout;
    String::from_utf8(help).unwrap()
}

/// The subcommands that the help lists.
fn commands() -> BTreeSet<String> {
    let help = help(&["--help"]);
    let list = help.split_once("Commands:").unwrap().1.split_once("Options:").unwrap().0;
    let names = list.lines().filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    names.map(|line| line.split_whitespace().next().unwrap().to_owned()).collect()
}

fn description() -> Value {
    serde_json::from_str(&std::fs::read_to_string(root("docs/openapi.json")).unwrap()).unwrap()
}

/// The routes of the OpenAPI description.
fn routes() -> BTreeSet<String> {
    let description = description();
    let paths = description["paths"].as_object().unwrap();
    let methods = paths.iter().flat_map(|(path, methods)| {
        let methods = methods.as_object().unwrap().keys().filter(|name| *name != "parameters");
        methods.map(move |method| format!("{} {path}", method.to_uppercase()))
    });
    methods.collect()
}

/// The tools that a server lists.
fn tools() -> Vec<Value> {
    let db = Db::new();
    let server = Server::start(&db);
    let request = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" });
    let reply = server.send("POST", "/mcp", &[("accept", "application/json, text/event-stream")], Some(request));
    reply.body["result"]["tools"].as_array().unwrap().clone()
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
    let tools = tools().iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect::<BTreeSet<_>>();
    assert_eq!(tools, rows(server::tools, &TOOLS_LEFT_OUT));
    assert_eq!(mem0_methods(), rows(server::methods, &MEM0_LEFT_OUT));
}

/// Options of a query that are not arguments of the tool: a model chooses better among few.
const OPTIONS_LEFT_OUT_OF_MCP: &str = "as_of diversity except half_life ids keep_duplicates length_prior neighbors now \
    per_batch previous questions rerank role since speakers strategy time unit until vocabulary";

#[test]
fn every_option_of_a_query_is_on_every_surface() {
    let options = serde_json::to_value(QueryOptions::default()).unwrap();
    // A surface has another name where its own language takes the option's name, or its users know another one.
    let check = |surface: &str, names: Vec<String>, renamed: &[(&str, &str)], left_out: &str| {
        let name =
            |name: &str| renamed.iter().find(|(own, _)| *own == name).map_or(name, |(_, option)| option).to_owned();
        let names: BTreeSet<String> = names.iter().map(|own| name(own)).collect();
        let missing: Vec<_> = options.as_object().unwrap().keys().filter(|option| !names.contains(*option)).collect();
        assert_eq!(missing, left_out.split_whitespace().collect::<Vec<_>>(), "{surface}");
    };
    let fields = |schema: &Value| schema["properties"].as_object().unwrap().keys().cloned().collect();

    let help = help(&["recall", "--help"]);
    let flags =
        help.split_whitespace().filter_map(|word| word.strip_prefix('-')).map(|word| word.trim_start_matches('-'));
    let flags = flags.map(|flag| flag.trim_start_matches("no-").replace('-', "_")).collect();
    check("command", flags, &[("where", "filter")], "");

    let schemas = &description()["components"]["schemas"];
    check("HTTP", fields(&schemas["RecallOptions"]), &[], "");

    let search = tools().into_iter().find(|tool| tool["name"] == "search_memories").unwrap();
    let renamed = [("limit", "k"), ("run_id", "session")];
    check("MCP", fields(&search["inputSchema"]), &renamed, OPTIONS_LEFT_OUT_OF_MCP);

    let stubs = std::fs::read_to_string(root("bindings/python/python/mnemon/_mnemon.pyi")).unwrap();
    let arguments = stubs.split_once("class Query:").unwrap().1.split_once("-> Self").unwrap().0;
    let arguments = arguments.lines().filter_map(|line| Some(line.split_once(':')?.0.trim().to_owned())).collect();
    check("Python", arguments, &[("where", "filter"), ("except_ids", "except")], "");
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
