//! Rollouts of Codex: items of OpenAI's Responses API, after the session's id and folder.
//!
//! A session that was forked off, or continued in a new file, begins with a copy of the lines of another, which all have the
//! time of the copy. Their messages are those of the other session, so that they are stored once. Newer versions copy nothing:
//! lines have numbers, and a session that went back to before one continues in a second file, which names that line.

use std::collections::{HashMap, VecDeque};

use serde_json::Value;

use super::{
    agent::{Item, Said, Transcript, add_answer, add_call, add_output, add_text, answered, said, within},
    reader::{EarlierFiles, Found, ReadOptions, ValueReader},
};
use crate::message::{Message, MessageLine, Role, Timestamp};

/// The longest time between two lines of a copy, in microseconds.
const COPY_GAP: i64 = 250_000;
/// The tool with which the model asks the person.
const QUESTION: &str = "request_user_input";

/// Whether a value is a line of a rollout: an item in its envelope, or one of those with which rollouts began before
/// September 2025.
pub(super) fn is_line(value: &Value) -> bool {
    let has_envelope = value["type"].is_string() && value["payload"].is_object();
    let is_head = value["id"].is_string() && value["timestamp"].is_string() && value.get("instructions").is_some();
    has_envelope || is_head || value["record_type"].is_string()
}

pub(super) fn reader(options: &ReadOptions) -> Box<dyn ValueReader> {
    let (tool_output, transcript) = (options.tool_output, Transcript::new(options));
    Box::new(Codex { tool_output, transcript, ..Codex::default() })
}

#[derive(Default)]
struct Codex {
    tool_output: usize,
    transcript: Transcript,
    own: Session,
    /// The session of which this one begins with a copy.
    copied: Option<Session>,
    copy: CopyState,
    /// Whether a program, such as another agent, is the user of the session.
    is_aside: bool,
    /// When the last line was written.
    written: Option<Timestamp>,
    /// The questions of the model by their calls, and for each its id.
    asked: HashMap<String, Value>,
}

/// How far a copy of other lines has been read.
#[derive(Default, PartialEq)]
enum CopyState {
    /// The next line may begin one.
    #[default]
    Possible,
    /// Lines are those of the other session.
    Read,
    /// Lines are of sessions that cannot be told from each other: the other begins with a copy, too.
    Mixed,
    Ended,
}

#[derive(Default)]
struct Session {
    id: String,
    folder: Option<String>,
    /// When the session began.
    began: Option<Timestamp>,
    /// Number of messages that were read.
    messages: usize,
    /// The number of the line from which on earlier files of the session were taken back.
    continued_from: Option<u64>,
}

impl Session {
    fn new(item: &Value, time: Option<Timestamp>) -> Self {
        let text = |field: &str| item[field].as_str().map(str::to_owned);
        let base = &item["history_base"];
        let continued_from = base["end_ordinal_exclusive"].as_u64().filter(|_| base["thread_id"] == item["id"]);
        Session { id: text("id").unwrap_or_default(), folder: text("cwd"), began: time, messages: 0, continued_from }
    }

    /// Returns the id of the next message. A rollout only grows, and a copy has the same messages, so a message keeps its
    /// number.
    fn next_id(&mut self) -> String {
        self.messages += 1;
        match self.continued_from {
            Some(line) => format!("{line}/{}/{}", self.began.map_or(0, Timestamp::as_micros), self.messages),
            None => self.messages.to_string(),
        }
    }
}

impl ValueReader for Codex {
    fn read(&mut self, line: Value, found: &mut Found) {
        let time = line["timestamp"].as_str().and_then(|time| time.parse().ok());
        let kind = line["type"].as_str().unwrap_or_default();
        // Before September 2025 items have no envelope.
        let item = line.get("payload").unwrap_or(&line);
        match kind {
            "session_meta" => self.begin(item, time),
            "" if line["id"].is_string() && self.own.id.is_empty() => self.own = Session::new(item, time),
            _ => {}
        }
        self.follow_copy(time);
        if self.is_aside || self.copy == CopyState::Mixed {
            return;
        }
        match (kind, item["type"].as_str()) {
            ("event_msg", Some("thread_rolled_back")) => self.roll_back(item["num_turns"].as_u64().unwrap_or(0)),
            ("session_meta" | "event_msg" | "turn_context" | "compacted" | "", _) => {}
            _ => self.item(item, &line, found),
        }
    }

    fn end(&mut self, earlier: &mut EarlierFiles) -> VecDeque<Found> {
        let (began, from) = (self.own.began, self.own.continued_from);
        let session = earlier.entry(self.own.id.clone()).or_default();
        // The files of a session may come in any order.
        let later = session.replaced.iter().filter(|(other, _)| *other > began);
        let end = later.map(|(_, from)| *from).min().unwrap_or(u64::MAX);
        session.replaced.extend(from.map(|from| (began, from)));
        let is_replaced = |(other, number, _): &(Option<Timestamp>, u64, MessageLine)| {
            *other < began && from.is_some_and(|from| *number >= from)
        };
        let removed: Vec<_> = session.messages.extract_if(.., |message| is_replaced(message)).collect();
        session.messages.extend(self.transcript.held.iter().filter_map(|held| {
            let MessageLine { namespace, message, has_id } = held.message.as_ref().ok()?;
            let message = Message { session: message.session.clone(), ..Message::user("").with_id(&message.id) };
            let number = held.node.parse::<u64>().ok().filter(|number| *number < end)?;
            Some((began, number, MessageLine { namespace: namespace.clone(), message, has_id: *has_id }))
        }));
        let is_after_end = |node: &str| node.parse::<u64>().is_ok_and(|number| number >= end);
        let mut found = self.transcript.end(|held| held.node == ROLLED_BACK || is_after_end(&held.node));
        if !removed.is_empty() {
            let removed = removed.into_iter().map(|(.., line)| line).collect();
            found.push_back(Found { removed, ..Found::default() });
        }
        found
    }
}

/// The mark of messages that were taken back.
const ROLLED_BACK: &str = "rolled back";

impl Codex {
    /// Reads the head of a session: the first is that of the file, and others are of copied ones.
    fn begin(&mut self, item: &Value, time: Option<Timestamp>) {
        if self.own.id.is_empty() {
            self.own = Session::new(item, time);
            let source = &item["source"];
            self.is_aside = ["subagent", "internal"].iter().any(|kind| source.get(kind).is_some())
                || item["thread_source"] == "subagent";
        } else if item["id"] != *self.own.id {
            self.copy = match &self.copied {
                None if self.own.messages == 0 => {
                    self.copied = Some(Session::new(item, time));
                    CopyState::Read
                }
                Some(copied) if item["id"] != *copied.id => CopyState::Mixed,
                _ => return,
            };
        }
    }

    /// Finds out whether the copy of another session has ended.
    fn follow_copy(&mut self, time: Option<Timestamp>) {
        let last = self.written;
        self.written = time.or(last);
        if let (CopyState::Read | CopyState::Mixed, Some(time)) = (&self.copy, time) {
            let is_soon = |earlier: Option<Timestamp>, gap: i64| {
                earlier.is_some_and(|earlier| time.as_micros() - earlier.as_micros() <= gap)
            };
            if !is_soon(self.own.began, 0) && !is_soon(last.max(self.own.began), COPY_GAP) {
                self.copy = CopyState::Ended;
            }
        }
    }

    fn item(&mut self, item: &Value, line: &Value, found: &Found) {
        let mut said = Said::new();
        let mut is_prompt = false;
        let mut id = None;
        let session = match (&self.copy, &mut self.copied) {
            (CopyState::Read, Some(copied)) => copied,
            _ => &mut self.own,
        };
        let call_id = item["call_id"].as_str().unwrap_or_default();
        match item["type"].as_str() {
            Some("message") => {
                let role = item["role"].as_str();
                if !matches!(role, Some("user" | "assistant")) {
                    return;
                }
                id = Some(session.next_id());
                for (at, part) in item["content"].as_array().into_iter().flatten().enumerate() {
                    let Some(text) = part["text"].as_str() else { continue };
                    if session.folder.is_none() && text.trim_start().starts_with("<environment_context>") {
                        session.folder = within(text, "cwd").map(str::to_owned);
                    }
                    match role {
                        Some("user") => {
                            let author = is_person(item, at);
                            let text = self::said(text, author == Some(true));
                            if let Some(text) = text.filter(|_| author != Some(false)) {
                                add_text(&mut said, Role::User, text);
                                is_prompt = true;
                            }
                        }
                        _ => {
                            if let Some(text) = answered(text) {
                                add_text(&mut said, Role::Assistant, text);
                            }
                        }
                    }
                }
            }
            Some("function_call") => {
                let arguments = item["arguments"].as_str().unwrap_or_default();
                let arguments = serde_json::from_str(arguments).unwrap_or_else(|_| Value::from(arguments));
                if item["name"] == QUESTION {
                    self.asked.insert(call_id.to_owned(), arguments["questions"].clone());
                }
                add_call(&mut said, &item["call_id"], &item["name"], arguments, self.tool_output);
            }
            Some("custom_tool_call") => {
                add_call(&mut said, &item["call_id"], &item["name"], item["input"].clone(), self.tool_output);
            }
            Some("function_call_output" | "custom_tool_call_output") => {
                let output = item["output"].get("content").unwrap_or(&item["output"]);
                let output = match output {
                    Value::String(text) => text.clone(),
                    Value::Array(parts) => parts.iter().filter_map(|part| part["text"].as_str()).collect(),
                    _ => String::new(),
                };
                id = (!call_id.is_empty()).then(|| format!("{call_id}/output"));
                add_output(&mut said, &item["call_id"], &output, self.tool_output);
                if let Some(questions) = self.asked.remove(call_id) {
                    add_answers(&mut said, &questions, &output);
                }
            }
            _ => return,
        }
        let id = id.or_else(|| (!call_id.is_empty()).then(|| call_id.to_owned()));
        let (session, folder) = (&*session.id, session.folder.as_deref());
        let id = id.as_deref().filter(|_| !session.is_empty());
        let number = line["ordinal"].as_u64().map(|number| number.to_string()).unwrap_or_default();
        let item = Item { session, folder, id, time: &line["timestamp"], node: &number, is_prompt };
        self.transcript.hold(&item, said, found);
    }

    /// Marks the messages of the last turns, which the person took back.
    fn roll_back(&mut self, turns: u64) {
        let held = &mut self.transcript.held;
        let standing = held.iter().enumerate().filter(|(_, held)| held.is_prompt && held.node != ROLLED_BACK);
        let prompts: Vec<usize> = standing.map(|(at, _)| at).collect();
        let first = prompts.len().saturating_sub(turns as usize);
        if let Some(first) = prompts.get(first) {
            held[*first..].iter_mut().for_each(|held| held.node = ROLLED_BACK.to_owned());
        }
    }
}

/// Whether a person wrote a part of an item in the user's name. `None`: the item does not say.
fn is_person(item: &Value, part: usize) -> Option<bool> {
    let notes = &item["internal_chat_message_metadata_passthrough"];
    let author = notes["content_item_metadata"][part]["provenance"]["type"].as_str();
    let kind = notes["content_item_kinds"][part].as_str().filter(|kind| *kind != "unknown");
    author.map(|author| author == "user").or_else(|| kind.map(|kind| kind.starts_with("user.")))
}

/// Adds the questions of a call and their answers: `{"answers": {ID: {"answers": [...]}}}`.
fn add_answers(said: &mut Said, questions: &Value, output: &str) {
    let answers: Value = serde_json::from_str(output).unwrap_or_default();
    for question in questions.as_array().into_iter().flatten() {
        let chosen = &answers["answers"][question["id"].as_str().unwrap_or_default()]["answers"];
        let chosen: Vec<&str> = chosen.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let notes = chosen.iter().map(|text| text.strip_prefix("user_note: ").unwrap_or(text));
        let answer = notes.collect::<Vec<_>>().join("\n");
        if !answer.is_empty() {
            add_answer(said, question["question"].as_str().unwrap_or_default(), &answer);
        }
    }
}
