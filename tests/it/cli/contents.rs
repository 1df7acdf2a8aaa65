//! `mnemon namespaces`, `sessions`, `get` and `delete`.

use super::{Output, ingest, json, mnemon, run};
use crate::support::{Db, root, sample};

/// Runs a command on a database, without a model and without ONNX Runtime.
fn on(db: &Db, arguments: &[&str]) -> Output {
    run(mnemon().args(arguments).arg("--db").arg(&db.path).env("ORT_DYLIB_PATH", "/nowhere"))
}

fn filled() -> Db {
    let db = Db::new();
    assert_eq!(run(mnemon().args(["ingest", "--db"]).arg(&db.path).arg(sample("messages.jsonl"))).code, 0);
    db
}

const TOM: [&str; 2] = ["--namespace", "friends/ines-tom"];

#[test]
fn namespaces_sessions_and_messages_are_listed() {
    let db = filled();
    let listed = on(&db, &["namespaces"]);
    assert_eq!(listed.code, 0, "{}", listed.stderr);
    assert!(listed.stdout.contains("       153         9          0  friends/ines-tom\n"), "{}", listed.stdout);
    let lines = on(&db, &["--format", "json", "namespaces"]).stdout;
    let names: Vec<_> = lines.lines().map(|line| json(line)["namespace"].clone()).collect();
    assert_eq!(names, ["acme/priya", "friends/ines-tom", "home/okafor"]);

    let sessions = on(&db, &[&["--format", "json", "sessions"][..], &TOM].concat());
    let sessions: Vec<_> = sessions.stdout.lines().map(json).collect();
    assert_eq!((sessions.len(), &sessions[0]["session"]), (9, &"s1".into()));
    let counts = sessions.iter().map(|session| session["messages"].as_u64().unwrap());
    assert_eq!(counts.sum::<u64>(), 153);
    assert!(on(&db, &[&["sessions"][..], &TOM].concat()).stdout.lines().nth(9).unwrap().ends_with("  s9"));

    let shown = on(&db, &[&["get", "ft-s1-02", "ft-s1-01"][..], &TOM].concat());
    assert_eq!(shown.code, 0, "{}", shown.stderr);
    assert!(shown.stdout.starts_with("ft-s1-02  2024-01-14T"), "{}", shown.stdout);
    // What is shown as JSON can be ingested again.
    let session = on(&db, &[&["--format", "json", "get", "--session", "s2"][..], &TOM].concat()).stdout;
    let again = ingest(&db, &[], &session);
    let unchanged = json(&again.stdout)["unchanged"].as_u64().unwrap();
    assert_eq!((again.code, unchanged), (0, session.lines().count() as u64), "{}", again.stderr);
    let unknown = on(&db, &[&["get", "m1"][..], &TOM].concat());
    assert!(unknown.code == 1 && unknown.stderr.contains("no message \"m1\""), "{}", unknown.stderr);
    // What is known is shown, and what is not is named.
    let some = on(&db, &[&["get", "m1", "ft-s1-02", "m2"][..], &TOM].concat());
    assert!(some.code == 1 && some.stdout.starts_with("ft-s1-02  "), "{}", some.stdout);
    assert!(some.stderr.contains("no message \"m1\", \"m2\" in namespace \"friends/ines-tom\""), "{}", some.stderr);
}

#[test]
fn a_message_is_shown_with_its_versions() {
    let db = Db::new();
    let space = "acme/ada".parse().unwrap();
    let mut config = mnemon::Config::default();
    config.keep_versions = true;
    let engine = mnemon::Engine::builder(&db.path).config(config).open().unwrap();
    for text in ["We row on Thursdays.", "We row on Fridays."] {
        engine.blocking().put(&space, vec![mnemon::Message::user(text).with_id("m")]).unwrap();
    }
    drop(engine);
    let get = |more: &[&str]| on(&db, &[more, &["get", "m", "--namespace", "acme/ada"]].concat()).stdout;
    assert!(!get(&[]).contains("Thursdays"));
    let shown = on(&db, &["get", "--versions", "m", "--namespace", "acme/ada"]).stdout;
    let (before, now) = shown.split_once("Thursdays.").expect("the version is shown");
    assert!(before.starts_with("until 20") && now.contains("Fridays."), "{shown}");
    let line = json(&on(&db, &["--format", "json", "get", "--versions", "m", "--namespace", "acme/ada"]).stdout);
    assert_eq!(line["versions"][0]["content"], "We row on Thursdays.", "{line}");
    assert_eq!(json(&get(&["--format", "json"])).get("versions"), None);
}

/// One of a kind is told in the singular.
#[test]
fn counts_agree_with_their_nouns() {
    let db = Db::new();
    let line = r#"{"role":"user","content":"x","id":"1","namespace":"a","session":"s"}"#;
    let ingested = run(mnemon().args(["ingest", "-", "--db"]).arg(&db.path).write_stdin(line));
    assert!(ingested.stdout.contains("\n1 message in "), "{}", ingested.stdout);
    for (arguments, said) in [
        (&["delete", "--namespace", "a", "--session", "s"][..], "delete 1 message of session \"s\", for good"),
        (&["delete", "--namespace", "a", "--all"], "delete 1 message in 1 session and 0 documents of a, for good"),
        (&["delete", "--prefix", "a"], "delete 1 message and 0 documents in 1 namespace under a, for good"),
        (&["forget", "--namespace", "a", "--id", "1"], "forget 1 message of a, for good"),
        (&["forget", "--namespace", "a", "--key", "k", "l"], "forget 2 documents of a, for good"),
    ] {
        let refused = on(&db, arguments);
        assert!(refused.code == 2 && refused.stderr.contains(said), "{arguments:?}: {}", refused.stderr);
    }
    assert_eq!(on(&db, &["forget", "--namespace", "a", "--id", "1", "--yes"]).code, 0);
    let audit = on(&db, &["audit"]).stdout;
    assert!(audit.contains("  forgot 1 message, 0 documents; "), "{audit}");

    // No other text of the command has a number before a plural.
    let mut folders = vec![root("crates/cli/src")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap()) {
            let (path, name) = (entry.path(), entry.file_name());
            if path.is_dir() && name != "bench" {
                folders.push(path);
            } else if path.is_file() {
                let text = std::fs::read_to_string(&path).unwrap();
                for noun in ["message", "document", "session", "namespace", "question", "querie", "text", "turn"] {
                    assert!(!text.contains(&format!("}} {noun}s ")), "{}: use `output::counted`", path.display());
                }
            }
        }
    }
}

#[test]
fn an_unknown_namespace_or_session_is_an_error_that_names_the_nearest() {
    let db = filled();
    for arguments in
        [&["recall", "the boat"][..], &["sessions"], &["get", "m1"], &["delete", "m1"], &["delete", "--all"]]
    {
        let output = on(&db, &[arguments, &["--namespace", "friends/ines-tim"]].concat());
        // Recall needs the model, which needs ONNX Runtime.
        let output = if arguments[0] == "recall" {
            let common = ["recall", "the boat", "--namespace", "friends/ines-tim", "--db"];
            run(mnemon().args(common).arg(&db.path))
        } else {
            output
        };
        assert_eq!((output.code, &*output.stdout), (1, ""), "{arguments:?}");
        for part in ["no namespace \"friends/ines-tim\"", "the nearest is \"friends/ines-tom\"", "mnemon namespaces"] {
            assert!(output.stderr.contains(part), "{arguments:?}: {}", output.stderr);
        }
    }
    let session = on(&db, &[&["get", "--session", "s11"][..], &TOM].concat());
    assert!(session.code == 1 && session.stderr.contains("the nearest is \"s1\""), "{}", session.stderr);
}

#[test]
fn messages_are_deleted_by_id_and_more_only_with_yes() {
    let db = filled();
    let delete = |arguments: &[&str]| on(&db, &[&["--format", "json", "delete"][..], &TOM, arguments].concat());
    let messages = || mnemon::stats(&db.path).unwrap().namespaces.iter().map(|found| found.messages).sum::<u64>();
    let unknown = delete(&["ft-s1-01", "m1"]);
    assert!(unknown.code == 1 && unknown.stderr.contains("nothing was deleted"), "{}", unknown.stderr);
    assert_eq!(messages(), 462);
    assert_eq!(json(&delete(&["ft-s1-01", "ft-s1-02"]).stdout)["deleted"], 2);
    assert_eq!(messages(), 460);

    for (what, said) in [(&["--session", "s1"][..], "messages of session"), (&["--all"], "151 messages in 9 sessions")]
    {
        let refused = delete(what);
        assert_eq!(refused.code, 2, "{}", refused.stderr);
        assert!(refused.stderr.contains(said) && refused.stderr.contains("--yes"), "{}", refused.stderr);
    }
    assert_eq!(messages(), 460);
    let session = json(&delete(&["--session", "s1", "--yes"]).stdout)["deleted"].as_u64().unwrap();
    let rest = json(&delete(&["--all", "--yes"]).stdout)["deleted"].as_u64().unwrap();
    assert_eq!((session + rest, messages()), (151, 309));
    assert_eq!(on(&db, &["namespaces"]).stdout.lines().count(), 3, "a line of heads, and two namespaces");
    db.assert_sound();
    let gone = delete(&["--all", "--yes"]);
    assert!(gone.code == 1 && gone.stderr.contains("no namespace"), "{}", gone.stderr);
}

#[test]
fn namespaces_are_listed_in_pages_and_deleted_by_prefix_only_with_yes() {
    let db = Db::new();
    let line = |namespace: &str| format!("{{\"namespace\":\"{namespace}\",\"role\":\"user\",\"content\":\"hello\"}}\n");
    let names = ["acme/user-4", "acme/user-4/a b", "acme/user-42", "zoo"];
    assert_eq!(ingest(&db, &[], &names.map(line).concat()).code, 0);
    let list = |arguments: &[&str]| {
        let output = on(&db, &[&["--format", "json", "namespaces"], arguments].concat());
        assert_eq!(output.code, 0, "{}", output.stderr);
        output.stdout.lines().map(json).collect::<Vec<_>>()
    };
    let user: Vec<_> = list(&["--prefix", "acme/user-4"]).iter().map(|line| line["namespace"].clone()).collect();
    assert_eq!(user, names[..2]);
    let (mut found, mut after) = (Vec::new(), Vec::new());
    loop {
        let mut page = list(&[&["--limit", "1"], &after.iter().map(String::as_str).collect::<Vec<_>>()[..]].concat());
        found.push(page.remove(0)["namespace"].clone());
        let Some(last) = page.pop() else { break };
        after = vec!["--after".to_owned(), last["next"].as_str().unwrap().to_owned()];
    }
    assert_eq!(found, names);
    let text = on(&db, &["namespaces", "--limit", "2"]);
    assert_eq!(text.stdout.lines().count(), 3);
    assert!(text.stderr.contains(r#"more follow: --after "1:acme/user-4/a b""#), "{}", text.stderr);
    for cursor in ["next", "7:acme/user-4"] {
        let refused = on(&db, &["namespaces", "--after", cursor]);
        assert_eq!((refused.code, &*refused.stdout.lines().skip(1).collect::<String>()), (2, ""));
        assert!(refused.stderr.contains("invalid cursor"), "{}", refused.stderr);
    }

    let delete = |arguments: &[&str]| on(&db, &[&["--format", "json", "delete", "--prefix"], arguments].concat());
    let refused = delete(&["acme/user-4"]);
    assert_eq!(refused.code, 2);
    assert!(
        refused.stderr.contains("2 messages and 0 documents in 2 namespaces under acme/user-4,"),
        "{}",
        refused.stderr
    );
    let none = json(&delete(&["acme/user"]).stdout);
    assert_eq!((&none["namespaces"], &none["deleted"]), (&0.into(), &0.into()), "nothing to confirm");
    let deleted = json(&delete(&["acme/user-4", "--yes"]).stdout);
    assert_eq!((&deleted["namespaces"], &deleted["deleted"]), (&2.into(), &2.into()));
    assert_eq!(list(&[]).len(), 2);
    assert_eq!(delete(&["acme", "--namespace", "acme", "--yes"]).code, 2, "one or the other");
    assert_eq!(on(&db, &["delete", "m1"]).code, 2, "neither");

    // Documents alone are confirmed, too.
    let engine = mnemon::Engine::open(&db.path).unwrap();
    let documents = engine.documents(&"notes/a".parse().unwrap());
    documents.blocking().put("k", true.into(), Default::default()).unwrap();
    drop((documents, engine));
    let refused = delete(&["notes"]);
    assert_eq!(refused.code, 2);
    assert!(refused.stderr.contains("0 messages and 1 document in 1 namespace under"), "{}", refused.stderr);
    assert_eq!(json(&delete(&["notes", "--yes"]).stdout)["documents"], 1);
    db.assert_sound();
}

#[test]
fn a_namespace_with_documents_alone_exists_for_every_command() {
    let db = filled();
    let engine = mnemon::Engine::open(&db.path).unwrap();
    for key in ["a", "b"] {
        engine.documents(&"notes/a".parse().unwrap()).blocking().put(key, true.into(), Default::default()).unwrap();
    }
    engine.blocking().flush().unwrap();
    drop(engine);
    let notes = ["--namespace", "notes/a"];
    let listed = json(&on(&db, &["--format", "json", "namespaces", "--prefix", "notes"]).stdout);
    assert_eq!((&listed["namespace"], &listed["documents"]), (&"notes/a".into(), &2.into()));
    assert!(on(&db, &["stats"]).stdout.contains("         0         0          2          0"));
    let sessions = on(&db, &[&["sessions"][..], &notes].concat());
    assert_eq!((sessions.code, sessions.stdout.lines().count()), (0, 1), "{}", sessions.stderr);
    let recalled = run(mnemon().args(["recall", "true", "--namespace", "notes/a", "--db"]).arg(&db.path));
    assert!(recalled.code == 0 && recalled.stdout.contains("nothing found in notes/a"), "{}", recalled.stderr);
    let unknown = on(&db, &["sessions", "--namespace", "notes/b"]);
    assert!(unknown.code == 1 && unknown.stderr.contains("the nearest is \"notes/a\""), "{}", unknown.stderr);

    let delete = |arguments: &[&str]| on(&db, &[&["delete", "--all"], &notes[..], arguments].concat());
    let refused = delete(&[]);
    assert!(refused.stderr.contains("0 messages in 0 sessions and 2 documents of notes/a"), "{}", refused.stderr);
    assert_eq!((refused.code, delete(&["--yes"]).code), (2, 0));
    assert_eq!(delete(&["--yes"]).code, 1, "it is gone");
    db.assert_sound();
}

/// Everything that only reads runs beside a process that has the database open for writing.
#[test]
fn commands_that_read_run_beside_a_writer() {
    let db = filled();
    let writer = mnemon::Engine::open(&db.path).unwrap();
    writer.blocking().hold(&"home/okafor".parse().unwrap(), "a request").unwrap();
    let exported = db.folder.path().join("exported.jsonl");
    let exported = exported.to_str().unwrap();
    for (arguments, wanted) in [
        (&[&["get", "ft-s1-02"][..], &TOM].concat()[..], "ft-s1-02"),
        (&[&["get", "--session", "s2"][..], &TOM].concat(), "ft-s2-01"),
        (&[&["sessions"][..], &TOM].concat(), "s9"),
        (&["hold"], "home/okafor"),
        (&["audit"], "the chain holds"),
        (&["namespaces"], "acme/priya"),
        (&["stats"], "friends/ines-tom"),
        (&["stats", "--load"], "namespaces loaded"),
        (&["verify"], ""),
        (&[&["recall", "the boat"][..], &TOM].concat(), "boat"),
        (&[&["export", "--output", exported][..], &TOM].concat(), ""),
    ] {
        let output = run(mnemon().args(arguments).arg("--db").arg(&db.path));
        assert_eq!(output.code, 0, "{arguments:?}: {}", output.stderr);
        assert!(output.stdout.contains(wanted), "{arguments:?}: {}", output.stdout);
    }
    writer.blocking().release(&"home/okafor".parse().unwrap()).unwrap();
    // What writes is refused, before and after.
    for arguments in [
        &["hold", "--namespace", "home/okafor", "--release"][..],
        &["delete", "ft-s1-02", "--namespace", "friends/ines-tom"],
    ] {
        let output = run(mnemon().args(arguments).arg("--db").arg(&db.path));
        assert!(output.code == 1 && output.stderr.contains("open"), "{arguments:?}: {}", output.stderr);
    }
}

#[test]
fn a_session_is_shown_in_the_format_of_a_provider() {
    let db = filled();
    let shown = |to: &str| on(&db, &[&["get", "--session", "s2", "--to", to][..], &TOM].concat());
    let lists = [
        json(&shown("openai").stdout),
        json(&shown("anthropic").stdout)["messages"].clone(),
        json(&shown("gemini").stdout)["contents"].clone(),
    ];
    for list in lists {
        let list = list.as_array().unwrap();
        assert!(list.len() > 10 && list.iter().all(|message| message["role"].is_string()), "{list:?}");
    }
    assert_eq!(shown("chatgpt").code, 2);
}
