//! Language models.
use serde_json::{Map, Value};

use crate::{error::Result, message::Message};

/// Answers one request.
pub trait ChatModel: Send + Sync {
    /// The answer.
    ///
    /// # Errors
    /// Chat.
    fn chat(&self, request: &ChatRequest) -> Result<Message>;
}

/// A request.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ChatRequest {
    /// Messages.
    pub messages: Vec<Message>,
    /// Options.
    pub options: Map<String, Value>,
}

impl ChatRequest {
    /// New.
    pub fn new(messages: Vec<Message>) -> Self {
        ChatRequest { messages, options: Map::new() }
    }
}
