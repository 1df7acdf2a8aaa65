//! Sending requests: one configuration of the HTTP client, one way to authenticate, one classification of failures.

use std::time::Duration;

use ureq::{
    Agent, Body, RequestBuilder,
    http::Response,
    tls::{RootCerts, TlsConfig},
};

use super::failure::Failure;

/// Maximum characters of a server's message in an error.
const MAX_MESSAGE_CHARS: usize = 300;

/// A connection pool and the key that is sent with each request. Clones share the connections.
///
/// The key is sent to the host of the request, not to a host that it redirects to, and no error shows it.
#[derive(Clone)]
pub(crate) struct Transport {
    agent: Agent,
    key: Option<String>,
}

/// Settings in which clients of servers differ.
pub(crate) struct TransportOptions {
    /// Redirects that are followed.
    pub(crate) max_redirects: u32,
    /// Time to connect.
    pub(crate) connect_timeout: Option<Duration>,
    /// Time until the response begins, and until each further part of it.
    pub(crate) read_timeout: Option<Duration>,
    /// Certificates to trust instead of the ones that are compiled in.
    pub(crate) certificates: Option<RootCerts>,
}

impl Transport {
    pub(crate) fn new(options: TransportOptions) -> Self {
        let mut tls = TlsConfig::builder();
        if let Some(certificates) = options.certificates {
            tls = tls.root_certs(certificates);
        }
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(options.max_redirects)
            .timeout_connect(options.connect_timeout)
            .timeout_recv_response(options.read_timeout)
            .timeout_per_read(options.read_timeout)
            .tls_config(tls.build());
        Transport { agent: config.build().new_agent(), key: None }
    }

    /// Sends this key as a bearer token with every request.
    pub(crate) fn key(self, key: Option<String>) -> Self {
        Transport { key, ..self }
    }

    /// Returns true if requests carry a key.
    #[cfg(feature = "openai")]
    pub(crate) fn has_key(&self) -> bool {
        self.key.is_some()
    }

    #[cfg(feature = "pull")]
    pub(crate) fn get(&self, url: &str) -> RequestBuilder<ureq::typestate::WithoutBody> {
        self.authorized(self.agent.get(url))
    }

    #[cfg(feature = "openai")]
    pub(crate) fn post(&self, url: &str) -> RequestBuilder<ureq::typestate::WithBody> {
        self.authorized(self.agent.post(url))
    }

    fn authorized<B>(&self, request: RequestBuilder<B>) -> RequestBuilder<B> {
        match &self.key {
            Some(key) => request.header("authorization", format!("Bearer {key}")),
            None => request,
        }
    }

    /// Returns the failure of a request that was not sent, or whose response did not arrive as a whole.
    pub(crate) fn unanswered(&self, url: &str, error: ureq::Error) -> Failure {
        Failure::of_transport(url, error)
    }

    /// Returns the failure that a response without success means. `message` is the server's explanation.
    pub(crate) fn refused(&self, url: &str, response: &Response<Body>, message: &str) -> Failure {
        Failure::of_status(url, response.status(), response.headers(), &self.redacted(message))
    }

    /// Returns the first characters of a server's own words without the key, which some servers repeat.
    pub(crate) fn redacted(&self, message: &str) -> String {
        let message = match self.key.as_deref() {
            Some(key) if !key.is_empty() => message.replace(key, "***"),
            _ => message.to_owned(),
        };
        message.chars().take(MAX_MESSAGE_CHARS).collect()
    }
}
