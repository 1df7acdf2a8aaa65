//! Asking a language model: the trait, the request, and a client for servers of OpenAI's protocol.
//!
//! Knows no memories and no prompts: what is asked, and what is done with the answer, is the caller's. No type of the
//! HTTP client leaves this module.

#[cfg(feature = "openai")]
mod openai;

use serde_json::{Map, Value};

#[cfg(feature = "openai")]
pub use openai::OpenAiChat;

use crate::{error::Result, message::Message};

/// A language model. Any `Fn(&ChatRequest) -> Result<Message>` is one, and so is
#[cfg_attr(feature = "openai", doc = "[`OpenAiChat`].")]
#[cfg_attr(not(feature = "openai"), doc = "`OpenAiChat` (feature `openai`).")]
///
/// Calls come from threads of the engine's own, never from the write path, and may block. A client that is async is
/// waited for with its runtime:
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
    /// [`Error::Chat`](crate::Error::Chat), which says whether it is worth trying again.
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

/// What a model is asked.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ChatRequest {
    /// The conversation that the answer continues.
    pub messages: Vec<Message>,
    /// The most tokens of the answer. Default: the server's.
    pub max_tokens: Option<usize>,
    /// How much chance there is in the answer: from 0, none. Default: the server's.
    pub temperature: Option<f32>,
    /// Further fields of the request, passed on as they are: `tools`, `response_format`, `seed`.
    pub options: Map<String, Value>,
}

impl ChatRequest {
    /// These messages, all else left to the server.
    pub fn new(messages: Vec<Message>) -> Self {
        ChatRequest { messages, max_tokens: None, temperature: None, options: Map::new() }
    }

    /// The same request for an answer of at most so many tokens.
    pub fn max_tokens(self, max_tokens: usize) -> Self {
        ChatRequest { max_tokens: Some(max_tokens), ..self }
    }

    /// The same request at this temperature.
    pub fn temperature(self, temperature: f32) -> Self {
        ChatRequest { temperature: Some(temperature), ..self }
    }

    /// The same request with this field.
    pub fn option(mut self, name: impl Into<String>, value: impl Into<Value>) -> Self {
        self.options.insert(name.into(), value.into());
        self
    }
}
