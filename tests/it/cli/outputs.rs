//! Files that commands write: what they may replace, what they leave of others, and whose they are.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Stdio,
    time::{Duration, Instant},
};

use super::{ingest, mnemon, run, sample};
use crate::support::Db;

const LINE: &str = r#"{"id":"m1","namespace":"a","role":"user","content":"the canal boat"}"#;

fn path(db: &Db, name: &str) -> PathBuf {
    db.folder.path().join(name)
}

fn stored() -> Db {
    let db = Db::new();
    assert_eq!(ingest(&db, &[], LINE).code, 0);
    db
}

/// The names in the folder of a database.
fn names(db: &Db) -> Vec<String> {
    let entries = fs::read_dir(db.folder.path()).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Asserts that an export to this file is refused, with words of the reason, and changes nothing.
#[track_caller]
fn export_is_refused(db: &Db, output: &Path, force: &[&str], part: &str) {
    let before = fs::read(output).ok();
    let refused = run(mnemon().args(["export", "--db"]).arg(&db.path).args(force).arg("-o").arg(output));
    assert!(refused.code == 1 && refused.stderr.contains(part), "{}: {}", refused.code, refused.stderr);
    assert!(fs::read(output).ok() == before, "{} changed", output.display());
}

#[test]
fn an_output_replaces_no_input_and_nothing_of_another_kind() {
    let (db, other) = (stored(), stored());
    for force in [&[][..], &["--force"]] {
        export_is_refused(&db, &db.path, force, "this command reads the file");
        export_is_refused(&db, &other.path, force, "is not an export");
        let (link, hard) = (path(&db, "link"), path(&db, "hard"));
        fs::hard_link(&db.path, &hard).unwrap();
        export_is_refused(&db, &hard, force, "this command reads the file");
        fs::remove_file(hard).unwrap();
        #[cfg(unix)]
        {
            std::os::unix::fs::symlink("memory.redb", &link).unwrap();
            export_is_refused(&db, &link, force, "this command reads the file");
            fs::remove_file(&link).unwrap();
            std::os::unix::fs::symlink("nowhere", &link).unwrap();
            export_is_refused(&db, &link, force, "leads to no file");
            fs::remove_file(&link).unwrap();
        }
        let notes = path(&other, "notes.txt");
        fs::write(&notes, "mine").unwrap();
        export_is_refused(&db, &notes, force, "is not an export");
        export_is_refused(&db, db.folder.path(), force, "this is a folder");
    }
    assert_eq!(names(&db), ["memory.redb"], "nothing else is left");
    db.assert_sound();
    other.assert_sound();

    let file = path(&db, "all.jsonl");
    let export = |force: &[&str]| run(mnemon().args(["export", "--db"]).arg(&db.path).args(force).arg("-o").arg(&file));
    assert_eq!(export(&[]).code, 0);
    let first = fs::read(&file).unwrap();
    assert_eq!(ingest(&db, &[], &LINE.replace("m1", "m2")).code, 0);
    export_is_refused(&db, &file, &[], "add --force to replace it");
    assert_eq!(export(&["--force"]).code, 0);
    assert!(fs::read(&file).unwrap().len() > first.len());
    fs::write(&file, "").unwrap();
    assert_eq!(export(&[]).code, 0, "an empty file has nothing to lose");
    assert_eq!(names(&db), ["all.jsonl", "memory.redb"]);
}

/// Every option that names an output refuses a database, also with --force.
#[test]
fn no_command_writes_over_a_database() {
    let db = stored();
    let set = [
        "--messages",
        sample("messages.jsonl").to_str().unwrap(),
        "--queries",
        sample("queries.jsonl").to_str().unwrap(),
    ]
    .map(str::to_owned);
    let before = fs::read(&db.path).unwrap();
    let folder = |name: &str| {
        let folder = path(&db, "out");
        fs::create_dir_all(folder.join("qrels")).unwrap();
        fs::hard_link(&db.path, folder.join(name)).unwrap();
        folder
    };
    let check = |arguments: &[&str], output: &Path| {
        for force in [false, true] {
            let mut command = mnemon();
            let output = run(command.args(arguments).arg(output).args(force.then_some("--force")));
            assert!(output.code == 1, "{arguments:?}: {} {}", output.code, output.stderr);
            assert!(fs::read(&db.path).unwrap() == before, "{arguments:?}");
        }
        let _ = fs::remove_dir_all(path(&db, "out"));
    };
    let set: Vec<&str> = set.iter().map(String::as_str).collect();
    let with = |first: &[&'static str], last: &'static str| {
        let mut all: Vec<&str> = first.to_vec();
        all.extend(&set);
        all.push(last);
        all.into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    let run_with = |arguments: Vec<String>, output: &Path| {
        check(&arguments.iter().map(String::as_str).collect::<Vec<_>>(), output);
    };
    run_with(with(&["eval"], "--run"), &db.path);
    run_with(with(&["eval"], "--svg"), &db.path);
    run_with(with(&["eval"], "--beir-out"), &folder("corpus.jsonl"));
    run_with(with(&["eval"], "--beir-out"), &folder("qrels/test.tsv"));
    let embed = ["embed", "--hold-out", "60", "--messages", set[1], "--out"];
    check(&embed, &folder("groundtruth.ivecs"));
    check(&["bench", "embed", "--limit", "2", "--rounds", "1", "--json"], &db.path);
    let copy = path(&db, "copy.redb");
    fs::copy(sample("messages.jsonl"), &copy).unwrap();
    for command in [["backup", "--db"].as_slice(), &["salvage"]] {
        let output = run(mnemon().args(command).arg(&db.path).arg(&copy));
        assert!(output.code == 1 && output.stderr.contains("exists"), "{}", output.stderr);
    }
    assert_eq!(fs::read(copy).unwrap(), fs::read(sample("messages.jsonl")).unwrap());
}

/// A set that is written in BEIR's layout does not replace the set that was read.
#[test]
fn an_output_of_the_kind_of_an_input_does_not_replace_it() {
    let db = Db::new();
    let out = path(&db, "set");
    let (messages, queries) = (sample("messages.jsonl"), sample("queries.jsonl"));
    let write = run(mnemon()
        .args(["eval", "--messages"])
        .arg(messages)
        .arg("--queries")
        .arg(queries)
        .arg("--beir-out")
        .arg(&out));
    assert_eq!(write.code, 0, "{}", write.stderr);
    let again = run(mnemon().args(["eval", "--force", "--beir"]).arg(&out).arg("--beir-out").arg(&out));
    assert!(again.code == 1 && again.stderr.contains("this command reads the file"), "{}", again.stderr);
}

#[cfg(unix)]
#[test]
fn what_is_no_file_is_refused_and_nothing_waits() {
    use std::os::unix::net::UnixListener;
    let db = stored();
    let (pipe, socket) = (path(&db, "pipe"), path(&db, "socket"));
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let _listener = UnixListener::bind(&socket).unwrap();
    let export = path(&db, "all.jsonl");
    assert_eq!(run(mnemon().args(["export", "--db"]).arg(&db.path).arg("-o").arg(&export)).code, 0);
    for (file, what) in [(&pipe, "a named pipe"), (&socket, "a socket"), (&db.folder.path().to_path_buf(), "a folder")]
    {
        let file = file.to_str().unwrap();
        let (database, export) = (db.path.to_str().unwrap(), export.to_str().unwrap());
        let new = path(&db, "new.redb");
        let new = new.to_str().unwrap();
        let lines = sample("messages.jsonl");
        let commands = [
            vec!["ingest", "--db", file, lines.to_str().unwrap()],
            vec!["import", "--db", file, export],
            vec!["recall", "--db", file, "--namespace", "a", "boat"],
            vec!["stats", "--db", file],
            vec!["stats", "--embedding-cache", file],
            vec!["verify", "--db", file],
            vec!["namespaces", "--db", file],
            vec!["audit", "--db", file],
            vec!["hold", "--db", file],
            vec!["purge", "--db", file],
            vec!["reindex", "--db", file, "--model", "static-en-256"],
            vec!["serve", "--listen", "127.0.0.1:0", "--db", file],
            vec!["backup", "--db", file, new],
            vec!["backup", "--db", database, file],
            vec!["salvage", file, new],
            vec!["salvage", database, file],
            vec!["export", "--db", file],
            vec!["export", "--db", database, "-o", file],
            vec!["ingest", "--db", new, file],
            vec!["ingest", "--db", new, "--from", "openai", file],
            vec!["ingest", "--db", new, "--embedding-cache", file, lines.to_str().unwrap()],
            vec!["import", "--db", new, file],
        ];
        // A folder has files, which are ingested.
        let is_ingested = |arguments: &[&str]| arguments[0] == "ingest" && arguments.last() == Some(&file);
        for arguments in commands.into_iter().filter(|arguments| !(Path::new(file).is_dir() && is_ingested(arguments)))
        {
            let mut command = std::process::Command::new(assert_cmd::cargo::cargo_bin!("mnemon"));
            let mut child = command
                .args(&arguments)
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap();
            let started = Instant::now();
            while child.try_wait().unwrap().is_none() {
                assert!(started.elapsed() < Duration::from_secs(60), "{arguments:?} waits");
                std::thread::sleep(Duration::from_millis(5));
            }
            let output = child.wait_with_output().unwrap();
            let stderr = String::from_utf8_lossy(&output.stderr);
            assert_eq!(
                output.status.code(),
                Some(if arguments[0] == "verify" { 3 } else { 1 }),
                "{arguments:?}: {stderr}"
            );
            let is_clear = stderr.contains(what) || stderr.contains("exists") || arguments[0] == "verify";
            assert!(is_clear, "{arguments:?}: {stderr}");
            assert!(!Path::new(new).exists(), "{arguments:?} left a database");
        }
    }
    // What a shell opened, and /dev/null.
    let to = |output: &str| run(mnemon().args(["export", "--db"]).arg(&db.path).args(["-o", output]));
    assert!(to("/dev/null").code == 0 && to("/dev/stdout").stdout.starts_with("{\"kind\":\"header\""));
    assert!(to("/dev/tty").stderr.contains("this is a device"));
    // Not every file below /dev is a device.
    if let Ok(shared) = tempfile::tempdir_in("/dev/shm") {
        let file = shared.path().join("all.jsonl");
        fs::write(&file, "mine").unwrap();
        assert!(to(file.to_str().unwrap()).code == 1 && fs::read(&file).unwrap() == b"mine");
    }
    // A pipe of a shell is open already.
    let script = format!(
        "{} ingest --db {} <(cat {})",
        assert_cmd::cargo::cargo_bin!("mnemon").display(),
        path(&db, "b.redb").display(),
        sample("messages.jsonl").display()
    );
    assert!(std::process::Command::new("bash").args(["-c", &script]).stdout(Stdio::null()).status().unwrap().success());
}

/// Copies of a database, and what takes its place, are for whom the database is for.
#[cfg(unix)]
#[test]
fn copies_have_the_mode_of_the_database_and_links_are_followed() {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
    let db = stored();
    let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
    let owner = |path: &Path| fs::metadata(path).map(|found| (found.uid(), found.gid())).unwrap();
    let link = path(&db, "link.redb");
    symlink("memory.redb", &link).unwrap();
    for wanted in [0o600, 0o640, 0o666] {
        fs::set_permissions(&db.path, fs::Permissions::from_mode(wanted)).unwrap();
        // Only the superuser can give the file to somebody else, to see it stay his.
        let is_given = std::os::unix::fs::chown(&db.path, Some(4242), Some(4243)).is_ok();
        let belongs = owner(&db.path);
        assert!(!is_given || belongs == (4242, 4243));
        let new = |name: &str| path(&db, &format!("{name}-{wanted:o}"));
        let succeed = |command: &mut assert_cmd::Command| {
            let output = run(command);
            assert_eq!(output.code, 0, "{}", output.stderr);
        };
        succeed(mnemon().args(["backup", "--db"]).arg(&link).arg(new("backup")));
        succeed(mnemon().args(["backup", "--db"]).arg(&link).arg(new("encrypted")).arg("--new-key-file").arg(key(&db)));
        succeed(mnemon().arg("salvage").arg(&link).arg(new("salvaged")));
        succeed(mnemon().args(["export", "--db"]).arg(&link).arg("-o").arg(new("export")));
        succeed(mnemon().args(["purge", "--db"]).arg(&link));
        succeed(mnemon().args(["reindex", "--precision", "i8", "--samples", "0", "--db"]).arg(&link));
        succeed(mnemon().args(["reindex", "--precision", "f16", "--samples", "0", "--db"]).arg(&link));
        // A file of an older version is upgraded by a copy, too.
        drop(crate::support::open_tables(&db.path));
        succeed(mnemon().args(["purge", "--db"]).arg(&link));
        for file in [new("backup"), new("encrypted"), new("salvaged"), new("export"), db.path.clone()] {
            assert_eq!((mode(&file), owner(&file)), (wanted, belongs), "{}", file.display());
        }
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink(), "the link stays one");
        // A new export in the place of another keeps who may read that.
        fs::set_permissions(new("export"), fs::Permissions::from_mode(0o604)).unwrap();
        succeed(mnemon().args(["export", "--force", "--db"]).arg(&db.path).arg("-o").arg(new("export")));
        assert_eq!(mode(&new("export")), 0o604);
    }
    // A link to no file yet: the file is created where the link leads to.
    let (other, real) = (path(&db, "other.redb"), path(&db, "real.redb"));
    symlink("real.redb", &other).unwrap();
    let output = run(mnemon().args(["ingest", "--db"]).arg(&other).arg("-").write_stdin(LINE));
    assert!(output.code == 0 && fs::symlink_metadata(&other).unwrap().is_symlink(), "{}", output.stderr);
    assert!(mnemon::verify(&real).unwrap().problems.is_empty());
}

/// What is new is for its user alone, whatever the umask says.
#[cfg(unix)]
#[test]
fn new_files_are_private() {
    use std::os::unix::fs::MetadataExt;
    let db = Db::new();
    let mnemon = assert_cmd::cargo::cargo_bin!("mnemon").display().to_string();
    let script = format!(
        "umask 000 && cd {} && echo '{LINE}' | {mnemon} ingest --quiet --db made.redb - && {mnemon} export --db made.redb -o made.jsonl && \
         {mnemon} backup --db made.redb copy.redb",
        db.folder.path().display()
    );
    let output = std::process::Command::new("sh").args(["-c", &script]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut config = mnemon::Config::default();
    config.embedding_cache_file = Some(path(&db, "cache"));
    drop(mnemon::Engine::builder(&db.path).config(config).open().unwrap());
    let history = mnemon::FileHistory::open(path(&db, "history")).unwrap();
    mnemon::HistoryStore::append(&history, "s", &[mnemon::Message::user("hello")]).unwrap();
    let mut files: Vec<PathBuf> =
        fs::read_dir(path(&db, "history")).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.extend(["made.redb", "made.jsonl", "copy.redb", "memory.redb", "cache"].map(|name| path(&db, name)));
    assert_eq!(files.len(), 7, "{files:?}");
    for file in files {
        assert_eq!(fs::metadata(&file).unwrap().mode() & 0o777, 0o600, "{}", file.display());
    }
}

#[cfg(unix)]
fn key(db: &Db) -> PathBuf {
    let key = path(db, "key");
    fs::write(&key, "6b".repeat(32)).unwrap();
    key
}

/// What is forgotten is gone from the file that a link leads to.
#[cfg(unix)]
#[test]
fn a_purge_through_a_link_purges_the_file() {
    let db = Db::new();
    let lines: String = (0..300)
        .map(|number| format!("{{\"id\":\"m{number}\",\"namespace\":\"a\",\"role\":\"user\",\"content\":\"zqx{number}zqx is a secret\"}}\n"))
        .collect();
    assert_eq!(ingest(&db, &[], &lines).code, 0);
    let link = path(&db, "link.redb");
    std::os::unix::fs::symlink("memory.redb", &link).unwrap();
    let forget = run(mnemon().args(["forget", "--namespace", "a", "--all", "--yes", "--db"]).arg(&link));
    assert_eq!(forget.code, 0, "{}", forget.stderr);
    assert_eq!(run(mnemon().args(["purge", "--db"]).arg(&link)).code, 0);
    let bytes = fs::read(&db.path).unwrap();
    let left = (0..300).filter(|number| {
        let word = format!("zqx{number}zqx");
        bytes.windows(word.len()).any(|found| found == word.as_bytes())
    });
    assert_eq!(left.count(), 0);
    assert_eq!(names(&db), ["link.redb", "memory.redb"]);
}

/// A command's temporary file is private, and goes with a signal that ends the command. What a killed one leaves is removed
/// by the next start; one that is in use stays.
#[cfg(unix)]
#[test]
fn leftovers_are_private_and_removed_unless_somebody_holds_them() {
    use std::os::unix::fs::MetadataExt;
    let db = Db::new();
    let lines: String = (0..20_000)
        .map(|number| {
            format!("{{\"id\":\"m{number}\",\"namespace\":\"a\",\"role\":\"user\",\"content\":\"ferry {number}\"}}\n")
        })
        .collect();
    let file = path(&db, "lines.jsonl");
    fs::write(&file, lines).unwrap();
    let engine = mnemon::Engine::open(&db.path).unwrap();
    drop(engine);
    let mut put = std::process::Command::new(assert_cmd::cargo::cargo_bin!("mnemon"));
    assert!(
        put.args(["ingest", "--quiet", "--db"])
            .arg(&db.path)
            .arg(&file)
            .stdout(Stdio::null())
            .status()
            .unwrap()
            .success()
    );
    let (new, export) = (path(&db, "new.redb"), path(&db, "all.jsonl"));
    let is_temporary = |name: &String| name.ends_with(".new");
    let commands: [&[&str]; 4] = [
        &["backup", "--db", "DB", "NEW"],
        &["salvage", "DB", "NEW"],
        &["purge", "--db", "DB"],
        &["export", "--db", "DB", "-o", "OUT"],
    ];
    let (mut ended, mut left) = (0, 0);
    for arguments in commands {
        let arguments = arguments.iter().map(|argument| match *argument {
            "DB" => db.path.as_os_str(),
            "NEW" => new.as_os_str(),
            "OUT" => export.as_os_str(),
            argument => argument.as_ref(),
        });
        let command = || {
            let mut command = std::process::Command::new(assert_cmd::cargo::cargo_bin!("mnemon"));
            command.args(arguments.clone()).stdout(Stdio::null()).stderr(Stdio::null());
            command
        };
        for signal in [None, Some("KILL"), Some("INT"), Some("TERM"), Some("HUP")] {
            let mut child = command().spawn().unwrap();
            while child.try_wait().unwrap().is_none() && !names(&db).iter().any(is_temporary) {}
            for name in names(&db).iter().filter(|name| is_temporary(name)) {
                // It may have got its name by now.
                if let Ok(found) = fs::metadata(path(&db, name)) {
                    assert!(found.mode() & 0o077 == 0, "{name}: {:o}", found.mode());
                }
            }
            if let Some(signal) = signal {
                let mut kill = std::process::Command::new("kill");
                kill.args([format!("-{signal}"), child.id().to_string()]).stderr(Stdio::null()).status().unwrap();
                ended += u64::from(!child.wait().unwrap().success());
                let is_left = names(&db).iter().any(is_temporary);
                assert!(!is_left || signal == "KILL", "{signal} {:?}: {:?}", command(), names(&db));
                left += u64::from(is_left);
            } else {
                // The same command beside it leaves its file alone.
                let other = command().status().unwrap();
                assert!(child.wait().unwrap().success() || other.success(), "{:?}", command());
            }
            let _ = (fs::remove_file(&new), fs::remove_file(&export));
            assert!(command().status().unwrap().success(), "{:?}", command());
            assert!(!names(&db).iter().any(is_temporary), "{:?}: {:?}", command(), names(&db));
            let _ = (fs::remove_file(&new), fs::remove_file(&export));
        }
    }
    db.assert_sound();
    assert!(ended > 0, "no signal came before the end of its command");
    eprintln!("{ended} commands ended by signals, {left} temporary files left by kills and removed");
    // Of version 0.2.0, and of somebody else.
    let [old, nested, mine] =
        ["memory.redb.1-0.new", "memory.redb.1-0.new.1-1.new", "memory.redb.mine.new"].map(|name| path(&db, name));
    [&old, &nested, &mine].into_iter().for_each(|file| fs::write(file, "left").unwrap());
    assert_eq!(ingest(&db, &[], LINE).code, 0);
    assert_eq!([&old, &nested, &mine].map(|file| file.exists()), [false, false, true]);
}

/// An error names the file that the user named.
#[test]
fn no_temporary_name_is_in_an_error() {
    let db = Db::new();
    assert_eq!(ingest(&db, &[], LINE).code, 0);
    // With what is added to make it temporary the name is too long.
    let long = path(&db, &"n".repeat(250));
    for arguments in [&["export", "-o"][..], &["backup"]] {
        let output = run(mnemon().args(arguments).arg(&long).arg("--db").arg(&db.path));
        assert!(output.code == 1 && output.stderr.contains("name too long"), "{}", output.stderr);
        assert!(!output.stderr.contains(".new") && output.stderr.contains(&"n".repeat(250)), "{}", output.stderr);
    }
}
