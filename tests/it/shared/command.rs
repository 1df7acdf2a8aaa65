//! The command with `--shared`, and `mnemon share` and `mnemon unshare`.

use std::{fs, path::Path, thread};

use assert_cmd::Command;

use crate::support::{Db, postgres::server, root, sample};

fn run(address: Option<&str>, arguments: &[&str]) -> (i32, String, String) {
    run_with(address, None, arguments)
}

/// Runs the command with the models of a folder.
fn run_with(address: Option<&str>, models: Option<&Path>, arguments: &[&str]) -> (i32, String, String) {
    let mut command = Command::cargo_bin("mnemon").unwrap();
    command.env_remove("MNEMON_KEY").env_remove("MNEMON_SHARED").args(arguments);
    if let Some(address) = address {
        command.env("MNEMON_SHARED", address);
    }
    if let Some(models) = models {
        command.env("MNEMON_MODELS", models);
    }
    let output = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

fn done(address: Option<&str>, arguments: &[&str]) -> String {
    let (code, stdout, stderr) = run(address, arguments);
    assert_eq!(code, 0, "{arguments:?}: {stderr}");
    stdout
}

#[test]
fn one_machine_ingests_and_another_recalls() {
    let Some(server) = server() else { return };
    let address = server.database();
    let (a, b) = (Db::new(), Db::new());
    let (first, second) = (a.path.to_str().unwrap(), b.path.to_str().unwrap());
    let file = sample("messages.jsonl");
    done(Some(&address), &["ingest", "--db", first, file.to_str().unwrap()]);
    let question = ["recall", "--namespace", "friends/ines-tom", "-k", "3", "the canal boat", "--db"];
    let [one, two] = [first, second].map(|db| done(Some(&address), &[&question[..], &[db]].concat()));
    assert_eq!(one, two);
    let listed = done(Some(&address), &["namespaces", "--db", second]);
    assert!(listed.contains("home/okafor") && listed.contains("acme/priya"), "{listed}");
    done(Some(&address), &["delete", "--db", second, "--namespace", "home/okafor", "--all", "--yes"]);
    let (code, _, stderr) = run(Some(&address), &["sessions", "--db", first, "--namespace", "home/okafor"]);
    assert!(code == 1 && stderr.contains("no namespace \"home/okafor\""), "{stderr}");
    // Without the address the copy can be read, and not changed.
    let (code, _, stderr) = run(None, &["delete", "--db", first, "--namespace", "acme/priya", "--all", "--yes"]);
    assert!(code == 1 && stderr.contains("--shared"), "{stderr}");
}

#[test]
fn a_file_is_moved_up_and_a_namespace_back() {
    let Some(server) = server() else { return };
    let address = server.database();
    let (old, new, back) = (Db::new(), Db::new(), Db::new());
    let [file, other, own] = [&old, &new, &back].map(|db| db.path.to_str().unwrap());
    let engine = mnemon::Engine::open(&old.path).unwrap();
    crate::transfer::fill(&engine);
    engine.blocking().flush().unwrap();
    engine.blocking().hold(&"acme/priya".parse().unwrap(), "a case").unwrap();
    drop(engine);
    let text = done(None, &["export", "--db", file]);
    let moved = done(Some(&address), &["--format", "json", "share", "--db", file]);
    assert!(moved.contains("\"namespaces\":"), "{moved}");
    assert_eq!(done(Some(&address), &["export", "--db", other]), text, "a new machine has it");
    assert_eq!(done(Some(&address), &["export", "--db", file]), text, "and so has the old one");
    let again = done(Some(&address), &["--format", "json", "share", "--db", file]);
    assert!(again.contains("\"namespaces\":0"), "{again}");
    let (code, _, stderr) =
        run(Some(&address), &["delete", "--db", other, "--namespace", "acme/priya", "--all", "--yes"]);
    assert!(code == 1 && stderr.contains("legal hold"), "{stderr}");
    let taken = done(Some(&address), &["--format", "json", "unshare", "--db", own, "--namespace", "home/okafor"]);
    assert!(taken.contains("\"namespaces\":1"), "{taken}");
    let [one, two] = [(Some(address.as_str()), other), (None, own)]
        .map(|(address, db)| done(address, &["export", "--db", db, "--namespace", "home/okafor"]));
    assert_eq!(one, two);
    let delete = ["unshare", "--db", own, "--namespace", "friends/ines-tom", "--delete"];
    assert_eq!(run(Some(&address), &delete).0, 2, "without --yes");
    done(Some(&address), &[&delete[..], &["--yes"]].concat());
    let (code, _, stderr) = run(Some(&address), &["sessions", "--db", file, "--namespace", "friends/ines-tom"]);
    assert!(code == 1 && stderr.contains("no namespace"), "{stderr}");
    for db in [&old, &new, &back] {
        db.assert_sound();
    }
}

#[test]
fn two_files_with_the_same_namespace_are_not_mixed() {
    let Some(server) = server() else { return };
    let address = server.database();
    let (a, b) = (Db::new(), Db::new());
    for (db, text) in [(&a, "one"), (&b, "two")] {
        let lines =
            format!("{{\"namespace\": \"n\", \"session\": \"s\", \"role\": \"user\", \"content\": \"{text}\"}}\n");
        let file = db.folder.path().join("messages.jsonl");
        fs::write(&file, lines).unwrap();
        done(None, &["ingest", "--db", db.path.to_str().unwrap(), file.to_str().unwrap()]);
    }
    done(Some(&address), &["share", "--db", a.path.to_str().unwrap()]);
    let (code, _, stderr) = run(Some(&address), &["share", "--db", b.path.to_str().unwrap()]);
    assert!(code == 1 && stderr.contains("namespace \"n\""), "{stderr}");
    // A file with data of its own is no copy.
    let (code, _, stderr) = run(Some(&address), &["get", "--db", b.path.to_str().unwrap(), "--namespace", "n", "x"]);
    assert!(code == 1 && stderr.contains("mnemon share"), "{stderr}");
}

#[test]
fn no_error_has_the_password() {
    let db = Db::new();
    let path = db.path.to_str().unwrap();
    for address in [
        "postgres://mnemon:hunter2@127.0.0.1:1/none",
        "postgres://mnemon:hunter2@127.0.0.1:none/none",
        "postgres://mnemon:hunter2@127.0.0.1/none?sslmode=maybe",
        "postgres://mnemon:hunter2@/none",
        "postgres://mnemon:hunter2@127.0.0.1/none?pool=4",
        "host=127.0.0.1 port=1 user=mnemon password=hunter2",
    ] {
        let (code, stdout, stderr) =
            run(Some(address), &["recall", "--db", path, "--namespace", "n", "question", "--format", "json"]);
        assert!(code != 0, "{address}");
        assert!(!stderr.contains("hunter2") && !stdout.contains("hunter2"), "{stderr}");
        assert!(stderr.contains("shared database"), "{stderr}");
    }
}

#[test]
fn several_commands_share_a_reindex() {
    let Some(server) = server() else { return };
    let address = server.database();
    let models = tempfile::tempdir().unwrap();
    let own = models.path().join("own");
    fs::create_dir(&own).unwrap();
    for file in fs::read_dir(root("models/static-en-256")).unwrap().map(|entry| entry.unwrap().path()) {
        fs::copy(&file, own.join(file.file_name().unwrap())).unwrap();
    }
    let manifest = fs::read_to_string(own.join("manifest.toml")).unwrap();
    let manifest = manifest.replace("static-en-256", "own").replace("max_tokens = 512", "max_tokens = 64");
    fs::write(own.join("manifest.toml"), manifest).unwrap();
    let databases = [Db::new(), Db::new(), Db::new()];
    let [first, second, third] = [0, 1, 2].map(|at| databases[at].path.to_str().unwrap());
    done(Some(&address), &["ingest", "--db", first, sample("messages.jsonl").to_str().unwrap()]);
    let moved = &|arguments: &[&str]| {
        let (code, stdout, stderr) = run_with(Some(&address), Some(models.path()), arguments);
        assert_eq!(code, 0, "{arguments:?}: {stderr}");
        stdout
    };
    thread::scope(|scope| {
        for db in [first, second, third] {
            scope.spawn(move || assert!(moved(&["reindex", "--model", "own", "--db", db]).contains("own")));
        }
    });
    // A new machine begins with the model that serves now.
    let new = Db::new();
    let new = new.path.to_str().unwrap();
    moved(&["recall", "--namespace", "friends/ines-tom", "the canal boat", "--db", new]);
    assert!(moved(&["stats", "--db", new]).contains("own"));
    moved(&["reindex", "--rollback", "--model", "static-en-256", "--db", second]);
    let newest = Db::new();
    done(Some(&address), &["recall", "--namespace", "friends/ines-tom", "boat", "--db", newest.path.to_str().unwrap()]);
}
