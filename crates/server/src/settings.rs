//! What a server is told by the program that runs it, and what it tells.

use std::{fmt, net::SocketAddr, num::NonZeroU32, path::PathBuf, time::Duration};

/// Bodies that are read at a time, however few requests run.
const MIN_BODIES: usize = 64;

/// How a server listens, whom it serves, and what it allows.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The address and port to listen on. Port 0 takes a free one. `None`: the Unix socket of the database alone.
    pub listen: Option<SocketAddr>,
    /// End after this time without a connection. `None`: never.
    pub idle: Option<Duration>,
    /// The file of tokens. With it every request over TCP needs a token.
    pub tokens: Option<PathBuf>,
    /// Names under which clients reach this server, beside its address and localhost.
    pub hosts: Vec<String>,
    /// The certificate chain and its private key, in PEM. With them, connections are encrypted.
    pub tls: Option<(PathBuf, PathBuf)>,
    /// Limits on what clients may ask for.
    pub limits: Limits,
    /// True for a replica of a shared database: its recalls may wait for the primary, so they run on the engine's threads.
    pub is_replica: bool,
    /// The log on stderr is in JSON.
    pub json_log: bool,
    /// Serve the fixture of MCP's conformance suite at /mcp instead of the memory. Only debug builds can.
    #[doc(hidden)]
    pub conformance_fixture: bool,
}

/// What a server tells the program that runs it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Notice {
    /// It accepts connections at this address, a URL.
    Listening(String),
    /// Something does not work, and the server goes on without it.
    Warning(String),
    /// Something that was asked for is not in this build.
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

/// Limits on what clients may ask for at a time.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Connections at a time. For another, the one is closed that has waited for a request the longest.
    pub max_connections: usize,
    /// Requests at a time. Others are answered with 503, and are to be repeated. Slow requests, such as a forget, have a
    /// quarter as many places of their own.
    pub max_requests: usize,
    /// Bytes of the body of a request.
    pub max_body: usize,
    /// The time that the body of a request may take, and then the request itself. A reindex, a backup and a forget may take
    /// longer.
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

    /// Bodies that are read at a time. Other connections have room beside them.
    pub(crate) fn max_bodies(&self) -> usize {
        self.max_requests.max(MIN_BODIES).min(self.max_connections.div_ceil(2))
    }
}
