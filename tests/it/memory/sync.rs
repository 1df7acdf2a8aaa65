//! Chats that clients send back whole: `Memory::sync`, and `put` of such a chat.

use std::collections::HashSet;

use mnemon::{
    AssembleRequest, InsertMethod, MediaReference, MemoryReport, MessageUpdate, MessageWindow, StaticBlock,
    VectorBlock, from_openai, to_openai,
};
use proptest::prelude::*;

use super::*;
use crate::support::{below, random};

/// Makes messages of words such as `Uhello`: the first letter is the role's.
fn chat(words: &str) -> Vec<Message> {
    let message = |word: &str| {
        let role = match &word[..1] {
            "U" => Role::User,
            "A" => Role::Assistant,
            _ => Role::System,
        };
        Message::new(role, &word[1..])
    };
    words.split_whitespace().map(message).collect()
}

/// The opposite of [`chat`].
fn written(messages: &[Message]) -> String {
    let word = |message: &Message| {
        let role = message.role.as_str()[..1].to_uppercase();
        role + &message.text()
    };
    messages.iter().map(word).collect::<Vec<_>>().join(" ")
}

/// Sends messages to a client of OpenAI's format and back: they lose their ids.
fn formatted(messages: &[Message]) -> Vec<Message> {
    from_openai(&to_openai(messages)).unwrap()
}

fn counts(report: &MemoryReport) -> [u64; 4] {
    [report.unchanged, report.new, report.replaced, report.removed]
}

/// A memory of the session `s` of the namespace `a` with a block, in a new engine or in the one that is open.
fn with_block(engine: &Engine, block: &str, limits: BufferLimits) -> Memory {
    let memory = engine.memory(&namespace("a"), "s").limits(limits).message_counter(words());
    let memory = match block {
        "vectors" => memory.block(VectorBlock::new("v")),
        "text" => memory.block(StaticBlock::new("x", "said")),
        "user" => memory.block(StaticBlock::new("x", "said")).insert_method(InsertMethod::User),
        _ => memory,
    };
    memory.open().unwrap()
}

#[test]
fn a_chat_that_is_sent_back_whole_without_ids_does_not_double() {
    for block in ["none", "vectors", "text", "user"] {
        for (restarts, is_put) in [(false, true), (true, true), (false, false), (true, false)] {
            for limits in [BufferLimits::default(), limits(60, 0.8, 6)] {
                let db = Db::new();
                let mut engine = open(&db);
                let mut memory = with_block(&engine, block, limits);
                for turn in 1..8 {
                    let asks = Message::user(format!("what is number {turn} of the list"));
                    let prompt = memory.blocking().assemble(asks).unwrap();
                    let mut list = formatted(&prompt.messages);
                    list.push(Message::assistant(format!("it is {turn} of course")));
                    if restarts {
                        drop(memory);
                        drop(engine);
                        engine = open(&db);
                        memory = with_block(&engine, block, limits);
                    }
                    let report = if is_put {
                        memory.blocking().put(list).unwrap()
                    } else {
                        memory.blocking().sync(list).unwrap()
                    };
                    let history = memory.blocking().history().unwrap();
                    assert_eq!(
                        history.len(),
                        2 * turn,
                        "{block} {restarts} {is_put} {report:?}: {}",
                        written(&history)
                    );
                    assert_eq!((report.new, report.replaced, report.removed), (2, 0, 0));
                }
                drop(memory);
                drop(engine);
                db.assert_sound();
            }
        }
    }
}

#[test]
fn the_session_becomes_what_the_chat_is() {
    // The session, the chat, the session afterwards, and the numbers of messages kept, new, replaced and removed.
    let cases = [
        ("", "Ua Ab", "Ua Ab", [0, 2, 0, 0]),
        ("Ua Ab", "Ua Ab", "Ua Ab", [2, 0, 0, 0]),
        ("Ua Ab", "Ua Ab Uc Ad", "Ua Ab Uc Ad", [2, 2, 0, 0]),
        ("Ua Ab", "", "Ua Ab", [0, 0, 0, 0]),
        // It begins in the middle, or has nothing in common.
        ("Ua Ab Uc Ad", "Uc Ad Ue", "Ua Ab Uc Ad Ue", [2, 1, 0, 0]),
        ("Ua Ab", "Uc Ad", "Ua Ab Uc Ad", [0, 2, 0, 0]),
        ("Ua Ab Uc Ad", "Ux Uc Ad", "Ua Ab Ux Uc Ad", [2, 1, 0, 0]),
        // Edits.
        ("Ua Ab Uc Ad Ue Af", "Ua Ab Ux", "Ua Ab Ux", [2, 0, 1, 3]),
        ("Ua Ab Uc Ad Ue Af", "Ua Ab Ux Ay", "Ua Ab Ux Ay", [2, 0, 2, 2]),
        ("Ua Ab Uc Ad", "Ua Ab Uc Ax", "Ua Ab Uc Ax", [3, 0, 1, 0]),
        ("Ua Ab Uc Ad", "Ua Ax Uc Ad", "Ua Ax Uc Ad", [3, 0, 1, 0]),
        ("Ua Ab Uc Ad", "Ux Ab Uc Ad", "Ux Ab Uc Ad", [3, 0, 1, 0]),
        // Messages that are gone.
        ("Ua Ab Uc Ad", "Ua Ab Uc", "Ua Ab Uc", [3, 0, 0, 1]),
        ("Ua Ab Uc Ad", "Ua Ab Ad", "Ua Ab Ad", [3, 0, 0, 1]),
        // New ones in the middle.
        ("Ua Ab Uc Ad", "Ua Ax Ab Uc Ad Ue", "Ua Ax Ab Uc Ad Ue", [4, 2, 0, 0]),
        // What is said again.
        ("Uyes Aok", "Uyes Aok Uyes Aok", "Uyes Aok Uyes Aok", [2, 2, 0, 0]),
        ("Uyes Aok Uyes Aok", "Uyes Aok Uno", "Uyes Aok Uyes Aok Uno", [2, 1, 0, 0]),
        // System prompts.
        ("Sbe_kind Ua Ab", "Sbe_kind Ua Ab Uc", "Sbe_kind Ua Ab Uc", [3, 1, 0, 0]),
        ("Sbe_kind Ua Ab", "Sbe_brief Ua Ab Uc", "Sbe_brief Ua Ab Uc", [2, 1, 1, 0]),
        ("Sbe_kind Ua Ab", "Ua Ab Uc", "Sbe_kind Ua Ab Uc", [2, 1, 0, 0]),
        ("Sbe_kind Ua Ab Uc Ad", "Sbe_kind Uc Ad Ue", "Sbe_kind Ua Ab Uc Ad Ue", [3, 1, 0, 0]),
        ("Ua Ab", "Sbe_kind Ua Ab Uc", "Sbe_kind Ua Ab Uc", [2, 2, 0, 0]),
        ("Sa Sb Uc", "Sb Uc", "Sb Uc", [2, 0, 0, 1]),
        ("Sa Uc", "Sb Sa Uc", "Sb Sa Uc", [2, 1, 0, 0]),
    ];
    for (before, given, after, expected) in cases {
        for restarts in [false, true] {
            let db = Db::new();
            let mut engine = open(&db);
            let mut memory = memory(&engine, BufferLimits::default());
            memory.blocking().put(chat(before)).unwrap();
            let ids: HashSet<String> = memory.blocking().history().unwrap().into_iter().map(|m| m.id).collect();
            if restarts {
                drop(memory);
                drop(engine);
                engine = open(&db);
                memory = super::memory(&engine, BufferLimits::default());
            }
            let report = memory.blocking().sync(chat(given)).unwrap();
            let history = memory.blocking().history().unwrap();
            assert_eq!((written(&history).as_str(), counts(&report)), (after, expected), "{before} + {given}");
            assert_eq!(written(&memory.blocking().messages().unwrap()), after, "the buffer");
            let known = history.iter().filter(|message| ids.contains(&message.id)).count() as u64;
            assert_eq!(known, ids.len() as u64 - report.removed, "the others keep their ids: {before} + {given}");
            let again = memory.blocking().sync(chat(given)).unwrap();
            assert_eq!(counts(&again), [chat(given).len() as u64, 0, 0, 0], "{before} + {given}, twice");
            assert_eq!(memory.blocking().history().unwrap(), history);
            drop(memory);
            drop(engine);
            db.assert_sound();
        }
    }
}

#[test]
fn messages_with_ids_are_known_by_them() {
    let db = Db::new();
    let engine = open(&db);
    let memory = memory(&engine, BufferLimits::default());
    memory
        .blocking()
        .put(vec![user("1", "yes"), assistant("2", "ok"), user("3", "yes"), assistant("4", "ok")])
        .unwrap();
    // The same words, but of the first turn.
    let report = memory.blocking().sync(vec![user("1", "yes"), assistant("2", "ok"), user("5", "no")]).unwrap();
    assert_eq!(counts(&report), [2, 1, 0, 2]);
    let history = memory.blocking().history().unwrap();
    assert_eq!((written(&history).as_str(), ids(&history)), ("Uyes Aok Uno", vec!["1", "2", "5"]));
    // An edit under its id, and an order that is another.
    let report = memory.blocking().sync(vec![user("1", "yes, please"), assistant("2", "ok")]).unwrap();
    assert_eq!(counts(&report), [1, 0, 1, 1]);
    memory.blocking().sync(vec![assistant("2", "ok"), user("1", "yes, please")]).unwrap();
    assert_eq!(ids(&memory.blocking().history().unwrap()), ["2", "1"]);
    // Ids of other sessions are taken.
    engine.blocking().put(&namespace("a"), vec![user("far", "away").in_session("t")]).unwrap();
    let taken = memory.blocking().sync(vec![assistant("2", "ok"), user("far", "other words")]);
    assert!(matches!(taken, Err(Error::InvalidMessage { .. })));
    let told =
        memory.blocking().sync(vec![assistant("2", "ok"), user("1", "yes, please"), user("far", "away")]).unwrap();
    assert_eq!(
        (counts(&told), told.echoes),
        ([2, 0, 0, 0], vec!["far".to_owned()]),
        "a block had placed it in a prompt"
    );
}

#[test]
fn a_chat_may_be_shortened_but_what_follows_an_edit_is_gone() {
    let db = Db::new();
    let engine = open(&db);
    let memory = memory(&engine, limits(4, 1.0, 2));
    let all = "Sbe_kind Ua Ab Uc Ad Ue Af Ug Ah";
    memory.blocking().sync(chat(all)).unwrap();
    assert_eq!(written(&memory.blocking().messages().unwrap()), "Sbe_kind Ug Ah", "the others are flushed");
    // The head and the tail, as some clients shorten chats: flushed messages stay, and so does their order.
    let report = memory.blocking().sync(chat("Sbe_kind Ua Ab Ug Ah Ui")).unwrap();
    assert_eq!(counts(&report), [5, 1, 0, 0]);
    assert_eq!(written(&memory.blocking().history().unwrap()), format!("{all} Ui"));
    // An edit of a flushed message.
    let report = memory.blocking().sync(chat("Sbe_kind Ua Ab Ux")).unwrap();
    assert_eq!(counts(&report), [3, 0, 1, 6]);
    assert_eq!(written(&memory.blocking().history().unwrap()), "Sbe_kind Ua Ab Ux");
    // A new message before flushed ones: these are stored again after it.
    let report = memory.blocking().sync(chat("Sbe_kind Ua Ay Ab Ux Az")).unwrap();
    assert_eq!(counts(&report), [4, 2, 0, 0]);
    assert_eq!(written(&memory.blocking().history().unwrap()), "Sbe_kind Ua Ay Ab Ux Az");
    memory.blocking().settle().unwrap();
    drop(memory);
    drop(engine);
    db.assert_sound();
}

#[test]
fn messages_that_a_prompt_left_out_stay() {
    let db = Db::new();
    let engine = open(&db);
    let memory = memory(&engine, BufferLimits::default());
    // A call without a result is in no later prompt.
    let said =
        vec![user("1", "go"), call("2", "c"), user("3", "again"), assistant("4", "done"), assistant("5", "well")];
    memory.blocking().put(said).unwrap();
    let prompt = memory.blocking().assemble(user("6", "and now")).unwrap();
    assert_eq!(prompt.left_out, ["2"]);
    let report = memory.blocking().sync(formatted(&prompt.messages)).unwrap();
    assert_eq!(counts(&report), [4, 1, 0, 0]);
    // Nor what a selector does not select.
    struct Odd;
    impl mnemon::MessageSelector for Odd {
        fn select(&self, messages: &[Message]) -> Vec<Message> {
            let short = |message: &Message| Message { content: chat("Us")[0].content.clone(), ..message.clone() };
            messages.iter().map(short).step_by(2).collect()
        }
    }
    let before = memory.blocking().history().unwrap();
    let prompt = memory.blocking().assemble(AssembleRequest::new(user("7", "so")).selector(Odd)).unwrap();
    let report = memory.blocking().sync(prompt.messages.clone()).unwrap();
    assert_eq!((report.new, report.replaced, report.removed), (1, 0, 0), "{report:?}");
    let after = memory.blocking().history().unwrap();
    assert_eq!((&after[..before.len()], after.len()), (&before[..], before.len() + 1), "nor is a message shortened");
    let prompt = memory.blocking().assemble(AssembleRequest::new(user("8", "hm")).selector(MessageWindow(2))).unwrap();
    let report = memory.blocking().sync(formatted(&prompt.messages)).unwrap();
    assert_eq!((report.new, report.replaced, report.removed), (1, 0, 0), "{report:?}");
}

#[test]
fn a_client_that_has_what_a_prompt_left_out_may_edit_it() {
    let db = Db::new();
    let engine = open(&db);
    let memory = memory(&engine, BufferLimits::default());
    memory.blocking().sync(chat("Ua Ab Uc Ad Ue Af Ug Ah")).unwrap();
    let request = AssembleRequest::new(Message::user("i")).selector(MessageWindow(2));
    assert_eq!(memory.blocking().assemble(request).unwrap().left_out.len(), 6);
    let report = memory.blocking().sync(chat("Ua Ab Ux")).unwrap();
    assert_eq!((written(&memory.blocking().history().unwrap()).as_str(), counts(&report)), ("Ua Ab Ux", [2, 0, 1, 5]));
}

#[test]
fn tools_and_media_come_back_as_they_are() {
    let db = Db::new();
    let engine = open(&db);
    let memory = memory(&engine, BufferLimits::default());
    let mut look = Message::user("look");
    let media = |uri: &str| MediaReference { uri: uri.into(), media_type: None };
    look.content.push(ContentPart::Video(media("film.mp4")));
    look.content.push(ContentPart::Image(media("https://a.b/c.png")));
    let two = |a: &str, b: &str| {
        let part = |id: &str| ContentPart::ToolCall { id: id.into(), name: "f".into(), arguments: json!({"x": 1}) };
        Message::from_parts(Role::Assistant, vec![part(a), part(b)])
    };
    let said =
        [look, two("a", "b"), Message::tool_result("a", "1"), Message::tool_result("b", "1"), Message::assistant("so")];
    memory.blocking().put(said.to_vec()).unwrap();
    let stored = memory.blocking().history().unwrap();
    let list = formatted(&stored);
    assert_ne!(list[0].content, stored[0].content, "the format has no videos");
    assert_eq!(counts(&memory.blocking().sync(list.clone()).unwrap()), [5, 0, 0, 0]);
    let longer = [&list[..], &chat("Uthanks Awelcome")].concat();
    let report = memory.blocking().put(longer.clone()).unwrap();
    assert_eq!((report.new, report.unchanged), (2, 5));
    assert_eq!(memory.blocking().history().unwrap()[..5], stored);
    // Equal results of two calls are two messages.
    let without: Vec<Message> = longer.iter().enumerate().filter(|(at, _)| *at != 2).map(|(_, m)| m.clone()).collect();
    memory.blocking().sync(without).unwrap();
    let history = memory.blocking().history().unwrap();
    assert!(matches!(&history[2].content[..], [ContentPart::ToolResult { id, .. }] if id == "b"), "{history:?}");
}

#[test]
fn inserted_media_are_dropped_after_a_restart() {
    for markdown in [false, true] {
        let db = Db::new();
        let image = |uri: &str| ContentPart::Image(MediaReference { uri: uri.into(), media_type: None });
        let content =
            BlockContent::Parts(vec![ContentPart::Text { text: "the map".into() }, image("https://a/map.png")]);
        let start = |engine: &Engine| {
            let memory = engine.memory(&namespace("a"), "s").insert_method(InsertMethod::User);
            let memory = memory.block(StaticBlock::new("x", content.clone()));
            if markdown { memory.renderer(mnemon::MarkdownRenderer).open() } else { memory.open() }.unwrap()
        };
        let mut asks = Message::user("where is this");
        asks.content.push(image("https://a/mine.png"));
        let engine = open(&db);
        let memory = start(&engine);
        memory.blocking().put(vec![asks.clone()]).unwrap();
        let given = memory.blocking().get(None).unwrap().messages;
        assert_eq!(given[0].content.len(), 4);
        drop(memory);
        drop(engine);
        let engine = open(&db);
        let memory = start(&engine);
        let list = [formatted(&given), chat("Ahere")].concat();
        let report = memory.blocking().sync(list.clone()).unwrap();
        assert_eq!(counts(&report), [1, 1, 0, 0]);
        assert_eq!(memory.blocking().put(formatted(&list)).unwrap().new, 2, "all of it is the session's: said again");
        let history = memory.blocking().history().unwrap();
        assert!(history[0].content == asks.content && history[2].content == asks.content, "{history:?}");
    }
}

#[test]
fn what_a_user_says_twice_is_stored_twice() {
    let db = Db::new();
    let engine = open(&db);
    let memory = memory(&engine, BufferLimits::default());
    let mut expected = String::new();
    for (words, new) in [
        ("Uyes", 1),
        ("Uyes", 1),
        ("Aok", 1),
        // The last message alone is no sign of a chat that comes back; nor is a turn that is repeated.
        ("Aok Uyes", 2),
        ("Aok Uyes", 2),
        ("Uyes Aok Uyes", 3),
    ] {
        let report = memory.blocking().put(chat(words)).unwrap();
        assert_eq!((report.new, report.unchanged), (new, 0), "{words}");
        expected = format!("{expected} {words}").trim().to_owned();
        assert_eq!(written(&memory.blocking().history().unwrap()), expected);
    }
    // It is if it goes on after the last two.
    let report = memory.blocking().put(chat("Aok Uyes Uand Aso")).unwrap();
    assert_eq!((report.new, report.unchanged), (2, 2));
    // Messages with ids of the program's own are never taken for others.
    let report = memory.blocking().put(vec![user("1", "and"), assistant("2", "so"), user("3", "on")]).unwrap();
    assert_eq!(report.new, 3);
    // Nor are updates that remove messages.
    let update = [MessageUpdate::Remove("3".into())].into_iter();
    let update = update.chain(chat("Uand Aso Uon").into_iter().map(MessageUpdate::Put)).collect();
    assert_eq!(memory.blocking().update(update).unwrap().new, 3);
}

#[test]
fn a_put_knows_the_chat_after_all_of_it_was_flushed() {
    let db = Db::new();
    let engine = open(&db);
    let memory = memory(&engine, BufferLimits::default());
    memory.blocking().put(chat("Sbe_kind Ua Ab Uc Ad")).unwrap();
    memory.blocking().flush().unwrap();
    let report = memory.blocking().put(chat("Sbe_kind Ua Ab Uc Ad Ue Af")).unwrap();
    assert_eq!((report.new, report.unchanged), (2, 5));
    let report = memory.blocking().put(chat("Sbe_kind Uc Ad Ue Af Ug")).unwrap();
    assert_eq!((report.new, report.unchanged), (1, 5), "from the middle on");
    assert_eq!(written(&memory.blocking().history().unwrap()), "Sbe_kind Ua Ab Uc Ad Ue Af Ug");
}

#[test]
fn clients_that_send_the_same_chat_at_once_add_it_once() {
    let db = Db::new();
    let engine = open(&db);
    let memory = memory(&engine, BufferLimits::default());
    for round in 1..6 {
        let words: String = (0..round).map(|at| format!("U{at} A{at} ")).collect();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| memory.blocking().sync(chat(&words)).unwrap());
            }
        });
        assert_eq!(written(&memory.blocking().history().unwrap()), words.trim());
    }
}

#[test]
fn a_sync_is_one_commit_with_one_checkpoint() {
    let db = Db::new();
    let engine = open(&db);
    let memory = engine.memory(&namespace("a"), "s").checkpoint_each_put(true).open().unwrap();
    memory.blocking().sync(chat("Ua Ab Uc Ad")).unwrap();
    memory.blocking().sync(chat("Ua Ab Uc Ad")).unwrap();
    assert_eq!(memory.blocking().checkpoints().unwrap().len(), 1, "none where nothing changes");
    memory.blocking().sync(chat("Ua Ax Ab Uy")).unwrap();
    assert_eq!(written(&memory.blocking().messages_at(0).unwrap()), "Ua Ab Uc Ad");
    memory.blocking().restore(0).unwrap();
    assert_eq!(written(&memory.blocking().history().unwrap()), "Ua Ab Uc Ad");
}

/// What a client does to its list.
#[derive(Clone, Debug)]
enum Act {
    Say(u8),
    Trim(usize),
    Edit(usize, u8),
    EditAndCut(usize, u8),
    Delete(usize),
    Insert(usize, u8),
    Restart,
}

fn act() -> impl Strategy<Value = Act> {
    let word = 0u8..6;
    prop_oneof![
        5 => word.clone().prop_map(Act::Say),
        2 => (0usize..6).prop_map(Act::Trim),
        1 => (0usize..20, word.clone()).prop_map(|(at, word)| Act::Edit(at, word)),
        2 => (0usize..20, word.clone()).prop_map(|(at, word)| Act::EditAndCut(at, word)),
        1 => (0usize..20).prop_map(Act::Delete),
        1 => (0usize..20, word).prop_map(|(at, word)| Act::Insert(at, word)),
        1 => Just(Act::Restart),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// Whatever a client does to its list: afterwards the session ends with the list, what it has before the list was
    /// there before, and a second sync changes nothing. The few words repeat themselves often.
    #[test]
    fn the_session_ends_with_the_chat_and_a_second_sync_changes_nothing(
        acts in proptest::collection::vec(act(), 1..12),
        flushes in any::<bool>(),
    ) {
        let db = Db::new();
        let mut engine = open(&db);
        let limits = if flushes { limits(8, 1.0, 2) } else { BufferLimits::default() };
        let mut memory = memory(&engine, limits);
        let mut list: Vec<Message> = Vec::new();
        for act in acts {
            let word = |word: u8| format!("w{word}");
            match act {
                Act::Say(of) => list.extend([Message::user(word(of)), Message::assistant(word(of % 3))]),
                Act::Trim(count) => drop(list.drain(..count.min(list.len().saturating_sub(1)))),
                Act::Edit(at, of) if at < list.len() => list[at] = Message::new(list[at].role, word(of)),
                Act::EditAndCut(at, of) if at < list.len() => {
                    list[at] = Message::new(list[at].role, word(of));
                    list.truncate(at + 1);
                }
                Act::Delete(at) if at < list.len() => drop(list.remove(at)),
                Act::Insert(at, of) if at < list.len() => list.insert(at, Message::assistant(word(of))),
                Act::Restart => {
                    drop(memory);
                    drop(engine);
                    engine = open(&db);
                    memory = super::memory(&engine, limits);
                }
                _ => {}
            }
            let before = written(&memory.blocking().history().unwrap());
            let report = memory.blocking().sync(formatted(&list)).unwrap();
            let after = memory.blocking().history().unwrap();
            let text = written(&after);
            if flushes {
                // Flushed messages that the list skips stay between its own.
                let mut rest = after.iter();
                let is_there = |given: &Message| rest.any(|m| m.role == given.role && m.text() == given.text());
                prop_assert!(list.iter().all(is_there), "{} in {}", written(&list), text);
            } else {
                prop_assert!(text.ends_with(&written(&list)), "{} of {}", written(&list), text);
                let rest = text[..text.len() - written(&list).len()].trim();
                prop_assert!(before.starts_with(rest), "{} was {}", rest, before);
            }
            prop_assert_eq!((report.unchanged + report.new + report.replaced) as usize, list.len());
            let again = memory.blocking().sync(formatted(&list)).unwrap();
            prop_assert_eq!(counts(&again), [list.len() as u64, 0, 0, 0], "{} in {}", written(&list), text);
            prop_assert_eq!(memory.blocking().history().unwrap(), after);
        }
        memory.blocking().settle().unwrap();
        drop(memory);
        drop(engine);
        db.assert_sound();
    }

    /// Whatever a client and memory talk about, with blocks and restarts: each turn adds the question and the answer.
    #[test]
    fn each_turn_adds_two_messages(seed in any::<u64>(), block in proptest::sample::select(&["vectors", "text", "user"])) {
        let db = Db::new();
        let mut engine = open(&db);
        let limits = limits(120, 0.5, 10);
        let mut memory = with_block(&engine, block, limits);
        let mut state = seed;
        let mut said = String::new();
        for turn in 0..10 {
            // The turn's number comes first, as a chat that is flushed and repeats itself may be aligned elsewhere.
            let asks = Message::user(format!("{turn}_{}", below(&mut state, 3)));
            let mut list = formatted(&memory.blocking().assemble(asks).unwrap().messages);
            list.push(Message::assistant(format!("{turn}!")));
            if random(&mut state) > 0.0 {
                drop(memory);
                drop(engine);
                engine = open(&db);
                memory = with_block(&engine, block, limits);
            }
            memory.blocking().sync(list.clone()).unwrap();
            said = format!("{said} {}", written(&list[list.len() - 2..].iter().map(|m| {
                let text = m.text();
                let own = text.rsplit('\n').next().unwrap().to_owned();
                Message::new(m.role, own)
            }).collect::<Vec<_>>()));
            prop_assert_eq!(written(&memory.blocking().history().unwrap()), said.trim());
        }
    }
}
