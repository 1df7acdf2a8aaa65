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

use mnemon::{Engine, Error, Hits, Namespace, Query, Scope};
use tokio::sync::{Semaphore, SemaphorePermit};

use super::{
    bounds::Cost,
    caller::Caller,
    crowd::Crowd,
    idempotency::Answers,
    metrics::Metrics,
    origin::Hosts,
    problem::Problem,
    settings::{Limits, Settings},
    tokens::Tokens,
};

/// Bodies of the greatest size that are worked on at a time: what is made of one takes many times its bytes.
const BODIES: usize = 8;

pub(super) struct App {
    pub(super) engine: Engine,
    pub(super) db: PathBuf,
    /// `None`: every request is that of the owner.
    pub(super) tokens: Option<Tokens>,
    pub(super) owner: Arc<Caller>,
    pub(super) hosts: Hosts,
    pub(super) metrics: Metrics,
    pub(super) answers: Answers,
    /// Places of requests.
    pub(super) requests: Semaphore,
    /// Places of requests that may take long.
    pub(super) slow_requests: Semaphore,
    /// Bodies that are being read.
    pub(super) bodies: Arc<Crowd>,
    /// Bytes of the larger bodies that are being worked on.
    pub(super) body_bytes: Semaphore,
    /// Connections whose next request has not come.
    pub(super) idle_connections: Arc<Crowd>,
    pub(super) limits: Limits,
    /// Recalls may wait for the primary.
    is_replica: bool,
    /// `/mcp` serves the fixture of MCP's conformance suite instead of the memory.
    #[cfg(debug_assertions)]
    pub(super) serves_fixture: bool,
    /// Places for recalls on threads of the server.
    recalls: Semaphore,
    /// Places for recalls with heavy filters.
    heavy_recalls: Arc<Semaphore>,
    connections: AtomicUsize,
}

impl App {
    pub(super) fn new(
        engine: Engine,
        db: &Path,
        tokens: Option<Tokens>,
        address: Option<SocketAddr>,
        settings: &Settings,
    ) -> Self {
        let limits = &settings.limits;
        let processors = thread::available_parallelism().map_or(1, usize::from);
        App {
            engine,
            db: db.to_owned(),
            tokens,
            owner: Arc::new(Caller::owner()),
            hosts: Hosts::new(address, &settings.hosts),
            metrics: Metrics::new(),
            answers: Answers::default(),
            requests: Semaphore::new(limits.max_requests),
            slow_requests: Semaphore::new(limits.max_slow()),
            bodies: Crowd::new(limits.max_bodies()),
            body_bytes: Semaphore::new(BODIES * limits.max_body),
            idle_connections: Crowd::new(usize::MAX),
            limits: limits.clone(),
            is_replica: settings.is_replica,
            #[cfg(debug_assertions)]
            serves_fixture: settings.conformance_fixture,
            recalls: Semaphore::new(processors),
            heavy_recalls: Arc::new(Semaphore::new(processors.div_ceil(2))),
            connections: AtomicUsize::new(0),
        }
    }

    /// Recalls on the thread that serves the request while fewer recalls than processors do, which spares two changes of
    /// threads, a quarter of the time of a short recall; otherwise on the engine's threads, in turn. In a replica
    /// always there: a recall may wait for the primary.
    pub(super) async fn recall(&self, namespace: &Namespace, query: Query) -> mnemon::Result<Hits> {
        match self.recalls.try_acquire() {
            Ok(_running) if !self.is_replica => self.engine.blocking().recall(namespace, query),
            _ => self.engine.recall(namespace, query).await,
        }
    }

    /// Same as [`App::recall`], for a filter of this cost. Where it is heavy, at most half of the processors are busy with
    /// such recalls, and other recalls do not wait for them. The query has a limit of time.
    pub(super) async fn recall_filtered(
        &self,
        namespace: &Namespace,
        query: Query,
        cost: Cost,
    ) -> Result<Hits, Problem> {
        match cost.is_heavy() {
            false => Ok(self.recall(namespace, query).await?),
            true => {
                let namespace = namespace.clone();
                self.recall_heavily(move |engine| engine.blocking().recall(&namespace, query)).await
            }
        }
    }

    /// Same as [`App::recall_filtered`], for several namespaces.
    pub(super) async fn recall_in(&self, scope: Scope, query: Query, cost: Cost) -> Result<Hits, Problem> {
        match cost.is_heavy() {
            false => Ok(self.engine.recall_in(&scope, query).await?),
            true => self.recall_heavily(move |engine| engine.blocking().recall_in(&scope, query)).await,
        }
    }

    async fn recall_heavily(
        &self,
        recall: impl FnOnce(&Engine) -> mnemon::Result<Hits> + Send + 'static,
    ) -> Result<Hits, Problem> {
        let _place = self.slow_place()?;
        let running = Arc::clone(&self.heavy_recalls).acquire_owned().await.expect("the semaphore is never closed");
        let engine = self.engine.clone();
        let recalled = tokio::task::spawn_blocking(move || {
            // Until it ends, even if nobody waits for it any more.
            let _running = running;
            recall(&engine)
        });
        Ok(recalled.await.unwrap_or(Err(Error::Closed))?)
    }

    /// Takes one of the places for slow requests, for a request that turns out to be one.
    pub(super) fn slow_place(&self) -> Result<SemaphorePermit<'_>, Problem> {
        self.slow_requests.try_acquire().map_err(|_| Problem::overloaded())
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
