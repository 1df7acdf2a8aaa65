//! The buffer and its flushes.

use mnemon::{BufferLimits, Error, MemoryReport, Message, MessageUpdate, Query};
use proptest::prelude::*;

use super::*;
use crate::support::{conversation, splits_a_call};

#[test]
fn old_turns_are_flushed_and_recalled() {
    let db = Db::new();
    let engine = open(&db);
    let memory = memory(&engine, limits(10, 1.0, 1));
    let put = |messages| memory.blocking().put(messages).unwrap();
    let report = put(vec![system("0", "be kind"), user("1", "my bike is red"), assistant("2", "nice")]);
    assert_eq!((report.new, report.flushed.len()), (3, 0));
    let flushed = put(vec![user("3", "and my boat is green now")]).flushed;
    assert_eq!(flushed, [["1", "2"]]);
    assert_eq!(ids(&memory.blocking().messages().unwrap()), ["0", "3"]);
    assert_eq!(ids(&memory.blocking().history().unwrap()), ["0", "1", "2", "3"]);
    memory.blocking().settle().unwrap();
    // All of it is recalled, by every session: what was flushed by meaning, what is in the buffer by its words.
    let hits = engine.blocking().recall(&namespace("a"), Query::new("my bike boat")).unwrap();
    let mut found: Vec<_> = hits.iter().map(|hit| (hit.message.id.as_str(), hit.similarity != 0.0)).collect();
    found.sort_unstable();
    assert_eq!((found, hits.pending()), (vec![("1", true), ("2", true), ("3", false)], 2));
    drop((memory, engine));
    db.assert_sound();
}

#[test]
fn the_buffer_survives_a_restart() {
    let db = Db::new();
    {
        let engine = open(&db);
        let memory = memory(&engine, limits(6, 1.0, 1));
        memory.blocking().put(vec![user("1", "a b c"), assistant("2", "d e"), user("3", "f g")]).unwrap();
    }
    let engine = open(&db);
    let memory = memory(&engine, limits(6, 1.0, 1));
    assert_eq!(ids(&memory.blocking().messages().unwrap()), ["3"]);
    let report = memory.blocking().put(vec![assistant("4", "h"), user("5", "i j k l")]).unwrap();
    assert_eq!(report.flushed, [["3", "4"]]);
}

#[test]
fn memories_of_one_session_share_its_buffer() {
    let db = Db::new();
    let engine = open(&db);
    let (one, two) = (memory(&engine, BufferLimits::default()), memory(&engine, limits(4, 1.0, 1)));
    one.blocking().put(vec![user("1", "a b c")]).unwrap();
    assert_eq!(ids(&two.blocking().messages().unwrap()), ["1"]);
    two.blocking().put(vec![user("2", "d e f")]).unwrap();
    assert_eq!(ids(&one.blocking().messages().unwrap()), ["2"]);
    // Changed behind their backs.
    engine.blocking().put(&namespace("a"), vec![user("2", "changed").in_session("s")]).unwrap();
    assert_eq!(one.blocking().messages().unwrap()[0].text(), "changed");
    engine.blocking().delete(&namespace("a"), vec!["2".into()]).unwrap();
    assert_eq!(one.blocking().messages().unwrap(), []);
    drop((one, two, engine));
    db.assert_sound();
}

#[test]
fn updates_replace_and_remove() {
    let db = Db::new();
    let engine = open(&db);
    let memory = memory(&engine, limits(4, 1.0, 1));
    let texts = || memory.blocking().history().unwrap().iter().map(Message::text).collect::<Vec<_>>();
    memory.blocking().put(vec![user("1", "a b"), assistant("2", "c"), user("3", "d e")]).unwrap();
    assert_eq!(ids(&memory.blocking().messages().unwrap()), ["3"]);
    // In the buffer and in long-term memory alike.
    let updates = vec![
        MessageUpdate::Put(user("1", "A B")),
        MessageUpdate::Put(user("3", "D")),
        MessageUpdate::Remove("2".into()),
    ];
    let report = memory.blocking().update(updates).unwrap();
    assert_eq!((report.replaced, report.new), (2, 0));
    assert_eq!(texts(), ["A B", "D"]);
    assert_eq!(ids(&memory.blocking().messages().unwrap()), ["3"]);
    // Removed and put again in one update: replaced in its place.
    memory.blocking().update(vec![MessageUpdate::Remove("1".into()), MessageUpdate::Put(user("1", "again"))]).unwrap();
    assert_eq!(texts(), ["again", "D"]);
    // New, and gone again.
    memory.blocking().update(vec![MessageUpdate::Put(user("9", "x")), MessageUpdate::Remove("9".into())]).unwrap();
    assert_eq!(texts(), ["again", "D"]);
    for unknown in ["2", "nobody"] {
        let error =
            memory.blocking().update(vec![MessageUpdate::Put(user("8", "x")), MessageUpdate::Remove(unknown.into())]);
        assert!(matches!(error, Err(Error::InvalidMessage { .. })));
        assert_eq!(texts(), ["again", "D"], "all or nothing");
    }
    // Long-term memory stays.
    memory.blocking().update(vec![MessageUpdate::RemoveAll, MessageUpdate::Put(user("4", "new"))]).unwrap();
    assert_eq!(texts(), ["again", "new"]);
    memory.blocking().settle().unwrap();
    drop((memory, engine));
    db.assert_sound();
}

#[test]
fn flush_takes_the_whole_conversation() {
    let db = Db::new();
    let engine = open(&db);
    let memory = engine.memory(&namespace("a"), "s").block(Recorder::new("r")).open().unwrap();
    memory
        .blocking()
        .put(vec![system("0", "be kind"), user("1", "my boat is Marigold"), assistant("2", "nice")])
        .unwrap();
    assert_eq!(memory.blocking().flush().unwrap(), ["1", "2"]);
    assert_eq!(memory.blocking().flush().unwrap(), [""; 0]);
    memory.blocking().settle().unwrap();
    assert_eq!(recorded(&memory, "r"), [["1", "2"]]);
    assert_eq!(ids(&memory.blocking().messages().unwrap()), ["0"]);
    let other = engine.memory(&namespace("a"), "t").open().unwrap();
    let prompt = other.blocking().assemble(user("q", "what is my boat")).unwrap();
    assert!(prompt.messages[0].text().contains("Marigold"));
}

#[test]
fn bad_input_has_a_defined_outcome() {
    let db = Db::new();
    let engine = open(&db);
    let memory = memory(&engine, limits(5, 1.0, 5));
    let put = |messages| memory.blocking().put(messages);
    // Of an id that is given twice, the last counts.
    let report = put(vec![user("1", "first"), user("1", "second")]).unwrap();
    assert_eq!((report.new, report.replaced), (1, 1));
    assert_eq!(memory.blocking().messages().unwrap()[0].text(), "second");
    // A message over the whole limit: kept, as the last turn is; get says that it is too long.
    put(vec![user("2", "one two three four five six seven")]).unwrap();
    assert_eq!(ids(&memory.blocking().messages().unwrap()), ["2"]);
    let prompt = memory.blocking().get(None).unwrap();
    assert_eq!(prompt.over.unwrap().tokens, 2);
    // A tool result without its call: stored, flushed in due course, in no prompt.
    put(vec![result("3", "nobody")]).unwrap();
    let prompt = memory.blocking().get(None).unwrap();
    assert_eq!((ids(&prompt.messages), prompt.left_out), (vec!["2"], vec!["3".to_owned()]));
    assert_eq!(ids(&memory.blocking().messages().unwrap()), ["2", "3"]);
    // A call that is never answered, once the user has gone on: the same.
    let roomy = engine.memory(&namespace("a"), "roomy").open().unwrap();
    roomy.blocking().put(vec![user("b", "go"), call("c", "x"), user("on", "well"), call("d", "y")]).unwrap();
    let prompt = roomy.blocking().get(None).unwrap();
    assert_eq!((ids(&prompt.messages), prompt.left_out), (vec!["b", "on", "d"], vec!["c".to_owned()]));
    drop(roomy);
    // An id of another session, whatever is in it.
    engine.blocking().put(&namespace("a"), vec![user("theirs", "text").in_session("t")]).unwrap();
    for text in ["mine now", "text"] {
        let error = put(vec![user("4", "x"), user("theirs", text)]).unwrap_err();
        assert!(matches!(error, Error::InvalidMessage { .. }), "{error}");
    }
    assert_eq!(engine.blocking().get(&namespace("a"), "theirs").unwrap().unwrap().session, "t");
    assert!(engine.blocking().get(&namespace("a"), "4").unwrap().is_none(), "all or nothing");
    // Nothing at all.
    assert_eq!(put(vec![]).unwrap(), MemoryReport::default());
    assert!(matches!(put(vec![user("", "x")]), Err(Error::InvalidMessage { .. })));
    let builder = || engine.memory(&namespace("a"), "s");
    assert!(matches!(engine.memory(&namespace("a"), "").open(), Err(Error::InvalidMessage { .. })));
    let mut zero = BufferLimits::default();
    zero.token_limit = 0;
    assert!(matches!(builder().limits(zero).open(), Err(Error::InvalidConfig { .. })));
    for name in ["", "a b", "1st", "</x>", "é"] {
        let block = mnemon::StaticBlock::new(name, "text");
        assert!(matches!(builder().block(block).open(), Err(Error::InvalidConfig { .. })), "{name}");
    }
    let twice = builder().block(mnemon::StaticBlock::new("x", "1")).block(mnemon::StaticBlock::new("x", "2")).open();
    assert!(matches!(twice, Err(Error::InvalidConfig { .. })));
    drop((memory, engine, twice));
    db.assert_sound();
}

#[test]
fn tasks_that_put_at_once_lose_nothing() {
    let db = Db::new();
    let engine = open(&db);
    let memory = memory(&engine, limits(40, 0.5, 10));
    let flushed = Arc::new(Mutex::new(Vec::new()));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    runtime.block_on(async {
        let tasks: Vec<_> = (0..8)
            .map(|task| {
                let (memory, flushed) = (memory.clone(), Arc::clone(&flushed));
                tokio::spawn(async move {
                    for i in 0..20 {
                        let turn = vec![
                            user(&format!("{task}/{i}/u"), "one two three"),
                            assistant(&format!("{task}/{i}/a"), "four five"),
                        ];
                        let report = memory.put(turn).await.unwrap();
                        flushed.lock().unwrap().extend(report.flushed.concat());
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
    });
    let history = memory.blocking().history().unwrap();
    let left = memory.blocking().messages().unwrap();
    assert_eq!(history.len(), 320);
    let mut seen = flushed.lock().unwrap().clone();
    seen.extend(left.iter().map(|message| message.id.clone()));
    seen.sort();
    let mut all: Vec<String> = history.into_iter().map(|message| message.id).collect();
    all.sort();
    assert_eq!(seen, all, "each is flushed once, or in the buffer");
    assert!(left.iter().map(|message| message.text().split(' ').count()).sum::<usize>() <= 20);
    drop((memory, engine));
    db.assert_sound();
}

/// Whatever is put, in whatever portions, through whatever limits, with a restart in between: nothing is lost or
/// doubled, batches follow one another, each block has each batch once, and what is left is a history that a model
/// takes.
fn check_buffer(
    list: Vec<Message>,
    portions: Vec<usize>,
    limits: BufferLimits,
    restart: usize,
) -> Result<(), TestCaseError> {
    let db = Db::new();
    let block = Arc::new(Recorder::failing("recorder", 2, true));
    let begin = || {
        let engine = open(&db);
        let memory = engine.memory(&namespace("a"), "s").limits(limits).message_counter(words());
        (memory.block(Arc::clone(&block)).open().unwrap(), engine)
    };
    let (mut memory, mut engine) = begin();
    let (mut put, mut flushed): (Vec<String>, Vec<String>) = Default::default();
    let mut batches: Vec<Vec<String>> = Vec::new();
    let mut waiting = list.iter().filter(|message| message.check().is_ok()).cloned();
    let mut portions = portions.into_iter().cycle();
    let leading_systems = list.iter().take_while(|message| message.role == Role::System).count();
    for step in 0.. {
        let portion: Vec<Message> = waiting.by_ref().take(portions.next().unwrap()).collect();
        if portion.is_empty() {
            break;
        }
        put.extend(portion.iter().map(|message| message.id.clone()));
        let report = memory.blocking().put(portion).unwrap();
        flushed.extend(report.flushed.concat());
        batches.extend(report.flushed);

        let left = memory.blocking().messages().unwrap();
        let mut all = flushed.clone();
        all.extend(left.iter().map(|message| message.id.clone()));
        let mut sorted = (all.clone(), put.clone());
        sorted.0.sort();
        sorted.1.sort();
        prop_assert_eq!(sorted.0, sorted.1);
        let systems = left.iter().take_while(|message| message.role == Role::System).count();
        prop_assert!(systems >= leading_systems.min(put.len()), "the system prompt stays");
        if !flushed.is_empty() {
            prop_assert_eq!(left[systems].role, Role::User);
        }
        let prompt = memory.blocking().get(None).unwrap();
        for (at, message) in prompt.messages.iter().enumerate() {
            for part in &message.content {
                if let ContentPart::ToolResult { id, .. } = part {
                    let calls = |m: &Message| {
                        m.content.iter().any(|p| matches!(p, ContentPart::ToolCall { id: i, .. } if i == id))
                    };
                    prop_assert!(prompt.messages[..at].iter().any(calls), "an orphan in a prompt");
                }
            }
        }
        let cost: usize = left.iter().map(|message| mnemon::MessageTokenCounter::count(&words(), message)).sum();
        let another = (systems + 1..left.len()).any(|cut| left[cut].role == Role::User && !splits_a_call(&left, cut));
        prop_assert!(cost <= limits.budget() || !another, "{} of {} left", cost, limits.budget());
        if step == restart {
            drop((memory, engine));
            (memory, engine) = begin();
            prop_assert_eq!(memory.blocking().messages().unwrap(), left);
        }
    }
    memory.blocking().history().unwrap().iter().zip(&put).for_each(|(message, id)| assert_eq!(message.id, *id));
    // Settling says that a block failed; then it is tried again.
    while memory.blocking().settle().is_err() {}
    prop_assert_eq!(recorded(&memory, "recorder"), batches);
    drop((memory, engine));
    let report = mnemon::verify(&db.path).unwrap();
    prop_assert_eq!(report.problems, [""; 0]);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(
        std::env::var("MNEMON_MEMORY_CASES").map_or(40, |cases| cases.parse().unwrap())
    ))]

    #[test]
    fn a_buffer_stays_valid_after_any_puts(
        list in conversation(),
        portions in proptest::collection::vec(1usize..5, 1..4),
        limit in 4usize..60,
        ratio in 0.2f64..1.0,
        size in 1usize..30,
        restart in 0usize..10,
    ) {
        check_buffer(list, portions, limits(limit, ratio, size.min(limit)), restart)?;
    }
}

#[test]
fn the_file_is_closed_after_a_cancelled_call() {
    use std::{
        future::Future,
        task::{Context, Waker},
    };
    let db = Db::new();
    let (engine, gate) = gated(&db);
    engine.blocking().put(&namespace("a"), vec![user("1", "x")]).unwrap();
    let closed = gate.gate.lock().unwrap();
    {
        let space = namespace("a");
        let mut f = Box::pin(engine.recall(&space, Query::new("GATE")));
        let _ = f.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        while gate.entered.load(Ordering::SeqCst) == 0 {
            std::thread::yield_now()
        }
    }
    let (t, gate2) = (std::thread::spawn(move || drop(engine)), Arc::clone(&gate));
    std::thread::sleep(Duration::from_millis(200));
    let returned = t.is_finished();
    let locked = db.try_open_with(Arc::new(Hashing::new(32))).err().map(|e| e.to_string());
    drop(closed);
    drop(gate2);
    assert!(!(returned && locked.is_some()), "drop returned, but: {locked:?}");
}

#[test]
fn a_flush_goes_on_when_its_put_is_cancelled() {
    use std::{
        future::Future,
        task::{Context, Waker},
    };
    let db = Db::new();
    let engine = open(&db);
    let gate = Arc::new(Mutex::new(()));
    let entered = Arc::new(AtomicUsize::new(0));
    let (g, e) = (gate.clone(), entered.clone());
    let count = move |m: &Message| {
        if m.text().contains("GATE") {
            e.fetch_add(1, Ordering::SeqCst);
            drop(g.lock().unwrap());
        }
        m.text().split_whitespace().count()
    };
    let memory = engine
        .memory(&namespace("a"), "s")
        .limits(limits(3, 1.0, 1))
        .message_counter(count)
        .block(Recorder::new("r"))
        .open()
        .unwrap();
    let closed = gate.lock().unwrap();
    let other = memory.clone();
    let mut cx = Context::from_waker(Waker::noop());
    {
        let mut f = Box::pin(memory.put(vec![user("1", "GATE two three"), user("2", "one two three")]));
        while entered.load(Ordering::SeqCst) == 0 {
            let _ = f.as_mut().poll(&mut cx);
        }
        let report = other.blocking().put(vec![user("3", "one two three")]).unwrap();
        assert_eq!(report.flushed.len(), 0);
    }
    drop(closed);
    std::thread::sleep(Duration::from_millis(500));
    memory.blocking().settle().unwrap();
    assert_eq!(ids(&memory.blocking().messages().unwrap()), ["3"]);
}

#[test]
fn an_id_of_another_session_is_an_error() {
    let db = Db::new();
    let engine = open(&db);
    for s in ["s", "t"] {
        let memory = engine.memory(&namespace("a"), s).open().unwrap();
        let put = memory.blocking().put(vec![user("1", "hello")]);
        assert_eq!(put.is_ok(), s == "s", "an id is one message's; never a silent nothing");
        assert_eq!(memory.blocking().history().unwrap().len(), usize::from(s == "s"));
    }
}

#[test]
fn an_unknown_removal_is_an_error_whatever_follows() {
    let db = Db::new();
    let engine = open(&db);
    let memory = memory(&engine, BufferLimits::default());
    let up = || vec![MessageUpdate::Remove("x".into()), MessageUpdate::Put(user("x", "hello"))];
    assert_eq!(mnemon::add_messages(vec![], up()).is_ok(), memory.blocking().update(up()).is_ok());
}

#[test]
fn a_messages_session_is_set_before_it_is_checked() {
    let db = Db::new();
    let engine = open(&db);
    let memory = memory(&engine, BufferLimits::default());
    memory.blocking().put(vec![user("x", "hello").in_session("")]).unwrap();
}

/// Metadata have no tokens: a buffer is bounded in bytes too. Whole turns leave it, and the last one as well if that alone is larger.
#[test]
fn a_buffer_of_long_metadata_is_flushed() {
    let db = Db::new();
    let engine = open(&db);
    let memory = memory(&engine, BufferLimits::default());
    let long = |mut message: Message| {
        message.metadata.insert("long".to_owned(), "y".repeat(1 << 20).into());
        message
    };
    let put = |messages: Vec<Message>| memory.blocking().put(messages.into_iter().map(long).collect()).unwrap();
    let mut flushed = 0;
    for turn in 0..20 {
        let report = put(vec![user(&format!("u{turn}"), "a b"), assistant(&format!("a{turn}"), "c")]);
        assert!(report.flushed.iter().all(|batch| batch[0].starts_with('u') && batch.len() % 2 == 0), "{report:?}");
        flushed += report.flushed.concat().len();
        let buffered = memory.blocking().messages().unwrap().len();
        assert!(buffered <= 16 && buffered + flushed == 2 * (turn + 1), "{buffered} {flushed}");
    }
    let shown = memory.blocking().get(None).unwrap().messages.len();
    assert!((2..=16).contains(&shown), "{shown}");
    // What left by its bytes does not come back with a flush, nor after an opening.
    memory.blocking().flush().unwrap();
    let shown = memory.blocking().get(None).unwrap().messages.len();
    assert!(shown <= 16, "{shown}");
    let steps = (0..20).map(|at| assistant(&format!("s{at}"), "d"));
    assert_eq!(put([user("last", "e")].into_iter().chain(steps).collect()).flushed.concat().len(), 21);
    assert_eq!(memory.blocking().messages().unwrap(), []);
    assert_eq!(memory.blocking().history().unwrap().len(), 61);
    drop((memory, engine));
    db.assert_sound();
}
