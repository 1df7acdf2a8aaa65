//! Postgres, and what speaks its protocol, as the database that several machines share.
//!
//! The only module that uses a client of Postgres. Its futures run on threads of its own; its methods wait for them.

mod connect;
mod failure;
mod leases;
mod listen;
mod migrations;
mod models;
mod pull;
mod push;
mod statements;
mod values;
mod vectors;

use std::{
    future::Future,
    sync::atomic::{AtomicI64, AtomicU64, Ordering},
    time::Duration,
};

use deadpool_postgres::{Object, Pool};
use tokio::runtime::{Builder, Runtime};
use uuid::Uuid;

use self::{
    connect::Address,
    failure::{Failure, ours},
    migrations::Settings,
};
use super::{
    reindexing::{Begun, Decision, ReindexId, Reindexing, RolledBack, Verdict},
    upstream::{Lease, Notified, Pushed, SharedVectors, Upstream, WantedVectors},
};
use crate::{
    error::{Error, Result},
    ids::ModelIdentity,
    store::{Change, Sharing},
};

/// A database of Postgres that holds the truth.
pub(crate) struct Postgres {
    /// `None` only while dropped.
    runtime: Option<Runtime>,
    address: Address,
    pool: Pool,
    settings: Settings,
    /// The time limit of each call.
    timeout: Duration,
    node: Node,
    announce: tokio::sync::mpsc::UnboundedSender<(String, u64)>,
}

/// This opening of the database.
struct Node {
    id: Uuid,
    /// Rises when the outcome of a write is unknown: a write of an older epoch is refused from then on.
    epoch: AtomicI64,
    /// The number of the last write that was tried.
    writes: AtomicU64,
}

impl Postgres {
    /// Connects, and makes or upgrades the schema.
    ///
    /// # Errors
    /// [`Error::InvalidConfig`], [`Error::SharedDatabase`].
    pub(crate) fn open(url: &str, timeout: Duration) -> Result<Self> {
        let address = Address::parse(url, timeout)?;
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("mnemon-postgres")
            .enable_all()
            .build()
            .map_err(|error| Error::Storage(Box::new(error)))?;
        let pool = {
            let _context = runtime.enter();
            address.pool()
        };
        let id = Uuid::now_v7();
        let settings = runtime.block_on(async {
            limited(timeout, async {
                let mut client = pool.get().await.map_err(Failure::from)?;
                let settings = migrations::prepare(&mut client).await?;
                let insert = "INSERT INTO mnemon.nodes (id, epoch, last_write) VALUES ($1, 0, 0)";
                client.execute(insert, &[&id]).await.map_err(Failure::from)?;
                Ok(settings)
            })
            .await
        })?;
        let (announce, announced) = tokio::sync::mpsc::unbounded_channel();
        runtime.spawn(listen::announce(pool.clone(), id, announced));
        let node = Node { id, epoch: AtomicI64::new(0), writes: AtomicU64::new(0) };
        Ok(Postgres { runtime: Some(runtime), address, pool, settings, timeout, node, announce })
    }

    /// Waits for a future, at most for the time limit.
    fn wait<T>(&self, future: impl Future<Output = Result<T>>) -> Result<T> {
        self.runtime().block_on(limited(self.timeout, future))
    }

    fn runtime(&self) -> &Runtime {
        self.runtime.as_ref().expect("it is taken only when dropped")
    }

    async fn client(&self) -> std::result::Result<Object, Failure> {
        self.pool.get().await.map_err(Failure::from)
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            let (pool, id) = (self.pool.clone(), self.node.id);
            let forget = async move {
                let client = pool.get().await.ok()?;
                client.execute("DELETE FROM mnemon.nodes WHERE id = $1", &[&id]).await.ok()
            };
            // A node that leaves no trace is only tidier.
            let _ = runtime.block_on(async { tokio::time::timeout(Duration::from_millis(500), forget).await });
            runtime.shutdown_background();
        }
    }
}

impl std::fmt::Debug for Postgres {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Postgres").field("origin", &self.settings.origin).finish_non_exhaustive()
    }
}

impl Upstream for Postgres {
    fn origin(&self) -> &str {
        &self.settings.origin
    }

    fn timeout(&self) -> Duration {
        self.timeout
    }

    fn seal_key(&self) -> Result<[u8; 32]> {
        self.wait(async {
            let client = self.client().await?;
            migrations::seal_key(&client).await
        })
    }

    fn push(&self, sharing: &Sharing) -> Result<Pushed> {
        if sharing.changes.is_empty() {
            return self.compare(&sharing.lookups);
        }
        let pushed = self.push_changes(sharing)?;
        if pushed == Pushed::Committed {
            for change in &sharing.changes {
                // Fails only when the database is being closed.
                let _ = self.announce.send((change.namespace.clone(), change.version));
            }
        }
        Ok(pushed)
    }

    fn version(&self, namespace: &str) -> Result<u64> {
        Ok(self.versions(&[namespace.to_owned()])?.first().map_or(0, |(_, version)| *version))
    }

    fn versions(&self, namespaces: &[String]) -> Result<Vec<(String, u64)>> {
        self.wait(async { ours(pull::versions(&self.client().await?, namespaces).await) })
    }

    fn namespaces(&self, prefix: Option<&str>) -> Result<Vec<(String, u64, bool)>> {
        self.wait(async { ours(pull::namespaces(&self.client().await?, prefix).await) })
    }

    fn pull(&self, namespace: &str, since: u64) -> Result<Option<Change>> {
        self.wait(async { ours(pull::pull(&self.client().await?, namespace, since).await) })
    }

    fn vectors(&self, model: &ModelIdentity, wanted: &[WantedVectors]) -> Result<Vec<Option<Vec<Vec<f32>>>>> {
        let pgvector = self.settings.has_pgvector;
        self.wait(async { ours(vectors::get(&self.client().await?, pgvector, model, wanted).await) })
    }

    fn offer_vectors(&self, model: &ModelIdentity, offered: &[SharedVectors<'_>]) -> Result<()> {
        let pgvector = self.settings.has_pgvector;
        self.wait(async { ours(vectors::put(&self.client().await?, pgvector, model, offered).await) })
    }

    fn lease(&self, work: &str, namespaces: &[String], time: Duration) -> Result<Vec<Lease>> {
        self.wait(async { ours(leases::take(&self.client().await?, self.node.id, work, namespaces, time).await) })
    }

    fn release(&self, held: &[Lease]) -> Result<()> {
        self.wait(async { ours(leases::release(&self.client().await?, self.node.id, held).await) })
    }

    fn listen(&self, notified: Box<dyn Fn(Notified) + Send + Sync>) {
        self.runtime().spawn(listen::listen(self.address.clone(), self.node.id, notified));
    }
}

impl Reindexing for Postgres {
    fn serving_model(&self) -> Result<Option<ModelIdentity>> {
        self.wait(async { ours(models::serving(&self.client().await?).await) })
    }

    fn set_first_model(&self, model: &ModelIdentity) -> Result<()> {
        self.wait(async { ours(models::set_first(&self.client().await?, model).await) })
    }

    fn begin_reindex(&self, to: &ModelIdentity) -> Result<Begun> {
        self.wait(async { ours(models::begin(&mut self.client().await?, to).await) })
    }

    fn list_work(&self, reindex: ReindexId, after: &str) -> Result<Option<String>> {
        self.wait(async { ours(models::list(&self.client().await?, reindex, after).await) })
    }

    fn claim_work(&self, reindex: ReindexId, limit: usize, time: Duration) -> Result<Option<Vec<String>>> {
        self.wait(async { ours(models::claim(&self.client().await?, self.node.id, reindex, limit, time).await) })
    }

    fn keep_work(&self, reindex: ReindexId, time: Duration) -> Result<()> {
        self.wait(async { ours(models::keep(&self.client().await?, self.node.id, reindex, time).await) })
    }

    fn work_done(&self, reindex: ReindexId, namespace: &str, version: u64) -> Result<()> {
        self.wait(async { ours(models::done(&self.client().await?, reindex, namespace, version).await) })
    }

    fn reindex_progress(&self, reindex: ReindexId) -> Result<(u64, u64)> {
        self.wait(async { ours(models::progress(&self.client().await?, reindex).await) })
    }

    fn larger_namespaces(&self, more_than: u64, limit: usize) -> Result<Vec<String>> {
        self.wait(async { ours(models::larger(&self.client().await?, more_than, limit).await) })
    }

    fn decide(&self, reindex: ReindexId, verdict: &Verdict) -> Result<Decision> {
        self.wait(async { ours(models::decide(&mut self.client().await?, reindex, verdict).await) })
    }

    fn roll_back(&self, to: &ModelIdentity) -> Result<RolledBack> {
        self.wait(async { ours(models::roll_back(&mut self.client().await?, to).await) })
    }

    fn drop_previous_model(&self) -> Result<bool> {
        let dropped = self.wait(async { ours(models::drop_previous(&self.client().await?).await) })?;
        let mut after = dropped.is_some().then(String::new);
        while let (Some(model), Some(name)) = (&dropped, &after) {
            after = self.wait(async { ours(vectors::forget(&self.client().await?, model, name).await) })?;
        }
        Ok(dropped.is_some())
    }
}

impl Node {
    /// The epoch, and the number of a new write.
    fn next_write(&self) -> (i64, i64) {
        (self.epoch.load(Ordering::SeqCst), self.writes.fetch_add(1, Ordering::SeqCst) as i64 + 1)
    }
}

/// Ends a future that takes longer than the time limit.
async fn limited<T>(timeout: Duration, future: impl Future<Output = Result<T>>) -> Result<T> {
    tokio::time::timeout(timeout, future).await.unwrap_or_else(|_| Err(too_slow(timeout)))
}

fn too_slow(timeout: Duration) -> Error {
    Error::SharedDatabase { reason: format!("it did not answer within {} ms", timeout.as_millis()), transient: true }
}
