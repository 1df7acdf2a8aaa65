//! The `mnemon` command, run as a process.

mod contents;
mod encryption;
mod errors;
mod eval;
mod eval_layouts;
mod foreign;
mod forget;
mod identity;
mod ingest;
mod kills;
mod makefile;
mod models;
mod outputs;
mod pairs;
mod printable;
mod progress;
mod pull;
mod queries;
mod reindex;
mod runtime;
mod sample;
mod transfer;
mod vectors;
mod why;

use std::fs;

use assert_cmd::Command;
use serde_json::{Value, json};

use crate::support::{
    Db,
    model_folders::{fixture, reranker_folder},
    sample,
};

fn mnemon() -> Command {
    let mut command = Command::cargo_bin("mnemon").unwrap();
    command.env_remove("MNEMON_KEY");
    command
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
fn messages_are_ingested_recalled_counted_and_verified() {
    let db = Db::new();
    let output = run(mnemon().args(["ingest", "--db"]).arg(&db.path).arg(sample("messages.jsonl")));
    assert_eq!(output.code, 0, "{}", output.stderr);
    assert!(output.stdout.contains("stored, embedded, indexed"));

    let recall = |arguments: &[&str]| run(mnemon().args(["recall", "--db"]).arg(&db.path).args(arguments));
    let text = recall(&["--namespace", "friends/ines-tom", "-k", "3", "the canal boat"]);
    assert_eq!((text.code, text.stdout.lines().count()), (0, 4), "{}", text.stderr);
    assert!(text.stdout.lines().last().unwrap().starts_with("answerability 0."), "{}", text.stdout);
    assert!(text.stdout.to_lowercase().contains("boat"), "{}", text.stdout);

    let answer =
        json(&recall(&["--format", "json", "--namespace", "friends/ines-tom", "-k", "2", "the canal boat"]).stdout);
    let hit = &answer["hits"][0];
    let mut names: Vec<&str> = hit.as_object().unwrap().keys().map(String::as_str).collect();
    names.sort_unstable();
    let wanted = [
        "breakdown",
        "content",
        "created_at",
        "id",
        "name",
        "passage",
        "rank",
        "relevance",
        "role",
        "score",
        "session",
        "similarity",
    ];
    assert_eq!(names, wanted);
    assert_eq!((&answer["query_id"], &answer["namespace"]), (&Value::Null, &json!("friends/ines-tom")));
    assert!(answer["latency_us"].as_u64().unwrap() > 0);
    assert!((0.0..=1.0).contains(&answer["answerability"].as_f64().unwrap()));

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
fn recall_obeys_its_options() {
    let db = Db::new();
    run(mnemon().args(["ingest", "--db"]).arg(&db.path).arg(sample("messages.jsonl")));
    let question = "What did Tom pay when he bought his narrowboat?";
    let recall = |arguments: &[&str]| {
        let common = ["recall", "--namespace", "friends/ines-tom", "-k", "5", question, "--db"];
        let output = run(mnemon().args(common).arg(&db.path).args(arguments));
        assert_eq!(output.code, 0, "{arguments:?}: {}", output.stderr);
        output.stdout
    };
    let hits = |arguments: &[&str]| json(&recall(&[&["--format", "json"], arguments].concat()))["hits"].clone();
    let ids = |arguments: &[&str]| -> Vec<String> {
        hits(arguments).as_array().unwrap().iter().map(|hit| hit["id"].as_str().unwrap().to_owned()).collect()
    };
    let plain = ids(&[]);
    for name in ["dense", "lexical", "rrf", "reciprocal-rank", "weighted:0.5"] {
        let other = hits(&["--strategy", name]);
        assert!(
            other[0]["breakdown"]["dense_rank"].as_u64() > Some(0) && other[0]["breakdown"]["dense"] == 0.0,
            "{other}"
        );
    }
    assert!(hits(&[])[0]["breakdown"]["neighbor"].as_f64() > Some(0.0));
    for (without, part) in [("--no-neighbors", "neighbor"), ("--no-length-prior", "length")] {
        assert!(hits(&[without]).as_array().unwrap().iter().all(|hit| hit["breakdown"][part] == 0.0), "{without}");
    }
    let except = ids(&["--except", &plain[..2].join(",")]);
    assert!(except.len() == 5 && plain[..2].iter().all(|id| !except.contains(id)), "{except:?}");
    // The first of the other hits has its old place, the second.
    let previous = ids(&["--previous", &format!("nothing,{}", plain[2])]);
    assert_eq!((&previous[0], &previous[1]), (&plain[0], &plain[2]));
    let aged = hits(&["--half-life", "30d", "--now", "2024-03-01"]);
    assert!(aged.as_array().unwrap().iter().all(|hit| hit["breakdown"]["recency"].as_f64() > Some(0.0)), "{aged}");
    let february = |how: &str| {
        let common = ["--format", "json", "recall", "--namespace", "friends/ines-tom", "What broke in February 2024?"];
        json(&run(mnemon().args(common).args(["--time", how, "--db"]).arg(&db.path)).stdout)["hits"].clone()
    };
    let boosted = |hits: &Value| hits.as_array().unwrap().iter().filter(|hit| hit["breakdown"]["time"] != 0.0).count();
    assert!(boosted(&february("ignore")) == 0 && boosted(&february("boost")) > 0);
    let only = february("filter");
    let of_february = |hit: &Value| hit["created_at"].as_str().unwrap().starts_with("2024-02");
    assert!(boosted(&only) > 0 && only.as_array().unwrap().iter().all(of_february), "{only}");
    for more in [&["--per-batch", "1"][..], &["--diversity", "0.5"], &["--keep-duplicates"]] {
        assert!(!ids(more).is_empty(), "{more:?}");
    }
    assert_eq!(ids(&["--per-batch", "1"]).len(), 5, "what was not put by a session is no batch");
    assert_eq!(ids(&["--diversity", "1"])[0], plain[0]);

    let explained = recall(&["--explain", "--half-life", "30d"]);
    for part in
        ["cosine 0.", "BM25 ", "coverage 0.", "dense +", "lexical +", "neighbor +", " of ft-s", "length ", "(rank 1)"]
    {
        assert!(explained.contains(part), "{part}: {explained}");
    }
    let refused = recall(&["--answerable", "1"]);
    let lines: Vec<&str> = refused.lines().collect();
    assert_eq!((lines.len(), lines[0]), (2, "nothing found in friends/ines-tom"));
    assert!(lines[1].starts_with("answerability 0.") && lines[1].ends_with(", at least 1 required"), "{refused}");
}

/// The reranker is a test graph whose score is the share of the query's words that a passage contains.
#[test]
fn recall_uses_a_reranker() {
    let db = Db::new();
    let texts = ["red dog", "red dog sleeps", "the river sings", "a green tree"];
    let lines: Vec<String> =
        texts.iter().map(|text| format!("{{\"role\":\"user\",\"content\":\"{text}\"}}\n")).collect();
    ingest(&db, &["--namespace", "a"], &lines.concat());
    let encoder = reranker_folder(&fixture("overlap"), "none");
    let recall = |arguments: &[&str]| {
        let common = ["recall", "--namespace", "a", "tree green tree", "--explain", "--rerank"];
        run(mnemon().args(common).arg(encoder.path()).args(arguments).arg("--db").arg(&db.path))
    };
    let output = recall(&[]);
    assert!(output.code == 0 && output.stdout.contains("user: a green tree"), "{}", output.stderr);
    assert_eq!(output.stdout.matches("reranked ").count(), 4, "{}", output.stdout);
    assert_eq!(recall(&["-k", "1", "--rerank-depth", "2"]).stdout.matches("reranked ").count(), 1);
    let missing = run(mnemon().args(["recall", "--namespace", "a", "x", "--rerank", "nowhere", "--db"]).arg(&db.path));
    assert!(missing.code == 1 && missing.stderr.contains("nowhere"), "{}", missing.stderr);
}

#[test]
fn every_command_has_help() {
    for command in [
        "ingest",
        "recall",
        "namespaces",
        "sessions",
        "get",
        "delete",
        "export",
        "import",
        "eval",
        "embed",
        "reindex",
        "stats",
        "verify",
        "models",
        "runtime",
        "bench",
    ] {
        let output = run(mnemon().args([command, "--help"]));
        assert!(output.code == 0 && output.stdout.len() > 100, "{command}");
    }
    let help = run(mnemon().arg("--help")).stdout;
    assert!(help.contains("Exit status") && help.contains("ORT_DYLIB_PATH"), "{help}");
}

#[test]
fn bench_prints_json() {
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

#[test]
fn the_bench_of_long_messages_prints_json() {
    let output = run(mnemon().args(["bench", "flush", "--long"]));
    assert_eq!(output.code, 0, "{}", output.stderr);
    let report = json(&output.stdout);
    let figure = |name: &str| report[name].as_f64().unwrap();
    // The messages of the sample, joined, and none of them short.
    assert!((10.0..100.0).contains(&figure("messages")), "{report}");
    let bytes = figure("megabytes_per_second") * 1e6 * figure("seconds");
    assert!((2100.0..3000.0).contains(&(bytes / figure("messages"))), "{report}");
    assert!(figure("embed_1_mib_p50_ms") > 0.0, "{report}");
}

#[test]
fn the_bench_of_documents_prints_json() {
    let output = run(mnemon().args(["bench", "documents", "--documents", "100", "--batch", "20", "--reads", "5"]));
    assert_eq!(output.code, 0, "{}", output.stderr);
    let report = json(&output.stdout);
    assert_eq!((&report["bench"], &report["documents"]), (&json!("documents"), &json!(100)));
    for figure in [
        "put_p50_us",
        "message_put_p50_us",
        "put_to_message_put",
        "batch_puts_per_second",
        "get_p50_us",
        "search_p50_us",
        "filter_p50_us",
        "list_p50_us",
    ] {
        assert!(report[figure].as_f64() > Some(0.0), "{figure}: {report}");
    }
}

#[test]
fn the_bench_of_encryption_prints_ratios() {
    let output = run(mnemon().args(["bench", "encryption", "--puts", "10", "--queries", "9", "--rounds", "2"]));
    assert_eq!(output.code, 0, "{}", output.stderr);
    let report = json(&output.stdout);
    assert_eq!((&report["bench"], &report["messages"]), (&json!("encryption"), &json!(462)));
    assert_eq!(report["targets"], json!({"put_p50_us": 1.5, "ingest_s": 1.5, "recall_p50_us": 1.1}));
    for figure in ["put_p50_us", "ingest_s", "recall_p50_us", "opening_p50_us", "first_recall_p50_us", "file_bytes"] {
        for of in ["plain", "encrypted", "ratios"] {
            assert!(report[of][figure].as_f64() > Some(0.0), "{of} {figure}: {report}");
        }
    }
    // A sealed page is 32 bytes longer than one with a checksum.
    let size = report["ratios"]["file_bytes"].as_f64().unwrap();
    assert!((1.0..1.1).contains(&size), "{report}");
    let none = run(mnemon().args(["bench", "encryption", "--puts", "462"]));
    assert!(none.code == 2 && none.stderr.contains("--puts 462 leaves none of 462 messages"), "{}", none.stderr);
}

#[test]
fn benches_need_no_file_of_the_repository() {
    let elsewhere = tempfile::tempdir().unwrap();
    for arguments in
        [&["flush"][..], &["recall", "--rounds", "1"], &["filters", "--rounds", "1", "--queries", "5", "-k", "3"]]
    {
        let output = run(mnemon().current_dir(&elsewhere).arg("bench").args(arguments));
        assert_eq!(output.code, 0, "{}", output.stderr);
        assert_eq!(json(&output.stdout)["messages"], 462);
    }
}
