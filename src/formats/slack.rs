//! Slack's export: `users.json`, a folder for each channel, and in it a file for each day.
//!
//! A thread is a session of its own. Its replies are in the files of their own days.

use std::{collections::HashMap, io};

use serde_json::Value;

use super::{
    counted::{ValueMemory, WithinMemory},
    reader::{Found, ReadOptions, Reader},
    said::{Said, file_part, filled, since_1970, text_part},
    sample::Sample,
    source::SourceFile,
};
use crate::{
    error::{Error, Result},
    message::Role,
};

/// The subtypes of messages that somebody wrote. Others tell who joined, or what was pinned.
const TALK: [&str; 5] = ["thread_broadcast", "me_message", "bot_message", "file_share", "file_comment"];

pub(super) fn is_file(sample: &Sample) -> bool {
    sample.values.first().is_some_and(|value| is_message(value) || is_user(value) || is_channel(value))
}

fn is_message(value: &Value) -> bool {
    value["type"] == "message" && value["ts"].is_string()
}

fn is_user(value: &Value) -> bool {
    value["profile"].is_object() && value["id"].is_string() && value["name"].is_string()
}

/// Whether a value is an entry of `channels.json`, `groups.json`, `dms.json` or `mpims.json`.
fn is_channel(value: &Value) -> bool {
    value["id"].is_string() && value["members"].is_array()
}

pub(super) fn reader(options: &ReadOptions) -> Box<dyn Reader> {
    Box::new(Slack { options: options.clone(), users: HashMap::new() })
}

struct Slack {
    options: ReadOptions,
    /// The names of users by their ids.
    users: HashMap<String, String>,
}

impl Reader for Slack {
    fn read<'f>(&'f mut self, file: SourceFile<'f>) -> Box<dyn Iterator<Item = Result<Found>> + 'f> {
        let name = file.name.clone();
        let channel = name.rsplit(['/', '\\', '!']).nth(1).unwrap_or("slack").to_owned();
        let bytes = WithinMemory(file.into_bytes(), ValueMemory::new(self.options.max_memory));
        let values: Vec<Value> = match serde_json::from_reader(io::BufReader::new(bytes)) {
            Ok(values) => values,
            Err(error) => {
                return Box::new(std::iter::once(Err(Error::file(&name, error.line() as u64, error.to_string()))));
            }
        };
        self.users.extend(values.iter().filter(|value| is_user(value)).filter_map(|user| {
            let shown = name_of(&user["profile"]).or_else(|| filled(&user["name"]))?;
            Some((user["id"].as_str()?.to_owned(), shown.to_owned()))
        }));
        let messages = values.into_iter().filter(is_message).filter_map(move |value| {
            let line = self.said(&channel, &value)?.into_line(&self.options)?;
            Some(Ok(Found { messages: vec![Ok(line)], ..Found::default() }))
        });
        Box::new(messages)
    }
}

impl Slack {
    fn said(&self, channel: &str, message: &Value) -> Option<Said> {
        let subtype = message["subtype"].as_str();
        if subtype.is_some_and(|subtype| !TALK.contains(&subtype)) {
            return None;
        }
        let is_bot = message["bot_id"].is_string();
        let user = message["user"].as_str();
        let name = name_of(&message["user_profile"])
            .map(str::to_owned)
            .or_else(|| self.users.get(user?).cloned())
            .or_else(|| filled(&message["username"]).or(filled(&message["bot_profile"]["name"])).map(str::to_owned))
            .or_else(|| user.map(str::to_owned));
        let mut parts = Vec::new();
        match filled(&message["text"]) {
            Some(text) => parts.push(text_part(self.plain(text))),
            None => parts.push(text_part(texts_of(&message["blocks"]))),
        }
        let files = message["files"].as_array().into_iter().flatten();
        parts.extend(files.filter_map(|file| filled(&file["name"])).map(file_part));
        let ts = message["ts"].as_str().unwrap_or_default();
        let thread = message["thread_ts"].as_str().map(|thread| format!("{channel}/{thread}"));
        Some(Said {
            role: if is_bot { Role::Assistant } else { Role::User },
            name,
            parts,
            time: since_1970(&message["ts"], 1.0),
            session: thread.unwrap_or_else(|| channel.to_owned()),
            id: Some(ts.to_owned()),
        })
    }

    /// Returns a text with the names of users, the labels of links, and without entities.
    fn plain(&self, text: &str) -> String {
        let (mut plain, mut rest) = (String::new(), text);
        while let Some((before, marked)) = rest.split_once('<') {
            plain.push_str(before);
            let Some((mark, after)) = marked.split_once('>') else {
                plain.push('<');
                rest = marked;
                continue;
            };
            let (target, label) = mark.split_once('|').map_or((mark, None), |(target, label)| (target, Some(label)));
            match target.chars().next() {
                Some('@') => {
                    let name = self.users.get(&target[1..]).map(String::as_str).or(label).unwrap_or(&target[1..]);
                    plain.push_str(&format!("@{name}"));
                }
                Some('#') => plain.push_str(&format!("#{}", label.unwrap_or(&target[1..]))),
                Some('!') => plain.push_str(&format!("@{}", label.unwrap_or(&target[1..]).trim_start_matches('@'))),
                _ => match label {
                    Some(label) => plain.push_str(&format!("{label} ({target})")),
                    None => plain.push_str(target),
                },
            }
            rest = after;
        }
        plain.push_str(rest);
        plain.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
    }
}

fn name_of(profile: &Value) -> Option<&str> {
    filled(&profile["display_name"]).or_else(|| filled(&profile["real_name"]))
}

/// Returns all texts within blocks.
fn texts_of(blocks: &Value) -> String {
    match blocks {
        Value::Array(blocks) => blocks.iter().map(texts_of).collect(),
        Value::Object(block) => {
            let text = block.get("text").and_then(Value::as_str).map(str::to_owned);
            text.unwrap_or_else(|| {
                ["elements", "text", "fields"].iter().filter_map(|field| block.get(*field)).map(texts_of).collect()
            })
        }
        _ => String::new(),
    }
}
