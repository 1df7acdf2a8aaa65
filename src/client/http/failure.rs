//! Failures of requests to servers, classified by whether another attempt may succeed.

use std::{io, time::Duration};

use ureq::http::{HeaderMap, StatusCode};

use super::{
    headers::{resets_after, retry_after},
    url::shown,
};
use crate::error::BoxError;

/// The failure of a request that returned no usable answer.
#[derive(Debug)]
// A download reads fewer of its fields than the OpenAI clients.
#[cfg_attr(not(feature = "openai"), expect(dead_code))]
pub(crate) struct Failure {
    /// The cause, with the server's address.
    pub(crate) reason: String,
    /// Whether the same request may succeed later.
    pub(crate) transient: bool,
    /// Whether the server cannot be used at all for now, so that no request would have succeeded: it is not reached,
    /// accepts nothing, or does not know this address or key.
    pub(crate) unavailable: bool,
    /// The time to wait that the server states in `Retry-After`.
    pub(crate) retry_after: Option<Duration>,
    /// The time until an exceeded limit resets, from `x-ratelimit-reset-*`.
    pub(crate) resets_after: Option<Duration>,
    pub(crate) source: Option<BoxError>,
}

impl Failure {
    /// A failure that the same request will meet again.
    pub(crate) fn lasting(reason: impl Into<String>) -> Self {
        let reason = reason.into();
        Failure { reason, transient: false, unavailable: false, retry_after: None, resets_after: None, source: None }
    }

    /// A failure after which the same request may succeed.
    pub(crate) fn transient(reason: impl Into<String>) -> Self {
        Failure { transient: true, ..Failure::lasting(reason) }
    }

    /// Adds the error behind the failure.
    pub(crate) fn caused_by(self, source: impl Into<BoxError>) -> Self {
        Failure { source: Some(source.into()), ..self }
    }

    /// Adds the number of attempts to the reason, if there was more than one.
    pub(crate) fn after(self, attempts: usize) -> Self {
        match attempts {
            0 | 1 => self,
            _ => Failure { reason: format!("{} ({attempts} attempts)", self.reason), ..self },
        }
    }

    /// A response with a status that is not a success. `message` is the server's explanation, which may be empty.
    pub(super) fn of_status(url: &str, status: StatusCode, headers: &HeaderMap, message: &str) -> Self {
        let mut reason = format!("{} answered {status}", shown(url));
        if !message.is_empty() {
            reason = format!("{reason}: {message}");
        } else if status.is_redirection() {
            reason = format!("{reason}, a redirect; give the URL that it leads to");
        }
        let is_limit = status == StatusCode::TOO_MANY_REQUESTS;
        let transient = is_limit || matches!(status.as_u16(), 408 | 425) || status.is_server_error();
        let retry_after = retry_after(headers);
        Failure {
            transient,
            // 403 and most server errors are left out, because the request may have caused them. A server that states
            // when to retry is unavailable until then.
            unavailable: is_limit
                || matches!(status.as_u16(), 401 | 404 | 405 | 408 | 425 | 503 | 504)
                || status.is_redirection()
                || (transient && retry_after.is_some()),
            retry_after,
            resets_after: if is_limit { resets_after(headers) } else { None },
            ..Failure::lasting(reason)
        }
    }

    /// A request that was not sent, or a response that did not arrive as a whole.
    pub(super) fn of_transport(url: &str, error: ureq::Error) -> Self {
        let url = shown(url);
        match error {
            // The error itself is left out: it may show a password or the key.
            ureq::Error::BadUri(_) | ureq::Error::Http(_) | ureq::Error::InvalidProxyUrl => Failure {
                unavailable: true,
                ..Failure::lasting(format!(
                    "no request can be made to {url}: the URL, a proxy's URL or the key has characters that HTTP does not allow"
                ))
            },
            ureq::Error::Timeout(_) => Failure {
                unavailable: true,
                ..Failure::transient(format!("{url} did not answer in time")).caused_by(error)
            },
            ureq::Error::Tls(_) | ureq::Error::Rustls(_) | ureq::Error::Pem(_) => Failure {
                unavailable: true,
                ..Failure::lasting(format!("no secure connection to {url}")).caused_by(error)
            },
            error => {
                use io::ErrorKind::{ConnectionRefused, HostUnreachable, NetworkUnreachable};
                let unavailable = match &error {
                    ureq::Error::HostNotFound | ureq::Error::ConnectionFailed => true,
                    // A connection that breaks later may break because of the request.
                    ureq::Error::Io(error) => {
                        matches!(error.kind(), ConnectionRefused | HostUnreachable | NetworkUnreachable)
                    }
                    _ => false,
                };
                Failure { unavailable, ..Failure::transient(format!("no answer from {url}")).caused_by(error) }
            }
        }
    }
}
