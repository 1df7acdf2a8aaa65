//! Connections: the address, TLS, the pool, and the thread on which the futures of the client run.

use std::{
    future::Future,
    io::BufReader,
    pin::{Pin, pin},
    str::FromStr,
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
use rustls::{
    ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, ServerName, UnixTime, pem::PemObject},
};
use tokio::{
    runtime::{Builder, Handle},
    sync::oneshot,
    task::JoinHandle,
    time,
};
use tokio_postgres::{
    AsyncMessage, Client, Config, SimpleQueryMessage,
    config::{Host, LoadBalanceHosts, SslMode, TargetSessionAttrs},
    error::SqlState,
};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::failure::cause;
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
    /// The same for each host, in the order of the address.
    hosts: Arc<[Config]>,
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
    /// Reads a connection string, as a URL or as keywords and values. Beside what tokio-postgres knows, `sslmode` may
    /// be `verify-ca` or `verify-full`, `sslrootcert` the path of a file of certificates, and `max_connections` the most
    /// connections of this engine. As in libpq, `require` without `sslrootcert` encrypts and trusts any certificate.
    ///
    /// # Errors
    /// [`Error::InvalidConfig`]. It has no part of the string, which may have a password.
    pub(super) fn parse(url: &str, timeout: Duration) -> Result<Self> {
        let (url, mode) = take_option(url, "sslmode");
        let (url, roots) = take_option(&url, "sslrootcert");
        let (url, connections) = take_option(&url, "max_connections");
        let connections = connections.map_or(Some(CONNECTIONS), |text| text.parse().ok().filter(|&count| count > 0));
        let connections = connections.ok_or_else(|| {
            let reason = "max_connections in the address of the shared database is not a number from 1 on";
            Error::InvalidConfig { reason: reason.into() }
        })?;
        let parsed = Config::from_str(&url).ok();
        let mut config = parsed.filter(|config| !(config.get_hosts().is_empty() && config.get_hostaddrs().is_empty())).ok_or_else(|| {
            let reason = "the address of the shared database is not one of Postgres, names no host, or has an option that \
                          is not known; write postgres://USER:PASSWORD@HOST:PORT/DATABASE, with special characters \
                          percent-encoded";
            Error::InvalidConfig { reason: reason.into() }
        })?;
        let mode = mode.as_deref().unwrap_or("prefer");
        config.ssl_mode(match mode {
            "disable" => SslMode::Disable,
            "allow" | "prefer" => SslMode::Prefer,
            "require" | "verify-ca" | "verify-full" => SslMode::Require,
            _ => {
                let reason =
                    "sslmode of the shared database is none of disable, prefer, require, verify-ca and verify-full";
                return Err(Error::InvalidConfig { reason: reason.into() });
            }
        });
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(timeout);
        }
        if config.get_target_session_attrs() == TargetSessionAttrs::Any {
            // A standby may be behind, and stores nothing.
            config.target_session_attrs(TargetSessionAttrs::ReadWrite);
        }
        if config.get_application_name().is_none() {
            config.application_name("mnemon");
        }
        // Finds a connection that the other side has closed within half a minute.
        config.keepalives_idle(Duration::from_secs(10)).tcp_user_timeout(Duration::from_secs(30));
        let verifies = roots.is_some() || mode.starts_with("verify");
        let patience = config.get_connect_timeout().copied().unwrap_or(timeout);
        let hosts = one_by_one(&config).into();
        let tls = MakeRustlsConnect::new(tls(verifies, roots.as_deref())?);
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
        let is_shuffled = self.hosts[0].get_load_balance_hosts() == LoadBalanceHosts::Random;
        let first = if is_shuffled { random_bytes()[0].into() } else { self.answered.load(Ordering::SeqCst) };
        let limits = if count > 1 { vec![HOST.min(self.patience), self.patience] } else { vec![self.patience] };
        let mut failure = tokio_postgres::Error::__private_api_timeout();
        for limit in limits {
            for at in (first..first + count).map(|at| at % count) {
                match time::timeout(limit, connect_to_primary(&self.hosts[at], &self.tls)).await {
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

/// Returns the configuration of each host. A `Config` gives up no host that it has, so each one is made anew.
fn one_by_one(all: &Config) -> Vec<Config> {
    let (hosts, addresses, ports) = (all.get_hosts(), all.get_hostaddrs(), all.get_ports());
    let one = |at: usize| {
        let mut one = Config::new();
        match hosts.get(at) {
            Some(Host::Tcp(name)) => one.host(name),
            #[cfg(unix)]
            Some(Host::Unix(path)) => one.host_path(path),
            None => &mut one,
        };
        if let Some(address) = addresses.get(at) {
            one.hostaddr(*address);
        }
        if let Some(port) = ports.get(at).or(ports.first()) {
            one.port(*port);
        }
        if let Some(user) = all.get_user() {
            one.user(user);
        }
        if let Some(password) = all.get_password() {
            one.password(password);
        }
        if let Some(name) = all.get_dbname() {
            one.dbname(name);
        }
        if let Some(options) = all.get_options() {
            one.options(options);
        }
        if let Some(name) = all.get_application_name() {
            one.application_name(name);
        }
        if let Some(timeout) = all.get_connect_timeout() {
            one.connect_timeout(*timeout);
        }
        if let Some(timeout) = all.get_tcp_user_timeout() {
            one.tcp_user_timeout(*timeout);
        }
        if let Some(interval) = all.get_keepalives_interval() {
            one.keepalives_interval(interval);
        }
        if let Some(retries) = all.get_keepalives_retries() {
            one.keepalives_retries(retries);
        }
        one.ssl_mode(all.get_ssl_mode()).ssl_negotiation(all.get_ssl_negotiation());
        one.keepalives(all.get_keepalives()).keepalives_idle(all.get_keepalives_idle());
        one.target_session_attrs(all.get_target_session_attrs()).channel_binding(all.get_channel_binding());
        one.load_balance_hosts(all.get_load_balance_hosts());
        one
    };
    (0..hosts.len().max(addresses.len())).map(one).collect()
}

/// The messages that a server sends without being asked, such as notifications.
pub(super) type Messages =
    Pin<Box<dyn Stream<Item = std::result::Result<tokio_postgres::AsyncMessage, tokio_postgres::Error>> + Send>>;

fn take_option(url: &str, name: &str) -> (String, Option<String>) {
    if url.starts_with("postgres://") || url.starts_with("postgresql://") {
        let Some((base, query)) = url.split_once('?') else { return (url.to_owned(), None) };
        let (found, rest): (Vec<&str>, Vec<&str>) =
            query.split('&').partition(|option| option.strip_prefix(name).is_some_and(|rest| rest.starts_with('=')));
        let value = found.last().map(|option| percent_decode(&option[name.len() + 1..]));
        let rest = rest.join("&");
        return (if rest.is_empty() { base.to_owned() } else { format!("{base}?{rest}") }, value);
    }
    let (found, rest): (Vec<&str>, Vec<&str>) =
        url.split_whitespace().partition(|option| option.strip_prefix(name).is_some_and(|rest| rest.starts_with('=')));
    (
        if found.is_empty() { url.to_owned() } else { rest.join(" ") },
        found.last().map(|option| option[name.len() + 1..].to_owned()),
    )
}

fn percent_decode(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        let code = tail.first_chunk::<2>().filter(|_| *first == b'%');
        let byte = code.and_then(|code| u8::from_str_radix(str::from_utf8(code).ok()?, 16).ok());
        bytes.push(byte.unwrap_or(*first));
        rest = if byte.is_some() { &tail[2..] } else { tail };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn tls(verifies: bool, roots: Option<&str>) -> Result<ClientConfig> {
    let provider = Arc::new(ring::default_provider());
    let invalid = |reason: String| Error::InvalidConfig { reason };
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| invalid(format!("TLS: {error}")))?;
    if !verifies {
        let verifier = Arc::new(AnyCertificate(provider));
        return Ok(builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth());
    }
    let mut store = RootCertStore::empty();
    match roots {
        None => store.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned()),
        Some(path) => {
            let failed = |error: String| invalid(format!("sslrootcert of the shared database, {path}: {error}"));
            let file = std::fs::File::open(path).map_err(|error| failed(error.to_string()))?;
            for certificate in CertificateDer::pem_reader_iter(BufReader::new(file)) {
                let certificate = certificate.map_err(|error| failed(error.to_string()))?;
                store.add(certificate).map_err(|error| failed(error.to_string()))?;
            }
            if store.is_empty() {
                return Err(failed("the file has no certificate".into()));
            }
        }
    }
    Ok(builder.with_root_certificates(store).with_no_client_auth())
}

/// Trusts any certificate, as `sslmode=require` and `prefer` do.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> std::result::Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_taken_out_of_addresses() {
        let url = "postgres://u:p@h/d?sslmode=verify-full&connect_timeout=3&sslrootcert=%2Fa%20b.pem";
        let (url, mode) = take_option(url, "sslmode");
        let (url, roots) = take_option(&url, "sslrootcert");
        assert_eq!((url.as_str(), mode.as_deref()), ("postgres://u:p@h/d?connect_timeout=3", Some("verify-full")));
        assert_eq!(roots.as_deref(), Some("/a b.pem"));
        let (words, mode) = take_option("host=h sslmode=disable user=u", "sslmode");
        assert_eq!((words.as_str(), mode.as_deref()), ("host=h user=u", Some("disable")));
    }

    #[test]
    fn an_error_has_no_password() {
        for url in [
            "",
            "postgres://u:secret@h:port/d",
            "postgres://u:secret@/d",
            "host=h password=secret port=x",
            "postgres://u:secret@h/d?sslmode=no",
            "postgres://u:secret@h/d?pool=4",
            "postgres://u:secret@h/d?max_connections=0",
        ] {
            let error = Address::parse(url, Duration::from_secs(1)).err().expect("the address is invalid");
            assert!(matches!(error, Error::InvalidConfig { .. }));
            assert!(!error.to_string().contains("secret"), "{error}");
        }
    }
}
