//! The rules of the contract, each with its test.

use std::{
    sync::{
        Barrier,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

use super::{
    expect::{
        Verdict, append, describe, expect_equal, expect_messages, expect_refusal, expect_sessions, expect_success,
        join, set,
    },
    sample_messages::{every_kind, nested, text},
};
use crate::{
    history::store::HistoryStore,
    ids::MAX_ID_BYTES,
    message::{MAX_MESSAGE_BYTES, Message},
};

/// A rule of [`HistoryStore`], in words and as a test on an empty store.
type Rule = (&'static str, fn(&dyn HistoryStore) -> Verdict);

pub(super) const RULES: &[Rule] = &[
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

fn new_store_is_empty(store: &dyn HistoryStore) -> Verdict {
    expect_sessions(store, &[])?;
    expect_messages(store, "nobody", &[])?;
    expect_success("delete of an unknown session", store.delete("nobody"))?;
    append(store, "nobody", &[])?;
    set(store, "nobody", &[])?;
    expect_sessions(store, &[])
}

fn messages_are_in_order(store: &dyn HistoryStore) -> Verdict {
    // The order of neither ids nor times.
    let messages = ["3", "1", "2", "10", "0"].map(|id| text("s", id, id));
    append(store, "s", &messages[..2])?;
    append(store, "s", &messages[2..3])?;
    append(store, "s", &messages[3..])?;
    expect_messages(store, "s", &messages)?;
    set(store, "t", &messages)?;
    expect_messages(store, "t", &messages.map(|message| message.in_session("t")))
}

fn messages_are_unchanged(store: &dyn HistoryStore) -> Verdict {
    let messages = every_kind("s");
    append(store, "s", &messages)?;
    expect_messages(store, "s", &messages)?;
    set(store, "t", &messages)?;
    expect_messages(store, "t", &every_kind("t"))
}

fn session_of_message_is_replaced(store: &dyn HistoryStore) -> Verdict {
    // The session in the message does not count, even if it is invalid.
    let given = [text("elsewhere", "1", "one"), text("", "2", "two")];
    let stored = [text("s", "1", "one"), text("s", "2", "two")];
    append(store, "s", &given)?;
    expect_messages(store, "s", &stored)?;
    set(store, "s", &given)?;
    expect_messages(store, "s", &stored)?;
    expect_sessions(store, &["s"])
}

fn any_session_name_is_accepted(store: &dyn HistoryStore) -> Verdict {
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

fn sessions_are_sorted(store: &dyn HistoryStore) -> Verdict {
    for session in ["b", "c", "a", "B"] {
        append(store, session, &[text(session, "1", "one")])?;
    }
    append(store, "none", &[])?;
    expect_sessions(store, &["B", "a", "b", "c"])?;
    expect_success("delete", store.delete("b"))?;
    set(store, "c", &[])?;
    expect_sessions(store, &["B", "a"])
}

fn append_replaces(store: &dyn HistoryStore) -> Verdict {
    append(store, "s", &[text("s", "1", "one"), text("s", "2", "two"), text("s", "3", "three")])?;
    append(store, "s", &[text("s", "4", "four"), text("s", "2", "TWO")])?;
    expect_messages(
        store,
        "s",
        &[text("s", "1", "one"), text("s", "2", "TWO"), text("s", "3", "three"), text("s", "4", "four")],
    )?;
    // Ids that occur twice in one call, known and new.
    append(store, "s", &[text("s", "1", "a"), text("s", "5", "b"), text("s", "1", "c"), text("s", "5", "d")])?;
    let texts = [("1", "c"), ("2", "TWO"), ("3", "three"), ("4", "four"), ("5", "d")];
    expect_messages(store, "s", &texts.map(|(id, content)| text("s", id, content)))
}

fn set_replaces(store: &dyn HistoryStore) -> Verdict {
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

fn delete_removes_one_session(store: &dyn HistoryStore) -> Verdict {
    append(store, "s", &[text("s", "1", "one"), text("s", "2", "two")])?;
    append(store, "t", &[text("t", "1", "one")])?;
    expect_success("delete", store.delete("s"))?;
    expect_success("delete of a deleted session", store.delete("s"))?;
    expect_messages(store, "s", &[])?;
    expect_messages(store, "t", &[text("t", "1", "one")])?;
    append(store, "s", &[text("s", "2", "new")])?;
    expect_messages(store, "s", &[text("s", "2", "new")])
}

fn sessions_are_independent(store: &dyn HistoryStore) -> Verdict {
    append(store, "s", &[text("s", "1", "of s")])?;
    append(store, "t", &[text("t", "1", "of t")])?;
    append(store, "s", &[text("s", "1", "new")])?;
    expect_messages(store, "t", &[text("t", "1", "of t")])?;
    set(store, "t", &[text("t", "2", "of t")])?;
    expect_messages(store, "s", &[text("s", "1", "new")])
}

fn refused_call_changes_nothing(store: &dyn HistoryStore) -> Verdict {
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

fn set_is_atomic(store: &dyn HistoryStore) -> Verdict {
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

fn concurrent_appends_are_complete(store: &dyn HistoryStore) -> Verdict {
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
