//! `mnemon export` and `mnemon import`.

use std::{fs, path::Path};

use super::{Output, ingest, json, mnemon, run};
use crate::support::{Db, sample};

fn export(db: &Db, arguments: &[&str]) -> Output {
    // Without a model.
    run(mnemon().args(["export", "--db"]).arg(&db.path).args(arguments).env("ORT_DYLIB_PATH", "/nowhere"))
}

fn import(db: &Db, arguments: &[&str], file: &Path) -> Output {
    run(mnemon().args(["--format", "json", "import", "--db"]).arg(&db.path).args(arguments).arg(file))
}

#[test]
fn a_database_is_exported_and_imported_into_a_new_one() {
    let (from, to) = (Db::new(), Db::new());
    assert_eq!(run(mnemon().args(["ingest", "--db"]).arg(&from.path).arg(sample("messages.jsonl"))).code, 0);
    let engine = mnemon::Engine::open(&from.path).unwrap();
    let value = serde_json::json!({"drink": "green tea"});
    engine.documents(&"home/okafor".parse().unwrap()).blocking().put("likes", value, Default::default()).unwrap();
    engine.blocking().flush().unwrap();
    drop(engine);
    let file = from.folder.path().join("all.jsonl");
    let output = export(&from, &["--format", "json", "-o", file.to_str().unwrap()]);
    assert_eq!(output.code, 0, "{}", output.stderr);
    let report = json(&output.stdout);
    assert_eq!((&report["namespaces"], &report["messages"], &report["documents"]), (&3.into(), &462.into(), &1.into()));
    let text = fs::read_to_string(&file).unwrap();
    assert_eq!(export(&from, &[]).stdout, text, "stdout is the default");

    let imported = import(&to, &[], &file);
    assert_eq!(imported.code, 0, "{}", imported.stderr);
    assert_eq!(json(&imported.stdout), report);
    let verified = to.assert_sound();
    assert_eq!((verified.messages, verified.pending), (463, 0), "with the text of the document");
    assert_eq!(export(&to, &[]).stdout, text);
    let recall = ["recall", "--namespace", "friends/ines-tom", "-k", "5", "the canal boat", "--db"];
    let [one, two] = [&from, &to].map(|db| run(mnemon().args(recall).arg(&db.path)).stdout);
    assert_eq!(one, two);

    // Again is refused, and under another name it is not.
    let refused = import(&to, &[], &file);
    assert_eq!(refused.code, 1);
    for part in ["all.jsonl", "has sessions", "--namespace", "mnemon delete --all"] {
        assert!(refused.stderr.contains(part), "{}", refused.stderr);
    }
    let one = export(&from, &["--namespace", "home/okafor"]).stdout;
    assert!(one.contains("home/okafor") && !one.contains("friends/ines-tom") && !one.contains("ft-s1"), "{one}");
    fs::write(&file, &one).unwrap();
    let renamed = import(&to, &["--namespace", "home/copy"], &file);
    assert_eq!(renamed.code, 0, "{}", renamed.stderr);
    let copy = export(&to, &["--namespace", "home/copy"]).stdout;
    assert_eq!(copy.replace("\"home/copy\"", "\"home/okafor\""), one);
    to.assert_sound();

    let unknown = export(&from, &["--namespace", "home/okafer"]);
    assert!(unknown.code == 1 && unknown.stderr.contains("the nearest is \"home/okafor\""), "{}", unknown.stderr);
}

#[test]
fn a_bad_export_is_named_with_its_line_and_leaves_no_database() {
    let from = Db::new();
    ingest(&from, &["--namespace", "a"], r#"{"role":"user","content":"hello","id":"1"}"#);
    let text = export(&from, &[]).stdout;
    let file = from.folder.path().join("bad.jsonl");
    for (changed, part) in [
        (text.replace("\"role\":\"user\"", "\"role\":\"robot\""), "bad.jsonl:4: "),
        (text.replace("\"kind\":\"end\"", "\"kind\":\"picture\""), "bad.jsonl:5: unknown kind"),
        (text[..text.find("{\"kind\":\"end\"").unwrap()].to_owned(), "cut off"),
        (r#"{"role":"user","content":"hello"}"#.to_owned(), "`mnemon ingest`"),
    ] {
        fs::write(&file, changed).unwrap();
        let db = Db::new();
        let output = import(&db, &[], &file);
        assert_eq!(output.code, 1);
        assert!(output.stderr.contains(part) && output.stderr.contains("nothing was imported"), "{}", output.stderr);
        assert!(!db.path.exists());
    }
    let missing = import(&Db::new(), &[], Path::new("/nowhere/all.jsonl"));
    assert!(missing.code == 1 && missing.stderr.contains("/nowhere/all.jsonl"), "{}", missing.stderr);
}

/// A file whose writer was killed is repaired, as by the other commands that read.
#[cfg(unix)]
#[test]
fn a_database_whose_writer_was_killed_is_exported() {
    let db = Db::new();
    assert_eq!(ingest(&db, &[], "{\"namespace\":\"a\",\"role\":\"user\",\"content\":\"The boat is red.\"}\n").code, 0);
    let mut holder = std::process::Command::new(assert_cmd::cargo::cargo_bin!("mnemon"));
    holder.args(["serve", "--private", "--db"]).arg(&db.path).stderr(std::process::Stdio::null());
    let mut holder = holder.spawn().unwrap();
    let note = db.folder.path().join("memory.redb.server");
    while !fs::read_to_string(&note).is_ok_and(|note| note.contains(".sock")) {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    holder.kill().unwrap();
    holder.wait().unwrap();
    let needs_repair = mnemon::Engine::open_read_only(&db.path);
    assert!(matches!(needs_repair, Err(mnemon::Error::WriteAccessNeeded { .. })), "{needs_repair:?}");
    let output = export(&db, &[]);
    assert!(output.code == 0 && output.stdout.contains("The boat is red."), "{}", output.stderr);
}

/// A copy that is put back is noticed by whoever kept the anchor.
#[test]
fn an_older_copy_in_the_place_of_a_database_is_noticed() {
    let db = Db::new();
    let line = |text: &str| format!("{{\"namespace\":\"a\",\"role\":\"user\",\"content\":\"{text}\"}}\n");
    let head = |anchor: &[&str]| run(mnemon().args(["verify", "--db"]).arg(&db.path).arg("--head").args(anchor));
    assert_eq!(ingest(&db, &[], &line("The boat is red.")).code, 0);
    let copy = db.folder.path().join("copy.redb");
    fs::copy(&db.path, &copy).unwrap();
    let first = head(&[]).stdout.trim().to_owned();
    assert_eq!(ingest(&db, &[], &line("The oars are new.")).code, 0);
    let last = head(&[]).stdout.trim().to_owned();
    let number = |anchor: &str| anchor.split_once('-').unwrap().0.parse::<u64>().unwrap();
    assert!(number(&last) > number(&first), "{first} {last}");
    for anchor in [&first, &last] {
        assert_eq!(head(&[anchor]).code, 0);
    }
    // Another history.
    for at in [number(&first), number(&last)] {
        assert_eq!(head(&[&format!("{at}-{:016x}", 1)]).code, 3);
    }
    assert_eq!(head(&["x"]).code, 2);
    // A purge writes a new file, which goes on.
    assert_eq!(run(mnemon().args(["purge", "--db"]).arg(&db.path)).code, 0);
    assert_eq!(head(&[&last]).code, 0);
    fs::rename(&copy, &db.path).unwrap();
    let refused = head(&[&last]);
    assert!(refused.code == 3 && refused.stderr.contains("older copy"), "{}", refused.stderr);
    let anchor: mnemon::Anchor = last.parse().unwrap();
    let open = || mnemon::Engine::builder(&db.path).config(mnemon::Config::default().anchor(anchor));
    for opened in [open().open(), open().open_read_only()] {
        assert!(matches!(opened, Err(mnemon::Error::OlderDatabase { .. })), "{opened:?}");
    }
    assert_eq!(head(&[&first]).code, 0);
    let engine = mnemon::Engine::builder(&db.path)
        .config(mnemon::Config::default().anchor(first.parse().unwrap()))
        .open()
        .unwrap();
    // The copy gets more commits than the file had: from each of the last blocks of commits, and where they change.
    let mut anchors = vec![engine.anchor().unwrap()];
    for at in 0..200 {
        engine.blocking().put(&"a".parse().unwrap(), vec![mnemon::Message::user(format!("Once more, {at}."))]).unwrap();
        anchors.push(engine.anchor().unwrap());
    }
    drop(engine);
    let file = mnemon::DatabaseFile::new(&db.path);
    for anchor in anchors {
        assert!(file.has_commit(anchor).unwrap(), "{anchor}");
    }
    assert!(file.has_commit(first.parse().unwrap()).unwrap() && !file.has_commit(anchor).unwrap());
    assert!(matches!(open().open(), Err(mnemon::Error::OlderDatabase { .. })));
}
