//! `mnemon ingest`: languages, repeated files, bad lines, and what a failure leaves.

use super::{ingest, json, mnemon, run};
use crate::support::Db;

#[test]
fn ingest_sets_the_language_of_a_namespace() {
    let line = r#"{"role":"user","content":"Wir haben zwei alte Häuser gekauft."}"#;
    for (language, finds) in [("german", true), ("english", false)] {
        let db = Db::new();
        let output = ingest(&db, &["--namespace", "a", "--language", language], line);
        assert_eq!((output.code, &json(&output.stdout)["new"]), (0, &json!(1)), "{}", output.stderr);
        // It is kept.
        ingest(&db, &["--namespace", "a"], r#"{"role":"user","content":"Die Häuser sind trocken."}"#);
        let recall = ["--format", "json", "recall", "--namespace", "a", "Haus", "--db"];
        let hits = json(&run(mnemon().args(recall).arg(&db.path)).stdout)["hits"].clone();
        let found = hits.as_array().unwrap().iter().filter(|hit| hit["breakdown"]["bm25"].as_f64() > Some(0.0));
        assert_eq!(found.count(), if finds { 2 } else { 0 }, "{language}: {hits}");
        db.assert_sound();
    }
    let unknown = ingest(&Db::new(), &["--namespace", "a", "--language", "klingon"], line);
    assert!(unknown.code == 2 && unknown.stderr.contains("klingon"), "{}", unknown.stderr);
}

#[test]
fn ingesting_again_doubles_nothing_with_or_without_ids() {
    let db = Db::new();
    let lines = r#"{"role":"user","content":"one"}
{"role":"user","content":"one"}

{"role":"user","content":"two","id":"2"}
"#;
    let first = json(&ingest(&db, &["--namespace", "a"], lines).stdout);
    assert_eq!((&first["new"], &first["unchanged"]), (&json!(3), &json!(0)), "two alike are two");
    let again = json(&ingest(&db, &["--namespace", "a"], lines).stdout);
    assert_eq!((&again["new"], &again["unchanged"]), (&json!(0), &json!(3)));
    // The override is a namespace of its own, also for lines that name another.
    let other = ingest(&db, &["--namespace", "b"], r#"{"role":"user","content":"x","namespace":"a"}"#);
    assert_eq!(json(&other.stdout)["new"], 1);
    let stats = mnemon::stats(&db.path).unwrap();
    let counts: Vec<_> = stats.namespaces.iter().map(|space| (space.namespace.as_str(), space.messages)).collect();
    assert_eq!(counts, [("a", 3), ("b", 1)]);
}

#[test]
fn secrets_are_removed_from_messages_if_that_is_asked_for() {
    // Put together here, so that no scanner takes it for a real one.
    let key = format!("sk-{}", "aB3dE5gH".repeat(4));
    let arguments = json!({ "command": format!("export\nKEY={key}") }).to_string();
    let lines = [
        json!({ "id": "a", "role": "user", "content": format!("My key is {key}."), "metadata": { &key: 4_111_111_111_111_111_u64 } }),
        json!({ "role": "assistant", "content": null, "tool_calls": [
            { "id": "c", "type": "function", "function": { "name": "run", "arguments": arguments } },
        ] }),
        json!({ "id": "b", "role": "user", "content": "My sister's bakery opens in June." }),
    ];
    let lines = lines.map(|line| format!("{line}\n")).concat();
    let db = Db::new();
    let output = ingest(&db, &["--namespace", "a", "--remove-secrets"], &lines);
    let report = json(&output.stdout);
    assert_eq!(
        (output.code, &report["new"], &report["secrets_removed"]),
        (0, &json!(3), &json!(4)),
        "{}",
        output.stderr
    );
    assert_eq!(json(&ingest(&db, &["--namespace", "a", "--remove-secrets"], &lines).stdout)["unchanged"], 3);
    let engine = mnemon::Engine::open(&db.path).unwrap();
    let stored = engine.blocking().get(&crate::support::namespace("a"), "a").unwrap().unwrap();
    assert_eq!(stored.text(), "My key is [key removed].");
    assert_eq!(stored.metadata["[key removed]"], "[card removed]");
    drop(engine);
    let file = std::fs::read(&db.path).unwrap();
    assert!(!file.windows(16).any(|bytes| bytes == &key.as_bytes()[4..20]));
    // Messages that were stored with their secrets are replaced if they have ids.
    let other = Db::new();
    ingest(&other, &["--namespace", "a"], &lines);
    assert_eq!(json(&ingest(&other, &["--namespace", "a", "--remove-secrets"], &lines).stdout)["replaced"], 1);
}

#[test]
fn lines_may_be_of_openai() {
    let db = Db::new();
    let lines = r#"{"role":"developer","content":"Be brief.","session":"s"}
{"role":"user","content":[{"type":"image_url","image_url":{"url":"https://a.org/a.png"}},{"type":"text","text":"What?"}],"session":"s"}
{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}],"session":"s"}
{"role":"tool","tool_call_id":"c","content":"a boat","session":"s"}
"#;
    let first = ingest(&db, &["--namespace", "a"], lines);
    assert_eq!((first.code, &json(&first.stdout)["new"]), (0, &json!(4)), "{}", first.stderr);
    assert_eq!(json(&ingest(&db, &["--namespace", "a"], lines).stdout)["unchanged"], 4);
    let engine = mnemon::Engine::open(&db.path).unwrap();
    let history = engine.blocking().history(&crate::support::namespace("a"), "s").unwrap();
    let roles: Vec<&str> = history.iter().map(|message| message.role.as_str()).collect();
    assert_eq!(roles, ["system", "user", "assistant", "tool"]);
}

#[test]
fn a_bad_line_stops_ingest_and_the_error_says_how_to_continue() {
    let good = |i: usize| format!("{{\"role\":\"user\",\"content\":\"line {i}\",\"id\":\"{i}\"}}\n");
    let lines: String = (1..=700).map(good).collect::<String>() + "{\"role\":\"user\"}\n" + &good(702);
    let db = Db::new();
    let stopped = ingest(&db, &["--namespace", "a"], &lines);
    assert_eq!(stopped.code, 1);
    for part in ["-:701", "missing field `content`", "all lines before it are stored", "--skip-bad"] {
        assert!(stopped.stderr.contains(part), "{}", stopped.stderr);
    }
    let report = db.assert_sound();
    assert_eq!((report.messages, report.pending), (700, 0));
    let skipped = ingest(&db, &["--namespace", "a", "--skip-bad"], &lines);
    assert_eq!(skipped.code, 0);
    assert!(skipped.stderr.contains("skipped -:701"), "{}", skipped.stderr);
    let report = json(&skipped.stdout);
    assert_eq!((&report["new"], &report["unchanged"], &report["skipped"]), (&json!(1), &json!(700), &json!(1)));
    // Bytes that are no text are a bad line as well.
    let output = run(mnemon()
        .args(["ingest", "--namespace", "a", "--db"])
        .arg(&db.path)
        .arg("-")
        .write_stdin(&b"\xfe\xfd\n"[..]));
    assert!(output.code == 1 && output.stderr.contains("-:1: not UTF-8"), "{}", output.stderr);
}

#[test]
fn ingest_fails_if_most_lines_are_bad_and_says_how_many() {
    let good = r#"{"role":"user","content":"x","id":"1"}"#;
    let check = |lines: &[&str], code: i32, said: &str| {
        let db = Db::new();
        let output = ingest(&db, &["--namespace", "a", "--skip-bad"], &lines.join("\n"));
        assert_eq!(output.code, code, "{lines:?}: {}", output.stderr);
        assert!(output.stderr.contains(said), "{lines:?}: {}", output.stderr);
        // What was good is stored all the same.
        assert_eq!(db.path.exists(), lines.contains(&good));
    };
    check(&[good, "{"], 0, "skipped -:2");
    check(&[good, "{", "["], 1, "2 of 3 lines were bad and skipped, most of them");
    check(&["{"], 1, "1 of 1 line was bad and skipped, most of them; nothing was stored");
}

#[test]
fn a_failed_first_ingest_leaves_no_database() {
    let missing = ["--namespace", "a", "no-such-file.jsonl"];
    let unknown_model = ["--namespace", "a", "--model", "no-such-model", "-"];
    let no_namespace = ["-"];
    let good = r#"{"role":"user","content":"x"}"#;
    for (arguments, input) in [
        (&missing[..], ""),
        (&unknown_model, good),
        (&no_namespace, good),
        (&["--namespace", "a", "--language", "german", "-"], "{"),
    ] {
        let db = Db::new();
        let output = run(mnemon().args(["ingest", "--db"]).arg(&db.path).args(arguments).write_stdin(input));
        assert_ne!(output.code, 0, "{arguments:?}");
        assert!(!db.path.exists(), "{arguments:?}: {}", output.stderr);
    }
    // Nor does one that stores nothing.
    let db = Db::new();
    for command in
        [&["ingest", "--namespace", "a"][..], &["ingest", "--from", "openai", "--namespace", "a"], &["import"]]
    {
        for input in ["", "\n\n", "\u{feff}"] {
            let output = run(mnemon().args(command).arg("--db").arg(&db.path).arg("-").write_stdin(input));
            assert!(!db.path.exists(), "{command:?} of {input:?}: {}", output.stderr);
        }
    }
    // A database that existed stays, and so do the messages before a bad line.
    let db = Db::new();
    let stopped = ingest(&db, &["--namespace", "a"], &format!("{good}\n{{"));
    assert!(stopped.code == 1 && stopped.stderr.contains("all lines before it are stored"), "{}", stopped.stderr);
    assert_eq!(db.assert_sound().messages, 1);
    assert_eq!(run(mnemon().args(["delete", "--namespace", "a", "--all", "--yes", "--db"]).arg(&db.path)).code, 0);
    let stopped = ingest(&db, &["--namespace", "a"], "{");
    assert!(
        stopped.code == 1 && stopped.stderr.contains("stopped at this line; nothing was stored."),
        "{}",
        stopped.stderr
    );
    assert!(db.path.exists());
}

#[test]
fn compressed_files_and_byte_order_marks_are_read() {
    use std::io::Write;
    let db = Db::new();
    let line = |id: &str| format!("{{\"role\":\"user\",\"content\":\"the ferry {id}\",\"id\":\"{id}\"}}\n");
    let gzip = |text: &str| {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        encoder.write_all(text.as_bytes()).unwrap();
        encoder.finish().unwrap()
    };
    let zstd =
        |text: &str| ruzstd::encoding::compress_to_vec(text.as_bytes(), ruzstd::encoding::CompressionLevel::Fastest);
    // What the zstd command makes of many files, and of one file in several threads, has several frames.
    let skipped = [&[0x50, 0x2a, 0x4d, 0x18, 3, 0, 0, 0][..], b"abc"].concat();
    let files = [
        ("plain", "a", format!("\u{feff}{}", line("a")).into_bytes()),
        ("gz", "bc", [gzip(&line("b")), gzip(&line("c"))].concat()),
        ("zst", "de", [skipped.clone(), zstd(&line("d")), skipped, zstd(&line("e"))].concat()),
        ("gz with a mark", "f", gzip(&format!("\u{feff}{}", line("f")))),
    ];
    for (name, ids, bytes) in &files {
        let path = db.folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        let ingest = ["--format", "json", "ingest", "--namespace", "a", "--db"];
        let output = run(mnemon().args(ingest).arg(&db.path).arg(&path));
        assert_eq!(json(&output.stdout)["new"], ids.len(), "{name}: {}", output.stderr);
        let output = run(mnemon().args(ingest).arg(&db.path).arg("-").write_stdin(bytes.clone()));
        assert_eq!(json(&output.stdout)["unchanged"], ids.len(), "{name}, by stdin: {}", output.stderr);
        let foreign = ["--from", "openai", "--session", name];
        let output = run(mnemon().args(ingest).arg(&db.path).args(foreign).arg(&path));
        assert_eq!(json(&output.stdout)["new"], ids.len(), "{name} of another system: {}", output.stderr);
    }
    let exported = run(mnemon().args(["export", "--db"]).arg(&db.path)).stdout;
    for (name, bytes) in
        [("plain", format!("\u{feff}{exported}").into_bytes()), ("gz", gzip(&exported)), ("zst", zstd(&exported))]
    {
        let copy = Db::new();
        let output = run(mnemon().args(["import", "--db"]).arg(&copy.path).arg("-").write_stdin(bytes));
        assert_eq!(output.code, 0, "{name}: {}", output.stderr);
        assert_eq!(copy.assert_sound().messages, 12, "{name}");
    }
    // What is damaged, and another encoding of text, are named.
    let mut damaged = zstd(&line("x").repeat(50));
    let last = damaged.len() - 1;
    damaged[last] ^= 1;
    let utf16: Vec<u8> = format!("\u{feff}{}", line("x")).encode_utf16().flat_map(u16::to_le_bytes).collect();
    let cut = gzip(&line("x"))[..20].to_vec();
    for (bytes, reason) in [(damaged, "checksum"), (utf16, "save it as UTF-8"), (cut, "-:1: incomplete")] {
        let output =
            run(mnemon().args(["ingest", "--namespace", "b", "--db"]).arg(&db.path).arg("-").write_stdin(bytes));
        assert!(output.code == 1 && output.stderr.contains(reason), "{reason}: {}", output.stderr);
    }
}

/// A file that decompresses to far more than it has is read as a stream.
#[test]
fn a_line_that_never_ends_is_a_bad_line() {
    use std::io::Write;
    let db = Db::new();
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    (0..200).for_each(|_| encoder.write_all(&[b'x'; 1 << 20]).unwrap());
    let bytes = encoder.finish().unwrap();
    let output = run(mnemon().args(["ingest", "--namespace", "a", "--db"]).arg(&db.path).arg("-").write_stdin(bytes));
    assert!(output.code == 1 && output.stderr.contains("a line of more than"), "{}", output.stderr);
    assert!(output.stderr.contains("--from claude-code|codex"), "an array may have one line: {}", output.stderr);
}

#[test]
fn a_file_of_another_system_is_told_how_it_is_read() {
    let db = Db::new();
    for input in ["[\n", "{\n\"messages\": []}", "{\"messages\": []}", "\u{feff}[", "<html>"] {
        let output = ingest(&db, &["--namespace", "a"], input);
        assert!(output.code == 1 && output.stderr.contains("--from claude-code|codex|chatgpt"), "{}", output.stderr);
    }
}

#[test]
fn a_namespace_large_enough_for_a_graph_is_linked_unless_told_otherwise() {
    let db = Db::new();
    let line = |i| format!(r#"{{"id":"m{i}","role":"user","content":"parcel {i} went to {}"}}"#, i % 101);
    let lines: Vec<String> = (0..10_001).map(line).collect();
    let lines = lines.join("\n");
    let without = ingest(&db, &["--namespace", "a", "--no-link"], &lines);
    assert_eq!((without.code, &json(&without.stdout)["linked"]), (0, &json!(0)), "{}", without.stderr);
    let again = json(&ingest(&db, &["--namespace", "a"], &lines).stdout);
    assert_eq!((&again["unchanged"], &again["linked"]), (&json!(10_001), &json!(10_001)));
    // A small namespace has no graph.
    let small = ingest(&Db::new(), &["--namespace", "a"], &line(1));
    assert_eq!(json(&small.stdout)["linked"], 0);
}
