//! The test that a store of histories keeps its promises.

use std::{
    sync::{
        Barrier,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

use serde_json::{Map, Value, json};

use super::HistoryStore;
use crate::{
    error::{Error, Result},
    ids::MAX_ID_BYTES,
    message::{MAX_MESSAGE_BYTES, Message, Part, Reference, Role, Timestamp},
};

/// What is wrong, if anything is.
type Verdict = Result<(), String>;

/// A promise of [`HistoryStore`], in words and as a test on an empty store.
type Rule = (&'static str, fn(&dyn HistoryStore) -> Verdict);

const RULES: &[Rule] = &[
    ("a new store is empty", is_empty),
    ("messages come back in order", keeps_order),
    ("a message comes back as it was given", is_lossless),
    ("a message's session becomes the one it is stored in", renames_session),
    ("append replaces a known id in its place", append_replaces),
    ("set replaces all messages of a session", set_replaces),
    ("delete takes one session, and takes it whole", deletes),
    ("sessions do not touch one another", keeps_sessions_apart),
    ("sessions are sorted, and have messages", lists_sessions),
    ("the name of a session is only a name", takes_any_session),
    ("an invalid call fails and changes nothing", refuses_whole),
    ("set is never seen half done", sets_at_once),
    ("concurrent appends lose nothing", appends_concurrently),
];

/// Tests all that [`HistoryStore`] promises, but for what only a crash could show. `make` gives a new empty store each time.
///
/// Cost: some 300 writes.
///
/// # Panics
/// If the store breaks a rule; the message names the rule and what was found.
///
/// ```
/// use mnemon::{HistoryStore, InMemoryHistory, Message, Result, check_history_store};
///
/// /// Tells every write.
/// struct Loud(InMemoryHistory);
///
/// impl HistoryStore for Loud {
///     fn sessions(&self) -> Result<Vec<String>> {
///         self.0.sessions()
///     }
///     fn messages(&self, session: &str) -> Result<Vec<Message>> {
///         self.0.messages(session)
///     }
///     fn append(&self, session: &str, messages: &[Message]) -> Result<()> {
///         println!("{} messages more", messages.len());
///         self.0.append(session, messages)
///     }
///     fn set(&self, session: &str, messages: &[Message]) -> Result<()> {
///         println!("{} messages instead", messages.len());
///         self.0.set(session, messages)
///     }
///     fn delete(&self, session: &str) -> Result<()> {
///         println!("none any more");
///         self.0.delete(session)
///     }
/// }
///
/// // In a test:
/// check_history_store(|| Box::new(Loud(InMemoryHistory::new())));
/// ```
pub fn check_history_store(make: impl Fn() -> Box<dyn HistoryStore>) {
    for (rule, test) in RULES {
        if let Err(fault) = test(&*make()) {
            panic!("the history store breaks a rule, {rule:?}: {fault}");
        }
    }
}

fn is_empty(store: &dyn HistoryStore) -> Verdict {
    expect_sessions(store, &[])?;
    expect(store, "nobody", &[])?;
    done("delete of an unknown session", store.delete("nobody"))?;
    append(store, "nobody", &[])?;
    set(store, "nobody", &[])?;
    expect_sessions(store, &[])
}

fn keeps_order(store: &dyn HistoryStore) -> Verdict {
    // By neither id nor time.
    let messages = ["3", "1", "2", "10", "0"].map(|id| text("s", id, id));
    append(store, "s", &messages[..2])?;
    append(store, "s", &messages[2..3])?;
    append(store, "s", &messages[3..])?;
    expect(store, "s", &messages)?;
    set(store, "t", &messages)?;
    expect(store, "t", &messages.map(|message| message.in_session("t")))
}

fn is_lossless(store: &dyn HistoryStore) -> Verdict {
    let messages = every_kind("s");
    append(store, "s", &messages)?;
    expect(store, "s", &messages)?;
    set(store, "t", &messages)?;
    expect(store, "t", &every_kind("t"))
}

fn renames_session(store: &dyn HistoryStore) -> Verdict {
    // The session given before does not count, even if it is none.
    let given = [text("elsewhere", "1", "one"), text("", "2", "two")];
    let stored = [text("s", "1", "one"), text("s", "2", "two")];
    append(store, "s", &given)?;
    expect(store, "s", &stored)?;
    set(store, "s", &given)?;
    expect(store, "s", &stored)?;
    expect_sessions(store, &["s"])
}

fn takes_any_session(store: &dyn HistoryStore) -> Verdict {
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
    // The same to the eye, and in some file systems.
    names.extend(["é", "e\u{301}", "É", "🙂", "\u{202e}abc"]);
    for name in &names {
        append(store, name, &[text(name, "1", name)])?;
        append(store, name, &[text(name, "2", "more")])?;
    }
    for name in &names {
        expect(store, name, &[text(name, "1", name), text(name, "2", "more")])?;
    }
    names.sort_unstable();
    expect_sessions(store, &names)?;
    for name in names.iter().step_by(2) {
        done("delete", store.delete(name))?;
    }
    let left: Vec<&str> = names.into_iter().skip(1).step_by(2).collect();
    expect_sessions(store, &left)
}

fn lists_sessions(store: &dyn HistoryStore) -> Verdict {
    for session in ["b", "c", "a", "B"] {
        append(store, session, &[text(session, "1", "one")])?;
    }
    append(store, "none", &[])?;
    expect_sessions(store, &["B", "a", "b", "c"])?;
    done("delete", store.delete("b"))?;
    set(store, "c", &[])?;
    expect_sessions(store, &["B", "a"])
}

fn append_replaces(store: &dyn HistoryStore) -> Verdict {
    append(store, "s", &[text("s", "1", "one"), text("s", "2", "two"), text("s", "3", "three")])?;
    append(store, "s", &[text("s", "4", "four"), text("s", "2", "TWO")])?;
    expect(
        store,
        "s",
        &[text("s", "1", "one"), text("s", "2", "TWO"), text("s", "3", "three"), text("s", "4", "four")],
    )?;
    // Twice in one call, known and new.
    append(store, "s", &[text("s", "1", "a"), text("s", "5", "b"), text("s", "1", "c"), text("s", "5", "d")])?;
    let texts = [("1", "c"), ("2", "TWO"), ("3", "three"), ("4", "four"), ("5", "d")];
    expect(store, "s", &texts.map(|(id, what)| text("s", id, what)))
}

fn set_replaces(store: &dyn HistoryStore) -> Verdict {
    append(store, "s", &[text("s", "1", "one"), text("s", "2", "two")])?;
    set(store, "s", &[text("s", "3", "three"), text("s", "1", "ONE")])?;
    expect(store, "s", &[text("s", "3", "three"), text("s", "1", "ONE")])?;
    set(store, "s", &[text("s", "1", "a"), text("s", "2", "b"), text("s", "1", "c")])?;
    expect(store, "s", &[text("s", "1", "c"), text("s", "2", "b")])?;
    // What was there before the set plays no part in what comes after it.
    append(store, "s", &[text("s", "3", "again")])?;
    expect(store, "s", &[text("s", "1", "c"), text("s", "2", "b"), text("s", "3", "again")])?;
    set(store, "s", &[])?;
    expect(store, "s", &[])?;
    expect_sessions(store, &[])
}

fn deletes(store: &dyn HistoryStore) -> Verdict {
    append(store, "s", &[text("s", "1", "one"), text("s", "2", "two")])?;
    append(store, "t", &[text("t", "1", "one")])?;
    done("delete", store.delete("s"))?;
    done("delete of what is deleted", store.delete("s"))?;
    expect(store, "s", &[])?;
    expect(store, "t", &[text("t", "1", "one")])?;
    append(store, "s", &[text("s", "2", "new")])?;
    expect(store, "s", &[text("s", "2", "new")])
}

fn keeps_sessions_apart(store: &dyn HistoryStore) -> Verdict {
    append(store, "s", &[text("s", "1", "of s")])?;
    append(store, "t", &[text("t", "1", "of t")])?;
    append(store, "s", &[text("s", "1", "new")])?;
    expect(store, "t", &[text("t", "1", "of t")])?;
    set(store, "t", &[text("t", "2", "of t")])?;
    expect(store, "s", &[text("s", "1", "new")])
}

fn refuses_whole(store: &dyn HistoryStore) -> Verdict {
    let good = text("s", "1", "one");
    append(store, "s", std::slice::from_ref(&good))?;
    let mut deep = text("s", "2", "two");
    deep.metadata.insert("deep".into(), nested(200));
    let too_long = "x".repeat(MAX_MESSAGE_BYTES + 1);
    let bad =
        [text("s", "", "no id"), text("s", "2", " \n"), text("s", "2", &too_long), text("s", "2", "two").by(""), deep];
    for bad in bad {
        for (call, result) in [
            ("append", store.append("s", &[text("s", "1", "ONE"), text("s", "3", "three"), bad.clone()])),
            ("set", store.set("s", &[text("s", "3", "three"), bad.clone()])),
            ("append", store.append("new", std::slice::from_ref(&bad))),
        ] {
            refused(&format!("{call} of a message that `Message::check` refuses"), result)?;
        }
        expect(store, "s", std::slice::from_ref(&good))?;
        expect_sessions(store, &["s"])?;
    }
    for session in [String::new(), "x".repeat(MAX_ID_BYTES + 1)] {
        let call = |name| format!("{name} of a session of {} bytes", session.len());
        refused(&call("append"), store.append(&session, std::slice::from_ref(&good)))?;
        refused(&call("set"), store.set(&session, std::slice::from_ref(&good)))?;
        refused(&call("delete"), store.delete(&session))?;
        refused(&call("messages"), store.messages(&session).map(drop))?;
    }
    expect_sessions(store, &["s"])
}

fn sets_at_once(store: &dyn HistoryStore) -> Verdict {
    let version = |round: usize| -> Vec<Message> {
        (0..20 + 10 * (round % 2)).map(|id| text("s", &id.to_string(), &round.to_string())).collect()
    };
    set(store, "s", &version(0))?;
    let ended = AtomicBool::new(false);
    let read = || {
        while !ended.load(Ordering::Acquire) {
            let messages = done("messages", store.messages("s"))?;
            let round = messages.first().and_then(|message| message.text().parse().ok());
            let Some(round) = round else { return Err(format!("a reader saw {}", brief(&messages))) };
            same("a reader's messages", &messages, &version(round))?;
        }
        Ok(())
    };
    thread::scope(|scope| {
        let readers = [scope.spawn(read), scope.spawn(read)];
        let written = joined(scope.spawn(|| (1..=30).try_for_each(|round| set(store, "s", &version(round)))));
        ended.store(true, Ordering::Release);
        readers.into_iter().try_for_each(joined).and(written)
    })?;
    expect(store, "s", &version(30))
}

fn appends_concurrently(store: &dyn HistoryStore) -> Verdict {
    const THREADS: usize = 4;
    const APPENDS: usize = 10;
    let own = |thread: usize| format!("of-{thread}");
    // Two messages an append: they stay together.
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
        workers.into_iter().try_for_each(joined)
    })?;
    for thread in 0..THREADS {
        let all: Vec<Message> = (0..APPENDS).flat_map(|number| batch(&own(thread), thread, number)).collect();
        expect(store, &own(thread), &all)?;
    }
    let shared = done("messages", store.messages("shared"))?;
    for thread in 0..THREADS {
        let prefix = format!("{thread}-");
        let found: Vec<Message> = shared.iter().filter(|message| message.id.starts_with(&prefix)).cloned().collect();
        let all: Vec<Message> = (0..APPENDS).flat_map(|number| batch("shared", thread, number)).collect();
        same(&format!("of a session that {THREADS} threads append to, the messages of thread {thread}"), &found, &all)?;
    }
    let together = |pair: &[Message]| match pair {
        [first, second] => first.id.strip_suffix('a').is_some_and(|id| second.id.strip_suffix('b') == Some(id)),
        _ => false,
    };
    match shared.len() == THREADS * APPENDS * 2 && shared.chunks(2).all(together) {
        true => Ok(()),
        false => Err(format!("messages of two appends are mixed up: {}", brief(&shared))),
    }
}

fn text(session: &str, id: &str, text: &str) -> Message {
    let content = vec![Part::Text { text: text.to_owned() }];
    Message { content, created_at: None, ..Message::user("").with_id(id).in_session(session) }
}

/// Messages with all that a message may have.
fn every_kind(session: &str) -> Vec<Message> {
    let reference = |media_type: Option<&str>| Reference {
        uri: "https://example.org/a%20b?c=\"d\"".into(),
        media_type: media_type.map(str::to_owned),
    };
    let odd = "a\0b\t\r\n\u{2028}\u{feff}\u{202e} \"quoted\" \\ </s> {}[] café cafe\u{301} 東京 👩‍👩‍👧 \u{10ffff}";
    let values = json!({
        "": null, "empty": [{}, []], "true": true, "text": odd, "deep": {"a": [{"b": [1, "2", [null]]}]},
        "numbers": [0, -1, i64::MIN, u64::MAX, 0.1, -0.5, 1e300, 5e-324, 1.0],
    });
    let metadata: Map<String, Value> = values.as_object().cloned().unwrap_or_default();
    let mut messages: Vec<Message> = Role::ALL.map(|role| Message { role, ..text(session, role.as_str(), odd) }).into();
    let contents = vec![
        vec![Part::Text { text: "one".into() }, Part::Text { text: "".into() }, Part::Text { text: " two ".into() }],
        vec![Part::ToolCall { id: "c".into(), name: "search".into(), arguments: values }],
        vec![Part::ToolCall { id: "".into(), name: "".into(), arguments: Value::Null }],
        vec![Part::ToolResult { id: "c".into(), content: odd.into() }],
        vec![Part::ToolResult { id: "".into(), content: "".into() }],
        vec![Part::Image(reference(None)), Part::Image(reference(Some("image/png")))],
        vec![Part::Audio(reference(None)), Part::Video(reference(Some(""))), Part::File(reference(None))],
        vec![Part::Text { text: "x".repeat(MAX_MESSAGE_BYTES) }],
    ];
    for (number, content) in contents.into_iter().enumerate() {
        messages.push(Message { content, ..text(session, &format!("content-{number}"), "") });
    }
    // From the year -9999 to 9999, to the microsecond.
    let times =
        [-377_705_023_201_000_000, -62_198_755_200_000_001, -1, 0, 1_714_555_800_000_001, 253_402_207_200_999_999];
    for time in times.into_iter().filter_map(Timestamp::from_micros) {
        messages.push(text(session, &format!("time-{}", time.as_micros()), "text").at(time));
    }
    messages.push(text(session, "name", "text").by(odd));
    messages.push(text(session, &"i".repeat(MAX_ID_BYTES), "text").by("n".repeat(MAX_ID_BYTES)));
    messages.push(text(session, odd, "text"));
    messages.push(Message { metadata, ..text(session, "metadata", "text") });
    // The deepest there may be.
    let deepest = (1..200).rev().map(|depth| {
        let call = Part::ToolCall { id: "c".into(), name: "f".into(), arguments: nested(depth) };
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

fn nested(depth: usize) -> Value {
    (0..depth).fold(Value::Null, |inner, _| Value::Array(vec![inner]))
}

fn append(store: &dyn HistoryStore, session: &str, messages: &[Message]) -> Verdict {
    done("append", store.append(session, messages))
}

fn set(store: &dyn HistoryStore, session: &str, messages: &[Message]) -> Verdict {
    done("set", store.set(session, messages))
}

fn done<T>(call: &str, result: Result<T>) -> Result<T, String> {
    result.map_err(|error| format!("{call} failed: {error}"))
}

fn refused(call: &str, result: Result<()>) -> Verdict {
    match result {
        Err(Error::InvalidMessage { .. }) => Ok(()),
        Err(error) => Err(format!("{call} is not `Error::InvalidMessage`, but: {error}")),
        Ok(()) => Err(format!("{call} is no error")),
    }
}

fn expect(store: &dyn HistoryStore, session: &str, messages: &[Message]) -> Verdict {
    let found = done("messages", store.messages(session))?;
    let session = clipped(format!("{session:?}"), 60);
    same(&format!("the messages of session {session}"), &found, messages)
}

fn expect_sessions(store: &dyn HistoryStore, sessions: &[&str]) -> Verdict {
    let found = done("sessions", store.sessions())?;
    if found == sessions { Ok(()) } else { Err(format!("the sessions are {found:?}, not {sessions:?}")) }
}

fn same(what: &str, found: &[Message], expected: &[Message]) -> Verdict {
    if let Some((found, expected)) = found.iter().zip(expected).find(|(found, expected)| found != expected)
        && found.id == expected.id
    {
        let [found, expected] = [found, expected].map(|message| clipped(format!("{message:?}"), 800));
        return Err(format!("{what} have {found}, not {expected}"));
    }
    match found == expected {
        true => Ok(()),
        false => Err(format!("{what} are {}, not {}", brief(found), brief(expected))),
    }
}

/// Ids, and texts as far as they are short.
fn brief(messages: &[Message]) -> String {
    let shown = messages.iter().map(|message| format!("{}: {:?}", message.id, message.text()));
    format!("[{}]", shown.map(|message| clipped(message, 60)).collect::<Vec<_>>().join(", "))
}

fn clipped(mut text: String, bytes: usize) -> String {
    text.truncate(text.floor_char_boundary(bytes));
    text
}

fn joined(thread: thread::ScopedJoinHandle<'_, Verdict>) -> Verdict {
    thread.join().unwrap_or_else(|_| Err("a call panicked".into()))
}
