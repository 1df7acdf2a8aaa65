//! Processes that are killed at random moments: a test starts this program again to run one of its own tests as the
//! child.
//!
//! A child prints `ack <number>` for
//! each step that it has finished. `MNEMON_CRASH_RUNS` sets the number of kills of each test; default 30.

use std::{
    io::{BufRead, BufReader},
    path::Path,
    process::Stdio,
    time::Duration,
};

/// The variable that tells a child its database and its run.
const CHILD: &str = "MNEMON_CRASH_CHILD";

/// Returns the number of kills.
pub(crate) fn runs() -> u64 {
    std::env::var("MNEMON_CRASH_RUNS").map_or(30, |runs| runs.parse().unwrap())
}

/// Returns the database and the number of the run of this process, which is a child.
pub(crate) fn child_arguments() -> (String, u64) {
    let arguments = std::env::var(CHILD).expect("a test of kills starts this process");
    let (path, run) = arguments.split_once('#').unwrap();
    // A panic of the child, on any thread, must not be taken for a kill.
    std::panic::set_hook(Box::new(|panic| {
        println!("\nfailed: {}", panic.to_string().replace('\n', " "));
        std::process::exit(1);
    }));
    (path.to_owned(), run.parse().unwrap())
}

/// Starts a child of the module `module_path!()`, kills it some time after it has opened the database, and returns its
/// lines.
pub(crate) fn kill_after(module: &str, child: &str, path: &Path, run: u64, delay: Duration) -> Vec<String> {
    let mut child = super::children::command(module, child)
        .env(CHILD, format!("{}#{run}", path.display()))
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(|line| line.ok());
    let mut said = Vec::new();
    // Every other kill comes after the first commit, the others at any time from the start, so that they meet the
    // opening too.
    if run.is_multiple_of(2) {
        for line in lines.by_ref() {
            said.push(line);
            if said.last().is_some_and(|line| line.contains("ack ")) {
                break;
            }
        }
    }
    std::thread::sleep(delay);
    // SIGKILL on Unix.
    child.kill().unwrap();
    child.wait().unwrap();
    super::tally::tally("kills", 1);
    // What was printed before the kill is still in the pipe.
    said.extend(lines);
    assert!(!said.iter().any(|line| line.starts_with("failed: ")), "{said:?}");
    said
}

/// Returns the number of steps that a child has acknowledged with `ack <prefix><number>`.
pub(crate) fn acknowledged(lines: &[String], prefix: &str) -> u64 {
    let mut acknowledged: u64 = 0;
    for line in lines {
        if let Some((_, number)) = line.split_once(&format!("ack {prefix}")) {
            // A last line that was cut short has a smaller number, never a larger one.
            acknowledged = number.trim().parse().map_or(acknowledged, |number: u64| acknowledged.max(number + 1));
        }
    }
    acknowledged
}
