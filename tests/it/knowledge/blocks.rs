//! Profiles and collections as blocks of a memory: updated in the background, shown in prompts.

use std::time::Duration;

use mnemon::{
    BlockContent, BufferLimits, CollectionBlock, Config, ContentPart, FlushedBatch, Memory, MemoryBlock, ProfileBlock,
    TokenExcess,
};

use super::*;
use crate::support::{Hashing, words};

/// Opens an engine whose blocks wait so long before they try again.
fn open(db: &Db, retry: Duration) -> Engine {
    let mut config = Config::default();
    (config.flush_size, config.idle_flush, config.block_retry) = (100_000, None, retry);
    Engine::builder(&db.path).config(config).embedder(Arc::new(Hashing::new(32))).open().unwrap()
}

fn with(engine: &Engine, block: impl MemoryBlock + 'static) -> Memory {
    let memory = engine.memory(&namespace("acme/user-42"), "s").limits(BufferLimits::new(1_000, 0.7, 1).unwrap());
    memory.message_counter(words()).block(block).open().unwrap()
}

/// Puts a message, flushes it, and waits until the block has taken it.
fn tell(memory: &Memory, text: &str) {
    memory.blocking().put(said(text)).unwrap();
    memory.blocking().flush().unwrap();
    while memory.blocking().settle().is_err() {
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn shown(memory: &Memory, question: &str) -> String {
    memory.blocking().assemble(Message::user(question)).unwrap().messages[0].text()
}

#[test]
fn facts_are_updated_in_the_background_and_shown_where_they_are_related() {
    let db = Db::new();
    let engine = open(&db, Duration::from_millis(1));
    let facts = facts(&engine);
    let model = Script::new([
        Err(unavailable()),
        Ok("I cannot do that.".to_owned()),
        Ok(json!({"insert": [text("Ada rows on the <lake>."), text("Ada has a cat.")]}).to_string()),
        Ok(json!({"update": [{"id": 1, "item": text("Ada has two cats.")}]}).to_string()),
    ]);
    let memory = with(&engine, CollectionBlock::new("facts", &facts, Arc::clone(&model)).with_k(1));
    tell(&memory, "I row, and have a cat");
    assert_eq!(texts(&facts), ["Ada has a cat.", "Ada rows on the <lake>."]);
    engine.blocking().flush().unwrap();
    let prompt = shown(&memory, "who rows on the lake");
    assert!(prompt.contains("<facts>\nAda rows on the &lt;lake&gt;.\n</facts>"), "{prompt}");
    // The newest item is the first; both were put by one commit.
    let first = model.asked()[2].clone();
    assert!(!first.contains("<item "), "{first}");
    tell(&memory, "I have another cat");
    assert_eq!(texts(&facts).len(), 2);
    assert!(texts(&facts).contains(&"Ada has two cats.".to_owned()), "{:?}", texts(&facts));
    assert!(memory.blocking().status().unwrap()[0].failed.is_empty());
    // The facts outlive the session.
    memory.blocking().reset().unwrap();
    assert_eq!(texts(&facts).len(), 2);
}

#[test]
fn a_batch_that_is_given_again_stores_nothing_twice() {
    let db = Db::new();
    let engine = db.open();
    let facts = facts(&engine);
    let block = CollectionBlock::new("facts", &facts, script([json!({"insert": [text("Ada rows.")]})]));
    let messages = said("I row");
    // As after a crash between the commit of the facts and that of the block's position.
    for _ in 0..2 {
        assert_eq!(block.put(&Value::Null, &FlushedBatch::new(0, &messages)).unwrap(), Value::Null);
    }
    assert_eq!(texts(&facts), ["Ada rows."]);
}

#[test]
fn a_block_that_waits_does_not_keep_the_engine_open() {
    let db = Db::new();
    let engine = open(&db, Duration::from_secs(3600));
    let (collection, profile) = (facts(&engine), profile(&engine));
    let down = || |_: &ChatRequest| -> Result<Message> { Err(unavailable()) };
    let memory = engine.memory(&namespace("acme/user-42"), "s");
    let memory = memory.block(CollectionBlock::new("facts", &collection, down()));
    let memory = memory.block(ProfileBlock::new("profile", &profile, down())).open().unwrap();
    memory.blocking().put(said("I row")).unwrap();
    memory.blocking().flush().unwrap();
    while memory.blocking().status().unwrap().iter().any(|status| status.retrying.is_none()) {
        std::thread::sleep(Duration::from_millis(2));
    }
    drop((memory, collection, profile, engine));
    let engine = open(&db, Duration::from_millis(1));
    // What waited is done after the next opening.
    let model = script([json!({"insert": [text("Ada rows.")]})]);
    let memory = with(&engine, CollectionBlock::new("facts", &facts(&engine), model));
    memory.blocking().settle().unwrap();
    assert_eq!(texts(&facts(&engine)), ["Ada rows."]);
}

#[test]
fn a_profile_is_updated_in_the_background_and_shown_as_a_whole() {
    let db = Db::new();
    let engine = open(&db, Duration::from_millis(1));
    let profile = profile(&engine);
    let model = script([json!({"name": "Ada <b>", "tags": ["rower"]}), json!({"city": "Lyon"})]);
    let memory = with(&engine, ProfileBlock::new("about", &profile, model).with_priority(1));
    assert!(!shown(&memory, "hello").contains("<about>"), "an empty profile is not shown");
    tell(&memory, "I am Ada");
    tell(&memory, "I live in Lyon");
    let prompt = shown(&memory, "hello");
    assert!(prompt.contains("<about>\ncity: Lyon\nname: Ada &lt;b&gt;\ntags: [\"rower\"]\n</about>"), "{prompt}");
    assert_eq!(profile.blocking().get().unwrap(), json!({"name": "Ada <b>", "tags": ["rower"], "city": "Lyon"}));
}

#[test]
fn items_of_another_form_are_shown_as_json_and_the_best_stay() {
    let db = Db::new();
    let engine = open(&db, Duration::from_millis(1));
    let facts = facts(&engine);
    facts.blocking().add(json!({"text": "the ferry <leaves>", "since": 2019})).unwrap();
    engine.blocking().flush().unwrap();
    let block = CollectionBlock::new("facts", &facts, Script::new([])).with_priority(2);
    let memory = with(&engine, block.clone());
    let prompt = shown(&memory, "when does the ferry leave");
    assert!(prompt.contains("{\"since\":2019,\"text\":\"the ferry &lt;leaves&gt;\"}"), "{prompt}");
    assert_eq!(block.priority(), 2);
    let parts = |count: usize| {
        let part = |number: usize| ContentPart::Text { text: number.to_string() };
        BlockContent::Parts((0..count).map(part).collect())
    };
    let fits = |content: &BlockContent| matches!(content, BlockContent::Parts(parts) if parts.len() <= 2);
    assert_eq!(block.truncate(parts(5), &TokenExcess::new(7, &fits)), parts(2));
    assert!(block.truncate(parts(5), &TokenExcess::new(7, &|_| false)).is_empty());
}
