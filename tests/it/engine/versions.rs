//! Versions: what a message was before its text changed, and recalls as of a time at which it was so.

use std::{collections::BTreeMap, time::Duration};

use mnemon::{Forget, MetadataFilter, Namespace, RankingStrategy, Scope, Unit};
use serde_json::json;

use super::*;
use crate::support::recall::lexical;

fn space() -> Namespace {
    namespace("a")
}

fn open(db: &Db) -> Engine {
    let mut config = Config::default().keep_versions(true);
    (config.flush_size, config.idle_flush) = (100_000, None);
    Engine::builder(&db.path).config(config).embedder(Arc::new(Hashing::new(32))).open().unwrap()
}

fn put(engine: &Engine, id: &str, text: &str) {
    engine.blocking().put(&space(), vec![message(id, text)]).unwrap();
}

fn texts(engine: &Engine, id: &str) -> Vec<String> {
    engine.blocking().versions(&space(), id).unwrap().into_iter().map(|version| version.message.text()).collect()
}

/// A time between the commits before and after this call.
fn moment() -> Timestamp {
    let tick = || {
        let begun = Timestamp::now();
        while Timestamp::now().as_micros() < begun.as_micros() + 2 {}
    };
    tick();
    let now = Timestamp::now();
    tick();
    now
}

/// The ids and texts that a recall as of a time returns, sorted.
fn as_of(engine: &Engine, query: Query, time: Timestamp) -> Vec<(String, String)> {
    let hits = engine.blocking().recall(&space(), query.as_of(time).k(100).keep_duplicates()).unwrap();
    let mut found: Vec<_> = hits.into_iter().map(|hit| (hit.message.id.clone(), hit.message.text())).collect();
    found.sort();
    found
}

fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
    expected.iter().map(|(id, text)| (id.to_string(), text.to_string())).collect()
}

#[test]
fn a_message_that_is_replaced_keeps_what_it_was() {
    let db = Db::new();
    let engine = open(&db);
    let blocking = engine.blocking();
    put(&engine, "m", "the ferry leaves at one");
    put(&engine, "m", "the ferry leaves at one");
    assert_eq!(texts(&engine, "m"), [""; 0], "it did not change");
    let noted = json!({ "line": 7 }).as_object().unwrap().clone();
    blocking.set_metadata(&space(), "m", noted.clone()).unwrap();
    assert_eq!(texts(&engine, "m"), [""; 0], "a change of metadata alone");
    let before = moment();
    put(&engine, "m", "the ferry leaves at two");
    let after = moment();
    let named = message("m", "the ferry leaves at two").by("Ada");
    blocking.put(&space(), vec![named.clone().in_session("chat")]).unwrap();
    blocking.put(&space(), vec![named.in_session("chat").in_session("chat")]).unwrap();
    let versions = blocking.versions(&space(), "m").unwrap();
    assert_eq!(texts(&engine, "m"), ["the ferry leaves at one", "the ferry leaves at two"]);
    assert_eq!(versions[0].message.metadata, noted);
    assert!(before < versions[0].until && versions[0].until < after && after < versions[1].until);
    assert_eq!((versions[1].message.name.as_deref(), versions[1].message.session.as_str()), (None, "default"));
    // In the buffer of a session, by a list that is synced, and by a checkpoint that is restored.
    let memory = engine.memory(&space(), "list").open().unwrap();
    memory.blocking().put(vec![message("said", "one")]).unwrap();
    memory.blocking().checkpoint("").unwrap();
    memory.blocking().sync(vec![message("said", "two"), message("more", "and more")]).unwrap();
    assert_eq!(texts(&engine, "said"), ["one"]);
    memory.blocking().restore(0).unwrap();
    assert_eq!(texts(&engine, "said"), ["one", "two"]);
    assert_eq!(texts(&engine, "unknown"), [""; 0]);
    // They go with their message.
    blocking.delete(&space(), vec!["m".into()]).unwrap();
    put(&engine, "m", "the ferry leaves at three");
    assert_eq!(texts(&engine, "m"), [""; 0]);
    drop((memory, engine));
    // Without the setting none are made; those that are there stay.
    let engine = db.open();
    put(&engine, "m", "the ferry leaves at four");
    assert_eq!((texts(&engine, "m").len(), texts(&engine, "said").len()), (0, 2));
    engine.blocking().delete_session(&space(), "list").unwrap();
    drop(engine);
    db.assert_sound();
}

#[test]
fn a_recall_as_of_a_time_finds_and_returns_what_messages_were() {
    let db = Db::new();
    let engine = open(&db);
    let blocking = engine.blocking();
    put(&engine, "m", "Ada's rent is nine hundred");
    put(&engine, "other", "the ferry leaves at one");
    let reply = |text: &str| blocking.put(&space(), vec![Message::assistant(text).with_id("reply")]).unwrap();
    reply("Noted: at one");
    blocking.flush().unwrap();
    let first = moment();
    reply("Noted: at two");
    put(&engine, "m", "Ada pays twelve hundred a month");
    let second = moment();
    for is_flushed in [false, true] {
        let then = pairs(&[("m", "Ada's rent is nine hundred")]);
        // By a word that it has no more.
        let found = |query: Query| blocking.recall(&space(), query).unwrap();
        let hits = found(lexical("rent").as_of(first).k(1));
        assert_eq!((hits[0].message.text(), hits[0].breakdown.bm25 > 0.0), (then[0].1.clone(), true));
        assert_eq!(hits[0].passage, 0..then[0].1.len());
        assert_eq!(found(lexical("rent").as_of(second).k(1))[0].breakdown.bm25, 0.0);
        assert_eq!(found(lexical("month").as_of(first).k(2))[0].breakdown.bm25, 0.0, "a word of later");
        assert_eq!(found(Query::new("rent").as_of(first).k(1))[0].message.text(), then[0].1);
        assert_eq!(found(Query::new("rent").as_of(first)).pending(), 0);
        let others = [("other", "the ferry leaves at one"), ("reply", "Noted: at one")];
        let all = pairs(&[&[("m", "Ada's rent is nine hundred")], &others[..]].concat());
        if is_flushed {
            assert_eq!(as_of(&engine, dense("month"), first), all);
            assert_eq!(as_of(&engine, Query::new("month"), first), all);
        }
        let hits = blocking.recall_in(&Scope::new().under(&space()), lexical("rent").as_of(first).k(1)).unwrap();
        assert_eq!(hits[0].message.text(), then[0].1);
        let turns = found(lexical("ferry").unit(Unit::Turn).as_of(first));
        assert_eq!(turns[0].others.iter().map(Message::text).collect::<Vec<_>>(), ["Noted: at one"]);
        // Filters look at the message as it was.
        assert_eq!(as_of(&engine, lexical("rent").role(Role::User).ids(["m"]), first), then);
        assert_eq!(as_of(&engine, lexical("rent").except(["m"]), first), pairs(&others));
        blocking.flush().unwrap();
    }
    // A time of its own that was moved on does not hide what it was.
    let late = message("m", "Ada moved out").at("2100-01-01T00:00:00Z".parse::<Timestamp>().unwrap());
    blocking.put(&space(), vec![late]).unwrap();
    blocking.flush().unwrap();
    for query in [lexical("rent"), dense("rent"), Query::new("what was it?")] {
        assert_eq!(as_of(&engine, query.ids(["m"]), first), pairs(&[("m", "Ada's rent is nine hundred")]));
    }
    blocking.forget(Forget::messages(&space(), ["m"])).unwrap();
    let left = pairs(&[("other", "the ferry leaves at one"), ("reply", "Noted: at one")]);
    assert_eq!(as_of(&engine, lexical("rent"), first), left);
    drop(engine);
    db.assert_sound();
}

#[test]
fn versions_are_forgotten_held_and_expire_as_their_messages() {
    let db = Db::new();
    let engine = open(&db);
    let blocking = engine.blocking();
    let secret = || {
        let mut secret = message("m", "the code is 1234");
        secret.metadata = json!({ "kind": "secret" }).as_object().unwrap().clone();
        blocking.put(&space(), vec![secret]).unwrap();
        put(&engine, "m", "the code is gone");
    };
    secret();
    // A version that matches, of a message that does not.
    let filter = MetadataFilter::eq("kind", "secret").unwrap();
    let forgotten = blocking.forget(Forget::matching(&space(), filter)).unwrap().forgotten();
    assert_eq!((forgotten.messages, forgotten.old_messages), (0, 1));
    assert_eq!((texts(&engine, "m").len(), blocking.get(&space(), "m").unwrap().is_some()), (0, true));
    secret();
    blocking.hold(&space(), "a case").unwrap();
    blocking.forget(Forget::messages(&space(), ["m"])).unwrap_err();
    blocking.delete(&space(), vec!["m".into()]).unwrap_err();
    assert_eq!(texts(&engine, "m"), ["the code is gone", "the code is 1234"]);
    blocking.release(&space()).unwrap();
    let end = Timestamp::from_micros(Timestamp::now().as_micros() + 20_000).unwrap();
    blocking.put(&space(), vec![message("m", "for a moment").expiring_at(end)]).unwrap();
    std::thread::sleep(Duration::from_millis(25));
    assert_eq!(texts(&engine, "m"), [""; 0], "it has expired");
    let begun = std::time::Instant::now();
    while mnemon::verify(&db.path).unwrap().messages > 0 {
        assert!(begun.elapsed() < Duration::from_secs(20), "it is deleted in the background");
    }
    secret();
    let forgotten = blocking.forget(Forget::session(&space(), "default")).unwrap().forgotten();
    assert_eq!((forgotten.messages, forgotten.old_messages), (1, 1));
    secret();
    blocking.delete_namespace(&space()).unwrap();
    secret();
    assert_eq!(texts(&engine, "m").len(), 1);
    drop(engine);
    db.assert_sound();
}

#[test]
fn a_version_is_not_returned_after_its_own_time_and_its_bytes_go() {
    let db = Db::new();
    let engine = open(&db);
    let blocking = engine.blocking();
    let words = ["quicksilver", "dragonfly"];
    let brief = |word: &str| {
        let end = Timestamp::from_micros(Timestamp::now().as_micros() + 400_000).unwrap();
        message("m", &format!("the password is {word}")).expiring_at(end)
    };
    blocking.put(&space(), vec![brief(words[0])]).unwrap();
    blocking.put(&space(), vec![brief(words[1])]).unwrap();
    let then = moment();
    put(&engine, "m", "the password is gone");
    blocking.flush().unwrap();
    assert_eq!(texts(&engine, "m"), words.map(|word| format!("the password is {word}")));
    assert_eq!(as_of(&engine, lexical("password"), then), pairs(&[("m", "the password is dragonfly")]));
    let begun = std::time::Instant::now();
    while !texts(&engine, "m").is_empty() {
        assert!(begun.elapsed() < Duration::from_secs(20), "they expire");
    }
    // What it was is not returned, nor anything else in its place.
    for query in [lexical("password"), lexical("dragonfly"), dense("dragonfly"), Query::new("password")] {
        assert_eq!(as_of(&engine, query, then), []);
    }
    assert_eq!(as_of(&engine, lexical("password"), moment()), pairs(&[("m", "the password is gone")]));
    let mut export = Vec::new();
    blocking.export_all(&mut export).unwrap();
    let has = |bytes: &[u8], word: &str| bytes.windows(word.len()).any(|window| window == word.as_bytes());
    assert!(words.iter().all(|word| !has(&export, word)));
    while words.iter().any(|word| has(&std::fs::read(&db.path).unwrap(), word)) {
        assert!(begun.elapsed() < Duration::from_secs(30), "they are swept, and a purge removes their bytes");
        blocking.purge().unwrap();
    }
    drop(engine);
    assert_eq!(db.assert_sound().messages, 1);
}

#[test]
fn a_legal_hold_keeps_the_versions_of_a_message_that_expired_and_is_put_again() {
    let db = Db::new();
    let engine = open(&db);
    let blocking = engine.blocking();
    let end = Timestamp::from_micros(Timestamp::now().as_micros() + 3_600_000_000).unwrap();
    blocking.put(&space(), vec![message("m", "the first words").expiring_at(end)]).unwrap();
    blocking.hold(&space(), "a case").unwrap();
    let over = Timestamp::from_micros(Timestamp::now().as_micros() - 1).unwrap();
    blocking.put(&space(), vec![message("m", "words that are over").expiring_at(over)]).unwrap();
    put(&engine, "m", "new words");
    let memory = engine.memory(&space(), "chat").open().unwrap();
    memory.blocking().put(vec![message("said", "said").expiring_at(over)]).unwrap();
    memory.blocking().put(vec![message("said", "said again")]).unwrap();
    assert_eq!(texts(&engine, "m"), ["the first words"], "what has expired is not returned");
    let stored = |words: &str| {
        let file = std::fs::read(&db.path).unwrap();
        file.windows(words.len()).any(|bytes| bytes == words.as_bytes())
    };
    blocking.purge().unwrap();
    assert!(stored("the first words") && stored("words that are over"), "the hold keeps them");
    blocking.release(&space()).unwrap();
    let begun = std::time::Instant::now();
    while stored("words that are over") {
        assert!(begun.elapsed() < Duration::from_secs(20), "what has expired goes after the release");
        blocking.purge().unwrap();
    }
    assert_eq!(texts(&engine, "m"), ["the first words"]);
    drop((memory, engine));
    db.assert_sound();
}

#[derive(Clone, Debug)]
enum Step {
    /// Puts a message with one of three texts.
    Put(u8, u8),
    /// Puts a message into a session's buffer, or edits it there.
    Say(u8, u8),
    Delete(u8),
    Forget(u8),
    Flush,
    Reopen,
    /// Exports everything, and goes on with what an import of it made.
    Move,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (0u8..5, 0u8..3).prop_map(|(id, text)| Step::Put(id, text)),
        4 => (5u8..8, 0u8..3).prop_map(|(id, text)| Step::Say(id, text)),
        1 => (0u8..8).prop_map(Step::Delete),
        1 => (0u8..8).prop_map(Step::Forget),
        2 => Just(Step::Flush),
        1 => Just(Step::Reopen),
        1 => Just(Step::Move),
    ]
}

/// The texts that a stored message has had, each from a time on; and the time since which recalls know it.
#[derive(Clone, Debug)]
struct Known {
    since: Timestamp,
    texts: Vec<(Timestamp, String)>,
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, ..ProptestConfig::default() })]

    #[test]
    fn versions_and_what_was_known_are_those_of_a_model(steps in proptest::collection::vec(step(), 5..40)) {
        let mut db = Db::new();
        let mut engine = open(&db);
        let mut model: BTreeMap<String, Known> = BTreeMap::new();
        let mut moments = Vec::new();
        for step in steps {
            let begun = moment();
            let text = |text: u8| format!("the ferry leaves at {text}");
            let note = |model: &mut BTreeMap<String, Known>, id: &str, text: String| {
                let known = model.entry(id.into()).or_insert_with(|| Known { since: begun, texts: Vec::new() });
                if known.texts.last().is_none_or(|(_, last)| *last != text) {
                    known.texts.push((begun, text));
                }
            };
            match step {
                Step::Put(id, number) => {
                    let id = format!("m{id}");
                    engine.blocking().put(&space(), vec![Message { created_at: None, ..message(&id, &text(number)) }]).unwrap();
                    note(&mut model, &id, text(number));
                }
                Step::Say(id, number) => {
                    let id = format!("m{id}");
                    let memory = engine.memory(&space(), "chat").open().unwrap();
                    let said = Message { created_at: None, ..message(&id, &text(number)) };
                    memory.blocking().update(vec![mnemon::MessageUpdate::Put(said)]).unwrap();
                    note(&mut model, &id, text(number));
                }
                Step::Delete(id) => {
                    engine.blocking().delete(&space(), vec![format!("m{id}")]).unwrap();
                    model.remove(&format!("m{id}"));
                }
                Step::Forget(id) => {
                    engine.blocking().forget(Forget::messages(&space(), [format!("m{id}")])).unwrap();
                    model.remove(&format!("m{id}"));
                }
                Step::Flush => drop(engine.blocking().flush().unwrap()),
                Step::Reopen => {
                    drop(engine);
                    db.assert_sound();
                    engine = open(&db);
                }
                Step::Move => {
                    let mut export = Vec::new();
                    engine.blocking().export_all(&mut export).unwrap();
                    drop(engine);
                    db = Db::new();
                    engine = open(&db);
                    engine.blocking().import(export.as_slice()).unwrap();
                    let mut again = Vec::new();
                    engine.blocking().export_all(&mut again).unwrap();
                    assert_eq!(String::from_utf8(again).unwrap(), String::from_utf8(export).unwrap());
                    // An imported message counts as put by its import.
                    model.values_mut().for_each(|known| known.since = begun);
                }
            }
            moments.push(moment());
            for number in 0..8 {
                let id = format!("m{number}");
                let versions = engine.blocking().versions(&space(), &id).unwrap();
                let texts = model.get(&id).map_or(&[][..], |known| &known.texts);
                assert_eq!(versions.len(), texts.len().saturating_sub(1), "{id}");
                for (version, pair) in versions.iter().zip(texts.windows(2)) {
                    assert_eq!((&version.message.text(), &version.message.id), (&pair[0].1, &id));
                    assert!(version.until > pair[1].0 && version.until < *moments.last().unwrap(), "{id}");
                }
            }
            for time in moments.iter().rev().step_by(3) {
                let of_then = model.iter().filter(|(_, known)| known.since < *time).map(|(id, known)| {
                    let (_, text) = known.texts.iter().rev().find(|(from, _)| from < time).unwrap();
                    (id.clone(), text.clone())
                });
                let of_then: Vec<_> = of_then.collect();
                for word in ["ferry", "0", "2"] {
                    assert_eq!(as_of(&engine, lexical(word), *time), of_then, "{word}");
                    let hits = engine.blocking().recall(&space(), lexical(word).as_of(*time).k(100)).unwrap();
                    for hit in &hits {
                        let has_word = hit.message.text().split(' ').any(|other| other == word);
                        assert_eq!(hit.breakdown.bm25 > 0.0, has_word, "{word} in {}", hit.message.text());
                    }
                }
                assert_eq!(as_of(&engine, Query::new("ferry").strategy(RankingStrategy::Hybrid), *time), of_then);
            }
        }
        drop(engine);
        db.assert_sound();
    }
}
