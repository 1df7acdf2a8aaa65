//! `mnemon ingest`: languages, repeated files, bad lines, and what a failure leaves.

use super::{ingest, json, mnemon, run};
use crate::support::Db;

#[test]
fn ingest_sets_the_language_of_a_namespace() {
    let line = r#"{"role":"user","content":"Wir haben zwei alte Häuser gekauft."}"#;
    for (language, finds) in [("german", true), ("english", false)] {
        let db = Db::new();
        let output = ingest(&db, &["--namespace", "a", "--language", language], line);
        assert_eq!((output.code, &json(&output.stdout)["new"]), (0, &json!(1)), "{}", output.stderr);
        // It is kept.
        ingest(&db, &["--namespace", "a"], r#"{"role":"user","content":"Die Häuser sind trocken."}"#);
        let recall = ["--format", "json", "recall", "--namespace", "a", "Haus", "--db"];
        let hits = json(&run(mnemon().args(recall).arg(&db.path)).stdout)["hits"].clone();
        let found = hits.as_array().unwrap().iter().filter(|hit| hit["breakdown"]["bm25"].as_f64() > Some(0.0));
        assert_eq!(found.count(), if finds { 2 } else { 0 }, "{language}: {hits}");
        db.assert_sound();
    }
    let unknown = ingest(&Db::new(), &["--namespace", "a", "--language", "klingon"], line);
    assert!(unknown.code == 2 && unknown.stderr.contains("klingon"), "{}", unknown.stderr);
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
fn lines_may_be_of_openai() {
    let db = Db::new();
    let lines = r#"{"role":"developer","content":"Be brief.","session":"s"}
{"role":"user","content":[{"type":"image_url","image_url":{"url":"https://a.org/a.png"}},{"type":"text","text":"What?"}],"session":"s"}
{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}],"session":"s"}
{"role":"tool","tool_call_id":"c","content":"a boat","session":"s"}
"#;
    let first = ingest(&db, &["--namespace", "a"], lines);
    assert_eq!((first.code, &json(&first.stdout)["new"]), (0, &json!(4)), "{}", first.stderr);
    assert_eq!(json(&ingest(&db, &["--namespace", "a"], lines).stdout)["unchanged"], 4);
    let engine = mnemon::Engine::open(&db.path).unwrap();
    let history = engine.blocking().history(&crate::support::namespace("a"), "s").unwrap();
    let roles: Vec<&str> = history.iter().map(|message| message.role.as_str()).collect();
    assert_eq!(roles, ["system", "user", "assistant", "tool"]);
}

#[test]
fn a_bad_line_stops_ingest_and_the_error_says_how_to_continue() {
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
fn ingest_fails_if_most_lines_are_bad_and_says_how_many() {
    let good = r#"{"role":"user","content":"x","id":"1"}"#;
    let check = |lines: &[&str], code: i32, said: &str| {
        let db = Db::new();
        let output = ingest(&db, &["--namespace", "a", "--skip-bad"], &lines.join("\n"));
        assert_eq!(output.code, code, "{lines:?}: {}", output.stderr);
        assert!(output.stderr.contains(said), "{lines:?}: {}", output.stderr);
        // What was good is stored all the same.
        assert_eq!(db.path.exists(), lines.contains(&good));
    };
    check(&[good, "{"], 0, "skipped -:2");
    check(&[good, "{", "["], 1, "2 of 3 lines were bad and skipped, most of them");
    check(&["{"], 1, "1 of 1 lines were bad");
}

#[test]
fn a_failed_first_ingest_leaves_no_database() {
    let missing = ["--namespace", "a", "no-such-file.jsonl"];
    let unknown_model = ["--namespace", "a", "--model", "no-such-model", "-"];
    let no_namespace = ["-"];
    let good = r#"{"role":"user","content":"x"}"#;
    for (arguments, input) in [
        (&missing[..], ""),
        (&unknown_model, good),
        (&no_namespace, good),
        (&["--namespace", "a", "--language", "german", "-"], "{"),
    ] {
        let db = Db::new();
        let output = run(mnemon().args(["ingest", "--db"]).arg(&db.path).args(arguments).write_stdin(input));
        assert_ne!(output.code, 0, "{arguments:?}");
        assert!(!db.path.exists(), "{arguments:?}: {}", output.stderr);
    }
    // A database that existed stays, and so do the messages before a bad line.
    let db = Db::new();
    assert_eq!(ingest(&db, &["--namespace", "a"], &format!("{good}\n{{")).code, 1);
    assert_eq!(db.assert_sound().messages, 1);
    assert_eq!(run(mnemon().args(["delete", "--namespace", "a", "--all", "--yes", "--db"]).arg(&db.path)).code, 0);
    assert_eq!(ingest(&db, &["--namespace", "a"], "{").code, 1);
    assert!(db.path.exists());
}
