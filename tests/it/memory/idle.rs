//! Flushes of sessions that are idle, and of sessions whose last handle is dropped.

use mnemon::{Query, VectorBlock};

use super::*;

/// Sends the ids of each batch.
struct Taken(Mutex<mpsc::Sender<Vec<String>>>);

impl MemoryBlock for Taken {
    fn name(&self) -> &str {
        "taken"
    }

    fn put(&self, state: &Value, batch: &FlushedBatch<'_>) -> Result<Value> {
        let batch = ids(batch.messages).into_iter().map(str::to_owned).collect();
        self.0.lock().unwrap().send(batch).unwrap();
        Ok(state.clone())
    }

    fn get(&self, _: &Value, _: &BlockQuery) -> Result<BlockContent> {
        Ok("".into())
    }
}

fn idle_after(millis: u64) -> BufferLimits {
    BufferLimits::default().idle_time(Duration::from_millis(millis))
}

fn with_limits(engine: &Engine, session: &str, limits: BufferLimits) -> Memory {
    engine.memory(&namespace("a"), session).limits(limits).open().unwrap()
}

fn shown(memory: &Memory) -> Vec<String> {
    memory.blocking().get(None).unwrap().messages.into_iter().map(|message| message.id).collect()
}

fn buffered(engine: &Engine, session: &str) -> u64 {
    let infos = engine.blocking().sessions(&namespace("a")).unwrap();
    infos.iter().find(|info| info.session == session).map_or(0, |info| info.buffered)
}

fn wait_until(what: &str, done: impl Fn() -> bool) {
    let begun = Instant::now();
    while !done() {
        assert!(begun.elapsed() < Duration::from_secs(20), "{what}: not yet");
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn an_idle_session_is_flushed_by_a_timer_and_its_blocks_take_the_batch() {
    let db = Db::new();
    let engine = open(&db);
    let (sender, taken) = mpsc::channel();
    let memory = engine.memory(&namespace("a"), "s").limits(idle_after(50)).block(Taken(Mutex::new(sender)));
    let memory = memory.open().unwrap();
    let next = || taken.recv_timeout(Duration::from_secs(20)).unwrap();
    memory
        .blocking()
        .put(vec![system("0", "be kind"), user("1", "my boat is Marigold"), assistant("2", "nice")])
        .unwrap();
    assert_eq!(next(), ["1", "2"]);
    assert_eq!(ids(&memory.blocking().messages().unwrap()), ["0"], "the system prompt stays");
    assert_eq!(shown(&memory), ["0", "1", "2"], "the prompts do not change");
    // Again, with the same memory.
    memory.blocking().put(vec![user("3", "and my bike is red"), assistant("4", "good")]).unwrap();
    assert_eq!(next(), ["3", "4"]);
    assert_eq!(shown(&memory), ["0", "1", "2", "3", "4"]);
    memory.blocking().settle().unwrap();
    let other = with_limits(&engine, "t", BufferLimits::default());
    let prompt = other.blocking().assemble(user("q", "what is my boat")).unwrap();
    assert!(prompt.messages[0].text().contains("Marigold"), "other sessions recall it");
    drop((memory, other, engine));
    db.assert_sound();
}

#[test]
fn the_idle_time_of_the_memory_that_put_last_counts() {
    let db = Db::new();
    let engine = open(&db);
    let hour = BufferLimits::default().idle_time(Duration::from_secs(3600));
    for (session, then) in [("used", hour), ("never", BufferLimits::default().idle_time(None))] {
        with_limits(&engine, session, idle_after(3_000)).blocking().put(vec![user(session, "hello")]).unwrap();
        with_limits(&engine, session, then).blocking().put(vec![user(&format!("{session}2"), "hello")]).unwrap();
    }
    // Becomes idle after the first times of both.
    with_limits(&engine, "idle", idle_after(3_100)).blocking().put(vec![user("idle", "hello")]).unwrap();
    wait_until("the session is idle", || buffered(&engine, "idle") == 0);
    assert_eq!((buffered(&engine, "used"), buffered(&engine, "never")), (2, 2));
    drop(engine);
    db.assert_sound();
}

#[test]
fn mondays_session_is_known_on_tuesday() {
    let db = Db::new();
    {
        let engine = open(&db);
        let monday = with_limits(&engine, "monday", idle_after(1_000));
        monday.blocking().put(vec![user("1", "my boat is Marigold")]).unwrap();
    }
    let engine = open(&db);
    let tuesday = with_limits(&engine, "tuesday", BufferLimits::default());
    wait_until("monday is flushed", || buffered(&engine, "monday") == 0);
    tuesday.blocking().settle().unwrap();
    let prompt = tuesday.blocking().assemble(user("q", "what is my boat")).unwrap();
    assert!(prompt.messages[0].text().contains("Marigold"));
    // The session goes on as if nothing had been.
    assert_eq!(shown(&with_limits(&engine, "monday", BufferLimits::default())), ["1"]);
    drop((tuesday, engine));
    db.assert_sound();
}

#[test]
fn buffers_of_an_older_database_are_flushed() {
    let db = Db::new();
    {
        let engine = open(&db);
        let never = BufferLimits::default().idle_time(None);
        with_limits(&engine, "monday", never).blocking().put(vec![user("1", "my boat is Marigold")]).unwrap();
        with_limits(&engine, "sunday", never).blocking().flush().unwrap();
    }
    {
        let file = crate::support::open_tables(&db.path);
        let writing = file.begin_write().unwrap();
        writing.delete_table(redb::TableDefinition::<(&str, &str), i64>::new("idle")).unwrap();
        writing.delete_table(redb::TableDefinition::<(u32, u32), u64>::new("windows")).unwrap();
        let meta: redb::TableDefinition<&str, &[u8]> = redb::TableDefinition::new("meta");
        writing.open_table(meta).unwrap().insert("schema", 5u32.to_le_bytes().as_slice()).unwrap();
        writing.commit().unwrap();
    }
    let engine = open(&db);
    assert_eq!(buffered(&engine, "monday"), 1, "an engine without memories flushes none");
    let _tuesday = with_limits(&engine, "tuesday", BufferLimits::default());
    wait_until("monday is flushed", || buffered(&engine, "monday") == 0);
}

#[test]
fn copied_and_restored_buffers_become_idle_too() {
    let db = Db::new();
    let engine = open(&db);
    let memory = with_limits(&engine, "s", idle_after(200));
    memory.blocking().put(vec![user("1", "hello")]).unwrap();
    let checkpoint = memory.blocking().checkpoint("").unwrap();
    let fork = memory.blocking().fork(Some(checkpoint), "f").unwrap();
    engine.blocking().copy_session(&namespace("a"), "f", "c").unwrap();
    let copy = with_limits(&engine, "c", BufferLimits::default().idle_time(None));
    for (session, memory) in [("s", &memory), ("f", &fork), ("c", &copy)] {
        wait_until(session, || buffered(&engine, session) == 0);
        assert_eq!(shown(memory).len(), 1);
    }
    memory.blocking().restore(checkpoint).unwrap();
    wait_until("restored", || buffered(&engine, "s") == 0);
    drop((memory, fork, copy, engine));
    db.assert_sound();
}

#[test]
fn an_idle_time_of_zero_is_an_error() {
    let db = Db::new();
    let engine = open(&db);
    let builder = engine.memory(&namespace("a"), "s").limits(idle_after(0));
    assert!(matches!(builder.open(), Err(Error::InvalidConfig { .. })));
}

#[test]
fn the_buffer_is_flushed_when_the_last_handle_is_dropped_if_asked_so() {
    let db = Db::new();
    let open_both = |engine: &Engine, session: &str, yes: bool| {
        let builder = engine.memory(&namespace("a"), session);
        (builder.clone().flush_on_drop(yes).open().unwrap(), builder.open().unwrap())
    };
    let engine = open(&db);
    for (session, yes) in [("kept", false), ("flushed", true)] {
        let (one, two) = open_both(&engine, session, yes);
        one.blocking().put(vec![user(session, "my boat is Marigold")]).unwrap();
        drop(one);
        two.blocking().settle().unwrap();
        let clone = two.clone();
        drop(two);
        assert_eq!(ids(&clone.blocking().messages().unwrap()), [session], "one handle is left");
    }
    // Closing waits for the flush.
    drop(engine);
    let engine = open(&db);
    assert_eq!((buffered(&engine, "kept"), buffered(&engine, "flushed")), (1, 0));
    let (again, other) = open_both(&engine, "flushed", true);
    assert_eq!(shown(&again), ["flushed"], "a session goes on where it ended");
    drop((again, other, engine));
    db.assert_sound();
}

/// Recalls all that there is.
struct RecallsAll;

impl MemoryBlock for RecallsAll {
    fn name(&self) -> &str {
        "all"
    }

    fn get(&self, _: &Value, query: &BlockQuery) -> Result<BlockContent> {
        let hits = query.recall(&Query::new("my red bike").k(100))?;
        Ok(hits.iter().map(|hit| hit.message.id.as_str()).collect::<Vec<_>>().join(" ").into())
    }
}

/// Also if they are more than a block asks for, and better.
#[test]
fn blocks_do_not_recall_what_the_prompt_shows() {
    let db = Db::new();
    let engine = open(&db);
    engine.blocking().put(&namespace("a"), vec![user("other", "my bike was blue").in_session("t")]).unwrap();
    let memory = engine.memory(&namespace("a"), "s").block(RecallsAll).block(VectorBlock::new("v").similarity_top_k(1));
    let memory = memory.open().unwrap();
    let own: Vec<Message> = (0..40).map(|i| user(&format!("own{i}"), &format!("my red bike {i}"))).collect();
    memory.blocking().put(own).unwrap();
    memory.blocking().flush().unwrap();
    memory.blocking().put(vec![user("last", "my red bike")]).unwrap();
    memory.blocking().settle().unwrap();
    let input = user("q", "my red bike");
    for prompt in [memory.blocking().get(Some(input.clone())).unwrap(), memory.blocking().assemble(input).unwrap()] {
        assert_eq!(ids(&prompt.messages).iter().filter(|id| id.starts_with("own")).count(), 40);
        let text = prompt.messages[0].text();
        assert!(text.contains("<all>\nother\n</all>"), "{text}");
        assert_eq!(text.matches("my bike was blue").count(), 1, "{text}");
    }
}
