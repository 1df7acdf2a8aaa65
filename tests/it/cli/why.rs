//! `mnemon recall --journal` and `mnemon why`.

use super::{ingest, json, mnemon, run};
use crate::support::Db;

fn put(db: &Db, id: &str, text: &str) {
    let line = serde_json::json!({"id": id, "role": "user", "content": text}).to_string();
    assert_eq!(ingest(db, &["--namespace", "a"], &line).code, 0);
}

#[test]
fn why_says_what_was_recalled_and_what_changed() {
    let db = Db::new();
    put(&db, "boat", "The boat leaks.");
    put(&db, "bike", "My bike is in the cellar.");
    let why =
        |arguments: &[&str]| run(mnemon().args(["why", "--namespace", "a", "--db"]).arg(&db.path).args(arguments));
    let recall =
        |arguments: &[&str]| run(mnemon().args(["recall", "--namespace", "a", "--db"]).arg(&db.path).args(arguments));

    assert_eq!(recall(&["Where is the boat?"]).code, 0);
    let off = why(&["boat"]);
    assert!(off.code == 1 && off.stderr.contains("`mnemon recall --journal`"), "{}", off.stderr);
    for text in ["Where is the boat?", "Which boat leaks?"] {
        let output = recall(&["--journal", "-k", "1", text]);
        assert_eq!(output.code, 0, "{}", output.stderr);
    }
    let output = why(&["boat"]);
    assert_eq!(output.code, 0, "{}", output.stderr);
    for part in [
        "entry 2, ",
        ": Which boat leaks?\n",
        "options {\"k\":1}\n",
        "rank 1 of 1, score ",
        "boat: cosine 0.",
        "lexical +",
        "  boat is still at rank 1, with the same score ",
        "  Nothing changed: ",
        "other entries: 1\n",
    ] {
        assert!(output.stdout.contains(part), "{part}: {}", output.stdout);
    }
    let first = why(&["boat", "--entry", "1"]).stdout;
    assert!(first.contains("entry 1, ") && first.contains("other entries: 2"), "{first}");

    put(&db, "better", "Which boat leaks? The red boat leaks.");
    let worse = why(&["boat"]).stdout;
    for part in
        ["boat was at rank 1 and is no hit any more", "better is new at rank 1, with score", "put or edited since"]
    {
        assert!(worse.contains(part), "{part}: {worse}");
    }
    put(&db, "boat", "The boat that leaks is blue.");
    run(mnemon().args(["delete", "--namespace", "a", "better", "--db"]).arg(&db.path));
    let edited = why(&["boat"]).stdout;
    assert!(
        edited.contains("boat is still at rank 1") && edited.contains("It was edited, or put again, since."),
        "{edited}"
    );
    run(mnemon().args(["delete", "--namespace", "a", "boat", "--db"]).arg(&db.path));
    let gone = why(&["boat"]);
    assert!(gone.stdout.contains("boat is gone: it was deleted."), "{} {}", gone.stdout, gone.stderr);

    let answer =
        json(&run(mnemon().args(["--format", "json", "why", "--namespace", "a", "boat", "--db"]).arg(&db.path)).stdout);
    assert_eq!(
        (&answer["entry"]["text"], &answer["other_entries"]),
        (&"Which boat leaks?".into(), &serde_json::json!([1]))
    );
    let last = answer["replay"]["hits"].as_array().unwrap().last().unwrap();
    assert_eq!((&last["id"], &last["change"], &last["then"]["rank"]), (&"boat".into(), &"gone".into(), &1.into()));

    for (arguments, part) in [
        (&["bike"][..], "`mnemon recall --journal --explain`"),
        (&["nobody"], "no message \"nobody\""),
        (&["boat", "--entry", "7"], "entries that have: 2, 1"),
    ] {
        let output = why(arguments);
        assert!(output.code == 1 && output.stderr.contains(part), "{part}: {}", output.stderr);
    }
    let several = recall(&["--prefix", "a", "--journal", "boat"]);
    assert!(several.code == 2 && several.stderr.contains("one namespace"), "{}", several.stderr);
}

#[test]
fn recalls_as_of_a_time() {
    let db = Db::new();
    put(&db, "boat", "The boat leaks.");
    let recall = |time: &str| {
        let common = ["--format", "json", "recall", "--namespace", "a", "boat", "--as-of", time, "--db"];
        json(&run(mnemon().args(common).arg(&db.path)).stdout)["hits"].as_array().unwrap().len()
    };
    assert_eq!((recall("2020-01-01"), recall("2100-01-01T00:00:00Z")), (0, 1));
}
