//! Language models: the trait, its request and its answer.
//!
//! This module knows nothing of memories and prompts: the caller writes the request and reads the answer. The module
//! `client` implements the trait for servers with OpenAI's protocol.

use std::{future::ready, pin::Pin, sync::Arc};

use serde_json::{Map, Value};

use crate::{calls::block_on, error::Result, message::Message};

/// The future of a [`ChatModel`]'s answer.
pub type ChatFuture<'a> = Pin<Box<dyn Future<Output = Result<ChatAnswer>> + Send + 'a>>;

/// A language model. Any `Fn(&ChatRequest) -> Result<Message>` is one, and so is `OpenAiChat` (feature `openai`).
///
/// [`chat`](ChatModel::chat) is for async programs, [`chat_blocking`](ChatModel::chat_blocking) for threads that may
/// wait. Memory blocks call `chat_blocking` on background threads, never on the write path. These threads belong to no
/// async runtime, so an async client that needs a runtime must hold its handle:
///
/// ```
/// use mnemon::{ChatAnswer, ChatFuture, ChatModel, ChatRequest, Message, Result};
///
/// struct Remote {
///     runtime: tokio::runtime::Handle,
/// }
///
/// impl ChatModel for Remote {
///     fn chat<'a>(&'a self, request: &'a ChatRequest) -> ChatFuture<'a> {
///         let answer = self.runtime.spawn(ask(request.clone()));
///         Box::pin(async { answer.await.expect("the client does not panic") })
///     }
/// }
///
/// async fn ask(request: ChatRequest) -> Result<ChatAnswer> {
///     Ok(Message::assistant(format!("{} messages", request.messages.len())).into()) // the async client
/// }
///
/// let runtime = tokio::runtime::Runtime::new().unwrap();
/// let model = Remote { runtime: runtime.handle().clone() };
/// let request = ChatRequest::new(vec![Message::user("hello")]);
/// assert_eq!(model.chat_blocking(&request)?.text(), "1 messages");
/// assert_eq!(runtime.block_on(model.chat(&request))?.text(), "1 messages");
/// # Ok::<(), mnemon::Error>(())
/// ```
pub trait ChatModel: Send + Sync {
    /// Answers one request.
    ///
    /// # Errors
    /// [`Error::Chat`](crate::Error::Chat), whose `transient` states whether the same request may succeed later;
    /// [`Error::ChatUnavailable`](crate::Error::ChatUnavailable): no request is answered.
    fn chat<'a>(&'a self, request: &'a ChatRequest) -> ChatFuture<'a>;

    /// Answers one request, waiting on the calling thread. Default: runs the future of [`chat`](ChatModel::chat) on
    /// that thread.
    ///
    /// # Errors
    /// Those of [`chat`](ChatModel::chat).
    fn chat_blocking(&self, request: &ChatRequest) -> Result<ChatAnswer> {
        block_on(self.chat(request))
    }
}

impl<M: ChatModel + ?Sized> ChatModel for Arc<M> {
    fn chat<'a>(&'a self, request: &'a ChatRequest) -> ChatFuture<'a> {
        (**self).chat(request)
    }

    fn chat_blocking(&self, request: &ChatRequest) -> Result<ChatAnswer> {
        (**self).chat_blocking(request)
    }
}

/// A function that answers on the calling thread. If it blocks, do not call it from an async task.
impl<F: Fn(&ChatRequest) -> Result<Message> + Send + Sync> ChatModel for F {
    fn chat<'a>(&'a self, request: &'a ChatRequest) -> ChatFuture<'a> {
        Box::pin(ready(self.chat_blocking(request)))
    }

    fn chat_blocking(&self, request: &ChatRequest) -> Result<ChatAnswer> {
        self(request).map(ChatAnswer::from)
    }
}

/// The answer of a language model.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ChatAnswer {
    /// The message of the assistant.
    pub message: Message,
    /// The tokens that the provider counted, if it reports them.
    pub usage: Option<Usage>,
}

impl ChatAnswer {
    /// Adds the usage that the provider reports.
    pub fn with_usage(self, usage: impl Into<Option<Usage>>) -> Self {
        ChatAnswer { usage: usage.into(), ..self }
    }

    /// Returns the [text](Message::text) of the message.
    pub fn text(&self) -> String {
        self.message.text()
    }
}

impl From<Message> for ChatAnswer {
    /// Creates an answer without usage.
    fn from(message: Message) -> Self {
        ChatAnswer { message, usage: None }
    }
}

/// The tokens of a request and its answer, as the provider counted them.
///
/// [`CalibratedTokenCounter`](crate::CalibratedTokenCounter) learns from them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Usage {
    /// Tokens of the prompt, including those from a cache.
    pub prompt_tokens: usize,
    /// Tokens of the answer, including those of the model's thinking.
    pub completion_tokens: usize,
}

impl Usage {
    /// Creates a usage.
    pub fn new(prompt_tokens: usize, completion_tokens: usize) -> Self {
        Usage { prompt_tokens, completion_tokens }
    }

    /// Reads the usage in a response of OpenAI (`usage.prompt_tokens`), Anthropic (`usage.input_tokens`) or Gemini
    /// (`usageMetadata`). `None` if the response reports none.
    ///
    /// ```
    /// use mnemon::Usage;
    /// let response = serde_json::json!({"usage": {"input_tokens": 9, "cache_read_input_tokens": 90, "output_tokens": 5}});
    /// assert_eq!(Usage::from_response(&response), Some(Usage::new(99, 5)));
    /// ```
    pub fn from_response(response: &Value) -> Option<Self> {
        let (usage, gemini) = (&response["usage"], &response["usageMetadata"]);
        let sum = |usage: &Value, fields: &[&str]| {
            let counts: Vec<u64> = fields.iter().filter_map(|field| usage[*field].as_u64()).collect();
            (!counts.is_empty()).then(|| counts.iter().sum::<u64>() as usize)
        };
        let prompt = sum(usage, &["prompt_tokens"])
            .or_else(|| sum(usage, &["input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"]))
            .or_else(|| sum(gemini, &["promptTokenCount"]));
        let completion = sum(usage, &["completion_tokens"])
            .or_else(|| sum(usage, &["output_tokens"]))
            .or_else(|| sum(gemini, &["candidatesTokenCount", "thoughtsTokenCount"]));
        let is_reported = prompt.is_some() || completion.is_some();
        is_reported.then(|| Usage::new(prompt.unwrap_or_default(), completion.unwrap_or_default()))
    }
}

/// A request to a language model.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ChatRequest {
    /// The conversation to answer.
    pub messages: Vec<Message>,
    /// The maximum number of tokens of the answer. Default: the server's.
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
