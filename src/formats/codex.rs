//! Rollouts of Codex: items of OpenAI's Responses API, after the session's id and folder.

use serde_json::{Value, json};

use super::{
    agent::Transcript,
    reader::{Found, ReadOptions, ValueReader},
};
use crate::{error::Result, message::MessageLine};

/// Whether a value is a line of a rollout.
pub(super) fn is_line(value: &Value) -> bool {
    value["type"].is_string() && value["payload"].is_object() && value["timestamp"].is_string()
}

pub(super) fn reader(options: &ReadOptions) -> Box<dyn ValueReader> {
    Box::new(Codex { transcript: Transcript::new(options.tool_output), lines: 0 })
}

struct Codex {
    transcript: Transcript,
    /// Number of lines that were read.
    lines: usize,
}

impl ValueReader for Codex {
    fn read(&mut self, value: Value, found: &mut Found) {
        match self.line(&value) {
            Ok(messages) => found.messages.extend(messages.into_iter().map(Ok)),
            Err(error) => found.messages.push(Err(error)),
        }
    }
}

impl Codex {
    /// Reads a line of a rollout of Codex: an item of OpenAI's Responses API, or the session's id and folder.
    fn line(&mut self, line: &Value) -> Result<Vec<MessageLine>> {
        self.lines += 1;
        let item = &line["payload"];
        match line["type"].as_str() {
            // The first is the session's own; others are of the session that it continues.
            Some("session_meta") if self.transcript.session.is_none() => {
                self.transcript.session = item["id"].as_str().map(str::to_owned);
                self.transcript.place(&item["cwd"])?;
                return Ok(Vec::new());
            }
            Some("response_item") => {}
            _ => return Ok(Vec::new()),
        }
        let call =
            |input: Value| json!({"type": "tool_use", "id": item["call_id"], "name": item["name"], "input": input});
        let (role, blocks) = match item["type"].as_str() {
            Some("message") if item["role"] == "user" || item["role"] == "assistant" => {
                let parts = item["content"].as_array().into_iter().flatten();
                let texts = parts.filter(|part| part["type"] == "input_text" || part["type"] == "output_text");
                (item["role"].clone(), texts.map(|part| json!({"type": "text", "text": part["text"]})).collect())
            }
            Some("function_call") => {
                let arguments = item["arguments"].as_str().unwrap_or_default();
                let arguments = serde_json::from_str(arguments).unwrap_or_else(|_| Value::from(arguments));
                ("assistant".into(), vec![call(arguments)])
            }
            Some("custom_tool_call") => ("assistant".into(), vec![call(item["input"].clone())]),
            Some("function_call_output" | "custom_tool_call_output") => {
                let output = item["output"].get("content").unwrap_or(&item["output"]);
                let result = json!({"type": "tool_result", "tool_use_id": item["call_id"], "content": output});
                ("user".into(), vec![result])
            }
            _ => return Ok(Vec::new()),
        };
        // Rollouts only grow, so a line keeps its number.
        let id = self.transcript.session.as_ref().map(|session| format!("{session}/{}", self.lines));
        self.transcript.messages(&role, blocks, &line["timestamp"], id)
    }
}
