//! Several machines with one truth in Postgres. A machine is an engine with a file of its own.

mod command;
mod connect;
mod debian;
mod environments;
mod faults;
mod fence;
mod hang;
mod outage;
mod passing;
mod poolers;
pub(crate) mod proxy;
mod reindex;
mod rented;
mod restore;
mod runtimes;
mod said;
mod tables;
mod tenants;
mod tls;
mod unshare;

use std::{sync::Arc, time::Duration};

use mnemon::{
    Config, DocumentOperation, DocumentOptions, Engine, Error, Freshness, Language, Message, Query,
    admin::LanguageOrigin,
};

use crate::{
    support::{Db, GERMAN, Hashing, chat, message, namespace, postgres::server, recall::lexical},
    transfer,
};

/// Opens a file as a copy of a shared database. It is flushed only when a test calls `flush`, and reads are the latest.
fn open(db: &Db, address: &str) -> Engine {
    try_open(db, address, Freshness::Latest).unwrap()
}

fn try_open(db: &Db, address: &str, freshness: Freshness) -> mnemon::Result<Engine> {
    let mut config = Config::default().keep_versions(true);
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

/// The guess is part of what machines share: whoever embeds makes it, and the others follow.
#[test]
fn messages_and_documents_change_in_one_commit_on_all_machines() {
    const APPENDS: u64 = 20;
    let Some(server) = server() else { return };
    let address = server.database();
    let files = [Db::new(), Db::new()];
    let machines = files.each_ref().map(|db| open(db, &address));
    let space = || namespace("acme/ada");
    let key = || "head".to_owned();
    // Each adds a message and counts it; now and then one deletes the session with its count.
    let change = |engine: &Engine, messages: Vec<DocumentOperation>, next: &dyn Fn(u64) -> u64| loop {
        let head = engine.documents(&space()).blocking().get("head").unwrap().map(|head| head.value);
        let count = head.as_ref().map_or(0, |head| head.as_u64().unwrap());
        let options = DocumentOptions::default().not_indexed();
        let mut operations = messages.clone();
        operations.push(DocumentOperation::Expect { namespace: space(), key: key(), value: head });
        operations.push(DocumentOperation::Put { namespace: space(), key: key(), value: next(count).into(), options });
        match engine.blocking().document_batch(operations) {
            Ok(_) => return,
            Err(Error::DocumentChanged { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    };
    std::thread::scope(|scope| {
        for (at, engine) in machines.iter().enumerate() {
            scope.spawn(move || {
                for number in 0..APPENDS {
                    let message = Message::user(format!("boat {number} of machine {at}")).in_session("chat");
                    let put = DocumentOperation::PutMessages { namespace: space(), messages: vec![message] };
                    change(engine, vec![put], &|count| count + 1);
                    if at == 0 && number % 7 == 6 {
                        let delete = DocumentOperation::DeleteSession { namespace: space(), session: "chat".into() };
                        change(engine, vec![delete], &|_| 0);
                    }
                }
            });
        }
    });
    for engine in &machines {
        let query = Query::new("boat").k(100).freshness(Freshness::Latest);
        engine.blocking().recall(&space(), query).unwrap();
        let count = engine.documents(&space()).blocking().get("head").unwrap().unwrap().value;
        let messages = engine.blocking().history(&space(), "chat").unwrap().len();
        assert_eq!(count, messages, "each message is counted");
        assert!(messages > 0);
    }
    drop(machines);
    files.iter().for_each(|db| drop(db.assert_sound()));
}

#[test]
fn a_guessed_language_is_that_of_all_machines() {
    let Some(server) = server() else { return };
    let address = server.database();
    let (a, b) = (Db::new(), Db::new());
    let (first, second) = (open(&a, &address), open(&b, &address));
    let space = namespace("acme/ada");
    let chosen = |engine: &Engine| {
        let page = engine.blocking().namespaces(None, None, 1).unwrap();
        (page.namespaces[0].language, page.namespaces[0].language_origin)
    };
    let found = |engine: &Engine| {
        let hits = engine.blocking().recall(&space, lexical("haus").k(20)).unwrap();
        hits.iter().filter(|hit| hit.breakdown.bm25 > 0.0).count()
    };
    first.blocking().put(&space, chat(&GERMAN[..4])).unwrap();
    first.blocking().flush().unwrap();
    assert_eq!((found(&first), found(&second)), (0, 0), "too few letters for a guess");
    second.blocking().put(&space, chat(&GERMAN)).unwrap();
    second.blocking().flush().unwrap();
    assert_eq!(chosen(&second), (Language::German, LanguageOrigin::Guessed));
    first.blocking().flush().unwrap();
    assert_eq!(chosen(&first), (Language::German, LanguageOrigin::Guessed));
    assert_eq!((found(&first), found(&second)), (8, 8));
    first.blocking().set_language(&space, Language::Other).unwrap();
    second.blocking().put(&space, vec![message("more", GERMAN[0])]).unwrap();
    second.blocking().flush().unwrap();
    assert_eq!(chosen(&second), (Language::Other, LanguageOrigin::Set));
    assert_eq!((found(&first), found(&second)), (0, 0));
    drop((first, second));
    a.assert_sound();
    b.assert_sound();
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
