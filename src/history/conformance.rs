//! The conformance test for history stores: the rules of [`HistoryStore`]'s contract, each with its test.
//!
//! It is part of the library, because users test their own stores with it. A test returns the fault that it found as its
//! error.

use std::{
    sync::{
        Barrier,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, ScopedJoinHandle},
};

use serde_json::{Map, Value, json};

use super::HistoryStore;
use crate::{
    error::{Error, Result},
    ids::MAX_ID_BYTES,
    message::{ContentPart, MAX_MESSAGE_BYTES, MediaReference, Message, Role, Timestamp},
};

/// Tests that an implementation keeps the contract of [`HistoryStore`], except for the guarantees about crashes.
///
/// `make` must return a new empty store on each call. Cost: about 300 writes.
///
/// # Panics
/// If the store breaks a rule. The panic message contains the rule and what the store did.
///
/// ```
/// use mnemon::{HistoryStore, InMemoryHistory, Message, Result, check_history_store};
///
/// /// Prints every write.
/// struct PrintingHistory(InMemoryHistory);
///
/// impl HistoryStore for PrintingHistory {
///     fn sessions(&self) -> Result<Vec<String>> {
///         self.0.sessions()
///     }
///     fn messages(&self, session: &str) -> Result<Vec<Message>> {
///         self.0.messages(session)
///     }
///     fn append(&self, session: &str, messages: &[Message]) -> Result<()> {
///         println!("append {} messages to {session}", messages.len());
///         self.0.append(session, messages)
///     }
///     fn set(&self, session: &str, messages: &[Message]) -> Result<()> {
///         println!("set {session} to {} messages", messages.len());
///         self.0.set(session, messages)
///     }
///     fn delete(&self, session: &str) -> Result<()> {
///         println!("delete {session}");
///         self.0.delete(session)
///     }
/// }
///
/// // In a test:
/// check_history_store(|| Box::new(PrintingHistory(InMemoryHistory::new())));
/// ```
pub fn check_history_store(make: impl Fn() -> Box<dyn HistoryStore>) {
    for (rule, test) in RULES {
        if let Err(fault) = test(&*make()) {
            panic!("the history store breaks the rule {rule:?}: {fault}");
        }
    }
}

/// A rule of [`HistoryStore`], in words and as a test on an empty store.
type Rule = (&'static str, fn(&dyn HistoryStore) -> RuleResult);

const RULES: &[Rule] = &[
    ("a new store is empty", new_store_is_empty),
    ("messages are returned in order", messages_are_in_order),
    ("messages are returned as they were stored", messages_are_unchanged),
    ("the session of a message becomes the session that it is stored in", session_of_message_is_replaced),
    ("append replaces a message with a known id, which keeps its position", append_replaces),
    ("set replaces all messages of a session", set_replaces),
    ("delete removes all messages of one session, and no others", delete_removes_one_session),
    ("sessions are independent of each other", sessions_are_independent),
    ("sessions are listed in order, and only those with messages", sessions_are_sorted),
    ("every string of 1 to 512 bytes is a session name", any_session_name_is_accepted),
    ("a refused call changes nothing", refused_call_changes_nothing),
    ("set is atomic", set_is_atomic),
    ("concurrent appends lose no messages and stay together", concurrent_appends_are_complete),
];

fn new_store_is_empty(store: &dyn HistoryStore) -> RuleResult {
    expect_sessions(store, &[])?;
    expect_messages(store, "nobody", &[])?;
    expect_success("delete of an unknown session", store.delete("nobody"))?;
    append(store, "nobody", &[])?;
    set(store, "nobody", &[])?;
    expect_sessions(store, &[])
}

fn messages_are_in_order(store: &dyn HistoryStore) -> RuleResult {
    // The order of neither ids nor times.
    let messages = ["3", "1", "2", "10", "0"].map(|id| text("s", id, id));
    append(store, "s", &messages[..2])?;
    append(store, "s", &messages[2..3])?;
    append(store, "s", &messages[3..])?;
    expect_messages(store, "s", &messages)?;
    set(store, "t", &messages)?;
    expect_messages(store, "t", &messages.map(|message| message.in_session("t")))
}

fn messages_are_unchanged(store: &dyn HistoryStore) -> RuleResult {
    let messages = every_kind("s");
    append(store, "s", &messages)?;
    expect_messages(store, "s", &messages)?;
    set(store, "t", &messages)?;
    expect_messages(store, "t", &every_kind("t"))
}

fn session_of_message_is_replaced(store: &dyn HistoryStore) -> RuleResult {
    // The session in a message is ignored, even if it is invalid.
    let given = [text("elsewhere", "1", "one"), text("", "2", "two")];
    let stored = [text("s", "1", "one"), text("s", "2", "two")];
    append(store, "s", &given)?;
    expect_messages(store, "s", &stored)?;
    set(store, "s", &given)?;
    expect_messages(store, "s", &stored)?;
    expect_sessions(store, &["s"])
}

fn any_session_name_is_accepted(store: &dyn HistoryStore) -> RuleResult {
    let longest = "x".repeat(MAX_ID_BYTES);
    let mut names = vec![longest.as_str(), &longest[1..]];
    names.extend([
        "../../etc/passwd",
        "..",
        ".",
        "/",
        "a/b",
        "a",
        "A",
        "a ",
        " a",
        "CON",
        "nul",
        "a.jsonl",
        "lock",
        "%2e%2e",
    ]);
    names.extend([
        "\0",
        "a\0",
        "a\0b",
        "a\nb",
        "\\\\host\\share",
        "C:\\a",
        "*?\"<>|",
        "'; DROP TABLE messages; --",
        "\u{feff}",
    ]);
    // Names that look alike, and are equal in some file systems.
    names.extend(["é", "e\u{301}", "É", "🙂", "\u{202e}abc"]);
    for name in &names {
        append(store, name, &[text(name, "1", name)])?;
        append(store, name, &[text(name, "2", "more")])?;
    }
    for name in &names {
        expect_messages(store, name, &[text(name, "1", name), text(name, "2", "more")])?;
    }
    names.sort_unstable();
    expect_sessions(store, &names)?;
    for name in names.iter().step_by(2) {
        expect_success("delete", store.delete(name))?;
    }
    let left: Vec<&str> = names.into_iter().skip(1).step_by(2).collect();
    expect_sessions(store, &left)
}

fn sessions_are_sorted(store: &dyn HistoryStore) -> RuleResult {
    for session in ["b", "c", "a", "B"] {
        append(store, session, &[text(session, "1", "one")])?;
    }
    append(store, "none", &[])?;
    expect_sessions(store, &["B", "a", "b", "c"])?;
    expect_success("delete", store.delete("b"))?;
    set(store, "c", &[])?;
    expect_sessions(store, &["B", "a"])
}

fn append_replaces(store: &dyn HistoryStore) -> RuleResult {
    append(store, "s", &[text("s", "1", "one"), text("s", "2", "two"), text("s", "3", "three")])?;
    append(store, "s", &[text("s", "4", "four"), text("s", "2", "TWO")])?;
    expect_messages(
        store,
        "s",
        &[text("s", "1", "one"), text("s", "2", "TWO"), text("s", "3", "three"), text("s", "4", "four")],
    )?;
    // A known id and a new id, each twice in one call.
    append(store, "s", &[text("s", "1", "a"), text("s", "5", "b"), text("s", "1", "c"), text("s", "5", "d")])?;
    let texts = [("1", "c"), ("2", "TWO"), ("3", "three"), ("4", "four"), ("5", "d")];
    expect_messages(store, "s", &texts.map(|(id, content)| text("s", id, content)))
}

fn set_replaces(store: &dyn HistoryStore) -> RuleResult {
    append(store, "s", &[text("s", "1", "one"), text("s", "2", "two")])?;
    set(store, "s", &[text("s", "3", "three"), text("s", "1", "ONE")])?;
    expect_messages(store, "s", &[text("s", "3", "three"), text("s", "1", "ONE")])?;
    set(store, "s", &[text("s", "1", "a"), text("s", "2", "b"), text("s", "1", "c")])?;
    expect_messages(store, "s", &[text("s", "1", "c"), text("s", "2", "b")])?;
    // Messages that the set removed have no effect on later appends.
    append(store, "s", &[text("s", "3", "again")])?;
    expect_messages(store, "s", &[text("s", "1", "c"), text("s", "2", "b"), text("s", "3", "again")])?;
    set(store, "s", &[])?;
    expect_messages(store, "s", &[])?;
    expect_sessions(store, &[])
}

fn delete_removes_one_session(store: &dyn HistoryStore) -> RuleResult {
    append(store, "s", &[text("s", "1", "one"), text("s", "2", "two")])?;
    append(store, "t", &[text("t", "1", "one")])?;
    expect_success("delete", store.delete("s"))?;
    expect_success("delete of a deleted session", store.delete("s"))?;
    expect_messages(store, "s", &[])?;
    expect_messages(store, "t", &[text("t", "1", "one")])?;
    append(store, "s", &[text("s", "2", "new")])?;
    expect_messages(store, "s", &[text("s", "2", "new")])
}

fn sessions_are_independent(store: &dyn HistoryStore) -> RuleResult {
    append(store, "s", &[text("s", "1", "of s")])?;
    append(store, "t", &[text("t", "1", "of t")])?;
    append(store, "s", &[text("s", "1", "new")])?;
    expect_messages(store, "t", &[text("t", "1", "of t")])?;
    set(store, "t", &[text("t", "2", "of t")])?;
    expect_messages(store, "s", &[text("s", "1", "new")])
}

fn refused_call_changes_nothing(store: &dyn HistoryStore) -> RuleResult {
    let good = text("s", "1", "one");
    append(store, "s", std::slice::from_ref(&good))?;
    let mut deep = text("s", "2", "two");
    deep.metadata.insert("deep".into(), nested(200));
    let too_long = "x".repeat(MAX_MESSAGE_BYTES + 1);
    let invalid = [text("s", "", "no id"), text("s", "2", &too_long), text("s", "2", "two").by(""), deep];
    for message in invalid {
        for (call, result) in [
            ("append", store.append("s", &[text("s", "1", "ONE"), text("s", "3", "three"), message.clone()])),
            ("set", store.set("s", &[text("s", "3", "three"), message.clone()])),
            ("append", store.append("new", std::slice::from_ref(&message))),
        ] {
            expect_refusal(&format!("{call} of a message that `Message::check` refuses"), result)?;
        }
        expect_messages(store, "s", std::slice::from_ref(&good))?;
        expect_sessions(store, &["s"])?;
    }
    for session in [String::new(), "x".repeat(MAX_ID_BYTES + 1)] {
        let call = |name| format!("{name} of a session of {} bytes", session.len());
        expect_refusal(&call("append"), store.append(&session, std::slice::from_ref(&good)))?;
        expect_refusal(&call("set"), store.set(&session, std::slice::from_ref(&good)))?;
        expect_refusal(&call("delete"), store.delete(&session))?;
        expect_refusal(&call("messages"), store.messages(&session).map(drop))?;
    }
    expect_sessions(store, &["s"])
}

fn set_is_atomic(store: &dyn HistoryStore) -> RuleResult {
    let version = |round: usize| -> Vec<Message> {
        (0..20 + 10 * (round % 2)).map(|id| text("s", &id.to_string(), &round.to_string())).collect()
    };
    set(store, "s", &version(0))?;
    let ended = AtomicBool::new(false);
    let read = || {
        while !ended.load(Ordering::Acquire) {
            let messages = expect_success("messages", store.messages("s"))?;
            let round = messages.first().and_then(|message| message.text().parse().ok());
            let Some(round) = round else { return Err(format!("a reader saw the messages {}", describe(&messages))) };
            expect_equal("the messages that a reader saw", &messages, &version(round))?;
        }
        Ok(())
    };
    thread::scope(|scope| {
        let readers = [scope.spawn(read), scope.spawn(read)];
        let written = join(scope.spawn(|| (1..=30).try_for_each(|round| set(store, "s", &version(round)))));
        ended.store(true, Ordering::Release);
        readers.into_iter().try_for_each(join).and(written)
    })?;
    expect_messages(store, "s", &version(30))
}

fn concurrent_appends_are_complete(store: &dyn HistoryStore) -> RuleResult {
    const THREADS: usize = 4;
    const APPENDS: usize = 10;
    let own = |thread: usize| format!("of-{thread}");
    // Each append has two messages, which must stay together.
    let batch = |session: &str, thread: usize, number: usize| {
        ["a", "b"].map(|half| text(session, &format!("{thread}-{number}-{half}"), "text"))
    };
    let start = Barrier::new(THREADS);
    thread::scope(|scope| {
        let start = &start;
        let work = move |thread: usize| {
            start.wait();
            (0..APPENDS).try_for_each(|number| {
                append(store, "shared", &batch("shared", thread, number))?;
                append(store, &own(thread), &batch(&own(thread), thread, number))
            })
        };
        let workers: Vec<_> = (0..THREADS).map(|thread| scope.spawn(move || work(thread))).collect();
        workers.into_iter().try_for_each(join)
    })?;
    for thread in 0..THREADS {
        let all: Vec<Message> = (0..APPENDS).flat_map(|number| batch(&own(thread), thread, number)).collect();
        expect_messages(store, &own(thread), &all)?;
    }
    let shared = expect_success("messages", store.messages("shared"))?;
    for thread in 0..THREADS {
        let prefix = format!("{thread}-");
        let found: Vec<Message> = shared.iter().filter(|message| message.id.starts_with(&prefix)).cloned().collect();
        let all: Vec<Message> = (0..APPENDS).flat_map(|number| batch("shared", thread, number)).collect();
        expect_equal(
            &format!("the messages of thread {thread} in a session that {THREADS} threads append to"),
            &found,
            &all,
        )?;
    }
    let belong_together = |pair: &[Message]| match pair {
        [first, second] => first.id.strip_suffix('a').is_some_and(|id| second.id.strip_suffix('b') == Some(id)),
        _ => false,
    };
    match shared.len() == THREADS * APPENDS * 2 && shared.chunks(2).all(belong_together) {
        true => Ok(()),
        false => Err(format!("messages of two appends are interleaved: {}", describe(&shared))),
    }
}

/// The result of a test. The error describes the fault.
type RuleResult = Result<(), String>;

fn append(store: &dyn HistoryStore, session: &str, messages: &[Message]) -> RuleResult {
    expect_success("append", store.append(session, messages))
}

fn set(store: &dyn HistoryStore, session: &str, messages: &[Message]) -> RuleResult {
    expect_success("set", store.set(session, messages))
}

fn expect_success<T>(call: &str, result: Result<T>) -> Result<T, String> {
    result.map_err(|error| format!("{call} failed: {error}"))
}

fn expect_refusal(call: &str, result: Result<()>) -> RuleResult {
    match result {
        Err(Error::InvalidMessage { .. }) => Ok(()),
        Err(error) => Err(format!("{call} failed with another error than `Error::InvalidMessage`: {error}")),
        Ok(()) => Err(format!("{call} did not fail")),
    }
}

fn expect_messages(store: &dyn HistoryStore, session: &str, messages: &[Message]) -> RuleResult {
    let found = expect_success("messages", store.messages(session))?;
    let session = clipped(format!("{session:?}"), 60);
    expect_equal(&format!("the messages of session {session}"), &found, messages)
}

fn expect_sessions(store: &dyn HistoryStore, sessions: &[&str]) -> RuleResult {
    let found = expect_success("sessions", store.sessions())?;
    if found == sessions { Ok(()) } else { Err(format!("the sessions are {found:?}, expected {sessions:?}")) }
}

/// Compares lists of messages. The error shows the first message that differs, or else both lists.
fn expect_equal(what: &str, found: &[Message], expected: &[Message]) -> RuleResult {
    if let Some((found, expected)) = found.iter().zip(expected).find(|(found, expected)| found != expected)
        && found.id == expected.id
    {
        let [found, expected] = [found, expected].map(|message| clipped(format!("{message:?}"), 800));
        return Err(format!("{what} contain {found}, expected {expected}"));
    }
    match found == expected {
        true => Ok(()),
        false => Err(format!("{what} are {}, expected {}", describe(found), describe(expected))),
    }
}

/// Formats the ids and the beginnings of the texts.
fn describe(messages: &[Message]) -> String {
    let shown = messages.iter().map(|message| format!("{}: {:?}", message.id, message.text()));
    format!("[{}]", shown.map(|message| clipped(message, 60)).collect::<Vec<_>>().join(", "))
}

fn clipped(mut text: String, bytes: usize) -> String {
    text.truncate(text.floor_char_boundary(bytes));
    text
}

fn join(thread: ScopedJoinHandle<'_, RuleResult>) -> RuleResult {
    thread.join().unwrap_or_else(|_| Err("a call panicked".into()))
}

/// Creates a message of the user without a time.
fn text(session: &str, id: &str, text: &str) -> Message {
    Message { created_at: None, ..Message::user(text).with_id(id).in_session(session) }
}

/// Creates messages with everything that a message can contain, up to the limits.
fn every_kind(session: &str) -> Vec<Message> {
    let reference = |media_type: Option<&str>| MediaReference {
        uri: "https://example.org/a%20b?c=\"d\"".into(),
        media_type: media_type.map(str::to_owned),
    };
    let unusual = "a\0b\t\r\n\u{2028}\u{feff}\u{202e} \"quoted\" \\ </s> {}[] café cafe\u{301} 東京 👩‍👩‍👧 \u{10ffff}";
    let values = json!({
        "": null, "empty": [{}, []], "true": true, "text": unusual, "deep": {"a": [{"b": [1, "2", [null]]}]},
        "numbers": [0, -1, i64::MIN, u64::MAX, 0.1, -0.5, 1e300, 5e-324, 1.0],
    });
    let metadata: Map<String, Value> = values.as_object().cloned().unwrap_or_default();
    let mut messages: Vec<Message> =
        Role::ALL.map(|role| Message { role, ..text(session, role.as_str(), unusual) }).into();
    let contents = vec![
        vec![
            ContentPart::Text { text: "one".into() },
            ContentPart::Text { text: "".into() },
            ContentPart::Text { text: " two ".into() },
        ],
        vec![ContentPart::ToolCall { id: "c".into(), name: "search".into(), arguments: values }],
        vec![ContentPart::ToolCall { id: "".into(), name: "".into(), arguments: Value::Null }],
        vec![ContentPart::ToolResult { id: "c".into(), content: unusual.into() }],
        vec![ContentPart::ToolResult { id: "".into(), content: "".into() }],
        vec![ContentPart::Image(reference(None)), ContentPart::Image(reference(Some("image/png")))],
        vec![
            ContentPart::Audio(reference(None)),
            ContentPart::Video(reference(Some(""))),
            ContentPart::File(reference(None)),
        ],
        vec![ContentPart::Text { text: "x".repeat(MAX_MESSAGE_BYTES) }],
        vec![],
        vec![ContentPart::Text { text: "".into() }],
        vec![ContentPart::Text { text: " \n".into() }, ContentPart::Text { text: "".into() }],
    ];
    for (number, content) in contents.into_iter().enumerate() {
        messages.push(Message { content, ..text(session, &format!("content-{number}"), "") });
    }
    // Times between the years -9999 and 9999, with microseconds.
    let times =
        [-377_705_023_201_000_000, -62_198_755_200_000_001, -1, 0, 1_714_555_800_000_001, 253_402_207_200_999_999];
    for time in times.into_iter().filter_map(Timestamp::from_micros) {
        messages.push(text(session, &format!("time-{}", time.as_micros()), "text").at(time));
    }
    messages.push(text(session, "name", "text").by(unusual));
    messages.push(text(session, &"i".repeat(MAX_ID_BYTES), "text").by("n".repeat(MAX_ID_BYTES)));
    messages.push(text(session, unusual, "text"));
    messages.push(Message { metadata, ..text(session, "metadata", "text") });
    // The deepest JSON that a message may contain.
    let deepest = (1..200).rev().map(|depth| {
        let call = ContentPart::ToolCall { id: "c".into(), name: "f".into(), arguments: nested(depth) };
        Message { content: vec![call], ..text(session, "deep", "") }
    });
    messages.extend({ deepest }.find(|message| message.check().is_ok()));
    let deepest = (1..200).rev().map(|depth| {
        let metadata = [("deep".to_owned(), nested(depth))].into_iter().collect();
        Message { metadata, ..text(session, "deep metadata", "text") }
    });
    messages.extend({ deepest }.find(|message| message.check().is_ok()));
    messages
}

/// Creates arrays nested to this depth.
fn nested(depth: usize) -> Value {
    (0..depth).fold(Value::Null, |inner, _| Value::Array(vec![inner]))
}
