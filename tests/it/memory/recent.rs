//! The recent messages that prompts show, also of a session whose messages are in long-term memory.

use mnemon::{HistoryStore, MessageUpdate};

use super::*;

fn shown(memory: &Memory) -> Vec<String> {
    memory.blocking().get(None).unwrap().messages.into_iter().map(|message| message.id).collect()
}

fn turns() -> Vec<Message> {
    let messages = [user("1", "a b c"), assistant("2", "d"), user("3", "e f"), assistant("4", "g")];
    messages.map(|message| message.in_session("s")).into()
}

#[test]
fn a_session_with_history_begins_with_its_last_turns() {
    let all = || [vec![system("0", "be kind").in_session("s")], turns()].concat();
    for append in [false, true] {
        let db = Db::new();
        let engine = open(&db);
        match append {
            true => engine.history_store(&namespace("a")).append("s", &all()).unwrap(),
            false => assert_eq!(engine.blocking().put(&namespace("a"), all()).unwrap().new, 5),
        }
        engine.blocking().flush().unwrap();
        let check = |engine: &Engine| {
            // As many whole turns as the budget takes, and the system prompt.
            for (budget, expected) in [
                (100, &["0", "1", "2", "3", "4"][..]),
                (9, &["0", "1", "2", "3", "4"]),
                (8, &["0", "3", "4"]),
                (5, &["0", "3", "4"]),
                // The last turn stays, over the budget or not.
                (4, &["0", "3", "4"]),
                (1, &["0", "3", "4"]),
            ] {
                let memory = memory(engine, limits(budget, 1.0, 1));
                assert_eq!(shown(&memory), expected, "{budget}");
                assert_eq!(memory.blocking().messages().unwrap(), [], "nothing moves to the buffer");
            }
            let memory = memory(engine, limits(100, 1.0, 1));
            let prompt = memory.blocking().assemble(user("q", "x")).unwrap();
            assert_eq!(ids(&prompt.messages), ["0", "1", "2", "3", "4", "q"]);
            assert!(!prompt.messages[0].text().contains("recalled"), "the prompt has them already");
            assert_eq!(engine.blocking().pending().unwrap(), 0, "nothing is embedded again");
        };
        check(&engine);
        drop(engine);
        check(&open(&db));
        db.assert_sound();
    }
}

#[test]
fn history_that_the_budget_pushed_out_does_not_come_back() {
    let db = Db::new();
    let engine = open(&db);
    engine.blocking().put(&namespace("a"), turns()).unwrap();
    let limits = limits(10, 1.0, 3);
    let first = memory(&engine, limits);
    first.blocking().put(vec![user("5", "h i"), assistant("6", "j")]).unwrap();
    assert_eq!(shown(&first), ["1", "2", "3", "4", "5", "6"]);
    let report = first.blocking().put(vec![user("7", "k")]).unwrap();
    assert_eq!(report.flushed.len(), 0, "what is in the buffer fits");
    assert_eq!(shown(&first), ["3", "4", "5", "6", "7"]);
    assert_eq!(shown(&memory(&engine, limits)), ["3", "4", "5", "6", "7"]);
    drop((first, engine));
    let engine = open(&db);
    let again = memory(&engine, limits);
    assert_eq!(shown(&again), ["3", "4", "5", "6", "7"]);
    // A flush for the budget takes its messages out of the prompts, as LlamaIndex's does, for all memories to come.
    let report = again.blocking().put(vec![user("8", "l m n o p q r")]).unwrap();
    assert_eq!(report.flushed, [["5", "6"]]);
    assert_eq!(shown(&again), ["7", "8"]);
    assert_eq!(shown(&memory(&engine, limits)), ["7", "8"]);
    drop((again, engine));
    db.assert_sound();
}

#[test]
fn a_flush_changes_no_prompt() {
    let db = Db::new();
    let engine = open(&db);
    let memory_of = |engine: &Engine| memory(engine, BufferLimits::default());
    let memory = memory_of(&engine);
    memory.blocking().put(vec![system("0", "be kind"), user("1", "go"), call("2", "c")]).unwrap();
    assert_eq!(memory.blocking().flush().unwrap(), ["1", "2"]);
    assert_eq!(shown(&memory), ["0", "1", "2"]);
    // The result of a call that is flushed.
    memory.blocking().put(vec![result("3", "c"), assistant("4", "done")]).unwrap();
    assert_eq!(shown(&memory), ["0", "1", "2", "3", "4"]);
    assert_eq!(memory.blocking().get(None).unwrap().left_out, [""; 0]);
    memory.blocking().flush().unwrap();
    let fork = memory.blocking().fork(None, "fork").unwrap();
    assert_eq!(shown(&fork).len(), 5);
    drop((memory, fork, engine));
    let engine = open(&db);
    assert_eq!(shown(&memory_of(&engine)), ["0", "1", "2", "3", "4"]);
    drop(engine);
    db.assert_sound();
}

#[test]
fn prompts_follow_changes_of_flushed_messages() {
    let db = Db::new();
    let engine = open(&db);
    let memory = memory(&engine, BufferLimits::default());
    let put = |message: Message| {
        engine.blocking().put(&namespace("a"), vec![message.in_session("s")]).unwrap();
    };
    turns().into_iter().for_each(put);
    assert_eq!(shown(&memory), ["1", "2", "3", "4"]);
    put(user("1", "changed"));
    engine.blocking().delete(&namespace("a"), vec!["2".into()]).unwrap();
    assert_eq!(memory.blocking().get(None).unwrap().messages[0].text(), "changed");
    assert_eq!(shown(&memory), ["1", "3", "4"]);
    // What is put later is shown later, wherever it is.
    memory.blocking().put(vec![user("5", "x")]).unwrap();
    put(assistant("6", "y"));
    memory.blocking().put(vec![user("7", "z")]).unwrap();
    assert_eq!(shown(&memory), ["1", "3", "4", "5", "6", "7"]);
    let checkpoint = memory.blocking().checkpoint("").unwrap();
    memory.blocking().update(vec![MessageUpdate::RemoveAll, MessageUpdate::Put(user("8", "new"))]).unwrap();
    assert_eq!(shown(&memory), ["8"]);
    assert_eq!(shown(&memory.blocking().fork(None, "fork").unwrap()).len(), 1);
    assert_eq!(ids(&memory.blocking().history().unwrap()), ["1", "3", "4", "6", "8"], "long-term memory stays");
    memory.blocking().restore(checkpoint).unwrap();
    assert_eq!(shown(&memory), ["1", "3", "4", "5", "6", "7"]);
    engine.blocking().delete_session(&namespace("a"), "s").unwrap();
    assert_eq!(shown(&memory), [""; 0]);
    drop((memory, engine));
    db.assert_sound();
}
