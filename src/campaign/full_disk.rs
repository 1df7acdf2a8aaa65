//! A full disk: a commit that found no room is refused, without doubt, and every caller is told of the disk.

use std::{
    io::{self, Write},
    path::Path,
    thread::sleep,
    time::Duration,
};

use super::scenarios::{engine, messages, namespace};
use crate::{
    Engine, Error, Message, Result,
    store::faulty::{self, Call, Fault, Plan},
};

/// A little longer than a store waits that could not open its file again.
const RETRY: Duration = Duration::from_millis(220);

/// A disk that has no room for the write that comes as this one, and for none after it.
fn full_at(write: u64) -> Fault {
    Fault { call: Some(Call::Write), at: write, lasting: true, code: Fault::ENOSPC }
}

/// Opens a new database whose messages are larger than the caches.
fn filled(path: &Path) -> Engine {
    let engine = engine(path).unwrap();
    let long = |message: Message| Message::user(message.text().repeat(40)).with_id(message.id);
    engine.blocking().put(&namespace("kept"), messages(0, 400).into_iter().map(long).collect()).unwrap();
    engine
}

/// Imports into a disk that is full at this write. Returns what the import said, and the number of writes until then.
fn import(full_at: Option<Fault>) -> (Result<()>, u64) {
    let folder = tempfile::tempdir().unwrap();
    let plan = faulty::plan(folder.path());
    let engine = filled(&folder.path().join("memory.redb"));
    let mut lines = Vec::new();
    engine.blocking().export(&namespace("kept"), &mut lines).unwrap();
    let import = || engine.blocking().import_as(&namespace("copy"), lines.as_slice()).map(drop);
    plan.fail(full_at);
    let imported = import();
    let writes = plan.count(Some(Call::Write));
    plan.fail(None);
    sleep(RETRY);
    let is_there = || engine.blocking().get(&namespace("copy"), "m399").unwrap().is_some();
    match &imported {
        Ok(()) => assert!(is_there(), "acknowledged with {full_at:?}"),
        Err(Error::OutcomeUnknown { .. }) => {}
        Err(error) => {
            assert!(!is_there(), "refused with {full_at:?}: {error}");
            import().unwrap();
            assert!(is_there());
        }
    }
    (imported, writes)
}

#[test]
fn an_import_into_a_full_disk_stores_nothing_and_may_be_repeated() {
    let (stored, writes) = import(None);
    stored.unwrap();
    // The last writes are those of the header that names the commit: it has its place already, for which a full disk has room.
    let pages = writes - 4;
    for write in (0..16).map(|part| 1 + part * (pages - 1) / 15) {
        let error = import(Some(full_at(write))).0.expect_err("the disk is full");
        assert!(matches!(error, Error::Storage(_)), "write {write} of {writes}: {error}");
        assert!(error.to_string().contains("No space left on device"), "write {write} of {writes}: {error}");
    }
}

/// An output that lets another call meet the full disk while the export goes on.
struct Full<'a> {
    plan: &'a Plan,
    engine: &'a Engine,
    is_met: bool,
}

impl Write for Full<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if !self.is_met {
            self.is_met = true;
            self.plan.fail(Some(full_at(1)));
            let refused = self.engine.blocking().put(&namespace("other"), messages(0, 300));
            assert!(refused.is_err(), "the disk is full");
            self.plan.fail(None);
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_call_that_another_ones_full_disk_ends_is_told_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let plan = faulty::plan(folder.path());
    let engine = filled(&folder.path().join("memory.redb"));
    let output = Full { plan: &plan, engine: &engine, is_met: false };
    let error = engine.blocking().export(&namespace("kept"), output).unwrap_err();
    assert!(error.to_string().contains("No space left on device"), "{error}");
    // The file is opened again.
    sleep(RETRY);
    assert_eq!(engine.blocking().export(&namespace("kept"), io::sink()).unwrap().messages, 400);
}
