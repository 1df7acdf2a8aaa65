//! Progress on stderr where it is not a terminal.

use super::{Output, json, mnemon, run};
use crate::support::{Db, sample};

/// Runs a command that prints every step of its progress.
fn every_step(arguments: &[&str]) -> Output {
    let output = run(mnemon().env("MNEMON_PROGRESS_SECONDS", "0").args(arguments));
    assert_eq!(output.code, 0, "{}", output.stderr);
    output
}

#[test]
fn progress_names_the_phase_its_rate_and_the_time_left() {
    let db = Db::new();
    let (path, messages, queries) = (db.path.to_str().unwrap(), sample("messages.jsonl"), sample("queries.jsonl"));
    let (messages, queries) = (messages.to_str().unwrap(), queries.to_str().unwrap());
    let ingested = every_step(&["ingest", "--db", path, messages]).stderr;
    let line = ingested.lines().find(|line| line.starts_with("mnemon: storing: 462 of about 462 messages, ")).unwrap();
    assert!(line.ends_with("/s, 0 s left"), "{line}");
    assert!(ingested.contains("mnemon: embedding: 0 of "), "{ingested}");

    let evaluated = every_step(&["--format", "json", "eval", "--messages", messages, "--queries", queries]).stderr;
    let steps: Vec<_> = evaluated.lines().map(|line| json(line)["progress"].clone()).collect();
    for (phase, total) in [("storing", 462), ("sample, hybrid", 170)] {
        let last = steps.iter().rfind(|step| step["phase"] == phase).unwrap_or_else(|| panic!("{phase}: {evaluated}"));
        assert_eq!((&last["done"], &last["total"], &last["seconds_left"]), (&total.into(), &total.into(), &0.into()));
        assert!(last["per_second"].as_f64() > Some(0.0), "{last}");
    }

    let reindexed = every_step(&["reindex", "--db", path, "--precision", "i8"]).stderr;
    for part in ["mnemon: embedding: 462 of 462 messages, ", "mnemon: comparing: "] {
        assert!(reindexed.contains(part), "{part}: {reindexed}");
    }
}

#[test]
fn a_quiet_or_a_quick_command_shows_no_progress() {
    let db = Db::new();
    let ingest = |arguments: &[&str], seconds: &str| {
        let mut command = mnemon();
        command.env("MNEMON_PROGRESS_SECONDS", seconds).args(["ingest", "--db"]).arg(&db.path).args(arguments);
        run(command.arg(sample("messages.jsonl"))).stderr
    };
    assert_eq!(ingest(&["--quiet"], "0"), "");
    assert_eq!(ingest(&[], "10"), "");
}
