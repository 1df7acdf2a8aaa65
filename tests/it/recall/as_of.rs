//! Recalls as of a time: what was put later, or says that it is of a later time, is not found.

use mnemon::{Engine, Message, Query, RankingStrategy, Role, Scope, Timestamp};

use super::{SPACE, filled, ids, put, recall};
use crate::support::{Db, message, namespace, open_tables, recall::lexical};

/// A time between the puts before and after this call.
fn moment() -> Timestamp {
    let pause = std::time::Duration::from_millis(2);
    std::thread::sleep(pause);
    let now = Timestamp::now();
    std::thread::sleep(pause);
    now
}

fn at(message: Message, time: &str) -> Message {
    Message { created_at: Some(time.parse().unwrap()), ..message }
}

fn timeless(id: &str, text: &str) -> Message {
    Message { created_at: None, ..message(id, text) }
}

/// The ids of all that is known as of a time, sorted, by each way of ranking; and that nothing else appears in the
/// evidence.
fn known(engine: &Engine, time: Timestamp) -> Vec<String> {
    let find = |query: Query| {
        let hits = recall(engine, query.as_of(time).k(50));
        let mut found: Vec<String> = hits.iter().map(|hit| hit.message.id.clone()).collect();
        found.sort();
        for boosted_by in hits.iter().filter_map(|hit| hit.breakdown.boosted_by.as_ref()) {
            assert!(found.contains(boosted_by), "{boosted_by} was not known");
        }
        found
    };
    let found = find(lexical("ferry"));
    assert_eq!(find(Query::new("ferry")), found);
    // What waits in the buffer, or for the flush after an opening, has no vector.
    if recall(engine, Query::new("ferry").as_of(time)).pending() == 0 {
        assert_eq!(find(Query::new("ferry").strategy(RankingStrategy::Dense)), found);
    }
    found
}

#[test]
fn what_came_later_is_not_known_in_any_state_of_a_message() {
    let db = Db::new();
    let engine = db.open();
    let space = namespace(SPACE);
    let before = moment();
    put(&engine, vec![timeless("indexed 1", "the ferry leaves at noon")]);
    let first = moment();
    put(&engine, vec![timeless("indexed 2", "the ferry leaves at one")]);
    let second = moment();
    engine.blocking().put(&space, vec![timeless("pending", "the ferry leaves at two")]).unwrap();
    let third = moment();
    let memory = engine.memory(&space, "chat").open().unwrap();
    memory.blocking().put(vec![timeless("buffered", "the ferry leaves at three")]).unwrap();
    let check = |engine: &Engine| {
        assert_eq!(known(engine, before), [""; 0]);
        assert_eq!(known(engine, first), ["indexed 1"]);
        assert_eq!(known(engine, second), ["indexed 1", "indexed 2"]);
        assert_eq!(known(engine, third), ["indexed 1", "indexed 2", "pending"]);
        assert_eq!(known(engine, Timestamp::now()), ["buffered", "indexed 1", "indexed 2", "pending"]);
        // An opened engine embeds what is pending, in the background: the number is compared while it stays the same.
        let pending = || recall(engine, Query::new("ferry")).pending();
        loop {
            let (before, then) = (pending(), recall(engine, Query::new("ferry").as_of(third)).pending());
            if before == pending() {
                assert_eq!(then, before.saturating_sub(1));
                break;
            }
        }
    };
    check(&engine);
    drop(memory);
    drop(engine);
    let engine = db.open();
    check(&engine);
    engine.memory(&space, "chat").open().unwrap().blocking().flush().unwrap();
    engine.blocking().flush().unwrap();
    assert_eq!(known(&engine, second), ["indexed 1", "indexed 2"]);
    assert_eq!(known(&engine, third), ["indexed 1", "indexed 2", "pending"]);
    drop(engine);
    db.assert_sound();
}

#[test]
fn the_own_time_of_a_message_counts_too_and_now_is_that_time() {
    let (_db, engine) = filled(vec![
        at(message("may", "the ferry was late"), "2024-05-05T10:00:00Z"),
        at(message("june", "the ferry was late again"), "2024-06-05T10:00:00Z"),
        timeless("none", "the ferry is never late"),
    ]);
    let june = || "2024-06-05T10:00:00Z".parse().unwrap();
    let later: Timestamp = "2100-01-01T00:00:00Z".parse().unwrap();
    // All of them were put just now.
    assert_eq!(known(&engine, june()), [""; 0]);
    assert_eq!(known(&engine, later), ["june", "may", "none"]);
    engine
        .blocking()
        .put(&namespace(SPACE), vec![at(message("2101", "the ferry sank"), "2101-01-01T00:00:00Z")])
        .unwrap();
    assert_eq!(known(&engine, later), ["june", "may", "none"], "it was put, and is of a later time");
    let boosted = |query: Query| -> Vec<String> {
        let hits = recall(&engine, query.k(10));
        hits.iter().filter(|hit| hit.breakdown.time > 0.0).map(|hit| hit.message.id.clone()).collect()
    };
    let month = Query::new("what did the ferry do last month?");
    assert_eq!(boosted(month.clone().now(june())), ["may"]);
    assert_eq!(boosted(month.clone().as_of(later)), [""; 0]);
    assert_eq!(boosted(month.as_of(later).now(june())), ["may"], "`now` has precedence");
}

#[test]
fn an_edited_message_shows_its_present_text_and_other_filters_hold() {
    let db = Db::new();
    let engine = db.open();
    put(&engine, vec![timeless("a", "the ferry leaves at noon"), timeless("b", "the ferry is red")]);
    let then = moment();
    put(&engine, vec![timeless("a", "the ferry was sold"), timeless("c", "which ferry?")]);
    engine.blocking().delete(&namespace(SPACE), vec!["b".into()]).unwrap();
    let hits = recall(&engine, Query::new("ferry").as_of(then));
    assert_eq!((ids(&hits), hits[0].message.text()), (vec!["a"], "the ferry was sold".into()));
    for query in [
        Query::new("ferry").role(Role::Assistant),
        Query::new("ferry").session("other"),
        Query::new("ferry").except(["a"]),
        Query::new("ferry").ids(["c"]),
        Query::new("ferry").filter(mnemon::MetadataFilter::eq("$id", "c").unwrap()),
        Query::new("ferry").since(then),
    ] {
        assert_eq!(ids(&recall(&engine, query.as_of(then))), [""; 0]);
    }
    let filter = mnemon::MetadataFilter::eq("$session", mnemon::DEFAULT_SESSION).unwrap();
    assert_eq!(ids(&recall(&engine, Query::new("ferry").filter(filter).as_of(then))), ["a"]);
    assert_eq!(ids(&recall(&engine, Query::new("ferry").session(mnemon::DEFAULT_SESSION).as_of(then))), ["a"]);
}

#[test]
fn each_namespace_of_a_scope_has_times_of_its_own() {
    let db = Db::new();
    let engine = db.open();
    let (one, two) = (namespace("one"), namespace("two"));
    // More numbers are used in one of them.
    let early = (0..20).map(|at| timeless(&format!("one {at}"), "a ferry")).collect();
    engine.blocking().put(&one, early).unwrap();
    engine.blocking().put(&two, vec![timeless("two early", "the red ferry")]).unwrap();
    let then = moment();
    engine.blocking().put(&one, vec![timeless("one late", "the red ferry")]).unwrap();
    engine.blocking().put(&two, vec![timeless("two late", "the red ferry")]).unwrap();
    engine.blocking().flush().unwrap();
    let hits = engine
        .blocking()
        .recall_in(&Scope::new().namespace(&one).namespace(&two), Query::new("red ferry").as_of(then).k(50))
        .unwrap();
    assert_eq!((hits.len(), &*hits[0].message.id), (21, "two early"));
    assert!(!ids(&hits).iter().any(|id| id.contains("late")), "{:?}", ids(&hits));
    engine.blocking().delete_namespaces(&one).unwrap();
    drop(engine);
    db.assert_sound();
}

#[test]
fn messages_from_before_the_upgrade_were_put_at_an_unknown_time() {
    let (db, engine) = filled(vec![
        at(message("old", "the ferry"), "2024-05-05T10:00:00Z"),
        timeless("old and timeless", "the old ferry"),
    ]);
    drop(engine);
    let file = open_tables(&db.path).begin_write().unwrap();
    file.delete_table(redb::TableDefinition::<(u32, u64), i64>::new("put_times")).unwrap();
    file.delete_table(redb::TableDefinition::<(u32, u64), &[u8]>::new("journal")).unwrap();
    file.delete_table(redb::TableDefinition::<u64, u32>::new("journal_order")).unwrap();
    let schema = 8u32.to_le_bytes();
    file.open_table(redb::TableDefinition::<&str, &[u8]>::new("meta")).unwrap().insert("schema", &schema[..]).unwrap();
    file.commit().unwrap();
    let engine = db.open();
    put(&engine, vec![timeless("new", "the new ferry")]);
    assert_eq!(known(&engine, "2024-01-01T00:00:00Z".parse().unwrap()), ["old and timeless"]);
    assert_eq!(known(&engine, "2024-05-05T10:00:00Z".parse().unwrap()), ["old", "old and timeless"]);
    assert_eq!(known(&engine, Timestamp::now()), ["new", "old", "old and timeless"]);
}
