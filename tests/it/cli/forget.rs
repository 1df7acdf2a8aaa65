//! `mnemon forget`, `mnemon audit` and `mnemon hold`.

use mnemon::{Engine, Message};

use super::{Output, json, mnemon, run};
use crate::support::{Db, message, namespace, open_tables};

fn command(db: &Db, arguments: &[&str]) -> Output {
    // Without a model.
    let (command, rest) = arguments.split_first().unwrap();
    run(mnemon().args(["--format", "json", command, "--db"]).arg(&db.path).args(rest).env("ORT_DYLIB_PATH", "/nowhere"))
}

fn filled() -> Db {
    let db = Db::new();
    let engine: Engine = db.open();
    let put = |name: &str, messages: Vec<Message>| engine.blocking().put(&namespace(name), messages).unwrap();
    put("acme/a", ["1", "2", "3"].map(|id| message(id, &format!("text {id}"))).to_vec());
    put("acme/a", vec![message("4", "another").in_session("s")]);
    put("acme/b", vec![message("1", "of another user")]);
    engine.blocking().flush().unwrap();
    drop(engine);
    db
}

#[test]
fn what_was_named_is_forgotten_with_a_receipt() {
    let db = filled();
    let forget = |rest: &[&str]| command(&db, &[&["forget", "--namespace", "acme/a"], rest].concat());
    // Not without --yes, and not without saying what.
    for (arguments, said) in [
        (&["--all"][..], "everything of acme/a"),
        (&["--id", "1", "2"], "2 messages"),
        (&["--session", "s"], "session"),
        (&[], "say what to forget"),
    ] {
        let output = forget(arguments);
        assert_eq!(output.code, 2, "{}", output.stderr);
        assert!(output.stderr.contains(said), "{}", output.stderr);
    }
    let messages = |output: Output| {
        assert_eq!(output.code, 0, "{}", output.stderr);
        let receipt = json(&output.stdout);
        assert!(receipt["hash"].as_str().unwrap().len() == 64 && receipt["event"]["complete"] == true);
        receipt["event"]["forgotten"]["messages"].as_u64().unwrap()
    };
    assert_eq!(messages(forget(&["--id", "1", "unknown", "--yes"])), 1);
    assert_eq!(messages(forget(&["--where", r#"{"$id": "2"}"#, "--yes"])), 1);
    assert_eq!(messages(forget(&["--session", "s", "--yes"])), 1);
    assert_eq!(messages(forget(&["--all", "--yes"])), 1);
    let unknown = forget(&["--all", "--yes"]);
    assert!(unknown.code == 1 && unknown.stderr.contains("acme/b"), "{}", unknown.stderr);
    assert_eq!(messages(command(&db, &["forget", "--prefix", "acme", "--yes"])), 1);
    let audit = command(&db, &["audit"]);
    assert_eq!(audit.code, 0, "{}", audit.stderr);
    let audit = json(&audit.stdout);
    assert_eq!((audit["entries"].as_array().unwrap().len(), audit["problems"].as_array().unwrap().len()), (6, 0));
    db.assert_sound();
}

#[test]
fn a_hold_is_set_listed_and_released() {
    let db = filled();
    let hold = |rest: &[&str]| command(&db, &[&["hold"], rest].concat());
    assert_eq!(hold(&["--namespace", "acme", "--reason", "case 7"]).code, 0);
    let listed = hold(&[]);
    assert!(json(&listed.stdout)["reason"] == "case 7", "{}", listed.stdout);
    let refused = command(&db, &["forget", "--namespace", "acme/a", "--all", "--yes"]);
    assert!(refused.code == 1 && refused.stderr.contains("case 7") && refused.stderr.contains("mnemon hold --release"));
    assert_eq!(hold(&["--namespace", "acme"]).code, 2, "it says neither");
    assert_eq!(hold(&["--namespace", "acme", "--release"]).code, 0);
    assert_eq!(hold(&["--namespace", "acme", "--release"]).code, 1);
    assert_eq!(hold(&[]).stdout, "");
}

#[test]
fn a_broken_chain_of_receipts_is_exit_status_3() {
    let db = filled();
    for id in ["1", "2", "3"] {
        assert_eq!(command(&db, &["forget", "--namespace", "acme/a", "--id", id, "--yes"]).code, 0);
    }
    let tables = open_tables(&db.path);
    let transaction = tables.begin_write().unwrap();
    let audit = redb::TableDefinition::<u64, &[u8]>::new("audit");
    assert!(transaction.open_table(audit).unwrap().remove(1).unwrap().is_some());
    transaction.commit().unwrap();
    drop(tables);
    let broken = command(&db, &["audit"]);
    assert_eq!(broken.code, 3, "{}", broken.stderr);
    let audit = json(&broken.stdout);
    assert_eq!((audit["entries"].as_array().unwrap().len(), &audit["problems"][0]), (2, &"entry 1 is missing".into()));
    let text = run(mnemon().args(["audit", "--db"]).arg(&db.path));
    assert!(text.code == 3 && text.stdout.ends_with("THE CHAIN IS BROKEN\n"), "{}", text.stdout);
}
