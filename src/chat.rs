//! Language models: the trait and its request.
//!
//! Memories and prompts are unknown here: the caller writes the request and uses the answer. `client` has an implementation for servers
//! of OpenAI's protocol.

use serde_json::{Map, Value};

use crate::{error::Result, message::Message};

/// A language model. Any `Fn(&ChatRequest) -> Result<Message>` is one, and so is `OpenAiChat` (feature `openai`).
///
/// The engine calls a model from threads of its own, never from the write path, so a call may block. Wrap an async client by blocking
/// on its runtime:
///
/// ```
/// use mnemon::{ChatModel, ChatRequest, Message, Result};
///
/// struct Remote {
///     runtime: tokio::runtime::Handle,
/// }
///
/// impl ChatModel for Remote {
///     fn chat(&self, request: &ChatRequest) -> Result<Message> {
///         self.runtime.block_on(ask(request))
///     }
/// }
///
/// async fn ask(request: &ChatRequest) -> Result<Message> {
///     Ok(Message::assistant(format!("{} messages", request.messages.len()))) // the async client
/// }
///
/// let runtime = tokio::runtime::Runtime::new().unwrap();
/// let model = Remote { runtime: runtime.handle().clone() };
/// let answer = model.chat(&ChatRequest::new(vec![Message::user("hello")]))?;
/// assert_eq!(answer.text(), "1 messages");
/// # Ok::<(), mnemon::Error>(())
/// ```
pub trait ChatModel: Send + Sync {
    /// Answers one request.
    ///
    /// # Errors
    /// [`Error::Chat`](crate::Error::Chat), whose `transient` states whether the same request may succeed later.
    fn chat(&self, request: &ChatRequest) -> Result<Message>;
}

impl<M: ChatModel + ?Sized> ChatModel for std::sync::Arc<M> {
    fn chat(&self, request: &ChatRequest) -> Result<Message> {
        (**self).chat(request)
    }
}

impl<F: Fn(&ChatRequest) -> Result<Message> + Send + Sync> ChatModel for F {
    fn chat(&self, request: &ChatRequest) -> Result<Message> {
        self(request)
    }
}

/// A request to a language model.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ChatRequest {
    /// The conversation to answer.
    pub messages: Vec<Message>,
    /// The most tokens that the answer may have. Default: the server's.
    pub max_tokens: Option<usize>,
    /// Sampling temperature, 0 or more; 0 is deterministic. Default: the server's.
    pub temperature: Option<f32>,
    /// Further fields of the request, passed on unchanged, such as `tools`, `response_format` and `seed`.
    pub options: Map<String, Value>,
}

impl ChatRequest {
    /// Creates a request with these messages and the server's defaults.
    pub fn new(messages: Vec<Message>) -> Self {
        ChatRequest { messages, max_tokens: None, temperature: None, options: Map::new() }
    }

    /// Limits the answer to this many tokens.
    pub fn max_tokens(self, max_tokens: usize) -> Self {
        ChatRequest { max_tokens: Some(max_tokens), ..self }
    }

    /// Sets the temperature.
    pub fn temperature(self, temperature: f32) -> Self {
        ChatRequest { temperature: Some(temperature), ..self }
    }

    /// Adds a field to the request.
    pub fn option(mut self, name: impl Into<String>, value: impl Into<Value>) -> Self {
        self.options.insert(name.into(), value.into());
        self
    }
}
