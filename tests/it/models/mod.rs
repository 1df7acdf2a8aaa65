//! Model folders: imported, checked, fetched, listed.

mod command;
mod external;
mod import;
#[cfg(feature = "pull")]
mod pull;
mod tiny;
mod tokenizer;

/// Said even though the test passes: the runner captures only what is printed by macros.
fn skipped(what: &str) {
    use std::io::Write;
    let mut stderr = std::io::stderr();
    writeln!(stderr, "SKIPPED {what}").unwrap();
}
