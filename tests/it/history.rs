//! History stores: the conformance check, and files after crashes and damage.

use std::{
    cell::Cell,
    collections::BTreeMap,
    fs,
    io::Write,
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
};

use mnemon::{Error, FileHistory, HistoryStore, InMemoryHistory, Message, Result, check_history_store};
use proptest::prelude::*;

use crate::support::any_message;

fn text(id: &str, text: &str) -> Message {
    Message::user(text).with_id(id).in_session("s")
}

fn texts(history: &dyn HistoryStore, session: &str) -> Vec<String> {
    history.messages(session).unwrap().iter().map(Message::text).collect()
}

/// The one file of a session in a folder.
fn session_file(folder: &Path) -> PathBuf {
    let paths = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files = paths.filter(|path| path.extension().is_some_and(|extension| extension == "jsonl"));
    let file = files.next().unwrap();
    assert_eq!(files.next(), None);
    file
}

/// Adds the checksum to a line, which is a JSON object.
fn with_checksum(line: &str) -> String {
    let line = line.strip_suffix('}').unwrap();
    format!("{line},\"crc32\":\"{:08x}\"}}", crc32fast::hash(line.as_bytes()))
}

fn add_bytes(path: &Path, bytes: &[u8]) {
    fs::File::options().append(true).open(path).unwrap().write_all(bytes).unwrap();
}

#[test]
fn in_memory_history_passes_the_conformance_check() {
    check_history_store(|| Box::new(InMemoryHistory::new()));
}

#[test]
fn file_history_passes_the_conformance_check() {
    let folder = tempfile::tempdir().unwrap();
    let number = Cell::new(0);
    check_history_store(|| {
        number.set(number.get() + 1);
        Box::new(FileHistory::open(folder.path().join(number.get().to_string())).unwrap())
    });
}

/// Faults that a store can have.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    ForgetsNames,
    KeepsGivenSession,
    Reverses,
    AppendsDoubles,
    MovesReplaced,
    SetAppends,
    SetInTwoSteps,
    DeletesNothing,
    DeletesAll,
    ListsDeleted,
    ListsUnsorted,
    SharesIds,
    CutsSessionNames,
    StoresUpToInvalid,
    TakesAnySessionName,
    LosesConcurrent,
    FailsUnknownDelete,
}

struct Broken {
    inner: InMemoryHistory,
    fault: Fault,
}

impl Broken {
    fn session<'s>(&self, session: &'s str) -> &'s str {
        match self.fault {
            Fault::CutsSessionNames => session.split('\0').next().filter(|name| !name.is_empty()).unwrap_or(session),
            Fault::TakesAnySessionName if session.is_empty() => "empty",
            _ => session,
        }
    }
}

impl HistoryStore for Broken {
    fn sessions(&self) -> Result<Vec<String>> {
        let mut sessions = self.inner.sessions()?;
        match self.fault {
            Fault::ListsUnsorted => sessions.sort_by_key(|name| name.to_lowercase()),
            Fault::ListsDeleted => {
                let mut sessions: Vec<String> = sessions.into_iter().chain(["b".to_owned()]).collect();
                sessions.sort();
                sessions.dedup();
                return Ok(sessions);
            }
            _ => {}
        }
        Ok(sessions)
    }

    fn messages(&self, session: &str) -> Result<Vec<Message>> {
        let mut messages = self.inner.messages(self.session(session))?;
        match self.fault {
            Fault::ForgetsNames => messages.iter_mut().for_each(|message| message.name = None),
            Fault::KeepsGivenSession => messages.iter_mut().for_each(|message| message.session = "default".into()),
            Fault::Reverses => messages.reverse(),
            _ => {}
        }
        Ok(messages)
    }

    fn append(&self, session: &str, messages: &[Message]) -> Result<()> {
        let name = self.session(session);
        let known = self.inner.messages(name)?;
        match self.fault {
            Fault::AppendsDoubles => {
                let unknown = |message: &&Message| !known.iter().any(|old| old.id == message.id);
                let unknown: Vec<Message> = messages.iter().filter(unknown).cloned().collect();
                self.inner.append(name, &unknown)
            }
            Fault::MovesReplaced => {
                let kept = known.into_iter().filter(|old| !messages.iter().any(|message| message.id == old.id));
                let all: Vec<Message> = kept.chain(messages.iter().cloned()).collect();
                self.inner.set(name, &all)
            }
            Fault::SharesIds => {
                for other in self.inner.sessions()?.iter().filter(|other| *other != name) {
                    let ids: Vec<&str> = messages.iter().map(|message| message.id.as_str()).collect();
                    let mut left = self.inner.messages(other)?;
                    left.retain(|message| !ids.contains(&message.id.as_str()));
                    self.inner.set(other, &left)?;
                }
                self.inner.append(name, messages)
            }
            Fault::StoresUpToInvalid => {
                messages.iter().try_for_each(|message| self.inner.append(name, std::slice::from_ref(message)))
            }
            Fault::LosesConcurrent => {
                let all: Vec<Message> = known.into_iter().chain(messages.iter().cloned()).collect();
                // Long enough for another thread to come in between.
                std::thread::sleep(std::time::Duration::from_millis(1));
                self.inner.set(name, &all)
            }
            _ => self.inner.append(name, messages),
        }
    }

    fn set(&self, session: &str, messages: &[Message]) -> Result<()> {
        let name = self.session(session);
        match self.fault {
            Fault::SetAppends => self.inner.append(name, messages),
            Fault::SetInTwoSteps => {
                messages.iter().try_for_each(|message| message.clone().in_session(name).check())?;
                self.inner.set(name, &[])?;
                std::thread::sleep(std::time::Duration::from_millis(1));
                self.inner.append(name, messages)
            }
            _ => self.inner.set(name, messages),
        }
    }

    fn delete(&self, session: &str) -> Result<()> {
        let name = self.session(session);
        match self.fault {
            Fault::DeletesNothing => Ok(()),
            Fault::DeletesAll => self.inner.sessions()?.iter().try_for_each(|session| self.inner.delete(session)),
            Fault::FailsUnknownDelete if self.inner.messages(name)?.is_empty() => {
                Err(Error::InvalidMessage { reason: "no such session".into() })
            }
            _ => self.inner.delete(name),
        }
    }
}

#[test]
fn the_conformance_check_finds_broken_stores() {
    let rows: &[(Fault, &str)] = &[
        (Fault::ForgetsNames, "as they were stored"),
        (Fault::KeepsGivenSession, "returned in order"),
        (Fault::Reverses, "returned in order"),
        (Fault::AppendsDoubles, "message with a known id"),
        (Fault::MovesReplaced, "message with a known id"),
        (Fault::SetAppends, "set replaces all"),
        (Fault::SetInTwoSteps, "set is atomic"),
        (Fault::DeletesNothing, "delete removes all messages"),
        (Fault::DeletesAll, "and no others"),
        (Fault::ListsDeleted, "is empty"),
        (Fault::ListsUnsorted, "listed in order"),
        (Fault::SharesIds, "independent of each other"),
        (Fault::CutsSessionNames, "is a session name"),
        (Fault::StoresUpToInvalid, "changes nothing"),
        (Fault::TakesAnySessionName, "changes nothing"),
        (Fault::LosesConcurrent, "lose no messages"),
        (Fault::FailsUnknownDelete, "is empty"),
    ];
    for (fault, rule) in rows {
        let make = || -> Box<dyn HistoryStore> { Box::new(Broken { inner: InMemoryHistory::new(), fault: *fault }) };
        let caught = catch_unwind(AssertUnwindSafe(|| check_history_store(make))).unwrap_err();
        let told = caught.downcast_ref::<String>().unwrap();
        assert!(told.starts_with("the history store breaks the rule") && told.contains(rule), "{fault:?}: {told}");
        assert!(told.len() < 4000, "{fault:?}: {} bytes", told.len());
    }
}

#[test]
fn sessions_are_found_after_reopening() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a/b");
    let history = FileHistory::open(&path).unwrap();
    history.append("../../etc/passwd", &[text("1", "one"), text("2", "two")]).unwrap();
    history.append("../../etc/passwd", &[text("1", "ONE"), text("3", "three")]).unwrap();
    history.append("🙂", &[text("1", "smile")]).unwrap();
    history.delete("🙂").unwrap();
    drop(history);
    // Others' files are no sessions.
    fs::write(path.join("notes.jsonl"), "mine").unwrap();
    fs::write(path.join("notes.new"), "mine").unwrap();
    let history = FileHistory::open(&path).unwrap();
    assert_eq!(history.sessions().unwrap(), ["../../etc/passwd"]);
    assert_eq!(texts(&history, "../../etc/passwd"), ["ONE", "two", "three"]);
    let mut names: Vec<String> =
        fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    // The SHA-256 of the name.
    let hash = "3754d6cb3a38e1185e5b382d5f3ef3f118af75bf4bf0254d1fdb8437f51423e0";
    assert_eq!(names, [&format!("{hash}.jsonl"), "lock", "notes.jsonl", "notes.new"]);
    // Nothing outside of it.
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn files_have_the_documented_form() {
    let folder = tempfile::tempdir().unwrap();
    let history = FileHistory::open(folder.path()).unwrap();
    let time = "2024-05-01T09:30:00Z".parse().unwrap();
    history.append("monday", &[text("1", "hello").at(time), text("2", "a\nb").at(time)]).unwrap();
    history.append("monday", &[text("1", "HELLO").at(time)]).unwrap();
    let file = session_file(folder.path());
    let line = |id, text| {
        with_checksum(&format!(
            "{{\"id\":\"{id}\",\"session\":\"monday\",\"role\":\"user\",\"name\":null,\"content\":\"{text}\",\
             \"created_at\":\"2024-05-01T09:30:00Z\"}}"
        )) + "\n"
    };
    let header = with_checksum("{\"mnemon_history\":2,\"session\":\"monday\"}") + "\n";
    let header = header.as_str();
    let expected = [header, &line("1", "hello"), &line("2", "a\\nb"), &line("1", "HELLO")].concat();
    assert_eq!(fs::read_to_string(&file).unwrap(), expected);
    // As short as it can be.
    history.set("monday", &history.messages("monday").unwrap()).unwrap();
    assert_eq!(fs::read_to_string(&file).unwrap(), [header, &line("1", "HELLO"), &line("2", "a\\nb")].concat());
}

#[test]
fn a_torn_tail_is_cut_off() {
    let folder = tempfile::tempdir().unwrap();
    let whole = {
        let history = FileHistory::open(folder.path()).unwrap();
        history.append("s", &[text("1", "one")]).unwrap();
        history.append("s", &[text("2", "two")]).unwrap();
        fs::read(session_file(folder.path())).unwrap()
    };
    let file = session_file(folder.path());
    // Cut at every byte, the header included.
    let ends: Vec<usize> = (0..whole.len()).filter(|&at| whole[at] == b'\n').collect();
    for length in 0..=whole.len() {
        fs::write(&file, &whole[..length]).unwrap();
        let history = FileHistory::open(folder.path()).unwrap();
        let lines = ends.iter().filter(|&&end| end < length).count();
        let expected = &["one", "two"][..lines.saturating_sub(1)];
        assert_eq!(texts(&history, "s"), expected, "{length} bytes");
        assert_eq!(history.sessions().unwrap().is_empty(), expected.is_empty(), "{length} bytes");
        history.append("s", &[text("3", "three")]).unwrap();
        assert_eq!(texts(&history, "s"), [expected, &["three"]].concat(), "{length} bytes");
        assert_eq!(history.sessions().unwrap(), ["s"]);
    }
    // A long one, of bytes that are no text; and one that would be a message if it had a newline.
    for tail in [&[b'\xff'; 200_000][..], &[0; 70_000], br#"{"role":"user","id":"4","content":"hi"}"#] {
        fs::write(&file, &whole).unwrap();
        add_bytes(&file, tail);
        let history = FileHistory::open(folder.path()).unwrap();
        assert_eq!(texts(&history, "s"), ["one", "two"]);
        history.append("s", &[text("3", "three")]).unwrap();
        assert_eq!(texts(&history, "s"), ["one", "two", "three"]);
    }
}

#[test]
fn a_bad_line_is_an_error_with_its_number() {
    let folder = tempfile::tempdir().unwrap();
    let history = FileHistory::open(folder.path()).unwrap();
    history.append("s", &[text("1", "one"), text("2", "two")]).unwrap();
    let file = session_file(folder.path());
    let whole = fs::read_to_string(&file).unwrap();
    let lines: Vec<&str> = whole.lines().collect();
    let sealed = |line: &str| with_checksum(line).into_bytes();
    let rows: &[(usize, Vec<u8>, &str)] = &[
        (2, b"{\"role\":\"us".to_vec(), "checksum"),
        (2, b"".to_vec(), "checksum"),
        (3, b"\0\0\0".to_vec(), "checksum"),
        (3, b"\xff".to_vec(), "checksum"),
        (3, br#"{"id":"3","role":"user","content":"hi"}"#.to_vec(), "checksum"),
        (3, sealed("}"), "expected a JSON object"),
        (3, sealed("[]}"), "expected a JSON object"),
        (3, sealed(r#"{"role":"user","content":"hi"}"#), "has no id"),
        (3, sealed(r#"{"id":"3","role":"robot","content":""}"#), "role \"robot\""),
        (1, b"".to_vec(), "not the header"),
        (1, sealed(r#"{"session":"s"}"#), "not the header"),
        (1, sealed(r#"{"mnemon_history":0,"session":"s"}"#), "unknown format"),
        (1, sealed(r#"{"mnemon_history":2,"session":"t"}"#), "does not belong"),
        (1, br#"{"mnemon_history":2,"session":"s"}"#.to_vec(), "checksum"),
        (1, sealed(r#"{"mnemon_history":1,"session":"s"}"#), "checksum"),
        (1, br#"{"mnemon_history":3,"session":"s","crc32":"00000000"}"#.to_vec(), "checksum"),
    ];
    for (number, line, reason) in rows {
        let mut bad: Vec<&[u8]> = lines.iter().map(|line| line.as_bytes()).collect();
        bad[number - 1] = line;
        fs::write(&file, [bad.join(&b'\n'), b"\n".to_vec()].concat()).unwrap();
        let mut errors = vec![history.messages("s").unwrap_err()];
        if *number == 1 {
            errors.push(history.sessions().unwrap_err());
            errors.push(history.append("s", &[text("3", "three")]).unwrap_err());
        }
        for error in errors {
            let told = error.to_string();
            assert!(
                matches!(&error, Error::InvalidHistory { path, line, .. } if *path == file && line == number),
                "{told}"
            );
            assert!(told.contains(&format!("line {number}:")) && told.contains(reason), "{told}");
        }
    }
    fs::write(&file, "{\"mnemon_history\":3,\"sessions\":[]}\n{}\n").unwrap();
    for result in
        [history.messages("s").map(drop), history.sessions().map(drop), history.append("s", &[text("3", "x")])]
    {
        assert!(matches!(result, Err(Error::NewerSchema { found: 3, supported: 2, .. })), "{result:?}");
    }
    // Other sessions are not touched; this one can be set anew.
    history.append("t", &[text("1", "one")]).unwrap();
    assert_eq!(texts(&history, "t"), ["one"]);
    history.set("s", &[text("1", "new")]).unwrap();
    assert_eq!(history.sessions().unwrap(), ["s", "t"]);
}

#[test]
fn every_flipped_bit_is_an_error_with_its_line() {
    let folder = tempfile::tempdir().unwrap();
    let history = FileHistory::open(folder.path()).unwrap();
    let time = "2024-05-01T09:30:00Z".parse().unwrap();
    history.append("s", &[text("1", "It is on Thursday.").at(time), text("2", "naïve 🙂").at(time)]).unwrap();
    history.append("s", &[Message::assistant("Noted.").with_id("3").in_session("s").at(time)]).unwrap();
    let file = session_file(folder.path());
    let whole = fs::read(&file).unwrap();
    for bit in 0..whole.len() * 8 {
        let at = bit / 8;
        let mut flipped = whole.clone();
        flipped[at] ^= 1 << (bit % 8);
        fs::write(&file, &flipped).unwrap();
        let damaged = 1 + whole[..at].iter().filter(|&&byte| byte == b'\n').count();
        let is_named = |error: Error| matches!(error, Error::InvalidHistory { line, .. } if line == damaged);
        assert!(is_named(history.messages("s").unwrap_err()), "bit {bit}");
        // These read the beginning of the file, and its end.
        match history.sessions() {
            Ok(sessions) => assert!(damaged > 2 && sessions == ["s"], "bit {bit}"),
            Err(error) => assert!(damaged <= 2 && is_named(error), "bit {bit}"),
        }
        if damaged == 1 || at == whole.len() - 1 {
            assert!(is_named(history.append("s", &[text("4", "four")]).unwrap_err()), "bit {bit}");
            assert_eq!(fs::read(&file).unwrap(), flipped, "bit {bit}");
        }
    }
}

#[test]
fn files_without_checksums_are_read_and_get_checksums() {
    let folder = tempfile::tempdir().unwrap();
    let history = FileHistory::open(folder.path()).unwrap();
    history.append("s", &[text("1", "one")]).unwrap();
    let file = session_file(folder.path());
    // As releases before 0.3 wrote it, with the beginning of a line that was never acknowledged.
    let line = |id, text| format!("{{\"id\":\"{id}\",\"session\":\"s\",\"role\":\"user\",\"content\":\"{text}\"}}\n");
    let header = "{\"mnemon_history\":1,\"session\":\"s\"}\n";
    let old = [header, &line("1", "one"), &line("2", "two"), &line("1", "ONE"), "{\"id\""].concat();
    fs::write(&file, &old).unwrap();
    assert_eq!(history.sessions().unwrap(), ["s"]);
    assert_eq!(texts(&history, "s"), ["ONE", "two"]);
    assert_eq!(fs::read_to_string(&file).unwrap(), old);
    history.append("s", &[text("2", "TWO"), text("3", "three")]).unwrap();
    assert_eq!(texts(&history, "s"), ["ONE", "TWO", "three"]);
    let new = fs::read_to_string(&file).unwrap();
    assert!(new.lines().all(|line| line.contains("\"crc32\":")), "{new}");
}

#[test]
fn a_folder_is_opened_by_one_store_at_a_time() {
    let folder = tempfile::tempdir().unwrap();
    let history = FileHistory::open(folder.path()).unwrap();
    let Err(error) = FileHistory::open(folder.path()) else { panic!("opened twice") };
    assert!(matches!(&error, Error::DatabaseLocked { path, .. } if path == folder.path()), "{error}");
    assert!(error.to_string().contains("already open"), "{error}");
    drop(history);
    FileHistory::open(folder.path()).unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    assert!(matches!(FileHistory::open(&file), Err(Error::Storage(_))));
}

/// Another process has the folder open: this test's own binary, which runs this test again.
#[test]
fn a_folder_is_locked_for_other_processes() {
    const FOLDER: &str = "MNEMON_TEST_HISTORY";
    if let Some(folder) = std::env::var_os(FOLDER) {
        assert!(matches!(FileHistory::open(folder), Err(Error::DatabaseLocked { .. })));
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let _history = FileHistory::open(folder.path()).unwrap();
    let mut test = std::process::Command::new(std::env::current_exe().unwrap());
    let test = test.args(["--exact", "history::a_folder_is_locked_for_other_processes"]).env(FOLDER, folder.path());
    let output = test.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

#[test]
fn an_interrupted_set_leaves_the_old_session() {
    let folder = tempfile::tempdir().unwrap();
    let history = FileHistory::open(folder.path()).unwrap();
    history.append("s", &[text("1", "one")]).unwrap();
    let new = session_file(folder.path()).with_extension("new");
    drop(history);
    fs::write(&new, "{\"mnemon_history\":1,").unwrap();
    let history = FileHistory::open(folder.path()).unwrap();
    assert_eq!(texts(&history, "s"), ["one"]);
    assert!(!new.exists(), "taken away");
    // A set that fails, as the folder is away.
    let away = folder.path().with_extension("away");
    fs::rename(folder.path(), &away).unwrap();
    assert!(matches!(history.set("s", &[text("2", "two")]), Err(Error::DatabaseMoved { .. })));
    fs::rename(&away, folder.path()).unwrap();
    assert_eq!(texts(&history, "s"), ["one"]);
    // A killed set of this version leaves another name. The file keeps its mode.
    let hash = session_file(folder.path()).file_name().unwrap().to_str().unwrap().to_owned();
    let new = folder.path().join(format!("{hash}.1-0.new"));
    drop(history);
    fs::write(&new, "{\"mnemon_history\":2,").unwrap();
    let history = FileHistory::open(folder.path()).unwrap();
    assert!(!new.exists(), "taken away");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let file = session_file(folder.path());
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        history.set("s", &[text("2", "two")]).unwrap();
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(texts(&history, "s"), ["two"]);
    }
}

#[derive(Clone, Debug)]
enum Operation {
    Append(usize, Vec<Message>),
    Set(usize, Vec<Message>),
    Delete(usize),
    Reopen,
    /// A crash within an append left this.
    Tear(usize, Vec<u8>),
}

const SESSIONS: [&str; 3] = ["a", "../a", "🙂\0"];

fn operations() -> impl Strategy<Value = Vec<Operation>> {
    let session = 0..SESSIONS.len();
    // Few ids, so that they are met again.
    let message =
        || (any_message(), 0..6usize).prop_map(|(message, id): (Message, usize)| message.with_id(id.to_string()));
    let messages = move || proptest::collection::vec(message(), 0..4);
    let tail = proptest::collection::vec(any::<u8>().prop_filter("no newline", |byte| *byte != b'\n'), 1..50);
    let operation = prop_oneof![
        4 => (session.clone(), messages()).prop_map(|(session, messages)| Operation::Append(session, messages)),
        2 => (session.clone(), messages()).prop_map(|(session, messages)| Operation::Set(session, messages)),
        1 => session.clone().prop_map(Operation::Delete),
        2 => Just(Operation::Reopen),
        1 => (session, tail).prop_map(|(session, tail)| Operation::Tear(session, tail)),
    ];
    proptest::collection::vec(operation, 1..15)
}

/// The model: what an append or a set leaves.
fn merged(mut messages: Vec<Message>, new: &[Message], session: &str) -> Vec<Message> {
    for message in new {
        let message = message.clone().in_session(session);
        match messages.iter_mut().find(|old| old.id == message.id) {
            Some(old) => *old = message,
            None => messages.push(message),
        }
    }
    messages
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn any_operations_leave_stores_as_the_model(operations in operations()) {
        let folder = tempfile::tempdir().unwrap();
        let memory = InMemoryHistory::new();
        let mut files = Some(FileHistory::open(folder.path()).unwrap());
        let mut model: BTreeMap<String, Vec<Message>> = BTreeMap::new();
        for operation in operations {
            let stores: [&dyn HistoryStore; 2] = [&memory, files.as_ref().unwrap()];
            match operation {
                Operation::Append(session, messages) => {
                    let session = SESSIONS[session];
                    stores.iter().for_each(|store| store.append(session, &messages).unwrap());
                    let old = model.remove(session).unwrap_or_default();
                    model.insert(session.to_owned(), merged(old, &messages, session));
                }
                Operation::Set(session, messages) => {
                    let session = SESSIONS[session];
                    stores.iter().for_each(|store| store.set(session, &messages).unwrap());
                    model.insert(session.to_owned(), merged(Vec::new(), &messages, session));
                }
                Operation::Delete(session) => {
                    stores.iter().for_each(|store| store.delete(SESSIONS[session]).unwrap());
                    model.remove(SESSIONS[session]);
                }
                Operation::Reopen => {
                    files = None;
                    files = files.or_else(|| Some(FileHistory::open(folder.path()).unwrap()));
                }
                Operation::Tear(session, tail) => {
                    let name = format!("{{\"mnemon_history\":2,\"session\":{},", serde_json::json!(SESSIONS[session]));
                    for entry in fs::read_dir(folder.path()).unwrap() {
                        let path = entry.unwrap().path();
                        if fs::read(&path).unwrap().starts_with(name.as_bytes()) {
                            add_bytes(&path, &tail);
                        }
                    }
                }
            }
            model.retain(|_, messages| !messages.is_empty());
            let stores: [&dyn HistoryStore; 2] = [&memory, files.as_ref().unwrap()];
            for store in stores {
                prop_assert_eq!(store.sessions().unwrap(), model.keys().cloned().collect::<Vec<_>>());
                for session in SESSIONS {
                    let expected = model.get(session).cloned().unwrap_or_default();
                    prop_assert_eq!(store.messages(session).unwrap(), expected);
                }
            }
        }
    }
}

/// Another folder of this name has another lock, and perhaps another store.
#[cfg(unix)]
#[test]
fn a_folder_that_is_moved_takes_no_more() {
    let folder = tempfile::tempdir().unwrap();
    let [path, moved] = ["history", "moved"].map(|name| folder.path().join(name));
    let history = FileHistory::open(&path).unwrap();
    history.append("s", &[Message::user("before")]).unwrap();
    fs::rename(&path, &moved).unwrap();
    let other = FileHistory::open(&path).unwrap();
    for result in [
        history.append("s", &[Message::user("after")]),
        history.set("s", &[Message::user("after")]),
        history.delete("s"),
    ] {
        assert!(matches!(result, Err(Error::DatabaseMoved { .. })), "{result:?}");
    }
    other.append("s", &[Message::user("in the new folder")]).unwrap();
    assert_eq!(other.messages("s").unwrap().len(), 1);
}
