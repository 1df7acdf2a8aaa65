//! Messages that expire: no read returns one from its time on, and it is deleted in the background.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use mnemon::{Namespace, Scope};

use super::*;

const SPACE: &str = "a";
const MILLISECOND: f64 = 1.0 / 60_000.0;

fn space() -> Namespace {
    namespace(SPACE)
}

/// The time in so many milliseconds.
fn after(milliseconds: i64) -> Timestamp {
    Timestamp::from_micros(Timestamp::now().as_micros() + milliseconds * 1000).unwrap()
}

fn brief(id: &str, milliseconds: i64) -> Message {
    message(id, &format!("the ferry {id}")).expiring_at(after(milliseconds))
}

fn put(engine: &Engine, messages: Vec<Message>) {
    engine.blocking().put(&space(), messages).unwrap();
}

fn wait_until(what: &str, done: impl Fn() -> bool) {
    let begun = Instant::now();
    while !done() {
        assert!(begun.elapsed() < Duration::from_secs(20), "{what}: not yet");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Waits until the file has this many messages, as another reader sees it.
fn wait_for_sweep(db: &Db, left: u64) {
    wait_until("the sweep", || mnemon::verify(&db.path).unwrap().messages == left);
}

/// What each read returns: the ids of messages.
fn reads(engine: &Engine) -> Vec<(&'static str, Vec<String>)> {
    let blocking = engine.blocking();
    let sessions = ["default", "chat"];
    let of = |messages: Vec<Message>| messages.into_iter().map(|message| message.id).collect::<Vec<_>>();
    let query = || Query::new("ferry").k(100).keep_duplicates();
    let hits =
        |query: Query| of(blocking.recall(&space(), query).unwrap().into_iter().map(|hit| hit.message).collect());
    let several = blocking.recall_in(&Scope::new().under(&space()), query()).unwrap();
    let mut export = Vec::new();
    blocking.export(&space(), &mut export).unwrap();
    let exported = String::from_utf8(export).unwrap();
    let exported = exported.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let exported =
        exported.filter(|line| line["kind"] == "message").map(|line| line["id"].as_str().unwrap().to_owned());
    let memory = engine.memory(&space(), "chat").open().unwrap();
    let memory = memory.blocking();
    let mut turns = hits(query().unit(mnemon::recall::Unit::Turn));
    turns.sort();
    vec![
        ("history", sessions.iter().flat_map(|session| of(blocking.history(&space(), session).unwrap())).collect()),
        ("numbered history", {
            let after =
                |session: &&str| blocking.history_after(&space(), session, None, usize::MAX, usize::MAX).unwrap();
            of(sessions.iter().flat_map(after).map(|placed| placed.message).collect())
        }),
        ("recall", hits(query())),
        ("recall by words", hits(query().strategy(mnemon::RankingStrategy::Lexical))),
        ("recall by vectors", hits(query().strategy(mnemon::RankingStrategy::Dense))),
        ("recall by turns", turns),
        ("recall in a scope", of(several.into_iter().map(|hit| hit.message).collect())),
        ("export", exported.collect()),
        ("history of a memory", of(memory.history().unwrap())),
        ("prompt", of(memory.get(None).unwrap().messages)),
        ("assembled prompt", {
            let prompt = memory.assemble(Message::user("When does the ferry leave?").with_id("prompt")).unwrap();
            let text = prompt.messages.iter().map(Message::text).collect::<String>();
            let words = text.split(|c: char| !c.is_alphanumeric());
            words.filter(|word| word.len() == 3 && word.starts_with('m')).map(str::to_owned).collect()
        }),
    ]
}

#[derive(Clone, Copy, Debug)]
enum Lifetime {
    Endless,
    Long,
    Brief,
    Over,
}

#[derive(Clone, Debug)]
enum Step {
    Put(u8, Lifetime, bool),
    /// Through the memory of the session, into its buffer.
    Say(u8, Lifetime),
    SetMetadata(u8),
    Delete(u8),
    SetTtl(Option<f64>),
    Flush,
    FlushSession,
    Pass,
    Reopen,
}

fn step() -> impl Strategy<Value = Step> {
    let lifetime = || {
        prop_oneof![
            3 => Just(Lifetime::Endless),
            2 => Just(Lifetime::Long),
            3 => Just(Lifetime::Brief),
            1 => Just(Lifetime::Over)
        ]
    };
    let id = 10..20u8;
    prop_oneof![
        6 => (id.clone(), lifetime(), any::<bool>()).prop_map(|(id, lifetime, edited)| Step::Put(id, lifetime, edited)),
        4 => (30..40u8, lifetime()).prop_map(|(id, lifetime)| Step::Say(id, lifetime)),
        1 => id.clone().prop_map(Step::SetMetadata),
        1 => id.prop_map(Step::Delete),
        1 => prop_oneof![Just(None), Just(Some(30.0 * MILLISECOND)), Just(Some(60.0))].prop_map(Step::SetTtl),
        1 => Just(Step::Flush),
        1 => Just(Step::FlushSession),
        3 => Just(Step::Pass),
        1 => Just(Step::Reopen),
    ]
}

/// The messages that were put, by id, each with its text and the times between which it expires.
type Model = BTreeMap<String, (String, Option<(Timestamp, Timestamp)>)>;

/// Each text that was ever put, which no other put had, and when it expires at the latest.
type Texts = BTreeMap<String, Option<Timestamp>>;

/// Checks that no version of a message is returned after its time, nor what a message was.
fn check_versions(engine: &Engine, model: &Model, texts: &Texts, moments: &[Timestamp]) {
    let begun = Timestamp::now();
    let mut found: Vec<String> = Vec::new();
    for id in model.keys() {
        let versions = engine.blocking().versions(&space(), id).unwrap();
        found.extend(versions.into_iter().map(|version| version.message.text()));
    }
    for time in moments.iter().rev().step_by(4) {
        for word in ["ferry", "leaves"] {
            let query = Query::new(word).k(100).keep_duplicates().as_of(*time);
            let query = query.strategy(mnemon::RankingStrategy::Lexical);
            let hits = engine.blocking().recall(&space(), query).unwrap();
            found.extend(hits.into_iter().map(|hit| hit.message.text()));
        }
    }
    let expired: Vec<String> =
        found.into_iter().filter(|text| texts[text].is_some_and(|latest| latest <= begun)).collect();
    assert!(expired.is_empty(), "versions that have expired: {expired:?}");
}

fn check(engine: &Engine, model: &Model) {
    let begun = Timestamp::now();
    let found = reads(engine);
    let gets: Vec<(&String, Option<Message>)> =
        model.keys().map(|id| (id, engine.blocking().get(&space(), id).unwrap())).collect();
    let over = Timestamp::now();
    let must_go = |id: &str| model.get(id).is_none_or(|(_, expiry)| expiry.is_some_and(|(_, latest)| latest <= begun));
    let must_stay = |id: &str| model[id].1.is_none_or(|(earliest, _)| earliest > over);
    for (id, got) in gets {
        assert!(!(must_go(id) && got.is_some()), "get {id}");
        assert!(!must_stay(id) || got.is_some_and(|got| got.text() == model[id].0), "get {id}");
    }
    for (read, found) in found {
        let gone: Vec<&String> = found.iter().filter(|id| must_go(id)).collect();
        assert!(gone.is_empty(), "{read} returns {gone:?}, which have expired or were deleted");
        if ["history", "numbered history", "export", "recall", "recall by words", "recall in a scope"].contains(&read) {
            let lost: Vec<&String> = model.keys().filter(|id| must_stay(id) && !found.contains(id)).collect();
            assert!(lost.is_empty(), "{read} has lost {lost:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, ..ProptestConfig::default() })]

    #[test]
    fn nothing_expired_is_returned_and_nothing_else_is_lost(
        steps in proptest::collection::vec(step(), 10..40),
        keeps_versions: bool,
    ) {
        let db = Db::new();
        let open = || {
            let config = Config::default().keep_versions(keeps_versions);
            Engine::builder(&db.path).config(config).embedder(Arc::new(Hashing::new(32))).open().unwrap()
        };
        let (mut engine, mut model, mut ttl) = (open(), Model::new(), None);
        let (mut texts, mut moments) = (Texts::new(), Vec::new());
        for step in steps {
            let begun = Timestamp::now();
            let lived = |lifetime| match lifetime {
                Lifetime::Endless => None,
                Lifetime::Long => Some(after(3_600_000)),
                Lifetime::Brief => Some(after(30)),
                Lifetime::Over => Some(after(-1000)),
            };
            // The message as it was put, and when it expires: by itself, or by the namespace.
            let mut note = |model: &mut Model, put: Message, ttl: Option<f64>| {
                let of_ttl = |at: Timestamp, ttl: f64| Timestamp::from_micros(at.as_micros() + (ttl * 6e7) as i64).unwrap();
                let expiry = match (put.expires_at, ttl) {
                    (Some(at), _) => Some((at, at)),
                    (None, Some(ttl)) => Some((of_ttl(begun, ttl), of_ttl(Timestamp::now(), ttl))),
                    (None, None) => None,
                };
                texts.insert(put.text(), expiry.map(|(_, latest)| latest));
                model.insert(put.id.clone(), (put.text(), expiry));
            };
            match step {
                Step::Put(number, lifetime, edited) => {
                    let id = format!("m{number}");
                    // Each put has a text of its own: the same message put again keeps its time.
                    let text = format!("the ferry {id} {} {}", if edited { "leaves" } else { "waits" }, begun.as_micros());
                    let mut put = message(&id, &text);
                    put.expires_at = lived(lifetime);
                    engine.blocking().put(&space(), vec![put.clone()]).unwrap();
                    note(&mut model, put, ttl);
                }
                Step::Say(number, lifetime) => {
                    let id = format!("m{number}");
                    let mut put = message(&id, &format!("the ferry {id} {}", begun.as_micros()));
                    put.expires_at = lived(lifetime);
                    let memory = engine.memory(&space(), "chat").open().unwrap();
                    memory.blocking().put(vec![put.clone()]).unwrap();
                    note(&mut model, put, ttl);
                }
                Step::SetMetadata(number) => {
                    let metadata = serde_json::json!({ "at": begun.as_micros() }).as_object().unwrap().clone();
                    engine.blocking().set_metadata(&space(), &format!("m{number}"), metadata).unwrap();
                }
                Step::Delete(number) => {
                    engine.blocking().delete(&space(), vec![format!("m{number}")]).unwrap();
                    model.remove(&format!("m{number}"));
                }
                Step::SetTtl(minutes) => {
                    engine.blocking().set_ttl(&space(), minutes).unwrap();
                    ttl = minutes;
                }
                Step::Flush => drop(engine.blocking().flush().unwrap()),
                Step::FlushSession => {
                    engine.memory(&space(), "chat").open().unwrap().blocking().flush().unwrap();
                }
                Step::Pass => std::thread::sleep(Duration::from_millis(20)),
                Step::Reopen => {
                    drop(engine);
                    db.assert_sound();
                    engine = open();
                }
            }
            moments.push(Timestamp::now());
            check(&engine, &model);
            check_versions(&engine, &model, &texts, &moments);
        }
        std::thread::sleep(Duration::from_millis(35));
        let now = Timestamp::now();
        check(&engine, &model);
        let left = model.values().filter(|(_, expiry)| expiry.is_none_or(|(at, _)| at > now)).count();
        wait_for_sweep(&db, left as u64);
        check(&engine, &model);
        check_versions(&engine, &model, &texts, &moments);
        drop(engine);
        db.assert_sound();
    }
}

#[test]
fn what_expired_while_the_engine_was_closed_is_deleted_after_opening() {
    let db = Db::new();
    let engine = db.open();
    put(&engine, vec![brief("m1", 10), message("m2", "the ferry m2")]);
    engine.blocking().flush().unwrap();
    drop(engine);
    std::thread::sleep(Duration::from_millis(15));
    let reading = Engine::builder(&db.path).embedder(Arc::new(Hashing::new(32))).open_read_only().unwrap();
    assert_eq!(reading.blocking().get(&space(), "m1").unwrap(), None, "a reader hides it, and cannot delete it");
    assert_eq!(ids(&reading, &space(), Query::new("ferry")), ["m2"]);
    drop(reading);
    let engine = db.open();
    assert_eq!(ids(&engine, &space(), Query::new("ferry")), ["m2"]);
    wait_for_sweep(&db, 1);
    drop(engine);
    assert_eq!(db.assert_sound().vectors, 1);
}

#[test]
fn more_than_one_commit_of_them_is_deleted() {
    let db = Db::new();
    let engine = db.open();
    put(&engine, (0..600).map(|number| brief(&format!("m{number}"), 50)).collect());
    put(&engine, vec![message("kept", "the ferry")]);
    engine.blocking().flush().unwrap();
    wait_for_sweep(&db, 1);
    drop(engine);
    db.assert_sound();
}

#[test]
fn a_put_of_an_expired_id_is_new_and_a_put_sets_or_ends_the_time() {
    let db = Db::new();
    let engine = db.open();
    let report = |message: Message| {
        let report = engine.blocking().put(&space(), vec![message]).unwrap();
        (report.new, report.replaced, report.unchanged)
    };
    let expires = || engine.blocking().get(&space(), "m").unwrap().unwrap().expires_at;
    let at = after(3_600_000);
    let plain = message("m", "the ferry");
    assert_eq!(report(plain.clone().expiring_at(at)), (1, 0, 0));
    engine.blocking().flush().unwrap();
    assert_eq!(expires(), Some(at));
    assert_eq!(report(plain.clone().expiring_at(at)), (0, 0, 1));
    assert_eq!(report(plain.clone()), (0, 1, 0));
    assert_eq!((expires(), engine.blocking().pending().unwrap()), (None, 0), "it is not embedded again");
    engine.blocking().hold(&space(), "a case").unwrap();
    assert_eq!(report(plain.clone().expiring_at(after(-1))), (0, 1, 0));
    assert_eq!(engine.blocking().get(&space(), "m").unwrap(), None);
    assert!(!engine.blocking().set_metadata(&space(), "m", Default::default()).unwrap());
    assert_eq!(report(plain), (0, 1, 0), "under the hold it is there yet, and a put replaces");
    assert_eq!(expires(), None);
    engine.blocking().release(&space()).unwrap();
    drop(engine);
    db.assert_sound();
}

#[test]
fn the_time_to_live_of_a_namespace_is_for_what_is_put_later() {
    let db = Db::new();
    let engine = db.open();
    let blocking = engine.blocking();
    let (old, new) = (message("old", "the ferry"), message("new", "the ferry"));
    put(&engine, vec![old.clone()]);
    blocking.set_ttl(&space(), Some(60.0)).unwrap();
    let info = || blocking.namespaces(None, None, 10).unwrap().namespaces.remove(0).ttl_minutes;
    assert_eq!(info(), Some(60.0));
    let before = Timestamp::now();
    put(&engine, vec![old, new.clone(), brief("own", 30_000)]);
    let expires = |id: &str| blocking.get(&space(), id).unwrap().unwrap().expires_at;
    let first = expires("new").unwrap();
    let minutes = (first.as_micros() - before.as_micros()) as f64 / 6e7;
    assert!((60.0..60.1).contains(&minutes), "{minutes}");
    assert!(expires("own").unwrap() < first);
    assert_eq!(expires("old"), None, "it was stored before");
    put(&engine, vec![new]);
    assert_eq!(expires("new"), Some(first), "the same message does not live longer");
    put(&engine, vec![message("new", "another ferry")]);
    assert!(expires("new").unwrap() > first);
    // It stays when everything else goes, and an export has it.
    blocking.delete_session(&space(), "default").unwrap();
    put(&engine, vec![message("later", "the ferry")]);
    assert!(expires("later").is_some());
    let mut export = Vec::new();
    blocking.export(&space(), &mut export).unwrap();
    blocking.import_as(&namespace("b"), &*export).unwrap();
    blocking.put(&namespace("b"), vec![message("m", "the ferry")]).unwrap();
    assert!(blocking.get(&namespace("b"), "m").unwrap().unwrap().expires_at.is_some());
    assert_eq!(blocking.get(&namespace("b"), "later").unwrap().unwrap().expires_at, expires("later"));
    blocking.set_ttl(&space(), None).unwrap();
    assert_eq!(info(), None);
    put(&engine, vec![message("endless", "the ferry")]);
    assert_eq!(expires("endless"), None);
    for wrong in [0.0, -1.0, f64::NAN, 1e12] {
        assert!(matches!(blocking.set_ttl(&space(), Some(wrong)), Err(Error::InvalidConfig { .. })), "{wrong}");
    }
    // A namespace with nothing but a time to live is not left behind.
    blocking.set_ttl(&namespace("c"), Some(1.0)).unwrap();
    blocking.set_ttl(&namespace("c"), None).unwrap();
    drop(engine);
    assert_eq!(db.assert_sound().namespaces, 2);
}

#[test]
fn a_hold_keeps_them_and_nobody_sees_them() {
    let db = Db::new();
    let engine = db.open();
    engine.blocking().hold(&space(), "a case").unwrap();
    put(&engine, vec![brief("m1", 20), message("m2", "the ferry m2")]);
    engine.blocking().put(&namespace("other"), vec![brief("m3", 20)]).unwrap();
    wait_for_sweep(&db, 2);
    assert_eq!(engine.blocking().get(&space(), "m1").unwrap(), None);
    assert_eq!(ids(&engine, &space(), Query::new("ferry")), ["m2"]);
    drop(engine);
    let engine = db.open();
    std::thread::sleep(Duration::from_millis(30));
    assert_eq!(mnemon::verify(&db.path).unwrap().messages, 2, "it is kept");
    engine.blocking().release(&space()).unwrap();
    wait_for_sweep(&db, 1);
    assert!(engine.blocking().audit().unwrap().is_sound());
    drop(engine);
    db.assert_sound();
}

#[test]
fn a_purge_removes_their_bytes_with_the_versions_that_checkpoints_keep() {
    let db = Db::new();
    let engine = db.open();
    let memory = engine.memory(&space(), "chat").open().unwrap();
    let memory = memory.blocking();
    let said = |text: &str| Message::user(text).with_id("m1").expiring_at(after(100));
    memory.put(vec![said("the password was quicksilver"), Message::user("kept").with_id("m2")]).unwrap();
    let checkpoint = memory.checkpoint("before").unwrap();
    memory.put(vec![said("the password is dragonfly")]).unwrap();
    memory.flush().unwrap();
    engine.blocking().flush().unwrap();
    wait_for_sweep(&db, 1);
    engine.blocking().purge().unwrap();
    let file = std::fs::read(&db.path).unwrap();
    for word in ["quicksilver", "dragonfly"] {
        assert!(!file.windows(word.len()).any(|bytes| bytes == word.as_bytes()), "{word}");
    }
    assert_eq!(memory.messages_at(checkpoint).unwrap().len(), 1);
    memory.restore(checkpoint).unwrap();
    assert_eq!(memory.history().unwrap().len(), 1);
    drop((engine, memory));
    db.assert_sound();
}

#[test]
fn a_message_of_the_buffer_leaves_the_prompt_when_it_expires() {
    let db = Db::new();
    let engine = db.open();
    let memory = engine.memory(&space(), "chat").open().unwrap();
    let memory = memory.blocking();
    let texts = || memory.get(None).unwrap().messages.iter().map(Message::text).collect::<Vec<_>>();
    memory.put(vec![Message::user("one").expiring_at(after(1500)), Message::user("two")]).unwrap();
    // One that was flushed is kept in memory, too.
    memory.put(vec![Message::user("three").expiring_at(after(1500))]).unwrap();
    engine.blocking().hold(&space(), "the sweep deletes nothing").unwrap();
    assert_eq!(texts(), ["one", "two", "three"]);
    memory.flush().unwrap();
    assert_eq!(texts(), ["one", "two", "three"]);
    memory.put(vec![Message::user("four").expiring_at(after(1500))]).unwrap();
    assert_eq!(texts().len(), 4);
    wait_until("expiry", || texts() == ["two"]);
    assert_eq!(memory.history().unwrap().len(), 1);
    drop((engine, memory));
    db.assert_sound();
}
