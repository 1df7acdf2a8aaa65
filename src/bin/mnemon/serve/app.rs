//! The state that all requests share.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use mnemon::{Engine, Hits, Namespace, Query};
use tokio::sync::Semaphore;

use super::{caller::Caller, idempotency::Answers, limits::Limits, metrics::Metrics, origin::Hosts, tokens::Tokens};
use crate::shared;

pub(super) struct App {
    pub(super) engine: Engine,
    pub(super) db: PathBuf,
    /// `None`: every request is that of the owner.
    pub(super) tokens: Option<Tokens>,
    pub(super) owner: Arc<Caller>,
    pub(super) hosts: Hosts,
    pub(super) metrics: Metrics,
    pub(super) answers: Answers,
    pub(super) requests: Semaphore,
    pub(super) limits: Limits,
    #[cfg(debug_assertions)]
    pub(super) serves_fixture: bool,
    /// Places for recalls on threads of the server.
    recalls: Semaphore,
    connections: AtomicUsize,
}

impl App {
    pub(super) fn new(
        engine: Engine,
        db: &Path,
        tokens: Option<Tokens>,
        address: Option<SocketAddr>,
        hosts: &[String],
        limits: &Limits,
    ) -> Self {
        App {
            engine,
            db: db.to_owned(),
            tokens,
            owner: Arc::new(Caller::owner()),
            hosts: Hosts::new(address, hosts),
            metrics: Metrics::new(),
            answers: Answers::default(),
            requests: Semaphore::new(limits.max_requests),
            limits: limits.clone(),
            #[cfg(debug_assertions)]
            serves_fixture: false,
            recalls: Semaphore::new(thread::available_parallelism().map_or(1, usize::from)),
            connections: AtomicUsize::new(0),
        }
    }

    /// Sets whether `/mcp` serves the fixture of MCP's conformance suite instead of the memory.
    #[cfg(debug_assertions)]
    pub(super) fn with_fixture(self, serves_fixture: bool) -> Self {
        App { serves_fixture, ..self }
    }

    /// Recalls on the thread that serves the request while fewer recalls than processors do, which spares two changes of
    /// threads, a quarter of the time of a short recall; otherwise on the engine's threads, in turn. With a shared
    /// database always there: a recall may wait for it.
    pub(super) async fn recall(&self, namespace: &Namespace, query: Query) -> mnemon::Result<Hits> {
        match self.recalls.try_acquire() {
            Ok(_running) if shared::address().is_none() => self.engine.blocking().recall(namespace, query),
            _ => self.engine.recall(namespace, query).await,
        }
    }

    /// Counts a connection until the returned value is dropped.
    pub(super) fn connected(self: &Arc<Self>) -> Connected {
        self.connections.fetch_add(1, Ordering::Relaxed);
        Connected(Arc::clone(self))
    }

    /// Returns after this time without a connection.
    pub(super) async fn idle(&self, time: Duration) {
        let step = (time / 4).clamp(Duration::from_millis(50), Duration::from_secs(5));
        let mut idle = Duration::ZERO;
        while idle < time {
            tokio::time::sleep(step).await;
            idle = if self.connections.load(Ordering::Relaxed) == 0 { idle + step } else { Duration::ZERO };
        }
    }
}

/// A connection that is open.
pub(super) struct Connected(Arc<App>);

impl Drop for Connected {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Ordering::Relaxed);
    }
}
