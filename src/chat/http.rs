//! A client of servers that speak OpenAI's chat completions.

use std::{
    env, fmt,
    hash::{BuildHasher, RandomState},
    thread,
    time::Duration,
};

use serde_json::{Map, Number, Value};

use super::{ChatModel, ChatRequest};
use crate::{
    error::{BoxError, Error, Result},
    message::{Message, Part, Role, Timestamp, from_openai, to_openai},
};

const BASE_URL: &str = "https://api.openai.com/v1";

/// The longest wait between attempts, also where the server asks for more.
const MAX_WAIT: Duration = Duration::from_secs(30);

const MAX_ANSWER_BYTES: u64 = 8 << 20;

/// Clocks cannot add up much more than some centuries.
const MAX_TIMEOUT: Duration = Duration::from_secs(24 * 60 * 60);

/// The most of a server's own words in an error.
const MAX_REASON_CHARS: usize = 300;

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
    agent: ureq::Agent,
    base_url: String,
    model: String,
    api_key: Option<String>,
    timeout: Duration,
    attempts: usize,
    backoff: Duration,
}

impl OpenAiChat {
    /// This model of the server at this URL, such as `https://api.openai.com/v1`. Nothing is asked of it yet.
    pub fn new(base_url: impl Into<String>, model: impl Into<String>) -> Self {
        let config = ureq::Agent::config_builder().http_status_as_error(false).max_redirects(0);
        OpenAiChat {
            agent: config.build().new_agent(),
            base_url: base_url.into().trim_end_matches('/').to_owned(),
            model: model.into(),
            api_key: None,
            timeout: Duration::from_secs(60),
            attempts: 3,
            backoff: Duration::from_millis(500),
        }
    }

    /// This model with the key of `OPENAI_API_KEY`, of the server of `OPENAI_BASE_URL`, or OpenAI's.
    ///
    /// # Errors
    /// [`Error::InvalidConfig`]: neither is set.
    pub fn from_env(model: impl Into<String>) -> Result<Self> {
        OpenAiChat::from_variables(model.into(), |name| env::var(name).ok())
    }

    fn from_variables(model: String, variable: impl Fn(&str) -> Option<String>) -> Result<Self> {
        let variable = |name| variable(name).filter(|value| !value.trim().is_empty());
        match (variable("OPENAI_BASE_URL"), variable("OPENAI_API_KEY")) {
            (None, None) => Err(Error::InvalidConfig {
                reason: "set OPENAI_API_KEY to a key, or OPENAI_BASE_URL to a server that needs none".to_owned(),
            }),
            (base_url, Some(key)) => {
                Ok(OpenAiChat::new(base_url.unwrap_or_else(|| BASE_URL.to_owned()), model).api_key(key))
            }
            (Some(base_url), None) => Ok(OpenAiChat::new(base_url, model)),
        }
    }

    /// The same with this key, white space around it left out. It is sent as a bearer token and shown nowhere.
    pub fn api_key(self, key: impl Into<String>) -> Self {
        OpenAiChat { api_key: Some(key.into().trim().to_owned()), ..self }
    }

    /// The same with this limit on each attempt, from connecting to the last byte of the answer, up to a day. Default:
    /// 60 s.
    pub fn timeout(self, timeout: Duration) -> Self {
        OpenAiChat { timeout: timeout.min(MAX_TIMEOUT), ..self }
    }

    /// The same with so many attempts a call, at least one. Default: 3.
    pub fn attempts(self, attempts: usize) -> Self {
        OpenAiChat { attempts: attempts.max(1), ..self }
    }

    /// The same with this wait before the second attempt, half to all of it by chance. It doubles with each further
    /// attempt, up to 30 s. A server's `Retry-After`, up to 30 s, counts instead. Default: 500 ms.
    pub fn backoff(self, backoff: Duration) -> Self {
        OpenAiChat { backoff, ..self }
    }

    /// The request as JSON. What has a place of its own in it wins over an option of that name.
    fn body(&self, request: &ChatRequest) -> Result<Value> {
        let ChatRequest { messages, max_tokens, temperature, options } = request;
        if options.get("stream").is_some_and(|stream| *stream != false) {
            return Err(failed("answers are taken whole; leave out the option `stream`"));
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
            let number = number.ok_or_else(|| failed(format!("{temperature} is no temperature")))?;
            body.insert("temperature".to_owned(), number.into());
        }
        Ok(body.into())
    }

    fn attempt(&self, body: &str) -> Result<Message> {
        let url = format!("{}/chat/completions", self.base_url);
        let mut request = self.agent.post(url).header("content-type", "application/json");
        if let Some(key) = &self.api_key {
            request = request.header("authorization", format!("Bearer {key}"));
        }
        let request = request.config().timeout_global(Some(self.timeout)).build();
        let mut response = request.send(body).map_err(|error| self.unanswered(error))?;
        let status = response.status();
        let header = response.headers().get("retry-after").and_then(|value| value.to_str().ok());
        let retry_after =
            header.and_then(|value| value.trim().parse().ok()).and_then(|s| Duration::try_from_secs_f64(s).ok());
        let answer = response.body_mut().with_config().limit(MAX_ANSWER_BYTES).read_to_vec();
        if status.is_success() {
            return self.message(&answer.map_err(|error| self.unanswered(error))?);
        }
        let transient = matches!(status.as_u16(), 408 | 425 | 429) || status.is_server_error();
        let mut reason = format!("{} answered {status}", self.shown_url());
        let said = self.redacted(&said(&answer.unwrap_or_default()));
        if !said.is_empty() {
            reason = format!("{reason}: {said}");
        } else if status.is_redirection() {
            reason = format!("{reason}, a redirect; give the URL that it leads to");
        }
        Err(Error::Chat { reason, transient, retry_after, source: None })
    }

    /// The first choice's message.
    fn message(&self, answer: &[u8]) -> Result<Message> {
        let unusable =
            |reason: String| passing(format!("{} answered {}", self.shown_url(), self.redacted(&reason)), None);
        let answer: Value = serde_json::from_slice(answer)
            .map_err(|error| passing(format!("{} answered what is no JSON", self.shown_url()), Some(error.into())))?;
        let value = &answer["choices"][0]["message"];
        if value.is_null() {
            let said = error_message(&answer).map(|said| format!(": {said}")).unwrap_or_default();
            return Err(unusable(format!("without a message{said}")));
        }
        let read = from_openai(std::slice::from_ref(value));
        let mut messages = read.map_err(|error| unusable(format!("what is no message: {error}")))?;
        let says = |part: &Part| !matches!(part, Part::Text { text } if text.trim().is_empty());
        match messages.pop().filter(|message| message.role == Role::Assistant) {
            Some(message) if message.content.iter().any(says) => Ok(message.at(Timestamp::now())),
            // The same request would be likely to get the same.
            Some(_) => Err(failed(format!("{} answered nothing", self.shown_url()))),
            None => Err(unusable("what is not an assistant's message".to_owned())),
        }
    }

    /// No answer, or not all of it.
    fn unanswered(&self, error: ureq::Error) -> Error {
        let url = self.shown_url();
        match error {
            ureq::Error::Timeout(_) => {
                passing(format!("{url} did not answer within {:?}", self.timeout), Some(error.into()))
            }
            ureq::Error::BodyExceedsLimit(_) => failed(format!("{url} answered more than {MAX_ANSWER_BYTES} bytes")),
            // What is wrong is on this side. The error is left out, as it may show what was given.
            ureq::Error::BadUri(_) | ureq::Error::Http(_) | ureq::Error::InvalidProxyUrl => failed(format!(
                "{url} cannot be asked: the URL, a proxy's URL or the key has characters that HTTP does not take"
            )),
            ureq::Error::Tls(_) | ureq::Error::Rustls(_) | ureq::Error::Pem(_) => Error::Chat {
                reason: format!("no secure connection to {url}"),
                transient: false,
                retry_after: None,
                source: Some(error.into()),
            },
            error => passing(format!("no answer of {url}"), Some(error.into())),
        }
    }

    /// The server's URL, without a password in it.
    fn shown_url(&self) -> String {
        match self.base_url.split_once("://") {
            Some((scheme, rest)) => {
                let host = rest.find('/').unwrap_or(rest.len());
                let begin = rest[..host].rfind('@').map_or(0, |at| at + 1);
                format!("{scheme}://{}", &rest[begin..])
            }
            None => self.base_url.clone(),
        }
    }

    /// A server's own words, without the key: some repeat it.
    fn redacted(&self, said: &str) -> String {
        let said = match self.api_key.as_deref() {
            Some(key) if !key.is_empty() => said.replace(key, "***"),
            _ => said.to_owned(),
        };
        said.chars().take(MAX_REASON_CHARS).collect()
    }
}

impl ChatModel for OpenAiChat {
    fn chat(&self, request: &ChatRequest) -> Result<Message> {
        let body = self.body(request)?.to_string();
        let mut attempt = 1;
        loop {
            match self.attempt(&body) {
                Err(Error::Chat { transient: true, retry_after, .. }) if attempt < self.attempts => {
                    thread::sleep(wait(self.backoff, attempt, retry_after));
                    attempt += 1;
                }
                Err(Error::Chat { reason, transient, retry_after, source }) if attempt > 1 => {
                    let reason = format!("{reason} ({attempt} attempts)");
                    return Err(Error::Chat { reason, transient, retry_after, source });
                }
                answered => return answered,
            }
        }
    }
}

impl fmt::Debug for OpenAiChat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenAiChat")
            .field("base_url", &self.shown_url())
            .field("model", &self.model)
            .field("api_key", &self.api_key.as_ref().map(|_| "***"))
            .field("timeout", &self.timeout)
            .field("attempts", &self.attempts)
            .field("backoff", &self.backoff)
            .finish()
    }
}

/// An error that the same request will meet again.
fn failed(reason: impl Into<String>) -> Error {
    Error::Chat { reason: reason.into(), transient: false, retry_after: None, source: None }
}

/// An error that may pass.
fn passing(reason: String, source: Option<BoxError>) -> Error {
    Error::Chat { reason, transient: true, retry_after: None, source }
}

/// What is slept after this attempt, the first being 1.
fn wait(backoff: Duration, attempt: usize, retry_after: Option<Duration>) -> Duration {
    if let Some(wait) = retry_after {
        return wait.min(MAX_WAIT);
    }
    let doubled = backoff.saturating_mul(1 << (attempt - 1).min(30)).min(MAX_WAIT);
    // Each `RandomState` has keys of its own: chance enough to keep clients from asking all at once.
    let chance = (RandomState::new().hash_one(attempt) >> 32) as f64 / f64::from(u32::MAX);
    doubled.mul_f64(0.5 + chance / 2.0)
}

/// What an answer that is an error says of it: the protocol's message, or else its text.
fn said(answer: &[u8]) -> String {
    let json: Option<Value> = serde_json::from_slice(answer).ok();
    match json.as_ref().and_then(error_message) {
        Some(message) => message.trim().to_owned(),
        None => String::from_utf8_lossy(answer).split_whitespace().collect::<Vec<_>>().join(" "),
    }
}

fn error_message(answer: &Value) -> Option<&str> {
    answer["error"]["message"].as_str().or(answer["error"].as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits() {
        let (base, s) = (Duration::from_millis(500), Duration::from_secs);
        for (attempt, low, high) in [(1, 250, 500), (2, 500, 1000), (3, 1000, 2000), (20, 15_000, 30_000)] {
            let wait = wait(base, attempt, None).as_millis();
            assert!((low..=high).contains(&wait), "attempt {attempt}: {wait} ms");
        }
        assert_eq!(wait(base, 1, Some(s(7))), s(7));
        assert_eq!(wait(base, 1, Some(s(3600))), s(30), "capped");
        assert_eq!(wait(base, 9, Some(s(0))), s(0));
    }

    #[test]
    fn variables() {
        let of = |base_url: Option<&str>, key: Option<&str>| {
            let variable = |name: &str| if name == "OPENAI_BASE_URL" { base_url } else { key }.map(str::to_owned);
            OpenAiChat::from_variables("m".into(), variable).map(|model| (model.base_url, model.api_key))
        };
        assert_eq!(of(None, Some("k\n")).unwrap(), (BASE_URL.to_owned(), Some("k".to_owned())));
        assert_eq!(of(Some("http://a/v1/"), None).unwrap(), ("http://a/v1".to_owned(), None));
        assert_eq!(of(Some("http://a"), Some("k")).unwrap(), ("http://a".to_owned(), Some("k".to_owned())));
        let error = of(Some(""), None).unwrap_err().to_string();
        assert!(error.contains("OPENAI_API_KEY"), "{error}");
    }
}
