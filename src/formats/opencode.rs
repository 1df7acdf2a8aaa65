//! Sessions of opencode: its database, or what `opencode export` writes of one.

use std::{collections::HashMap, path::Path};

use serde_json::{Value, json};

use super::{
    database::{Database, text},
    place::namespace_of,
    reader::{Found, ReadOptions, Rows, ValueReader, each},
    said::{Said, filled, since_1970, text_part},
};
use crate::{
    error::{Error, Result},
    message::Role,
};

pub(super) fn is_value(value: &Value) -> bool {
    value["info"]["id"].is_string()
        && value["messages"]
            .as_array()
            .is_some_and(|messages| messages.iter().all(|message| message["parts"].is_array()))
}

pub(super) fn reader(options: &ReadOptions) -> Box<dyn ValueReader> {
    let options = options.clone();
    each(move |value, found: &mut Found| read(&value, &options, found))
}

pub(super) fn read_database(database: Database, options: &ReadOptions) -> Result<Rows<'static>> {
    let sessions = database.rows("SELECT * FROM session ORDER BY time_created, id", [], |row| {
        let revert: Value = serde_json::from_str(&text(row, "revert")).unwrap_or_default();
        json!({"id": text(row, "id"), "directory": text(row, "directory"), "parentID": text(row, "parent_id"), "revert": revert})
    })?;
    let options = options.clone();
    Ok(Box::new(sessions.into_iter().map(move |info| {
        let mut found = Found::default();
        let messages = messages(&database, info["id"].as_str().unwrap_or_default(), &mut found)?;
        read(&json!({"info": info, "messages": messages}), &options, &mut found);
        Ok(found)
    })))
}

/// Returns the messages of a session in the database, with their texts, as an export has them.
fn messages(database: &Database, session: &str, found: &mut Found) -> Result<Vec<Value>> {
    let mut parsed = |id: &str, data: &str| {
        let parsed = serde_json::from_str::<Value>(data);
        parsed
            .map_err(|error| found.messages.push(Err(Error::message(format!("{id} of session {session}: {error}")))))
            .ok()
    };
    let sql = "SELECT id, data FROM message WHERE session_id = ?1 ORDER BY time_created, id";
    let (mut messages, mut places) = (Vec::new(), HashMap::new());
    for (id, data) in database.rows(sql, [session], |row| (text(row, "id"), text(row, "data")))? {
        let Some(mut info) = parsed(&id, &data) else { continue };
        info["id"] = id.as_str().into();
        places.insert(id, messages.len());
        messages.push(json!({"info": info, "parts": []}));
    }
    // Outputs of tools are most of a session's bytes.
    let sql =
        "SELECT id, message_id, data FROM part WHERE session_id = ?1 AND data LIKE '%\"type\":\"text\"%' ORDER BY id";
    for (id, of, data) in
        database.rows(sql, [session], |row| (text(row, "id"), text(row, "message_id"), text(row, "data")))?
    {
        let Some(mut part) = parsed(&id, &data) else { continue };
        part["id"] = id.into();
        if let Some(at) = places.get(&of) {
            messages[*at]["parts"].as_array_mut().expect("it is a list").push(part);
        }
    }
    Ok(messages)
}

/// Reads a session.
fn read(value: &Value, options: &ReadOptions, found: &mut Found) {
    let session = value["info"]["id"].as_str().unwrap_or_default();
    if filled(&value["info"]["parentID"]).is_some() {
        found.notes.push(format!("session {session} is a subagent's, which was asked by the model, and was left out"));
        return;
    }
    let folder = filled(&value["info"]["directory"]);
    let namespace = folder.map(|folder| namespace_of(Path::new(folder))).transpose();
    let namespace = namespace.unwrap_or_else(|error| {
        found.messages.push(Err(error));
        None
    });
    // The person went back to before this message, or this part of it.
    let revert = &value["info"]["revert"];
    let mut is_reverted = false;
    for message in value["messages"].as_array().into_iter().flatten() {
        let is_first = revert["messageID"].is_string() && message["info"]["id"] == revert["messageID"];
        let part = revert["partID"].as_str().filter(|_| is_first);
        is_reverted |= is_first && part.is_none();
        let line = said(session, message, part).and_then(|said| said.into_line(options));
        if let Some(mut line) = line {
            line.namespace.clone_from(&namespace);
            if is_reverted { found.removed.push(line) } else { found.messages.push(Ok(line)) }
        }
        is_reverted |= is_first;
    }
}

/// Returns what a message says, up to a part that was taken back.
fn said(session: &str, message: &Value, reverted: Option<&str>) -> Option<Said> {
    let info = &message["info"];
    let role = if info["role"] == "assistant" { Role::Assistant } else { Role::User };
    // The summary of a compaction repeats what the session has.
    if info["summary"] == true {
        return None;
    }
    let parts = message["parts"].as_array().into_iter().flatten();
    let parts = parts.take_while(|part| reverted.is_none() || part["id"].as_str() != reverted);
    let texts = parts.filter(|part| part["type"] == "text" && part["synthetic"] != true && part["ignored"] != true);
    let texts = texts.filter_map(|part| filled(&part["text"])).map(|text| text_part(unquoted(role, text)));
    Some(Said {
        role,
        name: None,
        parts: texts.collect(),
        time: since_1970(&info["time"]["created"], 1e3),
        session: session.to_owned(),
        id: filled(&info["id"]).map(str::to_owned),
    })
}

/// Returns a prompt without the quotation marks that `opencode run` puts around one with spaces.
fn unquoted(role: Role, text: &str) -> &str {
    let inner = text.strip_prefix('"').and_then(|text| text.strip_suffix('"'));
    inner.filter(|inner| role == Role::User && inner.contains(' ') && !inner.contains('"')).unwrap_or(text)
}
