//! A client of servers that speak OpenAI's chat completions.

use std::{fmt, thread, time::Duration};

use serde_json::{Map, Number, Value};

use super::{ChatModel, ChatRequest};
use crate::{
    error::{Error, Result},
    http::{Client, Failure, error_message},
    message::{Message, Part, Role, Timestamp, from_openai, to_openai},
};

const MAX_ANSWER_BYTES: u64 = 8 << 20;

/// A model behind `POST {base_url}/chat/completions`: OpenAI's, or of any server that speaks its protocol, such as
/// Ollama, vLLM and llama.cpp.
///
/// Blocks the thread that asks. What may pass (see [`Error::Chat`]) is tried again within the call. Proxies are taken
/// from the environment (`HTTPS_PROXY`, `NO_PROXY`); redirects are not followed.
///
/// ```no_run
/// use std::time::Duration;
/// use mnemon::{ChatModel, ChatRequest, Message, OpenAiChat};
/// let model = OpenAiChat::new("http://localhost:11434/v1", "llama3.2").timeout(Duration::from_secs(120));
/// let answer = model.chat(&ChatRequest::new(vec![Message::user("Where is Ada?")]).temperature(0.0))?;
/// println!("{}", answer.text());
/// # Ok::<(), mnemon::Error>(())
/// ```
#[derive(Clone)]
pub struct OpenAiChat {
    client: Client,
    model: String,
}

impl OpenAiChat {
    /// This model of the server at this URL, such as `https://api.openai.com/v1`. Nothing is asked of it yet.
    pub fn new(base_url: impl Into<String>, model: impl Into<String>) -> Self {
        OpenAiChat { client: Client::new(base_url), model: model.into() }
    }

    /// This model with the key of `OPENAI_API_KEY`, of the server of `OPENAI_BASE_URL`, or OpenAI's.
    ///
    /// # Errors
    /// [`Error::InvalidConfig`]: neither is set.
    pub fn from_env(model: impl Into<String>) -> Result<Self> {
        Ok(OpenAiChat { client: Client::from_env()?, model: model.into() })
    }

    /// The same with this key, white space around it left out. It is sent as a bearer token and shown nowhere.
    pub fn api_key(self, key: impl Into<String>) -> Self {
        OpenAiChat { client: self.client.api_key(key), ..self }
    }

    /// The same with this limit on each attempt, from connecting to the last byte of the answer, up to a day. Default:
    /// 60 s.
    pub fn timeout(self, timeout: Duration) -> Self {
        OpenAiChat { client: self.client.timeout(timeout), ..self }
    }

    /// The same with so many attempts a call, at least one. Default: 3.
    pub fn attempts(self, attempts: usize) -> Self {
        OpenAiChat { client: self.client.attempts(attempts), ..self }
    }

    /// The same with this wait before the second attempt, half to all of it by chance. It doubles with each further
    /// attempt, up to 30 s. A server's `Retry-After`, up to 30 s, counts instead. Default: 500 ms.
    pub fn backoff(self, backoff: Duration) -> Self {
        OpenAiChat { client: self.client.backoff(backoff), ..self }
    }

    /// The request as JSON. What has a place of its own in it wins over an option of that name.
    fn body(&self, request: &ChatRequest) -> Result<Value> {
        let ChatRequest { messages, max_tokens, temperature, options } = request;
        if options.get("stream").is_some_and(|stream| *stream != false) {
            return Err(Error::chat("answers are taken whole; leave out the option `stream`"));
        }
        let mut body: Map<String, Value> = options.clone();
        body.insert("model".to_owned(), self.model.as_str().into());
        body.insert("messages".to_owned(), to_openai(messages).into());
        if let Some(max_tokens) = max_tokens {
            body.insert("max_tokens".to_owned(), (*max_tokens).into());
        }
        if let Some(temperature) = temperature {
            // By way of text: 0.2 stays 0.2.
            let number = temperature.to_string().parse().ok().and_then(Number::from_f64);
            let number = number.ok_or_else(|| Error::chat(format!("{temperature} is no temperature")))?;
            body.insert("temperature".to_owned(), number.into());
        }
        Ok(body.into())
    }

    fn attempt(&self, body: &str) -> Result<Message, Failure> {
        self.message(&self.client.post("chat/completions", body, Duration::MAX, MAX_ANSWER_BYTES)?)
    }

    /// The first choice's message.
    fn message(&self, answer: &[u8]) -> Result<Message, Failure> {
        let unusable = |what: &str| Failure::passing(self.client.answered(what), None);
        let answer: Value = serde_json::from_slice(answer)
            .map_err(|error| Failure { source: Some(error.into()), ..unusable("what is no JSON") })?;
        let value = &answer["choices"][0]["message"];
        if value.is_null() {
            let said = error_message(&answer).map(|said| format!(": {said}")).unwrap_or_default();
            return Err(unusable(&format!("without a message{said}")));
        }
        let read = from_openai(std::slice::from_ref(value));
        let mut messages = read.map_err(|error| unusable(&format!("what is no message: {error}")))?;
        let says = |part: &Part| !matches!(part, Part::Text { text } if text.trim().is_empty());
        match messages.pop().filter(|message| message.role == Role::Assistant) {
            Some(message) if message.content.iter().any(says) => Ok(message.at(Timestamp::now())),
            // The same request would be likely to get the same.
            Some(_) => Err(Failure::lasting(self.client.answered("nothing"))),
            None => Err(unusable("what is not an assistant's message")),
        }
    }
}

impl ChatModel for OpenAiChat {
    fn chat(&self, request: &ChatRequest) -> Result<Message> {
        let body = self.body(request)?.to_string();
        let mut attempt = 1;
        loop {
            match self.attempt(&body) {
                Err(failure) if self.client.tries_again(attempt, &failure) => {
                    thread::sleep(self.client.wait(attempt, failure.retry_after));
                    attempt += 1;
                }
                answered => return answered.map_err(|failure| error(failure.after(attempt))),
            }
        }
    }
}

impl fmt::Debug for OpenAiChat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenAiChat").field("model", &self.model).field("client", &self.client).finish()
    }
}

fn error(Failure { reason, transient, retry_after, source, .. }: Failure) -> Error {
    Error::Chat { reason, transient, retry_after, source }
}
