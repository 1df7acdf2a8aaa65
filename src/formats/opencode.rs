//! What `opencode export` writes of a session.

use std::path::Path;

use serde_json::Value;

use super::{
    place::namespace_of,
    reader::{Found, ReadOptions, ValueReader, each},
    said::{Said, filled, since_1970, text_part},
};
use crate::message::Role;

pub(super) fn is_value(value: &Value) -> bool {
    value["info"]["id"].is_string()
        && value["messages"]
            .as_array()
            .is_some_and(|messages| messages.iter().all(|message| message["parts"].is_array()))
}

pub(super) fn reader(options: &ReadOptions) -> Box<dyn ValueReader> {
    let options = options.clone();
    each(move |value, found: &mut Found| {
        let session = value["info"]["id"].as_str().unwrap_or_default();
        if filled(&value["info"]["parentID"]).is_some() {
            found
                .notes
                .push(format!("session {session} is a subagent's, which was asked by the model, and was left out"));
            return;
        }
        let namespace = value["info"]["directory"].as_str().map(|folder| namespace_of(Path::new(folder))).transpose();
        let namespace = namespace.unwrap_or_else(|error| {
            found.messages.push(Err(error));
            None
        });
        let messages = value["messages"].as_array().into_iter().flatten();
        let lines = messages.filter_map(|message| said(session, message)?.into_line(&options));
        found.messages.extend(lines.map(|mut line| {
            line.namespace.clone_from(&namespace);
            Ok(line)
        }));
    })
}

fn said(session: &str, message: &Value) -> Option<Said> {
    let info = &message["info"];
    let role = if info["role"] == "assistant" { Role::Assistant } else { Role::User };
    // The summary of a compaction repeats what the session has.
    if info["summary"] == true {
        return None;
    }
    let parts = message["parts"].as_array().into_iter().flatten();
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
