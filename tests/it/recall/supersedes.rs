//! Messages that say which ones they supersede, and whose words messages are.

use mnemon::{Engine, Message, MetadataFilter, Query, Role, Timestamp, message::Source};
use serde_json::json;

use super::{SPACE, delete, filled, put, recall};
use crate::support::{Db, message, namespace};

fn found(engine: &Engine, query: Query) -> String {
    let mut ids: Vec<String> = recall(engine, query).iter().map(|hit| hit.message.id.clone()).collect();
    ids.sort();
    ids.concat()
}

fn doses() -> Vec<Message> {
    let at = |text: &str| text.parse::<Timestamp>().unwrap();
    vec![
        message("a", "the dose for the cat is 5 mg").at(at("2024-01-01")),
        message("b", "the cat takes ten mg of it now").at(at("2024-02-01")).supersedes("a"),
        message("c", "the cat takes twelve mg").at(at("2024-03-01")).supersedes("b"),
    ]
}

fn asked() -> Query {
    Query::new("what does the cat take")
}

#[test]
fn what_a_message_supersedes_is_found_only_on_request_and_again_when_that_message_is_gone() {
    let (db, engine) = filled(doses());
    assert_eq!(found(&engine, asked()), "c");
    assert_eq!(found(&engine, asked().strategy(mnemon::RankingStrategy::Lexical)), "c");
    assert_eq!(found(&engine, asked().strategy(mnemon::RankingStrategy::Dense)), "c");
    assert_eq!(found(&engine, asked().include_superseded()), "abc");
    let hits = recall(&engine, asked().include_superseded());
    let newest = hits.iter().find(|hit| hit.message.id == "c").unwrap();
    assert_eq!(newest.supersedes, ["b"]);
    // Deleting either end, editing the newer, putting the older again.
    delete(&engine, &["c"]);
    assert_eq!(found(&engine, asked()), "b");
    put(&engine, doses());
    delete(&engine, &["a"]);
    assert_eq!(found(&engine, asked()), "c");
    put(&engine, doses());
    assert_eq!(found(&engine, asked()), "c");
    put(&engine, vec![message("c", "the cat takes twelve mg")]);
    assert_eq!(found(&engine, asked()), "bc", "it supersedes nothing any more");
    engine
        .blocking()
        .set_metadata(&namespace(SPACE), "c", json!({"supersedes": "b"}).as_object().unwrap().clone())
        .unwrap();
    assert_eq!(found(&engine, asked()), "c");
    engine.blocking().forget(mnemon::Forget::messages(&namespace(SPACE), ["c"])).unwrap();
    assert_eq!(found(&engine, asked()), "b", "what was forgotten supersedes nothing");
    drop(engine);
    db.assert_sound();
}

#[test]
fn it_is_valid_from_then_on() {
    let (_db, engine) = filled(doses());
    // All were put now; what each says of itself decides.
    let now = Timestamp::now();
    assert_eq!(found(&engine, asked().as_of(now)), "c");
    let future = message("d", "the cat takes nothing")
        .supersedes("c")
        .at(Timestamp::from_micros(now.as_micros() + 9_000_000_000).unwrap());
    put(&engine, vec![future]);
    assert_eq!(found(&engine, asked()), "d");
    assert_eq!(found(&engine, asked().as_of(Timestamp::now())), "c", "it is of a later time");
}

#[test]
fn odd_ids_and_circles_hide_nothing() {
    let (_db, engine) = filled(vec![
        message("a", "the cat is black").supersedes("a").supersedes("unknown"),
        message("b", "the cat is white").supersedes("c"),
        message("c", "the cat is grey").supersedes("b"),
        Message {
            metadata: json!({"supersedes": {"a": 1}}).as_object().unwrap().clone(),
            ..message("d", "the cat is old")
        },
        Message {
            metadata: json!({"supersedes": [1, null]}).as_object().unwrap().clone(),
            ..message("e", "the cat is new")
        },
    ]);
    assert_eq!(found(&engine, Query::new("what is the cat")), "acde");
    // The older one may be stored later, and in another session.
    put(&engine, vec![message("unknown", "the cat is tabby").in_session("other")]);
    assert_eq!(found(&engine, Query::new("what is the cat")), "acde");
}

#[test]
fn copies_and_exports_supersede_what_the_original_did() {
    let (db, engine) = filled(doses());
    let mut file = Vec::new();
    engine.blocking().export(&namespace(SPACE), &mut file).unwrap();
    let other = Db::new();
    let imported = other.open();
    imported.blocking().import(&file[..]).unwrap();
    assert_eq!(found(&imported, asked()), "c");
    delete(&imported, &["c"]);
    assert_eq!(found(&imported, asked()), "b");
    drop((engine, imported));
    other.assert_sound();
    db.assert_sound();
}

#[test]
fn whose_words_a_message_is_decides_filters() {
    let said = |id: &str, source: Source| message(id, "the boat is for sale").from_source(source);
    let (_db, engine) = filled(vec![
        message("1", "the boat is for sale"),
        said("2", Source::Web),
        said("3", Source::Import),
        Message::assistant("the boat is for sale").with_id("4"),
        Message {
            metadata: json!({"source": "https://a.org"}).as_object().unwrap().clone(),
            ..message("5", "the boat is for sale")
        },
    ]);
    let filtered = |filter: serde_json::Value| {
        let filter: MetadataFilter = serde_json::from_value(filter).unwrap();
        found(&engine, Query::new("boat").keep_duplicates().filter(filter))
    };
    assert_eq!(filtered(json!({"$source": "user"})), "15", "any other value is the application's");
    assert_eq!(filtered(json!({"$source": {"$in": ["web", "import"]}})), "23");
    assert_eq!(filtered(json!({"$source": {"$ne": "assistant"}})), "1235");
    assert_eq!(filtered(json!({"source": "web"})), "2");
    assert!(serde_json::from_value::<MetadataFilter>(json!({"$source": "radio"})).is_err());
    assert_eq!(message("x", "").source(), Some(Source::User));
    assert_eq!(Message::system("x").source(), None);
    assert_eq!(Message::new(Role::Tool, "x").from_source(Source::Web).source(), Some(Source::Web));
    // A prompt says whose words it quotes, where the role does not.
    put(&engine, vec![message("6", "the sail boat has a red sail").from_source(Source::Web)]);
    let memory = engine.memory(&namespace(SPACE), "s").open().unwrap();
    let request = mnemon::AssembleRequest::new(Message::user("which boat has a red sail?")).recall(9);
    let text = memory.blocking().assemble(request).unwrap().messages[0].text();
    assert!(text.contains("source='web'>the sail boat"), "{text}");
    assert!(!text.contains("source='user'") && !text.contains("source='assistant'"), "{text}");
}
