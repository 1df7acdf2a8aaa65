//! The README's programs are `examples/quickstart.rs` and `examples/session.rs`, which `copied` runs too; the examples of the agent,
//! documents and knowledge run.

use std::{fs, path::Path, process::Command};

#[test]
fn the_example_runs_as_printed() {
    let root = crate::support::root("");
    let readme = fs::read_to_string(root.join("README.md")).unwrap();
    let printed = readme.split("```rust,no_run\n").skip(1).map(|rest| rest.split_once("```").unwrap().0);
    let names = ["quickstart", "session"];
    assert_eq!(printed.clone().count(), names.len());
    for (printed, name) in printed.zip(names) {
        let example = fs::read_to_string(root.join("examples").join(name).with_extension("rs")).unwrap();
        let example = example.split_once("\n\n").unwrap().1;
        assert_eq!(printed, example, "README.md and examples/{name}.rs differ");
    }

    let folder = tempfile::tempdir().unwrap();
    let text = run("quickstart", folder.path());
    assert!(text.lines().next().unwrap().contains("rowing"), "{text}");
    assert!(folder.path().join("memory.redb").exists());
}

/// A hundred and fifty turns: flushed, recalled, assembled, put back, forked.
#[test]
fn the_agent_remembers() {
    let text = run("agent", &crate::support::root(""));
    let line =
        |part: &str| text.lines().find(|line| line.contains(part)).unwrap_or_else(|| panic!("no {part:?}: {text}"));
    assert!(line("batches flushed").contains("151 messages") && line("batches flushed").contains("0 prompts too long"));
    assert!(line("<message role=").contains("name='"));
    assert!(text.contains("The year began and nearly ended with cooling units"), "what was asked for is recalled");
    assert!(line("put back as a whole").contains("2 new"), "{}", line("put back as a whole"));
    assert!(line("block facts").contains("0 batches behind, 0 failed"));
}

#[test]
fn the_example_of_documents_finds_what_it_put() {
    let folder = tempfile::tempdir().unwrap();
    let text = run("documents", folder.path());
    assert!(text.starts_with("plan: \"pro\"\n"), "{text}");
    assert!(text.contains("She rows on Thursday mornings.") && !text.contains("bakery"), "{text}");
}

#[test]
fn the_example_of_knowledge_shows_what_the_model_changed() {
    let folder = tempfile::tempdir().unwrap();
    let text = run("knowledge", folder.path());
    assert!(
        text.contains("<instructions>\nHelp with the calendar. Answer in one sentence.\n</instructions>"),
        "{text}"
    );
    assert!(text.contains("<profile>\ncity: Lyon\nname: Ada\n</profile>"), "{text}");
    assert!(
        text.contains("\nAda rows on Thursday mornings.\n") && text.contains("\nAda has moved to Lyon.\n"),
        "{text}"
    );
    assert!(!text.contains("Tuesdays") && !text.contains("Paris"), "{text}");
    assert!(text.ends_with("Output: weather(Lyon)\nBecause: one call for one place\n"), "{text}");
}

/// Cargo builds examples before it runs tests, beside them.
fn run(example: &str, folder: &Path) -> String {
    let program = std::env::current_exe().unwrap().ancestors().nth(2).unwrap().join("examples").join(example);
    // No ONNX Runtime, as on the machine of somebody who has just added the crate.
    let mut command = Command::new(program);
    let output = command.current_dir(folder).env("ORT_DYLIB_PATH", "/nowhere").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}
