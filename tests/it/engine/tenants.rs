//! Canaries: each tenant has a word of its own in everything that it stores, and no surface of another one shows it.
//!
//! The names are those that a prefix without whole labels would confuse. What each surface shows is collected as text.
//! It must contain the own word, so a surface that shows nothing is noticed, too.

use std::sync::Arc;

use mnemon::{
    AssembleRequest, BlockContent, BlockQuery, Collection, Config, DocumentNamespaces, DocumentOperation as Operation,
    DocumentOptions, DocumentSearch, Engine, EngineExampleSelector, ExampleSelector, FewShotExample, FlushedBatch,
    Forget, HistoryStore, Language, Memory, MemoryBlock, Message, MessageUpdate, MetadataFilter, Namespace, Profile,
    Query, Result, Scope, VectorBlock,
};
use serde_json::{Value, json};

use crate::support::{Db, Hashing, message, namespace, words};

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

/// A block that shows its state.
struct Diary;

impl MemoryBlock for Diary {
    fn name(&self) -> &str {
        "diary"
    }

    fn put(&self, state: &Value, _: &FlushedBatch<'_>) -> Result<Value> {
        Ok(state.clone())
    }

    fn get(&self, state: &Value, _: &BlockQuery) -> Result<BlockContent> {
        Ok(state.to_string().into())
    }
}

/// Opens an engine that notes its recalls.
fn open(db: &Db) -> Engine {
    let mut config = Config::default().journal(1000).keep_versions(true);
    (config.flush_size, config.idle_flush) = (100_000, None);
    Engine::builder(&db.path).config(config).embedder(Arc::new(Hashing::new(32))).open().unwrap()
}

fn chat(engine: &Engine, space: &Namespace) -> Memory {
    let memory = engine.memory(space, "chat").message_counter(words());
    memory.block(VectorBlock::new("found")).block(Diary).open().unwrap()
}

fn facts(engine: &Engine, space: &Namespace) -> Collection {
    Collection::new(engine, space)
}

/// Stores the same for each tenant: under the same ids, keys and sessions, apart from the word.
fn fill(engine: &Engine, name: &str, word: &str, round: u32) {
    for space in spaces(name, word) {
        engine.blocking().put(&space, vec![message("same", &format!("the bicycle of {word}"))]).unwrap();
        let mut noted = message("same", &format!("the red bicycle of {word}, {round}"));
        noted.metadata.insert("kind".into(), json!("note"));
        noted.metadata.insert("owner".into(), json!(word));
        let own =
            message(&format!("{word} {round}"), "a red bicycle").in_session(format!("session of {word}")).by(word);
        engine.blocking().put(&space, vec![noted, own]).unwrap();
        let chat = chat(engine, &space);
        chat.blocking().put(vec![Message::user(format!("{word} asks about the red bicycle"))]).unwrap();
        chat.blocking().checkpoint(format!("round {round} of {word}")).unwrap();
        chat.blocking().change_block("diary", |_| Ok(json!({"of": word}))).unwrap();
        let said = message("same said", &format!("{word} rides a red bicycle"));
        engine.history_store(&space).append("said", &[said]).unwrap();
        let example = FewShotExample::new("the red bicycle", format!("of {word}, {round}"));
        EngineExampleSelector::new(engine, &space).add_blocking(vec![example]).unwrap();
        Profile::new(engine, &space, "profile").blocking().set(json!({"owns": format!("a bicycle, {word}")})).unwrap();
        facts(engine, &space).blocking().add(json!({"text": format!("{word} has a red bicycle, {round}")})).unwrap();
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
    let noted = || blocking.journal(&space, 1000, None).unwrap();
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
    let copy = Engine::builder_in_memory().embedder(Arc::new(Hashing::new(32))).open().unwrap();
    let copied = namespace("copy");
    copy.blocking().import_as(&copied, export.as_slice()).unwrap();
    let request = || DocumentNamespaces::default().prefix(space.labels());
    let batch = || {
        let (namespace, key) = (space.clone(), "same".to_owned());
        let get = Operation::Get { namespace: namespace.clone(), key, refresh_ttl: true };
        let found = Operation::Search { namespace, search: all().query(QUESTION).below(true).refresh_ttl(true) };
        blocking.document_batch(vec![get, found, Operation::ListNamespaces(request())]).unwrap()
    };
    let memory = chat(engine, &space);
    let memory = memory.blocking();
    let examples = EngineExampleSelector::new(engine, &space);
    let said = engine.history_store(&space);
    vec![
        ("recall", recall(Query::new(QUESTION))),
        ("journal", format!("{:?}", noted())),
        ("replay", format!("{:?}", blocking.replay(&noted()[0]).unwrap())),
        ("recall with a filter", recall(Query::new(QUESTION).filter(note()))),
        ("recall without one field", recall(Query::new(QUESTION).filter(!MetadataFilter::eq("kind", "x").unwrap()))),
        ("recall of ids", recall(Query::new(QUESTION).ids(["same"]))),
        ("recall in a scope", recall_in(Scope::new().namespace(&space).namespace(&below))),
        ("recall under a prefix", recall_in(Scope::new().under(&space).weight(&space, 2.0))),
        ("get", format!("{:?}", blocking.get(&space, "same").unwrap())),
        ("versions", format!("{:?}", blocking.versions(&space, "same").unwrap())),
        ("sessions", format!("{:?}", blocking.sessions(&space).unwrap())),
        ("history", format!("{:?}", blocking.history(&space, "default").unwrap())),
        ("prompt", format!("{:?}", memory.get(Some(Message::user(QUESTION))).unwrap())),
        ("assembled prompt", format!("{:?}", memory.assemble(AssembleRequest::new(Message::user(QUESTION))).unwrap())),
        ("buffer", format!("{:?}", memory.messages().unwrap())),
        ("history of a memory", format!("{:?}", memory.history().unwrap())),
        ("search of a memory", format!("{:?}", memory.search(Query::new(QUESTION).k(1000)).unwrap())),
        ("checkpoints", format!("{:?}", memory.checkpoints().unwrap())),
        ("messages at a checkpoint", format!("{:?}", memory.messages_at(0).unwrap())),
        ("blocks", format!("{:?}", blocking.blocks(&space).unwrap())),
        ("block state", memory.block_state("diary").unwrap().to_string()),
        ("history store", format!("{:?} {:?}", said.sessions().unwrap(), said.messages("said").unwrap())),
        ("examples", format!("{:?}", examples.select(QUESTION).unwrap())),
        ("profile", Profile::new(engine, &space, "profile").blocking().get().unwrap().to_string()),
        ("collection", format!("{:?}", facts(engine, &space).blocking().search(all().query(QUESTION)).unwrap())),
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

type Change<'a> = Box<dyn Fn() -> Result<()> + 'a>;

/// Lets the first tenant make each change of the API, and calls `check` after each.
fn change_everything(engine: &Engine, check: impl Fn(&str)) {
    let (name, word) = TENANTS[0];
    let [space, below] = spaces(name, word);
    let (blocking, memory) = (engine.blocking(), chat(engine, &space));
    let (memory, said) = (memory.blocking(), |id: &str| vec![message(id, "a red bicycle was sold")]);
    let own = format!("{word} 1");
    let (documents, facts) = (engine.documents(&space), facts(engine, &space));
    let profile = Profile::new(engine, &space, "profile");
    let item = facts.blocking().add(json!({"text": "sold"})).unwrap();
    let update = MessageUpdate::Put(message("sold", "a red bicycle was sold"));
    let metadata = || json!({"kind": "sold"}).as_object().unwrap().clone();
    let changes: Vec<(&str, Change<'_>)> = vec![
        ("put", Box::new(|| blocking.put(&space, said("same")).map(drop))),
        ("put_all", Box::new(|| blocking.put_all(vec![(space.clone(), said("same").remove(0))]).map(drop))),
        ("set_metadata", Box::new(|| blocking.set_metadata(&space, "same", metadata()).map(drop))),
        ("set_ttl", Box::new(|| blocking.set_ttl(&space, Some(60.0)))),
        ("set_language", Box::new(|| blocking.set_language(&space, Language::German))),
        ("copy_session", Box::new(|| blocking.copy_session(&space, "chat", "copy").map(drop))),
        ("put of a memory", Box::new(|| memory.put(vec![Message::user("sold")]).map(drop))),
        ("update", Box::new(|| memory.update(vec![update.clone()]).map(drop))),
        ("sync", Box::new(|| memory.sync(vec![Message::user("sold")]).map(drop))),
        ("set of a memory", Box::new(|| memory.set(vec![Message::user("sold")]).map(drop))),
        ("flush of a memory", Box::new(|| memory.flush().map(drop))),
        ("settle", Box::new(|| memory.settle())),
        ("retry_failed", Box::new(|| memory.retry_failed("diary").map(drop))),
        ("change_block", Box::new(|| memory.change_block("diary", |_| Ok(json!("sold"))))),
        ("checkpoint", Box::new(|| memory.checkpoint("sold").map(drop))),
        ("restore", Box::new(|| memory.restore(0))),
        ("fork", Box::new(|| memory.fork(Some(0), "fork").map(drop))),
        ("clear", Box::new(|| memory.clear().map(drop))),
        ("reset", Box::new(|| memory.reset())),
        ("put of a document", Box::new(|| documents.blocking().put("same", json!("sold"), DocumentOptions::default()))),
        ("delete of a document", Box::new(|| documents.blocking().delete("same").map(drop))),
        ("set of a profile", Box::new(|| profile.blocking().set(json!({"owns": "nothing"})))),
        ("patch", Box::new(|| profile.blocking().patch(json!({"owns": null})).map(drop))),
        ("delete of an item", Box::new(|| facts.blocking().delete(&item).map(drop))),
        ("set of a history", Box::new(|| engine.history_store(&space).set("said", &said("other")))),
        ("delete", Box::new(|| blocking.delete(&space, vec!["same".into(), own.clone()]).map(drop))),
        ("delete_session", Box::new(|| blocking.delete_session(&space, "said"))),
        ("optimize", Box::new(|| blocking.optimize(&space))),
        ("hold", Box::new(|| blocking.hold(&below, "sold").map(drop))),
        ("release", Box::new(|| blocking.release(&below).map(drop))),
        ("forget", Box::new(|| blocking.forget(Forget::session(&space, "copy")).map(drop))),
        ("delete_namespace", Box::new(|| blocking.delete_namespace(&below).map(drop))),
        ("delete_namespaces", Box::new(|| blocking.delete_namespaces(&space).map(drop))),
    ];
    for (what, change) in changes {
        change().unwrap_or_else(|error| panic!("{what}: {error}"));
        check(what);
    }
}

#[test]
fn no_change_of_a_tenant_reaches_another() {
    let db = Db::new();
    let engine = open(&db);
    TENANTS.into_iter().for_each(|(name, word)| fill(&engine, name, word, 1));
    engine.blocking().flush().unwrap();
    let export = |space: &Namespace| {
        let mut lines = Vec::new();
        engine.blocking().export(space, &mut lines).unwrap();
        String::from_utf8(lines).unwrap()
    };
    let others = || -> Vec<String> {
        TENANTS[1..].iter().flat_map(|(name, word)| spaces(name, word)).map(|space| export(&space)).collect()
    };
    let (before, own) = (others(), export(&namespace(TENANTS[0].0)));
    change_everything(&engine, |what| assert!(others() == before, "{what} changed another tenant"));
    assert!(export(&namespace(TENANTS[0].0)) != own);
    drop(engine);
    db.assert_sound();
}

#[test]
fn no_surface_of_a_tenant_shows_the_word_of_another() {
    let db = Db::new();
    let engine = open(&db);
    TENANTS.into_iter().for_each(|(name, word)| fill(&engine, name, word, 1));
    assert_apart(&engine, "by words alone");
    engine.blocking().flush().unwrap();
    assert_apart(&engine, "embedded");
    TENANTS.into_iter().for_each(|(name, word)| fill(&engine, name, word, 2));
    assert_apart(&engine, "changed");
    drop(engine);
    let engine = open(&db);
    assert_apart(&engine, "reopened");

    // What one tenant deletes, the others keep.
    for (at, (name, _)) in TENANTS.into_iter().enumerate() {
        let deleted = engine.blocking().delete_namespaces(&namespace(name)).unwrap();
        assert_eq!((deleted.namespaces, deleted.documents), (2, 12), "{name}");
        let left = export_all(&engine);
        for (other, (_, word)) in TENANTS.into_iter().enumerate() {
            assert_eq!(left.contains(word), other > at, "{word} after the deletion of {name}");
        }
    }
    drop(engine);
    let report = db.assert_sound();
    assert_eq!((report.messages, report.vectors), (0, 0));
}
