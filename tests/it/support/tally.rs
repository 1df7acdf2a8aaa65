//! Counts for the table that `make soak` prints at its end.

use std::{fs::OpenOptions, io::Write};

/// Adds to a count: appends a line to the file that `MNEMON_TALLY` names, if it does.
pub(crate) fn tally(what: &str, count: u64) {
    let Some(path) = std::env::var_os("MNEMON_TALLY") else { return };
    let mut file = OpenOptions::new().create(true).append(true).open(path).unwrap();
    // In one write, so that lines of tests that run at the same time do not mix.
    file.write_all(format!("{what}\t{count}\n").as_bytes()).unwrap();
}

/// Counts problems by their kind, and returns them.
pub(crate) fn tally_problems(problems: Vec<String>) -> Vec<String> {
    for problem in &problems {
        let words = [("panic", "panicked"), ("process", "panicked"), ("lost", "lost"), ("verify", "torn")];
        let kind = words.into_iter().find(|(word, _)| problem.contains(word)).map_or("wrong", |(_, kind)| kind);
        tally(kind, 1);
    }
    problems
}
