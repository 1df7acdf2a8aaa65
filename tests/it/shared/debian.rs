//! The distribution's PostgreSQL, without pgvector: vectors are bytes. And TLS, which it has.

use std::process::Command;

use mnemon::{Message, Query};

use super::{open, try_open};
use crate::{
    support::{
        Db, namespace,
        postgres::{Server, query},
    },
    transfer,
};

#[test]
fn without_pgvector_and_over_tls() {
    let folder = tempfile::tempdir().unwrap();
    let (certificate, key) = (folder.path().join("server.crt"), folder.path().join("server.key"));
    let mut openssl = Command::new("openssl");
    openssl.args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]);
    openssl
        .args(["-addext", "subjectAltName=DNS:localhost", "-addext", "basicConstraints=critical,CA:FALSE"])
        .arg("-keyout")
        .arg(&key)
        .arg("-out")
        .arg(&certificate);
    if !openssl.output().is_ok_and(|made| made.status.success()) {
        return crate::support::skipped("PostgreSQL over TLS: no openssl to make a certificate");
    }
    let Some(server) = Server::distribution(&certificate, &key) else { return };
    let plain = server.database();
    let secure = plain.replace("127.0.0.1", "localhost");
    let (a, b) = (Db::new(), Db::new());
    let verified = format!("{secure}?sslmode=verify-full&sslrootcert={}", certificate.display());
    let first = open(&a, &verified);
    transfer::fill(&first);
    first.blocking().flush().unwrap();
    let text = transfer::export(&first);
    let second = open(&b, &format!("{secure}?sslmode=require"));
    assert_eq!(transfer::export(&second), text);
    let space = namespace("home/okafor");
    second.blocking().put(&space, vec![Message::user("a message over TLS")]).unwrap();
    second.blocking().flush().unwrap();
    // It may have heard of the message before there were vectors.
    first.blocking().flush().unwrap();
    let hits = |engine: &mnemon::Engine| engine.blocking().recall(&space, Query::new("message over TLS")).unwrap();
    assert_eq!(*hits(&first), *hits(&second));
    let kind =
        "SELECT data_type FROM information_schema.columns WHERE table_name = 'vectors' AND column_name = 'vector'";
    assert_eq!(query(&plain, kind, &[])[0].get::<_, String>(0), "bytea");
    let encrypted = "SELECT count(*) FROM pg_stat_ssl AS s JOIN pg_stat_activity AS a USING (pid) \
                     WHERE s.ssl AND a.application_name = 'mnemon'";
    assert!(query(&plain, encrypted, &[])[0].get::<_, i64>(0) >= 2);
    // A certificate that nobody vouches for is refused where it is to be verified.
    let error = try_open(&Db::new(), &format!("{secure}?sslmode=verify-full"), mnemon::Freshness::Latest).unwrap_err();
    assert!(error.to_string().contains("certificate"), "{error}");
}
