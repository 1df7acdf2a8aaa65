//! Exports that were edited, cut off, or written by another version.

use super::*;
use crate::support::root;

/// A small export with every kind of line.
fn sound() -> String {
    std::fs::read_to_string(root("tests/it/fixtures/export-1.jsonl")).unwrap()
}

/// An export that version 0.2.0 wrote is read by every later version.
#[test]
fn an_export_of_the_first_version_is_imported() {
    let text = sound();
    let db = Db::new();
    let engine = db.open();
    import(&engine, &text).unwrap();
    let header = |text: &str| text.split_once('\n').map(|(_, rest)| rest.to_owned());
    assert_eq!(header(&export(&engine)), header(&text));
    drop(engine);
    db.assert_sound();
}

#[test]
fn a_bad_line_is_named_and_nothing_is_imported() {
    let text = sound();
    let lines: Vec<&str> = text.lines().collect();
    let at = |part: &str| lines.iter().position(|line| line.contains(part)).unwrap_or_else(|| panic!("{part}"));
    let too_deep = format!("{}1{}", "[".repeat(102), "]".repeat(102));
    let too_long = "x".repeat(1 << 20);
    // (a part of the line, what is replaced, by what, a part of the error)
    let cases = [
        ("\"header\"", "\"header\"", "\"heading\"", "begins with a line of the kind \"header\""),
        ("\"header\"", "\"format\":1", "\"format\":2", "it has format 2"),
        ("\"header\"", "{", "", "expected"),
        ("\"kind\":\"namespace\"", "\"ns\"", "\"//\"", "invalid namespace"),
        ("\"kind\":\"namespace\"", "\"next_seq\":", "\"next_seq\":9007199254740993,\"x\":", "unknown field"),
        ("\"kind\":\"namespace\"", "\"next_seq\":", "\"next_seq\":99999999999999", "next_seq is more"),
        ("\"kind\":\"namespace\"", "\"german\"", "\"klingon\"", "klingon"),
        ("\"kind\":\"session\"", "\"session\":\"s\"", "\"session\":\"\"", "the session is empty"),
        ("\"kind\":\"session\"", "\"window\":", "\"window\":1000", "and the namespace's line has"),
        ("\"kind\":\"batch\"", "\"batch\":0", "\"batch\":1", "batch 1 instead of 0"),
        ("\"kind\":\"batch\"", "\"last\":", "\"last\":1000", "and the namespace's line has next_seq"),
        ("\"kind\":\"block\"", "\"next_batch\":", "\"next_batch\":77", "of only"),
        ("\"block\",\"name\":\"own\"", "\"name\":\"own\"", "\"name\":\"\"", "a block without a name"),
        ("\"block\",\"name\":\"own\"", "\"state\":\"", "\"state\":\"{", "is not JSON"),
        ("\"kind\":\"checkpoint\"", "\"next_seq\":", "\"next_seq\":1000", "next_seq is 1000"),
        ("\"kind\":\"checkpoint\"", "\"created_at\":\"", "\"created_at\":\"x", "RFC 3339"),
        ("\"kind\":\"message\",\"seq\":0,\"batch\"", "\"batch\":0", "\"batch\":90", "batch 90 of only"),
        ("\"kind\":\"message\",\"seq\":0,\"batch\"", "\"batch\":0", "\"batch\":0,\"buffered\":true", "in the buffer"),
        ("\"kind\":\"message\",\"seq\":0,\"batch\"", "\"seq\":0", "\"seq\":1", "an earlier message has the id"),
        ("\"kind\":\"message\",\"seq\":0,\"batch\"", "\"session\":\"s\"", "\"session\":\"t\"", "among those of"),
        ("\"kind\":\"message\",\"seq\":0,\"batch\"", "\"role\":", "\"mood\":1,\"role\":", "unknown field `mood`"),
        ("\"checkpoint\":1,\"batch\"", "\"checkpoint\":1", "\"checkpoint\":9", "which has no line before it"),
        ("\"key\":\"profile\"", "\"profile\"", "\"\"", "the key is empty"),
        ("\"key\":\"profile\"", "\"profile\"", "\"a\\u0007\"", "control character"),
        ("\"key\":\"profile\"", "\"profile\"", "\"notiz 1/2\"", "an earlier document has the key"),
        ("\"key\":\"profile\"", "\"profile\"", "\"p\",\"mood\":1", "unknown field `mood`"),
        ("\"key\":\"profile\"", "\"value\":", "\"value\":null,\"x\":", "unknown field `x`"),
        ("\"key\":\"profile\"", "\"lang\":", "\"lang\":}", "expected value"),
        ("\"key\":\"profile\"", "\"de\"]", "\" \"]", "an indexed text is blank"),
        ("\"key\":\"profile\"", "\"de\"]", "7]", "expected a string"),
        ("\"key\":\"profile\"", "\"updated_at\":\"", "\"updated_at\":\"x", "RFC 3339"),
        ("\"key\":\"profile\"", "\"ttl_micros\":31536000000000", "\"ttl_micros\":\"7\"", "invalid type"),
        ("\"key\":\"profile\"", "\"ttl_micros\":31536000000000", "\"ttl_micros\":999", "the time to live is"),
        ("\"key\":\"profile\"", ",\"ttl_micros\":31536000000000", "", "missing field `ttl_micros`"),
        ("\"notiz 1/2\"", "\"value\":\"ohne Text\",", "", "missing field `value`"),
        ("\"notiz 1/2\"", "\"ohne Text\"", "null", "the value is null"),
        ("\"notiz 1/2\"", "\"ohne Text\"", &too_deep, "nested deeper than 100"),
        ("\"notiz 1/2\"", "ohne Text", &too_long, "the maximum is 1048576"),
        ("\"notiz 1/2\"", "notiz", &too_long, "more than 512"),
        ("\"kind\":\"end\"", "\"messages\":", "\"messages\":1", "messages instead of"),
        ("\"kind\":\"end\"", "\"documents\":", "\"documents\":1", "documents instead of"),
    ];
    let db = Db::new();
    let engine = db.open();
    let before = export(&engine);
    for (line, old, new, reason) in cases {
        let at = at(line);
        let changed = lines[at].replacen(old, new, 1);
        assert_ne!(changed, lines[at], "{line}: {old}");
        let mut changed_lines = lines.clone();
        changed_lines[at] = &changed;
        // A message whose number is used twice is found at the second.
        let number = if reason.starts_with("an earlier") { at + 2 } else { at + 1 };
        match import(&engine, &changed_lines.join("\n")).unwrap_err() {
            Error::InvalidImport { line, reason: found } => {
                assert!(found.contains(reason), "{new:.80}: {found:.200}");
                assert_eq!(line as usize, number, "{new:.80}: {found:.200}");
            }
            error => panic!("{new:.80}: {error:.200}"),
        }
        assert_eq!(export(&engine), before, "{new:.80}");
    }
    // Lines that are missing, doubled, or in another place.
    let without = |part: &str| text.lines().filter(|line| !line.contains(part)).collect::<Vec<_>>().join("\n");
    for (changed, reason) in [
        (String::new(), "cut off"),
        (without("\"kind\":\"end\""), "cut off"),
        (without("\"kind\":\"namespace\""), "none is named before it"),
        (without("\"kind\":\"session\""), "none is named before it"),
        (without("\"kind\":\"batch\""), "of only 0"),
        (without("\"kind\":\"checkpoint\""), "no line before it"),
        (without("\"key\":\"profile\""), "1 documents instead of 2"),
        (format!("{text}{}", lines[1]), "a line after the end"),
        (format!("{}\n{text}", lines[0]), "a second header"),
        (text.replacen("\"kind\":\"session\"", "\"kind\":\"picture\"", 1), "unknown kind \"picture\""),
        ("[1]".into(), "expected a map"),
        ("{\"role\":\"user\",\"content\":\"x\"}".into(), "not a line of an export"),
    ] {
        let error = import(&engine, &changed).unwrap_err();
        assert!(error.to_string().contains(reason), "{reason}: {error}");
        assert_eq!(export(&engine), before, "{reason}");
    }
    import(&engine, &text).unwrap();
    engine.blocking().flush().unwrap();
    drop(engine);
    db.assert_sound();
}

#[test]
fn a_line_of_a_newer_version_is_an_error_that_names_the_version() {
    let db = Db::new();
    let engine = db.open();
    let (version, own) = ("99.1.0", env!("CARGO_PKG_VERSION"));
    let newer = sound().replacen("\"mnemon\":\"0.2.0\"", &format!("\"mnemon\":\"{version}\""), 1);
    for changed in [
        newer.replacen("\"kind\":\"session\"", "\"kind\":\"picture\"", 1),
        newer.replacen("\"format\":1", "\"format\":7", 1),
        newer.replacen("\"role\":", "\"mood\":1,\"role\":", 1),
    ] {
        let error = import(&engine, &changed).unwrap_err().to_string();
        assert!(error.contains(version) && error.contains(own), "{error}");
    }
    import(&engine, &newer).unwrap();
}

#[test]
fn errors_of_the_file_are_passed_on() {
    struct Broken;
    impl std::io::Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
            Err(std::io::Error::other("the disk is gone"))
        }
    }
    impl std::io::Write for Broken {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Err(std::io::Error::other("the disk is full"))
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let db = Db::new();
    let engine = db.open();
    let error = engine.blocking().import(BufReader::new(Broken)).unwrap_err();
    assert!(format!("{error:?}").contains("the disk is gone"));
    let error = engine.blocking().export_all(Broken).unwrap_err();
    assert!(format!("{error:?}").contains("the disk is full"));
    // A file without line breaks does not fill the memory.
    let error = engine.blocking().import(BufReader::new(std::io::repeat(b'x'))).unwrap_err();
    assert!(error.to_string().contains("bytes"), "{error}");
    let error = engine.blocking().import(&b"\xff\n"[..]).unwrap_err();
    assert!(error.to_string().contains("line 1 of the export: it is not UTF-8"), "{error}");
}
