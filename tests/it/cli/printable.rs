//! Text output of the command: what is stored does not drive the reader's terminal.

use std::fs;

use serde_json::json;

use super::{Output, ingest, mnemon, run};
use crate::support::{Db, model_folders::reranker_folder};

/// Clears the screen, by an escape sequence and by its control character; goes back in the line; turns text around.
const HOSTILE: &str = "a\u{1b}[2J\u{9b}2J\r\u{8}\u{7f}\u{202e}z";
const ESCAPED: &str = "a\\u{1b}[2J\\u{9b}2J\\r\\u{8}\\u{7f}\\u{202e}z";

fn assert_printable(what: &[&str], output: &Output) {
    for text in [&output.stdout, &output.stderr] {
        let harmful = |c: char| c != '\n' && c.is_control() || c == '\u{202e}';
        assert!(!text.contains(harmful), "{what:?}: {text:?}");
    }
}

#[test]
fn stored_text_does_not_drive_the_terminal() {
    let db = Db::new();
    let message = json!({
        "namespace": "acme/x", "id": format!("{HOSTILE}\nmine"), "session": HOSTILE, "role": "user",
        "name": HOSTILE, "content": format!("{HOSTILE}\nsecond line"), "metadata": { HOSTILE: HOSTILE },
    });
    let call = json!({
        "namespace": "acme/x", "session": HOSTILE, "role": "assistant",
        "content": [{ "type": "tool_call", "id": HOSTILE, "name": HOSTILE, "arguments": {} }],
    });
    let stored = ingest(&db, &[], &format!("{message}\n{call}\n"));
    assert_eq!(stored.code, 0, "{}", stored.stderr);
    let namespace = ["--namespace", "acme/x"];
    let id = format!("{HOSTILE}\nmine");
    // (the command, whether it prints the text on stdout)
    let rows: &[(&[&str], bool)] = &[
        (&["get", &id], true),
        (&["get", "--session", HOSTILE], true),
        (&["sessions"], true),
        (&["recall", "second line", "--explain"], true),
        (&["recall", "second line", "--where", "a = 'b'"], false),
        (&["get", "--session", &format!("{HOSTILE}z")], false),
        (&["delete", "--session", HOSTILE], false),
        (&["delete", "--all"], false),
    ];
    for (arguments, is_shown) in rows {
        let output = run(mnemon().args(*arguments).args(namespace).arg("--db").arg(&db.path));
        assert_printable(arguments, &output);
        assert_eq!(output.stdout.contains(ESCAPED), *is_shown, "{arguments:?}: {}{}", output.stdout, output.stderr);
    }
    for arguments in [&["namespaces"][..], &["stats"], &["verify"]] {
        let output = run(mnemon().args(arguments).arg("--db").arg(&db.path));
        assert_eq!(output.code, 0, "{}", output.stderr);
        assert_printable(arguments, &output);
    }
    // A line feed in an id does not begin a line; one in a text does.
    let shown = run(mnemon().args(["get", &id]).args(namespace).arg("--db").arg(&db.path)).stdout;
    let lines: Vec<&str> = shown.lines().collect();
    assert!(lines[0].starts_with(&format!("{ESCAPED}\\nmine  ")) && lines[2] == "second line", "{shown}");
    // Errors about input, and a model folder from a stranger.
    let bad = run(mnemon().args(["ingest", "--db"]).arg(&db.path).arg("-").write_stdin(format!("{{\"{HOSTILE}\":1}}")));
    assert_ne!(bad.code, 0);
    assert_printable(&["ingest"], &bad);
    let folder = reranker_folder(&[], "none");
    let manifest = folder.path().join("manifest.toml");
    let text = fs::read_to_string(&manifest).unwrap();
    let hostile = text.replacen("description = \"", "description = \"a\\u001b[2J", 1);
    assert_ne!(text, hostile);
    fs::write(&manifest, hostile).unwrap();
    let info = run(mnemon().args(["models", "info"]).arg(folder.path()));
    assert_eq!(info.code, 0, "{}", info.stderr);
    assert!(info.stdout.contains("a\\u{1b}[2J"), "{}", info.stdout);
    assert_printable(&["models", "info"], &info);
}
