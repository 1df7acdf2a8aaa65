//! The Makefile's build outputs.

use std::process::Command;

use crate::support::root;

#[test]
fn every_build_output_is_in_the_target_folder_that_is_set() {
    let targets = [
        "demo",
        "package",
        "bench",
        "bench-embed",
        "bench-memory",
        "bench-documents",
        "user-package",
        "asan",
        "fuzz",
        "loom",
        "cargo-deny",
        "test-serve",
        "dist",
        "dist-test",
        "docs",
        "lint-dist",
    ];
    let mut make = Command::new("make");
    make.args(["--dry-run", "--always-make"])
        .args(targets)
        .current_dir(root("."))
        .env("CARGO_TARGET_DIR", "/elsewhere");
    let output = output_of(&mut make);
    let inside: Vec<&str> = output.lines().filter(|line| line.replace("/elsewhere/", "").contains("target/")).collect();
    assert_eq!(inside, [""; 0]);
    assert!(
        output.contains("/elsewhere/bench/conversation.jsonl")
            && output.contains("/elsewhere/bench/documents.json")
            && output.contains("CARGO_TARGET_DIR=/elsewhere/asan")
            && output.contains("CARGO_TARGET_DIR=/elsewhere/fuzz")
            && output.contains("CARGO_TARGET_DIR=/elsewhere/loom")
    );
}

fn output_of(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}
