//! Transcripts of Claude Code: a line for each block of a message, with its id, session, folder and time.
//!
//! Lines form a tree: each names the one before it. A prompt that was edited has a sibling, and what the path from the last
//! line to the root does not contain was taken back.

use std::collections::{HashMap, HashSet, VecDeque};

use serde_json::Value;

use super::{
    agent::{Held, Item, Said, Transcript, add_answer, add_call, add_output, add_text, answered, said},
    reader::{EarlierFiles, Found, ReadOptions, ValueReader},
    said::filled,
};
use crate::message::Role;

/// Marks of lines that are no part of the conversation.
const ASIDE: [&str; 5] =
    ["isMeta", "isSidechain", "isCompactSummary", "isVisibleInTranscriptOnly", "isApiErrorMessage"];
/// Types of lines without a session.
const TYPES: [&str; 3] = ["summary", "file-history-snapshot", "file-history-delta"];
/// What Claude Code writes for a person who chose to talk about the questions first, and said nothing yet (seen in 2.1.332).
const CHAT_ABOUT_QUESTIONS: &str = "The user wants to clarify these questions.";
/// What stands before the words with which a person refused a call.
const REFUSALS: [&str; 2] = ["the user said:\n", "The user provided the following reason for the rejection:"];
/// What the agent adds to such words.
const AFTER_REFUSAL: &str = "\n\nNote: The user's next message may contain";
/// What the agent adds to answers.
const AFTER_ANSWERS: &str = ". You can now continue with the user's answers in mind.";

/// Whether a value is a line of a transcript.
pub(super) fn is_line(value: &Value) -> bool {
    let Some(kind) = value["type"].as_str() else { return false };
    value["sessionId"].is_string() || value["leafUuid"].is_string() || TYPES.contains(&kind)
}

pub(super) fn reader(options: &ReadOptions) -> Box<dyn ValueReader> {
    let (tool_output, transcript) = (options.tool_output, Transcript::new(options));
    Box::new(ClaudeCode { tool_output, transcript, ..ClaudeCode::default() })
}

#[derive(Default)]
struct ClaudeCode {
    tool_output: usize,
    transcript: Transcript,
    session: String,
    /// The ids of the lines, each with that of its parent, which is empty for a root.
    lines: Vec<(String, String)>,
    /// Calls that ask the person: their names and arguments by their ids.
    asked: HashMap<String, (String, Value)>,
    queue: VecDeque<Queued>,
}

/// A prompt that was typed while the agent worked.
struct Queued {
    text: String,
    time: Value,
    /// Whether it came as an attachment, too.
    is_attached: bool,
}

impl ValueReader for ClaudeCode {
    fn read(&mut self, line: Value, found: &mut Found) {
        let is_sidechain = line["isSidechain"] == true;
        if let Some(session) = line["sessionId"].as_str().filter(|_| !is_sidechain) {
            session.clone_into(&mut self.session);
        }
        if let Some(id) = line["uuid"].as_str().filter(|_| !is_sidechain) {
            // A compaction breaks the chain, and names the line before it in another field.
            let parent = ["parentUuid", "logicalParentUuid"].iter().find_map(|field| line[*field].as_str());
            self.lines.push((id.to_owned(), parent.unwrap_or_default().to_owned()));
        }
        if ASIDE.iter().any(|mark| line[mark] == true) {
            return;
        }
        let mut said = Said::new();
        let mut is_prompt = false;
        match line["type"].as_str() {
            Some("user") => is_prompt = self.user(&line, &mut said),
            Some("assistant") if line["message"]["model"] != "<synthetic>" => self.assistant(&line, &mut said),
            Some("attachment") if line["attachment"]["type"] == "queued_command" => {
                self.attachment(&line["attachment"], &mut said);
            }
            Some("queue-operation") => return self.queue_operation(&line, found),
            _ => {}
        }
        let (id, time) = (line["uuid"].as_str(), &line["timestamp"]);
        let (session, folder) = (&*self.session, line["cwd"].as_str());
        let item = Item { session, folder, id, time, node: id.unwrap_or_default(), is_prompt };
        if said.is_empty() {
            // The session begins here all the same. A folder whose name is none is an error of its first message.
            let _ = self.transcript.place(session, folder);
        }
        self.transcript.hold(&item, said, found);
    }

    fn end(&mut self, _: &mut EarlierFiles) -> VecDeque<Found> {
        let removed = self.taken_back();
        self.transcript.end(|held| removed.contains(&held.node))
    }
}

impl ClaudeCode {
    /// Reads a line in the user's name. Returns true if a person typed it as a prompt.
    fn user(&mut self, line: &Value, said: &mut Said) -> bool {
        let author = is_person(line);
        let blocks = match &line["message"]["content"] {
            Value::Array(blocks) => blocks.as_slice(),
            text => std::slice::from_ref(text),
        };
        let mut is_prompt = false;
        for block in blocks {
            if block["type"] == "tool_result" {
                self.result(block, line, said);
            } else if let Some(plan) = line["planContent"].as_str() {
                // The model's plan, to which the person agreed.
                add_answer(said, plan, "");
                break;
            } else if author != Some(false)
                && let Some(text) = block.as_str().or(block["text"].as_str())
                && let Some(text) = self::said(text, author == Some(true))
            {
                add_text(said, Role::User, text);
                is_prompt = true;
            }
        }
        is_prompt
    }

    fn assistant(&mut self, line: &Value, said: &mut Said) {
        let content = &line["message"]["content"];
        if let Some(text) = content.as_str().and_then(answered) {
            add_text(said, Role::Assistant, text);
        }
        for block in content.as_array().into_iter().flatten() {
            match block["type"].as_str() {
                Some("text") => {
                    if let Some(text) = block["text"].as_str().and_then(answered) {
                        add_text(said, Role::Assistant, text);
                    }
                }
                Some("tool_use") => {
                    if let (Some(id), Some(name @ ("AskUserQuestion" | "ExitPlanMode"))) =
                        (block["id"].as_str(), block["name"].as_str())
                    {
                        self.asked.insert(id.to_owned(), (name.to_owned(), block["input"].clone()));
                    }
                    add_call(said, &block["id"], &block["name"], block["input"].clone(), self.tool_output);
                }
                _ => {}
            }
        }
    }

    /// Reads the result of a call, which may be the answer of the person.
    fn result(&mut self, block: &Value, line: &Value, said: &mut Said) {
        let more = &line["toolUseResult"];
        let text = match &block["content"] {
            Value::String(text) => text.clone(),
            Value::Array(parts) => parts.iter().filter_map(|part| part["text"].as_str()).collect(),
            _ => String::new(),
        };
        add_output(said, &block["tool_use_id"], &text, self.tool_output);
        let asked = block["tool_use_id"].as_str().and_then(|id| self.asked.remove(id));
        let (name, input) = asked.unwrap_or_default();
        let plan = input["plan"].as_str().or(more["plan"].as_str()).unwrap_or_default();
        if block["is_error"] == true {
            // Newer versions have the words alone, too.
            if let Some(words) = filled(&line["userFeedback"]).or_else(|| refusal(&text)) {
                let questions = input["questions"].as_array().into_iter().flatten();
                let questions: Vec<&str> = questions.filter_map(|question| question["question"].as_str()).collect();
                let question = if name == "ExitPlanMode" { plan.to_owned() } else { questions.join("\n") };
                add_answer(said, &question, words);
            }
        } else if name == "ExitPlanMode" {
            add_answer(said, plan, "");
        } else if name == "AskUserQuestion" || text.starts_with("User has answered your questions: ") {
            for (question, answer) in answers(&text, more) {
                add_answer(said, &question, &answer);
            }
        }
    }

    /// Reads a prompt that was typed while the agent worked, as newer versions write it.
    fn attachment(&mut self, attachment: &Value, said: &mut Said) {
        let is_prompt = attachment["commandMode"].as_str().is_none_or(|mode| mode == "prompt");
        if !is_prompt || is_person(attachment) == Some(false) {
            return;
        }
        let prompt = &attachment["prompt"];
        let blocks = prompt.as_array().into_iter().flatten().filter_map(|block| block["text"].as_str());
        for text in prompt.as_str().into_iter().chain(blocks) {
            if let Some(queued) = self.queue.iter_mut().find(|queued| queued.text == text && !queued.is_attached) {
                queued.is_attached = true;
            }
            if let Some(text) = self::said(text, is_person(attachment) == Some(true)) {
                self.forget_queued(&text);
                add_text(said, Role::User, text);
            }
        }
    }

    /// Drops a prompt of the queue that comes in another form.
    fn forget_queued(&mut self, text: &str) {
        let is_same =
            |held: &Held| held.is_queued && held.message.as_ref().is_ok_and(|line| line.message.text() == text);
        if let Some(at) = self.transcript.held.iter().rposition(is_same) {
            self.transcript.held.remove(at);
        }
    }

    /// Follows the queue of prompts. One that is removed was given to the model while it worked; one that is dequeued follows
    /// as a line of the user.
    fn queue_operation(&mut self, line: &Value, found: &Found) {
        let content = line["content"].as_str();
        match line["operation"].as_str() {
            Some("enqueue") => {
                let (text, time) = (content.unwrap_or_default().to_owned(), line["timestamp"].clone());
                self.queue.push_back(Queued { text, time, is_attached: false });
            }
            Some("popAll") => self.queue.clear(),
            Some(operation @ ("dequeue" | "remove")) => {
                let is_named = |queued: &Queued| content.is_some_and(|content| queued.text == content);
                let at = self.queue.iter().position(is_named).unwrap_or(0);
                let Some(queued) = self.queue.remove(at).filter(|_| operation == "remove") else { return };
                let Some(text) = self::said(&queued.text, false).filter(|_| !queued.is_attached) else { return };
                let id = format!("queued/{}/{}", queued.time.as_str().unwrap_or_default(), found.line);
                let node = self.lines.last().map_or("", |(id, _)| id);
                let (session, time) = (&*self.session, &queued.time);
                let item = Item { session, folder: None, id: Some(&id), time, node, is_prompt: false };
                let mut said = Said::new();
                add_text(&mut said, Role::User, text);
                self.transcript.hold(&item, said, found);
                self.transcript.held.last_mut().expect("it was added").is_queued = true;
            }
            _ => {}
        }
    }

    /// Returns the lines that were taken back: prompts with a sibling on the path from the last line to the root, and all
    /// that followed them.
    fn taken_back(&self) -> HashSet<String> {
        let parents: HashMap<&str, &str> = self.lines.iter().map(|(id, parent)| (&**id, &**parent)).collect();
        let last = self.lines.last().map(|(id, _)| &**id);
        // A circle of parents would have no end.
        let shown = std::iter::successors(last, |id| parents.get(id).copied()).take(self.lines.len());
        let shown: HashSet<&str> = shown.collect();
        let parent_of = |held: &Held| parents.get(&*held.node).copied().filter(|parent| !parent.is_empty());
        let (kept, other): (Vec<&Held>, Vec<&Held>) =
            self.transcript.held.iter().filter(|held| held.is_prompt).partition(|held| shown.contains(&*held.node));
        let edited: HashSet<&str> = kept.into_iter().filter_map(parent_of).collect();
        let mut removed: HashSet<String> = other
            .into_iter()
            .filter(|held| parent_of(held).is_some_and(|parent| edited.contains(parent)))
            .map(|held| held.node.clone())
            .collect();
        // A line follows its parent.
        for (id, parent) in &self.lines {
            if removed.contains(parent) {
                removed.insert(id.clone());
            }
        }
        removed
    }
}

/// Whether a person wrote what a line has in the user's name. `None`: the line does not say.
fn is_person(line: &Value) -> Option<bool> {
    let kind = line["origin"]["kind"].as_str().map(|kind| kind == "human");
    kind.or_else(|| line["promptSource"].as_str().map(|source| source != "system"))
}

/// Returns the words with which a person refused a call.
fn refusal(text: &str) -> Option<&str> {
    let (_, words) = REFUSALS.iter().find_map(|before| text.split_once(before))?;
    let words = words.split(AFTER_REFUSAL).next().unwrap_or_default().trim();
    (!words.is_empty() && !words.starts_with(CHAT_ABOUT_QUESTIONS)).then_some(words)
}

/// Returns the questions of a call, and their answers with the notes of the person.
fn answers(text: &str, more: &Value) -> Vec<(String, String)> {
    if let Some(answers) = more["answers"].as_object() {
        let answer = |(question, answer): (&String, &Value)| {
            let notes = more["annotations"][question]["notes"].as_str().unwrap_or_default();
            let answer = match answer {
                Value::String(answer) => answer.clone(),
                Value::Array(chosen) => chosen.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(", "),
                _ => String::new(),
            };
            (question.clone(), format!("{answer}\n{notes}"))
        };
        // In the order in which they were asked.
        let asked = more["questions"].as_array().into_iter().flatten().filter_map(|asked| asked["question"].as_str());
        let order: Vec<&str> = asked.collect();
        let mut answers: Vec<(String, String)> = answers.iter().map(answer).collect();
        answers.sort_by_key(|(question, _)| order.iter().position(|asked| asked == question));
        return answers;
    }
    let text = text.trim_end().trim_end_matches(AFTER_ANSWERS);
    let mut answers = Vec::new();
    let mut rest = text.split_once(": ").map_or("", |(_, rest)| rest);
    while let Some((question, after)) = rest.strip_prefix('"').and_then(|rest| rest.split_once("\"=\"")) {
        // The next question begins behind a comma, and has an answer.
        let next = |at: &usize| after[*at..].starts_with(", \"") && after[*at..].contains("\"=\"");
        let end = after.match_indices(", \"").map(|(at, _)| at).find(next).unwrap_or(after.len());
        let (answer, notes) = after[..end].split_once("\" user notes: ").unwrap_or((&after[..end], ""));
        let answer = answer.split("\" selected preview:").next().unwrap_or_default();
        let answer = answer.trim_end_matches('.').trim_end_matches('"');
        answers.push((question.to_owned(), format!("{answer}\n{notes}")));
        rest = after[end..].strip_prefix(", ").unwrap_or_default();
    }
    answers
}
