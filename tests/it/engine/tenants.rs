//! Canaries: each tenant has a word of its own in everything that it stores, and no surface of another one shows it.
//!
//! The names are those that a prefix without whole labels would confuse. What each surface shows is collected as text.
//! It must contain the own word, so a surface that shows nothing is noticed, too.

use mnemon::{
    DocumentNamespaces, DocumentOperation as Operation, DocumentOptions, DocumentSearch, Engine, Message,
    MetadataFilter, Namespace, Query, Scope, VectorBlock,
};
use serde_json::json;

use crate::support::{Db, message, namespace, words};

/// Namespaces and their words.
const TENANTS: [(&str, &str); 5] = [
    ("acme/user-4", "quokka"),
    ("acme/user-42", "wombat"),
    ("acme/user-4 b", "numbat"),
    ("acme/user", "bilby"),
    ("ACME/user-4", "dingo"),
];
const QUESTION: &str = "the red bicycle";

/// The tenant's namespaces: its own, and one below it that has its word as a label.
fn spaces(name: &str, word: &str) -> [Namespace; 2] {
    [namespace(name), namespace(&format!("{name}/{word}"))]
}

/// Stores the same for each tenant: under the same ids, keys and sessions, apart from the word.
fn fill(engine: &Engine, name: &str, word: &str, round: u32) {
    for space in spaces(name, word) {
        let mut noted = message("same", &format!("the red bicycle of {word}, {round}"));
        noted.metadata.insert("kind".into(), json!("note"));
        noted.metadata.insert("owner".into(), json!(word));
        let own =
            message(&format!("{word} {round}"), "a red bicycle").in_session(format!("session of {word}")).by(word);
        engine.blocking().put(&space, vec![noted, own]).unwrap();
        let chat = engine.memory(&space, "chat").message_counter(words()).open().unwrap();
        chat.blocking().put(vec![Message::user(format!("{word} asks about the red bicycle"))]).unwrap();
        let documents = engine.documents(&space);
        let value = json!({"kind": "note", "text": format!("the red bicycle of {word}"), "owner": {"name": word}});
        documents.blocking().put("same", value, DocumentOptions::default().index(["text"])).unwrap();
        let value = json!({"kind": "note", "text": "the red bicycle"});
        documents
            .blocking()
            .put(format!("{word} {round}"), value, DocumentOptions::default().ttl_minutes(60.0))
            .unwrap();
    }
}

/// Returns for each surface what it shows of a tenant, as text.
fn surfaces(engine: &Engine, name: &str, word: &str) -> Vec<(&'static str, String)> {
    let blocking = engine.blocking();
    let [space, below] = spaces(name, word);
    let recall = |query: Query| format!("{:?}", blocking.recall(&space, query.k(1000).keep_duplicates()).unwrap());
    let recall_in = |scope: Scope| {
        let query = Query::new(QUESTION).k(1000).keep_duplicates();
        format!("{:?}", blocking.recall_in(&scope, query).unwrap())
    };
    let note = || MetadataFilter::eq("kind", "note").unwrap();
    let documents = engine.documents(&space);
    let search = |search: DocumentSearch| format!("{:?}", documents.blocking().search(search.limit(500)).unwrap());
    let all = DocumentSearch::default;
    let mut export = Vec::new();
    blocking.export(&space, &mut export).unwrap();
    let copy =
        Engine::builder_in_memory().embedder(std::sync::Arc::new(crate::support::Hashing::new(32))).open().unwrap();
    let copied = namespace("copy");
    copy.blocking().import_as(&copied, export.as_slice()).unwrap();
    let request = || DocumentNamespaces::default().prefix(space.labels());
    let batch = || {
        let (namespace, key) = (space.clone(), "same".to_owned());
        let get = Operation::Get { namespace: namespace.clone(), key, refresh_ttl: true };
        let found = Operation::Search { namespace, search: all().query(QUESTION).below(true).refresh_ttl(true) };
        blocking.document_batch(vec![get, found, Operation::ListNamespaces(request())]).unwrap()
    };
    let prompt = || {
        let memory = engine.memory(&space, "chat").message_counter(words()).block(VectorBlock::new("recalled"));
        memory.open().unwrap().blocking().get(Some(Message::user(QUESTION))).unwrap()
    };
    vec![
        ("recall", recall(Query::new(QUESTION))),
        ("recall with a filter", recall(Query::new(QUESTION).filter(note()))),
        ("recall without one field", recall(Query::new(QUESTION).filter(!MetadataFilter::eq("kind", "x").unwrap()))),
        ("recall of ids", recall(Query::new(QUESTION).ids(["same"]))),
        ("recall in a scope", recall_in(Scope::new().namespace(&space).namespace(&below))),
        ("recall under a prefix", recall_in(Scope::new().under(&space).weight(&space, 2.0))),
        ("get", format!("{:?}", blocking.get(&space, "same").unwrap())),
        ("sessions", format!("{:?}", blocking.sessions(&space).unwrap())),
        ("history", format!("{:?}", blocking.history(&space, "default").unwrap())),
        ("prompt", format!("{:?}", prompt())),
        ("namespaces", format!("{:?}", blocking.namespaces(Some(&space), None, 100).unwrap())),
        ("document", format!("{:?}", documents.blocking().get("same").unwrap())),
        ("documents", search(all())),
        ("documents with a query", search(all().query(QUESTION))),
        ("documents with a filter", search(all().query(QUESTION).filter(note()))),
        ("documents below", search(all().below(true))),
        ("documents below with a query", search(all().below(true).query(QUESTION).filter(note()))),
        ("document namespaces", format!("{:?}", blocking.document_namespaces(request()).unwrap())),
        ("batch", format!("{:?}", batch())),
        ("export", String::from_utf8(export).unwrap()),
        ("import", format!("{:?}", copy.documents(&copied).blocking().search(all().query(QUESTION)).unwrap())),
        ("export of an import", export_all(&copy)),
    ]
}

fn export_all(engine: &Engine) -> String {
    let mut bytes = Vec::new();
    engine.blocking().export_all(&mut bytes).unwrap();
    String::from_utf8(bytes).unwrap()
}

fn assert_apart(engine: &Engine, when: &str) {
    for (name, word) in TENANTS {
        for (surface, text) in surfaces(engine, name, word) {
            assert!(text.contains(word), "{when}: {surface} of {name} shows nothing: {text}");
            for (other, canary) in TENANTS.into_iter().filter(|(other, _)| *other != name) {
                assert!(!text.contains(canary), "{when}: {surface} of {name} shows {canary} of {other}: {text}");
            }
        }
    }
}

#[test]
fn no_surface_of_a_tenant_shows_the_word_of_another() {
    let db = Db::new();
    let engine = db.open();
    TENANTS.into_iter().for_each(|(name, word)| fill(&engine, name, word, 1));
    assert_apart(&engine, "by words alone");
    engine.blocking().flush().unwrap();
    assert_apart(&engine, "embedded");
    TENANTS.into_iter().for_each(|(name, word)| fill(&engine, name, word, 2));
    assert_apart(&engine, "changed");
    drop(engine);
    let engine = db.open();
    assert_apart(&engine, "reopened");

    // What one tenant deletes, the others keep.
    for (at, (name, _)) in TENANTS.into_iter().enumerate() {
        let deleted = engine.blocking().delete_namespaces(&namespace(name)).unwrap();
        assert_eq!((deleted.namespaces, deleted.documents), (2, 6), "{name}");
        let left = export_all(&engine);
        for (other, (_, word)) in TENANTS.into_iter().enumerate() {
            assert_eq!(left.contains(word), other > at, "{word} after the deletion of {name}");
        }
    }
    drop(engine);
    let report = db.assert_sound();
    assert_eq!((report.messages, report.vectors), (0, 0));
}
