//! Transcripts of Claude Code: a line for each message of Anthropic's API, with its id, session, folder and time.

use serde_json::{Value, json};

use super::{
    agent::Transcript,
    reader::{Found, ReadOptions, ValueReader},
};
use crate::{error::Result, message::MessageLine};

/// Marks of lines that are no part of the conversation.
const ASIDE: [&str; 4] = ["isMeta", "isSidechain", "isCompactSummary", "isApiErrorMessage"];

/// Whether a value is a line of a transcript.
pub(super) fn is_line(value: &Value) -> bool {
    value["type"].is_string()
        && (value["sessionId"].is_string() || value["leafUuid"].is_string() || value["type"] == "file-history-snapshot")
}

pub(super) fn reader(options: &ReadOptions) -> Box<dyn ValueReader> {
    Box::new(ClaudeCode { transcript: Transcript::new(options.tool_output) })
}

struct ClaudeCode {
    transcript: Transcript,
}

impl ValueReader for ClaudeCode {
    fn read(&mut self, value: Value, found: &mut Found) {
        match self.line(&value) {
            Ok(messages) => found.messages.extend(messages.into_iter().map(Ok)),
            Err(error) => found.messages.push(Err(error)),
        }
    }
}

impl ClaudeCode {
    fn line(&mut self, line: &Value) -> Result<Vec<MessageLine>> {
        let is_aside = ASIDE.iter().any(|mark| line[mark] == true);
        if is_aside || !matches!(line["type"].as_str(), Some("user" | "assistant")) {
            return Ok(Vec::new());
        }
        if let Some(session) = line["sessionId"].as_str() {
            self.transcript.session = Some(session.to_owned());
        }
        self.transcript.place(&line["cwd"])?;
        let blocks = match &line["message"]["content"] {
            Value::String(text) => vec![json!({"type": "text", "text": text})],
            Value::Array(blocks) => blocks.clone(),
            _ => Vec::new(),
        };
        let role = &line["message"]["role"];
        self.transcript.messages(role, blocks, &line["timestamp"], line["uuid"].as_str().map(str::to_owned))
    }
}
