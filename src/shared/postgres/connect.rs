//! Connections: the hosts of an address, the pool, and the thread on which the futures of the client run.

use std::{
    future::Future,
    pin::{Pin, pin},
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
        mpsc,
    },
    thread,
    time::Duration,
};

use deadpool_postgres::{Connect, Manager, ManagerConfig, Pool, RecyclingMethod, Runtime};
use futures_util::{
    Stream, StreamExt,
    future::{BoxFuture, Either, select},
};
use tokio::{
    runtime::{Builder, Handle},
    sync::oneshot,
    task::JoinHandle,
    time,
};
use tokio_postgres::{
    AsyncMessage, Client, Config, SimpleQueryMessage,
    config::{self, Host, LoadBalanceHosts, TargetSessionAttrs},
    error::SqlState,
};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::{
    failure::cause,
    options::{Options, SslMode, Surroundings},
};
use crate::{
    error::{Error, Result},
    ids::random_bytes,
};

/// The most connections, unless the address says another number: for the writer, for reads that run at the same time, and
/// one that listens.
const CONNECTIONS: usize = 16;
/// The time after which a connection that nobody uses is closed.
const IDLE: Duration = Duration::from_secs(5);

/// The time that one of several hosts gets for all of its handshake, before the next one is asked.
const HOST: Duration = Duration::from_millis(1500);

/// Where and how to connect.
#[derive(Clone)]
pub(super) struct Address {
    /// For each host, in the order of the address, the ways to connect to it: with TLS, without, or one after the other.
    hosts: Arc<[Vec<Config>]>,
    tls: MakeRustlsConnect,
    /// The most connections.
    connections: usize,
    /// The time that a host gets if no other one has answered within [`HOST`].
    patience: Duration,
    /// The host that answered last.
    answered: Arc<AtomicUsize>,
    /// The number of commits that were not replicated as the server promises, see [`Address::unreplicated`].
    unreplicated: Arc<AtomicU64>,
}

impl Address {
    /// Reads an address, as a URL or as keywords and values.
    ///
    /// # Errors
    /// [`Error::InvalidConfig`]. It has no part of the string that may be one of a password.
    pub(super) fn parse(url: &str, timeout: Duration) -> Result<Self> {
        let around = Surroundings::of_process();
        let options = Options::read(url, &around)?;
        let connections = options.max_connections()?.unwrap_or(CONNECTIONS);
        let (mode, tls) = options.tls(&around)?;
        let mut patience = timeout;
        let mut hosts = Vec::new();
        for mut config in options.hosts(&around)? {
            match config.get_connect_timeout() {
                Some(given) => patience = *given,
                None => {
                    config.connect_timeout(timeout);
                }
            }
            // A standby may be behind, and stores nothing.
            config.target_session_attrs(TargetSessionAttrs::ReadWrite);
            if config.get_application_name().is_none() {
                config.application_name("mnemon");
            }
            // Finds a connection that the other side has closed within half a minute.
            config.keepalives_idle(Duration::from_secs(10)).tcp_user_timeout(Duration::from_secs(30));
            hosts.push(attempts(&config, mode));
        }
        let tls = MakeRustlsConnect::new(tls.client()?);
        let hosts = hosts.into();
        Ok(Address { hosts, tls, connections, patience, answered: Arc::default(), unreplicated: Arc::default() })
    }

    pub(super) fn pool(&self) -> Pool {
        let manager = ManagerConfig { recycling_method: RecyclingMethod::Fast };
        let manager = Manager::from_connect(Config::new(), self.clone(), manager);
        let size = self.connections.saturating_sub(1).max(1);
        let pool = Pool::builder(manager).max_size(size).runtime(Runtime::Tokio1).build();
        pool.expect("the pool has a runtime")
    }

    /// Returns true if there may be a connection beside those of the pool.
    pub(super) fn may_listen(&self) -> bool {
        self.connections > 1
    }

    /// Returns the number of commits on connections of the pool that took place on the primary alone, because the wait
    /// for a synchronous standby was cancelled. Postgres acknowledges such a commit with nothing but a warning.
    pub(super) fn unreplicated(&self) -> u64 {
        self.unreplicated.load(Ordering::SeqCst)
    }

    /// Opens a connection outside of the pool, with the messages that the server sends on it. Reading them drives the
    /// connection. Asks the host that answered last, and then the others.
    pub(super) async fn connect(&self) -> std::result::Result<Connected<Messages>, tokio_postgres::Error> {
        let count = self.hosts.len();
        let is_shuffled = self.hosts[0][0].get_load_balance_hosts() == LoadBalanceHosts::Random;
        let first = if is_shuffled { random_bytes()[0].into() } else { self.answered.load(Ordering::SeqCst) };
        let limits = if count > 1 { vec![HOST.min(self.patience), self.patience] } else { vec![self.patience] };
        let mut failure = tokio_postgres::Error::__private_api_timeout();
        for limit in limits {
            for at in (first..first + count).map(|at| at % count) {
                match time::timeout(limit, self.try_each(&self.hosts[at])).await {
                    Ok(Ok(connected)) => {
                        self.answered.store(at, Ordering::SeqCst);
                        return Ok(connected);
                    }
                    Ok(Err(error)) => failure = error,
                    Err(_) => {}
                }
            }
        }
        Err(failure)
    }

    /// Connects in one of several ways, of which the next one is tried if TLS is what failed. The first failure counts.
    async fn try_each(&self, attempts: &[Config]) -> std::result::Result<Connected<Messages>, tokio_postgres::Error> {
        let mut failure = None;
        for config in attempts {
            match connect_to_primary(config, &self.tls).await {
                Err(error) => {
                    let is_about_tls = is_about_tls(&error);
                    failure.get_or_insert(error);
                    if !is_about_tls {
                        break;
                    }
                }
                connected => return connected,
            }
        }
        Err(failure.expect("there is a way to connect"))
    }
}

/// Returns true if a server may answer otherwise with TLS or without: the handshake failed, or the server's rules, which may
/// ask for TLS, refuse the connection.
fn is_about_tls(error: &tokio_postgres::Error) -> bool {
    error.code() == Some(&SqlState::INVALID_AUTHORIZATION_SPECIFICATION)
        || error.to_string().starts_with("error performing TLS handshake")
}

/// Returns the ways to connect to a host.
fn attempts(config: &Config, mode: SslMode) -> Vec<Config> {
    let with = |mode| config.clone().ssl_mode(mode).clone();
    let (plain, encrypted) = (with(config::SslMode::Disable), with(config::SslMode::Require));
    // A socket of this machine has no TLS, whatever the address says.
    if !config.get_hosts().iter().any(|host| matches!(host, Host::Tcp(_))) {
        return vec![plain];
    }
    match mode {
        SslMode::Disable => vec![plain],
        SslMode::Allow => vec![plain, encrypted],
        SslMode::Prefer => vec![with(config::SslMode::Prefer), plain],
        SslMode::Require | SslMode::VerifyCa | SslMode::VerifyFull => vec![encrypted],
    }
}

/// Connects to a host that stores changes. A balancer may have asked its standby whether it does: then that is asked once more,
/// in a way that balancers send to the primary.
async fn connect_to_primary(
    host: &Config,
    tls: &MakeRustlsConnect,
) -> std::result::Result<Connected<Messages>, tokio_postgres::Error> {
    let failure = match connect_to(host, tls).await {
        Err(error) if cause(&error).contains("does not allow writes") => error,
        connected => return connected,
    };
    let (client, mut messages) = connect_to(host.clone().target_session_attrs(TargetSessionAttrs::Any), tls).await?;
    let asked = client.simple_query("SELECT pg_is_in_recovery() OR current_setting('transaction_read_only')::boolean");
    let driven = async { while let Some(Ok(_)) = messages.next().await {} };
    let Either::Left((answer, _)) = select(pin!(asked), pin!(driven)).await else { return Err(failure) };
    let stores = answer?.iter().any(|row| matches!(row, SimpleQueryMessage::Row(row) if row.get(0) == Some("f")));
    if stores { Ok((client, messages)) } else { Err(failure) }
}

async fn connect_to(
    host: &Config,
    tls: &MakeRustlsConnect,
) -> std::result::Result<Connected<Messages>, tokio_postgres::Error> {
    let (client, mut connection) = host.connect(tls.clone()).await?;
    let messages = futures_util::stream::poll_fn(move |context| connection.poll_message(context));
    Ok((client, Box::pin(messages)))
}

impl Connect for Address {
    fn connect(
        &self,
        _: &Config,
    ) -> BoxFuture<'_, std::result::Result<Connected<JoinHandle<()>>, tokio_postgres::Error>> {
        Box::pin(async move {
            let (client, mut messages) = self.connect().await?;
            let unreplicated = Arc::clone(&self.unreplicated);
            let driven = tokio::spawn(async move {
                while let Some(Ok(message)) = messages.next().await {
                    if let AsyncMessage::Notice(notice) = message
                        && *notice.code() == SqlState::WARNING
                    {
                        tracing::warn!("the shared database warns: {}", notice.message());
                        unreplicated.fetch_add(1, Ordering::SeqCst);
                    }
                }
            });
            Ok((client, driven))
        })
    }
}

/// Closes connections of a pool that nobody uses.
pub(super) async fn close_idle(pool: Pool) {
    loop {
        time::sleep(IDLE / 5).await;
        drop(pool.retain(|_, metrics| metrics.last_used() < IDLE));
    }
}

/// A client, and what drives its connection.
type Connected<D> = (Client, D);

/// The messages that a server sends without being asked, such as notifications.
pub(super) type Messages =
    Pin<Box<dyn Stream<Item = std::result::Result<tokio_postgres::AsyncMessage, tokio_postgres::Error>> + Send>>;

/// The name of the thread of the client.
const THREAD: &str = "mnemon-postgres";

/// The thread on which the futures of the client run. Dropping it ends them, and does not wait for that.
///
/// Callers may be on any thread, a worker of another tokio runtime among them, where tokio refuses to drive or to drop
/// a runtime. So the runtime is made, driven and dropped on a thread of its own. Callers hand it futures, and wait on a
/// channel that knows no runtime.
pub(super) struct ClientThread {
    runtime: Handle,
    /// Dropped to end the thread.
    _stop: oneshot::Sender<()>,
}

impl ClientThread {
    /// # Errors
    /// [`Error::ThreadNotStarted`].
    pub(super) fn start() -> Result<Self> {
        let not_started =
            |source: std::io::Error| Error::ThreadNotStarted { name: THREAD.into(), source: source.into() };
        let (ready, is_ready) = mpsc::sync_channel(1);
        let (stop, stopped) = oneshot::channel::<()>();
        let run = move || match Builder::new_current_thread().enable_all().build() {
            Ok(runtime) => {
                let _ = ready.send(Ok(runtime.handle().clone()));
                let _ = runtime.block_on(stopped);
                // A look-up of a host's name may take long, on a thread of the runtime.
                runtime.shutdown_background();
            }
            Err(error) => drop(ready.send(Err(error))),
        };
        thread::Builder::new().name(THREAD.into()).spawn(run).map_err(not_started)?;
        let runtime = is_ready.recv().map_err(|_| Error::Closed)?.map_err(not_started)?;
        Ok(ClientThread { runtime, _stop: stop })
    }

    /// Runs a future beside the others. It must not hold up the thread.
    pub(super) fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) {
        drop(self.runtime.spawn(future));
    }

    /// Runs a future, and waits for its result on the calling thread.
    ///
    /// # Errors
    /// [`Error::Closed`]: the future panicked, or the thread has ended.
    pub(super) fn wait<T: Send + 'static>(&self, future: impl Future<Output = T> + Send + 'static) -> Result<T> {
        let (reply, answer) = mpsc::sync_channel(1);
        // If the caller no longer waits, the result is dropped.
        self.spawn(async move { drop(reply.send(future.await)) });
        answer.recv().map_err(|_| Error::Closed)
    }
}
