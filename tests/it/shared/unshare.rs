//! Taking a namespace out of the shared database while other machines put.

use std::{
    fs,
    path::Path,
    process::Command,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

use mnemon::{Engine, Error, Freshness, Message, Query};

use super::open;
use crate::support::{Db, namespace, postgres::server};

fn command(address: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin!("mnemon"));
    command.env_remove("MNEMON_KEY").env("MNEMON_SHARED", address).args(arguments);
    command
}

/// The texts of a session, in order.
fn texts(engine: &Engine, space: &mnemon::Namespace) -> Vec<String> {
    engine.blocking().history(space, "default").unwrap().iter().map(Message::text).collect()
}

#[test]
fn what_another_machine_puts_meanwhile_is_lost_nowhere() {
    let Some(server) = server() else { return };
    let rounds = std::env::var("MNEMON_UNSHARE_ROUNDS").map_or(3, |rounds| rounds.parse().unwrap());
    for round in 0..rounds {
        let address = server.database();
        let (a, own) = (Db::new(), Db::new());
        // With the model that the command has, too.
        let other = Engine::builder(&a.path).shared(&address).freshness(Freshness::Latest).open().unwrap();
        let space = namespace("acme/ada");
        let put = |number: usize| {
            let message = Message::user(format!("text {number}")).with_id(format!("<m{number}>"));
            other.blocking().put(&space, vec![message])
        };
        for number in 0..100 {
            put(number).unwrap();
        }
        let is_over = AtomicBool::new(false);
        let acknowledged = thread::scope(|scope| {
            let putting = scope.spawn(|| {
                let mut acknowledged: Vec<usize> = (0..100).collect();
                let mut next = 100;
                while !is_over.load(Ordering::SeqCst) {
                    if put(next).is_ok() {
                        acknowledged.push(next);
                    }
                    next += 1;
                }
                acknowledged
            });
            thread::sleep(Duration::from_millis(50));
            let file = own.path.to_str().unwrap();
            let taken =
                command(&address, &["unshare", "--db", file, "--namespace", "acme/ada", "--delete", "--yes"]).output();
            let taken = taken.unwrap();
            thread::sleep(Duration::from_millis(50));
            is_over.store(true, Ordering::SeqCst);
            assert!(taken.status.success(), "{}", String::from_utf8_lossy(&taken.stderr));
            putting.join().unwrap()
        });
        let exported = command("", &["export", "--db", own.path.to_str().unwrap()]).output().unwrap();
        let here = String::from_utf8(exported.stdout).unwrap();
        let there = crate::transfer::export(&other);
        let is_in = |text: &str, number: &usize| text.contains(&format!("\"<m{number}>\""));
        let lost: Vec<&usize> =
            acknowledged.iter().filter(|number| !is_in(&here, number) && !is_in(&there, number)).collect();
        let count = acknowledged.len();
        assert!(lost.is_empty(), "round {round}: of {count} acknowledged puts {} are lost: {lost:?}", lost.len());
        let twice = acknowledged.iter().filter(|number| is_in(&here, number) && is_in(&there, number)).count();
        assert_eq!(twice, 0, "round {round}");
        assert!((0..100).all(|number| is_in(&here, &number)), "round {round}");
    }
}

#[test]
fn a_fence_keeps_puts_waiting_until_it_ends() {
    let Some(server) = server() else { return };
    let address = server.database();
    let db = Db::new();
    let engine = open(&db, &address);
    let (space, free) = (namespace("acme/ada"), namespace("acme/bob"));
    let put = |text: &'static str| engine.blocking().put(&space, vec![Message::user(text)]);
    put("one").unwrap();
    let waits = |text: &'static str, end: &mut dyn FnMut()| {
        thread::scope(|scope| {
            let putting = scope.spawn(move || put(text));
            thread::sleep(Duration::from_millis(400));
            assert!(!putting.is_finished(), "{text:?} did not wait");
            end();
            putting.join().unwrap().unwrap();
        });
    };
    // Given up: nothing changes.
    let mut taken = Some(mnemon::unshare(&space, &address, true).unwrap());
    assert_eq!(engine.blocking().recall(&space, Query::new("one")).unwrap().len(), 1, "reads go on");
    waits("two", &mut || drop(taken.take()));
    assert_eq!(texts(&engine, &space), ["one", "two"]);
    // Without a fence nothing waits, and nothing may be deleted.
    let unfenced = mnemon::unshare(&space, &address, false).unwrap();
    put("three").unwrap();
    assert!(matches!(unfenced.delete().unwrap_err(), Error::InvalidConfig { .. }));
    // Deleted: exactly what was read. Legal holds and the audit may change meanwhile.
    let taken = mnemon::unshare(&space, &address, true).unwrap();
    engine.blocking().put(&free, vec![Message::user("another namespace")]).unwrap();
    engine.blocking().hold(&namespace("globex"), "a case").unwrap();
    let export = String::from_utf8(taken.export().to_vec()).unwrap();
    assert_eq!((taken.report().messages, export.contains("three"), export.contains("four")), (3, true, false));
    let mut taken = Some(taken);
    waits("four", &mut || taken.take().unwrap().delete().unwrap());
    assert_eq!(texts(&engine, &space), ["four"]);
    // A hold that is set meanwhile binds.
    let taken = mnemon::unshare(&space, &address, true).unwrap();
    engine.blocking().hold(&namespace("acme"), "a case").unwrap();
    assert!(matches!(taken.delete().unwrap_err(), Error::LegalHold { .. }));
    assert!(matches!(mnemon::unshare(&space, &address, true).unwrap_err(), Error::LegalHold { .. }));
    assert_eq!(texts(&engine, &space), ["four"]);
}

/// Returns the files below a folder that have these bytes.
fn with_bytes(folder: &Path, bytes: &[u8]) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if entry.is_dir() {
            found.extend(with_bytes(&entry, bytes));
        } else if fs::read(&entry).unwrap().windows(bytes.len()).any(|window| window == bytes) {
            found.push(entry.display().to_string());
        }
    }
    found
}

#[test]
fn nothing_plain_is_written_beside_an_encrypted_file() {
    let Some(server) = server() else { return };
    let address = server.database();
    let db = Db::new();
    let engine = open(&db, &address);
    let space = namespace("acme/ada");
    engine.blocking().put(&space, vec![Message::user("the canary of acme sings")]).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("own.redb");
    // There is no folder for temporary files: whoever needs one fails.
    let none = folder.path().join("none");
    let mut taking = command(&address, &["unshare", "--db", file.to_str().unwrap(), "--namespace", "acme/ada"]);
    let taken = taking.env("MNEMON_KEY", "07".repeat(32)).env("TMPDIR", none).output().unwrap();
    assert!(taken.status.success(), "{}", String::from_utf8_lossy(&taken.stderr));
    assert_eq!(with_bytes(folder.path(), b"canary"), [""; 0]);
    let mut exporting = command("", &["export", "--db", file.to_str().unwrap()]);
    let exported = exporting.env("MNEMON_KEY", "07".repeat(32)).output().unwrap();
    assert!(String::from_utf8(exported.stdout).unwrap().contains("the canary of acme sings"));
}
