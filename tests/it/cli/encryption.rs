//! Encrypted databases and embedding caches: every command opens them with their key, and refuses another one or none.

use std::{fs, path::PathBuf};

use super::{Output, json, mnemon, run};
use crate::support::Db;

/// The commands that open a database, each with a part of what it prints. They run in this order on one database.
const COMMANDS: &[(&str, &str)] = &[
    ("ingest --db DB --embedding-cache DIR/cache DIR/messages.jsonl", r#""unchanged":3"#),
    ("recall --db DB --namespace a boat", "narrowboat"),
    ("get --db DB --namespace a m1", "narrowboat"),
    ("sessions --db DB --namespace a", r#""messages":3"#),
    ("namespaces --db DB", r#""namespace":"a""#),
    ("stats --db DB --load --embedding-cache DIR/cache", r#""namespaces_loaded":1"#),
    ("export --db DB -o DIR/export.jsonl", r#""messages":3"#),
    ("import --db DB --namespace b DIR/export.jsonl", r#""messages":3"#),
    ("hold --db DB --namespace b --reason case", r#""kind":"hold""#),
    ("hold --db DB", "case"),
    ("ttl --db DB --namespace b 60", r#""ttl_minutes":60"#),
    ("delete --db DB --namespace a m1", r#""deleted":1"#),
    ("forget --db DB --namespace a --id m2 --embedding-cache DIR/cache --yes", r#""messages":1"#),
    ("audit --db DB", r#""problems":[]"#),
    ("reindex --db DB --model static-en-256 --precision i8 --embedding-cache DIR/cache", r#""switched":true"#),
    ("reindex --db DB --rollback", r#""switched":true"#),
    ("reindex --db DB --drop-previous", r#""dropped":true"#),
    ("purge --db DB", "bytes_after"),
    ("verify --db DB", r#""problems":[]"#),
    ("backup --db DB DIR/backup.redb", "bytes"),
    ("salvage DB DIR/salvaged.redb", r#""messages":4"#),
];

/// A database whose folder has keys and a file of messages.
struct Keys(Db);

impl Keys {
    fn new() -> Self {
        let db = Db::new();
        let write = |name: &str, text: &str| fs::write(db.folder.path().join(name), text).unwrap();
        write("key", &"6b".repeat(32));
        write("other", &"6c".repeat(32));
        let line = |id, text| format!(r#"{{"namespace": "a", "id": "{id}", "role": "user", "content": "{text}"}}"#);
        write("messages.jsonl", &[line("m1", "my narrowboat"), line("m2", "a dog"), line("m3", "tea")].join("\n"));
        Keys(db)
    }

    /// Runs a command line, in which DB is the database and DIR its folder.
    fn run(&self, line: &str, key_file: Option<&str>, variable: Option<&str>) -> Output {
        let folder = self.0.folder.path().to_str().unwrap();
        let mut command = mnemon();
        let argument = |word: &str| word.replace("DB", "DIR/memory.redb").replace("DIR", folder);
        command.args(["--format", "json"]).args(line.split_whitespace().map(argument));
        key_file.map(|name| command.arg("--key-file").arg(self.path(name)));
        variable.map(|key| command.env("MNEMON_KEY", key));
        run(&mut command)
    }

    /// Asserts that a command line succeeds, and returns what it printed.
    #[track_caller]
    fn succeeds(&self, line: &str, key_file: Option<&str>, variable: Option<&str>) -> String {
        let output = self.run(line, key_file, variable);
        assert_eq!(output.code, 0, "{line}: {}", output.stderr);
        output.stdout
    }

    /// Asserts that a command line fails with an error that has all of these parts, and changes no file.
    #[track_caller]
    fn fails(&self, line: &str, key_file: Option<&str>, variable: Option<&str>, parts: &[&str]) {
        let before = self.files();
        let output = self.run(line, key_file, variable);
        assert_eq!(output.code, 1, "{line}: {}", output.stderr);
        assert!(parts.iter().all(|part| output.stderr.contains(part)), "{line}: {parts:?}: {}", output.stderr);
        assert!(self.files() == before, "{line} has changed a file");
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.folder.path().join(name)
    }

    /// The files of the folder with their contents, in order of their names.
    fn files(&self) -> Vec<(String, Vec<u8>)> {
        let entries = fs::read_dir(self.0.folder.path()).unwrap().map(|entry| entry.unwrap());
        let read = |entry: fs::DirEntry| (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap());
        let mut files: Vec<_> = entries.map(read).collect();
        files.sort();
        files
    }
}

#[test]
fn every_command_opens_an_encrypted_database_with_its_key_alone() {
    let keys = Keys::new();
    keys.succeeds(COMMANDS[0].0, Some("key"), None);
    let digits = "6b".repeat(32);
    for (i, (line, printed)) in COMMANDS.iter().enumerate() {
        keys.fails(line, None, None, &["memory.redb: encrypted, and no key was given", "--key-file", "MNEMON_KEY"]);
        keys.fails(line, Some("other"), None, &["memory.redb: encrypted with another key", "--key-file"]);
        let (file, variable) = if i % 2 == 0 { (None, Some(&*digits)) } else { (Some("key"), None) };
        let output = keys.succeeds(line, file, variable);
        assert!(output.contains(printed), "{line}: {output}");
    }
    let clear = ["export.jsonl", "messages.jsonl"];
    let (clear, sealed): (Vec<_>, Vec<_>) = keys.files().into_iter().partition(|(name, _)| clear.contains(&&**name));
    let has_text = |bytes: &[u8]| bytes.windows(10).any(|window| window == b"narrowboat");
    assert!(clear.iter().all(|(_, bytes)| has_text(bytes)) && !sealed.iter().any(|(_, bytes)| has_text(bytes)));
    let names: Vec<&str> = sealed.iter().map(|(name, _)| &**name).collect();
    assert_eq!(names, ["backup.redb", "cache", "key", "memory.redb", "other", "salvaged.redb"]);
    // It was not emptied for want of the key.
    let cache = keys.succeeds("stats --embedding-cache DIR/cache", None, None);
    assert_eq!(json(&cache)["embedding_cache"]["entries"], 2, "{cache}");
    for copy in ["backup.redb", "salvaged.redb"] {
        keys.succeeds(&format!("verify --db DIR/{copy}"), Some("key"), None);
    }
}

#[test]
fn a_backup_has_the_key_that_is_asked_for() {
    let keys = Keys::new();
    keys.succeeds("ingest --db DB DIR/messages.jsonl", None, None);
    let opens = |name: &str, right: Option<&str>, wrong: Option<&str>, said: &str| {
        let line = format!("get --db DIR/{name} --namespace a m1");
        assert!(keys.succeeds(&line, right, None).contains("narrowboat"));
        keys.fails(&line, wrong, None, &[said]);
    };
    keys.succeeds("backup --db DB --new-key-file DIR/key DIR/first", None, None);
    opens("first", Some("key"), Some("other"), "another key");
    keys.succeeds("backup --db DIR/first --new-key-file DIR/other DIR/second", Some("key"), None);
    opens("second", Some("other"), Some("key"), "another key");
    keys.succeeds("backup --db DIR/second --decrypt DIR/third", Some("other"), None);
    opens("third", None, Some("other"), "not encrypted, but a key was given");
    keys.fails("backup --db DIR/first --new-key-file DIR/nowhere DIR/fourth", Some("key"), None, &["nowhere"]);
}

#[test]
fn what_is_not_a_key_is_refused() {
    let keys = Keys::new();
    let ingest = "ingest --db DB DIR/messages.jsonl";
    for (file, variable, parts) in [
        (Some("nowhere"), None, ["no encryption key", "nowhere"]),
        (Some("messages.jsonl"), None, ["neither 32 bytes nor 64 hexadecimal digits", "messages.jsonl"]),
        (None, Some("6b"), ["MNEMON_KEY", "64 hexadecimal digits"]),
        // An empty variable must not create a database without encryption.
        (None, Some(""), ["MNEMON_KEY", "64 hexadecimal digits"]),
    ] {
        keys.fails(ingest, file, variable, &parts);
    }
    // The option counts, not the variable.
    keys.succeeds(ingest, Some("key"), Some("no key"));
    keys.fails("stats --db DB", Some("other"), Some(&"6b".repeat(32)), &["another key"]);
    // A command without a database asks for no key.
    keys.succeeds("models list", None, Some("no key"));
}

/// `tests/it/encryption.rs` tries all pages.
#[test]
fn verify_exits_with_3_if_an_older_page_was_put_back() {
    let keys = Keys::new();
    let ingest = |text: &str| {
        let line = format!(r#"{{"namespace": "a", "role": "user", "content": "{text}"}}"#);
        fs::write(keys.path("more.jsonl"), line).unwrap();
        keys.succeeds("ingest --db DB DIR/more.jsonl", Some("key"), None);
        fs::read(&keys.0.path).unwrap()
    };
    let (older, mut newer) = (ingest("one"), ingest("two"));
    // The first page has a table that each commit changes.
    let first = 16384..16384 + 4096 + 40;
    assert!(older[first.clone()] != newer[first.clone()]);
    newer[first.clone()].copy_from_slice(&older[first]);
    fs::write(&keys.0.path, newer).unwrap();
    let output = keys.run("verify --db DB", Some("key"), None);
    assert_eq!((output.code, json(&output.stdout)["problems"].as_array().unwrap().len()), (3, 1), "{}", output.stderr);
}
