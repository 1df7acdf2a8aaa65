//! Several machines with one truth in Postgres. A machine is an engine with a file of its own.

mod command;
mod debian;
mod faults;
mod hang;
mod outage;
pub(crate) mod proxy;
mod reindex;
mod runtimes;
mod tables;
mod tenants;
mod unshare;

use std::{sync::Arc, time::Duration};

use mnemon::{Config, Engine, Freshness, Message, Query};

use crate::{
    support::{Db, Hashing, namespace, postgres::server},
    transfer,
};

/// Opens a file as a copy of a shared database. It is flushed only when a test calls `flush`, and reads are the latest.
fn open(db: &Db, address: &str) -> Engine {
    try_open(db, address, Freshness::Latest).unwrap()
}

fn try_open(db: &Db, address: &str, freshness: Freshness) -> mnemon::Result<Engine> {
    let mut config = Config::default();
    config.flush_size = 100_000;
    config.idle_flush = None;
    config.shared_timeout = Duration::from_secs(5);
    let builder = Engine::builder(&db.path).config(config).embedder(Arc::new(Hashing::new(32)));
    builder.shared(address).freshness(freshness).open()
}

#[test]
fn what_one_machine_stores_another_has() {
    let Some(server) = server() else { return };
    let address = server.database();
    let (a, b) = (Db::new(), Db::new());
    let (first, second) = (open(&a, &address), open(&b, &address));
    let space = namespace("acme/ada");
    first.blocking().put(&space, vec![Message::user("my bike is in the cellar").with_id("m1")]).unwrap();
    let hits = second.blocking().recall(&space, Query::new("bike cellar")).unwrap();
    assert_eq!((hits[0].message.id.as_str(), hits.version()), ("m1", Some(1)));
    second.blocking().put(&space, vec![Message::user("the bike is red").with_id("m2")]).unwrap();
    second.blocking().delete(&space, vec!["m1".into()]).unwrap();
    assert_eq!(first.blocking().get(&space, "m1").unwrap(), None);
    assert_eq!(first.blocking().get(&space, "m2").unwrap().unwrap().text(), "the bike is red");
}

#[test]
fn a_new_machine_has_all_of_the_truth() {
    let Some(server) = server() else { return };
    let address = server.database();
    let (a, b) = (Db::new(), Db::new());
    let first = open(&a, &address);
    transfer::fill(&first);
    let text = transfer::export(&first);
    let second = open(&b, &address);
    assert_eq!(transfer::export(&second), text);
    // Vectors are made once.
    first.blocking().flush().unwrap();
    drop((first, second));
    assert_eq!(transfer::export(&open(&a, &address)), text, "after reopening");
    a.assert_sound();
    b.assert_sound();
}
