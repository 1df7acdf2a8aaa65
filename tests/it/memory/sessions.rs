//! Whole sessions: listed, copied, deleted; checkpoints.

use mnemon::{EngineHistory, HistoryStore, Hits, MessageUpdate, Query, check_history_store};
use proptest::prelude::*;

use super::*;

#[test]
fn sessions_and_their_messages_are_read_in_pages() {
    let db = Db::new();
    let engine = open(&db);
    let (space, blocking) = (namespace("a"), engine.blocking());
    for session in ["one", "one more", "two"] {
        let said = |number: usize| user(&format!("{session} {number}"), "red bike").in_session(session);
        blocking.put(&space, (0..5).map(said).collect()).unwrap();
    }
    let mut expired = user("gone", "red bike").in_session("one");
    expired.expires_at = Some(mnemon::Timestamp::from_micros(1).unwrap());
    blocking.put(&space, vec![expired]).unwrap();

    let all = blocking.history(&space, "one").unwrap();
    let page = |before: Option<&str>, limit| blocking.history_page(&space, "one", before, limit).unwrap();
    assert_eq!(page(None, 2), all[3..]);
    assert_eq!(page(Some("one 3"), 2), all[1..3]);
    assert_eq!((page(Some("one 1"), 2), page(Some("one 0"), 2), page(None, 0)), (all[..1].to_vec(), vec![], vec![]));
    assert_eq!(page(None, usize::MAX), all);
    for unknown in ["nobody's", "two 1", "gone"] {
        let error = blocking.history_page(&space, "one", Some(unknown), 2).unwrap_err();
        assert!(matches!(&error, Error::InvalidQuery { .. }) && error.to_string().contains(unknown), "{error}");
    }

    let sessions = blocking.sessions(&space).unwrap();
    let page = |after, limit| blocking.session_page(&space, after, limit).unwrap();
    assert_eq!((page(None, 2), page(Some("one"), 9)), (sessions[..2].to_vec(), sessions[1..].to_vec()));
    assert_eq!((page(Some("onf"), 1), page(Some("two"), 1), page(None, 0)), (sessions[2..].to_vec(), vec![], vec![]));
}

#[test]
fn sessions_are_listed_copied_and_deleted() {
    let db = Db::new();
    let engine = open(&db);
    let space = namespace("a");
    let blocking = engine.blocking();
    let open = |session: &str| {
        let memory = engine.memory(&space, session).limits(limits(4, 1.0, 1)).message_counter(words());
        memory.block(Recorder::new("r")).open().unwrap()
    };
    let memory = open("one");
    assert_eq!(blocking.sessions(&space).unwrap(), []);
    memory
        .blocking()
        .put(vec![user("1", "red bike here"), user("2", "green boat there"), user("3", "blue kite")])
        .unwrap();
    memory.blocking().settle().unwrap();
    let infos = blocking.sessions(&space).unwrap();
    assert_eq!((infos.len(), infos[0].messages, infos[0].buffered, infos[0].batches), (1, 3, 1, 2));

    assert_eq!(blocking.copy_session(&space, "one", "two").unwrap(), 3);
    let copy = open("two");
    let texts = |memory: &Memory| memory.blocking().history().unwrap().iter().map(Message::text).collect::<Vec<_>>();
    assert_eq!(texts(&copy), texts(&memory));
    assert_eq!(copy.blocking().messages().unwrap()[0].text(), "blue kite");
    assert_eq!(copy.blocking().block_state("r").unwrap(), memory.blocking().block_state("r").unwrap());
    copy.blocking().settle().unwrap();
    assert_eq!(recorded(&copy, "r").len(), 2, "what the copy's block has is not given to it again");
    assert!(matches!(blocking.copy_session(&space, "one", "two"), Err(Error::SessionExists { .. })));
    assert!(matches!(blocking.copy_session(&space, "none", "three"), Err(Error::SessionNotFound { .. })));

    blocking.delete_session(&space, "one").unwrap();
    assert!(matches!(blocking.delete_session(&space, "one"), Err(Error::SessionNotFound { .. })));
    assert_eq!(texts(&memory), [""; 0]);
    assert_eq!(memory.blocking().messages().unwrap(), []);
    assert_eq!(memory.blocking().block_state("r").unwrap(), Value::Null, "what was made of it is gone");
    let hits = blocking.recall(&space, Query::new("red bike here")).unwrap();
    assert!(hits.iter().all(|hit| hit.message.session == "two") && hits.len() == 2, "and its vectors, but no other's");
    assert_eq!(blocking.history_page(&space, "one", None, 9).unwrap(), []);
    // The memory goes on, with a new session.
    memory.blocking().put(vec![user("1", "again")]).unwrap();
    assert_eq!(texts(&memory), ["again"]);
    assert_eq!(blocking.delete_namespace(&space).unwrap(), 4);
    assert_eq!(blocking.sessions(&space).unwrap(), []);
    assert_eq!(blocking.recall(&space, Query::new("red bike")).unwrap(), Hits::default());
    assert_eq!(blocking.delete(&space, vec!["1".into()]).unwrap(), 0);
    assert_eq!(blocking.delete(&namespace("none"), vec!["1".into()]).unwrap(), 0);
    drop((memory, copy));
    drop(engine);
    let report = db.assert_sound();
    assert_eq!((report.messages, report.vectors, report.pending), (0, 0, 0));
    let engine = super::open(&db);
    engine.memory(&space, "s").open().unwrap().blocking().put(vec![user("1", "here")]).unwrap();
    drop(engine);
    assert_eq!(mnemon::stats(&db.path).unwrap().namespaces[0].buffered, 1);
}

/// Those that stay are what they were, and what only older ones needed is gone.
#[test]
fn the_last_checkpoints_are_kept() {
    let db = Db::new();
    let engine = open(&db);
    let open =
        |session: &str| engine.memory(&namespace("a"), session).message_counter(words()).checkpoint_each_put(true);
    let (all, kept) = (open("all").open().unwrap(), open("kept").keep_checkpoints(3).open().unwrap());
    for number in 0..30 {
        for (memory, session) in [(&all, "all"), (&kept, "kept")] {
            let id = |name: &str| format!("{session} {name}");
            let text = format!("version {number}");
            memory.blocking().put(vec![user(&id("edited"), &text), user(&id(&format!("m{number}")), &text)]).unwrap();
            if number % 4 == 3 {
                let old = MessageUpdate::Remove(id(&format!("m{}", number - 2)));
                memory.blocking().update(vec![old]).unwrap();
            }
        }
    }
    let (whole, few) = (all.blocking().checkpoints().unwrap(), kept.blocking().checkpoints().unwrap());
    assert_eq!(few.len(), 3);
    let texts = |messages: Vec<Message>| messages.iter().map(Message::text).collect::<Vec<_>>();
    for (one, other) in whole[whole.len() - 3..].iter().zip(&few) {
        assert_eq!((one.number, one.messages), (other.number, other.messages));
        let [one, other] =
            [(&all, one), (&kept, other)].map(|(memory, at)| texts(memory.blocking().messages_at(at.number).unwrap()));
        assert_eq!(one, other);
    }
    let gone = kept.blocking().restore(0);
    assert!(matches!(gone, Err(Error::CheckpointNotFound { .. })));
    kept.blocking().restore(few[0].number).unwrap();
    assert_eq!(texts(kept.blocking().history().unwrap()), texts(all.blocking().messages_at(few[0].number).unwrap()));

    // The newest stays, whatever its age, and with both limits one stays if either keeps it.
    let aged = open("aged").keep_checkpoints_within(std::time::Duration::ZERO).open().unwrap();
    let either = open("either")
        .keep_checkpoints_within(std::time::Duration::from_secs(3600))
        .keep_checkpoints(1)
        .open()
        .unwrap();
    for number in 0..5 {
        for (memory, session) in [(&aged, "aged"), (&either, "either")] {
            memory.blocking().put(vec![user(&format!("{session} {number}"), "a text")]).unwrap();
        }
    }
    assert_eq!(aged.blocking().checkpoints().unwrap().len(), 1);
    assert_eq!(either.blocking().checkpoints().unwrap().len(), 5);
    drop((all, kept, aged, either, engine));
    db.assert_sound();
}

#[test]
fn checkpoints_are_listed_restored_and_forked() {
    let db = Db::new();
    let engine = open(&db);
    let space = namespace("a");
    let memory = engine.memory(&space, "s").limits(limits(4, 1.0, 1)).message_counter(words());
    let memory = memory.block(Recorder::new("r")).checkpoint_each_put(true).open().unwrap();
    let texts = |memory: &Memory| memory.blocking().history().unwrap().iter().map(Message::text).collect::<Vec<_>>();
    assert!(matches!(memory.blocking().checkpoint("early"), Err(Error::SessionNotFound { .. })));
    memory.blocking().put(vec![user("1", "one two"), user("2", "three four")]).unwrap();
    memory.blocking().put(vec![user("3", "five six")]).unwrap();
    memory.blocking().settle().unwrap();
    let third = memory.blocking().checkpoint("before the change").unwrap();
    memory.blocking().update(vec![MessageUpdate::Put(user("2", "THREE")), MessageUpdate::Remove("1".into())]).unwrap();
    memory.blocking().put(vec![user("4", "seven eight"), user("5", "nine ten")]).unwrap();
    memory.blocking().settle().unwrap();
    assert_eq!(texts(&memory), ["THREE", "five six", "seven eight", "nine ten"]);
    let checkpoints = memory.blocking().checkpoints().unwrap();
    assert_eq!(checkpoints.iter().map(|checkpoint| checkpoint.number).collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
    assert_eq!((checkpoints[2].label.as_str(), checkpoints[2].messages), ("before the change", 3));

    // A fork is the past; what it came from stays.
    memory.blocking().fork(Some(third), "fork").unwrap();
    let fork =
        engine.memory(&space, "fork").limits(limits(4, 1.0, 1)).message_counter(words()).block(Recorder::new("r"));
    let fork = fork.open().unwrap();
    assert_eq!(texts(&fork), ["one two", "three four", "five six"]);
    assert_eq!(texts(&memory).len(), 4);
    assert_eq!(recorded(&fork, "r"), [["1"]]);

    memory.blocking().restore(third).unwrap();
    assert_eq!(texts(&memory), ["one two", "three four", "five six"]);
    assert_eq!(ids(&memory.blocking().messages().unwrap()), ["2", "3"]);
    assert_eq!(recorded(&memory, "r"), [["1"]]);
    assert_eq!(memory.blocking().checkpoints().unwrap().len(), 3);
    memory.blocking().restore(0).unwrap();
    assert_eq!(texts(&memory), ["one two", "three four"]);
    assert!(matches!(memory.blocking().restore(2), Err(Error::CheckpointNotFound { .. })));
    assert!(matches!(memory.blocking().messages_at(2), Err(Error::CheckpointNotFound { .. })));
    assert!(matches!(memory.blocking().fork(Some(9), "x"), Err(Error::CheckpointNotFound { .. })));
    let nobody = engine.memory(&space, "nobody").open().unwrap();
    assert!(matches!(nobody.blocking().restore(0), Err(Error::SessionNotFound { .. })));
    assert!(matches!(nobody.blocking().fork(None, "x"), Err(Error::SessionNotFound { .. })));
    // And on from there.
    memory.blocking().put(vec![user("6", "other way")]).unwrap();
    memory.blocking().settle().unwrap();
    assert_eq!(texts(&memory), ["one two", "three four", "other way"]);
    drop((memory, fork, nobody));
    drop(engine);
    db.assert_sound();
}

#[test]
fn engine_history_passes_the_conformance_check() {
    let db = Db::new();
    let engine = open(&db);
    let number = std::cell::Cell::new(0);
    check_history_store(|| {
        number.set(number.get() + 1);
        Box::new(engine.history_store(&namespace(&format!("n{}", number.get()))))
    });
    // One id in two sessions is two memories.
    let store: EngineHistory = engine.history_store(&namespace("ids"));
    store.append("s", &[user("1", "red bike")]).unwrap();
    store.append("t", &[user("1", "green boat")]).unwrap();
    store.append("t", &[user("1", "green boats")]).unwrap();
    engine.blocking().flush().unwrap();
    let hits = engine.blocking().recall(&namespace("ids"), Query::new("green boats")).unwrap();
    assert_eq!(hits[0].message.text(), "green boats");
    assert_eq!((hits.len(), ids(&store.messages("t").unwrap())), (2, vec!["1"]));
    drop((store, engine));
    db.assert_sound();
}

/// A step of the model test.
#[derive(Clone, Debug)]
enum Step {
    Put(u8, String),
    Remove(u8),
    Checkpoint,
    Restore(u8),
    Fork(u8),
    Reopen,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (0u8..12, "[a-z]{1,3}( [a-z]{1,3}){0,3}").prop_map(|(id, text)| Step::Put(id, text)),
        2 => (0u8..12).prop_map(Step::Remove),
        3 => Just(Step::Checkpoint),
        1 => (0u8..6).prop_map(Step::Restore),
        1 => (0u8..6).prop_map(Step::Fork),
        1 => Just(Step::Reopen),
    ]
}

type State = (Vec<(String, String)>, Vec<String>, Value);

/// The ids of all messages, those in the buffer, and those that the block has taken.
fn state(memory: &Memory, named: bool) -> State {
    let text = |message: Message| {
        let text = message.text();
        (if named { message.id } else { String::new() }, text)
    };
    let history = memory.blocking().history().unwrap().into_iter().map(text).collect();
    let buffer = memory.blocking().messages().unwrap().iter().map(Message::text).collect();
    (history, buffer, memory.blocking().block_state("r").unwrap())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(
        std::env::var("MNEMON_MEMORY_CASES").map_or(30, |cases| cases.parse().unwrap())
    ))]

    /// Whatever happens between: each checkpoint gives back the session as it was, restored or forked.
    #[test]
    fn checkpoints_hold_the_session_as_it_was(steps in proptest::collection::vec(step(), 1..30)) {
        let db = Db::new();
        let begin = || {
            let engine = open(&db);
            let builder = engine.memory(&namespace("a"), "s").limits(limits(8, 1.0, 3)).message_counter(words());
            (builder.block(Recorder::new("r")).open().unwrap(), engine)
        };
        let (mut memory, mut engine) = begin();
        let mut saved: Vec<State> = Vec::new();
        let mut forks = 0;
        for step in steps {
            match step {
                Step::Put(id, text) => drop(memory.blocking().put(vec![user(&id.to_string(), &text)]).unwrap()),
                Step::Remove(id) => drop(memory.blocking().update(vec![MessageUpdate::Remove(id.to_string())])),
                Step::Checkpoint => {
                    memory.blocking().settle().unwrap();
                    if let Ok(number) = memory.blocking().checkpoint("") {
                        prop_assert_eq!(number as usize, saved.len());
                        saved.push(state(&memory, true));
                    }
                }
                Step::Restore(at) if (at as usize) < saved.len() => {
                    memory.blocking().settle().unwrap();
                    memory.blocking().restore(u32::from(at)).unwrap();
                    saved.truncate(usize::from(at) + 1);
                    prop_assert_eq!(&state(&memory, true), &saved[usize::from(at)]);
                }
                Step::Fork(at) if (at as usize) < saved.len() => {
                    forks += 1;
                    let name = format!("fork {forks}");
                    let fork = memory.blocking().fork(Some(u32::from(at)), name).unwrap();
                    fork.blocking().settle().unwrap();
                    let (mut history, buffer, block) = saved[usize::from(at)].clone();
                    let then = memory.blocking().messages_at(u32::from(at)).unwrap();
                    prop_assert_eq!(then.iter().map(|m| (m.id.clone(), m.text())).collect::<Vec<_>>(), history.clone());
                    history.iter_mut().for_each(|(id, _)| id.clear());
                    prop_assert_eq!(state(&fork, false), (history, buffer, block));
                }
                Step::Restore(_) | Step::Fork(_) => {}
                Step::Reopen => {
                    let before = (memory.blocking().settle().unwrap(), state(&memory, true));
                    drop((memory, engine));
                    (memory, engine) = begin();
                    prop_assert_eq!(((), state(&memory, true)), before);
                }
            }
        }
        memory.blocking().settle().unwrap();
        drop((memory, engine));
        let report = mnemon::verify(&db.path).unwrap();
        prop_assert_eq!(report.problems, [""; 0]);
    }
}

#[test]
fn metadata_keys_of_any_name_belong_to_the_user() {
    let db = Db::new();
    let engine = open(&db);
    let store = engine.history_store(&namespace("a"));
    let mut m = user("1", "hello");
    m.metadata.insert("mnemon.id".into(), json!("evil"));
    store.append("s", &[m.clone()]).unwrap();
    assert_eq!(store.messages("s").unwrap()[0].id, "1");
}
