//! The chat model on a server with OpenAI's protocol.

use std::{fmt, thread, time::Duration};

use serde_json::{Map, Number, Value};
use tokio::sync::oneshot;

use super::{
    http::Failure,
    openai_server::{OpenAiServer, error_message},
};
use crate::{
    chat::{ChatAnswer, ChatFuture, ChatModel, ChatRequest, Usage},
    error::{Error, Result},
    message::{
        ContentPart, Message, Role, Timestamp,
        format::{from_openai, to_openai},
    },
};

const MAX_ANSWER_BYTES: u64 = 8 << 20;

/// The name of the thread that sends the request of an async call.
const THREAD: &str = "mnemon-chat";

/// A [`ChatModel`] that calls `POST {base_url}/chat/completions`: a model of OpenAI, or of any server with its protocol,
/// such as Ollama, vLLM and llama.cpp.
///
/// [`chat`](ChatModel::chat) runs on any async executor and blocks none of its threads: a new thread sends the request,
/// even if the future is dropped meanwhile. [`chat_blocking`](ChatModel::chat_blocking) sends it on the
/// calling thread. Transient failures (see [`Error::Chat`]) are retried within the call. Proxies are taken from the
/// environment (`HTTPS_PROXY`, `NO_PROXY`); redirects are not followed. The usage that the server reports is in the
/// answer.
///
/// After a refusal for which the request may be at fault, such as 400, one word is asked, to know whether the server answers
/// anything: the error is [`Error::ChatUnavailable`] if not, and [`Error::Chat`] if only this request is refused.
///
/// ```no_run
/// use std::time::Duration;
/// use mnemon::{ChatModel, ChatRequest, Message, OpenAiChat};
/// let model = OpenAiChat::new("http://localhost:11434/v1", "llama3.2").timeout(Duration::from_secs(120));
/// let answer = model.chat_blocking(&ChatRequest::new(vec![Message::user("Where is Ada?")]).temperature(0.0))?;
/// println!("{} ({:?})", answer.text(), answer.usage);
/// # Ok::<(), mnemon::Error>(())
/// ```
#[derive(Clone)]
pub struct OpenAiChat {
    server: OpenAiServer,
    model: String,
}

impl OpenAiChat {
    /// Uses this model of the server at this URL, such as `https://api.openai.com/v1`. No request is sent yet.
    pub fn new(base_url: impl Into<String>, model: impl Into<String>) -> Self {
        OpenAiChat { server: OpenAiServer::new(base_url), model: model.into() }
    }

    /// Uses this model of the server at `OPENAI_BASE_URL`, or of OpenAI's, with the key in `OPENAI_API_KEY`.
    ///
    /// # Errors
    /// [`Error::InvalidConfig`]: neither variable is set.
    pub fn from_env(model: impl Into<String>) -> Result<Self> {
        Ok(OpenAiChat { server: OpenAiServer::from_env()?, model: model.into() })
    }

    /// Sets the key, which is trimmed, sent as a bearer token, and never shown.
    pub fn api_key(self, key: impl Into<String>) -> Self {
        OpenAiChat { server: self.server.api_key(key), ..self }
    }

    /// Sets the time limit of each attempt, from connecting to the last byte of the answer, up to a day. Default:
    /// 60 s.
    pub fn timeout(self, timeout: Duration) -> Self {
        OpenAiChat { server: self.server.timeout(timeout), ..self }
    }

    /// Sets the number of attempts of each call, at least one. Default: 3.
    pub fn attempts(mut self, attempts: usize) -> Self {
        self.server.retry.attempts = attempts.max(1);
        self
    }

    /// Sets the wait before the second attempt. It doubles with each further attempt, up to 30 s, and each wait is a
    /// random half to all of it. If the server sends `Retry-After`, that time is the wait, up to 30 s. Default: 500 ms.
    pub fn backoff(mut self, backoff: Duration) -> Self {
        self.server.retry.backoff = backoff;
        self
    }

    /// Formats the request as JSON. Fields of the request take precedence over options of the same name.
    fn body(&self, request: &ChatRequest) -> Result<Value> {
        let ChatRequest { messages, max_tokens, temperature, options } = request;
        if options.get("stream").is_some_and(|stream| *stream != false) {
            return Err(Error::chat("streamed answers are not supported; leave out the option `stream`"));
        }
        let mut body: Map<String, Value> = options.clone();
        body.insert("model".to_owned(), self.model.as_str().into());
        body.insert("messages".to_owned(), to_openai(messages).into());
        if let Some(max_tokens) = max_tokens {
            body.insert("max_tokens".to_owned(), (*max_tokens).into());
        }
        if let Some(temperature) = temperature {
            // The conversion through text keeps 0.2 from becoming 0.20000000298.
            let number = temperature.to_string().parse().ok().and_then(Number::from_f64);
            let number =
                number.ok_or_else(|| Error::chat(format!("temperature {temperature} is not a finite number")))?;
            body.insert("temperature".to_owned(), number.into());
        }
        Ok(body.into())
    }

    fn error(&self, failure: Failure, request: &ChatRequest) -> Error {
        let is_answered = || failure.transient || (!failure.unavailable && (!failure.refused || self.answers(request)));
        match is_answered() {
            true => {
                let Failure { reason, transient, retry_after, source, .. } = failure;
                Error::Chat { reason, transient, retry_after, source }
            }
            false => Error::ChatUnavailable { reason: failure.reason, source: failure.source },
        }
    }

    /// Returns true if the server answers another request with the same options.
    fn answers(&self, request: &ChatRequest) -> bool {
        let other = ChatRequest { messages: vec![Message::user("Answer with one word: yes.")], ..request.clone() };
        let asked = self.body(&other).map(|body| self.attempt(&body.to_string()));
        asked.is_ok_and(|answer| answer.map_or_else(|failure| !failure.refused && !failure.transient, |_| true))
    }

    fn attempt(&self, body: &str) -> Result<ChatAnswer, Failure> {
        self.read_answer(&self.server.post("chat/completions", body, Duration::MAX, MAX_ANSWER_BYTES)?)
    }

    fn read_answer(&self, answer: &[u8]) -> Result<ChatAnswer, Failure> {
        let unusable = |what: &str| Failure::transient(self.server.answered(what));
        let answer: Value =
            serde_json::from_slice(answer).map_err(|error| unusable("text that is not JSON").caused_by(error))?;
        let value = &answer["choices"][0]["message"];
        if value.is_null() {
            let detail = error_message(&answer).map(|text| format!(": {text}")).unwrap_or_default();
            return Err(unusable(&format!("no message{detail}")));
        }
        let read = from_openai(std::slice::from_ref(value));
        let mut messages = read.map_err(|error| unusable(&format!("JSON that is not a message: {error}")))?;
        let has_content = |part: &ContentPart| !matches!(part, ContentPart::Text { text } if text.trim().is_empty());
        match messages.pop().filter(|message| message.role == Role::Assistant) {
            Some(message) if message.content.iter().any(has_content) => {
                Ok(ChatAnswer::from(message.at(Timestamp::now())).with_usage(Usage::from_response(&answer)))
            }
            // A repeated request is likely to get the same answer, so the failure is lasting.
            Some(_) => Err(Failure::lasting(self.server.answered("an empty message"))),
            None => Err(unusable("a message that is not the assistant's")),
        }
    }
}

impl ChatModel for OpenAiChat {
    fn chat<'a>(&'a self, request: &'a ChatRequest) -> ChatFuture<'a> {
        Box::pin(async {
            let (reply, answer) = oneshot::channel();
            let (model, request) = (self.clone(), request.clone());
            let send = move || drop(reply.send(model.chat_blocking(&request)));
            thread::Builder::new()
                .name(THREAD.to_owned())
                .spawn(send)
                .map_err(|error| Error::ThreadNotStarted { name: THREAD.to_owned(), source: error.into() })?;
            answer.await.unwrap_or_else(|_| Err(Error::chat("the thread that sent the request panicked")))
        })
    }

    fn chat_blocking(&self, request: &ChatRequest) -> Result<ChatAnswer> {
        let body = self.body(request)?.to_string();
        self.server.retry.run(|| self.attempt(&body)).map_err(|failure| self.error(failure, request))
    }
}

impl fmt::Debug for OpenAiChat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenAiChat").field("model", &self.model).field("server", &self.server).finish()
    }
}
