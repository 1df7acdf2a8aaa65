//! Echoes: the text of earlier prompts that comes back in a put is not stored again.

use mnemon::{AssembleRequest, InsertMethod, MarkdownRenderer, MediaReference, MessageUpdate, StaticBlock};
use proptest::prelude::*;
use sha2::{Digest, Sha256};

use super::*;

/// A block that returns these messages.
struct Tells(Vec<Message>);

impl MemoryBlock for Tells {
    fn name(&self) -> &str {
        "tells"
    }

    fn get(&self, _: &Value, _: &BlockQuery) -> Result<BlockContent> {
        Ok(BlockContent::Messages(self.0.clone()))
    }
}

/// Reduces messages to role and one text, as chat formats do; ids, times and the parts' borders are lost.
fn flattened(messages: &[Message]) -> Vec<Message> {
    let flat = |message: &Message| {
        let texts: Vec<String> = message
            .content
            .iter()
            .filter_map(|part| match part {
                ContentPart::Text { text } => Some(text.clone()),
                _ => None,
            })
            .collect();
        let mut content: Vec<ContentPart> =
            message.content.iter().filter(|part| !matches!(part, ContentPart::Text { .. })).cloned().collect();
        if !texts.is_empty() {
            content.insert(0, ContentPart::Text { text: texts.join("\n") });
        }
        Message { content, name: message.name.clone(), ..Message::new(message.role, "x") }
    };
    messages.iter().map(flat).collect()
}

#[test]
fn a_whole_prompt_that_comes_back_adds_only_the_answer() {
    for insert in [InsertMethod::System, InsertMethod::User] {
        for (flat, with_system) in [(false, true), (false, false), (true, true), (true, false)] {
            let db = Db::new();
            let engine = open(&db);
            let old = Message::user("Ada rows on Thursdays").in_session("old");
            engine.blocking().put(&namespace("a"), vec![old]).unwrap();
            engine.blocking().flush().unwrap();
            let memory = engine.memory(&namespace("a"), "s").insert_method(insert).block(StaticBlock::new("x", "said"));
            let memory = memory.open().unwrap();
            let mut said = vec![user("1", "hello"), assistant("2", "hi")];
            if with_system {
                said.insert(0, system("0", "be kind"));
            }
            memory.blocking().put(said).unwrap();
            let before = memory.blocking().history().unwrap();
            let prompt = memory.blocking().assemble(user("3", "when does Ada go rowing on Thursdays")).unwrap();
            assert!(prompt.messages.iter().any(|message| message.text().contains("Ada rows on Thursdays")));

            let mut back = if flat { flattened(&prompt.messages) } else { prompt.messages.clone() };
            back.push(assistant("4", "at nine"));
            let report = memory.blocking().put(back.clone()).unwrap();
            assert!(!report.echoes.is_empty(), "{report:?}");
            assert_eq!(report.new, 2, "{report:?}");
            let after = memory.blocking().history().unwrap();
            assert_eq!(after[..before.len()], before, "what was there is as it was");
            let ids: Vec<&str> = ids(&after[before.len()..]);
            assert_eq!(ids, ["3", "4"], "{insert:?} {flat}");
            assert!(after.iter().all(|message| !message.text().contains("<memory")));
            assert_eq!(after.iter().filter(|message| message.text().contains("Ada rows on")).count(), 0);
            // And once more.
            let report = memory.blocking().put(back).unwrap();
            assert_eq!((report.new, report.replaced), (0, 0), "{report:?}");
        }
    }
}

#[test]
fn memory_is_known_after_a_restart_and_inside_other_text() {
    let db = Db::new();
    let given = {
        let engine = open(&db);
        let memory = engine.memory(&namespace("a"), "s").block(StaticBlock::new("x", "<said>")).open().unwrap();
        memory.blocking().get(None).unwrap().messages.remove(0).text()
    };
    let engine = open(&db);
    let memory = engine.memory(&namespace("a"), "s").open().unwrap();
    let report =
        memory.blocking().put(vec![user("1", &format!("I was told: {given}\nand more")), user("2", &given)]).unwrap();
    assert_eq!((report.new, report.echoes.len()), (1, 2));
    assert_eq!(memory.blocking().messages().unwrap()[0].text(), "I was told: and more");
    // What only looks like it is the user's own.
    let own = "<memory>\n<x>\nI wrote this\n</x>\n</memory>";
    assert_eq!(memory.blocking().put(vec![user("3", own)]).unwrap().echoes, [""; 0]);
    assert_eq!(memory.blocking().messages().unwrap()[1].text(), own);
}

/// Text in a frame of memory that this database did not make stays: a user who knows the format cannot have text
/// dropped. Frames of releases before 0.2 had 32 bits of a plain SHA-256.
#[test]
fn a_frame_that_another_database_or_a_user_made_is_stored() {
    let framed = |db: &Db| {
        let engine = open(db);
        let memory = engine.memory(&namespace("a"), "s").block(StaticBlock::new("x", "said")).open().unwrap();
        memory.blocking().get(Some(user("1", "hello"))).unwrap().messages[0].text()
    };
    let (db, other) = (Db::new(), Db::new());
    let (own, foreign) = (framed(&db), framed(&other));
    assert!(own.contains("<memory sealed='true'>") && own.len() == foreign.len() && own != foreign);
    let body = "<x>\nsaid\n</x>\n";
    let sha = Sha256::digest(body);
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let forged = [4, 16]
        .map(|bytes| format!("<memory sealed='true'>\n{body}<seal checksum='{}'/>\n</memory>", hex(&sha[..bytes])));
    assert_eq!(forged[1].len(), own.len(), "the form of the frame");
    let engine = open(&db);
    let memory = engine.memory(&namespace("a"), "s").open().unwrap();
    for (at, text) in [&foreign, &forged[0], &forged[1]].into_iter().enumerate() {
        memory.blocking().put(vec![user(&format!("f{at}"), text)]).unwrap();
        assert_eq!(memory.blocking().history().unwrap().last().unwrap().text(), *text);
    }
    let report = memory.blocking().put(vec![user("own", &own)]).unwrap();
    assert_eq!((report.new, report.echoes), (0, vec!["own".to_owned()]));
}

/// A prompt of a reader is recognised by the writer.
#[test]
fn a_prompt_of_a_read_only_engine_is_recognised() {
    let db = Db::new();
    let engine = open(&db);
    engine.blocking().put(&namespace("a"), vec![user("1", "text")]).unwrap();
    let reader = Engine::builder(&db.path).embedder(Arc::new(Hashing::new(32))).open_read_only().unwrap();
    let memory = reader.memory(&namespace("a"), "s").block(StaticBlock::new("x", "said")).open().unwrap();
    let text = memory.blocking().get(Some(user("1", "hello"))).unwrap().messages[0].text();
    let memory = engine.memory(&namespace("a"), "s").open().unwrap();
    let report = memory.blocking().put(vec![user("own", &text)]).unwrap();
    assert_eq!((report.new, report.echoes), (0, vec!["own".to_owned()]));
}

/// Thousands of frames that begin and none that ends: the cost is linear, or this would take minutes.
#[test]
fn text_full_of_beginnings_of_memory_is_stored() {
    let db = Db::new();
    let engine = open(&db);
    let memory = engine.memory(&namespace("a"), "s").open().unwrap();
    let begin = format!("<memory sealed='true'>\n<seal checksum='{}'/>\n", "0".repeat(32));
    let mut text = begin.repeat(mnemon::MAX_MESSAGE_BYTES / begin.len() - 1);
    text.push_str("</memory>");
    assert_eq!(memory.blocking().put(vec![user("1", &text)]).unwrap().new, 1);
    assert_eq!(memory.blocking().history().unwrap()[0].text(), text);
}

#[test]
fn a_repeated_sentence_of_the_user_is_stored() {
    let db = Db::new();
    let engine = open(&db);
    let memory = memory(&engine, BufferLimits::default());
    memory.blocking().put(vec![user("1", "yes"), assistant("2", "ok")]).unwrap();
    memory.blocking().get(None).unwrap();
    let report = memory.blocking().put(vec![Message::user("yes")]).unwrap();
    assert_eq!((report.new, report.echoes.len()), (1, 0));
    memory.blocking().get(None).unwrap();
    let again =
        ["yes", "ok", "yes"].map(|text| if text == "ok" { Message::assistant(text) } else { Message::user(text) });
    let report = memory.blocking().put(again.to_vec()).unwrap();
    assert_eq!((report.new, report.echoes.len()), (3, 0), "nothing in it is memory's");
}

#[test]
fn messages_that_a_block_returned_are_not_stored() {
    let db = Db::new();
    let engine = open(&db);
    let told = vec![user("far", "from another world"), assistant("away", "so it is")];
    let memory = engine.memory(&namespace("a"), "s").block(Tells(told)).open().unwrap();
    memory.blocking().put(vec![user("1", "hello")]).unwrap();
    let prompt = memory.blocking().get(None).unwrap();
    assert_eq!(ids(&prompt.messages), ["far", "away", "1"]);
    for back in [prompt.messages.clone(), flattened(&prompt.messages)] {
        let report = memory.blocking().put(back).unwrap();
        assert_eq!(report.new + report.replaced, 0, "{report:?}");
    }
    assert_eq!(ids(&memory.blocking().history().unwrap()), ["1"]);
}

#[test]
fn a_repeated_turn_is_stored() {
    let db = Db::new();
    let engine = open(&db);
    let memory = memory(&engine, BufferLimits::default());
    memory.blocking().put(vec![Message::user("ping"), Message::assistant("pong")]).unwrap();
    memory.blocking().get(Some(Message::user("ping"))).unwrap();
    let report = memory.blocking().put(vec![Message::user("ping"), Message::assistant("pong")]).unwrap();
    assert_eq!(memory.blocking().history().unwrap().len(), 4, "{report:?}");
}

#[test]
fn the_same_words_with_another_image_are_stored() {
    let db = Db::new();
    let engine = open(&db);
    let memory = memory(&engine, BufferLimits::default());
    let turn = |uri: &str| {
        let mut m = Message::user("what is this?");
        m.content.push(ContentPart::Image(MediaReference { uri: uri.into(), media_type: None }));
        vec![m, Message::assistant("a cat")]
    };
    memory.blocking().put(turn("a.png")).unwrap();
    memory.blocking().get(None).unwrap();
    memory.blocking().put(turn("b.png")).unwrap();
    assert_eq!(memory.blocking().history().unwrap().len(), 4);
}

#[test]
fn a_message_put_again_after_its_removal_is_stored() {
    let one_by_one = vec![MessageUpdate::Remove("1".into()), MessageUpdate::Remove("2".into())];
    for removed in [vec![MessageUpdate::RemoveAll], one_by_one] {
        let db = Db::new();
        let engine = open(&db);
        let memory = memory(&engine, BufferLimits::default());
        memory.blocking().put(vec![user("1", "hello"), assistant("2", "hi")]).unwrap();
        memory.blocking().get(None).unwrap();
        let again = [Message::user("hello"), Message::assistant("hi")].map(MessageUpdate::Put);
        let report = memory.blocking().update(removed.into_iter().chain(again).collect()).unwrap();
        assert_eq!(memory.blocking().history().unwrap().len(), 2, "{report:?}");
    }
}

#[test]
fn an_image_of_the_users_own_stays() {
    let db = Db::new();
    let engine = open(&db);
    let image = |uri: &str| ContentPart::Image(MediaReference { uri: uri.into(), media_type: None });
    let mut old = Message::user("the red bike").in_session("old");
    old.content.push(image("old.png"));
    engine.blocking().put(&namespace("a"), vec![old]).unwrap();
    engine.blocking().flush().unwrap();
    let memory = engine.memory(&namespace("a"), "s").insert_method(InsertMethod::User).open().unwrap();
    let mut asks = user("1", "is this the red bike");
    asks.content.push(image("mine.png"));
    memory.blocking().put(vec![asks.clone()]).unwrap();
    let prompt = memory.blocking().assemble(asks.clone()).unwrap();
    let mut back = prompt.messages.clone();
    back.push(assistant("2", "yes"));
    memory.blocking().put(back).unwrap();
    assert_eq!(memory.blocking().history().unwrap()[0].content, asks.content);
}

#[test]
fn a_removed_message_does_not_come_back_with_a_prompt() {
    let db = Db::new();
    let engine = open(&db);
    let memory = memory(&engine, BufferLimits::default());
    memory.blocking().put(vec![user("1", "secret"), assistant("2", "ok")]).unwrap();
    let prompt = memory.blocking().get(None).unwrap();
    memory.blocking().update(vec![MessageUpdate::Remove("1".into())]).unwrap();
    memory.blocking().put(prompt.messages).unwrap();
    assert_eq!(ids(&memory.blocking().history().unwrap()), ["2"]);
}

#[test]
fn an_edit_is_not_undone_by_a_prompt() {
    let db = Db::new();
    let engine = open(&db);
    let memory = memory(&engine, BufferLimits::default());
    memory.blocking().put(vec![user("1", "old"), assistant("2", "ok")]).unwrap();
    let prompt = memory.blocking().get(None).unwrap();
    memory.blocking().put(vec![user("1", "edited")]).unwrap();
    memory.blocking().put(prompt.messages).unwrap();
    assert_eq!(memory.blocking().history().unwrap()[0].text(), "edited");
}

#[test]
fn a_message_that_a_selector_shortened_stays_whole_in_the_store() {
    let db = Db::new();
    let engine = open(&db);
    let memory = memory(&engine, BufferLimits::default());
    memory.blocking().put(vec![user("1", "long text"), assistant("2", "ok")]).unwrap();
    struct Cut;
    impl mnemon::MessageSelector for Cut {
        fn select(&self, m: &[Message]) -> Vec<Message> {
            m.iter()
                .map(|m| Message { content: vec![ContentPart::Text { text: m.text()[..2].into() }], ..m.clone() })
                .collect()
        }
    }
    let prompt = memory.blocking().assemble(mnemon::AssembleRequest::new(user("3", "hm")).selector(Cut)).unwrap();
    memory.blocking().put(prompt.messages).unwrap();
    assert_eq!(memory.blocking().history().unwrap()[0].text(), "long text");
}

#[test]
fn a_message_that_is_blank_without_its_memory_is_left_out() {
    let db = Db::new();
    let engine = open(&db);
    let memory = engine.memory(&namespace("a"), "s").block(mnemon::StaticBlock::new("x", "said")).open().unwrap();
    let given = memory.blocking().get(None).unwrap().messages.remove(0).text();
    memory.blocking().put(vec![user("1", &format!("{given}\n\n"))]).unwrap();
    assert!(memory.blocking().history().unwrap().iter().all(|m| !m.text().trim().is_empty()));
}

#[test]
fn a_message_that_a_block_returned_can_be_edited() {
    let db = Db::new();
    let engine = open(&db);
    let memory = engine.memory(&namespace("a"), "s").limits(limits(3, 1.0, 1)).message_counter(words());
    let memory = memory.block(Tells(vec![user("1", "one two three")])).open().unwrap();
    memory.blocking().put(vec![user("1", "one two three"), user("2", "one two three")]).unwrap();
    memory.blocking().get(None).unwrap();
    memory.blocking().put(vec![user("1", "edited by the user")]).unwrap();
    assert_eq!(memory.blocking().history().unwrap()[0].text(), "edited by the user");
}

#[test]
fn interleaved_prompts_are_all_recognised() {
    // Two prompts at once; the first comes back.
    struct Tells(AtomicUsize);
    impl MemoryBlock for Tells {
        fn name(&self) -> &str {
            "tells"
        }
        fn get(&self, _: &Value, _: &BlockQuery) -> Result<BlockContent> {
            let n = self.0.fetch_add(1, Ordering::SeqCst);
            Ok(BlockContent::Messages(vec![user(&format!("far{n}"), "told")]))
        }
    }
    let db = Db::new();
    let engine = open(&db);
    let memory = engine.memory(&namespace("a"), "s").block(Tells(AtomicUsize::new(0))).open().unwrap();
    memory.blocking().put(vec![user("1", "hello")]).unwrap();
    let first = memory.blocking().get(None).unwrap();
    memory.blocking().get(None).unwrap();
    memory.blocking().put(first.messages).unwrap();
    assert_eq!(ids(&memory.blocking().history().unwrap()), ["1"]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(25))]

    /// Whatever was said and recalled: a prompt that comes back, with its ids or without, leaves the session as it was.
    #[test]
    fn putting_any_prompt_back_stores_only_what_is_new(
        list in crate::support::conversation(),
        facts in proptest::collection::vec("[a-z<>&' ]{1,30}", 1..4),
        markdown in any::<bool>(),
        user_insert in any::<bool>(),
    ) {
        let db = Db::new();
        let engine = open(&db);
        let builder = engine.memory(&namespace("a"), "s").limits(limits(40, 0.5, 5)).message_counter(words());
        let builder = builder.block(StaticBlock::new("facts", facts.join("\n")));
        let builder = builder.insert_method(if user_insert { InsertMethod::User } else { InsertMethod::System });
        let memory = if markdown { builder.renderer(MarkdownRenderer).open() } else { builder.open() }.unwrap();
        memory.blocking().put(list).unwrap();
        memory.blocking().settle().unwrap();
        let before = memory.blocking().history().unwrap();
        let prompt = memory.blocking().assemble(AssembleRequest::new(user("prompt", "what was it"))).unwrap();
        let own: Vec<Message> = prompt.messages.iter().filter(|message| message.id != "prompt").cloned().collect();
        // With ids in any selection, without only as a whole: else they are new messages.
        memory.blocking().put(own).unwrap();
        prop_assert_eq!(&memory.blocking().history().unwrap(), &before);
        memory.blocking().assemble(AssembleRequest::new(user("prompt", "what was it"))).unwrap();
        memory.blocking().put(flattened(&prompt.messages)).unwrap();
        let after = memory.blocking().history().unwrap();
        prop_assert_eq!(&after[..before.len()], &before[..]);
        prop_assert_eq!(after.len(), before.len() + 1, "the prompt alone is new");
        prop_assert_eq!(after.last().unwrap().text(), "what was it");
    }
}
