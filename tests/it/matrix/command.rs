//! The `mnemon` command: one process for each operation.

use std::process::Command;

use mnemon::Namespace;
use serde_json::{Value, json};

use super::{
    Database, Kind,
    operations::{Answer, Operation, Refusal},
};

/// The subcommands that an action runs.
pub(super) fn calls(action: &str) -> &'static [&'static str] {
    match action {
        "get" | "history" => &["get"],
        "sessions" => &["sessions"],
        "namespaces" => &["namespaces"],
        "recall" | "recall_several" => &["recall"],
        "holds" | "hold" | "release" => &["hold"],
        "set_ttl" => &["ttl"],
        "journal" => &["why"],
        "export" => &["export"],
        "audit" => &["audit"],
        "stats" => &["stats"],
        "put" => &["ingest"],
        "delete" | "delete_session" | "delete_namespace" | "delete_prefix" => &["delete"],
        "forget" => &["forget"],
        "import" => &["import"],
        "verify" => &["verify"],
        "backup" => &["backup"],
        "reindex" | "rollback" | "drop_previous" => &["reindex"],
        "purge" => &["purge"],
        _ => &[],
    }
}

/// Subcommands that no action runs, with the reason.
pub(super) const LEFT_OUT: [(&str, &str); 14] = [
    ("retry", "needs a block that fails; `server::formation`"),
    ("share", "moves a whole file; `shared::command`"),
    ("unshare", "moves a namespace between databases; `shared::command`"),
    ("eval", "measures in a database of its own"),
    ("embed", "uses no database"),
    ("salvage", "reads a damaged file; `cli::contents`, `cli::pairs`"),
    ("serve", "the surfaces `Http`, `Mcp` and `Mem0`"),
    ("token", "writes no database"),
    ("hook", "asks the server; `server::hook`"),
    ("mcp", "connects to the server; `server::shim`"),
    ("models", "uses no database"),
    ("runtime", "uses no database"),
    ("bench", "measures in databases of its own"),
    ("help", "prints"),
];

fn arguments(space: &str, operation: &Operation, database: &Database) -> Vec<String> {
    let folder = database.db.folder.path();
    let unique = format!("{}-{:?}", space.replace('/', "-"), std::thread::current().id());
    let write = |content: String| {
        let path = folder.join(format!("{unique}.jsonl"));
        std::fs::write(&path, content).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let (text, argument) = (operation.text(""), &operation.argument);
    let names = |field: &str| serde_json::from_value::<Vec<String>>(argument[field].clone()).unwrap();
    let of = |words: &[&str]| -> Vec<String> { words.iter().map(|word| word.replace("NS", space)).collect() };
    match operation.action {
        "get" => of(&["get", "--namespace", "NS", text]),
        "history" => of(&["get", "--namespace", "NS", "--session", text]),
        "sessions" => of(&["sessions", "--namespace", "NS"]),
        "namespaces" => of(&["namespaces", "--prefix", "NS"]),
        "recall" => of(&["recall", "--namespace", "NS", "-k", "1", text]),
        "recall_several" => of(&["recall", "--prefix", "NS", "-k", "1", text]),
        "holds" => of(&["hold"]),
        "hold" => of(&["hold", "--namespace", "NS", "--reason", text]),
        "release" => of(&["hold", "--namespace", "NS", "--release"]),
        "set_ttl" => of(&["ttl", "--namespace", "NS", &argument.to_string()]),
        "journal" => of(&["why", "--namespace", "NS", "m1"]),
        "export" => of(&["export", "--namespace", "NS"]),
        "audit" => of(&["audit"]),
        "stats" => of(&["stats"]),
        "put" => of(&["ingest", "--namespace", "NS", &write(argument.to_string())]),
        "delete" => of(&["delete", "--namespace", "NS", text]),
        "delete_session" => of(&["delete", "--yes", "--namespace", "NS", "--session", text]),
        "delete_namespace" => of(&["delete", "--yes", "--namespace", "NS", "--all"]),
        "delete_prefix" => of(&["delete", "--yes", "--prefix", "NS"]),
        "forget" => {
            let what = match argument["by"].as_str().unwrap() {
                "messages" => ["--id".to_owned(), names("ids").remove(0)].to_vec(),
                "documents" => ["--key".to_owned(), names("keys").remove(0)].to_vec(),
                "session" => ["--session".to_owned(), argument["session"].as_str().unwrap().to_owned()].to_vec(),
                "matching" => ["--where".to_owned(), argument["filter"].to_string()].to_vec(),
                _ => ["--all".to_owned()].to_vec(),
            };
            let mut words = of(&["forget", "--yes", "--namespace", "NS"]);
            words.extend(what);
            words
        }
        "import" => {
            let lines = super::export_of_the_fixture().into_inner();
            of(&["import", "--namespace", "NS", &write(String::from_utf8(lines.to_vec()).unwrap())])
        }
        "verify" => of(&["verify"]),
        "backup" => of(&["backup", super::backup_path(folder, space).to_str().unwrap()]),
        "reindex" => of(&["reindex", "--precision", "i8", "--min-recall", "0"]),
        "rollback" => of(&["reindex", "--rollback"]),
        "drop_previous" => of(&["reindex", "--drop-previous"]),
        "purge" => of(&["purge"]),
        other => unreachable!("{other} is not done by the command"),
    }
}

pub(super) fn run(database: &Database, space: &Namespace, operation: &Operation) -> Answer {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin!("mnemon"));
    command.env_remove("MNEMON_LOG").args(["--format", "json"]);
    command.args(arguments(space.as_str(), operation, database)).arg("--db").arg(&database.db.path);
    if let Some(key) = database.key_file() {
        command.arg("--key-file").arg(key);
    }
    if let Some((_, address)) = &database.postgres {
        command.args(["--shared", address]);
        if database.kind != Kind::Replica {
            command.args(["--freshness", "local"]);
        }
    }
    let output = command.output().unwrap();
    let (stdout, stderr) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    if !output.status.success() {
        let refusals = [
            ("already open", Refusal::Locked),
            ("legal hold", Refusal::LegalHold),
            ("no such database", Refusal::NotFound),
            ("no namespace", Refusal::NotFound),
            ("has no ", Refusal::NotFound),
            ("there is no ", Refusal::NotFound),
            ("no message", Refusal::NotFound),
            ("no session", Refusal::NotFound),
            ("no previous", Refusal::NotFound),
            ("no entry", Refusal::NotFound),
            ("sessions, documents or block states already", Refusal::Exists),
            ("exists", Refusal::Exists),
            ("shared database", Refusal::Unavailable),
        ];
        let refusal = refusals.into_iter().find(|(part, _)| stderr.contains(part));
        return Err(refusal.map_or(Refusal::Other(stderr), |(_, refusal)| refusal));
    }
    let lines: Vec<Value> = stdout.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let first = lines.first().cloned().unwrap_or_default();
    Ok(match operation.action {
        "get" => first["content"].clone(),
        "history" => lines.iter().map(|line| line["content"].clone()).collect(),
        "sessions" => lines.iter().map(|line| line["session"].clone()).collect(),
        "namespaces" => first.get("messages").cloned().unwrap_or(json!(0)),
        "recall" | "recall_several" => first["hits"][0]["content"].clone(),
        "holds" => json!(lines.iter().any(|hold| hold["namespace"] == space.as_str())),
        "export" => super::library::exported(stdout.as_bytes()),
        "delete" => first["deleted"].clone(),
        "forget" => {
            let counts = &first["event"]["forgotten"];
            json!(counts["messages"].as_u64().unwrap() + counts["documents"].as_u64().unwrap())
        }
        "backup" => super::texts_in(&super::backup_path(database.db.folder.path(), space.as_str()), space),
        _ => Value::Null,
    })
}
