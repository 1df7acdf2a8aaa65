//! The command, as a shell would call it.

use std::fs;

use assert_cmd::Command;
use serde_json::{Value, json};

use crate::support::{Db, sample};

fn mnemon() -> Command {
    Command::cargo_bin("mnemon").unwrap()
}

struct Output {
    code: i32,
    stdout: String,
    stderr: String,
}

fn run(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    Output {
        code: output.status.code().unwrap(),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

fn ingest(db: &Db, arguments: &[&str], input: &str) -> Output {
    run(mnemon().args(["--format", "json", "ingest", "--db"]).arg(&db.path).args(arguments).arg("-").write_stdin(input))
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[test]
fn ingest_recall_stats_verify() {
    let db = Db::new();
    let output = run(mnemon().args(["ingest", "--db"]).arg(&db.path).arg(sample("messages.jsonl")));
    assert_eq!(output.code, 0, "{}", output.stderr);
    assert!(output.stdout.contains("stored, embedded, indexed"));

    let recall = |arguments: &[&str]| run(mnemon().args(["recall", "--db"]).arg(&db.path).args(arguments));
    let text = recall(&["--namespace", "friends/ines-tom", "-k", "3", "the canal boat"]);
    assert_eq!((text.code, text.stdout.lines().count()), (0, 3), "{}", text.stderr);
    assert!(text.stdout.to_lowercase().contains("boat"), "{}", text.stdout);

    let answer =
        json(&recall(&["--format", "json", "--namespace", "friends/ines-tom", "-k", "2", "the canal boat"]).stdout);
    let hit = &answer["hits"][0];
    let mut names: Vec<&str> = hit.as_object().unwrap().keys().map(String::as_str).collect();
    names.sort_unstable();
    assert_eq!(names, ["content", "created_at", "id", "name", "rank", "role", "score", "session"]);
    assert_eq!((&answer["query_id"], &answer["namespace"]), (&Value::Null, &json!("friends/ines-tom")));
    assert!(answer["latency_us"].as_u64().unwrap() > 0);

    let filtered = json(
        &recall(&[
            "--format",
            "json",
            "--namespace",
            "friends/ines-tom",
            "--session",
            "s2",
            "--role",
            "user",
            "--since",
            "2024-01-01",
            "--until",
            "2024-12-31T00:00:00Z",
            "-k",
            "50",
            "the boat",
        ])
        .stdout,
    );
    let hits = filtered["hits"].as_array().unwrap();
    assert!(!hits.is_empty() && hits.iter().all(|hit| hit["session"] == "s2" && hit["role"] == "user"));

    let questions = fs::read_to_string(sample("queries.jsonl")).unwrap();
    let answers =
        run(mnemon().args(["recall", "--db"]).arg(&db.path).args(["--queries", "-"]).write_stdin(questions.clone()));
    assert_eq!(answers.stdout.lines().count(), questions.lines().count());
    for (question, answer) in questions.lines().zip(answers.stdout.lines()) {
        let (question, answer) = (json(question), json(answer));
        assert_eq!((&question["id"], &question["namespace"]), (&answer["query_id"], &answer["namespace"]));
        assert_eq!(answer["hits"].as_array().unwrap().len(), 10);
    }

    let stats = json(&run(mnemon().args(["--format", "json", "stats", "--db"]).arg(&db.path)).stdout);
    assert_eq!(stats["namespaces"].as_array().unwrap().len(), 3);
    assert_eq!(stats["generations"][0]["model"]["name"], "static-en-256");
    let verify = run(mnemon().args(["verify", "--db"]).arg(&db.path));
    assert!(verify.code == 0 && verify.stdout.ends_with("sound\n"));
}

#[test]
fn ingesting_again_doubles_nothing_with_or_without_ids() {
    let db = Db::new();
    let lines = r#"{"role":"user","content":"one"}
{"role":"user","content":"one"}

{"role":"user","content":"two","id":"2"}
"#;
    let first = json(&ingest(&db, &["--namespace", "a"], lines).stdout);
    assert_eq!((&first["new"], &first["unchanged"]), (&json!(3), &json!(0)), "two alike are two");
    let again = json(&ingest(&db, &["--namespace", "a"], lines).stdout);
    assert_eq!((&again["new"], &again["unchanged"]), (&json!(0), &json!(3)));
    // The override is a namespace of its own, also for lines that name another.
    let other = ingest(&db, &["--namespace", "b"], r#"{"role":"user","content":"x","namespace":"a"}"#);
    assert_eq!(json(&other.stdout)["new"], 1);
    let stats = mnemon::stats(&db.path).unwrap();
    let counts: Vec<_> = stats.namespaces.iter().map(|space| (space.namespace.as_str(), space.messages)).collect();
    assert_eq!(counts, [("a", 3), ("b", 1)]);
}

#[test]
fn a_bad_line_stops_and_says_how_to_go_on() {
    let good = |i: usize| format!("{{\"role\":\"user\",\"content\":\"line {i}\",\"id\":\"{i}\"}}\n");
    let lines: String = (1..=700).map(good).collect::<String>() + "{\"role\":\"user\"}\n" + &good(702);
    let db = Db::new();
    let stopped = ingest(&db, &["--namespace", "a"], &lines);
    assert_eq!(stopped.code, 1);
    for part in ["-:701", "missing field `content`", "all lines before it are stored", "--skip-bad"] {
        assert!(stopped.stderr.contains(part), "{}", stopped.stderr);
    }
    let report = db.assert_sound();
    assert_eq!((report.messages, report.pending), (700, 0));
    let skipped = ingest(&db, &["--namespace", "a", "--skip-bad"], &lines);
    assert_eq!(skipped.code, 0);
    assert!(skipped.stderr.contains("skipped -:701"), "{}", skipped.stderr);
    let report = json(&skipped.stdout);
    assert_eq!((&report["new"], &report["unchanged"], &report["skipped"]), (&json!(1), &json!(700), &json!(1)));
    // Bytes that are no text are a bad line as well.
    let output = run(mnemon()
        .args(["ingest", "--namespace", "a", "--db"])
        .arg(&db.path)
        .arg("-")
        .write_stdin(&b"\xff\xfe\n"[..]));
    assert!(output.code == 1 && output.stderr.contains("-:1: not UTF-8"), "{}", output.stderr);
}

#[test]
fn errors_name_the_remedy_and_exit_with_1() {
    let db = Db::new();
    let missing = run(mnemon().args(["recall", "--namespace", "a", "hi", "--db"]).arg(&db.path));
    assert!(missing.code == 1 && missing.stderr.contains("mnemon ingest"), "{}", missing.stderr);
    let no_space = ingest(&db, &[], r#"{"role":"user","content":"x"}"#);
    assert!(no_space.code == 1 && no_space.stderr.contains("--namespace"), "{}", no_space.stderr);
    ingest(&db, &["--namespace", "a"], r#"{"role":"user","content":"x"}"#);
    let zero = run(mnemon().args(["recall", "--namespace", "a", "-k", "0", "hi", "--db"]).arg(&db.path));
    assert!(zero.code == 1 && zero.stderr.contains("k is 0"), "{}", zero.stderr);
    let model = run(mnemon().args(["reindex", "--model", "nothing", "--db"]).arg(&db.path));
    assert!(model.code == 1 && model.stderr.contains("make model-minilm"), "{}", model.stderr);
    // Wrong usage is 2.
    for arguments in [
        &["recall", "--db", "x", "--namespace", "a//b", "hi"][..],
        &["recall", "--db", "x", "--namespace", "a", "--since", "soon", "hi"],
        &["recall", "--db", "x", "--namespace", "a", "--role", "human", "hi"],
        &["recall", "--db", "x", "hi"],
        &["ingest", "--db", "x"],
        &["nonsense"],
    ] {
        assert_eq!(run(mnemon().args(arguments)).code, 2, "{arguments:?}");
    }
}

#[test]
fn every_command_has_help() {
    for command in ["ingest", "recall", "eval", "reindex", "stats", "verify", "bench"] {
        let output = run(mnemon().args([command, "--help"]));
        assert!(output.code == 0 && output.stdout.len() > 100, "{command}");
    }
    let help = run(mnemon().arg("--help")).stdout;
    assert!(help.contains("Exit status") && help.contains("ORT_DYLIB_PATH"), "{help}");
}

#[test]
fn the_harness_prints_json() {
    for what in ["flush", "recall"] {
        let output =
            run(mnemon().args(["bench", what, "--messages"]).arg(sample("messages.jsonl")).args(if what == "recall" {
                vec!["--queries".into(), sample("queries.jsonl").into_os_string()]
            } else {
                vec![]
            }));
        let report = json(&output.stdout);
        assert_eq!((&report["bench"], &report["messages"]), (&json!(what), &json!(462)));
    }
}
