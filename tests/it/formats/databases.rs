//! SQLite databases of opencode 1.18 and LangGraph's checkpointers, in the shapes that these programs were seen to write.

use std::{fs, path::Path};

use mnemon::format::{Format, ReadOptions, Source};
use rmpv::Value as Packed;
use rusqlite::{Connection, params};
use serde_json::{Value, json};

use super::{Read, read, read_path, read_source};

const OPENCODE: &str = "
    CREATE TABLE session (id TEXT PRIMARY KEY, parent_id TEXT, directory TEXT NOT NULL, title TEXT, revert TEXT, time_created INTEGER NOT NULL);
    CREATE TABLE message (id TEXT PRIMARY KEY, session_id TEXT NOT NULL, time_created INTEGER NOT NULL, data TEXT NOT NULL);
    CREATE TABLE part (id TEXT PRIMARY KEY, message_id TEXT NOT NULL, session_id TEXT NOT NULL, time_created INTEGER NOT NULL, data TEXT NOT NULL);";
const LANGGRAPH: &str = "
    CREATE TABLE checkpoints (thread_id TEXT NOT NULL, checkpoint_ns TEXT NOT NULL DEFAULT '', checkpoint_id TEXT NOT NULL,
        parent_checkpoint_id TEXT, type TEXT, checkpoint BLOB, metadata BLOB, PRIMARY KEY (thread_id, checkpoint_ns, checkpoint_id));
    CREATE TABLE writes (thread_id TEXT NOT NULL, checkpoint_ns TEXT NOT NULL DEFAULT '', checkpoint_id TEXT NOT NULL, task_id TEXT NOT NULL,
        task_path TEXT NOT NULL DEFAULT '', idx INTEGER NOT NULL, channel TEXT NOT NULL, type TEXT, value BLOB,
        PRIMARY KEY (thread_id, checkpoint_ns, checkpoint_id, task_id, idx));";

fn database(path: &Path, schema: &str) -> Connection {
    let connection = Connection::open(path).unwrap();
    connection.pragma_update(None, "journal_mode", "wal").unwrap();
    connection.execute_batch(schema).unwrap();
    connection
}

/// Writes a session, as `opencode export` has it, into opencode's database.
fn add_session(connection: &Connection, session: &Value) {
    let (info, id) = (&session["info"], session["info"]["id"].as_str().unwrap());
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let revert = info.get("revert").map(Value::to_string);
    let row = params![id, text(&info["parentID"]), text(&info["directory"]), "A title", revert, 1];
    connection.execute("INSERT INTO session VALUES (?1, ?2, ?3, ?4, ?5, ?6)", row).unwrap();
    for message in session["messages"].as_array().unwrap() {
        let mut data = message["info"].clone();
        let (message_id, time) = (text(&data["id"]).unwrap(), data["time"]["created"].as_i64().unwrap());
        data.as_object_mut().unwrap().remove("id");
        let row = params![message_id, id, time, data.to_string()];
        connection.execute("INSERT INTO message VALUES (?1, ?2, ?3, ?4)", row).unwrap();
        for part in message["parts"].as_array().unwrap() {
            let row = params![text(&part["id"]).unwrap(), message_id, id, time, part.to_string()];
            connection.execute("INSERT INTO part VALUES (?1, ?2, ?3, ?4, ?5)", row).unwrap();
        }
    }
}

fn session(id: &str, fields: Value, texts: &[&str]) -> Value {
    let message = |(at, text): (usize, &&str)| {
        let role = if at % 2 == 0 { "user" } else { "assistant" };
        let part = |n: usize, part: Value| super::with(part, json!({ "id": format!("prt_{id}{at:04}{n}") }));
        let parts = json!([
            part(0, json!({"type": "step-start"})),
            part(1, json!({"type": "tool", "state": {"output": "an output with \"type\":\"text\" in it"}})),
            part(2, json!({"type": "text", "text": "added by opencode", "synthetic": true})),
            part(3, json!({"type": "text", "text": text})),
        ]);
        json!({"info": {"id": format!("msg_{id}{at:04}"), "role": role, "time": {"created": 1_795_978_211_000_u64 + at as u64}}, "parts": parts})
    };
    let messages: Vec<Value> = texts.iter().enumerate().map(message).collect();
    json!({"info": super::with(json!({"id": id, "directory": "/home/ada/boat"}), fields), "messages": messages})
}

#[test]
fn the_database_of_opencode_has_what_its_exports_have() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("opencode.db");
    let connection = database(&path, OPENCODE);
    let sessions = [
        session("ses_a", json!({}), &["Paint the mast.", "It is white.", "\"And the keel?\"", "Black."]),
        session("ses_b", json!({"parentID": "ses_a"}), &["Look for paint.", "There is some."]),
        session(
            "ses_c",
            json!({"revert": {"messageID": "msg_ses_c0002"}}),
            &["Sail.", "We sail.", "No, row.", "We row."],
        ),
        session(
            "ses_d",
            json!({"revert": {"messageID": "msg_ses_d0001", "partID": "prt_ses_d00013"}}),
            &["Anchor.", "Anchored."],
        ),
    ];
    sessions.iter().for_each(|session| add_session(&connection, session));
    let said = read_path(&path);
    assert_eq!(
        said.texts(),
        ["Paint the mast.", "It is white.", "And the keel?", "Black.", "Sail.", "We sail.", "Anchor."]
    );
    assert_eq!(said.removed, ["ses_c/msg_ses_c0002", "ses_c/msg_ses_c0003"]);
    assert!(said.notes.len() == 1 && said.notes[0].contains("ses_b"), "{:?}", said.notes);
    assert_eq!((said.namespaces(), said.errors.len()), (vec!["code/home/ada/boat"], 0));
    // The same as from exports.
    let mut exported = Read::default();
    for session in &sessions {
        let one = read(&session.to_string());
        exported.messages.extend(one.messages);
        exported.removed.extend(one.removed);
    }
    assert_eq!((exported.messages, exported.removed), (said.messages, said.removed));
}

#[test]
fn a_database_is_read_beside_its_writer_and_from_wherever_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a b%20#?.db");
    let mut connection = database(&path, OPENCODE);
    add_session(&connection, &session("ses_a", json!({}), &["Paint the mast."]));
    // All of it is in the log yet.
    assert!(!fs::read(&path).unwrap().windows(5).any(|bytes| bytes == b"Paint"));
    let writing = connection.transaction().unwrap();
    add_session(&writing, &session("ses_b", json!({}), &["This is not committed."]));
    assert_eq!(read_path(&path).texts(), ["Paint the mast."]);
    // The files beside it are not files of their own.
    let whole = read_path(folder.path());
    assert_eq!((whole.texts(), whole.unknown), (vec!["Paint the mast.".to_owned()], vec![]));
    writing.commit().unwrap();
    assert_eq!(read_path(&path).texts(), ["Paint the mast.", "This is not committed."]);

    // Closed, it is one file, and stays one.
    drop(connection);
    let bytes = fs::read(&path).unwrap();
    assert_eq!(read_path(&path).texts().len(), 2);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    assert_eq!(fs::read(&path).unwrap(), bytes);
    let stream = Source::stream("stdin", &bytes[..]).unwrap();
    assert_eq!(read_source(stream, None, ReadOptions::default()).texts().len(), 2);
    let archive = folder.path().join("home.zip");
    let mut zip = zip::ZipWriter::new(fs::File::create(&archive).unwrap());
    zip.start_file("share/opencode.db", zip::write::SimpleFileOptions::default()).unwrap();
    std::io::Write::write_all(&mut zip, &bytes).unwrap();
    zip.finish().unwrap();
    assert_eq!(read_path(&archive).texts().len(), 2);
}

#[test]
fn a_database_of_no_program_that_is_known_is_none_of_ours() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    drop(database(&path, "CREATE TABLE message (id); CREATE VIEW session AS SELECT 1; CREATE TABLE part (id)"));
    assert_eq!(read_path(&path).unknown.len(), 1);
    let opencode = Format::named("opencode").unwrap();
    let said = read_source(Source::open(&path).unwrap(), Some(opencode), ReadOptions::default());
    assert!(said.errors[0].contains("nothing in it is of the format opencode"), "{:?}", said.errors);
    let path = folder.path().join("b.db");
    drop(database(&path, LANGGRAPH));
    for wrong in ["opencode", "chatgpt", "whatsapp"] {
        let format = Format::named(wrong).unwrap();
        let said = read_source(Source::open(&path).unwrap(), Some(format), ReadOptions::default());
        assert!(said.errors.len() == 1 && said.errors[0].contains("langgraph"), "{wrong}: {:?}", said.errors);
    }
}

#[test]
fn a_damaged_database_is_an_error_or_has_what_is_left() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    let connection = database(&path, OPENCODE);
    for number in 0..40 {
        let text = format!("Text {number} {}", "x".repeat(900));
        add_session(&connection, &session(&format!("ses_{number:02}"), json!({}), &[&text, "An answer."]));
    }
    drop(connection);
    let whole = fs::read(&path).unwrap();
    let texts = read_path(&path).texts();
    let mut errors = 0;
    for at in (0..whole.len()).step_by(997) {
        let mut bytes = whole.clone();
        let end = (at + 300).min(bytes.len());
        bytes[at.max(16)..end.max(16)].fill(0xa5);
        if at % 2 == 0 {
            bytes.truncate(end);
        }
        fs::write(&path, &bytes).unwrap();
        let Ok(Some(format)) = Source::open(&path).unwrap().next_file().unwrap().unwrap().format() else {
            errors += 1;
            continue;
        };
        let said = read_source(Source::open(&path).unwrap(), Some(format), ReadOptions::default());
        errors += usize::from(!said.errors.is_empty());
        let is_own = |text: &String| texts.contains(text) || text.contains('\u{fffd}');
        assert!(said.texts().iter().all(is_own), "at {at}");
    }
    assert!(errors > 10, "{errors}");
    fs::write(&path, [&whole[..100], &[0xff; 5000]].concat()).unwrap();
    let error = Source::open(&path).unwrap().next_file().unwrap().unwrap().format().unwrap_err().to_string();
    assert!(error.contains("a.db") && error.contains("damaged") && error.contains(".recover"), "{error}");
}

/// A message as LangGraph packs it: an extension with the module, the class, and the fields.
fn packed(kind: &str, id: Option<&str>, text: &str) -> Packed {
    let id = id.map_or(Packed::Nil, Packed::from);
    let fields = vec![
        (Packed::from("content"), Packed::from(text)),
        (Packed::from("additional_kwargs"), Packed::Map(vec![])),
        (Packed::from("type"), Packed::from(kind)),
        (Packed::from("name"), Packed::Nil),
        (Packed::from("id"), id),
        (Packed::from("tool_call_id"), Packed::from("c1")),
    ];
    extension(
        5,
        Packed::Array(vec![
            format!("langchain_core.messages.{kind}").into(),
            "Message".into(),
            Packed::Map(fields),
            "model_validate_json".into(),
        ]),
    )
}

fn extension(kind: i8, value: Packed) -> Packed {
    Packed::Ext(kind, bytes(&value))
}

fn bytes(value: &Packed) -> Vec<u8> {
    let mut bytes = Vec::new();
    rmpv::encode::write_value(&mut bytes, value).unwrap();
    bytes
}

/// Adds a checkpoint with a state, which has a list of messages, or none of it if the changes alone are kept.
fn add_checkpoint(connection: &Connection, place: [&str; 3], parent: Option<&str>, messages: Option<Packed>) {
    let [thread, namespace, id] = place;
    let mut channels = vec![(Packed::from("branch:to:bot"), Packed::Nil), (Packed::from("steps"), Packed::from(3))];
    channels.push(("__start__".into(), Packed::Array(vec![packed("human", None, "before it has an id")])));
    channels.extend(messages.map(|messages| (Packed::from("messages"), messages)));
    let versions = vec![(Packed::from("messages"), Packed::from("0001.5")), ("__start__".into(), "0001.2".into())];
    let state = Packed::Map(vec![
        ("v".into(), 4.into()),
        ("ts".into(), format!("2026-11-29T18:49:{id:0>2}.000000+00:00").into()),
        ("channel_values".into(), Packed::Map(channels)),
        ("channel_versions".into(), Packed::Map(versions)),
    ]);
    let row = params![thread, namespace, id, parent, "msgpack", bytes(&state), b"{}"];
    connection.execute("INSERT INTO checkpoints VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)", row).unwrap();
}

fn list(messages: &[(&str, &str)]) -> Packed {
    Packed::Array(messages.iter().map(|(kind, text)| packed(kind, Some(text), text)).collect())
}

#[test]
fn checkpoints_have_messages_that_only_earlier_ones_have() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.sqlite");
    let connection = database(&path, LANGGRAPH);
    let add = |id: &str, parent: Option<&str>, messages: &[(&str, &str)]| {
        add_checkpoint(&connection, ["t1", "", id], parent, Some(list(messages)));
    };
    add("10", None, &[("human", "Paint the mast.")]);
    add("11", Some("10"), &[("human", "Paint the mast."), ("ai", "It is white."), ("tool", "output")]);
    // Trimmed.
    add("12", Some("11"), &[("ai", "It is white."), ("human", "And the keel?")]);
    // Given up: the newest is of a fork from the checkpoint before it.
    add("13", Some("12"), &[("human", "And the keel?"), ("ai", "Red.")]);
    add("14", Some("12"), &[("human", "And the keel?"), ("ai", "Black.")]);
    add_checkpoint(&connection, ["t1", "sub:1", "15"], None, Some(list(&[("human", "Said by the graph.")])));
    add_checkpoint(&connection, ["t0", "", "16"], None, Some(list(&[("human", "Of another thread.")])));
    let said = read_path(&path);
    let expected = ["Paint the mast.", "It is white.", "And the keel?", "Black.", "Of another thread."];
    assert_eq!((said.texts(), said.errors.len()), (expected.map(str::to_owned).to_vec(), 0));
    assert!(said.notes.len() == 1 && said.notes[0].contains("\"t1\""), "{:?}", said.notes);
    let messages: Vec<_> = said.messages.iter().map(|(_, message)| message).collect();
    assert_eq!(
        (&*messages[0].id, &*messages[0].session, messages[0].role.as_str()),
        ("t1/Paint the mast.", "t1", "user")
    );
    let times: Vec<String> = messages.iter().map(|message| message.created_at.unwrap().to_string()).collect();
    assert_eq!(times, ["10", "11", "12", "14", "16"].map(|second| format!("2026-11-29T18:49:{second}Z")));
    let options = ReadOptions { tool_output: 3, ..ReadOptions::default() };
    let said = read_source(Source::open(&path).unwrap(), None, options);
    assert_eq!(said.texts()[2], "out\n[3 of 6 bytes]");
}

#[test]
fn checkpoints_that_keep_changes_alone_have_all_messages() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.sqlite");
    let connection = database(&path, LANGGRAPH);
    let write = |id: &str, task: &str, path: &str, channel: &str, value: Packed| {
        let row = params!["t1", "", id, task, path, 0, channel, "msgpack", bytes(&value)];
        connection.execute("INSERT INTO writes VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)", row).unwrap();
    };
    let snapshot = [("human", "One."), ("ai", "Two."), ("ai", "Three."), ("human", "Four.")];
    for (id, parent, messages) in [
        ("10", None, None),
        ("11", Some("10"), None),
        ("12", Some("11"), Some(extension(7, list(&snapshot)))),
        ("13", Some("12"), None),
    ] {
        add_checkpoint(&connection, ["t1", "", id], parent, messages);
    }
    write("10", "a", "", "messages", list(&snapshot[..1]));
    write("10", "b", "", "branch:to:bot", packed("human", None, "no message"));
    // Tasks are applied by their paths.
    write("11", "a", "~2", "messages", packed("ai", Some("Three."), "Three."));
    write("11", "b", "~1", "messages", list(&snapshot[1..2]));
    // Its messages are in the snapshot, without ids in the write.
    write("11", "c", "~3", "notes", packed("human", None, "of a state that is not kept"));
    write("12", "a", "", "messages", list(&[("ai", "Five.")]));
    write("13", "a", "", "messages", list(&[("human", "Six.")]));
    assert_eq!(read_path(&path).texts(), ["One.", "Two.", "Three.", "Four.", "Five.", "Six."]);
}

#[test]
fn a_state_that_cannot_be_read_is_an_error_of_its_checkpoint() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.sqlite");
    let connection = database(&path, LANGGRAPH);
    let text = json!({"ts": "2026-11-29T18:49:10Z", "channel_values": {"messages": [
        {"lc": 1, "type": "constructor", "id": ["langchain", "schema", "messages", "HumanMessage"], "kwargs": {"content": "Dumped.", "type": "human", "id": "d"}}]}});
    for (id, kind, blob) in [
        ("10", "json", text.to_string().into_bytes()),
        ("11", "msgpack+aes", vec![1, 2, 3]),
        ("12", "msgpack", vec![0xdd, 0xff, 0xff, 0xff, 0xff]),
        ("13", "pickle", vec![1]),
    ] {
        let row = params!["t1", "", id, (id != "10").then(|| (id.parse::<u32>().unwrap() - 1).to_string()), kind, blob];
        let sql = "INSERT INTO checkpoints (thread_id, checkpoint_ns, checkpoint_id, parent_checkpoint_id, type, checkpoint) VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
        connection.execute(sql, row).unwrap();
    }
    let said = read_path(&path);
    assert_eq!(said.texts(), ["Dumped."]);
    let parts = [["checkpoint 11", "encrypted"], ["checkpoint 12", "MessagePack"], ["checkpoint 13", "pickle"]];
    for (error, parts) in said.errors.iter().zip(parts) {
        assert!(parts.iter().all(|part| error.contains(part)), "{error}");
    }
    assert_eq!(said.errors.len(), parts.len());
}
