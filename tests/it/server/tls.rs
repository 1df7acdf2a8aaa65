//! TLS.

use std::{
    io::{Read, Write},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

use rustls::{
    ClientConfig, ClientConnection, RootCertStore, StreamOwned,
    pki_types::{CertificateDer, ServerName, pem::PemObject},
};

use super::{Server, command};
use crate::support::Db;

/// Makes a certificate of `localhost` and its key. Returns `None` where there is no openssl.
fn certificate(folder: &Path) -> Option<(PathBuf, PathBuf)> {
    let (certificate, key) = (folder.join("cert.pem"), folder.join("key.pem"));
    let mut openssl = Command::new("openssl");
    openssl.args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]);
    openssl.args([
        "-subj",
        "/CN=localhost",
        "-addext",
        "subjectAltName=DNS:localhost",
        "-addext",
        "basicConstraints=critical,CA:FALSE",
    ]);
    let made = openssl.arg("-keyout").arg(&key).arg("-out").arg(&certificate).stderr(Stdio::null()).status();
    if made.is_err() {
        eprintln!("SKIPPED: there is no openssl to make a certificate with");
        return None;
    }
    assert!(made.unwrap().success());
    Some((certificate, key))
}

#[test]
fn connections_are_encrypted_with_the_given_certificate() {
    let db = Db::new();
    let Some((certificate, key)) = certificate(db.folder.path()) else { return };
    let server = Server::with(&db, &["--tls-cert", certificate.to_str().unwrap(), "--tls-key", key.to_str().unwrap()]);
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(&certificate).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = Arc::new(config.with_root_certificates(roots).with_no_client_auth());

    // A client that begins a handshake and stops holds up nobody.
    let mut silent = server.connect();
    silent.write_all(b"\x16\x03\x01").unwrap();
    let started = Instant::now();
    let name = ServerName::try_from("localhost").unwrap();
    let connection = ClientConnection::new(config, name).unwrap();
    let mut stream = StreamOwned::new(connection, server.connect());
    stream.write_all(b"GET /health HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    let _ = stream.read_to_string(&mut answer);
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert!(started.elapsed() < Duration::from_secs(8), "{:?}", started.elapsed());
    let plain = server.raw(b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n");
    assert!(!plain.contains("200"), "a server with a certificate speaks TLS alone: {plain}");
}

#[test]
fn a_wrong_certificate_is_named() {
    let (db, runtime) = (Db::new(), tempfile::tempdir().unwrap());
    let Some((certificate, key)) = certificate(db.folder.path()) else { return };
    let (other_certificate, _) = {
        let other = db.folder.path().join("other");
        std::fs::create_dir(&other).unwrap();
        self::certificate(&other).unwrap()
    };
    let refused = |certificate: &Path, key: &Path, part: &str| {
        let mut command = command(runtime.path());
        command.arg("serve").arg("--db").arg(&db.path).args(["--listen", "127.0.0.1:0", "--tls-cert"]).arg(certificate);
        let output = command.arg("--tls-key").arg(key).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && text.contains(part), "{text}");
    };
    refused(&other_certificate, &key, "do not match");
    refused(&key, &key, "key.pem");
    refused(&certificate, Path::new("missing.pem"), "missing.pem");
}
