//! The README's example is `examples/quickstart.rs`, and it runs.

use std::{fs, path::Path, process::Command};

#[test]
fn the_example_runs_as_printed() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let readme = fs::read_to_string(root.join("README.md")).unwrap();
    let printed = readme.split_once("```rust,no_run\n").unwrap().1.split_once("```").unwrap().0;
    let example = fs::read_to_string(root.join("examples/quickstart.rs")).unwrap();
    let example = example.split_once("\n\n").unwrap().1;
    assert_eq!(printed, example, "README.md and examples/quickstart.rs differ");

    // Cargo builds examples before it runs tests, beside them.
    let program = std::env::current_exe().unwrap().ancestors().nth(2).unwrap().join("examples/quickstart");
    let folder = tempfile::tempdir().unwrap();
    let output = Command::new(program).current_dir(folder.path()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.lines().next().unwrap().contains("rowing"), "{text}");
    assert!(folder.path().join("memory.redb").exists());
}
