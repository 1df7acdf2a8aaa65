//! Connections: the address, TLS, the pool, and the thread on which the futures of the client run.

use std::{
    future::Future,
    io::BufReader,
    pin::Pin,
    str::FromStr,
    sync::{Arc, mpsc},
    thread,
    time::Duration,
};

use deadpool_postgres::{Manager, ManagerConfig, Pool, RecyclingMethod, Runtime};
use futures_util::Stream;
use rustls::{
    ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, ServerName, UnixTime, pem::PemObject},
};
use tokio::{
    runtime::{Builder, Handle},
    sync::oneshot,
};
use tokio_postgres::config::SslMode;
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::error::{Error, Result};

/// The most connections of a pool, for the writer and for reads that run at the same time.
const CONNECTIONS: usize = 16;

/// Where and how to connect.
#[derive(Clone)]
pub(super) struct Address {
    pub(super) config: tokio_postgres::Config,
    tls: MakeRustlsConnect,
}

impl Address {
    /// Reads a connection string, as a URL or as keywords and values. Beside what tokio-postgres knows, `sslmode` may
    /// be `verify-ca` or `verify-full`, and `sslrootcert` the path of a file of certificates. As in libpq, `require`
    /// without `sslrootcert` encrypts and trusts any certificate.
    ///
    /// # Errors
    /// [`Error::InvalidConfig`]. It has no part of the string, which may have a password.
    pub(super) fn parse(url: &str, timeout: Duration) -> Result<Self> {
        let (url, mode) = take_option(url, "sslmode");
        let (url, roots) = take_option(&url, "sslrootcert");
        let parsed = tokio_postgres::Config::from_str(&url).ok();
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
        if config.get_application_name().is_none() {
            config.application_name("mnemon");
        }
        // Finds a connection that the other side has closed within half a minute.
        config.keepalives_idle(Duration::from_secs(10)).tcp_user_timeout(Duration::from_secs(30));
        let verifies = roots.is_some() || mode.starts_with("verify");
        Ok(Address { config, tls: MakeRustlsConnect::new(tls(verifies, roots.as_deref())?) })
    }

    pub(super) fn pool(&self) -> Pool {
        let manager = ManagerConfig { recycling_method: RecyclingMethod::Fast };
        let manager = Manager::from_config(self.config.clone(), self.tls.clone(), manager);
        let pool = Pool::builder(manager).max_size(CONNECTIONS).runtime(Runtime::Tokio1).build();
        pool.expect("the pool has a runtime")
    }

    /// Opens a connection outside of the pool, with the messages that the server sends on it. Reading them drives the
    /// connection.
    pub(super) async fn connect(
        &self,
    ) -> std::result::Result<(tokio_postgres::Client, Messages), tokio_postgres::Error> {
        let (client, mut connection) = self.config.connect(self.tls.clone()).await?;
        Ok((client, Box::pin(futures_util::stream::poll_fn(move |context| connection.poll_message(context)))))
    }
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
        ] {
            let error = Address::parse(url, Duration::from_secs(1)).err().expect("the address is invalid");
            assert!(matches!(error, Error::InvalidConfig { .. }));
            assert!(!error.to_string().contains("secret"), "{error}");
        }
    }
}
