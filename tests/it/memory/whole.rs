//! Operations on a whole session: set, clear, reset, search.

use mnemon::{MessageUpdate, Query};

use super::*;

/// A session of which the messages 1 and 2 are flushed and embedded, and 3 is in the buffer.
fn session(db: &Db) -> (Engine, Memory) {
    let engine = open(db);
    let memory = engine.memory(&namespace("a"), "s").limits(limits(5, 1.0, 1)).message_counter(words());
    let memory = memory.block(Recorder::new("r")).open().unwrap();
    memory.blocking().put(vec![user("1", "red bike here"), assistant("2", "nice"), user("3", "green boat")]).unwrap();
    memory.blocking().settle().unwrap();
    assert_eq!(ids(&memory.blocking().messages().unwrap()), ["3"]);
    (engine, memory)
}

fn history(memory: &Memory) -> Vec<String> {
    memory.blocking().history().unwrap().into_iter().map(|message| message.id).collect()
}

#[test]
fn set_replaces_the_whole_session() {
    let db = Db::new();
    let (engine, memory) = session(&db);
    // What stays at the beginning keeps its vectors.
    let stays =
        [user("1", "red bike here"), assistant("2", "nice")].map(|message| Message { created_at: None, ..message });
    memory.blocking().put(stays.to_vec()).unwrap();
    memory.blocking().settle().unwrap();
    let report = memory.blocking().set([&stays[..], &[user("4", "blue kite")]].concat()).unwrap();
    assert_eq!((report.unchanged, report.new, report.removed), (2, 1, 1));
    assert_eq!(history(&memory), ["1", "2", "4"]);
    assert_eq!(engine.blocking().pending().unwrap(), 0);
    // Another order is another history.
    memory.blocking().set(vec![user("2", "x"), user("1", "y"), user("2", "z")]).unwrap();
    assert_eq!(history(&memory), ["2", "1"]);
    assert_eq!(memory.blocking().history().unwrap()[0].text(), "z", "the last of an id counts");
    // A message that a prompt had, and that was removed since: set puts it back.
    memory.blocking().get(None).unwrap();
    memory.blocking().update(vec![MessageUpdate::Remove("1".into())]).unwrap();
    memory.blocking().set(vec![user("2", "z"), user("1", "y")]).unwrap();
    assert_eq!(history(&memory), ["2", "1"]);
    // Over the budget it is flushed.
    let report = memory.blocking().set(vec![user("5", "a b c"), user("6", "d e f")]).unwrap();
    assert_eq!(report.flushed, [["5"]]);
    // All or nothing.
    engine.blocking().put(&namespace("a"), vec![user("theirs", "x").in_session("t")]).unwrap();
    assert!(matches!(memory.blocking().set(vec![user("theirs", "x")]), Err(Error::InvalidMessage { .. })));
    assert!(matches!(memory.blocking().set(vec![user("", "x")]), Err(Error::InvalidMessage { .. })));
    assert_eq!(history(&memory), ["5", "6"]);
    memory.blocking().set(vec![]).unwrap();
    assert_eq!(history(&memory), [""; 0]);
    drop((memory, engine));
    db.assert_sound();
}

#[test]
fn clear_deletes_all_messages_and_nothing_else() {
    let db = Db::new();
    let (engine, memory) = session(&db);
    let checkpoint = memory.blocking().checkpoint("").unwrap();
    memory.add_step(call("step", "c"));
    assert_eq!(memory.blocking().clear().unwrap(), 3);
    assert_eq!((history(&memory), memory.steps().len()), (Vec::new(), 0));
    assert_eq!(memory.blocking().get(None).unwrap().messages.iter().filter(|m| m.role == Role::User).count(), 0);
    assert_eq!(engine.blocking().recall(&namespace("a"), Query::new("red bike green boat")).unwrap().len(), 0);
    assert_eq!(recorded(&memory, "r"), [["1", "2"]], "what a block made of them stays");
    assert_eq!(memory.blocking().clear().unwrap(), 0);
    memory.blocking().restore(checkpoint).unwrap();
    assert_eq!(history(&memory), ["1", "2", "3"]);
    assert_eq!(ids(&memory.blocking().messages().unwrap()), ["3"]);
    memory.blocking().settle().unwrap();
    drop((memory, engine));
    db.assert_sound();
}

#[test]
fn reset_leaves_nothing_of_a_session() {
    let db = Db::new();
    let (engine, memory) = session(&db);
    engine.blocking().put(&namespace("a"), vec![user("theirs", "red bike").in_session("t")]).unwrap();
    memory.blocking().checkpoint("").unwrap();
    memory.blocking().reset().unwrap();
    assert_eq!(history(&memory), [""; 0]);
    assert_eq!(memory.blocking().checkpoints().unwrap(), []);
    assert_eq!(memory.blocking().block_state("r").unwrap(), Value::Null);
    assert_eq!(engine.blocking().sessions(&namespace("a")).unwrap().len(), 1, "the other one");
    memory.blocking().reset().unwrap();
    // It goes on as a new one.
    memory.blocking().put(vec![user("1", "again")]).unwrap();
    assert_eq!(history(&memory), ["1"]);
    drop((memory, engine));
    db.assert_sound();
}

#[test]
fn search_finds_messages_of_the_session_alone() {
    let db = Db::new();
    let (engine, memory) = session(&db);
    engine.blocking().put(&namespace("a"), vec![user("theirs", "red bike here").in_session("t")]).unwrap();
    engine.blocking().flush().unwrap();
    let hits = memory.blocking().search(Query::new("red bike").k(10)).unwrap();
    assert_eq!(hits[0].message.id, "1");
    assert!(hits.iter().all(|hit| hit.message.session == "s"));
    assert!(matches!(memory.blocking().search(Query::new(" ")), Err(Error::InvalidQuery { .. })));
    let nobody = engine.memory(&namespace("a"), "nobody").open().unwrap();
    assert_eq!(nobody.blocking().search(Query::new("red bike")).unwrap().len(), 0);
}

#[test]
fn the_async_methods_do_the_same() {
    let db = Db::new();
    let (engine, memory) = session(&db);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        assert_eq!(memory.search(Query::new("red bike").k(1)).await.unwrap().len(), 1);
        assert_eq!(memory.set(vec![user("9", "x")]).await.unwrap().new, 1);
        assert_eq!(memory.clear().await.unwrap(), 1);
        memory.reset().await.unwrap();
    });
    drop((memory, engine));
    db.assert_sound();
}
