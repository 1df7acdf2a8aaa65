//! A server with OpenAI's protocol: its address, its key, and how one request to it is sent. This module does not know
//! the contents of requests.

use std::{env, fmt, time::Duration};

use serde_json::Value;

use super::http::{Failure, Retry, Transport, TransportOptions, shown_url};
use crate::error::{Error, Result};

const BASE_URL: &str = "https://api.openai.com/v1";

/// The longest time limit. Adding centuries to a clock would overflow.
const MAX_TIMEOUT: Duration = Duration::from_secs(24 * 60 * 60);

/// A server, with the time limit and the retry policy of requests to it.
#[derive(Clone)]
pub(super) struct OpenAiServer {
    transport: Transport,
    base_url: String,
    timeout: Duration,
    pub(super) retry: Retry,
}

impl OpenAiServer {
    pub(super) fn new(base_url: impl Into<String>) -> Self {
        let options =
            TransportOptions { max_redirects: 0, connect_timeout: None, read_timeout: None, certificates: None };
        OpenAiServer {
            transport: Transport::new(options),
            base_url: base_url.into().trim_end_matches('/').to_owned(),
            timeout: Duration::from_secs(60),
            retry: Retry::default(),
        }
    }

    /// Returns the server at `OPENAI_BASE_URL`, or OpenAI's, with the key in `OPENAI_API_KEY`.
    ///
    /// # Errors
    /// [`Error::InvalidConfig`]: neither variable is set.
    pub(super) fn from_env() -> Result<Self> {
        let (base_url, key) = read_variables(|name| env::var(name).ok())?;
        let server = OpenAiServer::new(base_url);
        Ok(match key {
            Some(key) => server.api_key(key),
            None => server,
        })
    }

    pub(super) fn api_key(self, key: impl Into<String>) -> Self {
        let key = key.into().trim().to_owned();
        OpenAiServer { transport: self.transport.key(Some(key)), ..self }
    }

    pub(super) fn timeout(self, timeout: Duration) -> Self {
        OpenAiServer { timeout: timeout.min(MAX_TIMEOUT), ..self }
    }

    /// Posts JSON to a path and returns the body of the response. The single attempt ends after the server's time limit or
    /// `within`, whichever is shorter.
    pub(super) fn post(&self, path: &str, body: &str, within: Duration, max_bytes: u64) -> Result<Vec<u8>, Failure> {
        let timeout = self.timeout.min(within);
        let unanswered = |error| match error {
            ureq::Error::BodyExceedsLimit(_) => {
                Failure::lasting(format!("{} answered with more than {max_bytes} bytes", self.shown_url()))
            }
            ureq::Error::Timeout(_) => {
                let reason = format!("{} did not answer within {timeout:?}", self.shown_url());
                Failure { reason, ..Failure::of_transport(&self.base_url, error) }
            }
            error => Failure::of_transport(&self.base_url, error),
        };
        let request =
            self.transport.post(&format!("{}/{path}", self.base_url)).header("content-type", "application/json");
        let request = request.config().timeout_global(Some(timeout)).build();
        let mut response = request.send(body).map_err(unanswered)?;
        let answer = response.body_mut().with_config().limit(max_bytes).read_to_vec();
        match response.status().is_success() {
            true => answer.map_err(unanswered),
            false => Err(self.transport.refused(&self.base_url, &response, &explanation(&answer.unwrap_or_default()))),
        }
    }

    /// Returns the reason for rejecting a response: "SERVER answered with WHAT".
    pub(super) fn answered(&self, what: &str) -> String {
        format!("{} answered with {}", self.shown_url(), self.transport.redacted(what))
    }

    pub(super) fn shown_url(&self) -> String {
        shown_url(&self.base_url)
    }
}

impl fmt::Debug for OpenAiServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenAiServer")
            .field("base_url", &self.shown_url())
            .field("api_key", &self.transport.has_key().then_some("***"))
            .field("timeout", &self.timeout)
            .field("retry", &self.retry)
            .finish()
    }
}

/// Reads the base URL and the key from environment variables.
fn read_variables(variable: impl Fn(&str) -> Option<String>) -> Result<(String, Option<String>)> {
    let variable = |name| variable(name).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty());
    match (variable("OPENAI_BASE_URL"), variable("OPENAI_API_KEY")) {
        (None, None) => Err(Error::InvalidConfig {
            reason: "set OPENAI_API_KEY to a key, or OPENAI_BASE_URL to a server that needs none".to_owned(),
        }),
        (base_url, key) => Ok((base_url.unwrap_or_else(|| BASE_URL.to_owned()), key)),
    }
}

/// Returns the explanation in an error response: the message of the protocol's error object, or else the text.
fn explanation(answer: &[u8]) -> String {
    let json: Option<Value> = serde_json::from_slice(answer).ok();
    match json.as_ref().and_then(error_message) {
        Some(message) => message.trim().to_owned(),
        None => String::from_utf8_lossy(answer).split_whitespace().collect::<Vec<_>>().join(" "),
    }
}

/// Returns the message of an error in the protocol's format.
pub(super) fn error_message(answer: &Value) -> Option<&str> {
    answer["error"]["message"].as_str().or(answer["error"].as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_configures_url_and_key() {
        let read = |base_url: Option<&str>, key: Option<&str>| {
            read_variables(|name| if name == "OPENAI_BASE_URL" { base_url } else { key }.map(str::to_owned))
        };
        assert_eq!(read(None, Some("k\n")).unwrap(), (BASE_URL.to_owned(), Some("k".to_owned())));
        assert_eq!(read(Some("http://a/v1/"), None).unwrap(), ("http://a/v1/".to_owned(), None));
        assert_eq!(read(Some("http://a"), Some("k")).unwrap(), ("http://a".to_owned(), Some("k".to_owned())));
        let error = read(Some(""), None).unwrap_err().to_string();
        assert!(error.contains("OPENAI_API_KEY"), "{error}");
        assert_eq!(OpenAiServer::new("http://a/v1/").base_url, "http://a/v1");
    }
}
