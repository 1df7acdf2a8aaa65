//! Chats of groups that are one JSON value: Telegram, Discord by DiscordChatExporter, Zulip, and Matrix by Element.
//!
//! Everybody's messages have the role of the user and the name of the speaker. What the service says itself, such as who
//! joined, is left out.

use std::collections::{HashMap, HashSet};

use mail_parser::decoders::html::html_to_text;
use serde_json::Value;

use super::{
    reader::{Found, ReadOptions, ValueReader, each},
    said::{Said, file_part, filled, moment, since_1970, text_part},
};
use crate::message::{ContentPart, Role};

fn reader(options: &ReadOptions, read: fn(&Value, &ReadOptions) -> Vec<Said>) -> Box<dyn ValueReader> {
    let options = options.clone();
    each(move |value, found: &mut Found| {
        let said = read(&value, &options);
        found.messages.extend(said.into_iter().filter_map(|said| said.into_line(&options)).map(Ok));
    })
}

fn list<'v>(value: &'v Value, field: &str) -> impl Iterator<Item = &'v Value> {
    value[field].as_array().into_iter().flatten()
}

pub(super) fn is_telegram(value: &Value) -> bool {
    // Exports of before 2022 have neither `date_unixtime` nor `text_entities`.
    let is_message =
        |one: &Value| matches!(one["type"].as_str(), Some("message" | "service")) && one["date"].is_string();
    let is_chat = |chat: &Value| chat["type"].is_string() && list(chat, "messages").any(is_message);
    is_chat(value) || listed_chats(value).any(is_chat)
}

/// Returns the chats of an export of all chats: those that the person is in, and those that were left.
fn listed_chats(value: &Value) -> impl Iterator<Item = &Value> {
    ["chats", "left_chats"].into_iter().flat_map(move |chats| list(&value[chats], "list"))
}

pub(super) fn telegram(options: &ReadOptions) -> Box<dyn ValueReader> {
    reader(options, |value, options| {
        let alone = value["messages"].is_array().then_some(value);
        let chats = listed_chats(value).chain(alone);
        let messages = chats.flat_map(|chat| list(chat, "messages").map(move |message| (chat, message)));
        let said = messages.filter(|(_, message)| message["type"] == "message").map(|(chat, message)| {
            let local = || options.zone().moment(message["date"].as_str()?.parse().ok()?);
            let mut parts = vec![text_part(telegram_text(&message["text"]))];
            let files = ["file_name", "photo", "file"].iter().find_map(|field| filled(&message[field]));
            parts.extend(files.map(file_part));
            Said {
                name: filled(&message["from"]).map(str::to_owned),
                parts,
                time: since_1970(&message["date_unixtime"], 1.0).or_else(local),
                id: message["id"].as_i64().map(|id| id.to_string()),
                ..Said::by_user(chat_name(chat, "name"), "")
            }
        });
        said.collect()
    })
}

/// Returns the name of a chat and its id, because two may have one name.
fn chat_name(chat: &Value, field: &str) -> String {
    let id = chat["id"].as_i64().map(|id| id.to_string()).or_else(|| chat["id"].as_str().map(str::to_owned));
    match (filled(&chat[field]), id) {
        (Some(name), Some(id)) => format!("{name} ({id})"),
        (name, id) => name.map(str::to_owned).or(id).unwrap_or_default(),
    }
}

fn telegram_text(text: &Value) -> String {
    match text {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts.iter().map(|part| telegram_text(part.get("text").unwrap_or(part))).collect(),
        _ => String::new(),
    }
}

pub(super) fn is_discord(value: &Value) -> bool {
    value["channel"].is_object() && value["messages"].is_array() && value.get("exportedAt").is_some()
}

pub(super) fn discord(options: &ReadOptions) -> Box<dyn ValueReader> {
    reader(options, |value, _| {
        let session = match filled(&value["guild"]["name"]) {
            Some(guild) => format!("{guild}/{}", chat_name(&value["channel"], "name")),
            None => chat_name(&value["channel"], "name"),
        };
        let said = list(value, "messages").filter(|message| !is_discord_notice(message)).map(|message| {
            let author = &message["author"];
            let texts = [&message["content"], &message["forwardedMessage"]["content"]];
            let mut parts: Vec<ContentPart> = texts.into_iter().filter_map(filled).map(text_part).collect();
            parts.extend(list(message, "attachments").filter_map(|file| filled(&file["fileName"])).map(file_part));
            Said {
                role: if author["isBot"] == true { Role::Assistant } else { Role::User },
                name: filled(&author["nickname"]).or_else(|| filled(&author["name"])).map(str::to_owned),
                parts,
                time: moment(&message["timestamp"]),
                session: session.clone(),
                id: filled(&message["id"]).map(str::to_owned),
            }
        });
        said.collect()
    })
}

/// Whether a message tells what happened, such as who joined. The exporter writes the number of a kind that it has no name
/// for: from 19 on they are replies, answers to commands, and the like.
fn is_discord_notice(message: &Value) -> bool {
    match message["type"].as_str().unwrap_or_default() {
        "RecipientAdd"
        | "RecipientRemove"
        | "Call"
        | "ChannelNameChange"
        | "ChannelIconChange"
        | "ChannelPinnedMessage"
        | "GuildMemberJoin"
        | "ThreadCreated" => true,
        kind => kind.parse().is_ok_and(|number: u32| (1..=18).contains(&number)),
    }
}

pub(super) fn is_zulip(value: &Value) -> bool {
    zulip_messages(value).any(|message| message["sender_full_name"].is_string())
}

/// Returns the messages of an answer of the API, or the message that an element of a list is.
fn zulip_messages(value: &Value) -> impl Iterator<Item = &Value> {
    list(value, "messages").chain(value["sender_full_name"].is_string().then_some(value))
}

pub(super) fn zulip(options: &ReadOptions) -> Box<dyn ValueReader> {
    reader(options, |value, _| {
        let said = zulip_messages(value).map(|message| {
            let content = message["content"].as_str().unwrap_or_default();
            let is_html = message["content_type"] == "text/html" || content.starts_with("<p>");
            let text = if is_html { html_to_text(content).trim().to_owned() } else { content.to_owned() };
            // Of messages between people, these are their names.
            let people = list(message, "display_recipient").filter_map(|one| filled(&one["full_name"]));
            let people = people.collect::<Vec<_>>().join(", ");
            let people = if people.is_empty() { "zulip" } else { people.as_str() };
            let stream = filled(&message["display_recipient"]).unwrap_or(people);
            let topic = filled(&message["subject"]).map(|topic| format!("/{topic}")).unwrap_or_default();
            Said {
                name: filled(&message["sender_full_name"]).map(str::to_owned),
                time: since_1970(&message["timestamp"], 1.0),
                id: message["id"].as_i64().map(|id| id.to_string()),
                ..Said::by_user(format!("{stream}{topic}"), text)
            }
        });
        said.collect()
    })
}

pub(super) fn is_matrix(value: &Value) -> bool {
    list(value, "messages").any(|event| event["event_id"].is_string() && event.get("origin_server_ts").is_some())
}

pub(super) fn matrix(options: &ReadOptions) -> Box<dyn ValueReader> {
    reader(options, |value, _| {
        let room = filled(&value["room_name"]).unwrap_or("matrix").to_owned();
        let redacted: HashSet<&str> = list(value, "messages")
            .filter(|event| event["type"] == "m.room.redaction")
            .filter_map(|event| event["redacts"].as_str().or(event["content"]["redacts"].as_str()))
            .collect();
        let (mut originals, mut edits) = (Vec::new(), HashMap::new());
        let is_kept = |event: &&Value| {
            let is_readable = event["content"]["msgtype"] != "m.bad.encrypted";
            event["type"] == "m.room.message" && is_readable && !redacted.contains(id(event))
        };
        for event in list(value, "messages").filter(is_kept) {
            let relation = &event["content"]["m.relates_to"];
            match relation["event_id"].as_str().filter(|_| relation["rel_type"] == "m.replace") {
                // The last edit counts. Only the author may make one.
                Some(edited) => drop(edits.insert((edited, event["sender"].as_str()), event)),
                None => originals.push(event),
            }
        }
        let said = originals.into_iter().map(|event| {
            let edit = edits.get(&(id(event), event["sender"].as_str()));
            let content = edit.map_or(&event["content"], |edit| &edit["content"]["m.new_content"]);
            let body = content["body"].as_str().unwrap_or_default();
            let is_reply = event["content"]["m.relates_to"]["m.in_reply_to"].is_object();
            let said = if is_reply { without_quotation(body) } else { body };
            let parts = match content["msgtype"].as_str() {
                // Beside the name of a file, the body is what was said of it.
                Some("m.image" | "m.file" | "m.audio" | "m.video") => match filled(&content["filename"]) {
                    Some(name) if name != body => vec![text_part(said), file_part(name)],
                    _ => vec![file_part(body)],
                },
                _ => vec![text_part(said)],
            };
            Said {
                name: filled(&event["sender"]).map(str::to_owned),
                parts,
                time: since_1970(&event["origin_server_ts"], 1e3),
                id: filled(&event["event_id"]).map(str::to_owned),
                ..Said::by_user(room.as_str(), "")
            }
        });
        said.collect()
    })
}

fn id(event: &Value) -> &str {
    event["event_id"].as_str().unwrap_or_default()
}

/// Returns a reply without the message before it that some clients quote at its beginning.
fn without_quotation(body: &str) -> &str {
    match body.starts_with("> <") || body.starts_with("> * <") {
        true => body.split_once("\n\n").map_or(body, |(_, reply)| reply),
        false => body,
    }
}
