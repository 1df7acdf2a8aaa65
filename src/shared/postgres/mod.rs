//! Postgres, or a database with its protocol, as the primary.
//!
//! [`Postgres`] implements [`Upstream`]. Each method hands a future to the thread of the client (`connect`) and waits
//! for it, so that callers may be on any thread, of any runtime or none. `options` reads the address, and `tls` says whom a
//! connection trusts. A push sends statements (`push`, `statements`), a pull reads rows (`pull`); `nodes` has announcements
//! and leases, `models` the model that serves, `vectors` the vectors that machines offer each other. `migrations` makes and
//! upgrades the schema.
//!
//! This is the only module that uses a client of Postgres. Errors of the client become [`Failure`]s, which tell whether
//! a change was certainly not stored.

mod connect;
mod failure;
mod migrations;
mod models;
mod nodes;
mod options;
mod pooler;
mod pull;
mod push;
mod statements;
mod tls;
mod vectors;

use std::{
    future::Future,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering},
        mpsc,
    },
    time::Duration,
};

use deadpool_postgres::{ClientWrapper, Object, Pool, PoolError};
use sha2::{Digest, Sha256};
use tokio_postgres::error::SqlState;
use uuid::Uuid;

use self::{
    connect::{Address, ClientThread},
    failure::{Failure, ours},
    migrations::Settings,
    statements::escape,
};
use super::upstream::{
    Answer, Begun, Decision, Lease, Notified, Pushed, Question, ReindexId, RolledBack, SharedVectors, Told, Turn,
    Upstream, Verdict, WantedVectors,
};
use crate::{
    error::{Error, Result},
    ids::ModelIdentity,
    store::{Change, History, Sharing, Version, hidden_name},
};

/// The longest time that dropping a database waits for the removal of its node.
const LEAVE: Duration = Duration::from_millis(500);

/// The time after which a server that has no connection left is asked again.
const FULL: Duration = Duration::from_millis(100);

/// A primary in Postgres.
pub(crate) struct Postgres {
    link: Arc<Link>,
    thread: ClientThread,
    announce: tokio::sync::mpsc::UnboundedSender<u8>,
    /// False while nobody calls the engine.
    is_awake: tokio::sync::watch::Sender<bool>,
}

/// State that the futures of calls share.
struct Link {
    address: Address,
    pool: Pool,
    /// Set by the first connection.
    settings: OnceLock<Settings>,
    /// True if vectors are stored in pgvector's type.
    has_pgvector: AtomicBool,
    /// What the replica knows of the primary.
    known: Option<KnownOrigin>,
    /// The time limit of each call.
    timeout: Duration,
    node: Node,
}

/// What a replica knows of its primary without a connection.
#[derive(Clone)]
pub(crate) struct KnownOrigin {
    pub(crate) origin: String,
    pub(crate) seal_key: [u8; 32],
}

/// A lock on a namespace in the primary: no machine changes it until the fence is dropped. The fence is a transaction
/// that has locked the namespace's row, so it ends with the connection, also if the process is killed.
pub(crate) struct Fence(Arc<ClientWrapper>);

/// This opening of the database, in the table of nodes.
struct Node {
    id: Uuid,
    /// Incremented when the outcome of a write is unknown. The database refuses writes of older epochs from then on. The
    /// database may be at another epoch: an increment may come late, and the row may be lost. See `push`.
    epoch: AtomicI64,
    /// The number of the last write that was tried.
    writes: AtomicU64,
}

impl Postgres {
    /// Connects, and creates or upgrades the schema.
    ///
    /// # Errors
    /// [`Error::InvalidConfig`], [`Error::SharedDatabase`].
    pub(crate) fn open(url: &str, timeout: Duration) -> Result<Self> {
        let this = Self::unconnected(url, timeout, None)?;
        this.wait(|link| async move { ours(link.client().await.map(drop)) })?;
        Ok(this)
    }

    /// Same as [`Postgres::open`], for a replica, which can be read without the primary: if the database does not
    /// answer within `patience`, the first later call that reaches it connects.
    pub(crate) fn open_replica(url: &str, timeout: Duration, patience: Duration, known: KnownOrigin) -> Result<Self> {
        let this = Self::unconnected(url, timeout, Some(known))?;
        let link = Arc::clone(&this.link);
        let connect = async move { ours(link.client().await.map(drop)) };
        match this.thread.wait(limited(patience.min(timeout), connect))? {
            Err(error @ Error::SharedDatabase { transient: true, .. }) => {
                tracing::warn!(%error, "the shared database does not answer; the file is opened with what the replica has");
                Ok(this)
            }
            connected => connected.map(|()| this),
        }
    }

    fn unconnected(url: &str, timeout: Duration, known: Option<KnownOrigin>) -> Result<Self> {
        let address = Address::parse(url, timeout)?;
        let thread = ClientThread::start()?;
        let (pool, id) = (address.pool(), Uuid::now_v7());
        let (announce, announced) = tokio::sync::mpsc::unbounded_channel();
        thread.spawn(nodes::announce(pool.clone(), id, announced));
        thread.spawn(connect::close_idle(pool.clone()));
        let node = Node { id, epoch: AtomicI64::new(0), writes: AtomicU64::new(0) };
        let link = Link {
            address,
            pool,
            settings: OnceLock::new(),
            has_pgvector: AtomicBool::new(false),
            known,
            timeout,
            node,
        };
        let is_awake = tokio::sync::watch::Sender::new(false);
        Ok(Postgres { link: Arc::new(link), thread, announce, is_awake })
    }

    /// Locks a namespace against changes of all machines. Waits for changes that are under way.
    pub(crate) fn fence(&self, namespace: &str) -> Result<Fence> {
        let name = escape(namespace);
        self.wait(|link| async move {
            let fence = async {
                // Not one of the pool, which others would get with the transaction.
                let client = Object::take(link.client().await?);
                client.batch_execute("BEGIN").await?;
                client.query("SELECT 1 FROM mnemon.namespaces WHERE name = $1 FOR UPDATE", &[&name]).await?;
                Ok(Fence(Arc::new(client)))
            };
            ours(fence.await)
        })
    }

    /// Same as [`Upstream::push`], for a change of the namespace that the fence locks. A push that succeeds ends the
    /// fence.
    pub(crate) fn push_fenced(&self, fence: &mut Fence, sharing: &Sharing) -> Result<Pushed> {
        let pushed = self.push_changes_fenced(fence, sharing)?;
        self.announce_pushed(sharing, pushed);
        Ok(pushed)
    }

    fn announce_pushed(&self, sharing: &Sharing, pushed: Pushed) {
        if pushed == Pushed::Committed {
            for change in &sharing.changes {
                // Fails only when the database is being closed.
                let _ = self.announce.send(self.bucket(&change.namespace));
            }
        }
    }

    /// Makes a call about vectors. If it is refused, looks again at how they are stored, and makes it once more.
    fn try_vectors<T>(&self, call: impl Fn() -> Result<T>) -> Result<T> {
        match call() {
            Err(Error::SharedDatabase { transient: false, .. }) => {
                self.wait(|link| async move {
                    let mut client = link.client().await?;
                    // Statements that were prepared for another column.
                    client.statement_cache.clear();
                    link.pool.manager().statement_caches.clear();
                    link.has_pgvector.store(migrations::has_pgvector(&mut client).await?, Ordering::SeqCst);
                    Ok(())
                })?;
                call()
            }
            answer => answer,
        }
    }

    /// Runs a call on the client's thread, and waits for it up to the time limit.
    fn wait<T, F>(&self, call: impl FnOnce(Arc<Link>) -> F) -> Result<T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T>> + Send + 'static,
    {
        self.thread.wait(limited(self.link.timeout, call(Arc::clone(&self.link))))?
    }
}

impl Link {
    /// Returns a connection. The first one creates or upgrades the schema.
    async fn client(&self) -> std::result::Result<Object, Failure> {
        let mut client = loop {
            match self.pool.get().await {
                // Others give theirs back after seconds. The caller has a time limit.
                Err(PoolError::Backend(error)) if error.code() == Some(&SqlState::TOO_MANY_CONNECTIONS) => {
                    tokio::time::sleep(FULL).await;
                }
                client => break client?,
            }
        };
        if self.settings.get().is_none() {
            if pooler::is_between(&client).await? {
                pooler::check(&client, &self.address).await?;
            }
            let settings = migrations::prepare(&mut client).await.map_err(Failure::before)?;
            if self.known.as_ref().is_some_and(|known| known.origin != settings.origin) {
                return Err(Failure::Unusable(
                    "the file is a replica of another shared database; delete it, or open it with the address of that database"
                        .into(),
                ));
            }
            let insert = "INSERT INTO mnemon.nodes (id, epoch, last_write) VALUES ($1, 0, 0) ON CONFLICT DO NOTHING";
            client.execute(insert, &[&self.node.id]).await?;
            self.has_pgvector.store(settings.has_pgvector, Ordering::SeqCst);
            let _ = self.settings.set(settings);
        }
        Ok(client)
    }

    fn origin(&self) -> &str {
        let known = self.known.as_ref().map(|known| known.origin.as_str());
        self.settings
            .get()
            .map(|settings| settings.origin.as_str())
            .or(known)
            .expect("connected, or known to the replica")
    }

    fn seal_key(&self) -> [u8; 32] {
        let known = self.known.as_ref().map(|known| known.seal_key);
        self.settings.get().map(|settings| settings.seal_key).or(known).expect("connected, or known to the replica")
    }

    /// Returns true if vectors are stored in pgvector's type. A connection was made before.
    fn has_pgvector(&self) -> bool {
        self.has_pgvector.load(Ordering::SeqCst)
    }

    /// Returns the name of some work for the table of leases. It is hashed, because the work of a block names its
    /// session, and a lease may outlive the session.
    fn hidden_work(&self, work: &str) -> String {
        hidden_name(&self.seal_key(), "leases", "", work)
    }

    /// Answers a question. Calls `silent` if the first statement is not answered within `patience`.
    async fn answer(&self, question: Question, patience: Duration, silent: impl FnOnce()) -> Result<Answer> {
        match question {
            Question::Changes { namespace, history } => {
                let change = async { pull::pull(&self.client().await?, &namespace, &history).await };
                Ok(Answer::Change(patiently(change, patience, silent).await?))
            }
            Question::Namespaces { prefix } => {
                let namespaces = async { pull::namespaces(&self.client().await?, prefix.as_deref()).await };
                Ok(Answer::Namespaces(patiently(namespaces, patience, silent).await?))
            }
        }
    }
}

/// Waits for a future. Calls `silent` if that takes longer than `patience`.
async fn patiently<T>(future: impl Future<Output = T>, patience: Duration, silent: impl FnOnce()) -> T {
    let mut future = std::pin::pin!(future);
    match tokio::time::timeout(patience, &mut future).await {
        Ok(output) => output,
        Err(_) => {
            silent();
            future.await
        }
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        if !self.is_connected() {
            return;
        }
        let link = Arc::clone(&self.link);
        let (left, has_left) = mpsc::sync_channel(1);
        self.thread.spawn(async move {
            let leave = async {
                let client = link.pool.get().await.ok()?;
                client.execute("DELETE FROM mnemon.nodes WHERE id = $1", &[&link.node.id]).await.ok()
            };
            let _ = tokio::time::timeout(LEAVE, leave).await;
            let _ = left.send(());
        });
        // A node that stays in the table does no harm.
        let _ = has_left.recv_timeout(LEAVE);
    }
}

impl std::fmt::Debug for Postgres {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Postgres")
            .field("origin", &self.link.settings.get().map(|settings| &settings.origin))
            .finish_non_exhaustive()
    }
}

impl Upstream for Postgres {
    fn origin(&self) -> &str {
        self.link.origin()
    }

    fn timeout(&self) -> Duration {
        self.link.timeout
    }

    fn is_connected(&self) -> bool {
        self.link.settings.get().is_some()
    }

    fn seal_key(&self) -> [u8; 32] {
        self.link.seal_key()
    }

    fn push(&self, sharing: &Sharing) -> Result<Pushed> {
        if sharing.changes.is_empty() {
            return self.compare(&sharing.lookups);
        }
        let pushed = self.push_changes(sharing, None)?;
        self.announce_pushed(sharing, pushed);
        Ok(pushed)
    }

    fn take_turn(&self, namespaces: &[String]) -> Result<Option<Turn>> {
        // What was changed is pulled over another connection.
        if self.link.pool.status().max_size < 2 {
            return Ok(None);
        }
        let names: Vec<String> = namespaces.iter().map(|name| escape(name)).collect();
        self.wait(|link| async move {
            let held = ours(link.take_turn(&names).await)?;
            Ok(Some(Box::new(held) as Turn))
        })
    }

    fn push_in_turn(&self, turn: Turn, sharing: &Sharing) -> Result<Pushed> {
        if sharing.changes.is_empty() {
            return self.compare(&sharing.lookups);
        }
        let pushed = self.push_changes(sharing, Some(turn))?;
        self.announce_pushed(sharing, pushed);
        Ok(pushed)
    }

    fn versions(&self, namespaces: &[String]) -> Result<Vec<(String, Version)>> {
        let names = namespaces.to_vec();
        self.wait(|link| async move { ours(pull::versions(&link.client().await?, &names).await) })
    }

    fn pull(&self, namespace: &str, history: &History) -> Result<Option<Change>> {
        let (name, history) = (namespace.to_owned(), history.clone());
        self.wait(move |link| async move { ours(pull::pull(&link.client().await?, &name, &history).await) })
    }

    fn ask(&self, question: Question, patience: Duration, tell: Box<dyn Fn(Told) + Send + Sync>) {
        let link = Arc::clone(&self.link);
        self.thread.spawn(async move {
            let answer = link.answer(question, patience, || tell(Told::Nothing));
            let answer = limited(link.timeout, answer).await;
            tell(Told::Answer(answer));
        });
    }

    fn vectors(&self, model: &ModelIdentity, wanted: &[WantedVectors]) -> Result<Vec<Option<Vec<Vec<f32>>>>> {
        self.try_vectors(|| {
            let (model, wanted) = (model.clone(), wanted.to_vec());
            self.wait(|link| async move {
                let client = link.client().await?;
                ours(vectors::get(&client, link.has_pgvector(), &model, &wanted).await)
            })
        })
    }

    fn offer_vectors(&self, model: &ModelIdentity, offered: &[SharedVectors<'_>]) -> Result<()> {
        if !self.is_connected() {
            self.wait(|link| async move { ours(link.client().await.map(drop)) })?;
        }
        self.try_vectors(|| {
            let inserts = vectors::inserts(self.link.has_pgvector(), model, offered);
            self.wait(|link| async move { ours(vectors::put(&link.client().await?, &inserts).await) })
        })
    }

    fn lease(&self, work: &str, namespaces: &[String], time: Duration) -> Result<Vec<Lease>> {
        let (named, names) = (work.to_owned(), namespaces.to_vec());
        let work = self.link.hidden_work(work);
        let taken = self.wait(move |link| async move {
            ours(nodes::take(&link.client().await?, link.node.id, &work, &names, time).await)
        })?;
        Ok(taken.into_iter().map(|namespace| Lease { namespace, work: named.clone() }).collect())
    }

    fn release(&self, held: &[Lease]) -> Result<()> {
        let hidden = |Lease { namespace, work }: &Lease| Lease {
            namespace: namespace.clone(),
            work: self.link.hidden_work(work),
        };
        let held: Vec<Lease> = held.iter().map(hidden).collect();
        self.wait(|link| async move { ours(nodes::release(&link.client().await?, link.node.id, &held).await) })
    }

    fn bucket(&self, namespace: &str) -> u8 {
        let hash: [u8; 32] = Sha256::new().chain_update(self.link.origin()).chain_update(namespace).finalize().into();
        hash[0]
    }

    fn listen(&self, notified: Box<dyn Fn(Notified) + Send + Sync>) {
        let (address, id) = (self.link.address.clone(), self.link.node.id);
        if address.may_listen() {
            self.thread.spawn(nodes::listen(address, id, self.is_awake.subscribe(), notified));
        }
    }

    fn set_awake(&self, is_awake: bool) {
        self.is_awake.send_if_modified(|was_awake| std::mem::replace(was_awake, is_awake) != is_awake);
    }

    fn serving_model(&self) -> Result<Option<ModelIdentity>> {
        self.wait(|link| async move { ours(models::serving(&link.client().await?).await) })
    }

    fn set_first_model(&self, model: &ModelIdentity) -> Result<()> {
        let model = model.clone();
        self.wait(|link| async move { ours(models::set_first(&link.client().await?, &model).await) })
    }

    fn begin_reindex(&self, to: &ModelIdentity) -> Result<Begun> {
        let to = to.clone();
        self.wait(|link| async move { ours(models::begin(&mut link.client().await?, &to).await) })
    }

    fn list_work(&self, reindex: ReindexId, after: &str) -> Result<Option<String>> {
        let after = after.to_owned();
        self.wait(move |link| async move { ours(models::list(&link.client().await?, reindex, &after).await) })
    }

    fn claim_work(&self, reindex: ReindexId, limit: usize, time: Duration) -> Result<Option<Vec<String>>> {
        self.wait(move |link| async move {
            ours(models::claim(&link.client().await?, link.node.id, reindex, limit, time).await)
        })
    }

    fn keep_work(&self, reindex: ReindexId, time: Duration) -> Result<()> {
        self.wait(
            move |link| async move { ours(models::keep(&link.client().await?, link.node.id, reindex, time).await) },
        )
    }

    fn work_done(&self, reindex: ReindexId, namespace: &str, version: u64) -> Result<()> {
        let name = namespace.to_owned();
        self.wait(move |link| async move { ours(models::done(&link.client().await?, reindex, &name, version).await) })
    }

    fn reindex_progress(&self, reindex: ReindexId) -> Result<(u64, u64)> {
        self.wait(move |link| async move { ours(models::progress(&link.client().await?, reindex).await) })
    }

    fn larger_namespaces(&self, more_than: u64, limit: usize) -> Result<Vec<String>> {
        self.wait(move |link| async move { ours(models::larger(&link.client().await?, more_than, limit).await) })
    }

    fn decide(&self, reindex: ReindexId, verdict: &Verdict) -> Result<Decision> {
        let verdict = verdict.clone();
        self.wait(move |link| async move { ours(models::decide(&mut link.client().await?, reindex, &verdict).await) })
    }

    fn roll_back(&self, to: &ModelIdentity) -> Result<RolledBack> {
        let to = to.clone();
        self.wait(|link| async move { ours(models::roll_back(&mut link.client().await?, &to).await) })
    }

    fn drop_previous_model(&self) -> Result<bool> {
        let Some(model) = self.wait(|link| async move { ours(models::drop_previous(&link.client().await?).await) })?
        else {
            return Ok(false);
        };
        let mut after = Some(String::new());
        while let Some(name) = after {
            let model = model.clone();
            after =
                self.wait(|link| async move { ours(vectors::forget(&link.client().await?, &model, &name).await) })?;
        }
        Ok(true)
    }
}

impl Node {
    /// Returns the epoch and the number of a new write.
    fn next_write(&self) -> (i64, i64) {
        (self.epoch.load(Ordering::SeqCst), self.writes.fetch_add(1, Ordering::SeqCst) as i64 + 1)
    }
}

/// Waits for a future up to the time limit.
async fn limited<T>(timeout: Duration, future: impl Future<Output = Result<T>>) -> Result<T> {
    tokio::time::timeout(timeout, future).await.unwrap_or_else(|_| Err(too_slow(timeout)))
}

fn too_slow(timeout: Duration) -> Error {
    Error::SharedDatabase { reason: format!("it did not answer within {} ms", timeout.as_millis()), transient: true }
}
