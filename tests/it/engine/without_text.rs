//! Messages without text: they are stored, listed and moved like others, and nothing finds them.

use mnemon::{BufferLimits, ContentPart, Forget, Message, Query, RankingStrategy, Role};

use crate::support::{Db, ids, message, namespace};

/// A message with no parts, and ones of blank texts.
fn without_text(prefix: &str) -> Vec<Message> {
    let text = |text: &str| ContentPart::Text { text: text.into() };
    let contents = [vec![], vec![text("")], vec![text(" \n\n")], vec![text(""), text("\t")]];
    let message = |(at, content): (usize, Vec<ContentPart>)| {
        let role = if at % 2 == 0 { Role::User } else { Role::Assistant };
        // The name of an author is not text that was said.
        Message { content, ..Message::new(role, "").with_id(format!("{prefix}{at}")).by("Ada Lovelace") }
    };
    contents.into_iter().enumerate().map(message).collect()
}

#[test]
fn messages_without_text_are_stored_and_never_found() {
    let db = Db::new();
    let engine = db.open();
    let space = namespace("a");
    let mut all = without_text("m");
    all.insert(2, message("ferry", "Ada takes the ferry"));
    let put = all.clone();
    assert_eq!(engine.blocking().put(&space, put.clone()).unwrap().new, 5);
    assert_eq!(engine.blocking().put(&space, put).unwrap().unchanged, 5);
    let check = |engine: &mnemon::Engine, space: &mnemon::Namespace| {
        engine.blocking().flush().unwrap();
        for strategy in [RankingStrategy::Hybrid, RankingStrategy::Dense, RankingStrategy::Lexical] {
            let hits = engine.blocking().recall(space, Query::new("Ada Lovelace").strategy(strategy).k(100)).unwrap();
            assert_eq!(ids(hits.iter().map(|hit| &hit.message)), ["ferry"], "{strategy}");
        }
        assert_eq!(engine.blocking().history(space, "default").unwrap(), all);
        assert_eq!(engine.blocking().get(space, "m0").unwrap().unwrap().content, []);
    };
    let found = |query: &str| {
        let hits = engine.blocking().recall(&space, Query::new(query).k(9)).unwrap();
        hits.iter().map(|hit| hit.message.id.clone()).collect::<Vec<_>>()
    };
    assert_eq!(found("Ada Lovelace"), ["ferry"], "before it is embedded");
    assert_eq!(engine.blocking().flush().unwrap().embedded, 1, "nothing else is embedded");
    check(&engine, &space);
    // They get and lose a text.
    engine
        .blocking()
        .put(&space, vec![message("m0", "a boat"), Message { content: vec![], ..all[2].clone() }])
        .unwrap();
    assert_eq!(found("ferry or boat"), ["m0"]);
    engine.blocking().put(&space, all.clone()).unwrap();
    check(&engine, &space);

    let mut exported = Vec::new();
    engine.blocking().export(&space, &mut exported).unwrap();
    let copy = namespace("copy");
    engine.blocking().import_as(&copy, &exported[..]).unwrap();
    check(&engine, &copy);
    drop(engine);
    assert_eq!((db.assert_sound().messages, db.assert_sound().pending), (10, 0));
    let engine = db.open();
    check(&engine, &space);
    let forgotten = engine.blocking().forget(Forget::messages(&space, ["m0".to_owned(), "m1".to_owned()])).unwrap();
    assert_eq!(engine.blocking().history(&space, "default").unwrap(), all[2..], "{forgotten:?}");
    drop(engine);
    db.assert_sound();
}

#[test]
fn a_session_keeps_messages_without_text() {
    let db = Db::new();
    let engine = db.open();
    let memory = engine.memory(&namespace("a"), "s").limits(BufferLimits::default()).open().unwrap();
    let memory = memory.blocking();
    let mut chat = without_text("m");
    chat.insert(0, Message::user("where is the ferry").with_id("q"));
    chat.push(Message::assistant("in the harbour").with_id("a"));
    chat.iter_mut().for_each(|message| message.session = "s".into());
    assert_eq!(memory.put(chat.clone()).unwrap().new, 6);
    assert_eq!(memory.history().unwrap(), chat);
    assert_eq!(memory.sync(chat.clone()).unwrap().unchanged, 6);
    // A client without ids, and one that was sent prompts, which have none of them.
    let without_ids = chat.iter().map(|message| Message { id: uuid(), ..message.clone() }).collect();
    assert_eq!(memory.sync(without_ids).unwrap().unchanged, 6);
    let prompt = memory.get(None).unwrap();
    assert_eq!(ids(&prompt.messages), ["q", "a"]);
    assert_eq!(prompt.left_out.len(), 4);
    assert_eq!(memory.sync(prompt.messages).unwrap().removed, 0);
    assert_eq!(memory.history().unwrap(), chat);
    assert_eq!(memory.flush().unwrap().len(), 6);
    assert_eq!(memory.history().unwrap(), chat);
    memory.set(without_text("n")).unwrap();
    assert_eq!(memory.history().unwrap().len(), 4);
    assert_eq!(memory.get(None).unwrap().messages, []);
    engine.blocking().flush().unwrap();
}

fn uuid() -> String {
    Message::user("").id
}
