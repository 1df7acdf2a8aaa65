//! The settings of a server, which the program that runs it gives: how to listen, whom to serve, what to allow. The
//! notices that the server gives to the program.

use std::{fmt, net::SocketAddr, num::NonZeroU32, path::PathBuf, time::Duration};

/// The least number of bodies that may be read at a time, however few requests may run.
const MIN_BODIES: usize = 64;

/// How a server listens, whom it serves, and what it allows.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The address and port to listen on. Port 0 takes a free one. `None`: the Unix socket of the database alone.
    pub listen: Option<SocketAddr>,
    /// The server ends after this time without a connection. `None`: it does not.
    pub idle: Option<Duration>,
    /// True if SIGHUP ends the server, as SIGTERM and SIGINT do.
    pub ends_at_hang_up: bool,
    /// The language model that forms memories. `None`: none does.
    pub llm: Option<Llm>,
    /// The file that says which memory blocks the sessions of namespaces have. Default: with a model, a collection of facts
    /// for each namespace, and none without.
    pub config: Option<PathBuf>,
    /// The file of tokens. With it every request over TCP needs a token.
    pub tokens: Option<PathBuf>,
    /// Names under which clients reach this server, beside its address and localhost.
    pub hosts: Vec<String>,
    /// Origins of pages in browsers that may call this server, such as `https://app.example`.
    pub origins: Vec<String>,
    /// True if keys, tokens, passwords in addresses and card numbers in requests are replaced by marks.
    pub remove_secrets: bool,
    /// True if the engine has a reranker, which recalls may ask for.
    pub reranks: bool,
    /// The certificate chain and its private key, in PEM. With them, connections are encrypted.
    pub tls: Option<(PathBuf, PathBuf)>,
    /// Limits on what clients may do at a time.
    pub limits: Limits,
    /// True for a replica of a shared database. Its recalls may wait for the primary, so they run on the engine's threads.
    pub is_replica: bool,
    /// True if the log on stderr is to be in JSON.
    pub json_log: bool,
    /// Serve the fixture of MCP's conformance suite at /mcp instead of the memory. Only debug builds can.
    #[doc(hidden)]
    pub conformance_fixture: bool,
}

/// A language model on a server with OpenAI's protocol.
#[derive(Clone, Debug)]
pub struct Llm {
    /// The address up to `/v1`, such as `http://localhost:11434/v1`.
    pub url: String,
    /// The name of the model there.
    pub model: String,
    /// The file of the key, if the server wants one.
    pub key_file: Option<PathBuf>,
    /// The time that a request to the model may take.
    pub timeout: Duration,
}

/// What a server tells the program that runs it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Notice {
    /// The server accepts connections at this address, a URL.
    Listening(String),
    /// Something does not work, and the server goes on without it.
    Warning(String),
    /// This build lacks something that its environment asks for.
    Note(String),
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Notice::Listening(address) => write!(f, "listening on {address}"),
            Notice::Warning(text) => write!(f, "warning: {text}"),
            Notice::Note(text) => f.write_str(text),
        }
    }
}

/// Limits on what clients may do at a time.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Connections at a time. For another one, the server closes the connection whose next request it has waited for the
    /// longest.
    pub max_connections: usize,
    /// Requests at a time. Others are answered with 503, and their clients are to repeat them. Slow requests, such as a
    /// forget, have places of their own, a quarter as many.
    pub max_requests: usize,
    /// The most bytes that the body of a request may have. A larger one is answered with 413.
    pub max_body: usize,
    /// The most bytes that a file may have that is imported. A larger one is answered with 413. Decompressed, it may have
    /// eight times as many.
    pub max_import: u64,
    /// The time in which the body of a request must come, and after that the time that the request may take. A slow
    /// request, such as a reindex, a backup or a forget, may take longer.
    pub request_timeout: Duration,
    /// Requests that a token may make each second, unless its entry in the file of tokens says otherwise. More are answered
    /// with 429.
    pub rate: NonZeroU32,
}

impl Limits {
    /// Slow requests at a time.
    pub(crate) fn max_slow(&self) -> usize {
        self.max_requests.div_ceil(4)
    }

    /// Bodies that are read at a time: at most half of the connections, so that others have room.
    pub(crate) fn max_bodies(&self) -> usize {
        self.max_requests.max(MIN_BODIES).min(self.max_connections.div_ceil(2))
    }
}
