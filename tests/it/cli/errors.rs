//! Errors, as text and as JSON, and exit statuses.

use super::{ingest, json, mnemon, run};
use crate::support::Db;

#[test]
fn errors_name_the_remedy_and_exit_with_1() {
    let db = Db::new();
    let missing = run(mnemon().args(["recall", "--namespace", "a", "hi", "--db"]).arg(&db.path));
    assert!(missing.code == 1 && missing.stderr.contains("mnemon ingest"), "{}", missing.stderr);
    let no_space = ingest(&db, &[], r#"{"role":"user","content":"x"}"#);
    assert!(no_space.code == 1 && no_space.stderr.contains("--namespace"), "{}", no_space.stderr);
    ingest(&db, &["--namespace", "a"], r#"{"role":"user","content":"x"}"#);
    let zero = run(mnemon().args(["recall", "--namespace", "a", "-k", "0", "hi", "--db"]).arg(&db.path));
    assert!(zero.code == 2 && zero.stderr.contains("0 is not in 1..=1000"), "{}", zero.stderr);
    let model = run(mnemon().args(["reindex", "--model", "nothing", "--db"]).arg(&db.path));
    assert!(model.code == 1 && model.stderr.contains("MNEMON_MODELS"), "{}", model.stderr);
    // Wrong usage is 2.
    for arguments in [
        &["recall", "--db", "x", "--namespace", "a//b", "hi"][..],
        &["recall", "--db", "x", "--namespace", "a", "--since", "soon", "hi"],
        &["recall", "--db", "x", "--namespace", "a", "--role", "human", "hi"],
        &["recall", "--db", "x", "--namespace", "a", "--strategy", "best", "hi"],
        &["recall", "--db", "x", "--namespace", "a", "--half-life", "1mo", "hi"],
        &["recall", "--db", "x", "--namespace", "a", "--rerank-depth", "5", "hi"],
        &["recall", "--db", "x", "hi"],
        &["eval", "--messages", "x"],
        &["eval", "--set", "x"],
        &["eval", "--set", "x=a,b", "--recall", "dense-time"],
        &["ingest", "--db", "x"],
        &["ingest", "--db", "x", "--precision", "f8", "y"],
        &["reindex", "--db", "x", "--rollback", "--drop-previous"],
        &["reindex", "--db", "x", "--rollback", "--precision", "i8"],
        &["reindex", "--db", "x", "--min-recall", "2"],
        &["reindex", "--db", "x", "--min-overlap", "-1"],
        &["reindex", "--db", "x", "--samples", "20000"],
        &["recall", "--db", "x", "--namespace", "a", "--diversity", "1.5", "hi"],
        &["recall", "--db", "x", "--namespace", "a", "--answerable", "nan", "hi"],
        &["recall", "--db", "x", "--namespace", "a", "--per-batch", "0", "hi"],
        &["eval", "--set", "x=a,b", "-k", "1,0"],
        &["eval", "--messages", "a", "--queries", "b", "--messages", "c"],
        &["eval", "--set", "x=a,b", "--set", "x=c,d"],
        &["bench", "recall", "--rounds", "0"],
        &["bench", "ann", "--data", "x", "--threads", "0"],
        &["bench", "ann", "--data", "x", "--ef", "0"],
        &["get", "--db", "x", "--namespace", "a"],
        &["delete", "--db", "x", "--namespace", "a"],
        &["delete", "--db", "x", "--namespace", "a", "--all", "m1"],
        &["nonsense"],
    ] {
        assert_eq!(run(mnemon().args(arguments)).code, 2, "{arguments:?}");
    }
}

#[test]
fn errors_are_json_if_the_format_is() {
    let db = Db::new();
    let path = db.path.to_str().unwrap();
    for (arguments, status, part) in [
        (&["--format", "json", "stats", "--db", path][..], 1, "no such database"),
        (&["verify", "--db", path, "--format=json"], 1, "no such database"),
        (&["--format", "json", "recall", "--db", path, "--namespace", "a", "-k", "0", "x"], 2, "0 is not in 1..=1000"),
        (&["--format", "json", "nonsense"], 2, "unrecognized subcommand"),
    ] {
        let output = run(mnemon().args(arguments));
        let error = json(output.stderr.trim_end());
        assert_eq!((output.code, &error["exit_status"], &*output.stdout), (status, &status.into(), ""), "{error}");
        assert!(error["error"].as_str().unwrap().contains(part), "{error}");
    }
    // Notes are objects of their own.
    let lines = "{\"role\":\"user\",\"content\":\"x\"}\n{\n";
    let skipped = ingest(&db, &["--namespace", "a", "--skip-bad"], lines);
    assert!(json(skipped.stderr.trim_end())["note"].as_str().unwrap().starts_with("skipped -:2"), "{}", skipped.stderr);
    let quiet = ingest(&db, &["--namespace", "a", "--skip-bad", "--quiet"], lines);
    assert_eq!((quiet.code, &*quiet.stderr), (0, ""));
    // Help is text in any case.
    assert!(run(mnemon().args(["--format", "json", "--help"])).stdout.contains("Usage"));
}

#[test]
fn a_query_that_the_engine_refuses_is_wrong_usage() {
    let db = Db::new();
    ingest(&db, &["--namespace", "a"], r#"{"role":"user","content":"x"}"#);
    for more in [&[" "][..], &["--since", "2024-02-01", "--until", "2024-01-01", "x"]] {
        let output = run(mnemon().args(["recall", "--namespace", "a", "--db"]).arg(&db.path).args(more));
        assert!(output.code == 2 && output.stderr.contains("invalid query"), "{more:?}: {}", output.stderr);
    }
}
