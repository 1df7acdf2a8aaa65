//! The HTTP policy of the crate: how requests are sent, which failures are transient, and when a request is retried.
//!
//! Every client of a server uses it: the clients of OpenAI's protocol, and the download of models. No error and no
//! `Debug` output shows a key, or a password in an address.

mod failure;
mod headers;
mod retry;
mod transport;
mod url;

pub(crate) use failure::Failure;
pub(crate) use retry::Retry;
pub(crate) use transport::{Transport, TransportOptions};
pub(crate) use url::shown;
