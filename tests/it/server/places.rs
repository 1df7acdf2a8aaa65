//! Where a server and its clients meet: at the database file, whatever their environments, as long as it has its name.

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    os::unix::{
        fs::{MetadataExt, PermissionsExt},
        net::UnixListener,
    },
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use super::{Server, formation::until, shim, signal};
use crate::support::{Db, skipped};

/// The environments of five clients of one user: of a desktop, of an MCP SDK, of a macOS-like folder for temporary files, of
/// a service, and one whose runtime folder is too long for a socket.
fn environments(folder: &Path) -> Vec<Vec<(&'static str, PathBuf)>> {
    let make = |name: &str| {
        let made = folder.join(name);
        fs::create_dir_all(&made).unwrap();
        made
    };
    vec![
        vec![("XDG_RUNTIME_DIR", make("run"))],
        vec![],
        vec![("TMPDIR", make("var"))],
        vec![("XDG_RUNTIME_DIR", make("service")), ("TMPDIR", make("tmp"))],
        vec![("XDG_RUNTIME_DIR", make(&"long".repeat(25))), ("TMPDIR", make("short"))],
    ]
}

/// The command with nothing in its environment but these variables, and those that an MCP SDK hands on.
fn command(variables: &[(&'static str, PathBuf)]) -> Command {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin!("mnemon"));
    command.env_clear();
    let handed_on = ["HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER"];
    command.envs(handed_on.iter().filter_map(|name| Some((name, std::env::var_os(name)?))));
    command.envs(variables.iter().map(|(name, value)| (name, value)));
    command
}

/// Stores a text as a client of `mnemon mcp`. Returns what was answered, and said on stderr.
fn add(db: &Path, variables: &[(&'static str, PathBuf)], text: &str) -> Output {
    let mut command = command(variables);
    command.args(["mcp", "--idle", "2", "--db"]).arg(db);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let params =
        json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } });
    let call = json!({ "name": "add_memory", "arguments": { "text": text, "user_id": "ada" } });
    for message in [
        json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params }),
        json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }),
        json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call }),
    ] {
        // A shim that finds no server reads nothing.
        let _ = writeln!(stdin, "{message}");
    }
    drop(stdin);
    child.wait_with_output().unwrap()
}

#[track_caller]
fn assert_added(output: &Output) {
    let said = String::from_utf8_lossy(&output.stdout);
    let answer = said.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()).find(|line| line["id"] == 2);
    let is_stored = answer.as_ref().is_some_and(|answer| answer["result"]["isError"] != true);
    assert!(is_stored, "{answer:?} {}", String::from_utf8_lossy(&output.stderr));
}

fn note(db: &Path) -> PathBuf {
    PathBuf::from(format!("{}.server", db.display()))
}

fn end_servers(db: &Path) {
    shim::servers(db).into_iter().for_each(|server| shim::send("-TERM", server));
    until("the end of the servers", || shim::servers(db).is_empty().then_some(()));
}

#[test]
fn ten_clients_of_five_environments_share_one_server() {
    let (db, folder) = (Db::new(), tempfile::tempdir().unwrap());
    let environments = environments(folder.path());
    let started = Instant::now();
    std::thread::scope(|scope| {
        for at in 0..10 {
            let (db, variables) = (&db.path, &environments[at % 5]);
            scope.spawn(move || assert_added(&add(db, variables, &format!("client {at}"))));
        }
    });
    assert!(started.elapsed() < Duration::from_secs(30), "{:?}", started.elapsed());
    assert_eq!(shim::servers(&db.path).len(), 1, "one server serves the file");
    let found = fs::metadata(note(&db.path)).unwrap();
    assert_eq!(found.permissions().mode() & 0o777, 0o600);
    // Hooks meet it as well, from each environment.
    for variables in &environments {
        let event = json!({ "hook_event_name": "SessionStart", "session_id": "s", "cwd": folder.path() });
        let mut hook = command(variables);
        hook.args(["hook", "--db"]).arg(&db.path).stdin(Stdio::piped()).stderr(Stdio::piped());
        let mut child = hook.spawn().unwrap();
        child.stdin.take().unwrap().write_all(event.to_string().as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    assert_eq!(shim::servers(&db.path).len(), 1);
    end_servers(&db.path);
    assert!(!note(&db.path).exists(), "the note goes with its server");
    assert_eq!(db.assert_sound().messages, 10);
}

#[test]
fn a_program_that_has_the_database_open_is_named_at_once() {
    let (db, folder) = (Db::new(), tempfile::tempdir().unwrap());
    let engine = db.open();
    let started = Instant::now();
    let output = add(&db.path, &[("TMPDIR", folder.path().to_owned())], "not stored");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains("already open in"), "{said}");
    assert!(!cfg!(target_os = "linux") || said.contains(&format!("the process {}", std::process::id())), "{said}");
    assert!(started.elapsed() < Duration::from_secs(10), "{:?}", started.elapsed());
    drop(engine);
}

/// A second server says which process is the first.
#[test]
fn a_database_has_one_server() {
    let db = Db::new();
    let server = Server::start(&db);
    for private in [&["--private"][..], &["--listen", "127.0.0.1:0"]] {
        let output = command(&[]).args(["serve", "--db"]).arg(&db.path).args(private).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let process = format!("another server of it runs already, the process {}", server.child.id());
        assert!(!output.status.success() && said.contains(&process), "{said}");
    }
    server.terminate();
}

/// Clients go to no socket that the owner of the database did not note.
#[test]
fn a_note_that_others_can_write_is_refused() {
    let (db, folder) = (Db::new(), tempfile::tempdir().unwrap());
    drop(db.open());
    let socket = folder.path().join("other.sock");
    let _listener = UnixListener::bind(&socket).unwrap();
    let found = fs::metadata(&db.path).unwrap();
    let file = format!("{}:{}", found.dev(), found.ino());
    fs::write(note(&db.path), json!({ "process": 1, "socket": socket, "file": file }).to_string()).unwrap();
    fs::set_permissions(note(&db.path), fs::Permissions::from_mode(0o666)).unwrap();
    let output = add(&db.path, &[], "not stored");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains("is no note of a server of this user"), "{said}");
    fs::remove_file(note(&db.path)).unwrap();
    std::os::unix::fs::symlink(folder.path().join("elsewhere"), note(&db.path)).unwrap();
    let output = add(&db.path, &[], "not stored");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains("is no note of a server"), "{said}");
    let output = command(&[]).args(["serve", "--private", "--db"]).arg(&db.path).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains("and this is none"), "{said}");
    assert!(!folder.path().join("elsewhere").exists());
    fs::remove_file(note(&db.path)).unwrap();
    // The note of a server that was killed is taken over.
    fs::write(note(&db.path), "").unwrap();
    fs::set_permissions(note(&db.path), fs::Permissions::from_mode(0o600)).unwrap();
    assert_added(&add(&db.path, &[], "stored"));
    end_servers(&db.path);
}

/// What happens to a file, by its path.
type Change = fn(&Path);

/// What may happen to a file whose private server nobody started by name.
fn moves() -> [(&'static str, Change); 3] {
    [
        ("removed", |path| fs::remove_file(path).unwrap()),
        ("moved", |path| fs::rename(path, path.with_extension("moved")).unwrap()),
        ("replaced by a backup", |path| {
            let copy = path.with_extension("copy");
            fs::copy(path.with_file_name("backup.redb"), &copy).unwrap();
            fs::rename(copy, path).unwrap();
        }),
    ]
}

#[test]
fn a_private_server_ends_with_the_name_of_its_file() {
    for (what, happen) in moves() {
        let db = Db::new();
        assert_added(&add(&db.path, &[], "before the backup"));
        end_servers(&db.path);
        fs::copy(&db.path, db.path.with_file_name("backup.redb")).unwrap();
        assert_added(&add(&db.path, &[], "after the backup"));
        let [server] = shim::servers(&db.path)[..] else { panic!("{what}: no server") };
        happen(&db.path);
        // At once, before the server can have seen it.
        assert_added(&add(&db.path, &[], "after it happened"));
        until("the end of the first server", || (!shim::servers(&db.path).contains(&server)).then_some(()));
        end_servers(&db.path);
        let stored = db.assert_sound().messages;
        assert_eq!(stored, if what == "replaced by a backup" { 2 } else { 1 }, "{what}");
    }
}

/// A server that its operator started goes on, and says that it is not ready.
#[test]
fn a_server_whose_file_was_moved_is_not_ready() {
    let db = Db::new();
    let server = Server::start(&db);
    assert_eq!(server.get("/ready").status, 200);
    server.put("a", &["The boat is red."]);
    let moved = db.path.with_extension("moved");
    fs::rename(&db.path, &moved).unwrap();
    server.get("/ready").assert_problem(503, "moved, removed or replaced");
    let body = json!({ "messages": [{ "role": "user", "content": "The oars are new." }] });
    let answer = server.post("/v1/namespaces/a/messages", body.clone());
    answer.assert_problem(503, "nothing was changed");
    assert_eq!(answer.body["type"], "urn:mnemon:database-moved");
    // A client of this machine starts a server of what has the name now.
    assert_added(&add(&db.path, &[], "stored elsewhere"));
    let others = || shim::servers(&db.path).into_iter().filter(|other| *other != server.child.id());
    others().for_each(|other| shim::send("-TERM", other));
    until("the end of the other server", || others().next().is_none().then_some(()));
    fs::rename(&moved, &db.path).unwrap();
    assert_eq!(server.get("/ready").status, 200);
    assert_eq!(server.post("/v1/namespaces/a/messages", body).status, 200);
    server.terminate();
    assert_eq!(db.assert_sound().messages, 2);
}

/// With a socket or without, it removes what it made.
#[test]
fn a_server_ends_in_order_at_each_signal() {
    // The bit of SIGHUP: a program that was started with `nohup` ignores it, and so do those that it starts.
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap_or("0").trim();
    let ignores_hang_up = u64::from_str_radix(ignored, 16).unwrap() & 1 == 1;
    if ignores_hang_up {
        skipped("SIGHUP: the tests were started with it ignored");
    }
    for name in ["INT", "TERM", "HUP"].into_iter().filter(|name| !(ignores_hang_up && *name == "HUP")) {
        let db = Db::new();
        let folder = tempfile::tempdir().unwrap();
        let mut serve = command(&[("XDG_RUNTIME_DIR", folder.path().to_owned())]);
        serve.args(["--format", "json", "serve", "--listen", "127.0.0.1:0", "--db"]).arg(&db.path);
        let mut child = serve.stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        assert!(lines.next().unwrap().unwrap().contains("listening"));
        let sockets = || fs::read_dir(folder.path().join("mnemon")).unwrap().count();
        until("the socket", || (sockets() == 1).then_some(()));
        signal(&child, name);
        assert!(child.wait().unwrap().success(), "{name}");
        assert_eq!(sockets(), 0, "{name}");
        assert!(!note(&db.path).exists(), "{name}");
        db.assert_sound();
    }
}
