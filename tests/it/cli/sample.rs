//! The committed sample: its size and labels, and a floor for what `mnemon eval` finds in it.

use std::collections::{BTreeMap, BTreeSet};

use mnemon::MessageLine;
use serde_json::Value;

use crate::support::{Db, sample};

#[test]
fn the_sample_has_the_size_and_the_labels_that_its_readme_states() {
    let messages = std::fs::read_to_string(sample("messages.jsonl")).unwrap();
    let mut ids = BTreeSet::new();
    let mut sessions = BTreeMap::new();
    for line in messages.lines() {
        let MessageLine { namespace, message, has_id } = MessageLine::parse(line).unwrap();
        assert!(has_id);
        let namespace = namespace.unwrap().to_string();
        let time = message.created_at.expect("dated");
        let last = sessions.entry((namespace.clone(), message.session)).or_insert(time);
        assert!(*last <= time, "in order: {line}");
        *last = time;
        assert!(ids.insert((namespace, message.id)), "once: {line}");
    }
    let namespaces: BTreeSet<_> = ids.iter().map(|(namespace, _)| namespace.clone()).collect();
    assert!(ids.len() >= 400 && sessions.len() >= 24 && namespaces.len() >= 3);

    let queries = std::fs::read_to_string(sample("queries.jsonl")).unwrap();
    let mut categories: BTreeMap<String, usize> = BTreeMap::new();
    for line in queries.lines() {
        let query: Value = serde_json::from_str(line).unwrap();
        let relevant = query["relevant"].as_array().unwrap();
        let category = query["category"].as_str().unwrap();
        assert_eq!(relevant.is_empty(), category == "adversarial", "{line}");
        let namespace = query["namespace"].as_str().unwrap();
        for id in relevant {
            assert!(ids.contains(&(namespace.to_owned(), id.as_str().unwrap().to_owned())), "{line}");
        }
        *categories.entry(category.to_owned()).or_default() += 1;
    }
    assert!(categories.values().sum::<usize>() >= 60);
    let names: Vec<&str> = categories.keys().map(String::as_str).collect();
    assert_eq!(names, ["adversarial", "multi-hop", "open-domain", "single-hop", "temporal"]);
}

/// A floor well under what was measured: it fails when embedding, index or metrics break, not when they vary.
#[test]
fn eval_finds_most_of_the_evidence() {
    for index in ["exact", "hnsw_rs"] {
        let output = assert_cmd::Command::cargo_bin("mnemon")
            .unwrap()
            .args(["--format", "json", "eval", "--index", index, "--messages"])
            .arg(sample("messages.jsonl"))
            .arg("--queries")
            .arg(sample("queries.jsonl"))
            .assert()
            .success();
        let report: Value = serde_json::from_slice(&output.get_output().stdout).unwrap();
        let recall = report["scores"]["all but adversarial"]["recall_at"]["10"].as_f64().unwrap();
        assert!(recall > 0.4, "{index}: R@10 {recall}");
        assert!(report["unlabelled"].as_u64().unwrap() > 0);
    }
}

/// The script's last lines suggest a question: its answer is the first hit.
#[test]
fn the_suggested_question_of_the_demo_is_answered() {
    let script = std::fs::read_to_string(sample("demo.sh")).unwrap();
    let echo = script.lines().find(|line| line.contains("$mnemon recall --db $db --namespace")).expect("a suggestion");
    let suggestion = echo.trim_start_matches("echo \"").trim_end_matches('"');
    let db = Db::new();
    let mnemon = assert_cmd::cargo::cargo_bin("mnemon");
    let mut ingest = std::process::Command::new(&mnemon);
    let ingest = ingest.args(["ingest", "--db"]).arg(&db.path).arg(sample("messages.jsonl"));
    assert!(ingest.output().unwrap().status.success());
    let mut shell = std::process::Command::new("sh");
    let output = shell.args(["-c", suggestion]).env("mnemon", mnemon).env("db", &db.path).output().unwrap();
    let hits = String::from_utf8(output.stdout).unwrap();
    assert!(hits.lines().next().is_some_and(|first| first.contains("navy blue")), "{suggestion}: {hits}");
}
