//! `mnemon recall --queries`.

use serde_json::Value;

use super::{Output, ingest, json, mnemon, run};
use crate::support::Db;

fn recall(db: &Db, arguments: &[&str], lines: &str) -> Output {
    run(mnemon().args(["recall", "--queries", "-", "--db"]).arg(&db.path).args(arguments).write_stdin(lines))
}

#[test]
fn queries_need_neither_ids_nor_namespaces_in_their_lines() {
    let db = Db::new();
    ingest(&db, &["--namespace", "a"], r#"{"role":"user","content":"my bike is in the cellar","id":"1"}"#);
    let lines = "Where is the bike?\n{\"query\":\"bike\"}\n{\"id\":\"q3\",\"namespace\":\"b\",\"query\":\"bike\"}\n";
    let output = recall(&db, &["--namespace", "a"], lines);
    assert_eq!(output.code, 0, "{}", output.stderr);
    let answers: Vec<Value> = output.stdout.lines().map(json).collect();
    let ids: Vec<&Value> = answers.iter().map(|answer| &answer["query_id"]).collect();
    assert_eq!(ids, [&Value::Null, &Value::Null, &"q3".into()]);
    assert!(answers.iter().all(|answer| answer["namespace"] == "a" && answer["hits"][0]["id"] == "1"), "{answers:?}");

    let none = recall(&db, &[], "Where is the bike?");
    assert!(none.code == 1 && none.stderr.contains("-:1: no namespace"), "{}", none.stderr);
}

#[test]
fn a_bad_line_stops_unless_it_is_to_be_skipped() {
    let db = Db::new();
    ingest(&db, &["--namespace", "a"], r#"{"role":"user","content":"my bike is in the cellar","id":"1"}"#);
    let good = r#"{"query": "bike"}"#;
    for bad in [r#"{"query": "  "}"#, r#"{"query": ""}"#, r#"{"query": 7}"#, "{", r#"{"namespace": "a"}"#] {
        let lines = format!("{good}\n{bad}\n{good}\n");
        let stopped = recall(&db, &["--namespace", "a"], &lines);
        assert_eq!((stopped.code, stopped.stdout.lines().count()), (1, 1), "{bad}: {}", stopped.stderr);
        assert!(stopped.stderr.contains("-:2: "), "{bad}: {}", stopped.stderr);
        let skipped = recall(&db, &["--namespace", "a", "--skip-bad"], &lines);
        assert_eq!((skipped.code, skipped.stdout.lines().count()), (0, 2), "{bad}: {}", skipped.stderr);
        assert!(skipped.stderr.contains("skipped -:2: "), "{bad}: {}", skipped.stderr);
        let most = recall(&db, &["--namespace", "a", "--skip-bad"], &format!("{bad}\n{good}\n{bad}\n"));
        assert!(most.code == 1 && most.stderr.contains("2 of 3 lines were bad"), "{bad}: {}", most.stderr);
    }
    let alone = run(mnemon().args(["recall", "--skip-bad", "--namespace", "a", "bike", "--db"]).arg(&db.path));
    assert_eq!(alone.code, 2, "{}", alone.stderr);
}

#[test]
fn unknown_namespaces_of_lines_are_noted_and_a_given_one_is_an_error() {
    let db = Db::new();
    ingest(&db, &["--namespace", "a/b"], r#"{"role":"user","content":"x"}"#);
    let line = r#"{"namespace":"a/c","query":"x"}"#;
    let noted = recall(&db, &[], &format!("{line}\n{line}"));
    assert_eq!((noted.code, noted.stdout.lines().count()), (0, 2), "{}", noted.stderr);
    assert_eq!(noted.stderr.matches("no namespace \"a/c\"").count(), 1, "{}", noted.stderr);
    let given = recall(&db, &["--namespace", "a/d"], "x");
    assert!(given.code == 1 && given.stderr.contains("the nearest is \"a/b\""), "{}", given.stderr);
}

#[test]
fn messages_are_filtered_by_metadata_and_by_ids() {
    let db = Db::new();
    let lines = r#"{"role":"user","content":"my bike is blue","id":"1","metadata":{"user":{"age":40}}}
{"role":"user","content":"my bike is red","id":"2","metadata":{"user":{"age":9}}}
{"role":"user","content":"my bike is old","id":"3"}"#;
    ingest(&db, &["--namespace", "a"], lines);
    let found = |arguments: &[&str]| {
        let output = recall(&db, &[&["--namespace", "a"], arguments].concat(), "bike");
        assert_eq!(output.code, 0, "{}", output.stderr);
        let answer = json(output.stdout.trim());
        let mut ids: Vec<String> = answer["hits"].as_array().unwrap().iter().map(|hit| hit["id"].to_string()).collect();
        ids.sort();
        ids.concat()
    };
    assert_eq!(found(&["--where", r#"{"user.age": {"$gte": 18}}"#]), r#""1""#);
    assert_eq!(found(&["--where", r#"{"$not": {"user": {"age": 40}}}"#]), r#""2""3""#);
    assert_eq!(found(&["--ids", "2,3,4", "--where", "{}"]), r#""2""3""#);
    for (filter, reason) in [
        ("user.age >= 18", "a filter is a JSON object"),
        (r#"{"a": {"$gte": {}}}"#, "$gte at \"a\" takes a number or a string"),
        (r#"{"a": {"$like": 1}}"#, "\"$like\" is not an operator"),
    ] {
        let wrong = recall(&db, &["--where", filter], "bike");
        assert!(wrong.code == 2 && wrong.stderr.contains(reason), "{}", wrong.stderr);
    }
}

#[test]
fn days_are_of_the_offset_of_now_of_the_machine_or_of_a_time_zone() {
    let db = Db::new();
    let lines = r#"{"role":"user","content":"we cooked soup","id":"16","created_at":"2023-05-16T12:00:00-07:00"}
{"role":"user","content":"we cooked stew","id":"17","created_at":"2023-05-17T12:00:00-07:00"}"#;
    ingest(&db, &["--namespace", "a"], lines);
    let found = |zone: &str, arguments: &[&str]| {
        let mut command = mnemon();
        command.env("TZ", zone).args(["--format", "json", "recall", "--namespace", "a", "--time", "filter", "--db"]);
        let output = run(command.arg(&db.path).args(arguments).arg("what we cooked yesterday"));
        assert_eq!(output.code, 0, "{}", output.stderr);
        let answer = json(output.stdout.trim());
        answer["hits"].as_array().unwrap().iter().map(|hit| hit["id"].to_string()).collect::<String>()
    };
    let (evening, same) = ("2023-05-17T17:30:00-08:00", "2023-05-18T01:30:00Z");
    assert_eq!(found("UTC", &["--now", evening]), r#""16""#);
    assert_eq!(found("America/Los_Angeles", &["--now", same]), r#""17""#, "the offset of now is that of UTC");
    assert_eq!(found("UTC", &["--now", same, "--time-zone", "-08:00"]), r#""16""#);
    // Thirteen hours ago is yesterday where it is three o'clock now, and today where it is 20 o'clock.
    let now = mnemon::Timestamp::now().as_micros();
    let hour = now / 3_600_000_000 % 24;
    let at = mnemon::Timestamp::from_micros(now - 13 * 3_600_000_000).unwrap();
    let line = format!(r#"{{"role":"user","content":"we cooked rice","id":"rice","created_at":"{at}"}}"#);
    ingest(&db, &["--namespace", "a"], &line);
    let zone_at = |wanted: i64| match (wanted - hour + 12).rem_euclid(24) - 12 {
        east @ 1.. => format!("Etc/GMT-{east}"),
        west => format!("Etc/GMT+{}", -west),
    };
    assert_eq!((found(&zone_at(3), &[]), found(&zone_at(20), &[])), (r#""rice""#.to_owned(), String::new()));
    assert_eq!(found("UTC", &["--time-zone", &zone_at(3)]), r#""rice""#);
    let wrong = run(mnemon().args(["recall", "--db"]).arg(&db.path).args(["--time-zone", "Mars", "x"]));
    assert!(wrong.code == 2 && wrong.stderr.contains("such as Europe/Berlin or +02:00"), "{}", wrong.stderr);
}

#[test]
fn several_namespaces_are_searched_with_one_ranking() {
    let db = Db::new();
    for (name, color) in [("acme/ada", "blue"), ("acme/bob", "red"), ("acme-2", "green"), ("team", "old")] {
        let line = format!(r#"{{"role":"user","content":"my bike is {color}","id":"1","session":"s"}}"#);
        ingest(&db, &["--namespace", name], &line);
    }
    let names = |output: &Output| {
        assert_eq!(output.code, 0, "{}", output.stderr);
        let answer = json(output.stdout.trim());
        assert_eq!(answer["namespace"], Value::Null);
        let hits = answer["hits"].as_array().unwrap();
        let mut names: Vec<String> = hits.iter().map(|hit| hit["namespace"].as_str().unwrap().to_owned()).collect();
        names.sort();
        names.join(" ")
    };
    let one = |arguments: &[&str]| run(mnemon().args(["recall", "--db"]).arg(&db.path).args(arguments).arg("red bike"));
    let as_json = |arguments: &[&str]| names(&one(&[&["--format", "json"], arguments].concat()));
    assert_eq!(as_json(&["--namespace", "acme/ada", "--namespace", "team"]), "acme/ada team");
    assert_eq!(as_json(&["--prefix", "acme"]), "acme/ada acme/bob");
    assert_eq!(as_json(&["--prefix", "acme", "--namespace", "team"]), "acme/ada acme/bob team");
    assert_eq!(
        names(&recall(&db, &["--prefix", "acme"], r#"{"query":"bike","namespace":"team"}"#)),
        "acme/ada acme/bob"
    );

    let text = one(&["--prefix", "acme", "-k", "1", "--memory-budget", "1"]);
    assert!(text.stdout.contains("  acme/bob  s  user: my bike is red\n"), "{}", text.stdout);

    for (arguments, reason) in [
        (["--prefix", "acm"], "no namespace under \"acm\""),
        (["--namespace", "acme/eve"], "the nearest is \"acme/ada\""),
    ] {
        let unknown = one(&[&["--namespace", "team"], &arguments[..]].concat());
        assert!(unknown.code == 1 && unknown.stderr.contains(reason), "{}", unknown.stderr);
    }
    let previous = one(&["--prefix", "acme", "--previous", "1"]);
    assert!(previous.code == 2 && previous.stderr.contains("previous"), "{}", previous.stderr);
}

#[test]
fn stats_show_the_memory_that_namespaces_take_under_a_budget() {
    let db = Db::new();
    for name in ["a", "b", "c"] {
        ingest(&db, &["--namespace", name, "--memory-budget", "100000"], r#"{"role":"user","content":"my bike"}"#);
    }
    let stats = |arguments: &[&str]| {
        let output = run(mnemon().args(["stats", "--db"]).arg(&db.path).args(arguments));
        assert_eq!(output.code, 0, "{}", output.stderr);
        output.stdout
    };
    let loaded = |budget| json(&stats(&["--format", "json", "--load", "--memory-budget", budget]))["memory"].clone();
    let roomy = loaded("10000000");
    let counts = |memory: &Value| ["namespaces_loaded", "loads", "unloads"].map(|key| memory[key].as_u64().unwrap());
    assert_eq!((roomy["memory_budget"].as_u64(), counts(&roomy)), (Some(10_000_000), [3, 3, 0]));
    assert!((1..10_000_000).contains(&roomy["memory_used"].as_u64().unwrap()), "{roomy}");
    assert_eq!(counts(&loaded("1"))[1], 3);
    assert!(counts(&loaded("1"))[0] <= 1);
    let text = stats(&["--load"]);
    assert!(text.contains("of a budget of 1024.0 MiB; 3 namespaces loaded, after 3 loads and 0 unloads"), "{text}");
    assert!(!stats(&[]).contains("budget"));
    assert_eq!(json(&stats(&["--format", "json"])).get("memory"), None);
}
