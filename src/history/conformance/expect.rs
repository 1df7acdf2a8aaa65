//! Calls and comparisons of the conformance test. An error describes the fault that was found.

use std::thread::ScopedJoinHandle;

use crate::{
    error::{Error, Result},
    history::store::HistoryStore,
    message::Message,
};

/// The outcome of a test. The error describes the fault.
pub(super) type Verdict = Result<(), String>;

pub(super) fn append(store: &dyn HistoryStore, session: &str, messages: &[Message]) -> Verdict {
    expect_success("append", store.append(session, messages))
}

pub(super) fn set(store: &dyn HistoryStore, session: &str, messages: &[Message]) -> Verdict {
    expect_success("set", store.set(session, messages))
}

pub(super) fn expect_success<T>(call: &str, result: Result<T>) -> Result<T, String> {
    result.map_err(|error| format!("{call} failed: {error}"))
}

pub(super) fn expect_refusal(call: &str, result: Result<()>) -> Verdict {
    match result {
        Err(Error::InvalidMessage { .. }) => Ok(()),
        Err(error) => Err(format!("{call} failed with another error than `Error::InvalidMessage`: {error}")),
        Ok(()) => Err(format!("{call} did not fail")),
    }
}

pub(super) fn expect_messages(store: &dyn HistoryStore, session: &str, messages: &[Message]) -> Verdict {
    let found = expect_success("messages", store.messages(session))?;
    let session = clipped(format!("{session:?}"), 60);
    expect_equal(&format!("the messages of session {session}"), &found, messages)
}

pub(super) fn expect_sessions(store: &dyn HistoryStore, sessions: &[&str]) -> Verdict {
    let found = expect_success("sessions", store.sessions())?;
    if found == sessions { Ok(()) } else { Err(format!("the sessions are {found:?}, expected {sessions:?}")) }
}

/// Compares lists of messages. The fault contains the first message that differs, or else both lists.
pub(super) fn expect_equal(what: &str, found: &[Message], expected: &[Message]) -> Verdict {
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

/// Lists the ids and the beginnings of the texts.
pub(super) fn describe(messages: &[Message]) -> String {
    let shown = messages.iter().map(|message| format!("{}: {:?}", message.id, message.text()));
    format!("[{}]", shown.map(|message| clipped(message, 60)).collect::<Vec<_>>().join(", "))
}

fn clipped(mut text: String, bytes: usize) -> String {
    text.truncate(text.floor_char_boundary(bytes));
    text
}

pub(super) fn join(thread: ScopedJoinHandle<'_, Verdict>) -> Verdict {
    thread.join().unwrap_or_else(|_| Err("a call panicked".into()))
}
