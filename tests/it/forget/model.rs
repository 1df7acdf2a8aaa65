//! Random puts, edits, flushes, checkpoints and forgets against a model of what may still be shown.

use std::collections::{BTreeMap, BTreeSet};

use mnemon::{Engine, Forget, Memory, Message, MessageUpdate, MetadataFilter, Query};
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::{
    memory::{Recorder, limits},
    support::{Db, words},
};

#[derive(Clone, Debug)]
enum Step {
    Put(usize, u8),
    Edit(u8),
    Delete(u8),
    Flush,
    Checkpoint(usize),
    Restore(usize),
    Forget(Vec<u8>),
    ForgetMarked(u8),
    ForgetSession(usize),
    ForgetAll,
    Reopen,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (0usize..2, any::<u8>()).prop_map(|(session, mark)| Step::Put(session, mark % 3)),
        2 => any::<u8>().prop_map(Step::Edit),
        1 => any::<u8>().prop_map(Step::Delete),
        2 => Just(Step::Flush),
        1 => (0usize..2).prop_map(Step::Checkpoint),
        1 => (0usize..2).prop_map(Step::Restore),
        2 => prop::collection::vec(any::<u8>(), 1..4).prop_map(Step::Forget),
        1 => (0u8..3).prop_map(Step::ForgetMarked),
        1 => (0usize..2).prop_map(Step::ForgetSession),
        1 => Just(Step::ForgetAll),
        1 => Just(Step::Reopen),
    ]
}

const SESSIONS: [&str; 2] = ["one", "two"];

fn memory(engine: &Engine, session: usize) -> Memory {
    let memory = engine.memory(&space(), SESSIONS[session]).limits(limits(4, 1.0, 1)).message_counter(words());
    memory.block(Recorder::new("recorder")).open().unwrap()
}

/// The messages that must be found, and what must not be shown.
#[derive(Default)]
struct Model {
    live: BTreeSet<String>,
    /// All messages that were put and not forgotten: session, mark, and the words of all versions. A checkpoint may
    /// have one that is not live.
    known: BTreeMap<String, (usize, u8, BTreeSet<String>)>,
    /// Words and ids. Not those of messages that were deleted before: a block may have them, and nothing says so.
    forgotten: BTreeSet<String>,
    count: u32,
}

impl Model {
    fn word(&mut self) -> String {
        self.count += 1;
        format!("word{}.", self.count)
    }

    fn nth(&self, at: u8) -> Option<String> {
        self.known.keys().nth(usize::from(at) % self.known.len().max(1)).cloned()
    }

    fn forget(&mut self, id: &str) {
        let is_live = self.live.remove(id);
        if let Some((.., words)) = self.known.remove(id).filter(|_| is_live) {
            self.forgotten.extend(words);
            self.forgotten.insert(format!("<{id}>"));
        }
    }
}

fn message(id: &str, word: &str, mark: u8) -> Message {
    let mut message = Message::user(format!("{word} here")).with_id(format!("<{id}>"));
    message.metadata.insert("mark".into(), json!(mark));
    message
}

/// Everything that can be read, as text.
fn shown(engine: &Engine) -> String {
    let blocking = engine.blocking();
    let mut export = Vec::new();
    blocking.export_all(&mut export).unwrap();
    let mut text = String::from_utf8(export).unwrap();
    text += &format!("{:?}", blocking.recall(&space(), Query::new("here").k(1000).keep_duplicates()).unwrap().to_vec());
    let sessions = blocking.sessions(&space()).unwrap();
    for (number, name) in SESSIONS.iter().enumerate() {
        if sessions.iter().all(|info| info.session != *name) {
            continue;
        }
        let memory = memory(engine, number);
        let memory = memory.blocking();
        text += &format!("{:?}{:?}", memory.history().unwrap(), memory.messages().unwrap());
        text += &memory.block_state("recorder").unwrap().to_string();
        text += &format!("{:?}", memory.get(None).unwrap());
        for checkpoint in memory.checkpoints().unwrap() {
            let messages = memory.messages_at(checkpoint.number).unwrap();
            assert_eq!(messages.len() as u64, checkpoint.messages);
            text += &format!("{messages:?}");
        }
    }
    text
}

fn run(steps: Vec<Step>) {
    let db = Db::new();
    let mut engine = db.open();
    let mut model = Model::default();
    for step in steps {
        match step.clone() {
            Step::Put(session, mark) => {
                let (id, word) = (format!("id{}", model.count), model.word());
                memory(&engine, session).blocking().put(vec![message(&id, &word, mark)]).unwrap();
                model.live.insert(id.clone());
                model.known.insert(id, (session, mark, BTreeSet::from([word])));
            }
            Step::Edit(at) => {
                let Some(id) = model.nth(at).filter(|id| model.live.contains(id)) else { continue };
                let word = model.word();
                let (session, mark, _) = model.known[&id];
                let edited = message(&id, &word, mark);
                memory(&engine, session).blocking().update(vec![MessageUpdate::Put(edited)]).unwrap();
                model.known.get_mut(&id).unwrap().2.insert(word);
            }
            Step::Delete(at) => {
                let Some(id) = model.nth(at) else { continue };
                engine.blocking().delete(&space(), vec![format!("<{id}>")]).unwrap();
                model.live.remove(&id);
            }
            Step::Flush => drop(engine.blocking().flush().unwrap()),
            Step::Checkpoint(session) => drop(memory(&engine, session).blocking().checkpoint("")),
            Step::Restore(session) => {
                let memory = memory(&engine, session);
                if memory.blocking().checkpoints().is_ok_and(|all| !all.is_empty()) {
                    memory.blocking().restore(0).unwrap();
                    let ids: BTreeSet<String> =
                        memory.blocking().history().unwrap().iter().map(|message| message.id.clone()).collect();
                    for (id, _) in model.known.iter().filter(|(_, (of, ..))| *of == session) {
                        match ids.contains(&format!("<{id}>")) {
                            true => model.live.insert(id.clone()),
                            false => model.live.remove(id),
                        };
                    }
                }
            }
            Step::Forget(some) => {
                let ids: BTreeSet<String> = some.iter().filter_map(|at| model.nth(*at)).collect();
                forget(&engine, Forget::messages(&space(), ids.iter().map(|id| format!("<{id}>"))));
                ids.iter().for_each(|id| model.forget(id));
            }
            Step::ForgetMarked(mark) => {
                forget(&engine, Forget::matching(&space(), MetadataFilter::eq("mark", mark).unwrap()));
                let ids: Vec<String> = model.live.iter().filter(|id| model.known[*id].1 == mark).cloned().collect();
                ids.iter().for_each(|id| model.forget(id));
            }
            Step::ForgetSession(session) => {
                forget(&engine, Forget::session(&space(), SESSIONS[session]));
                let known = model.known.iter().filter(|(_, (of, ..))| *of == session);
                let ids: Vec<String> = known.map(|(id, _)| id.clone()).collect();
                ids.iter().for_each(|id| model.forget(id));
            }
            Step::ForgetAll => {
                forget(&engine, Forget::namespace(&space()));
                let ids: Vec<String> = model.known.keys().cloned().collect();
                ids.iter().for_each(|id| model.forget(id));
            }
            Step::Reopen => {
                drop(engine);
                engine = db.open();
            }
        }
        let shown = shown(&engine);
        for gone in &model.forgotten {
            assert!(!shown.contains(gone.as_str()), "{gone:?} is shown after {step:?}: {shown}");
        }
        for id in &model.live {
            let found = engine.blocking().get(&space(), &format!("<{id}>")).unwrap();
            assert!(found.is_some_and(|found| found.session == SESSIONS[model.known[id].0]), "{id} after {step:?}");
        }
    }
    assert!(engine.blocking().audit().unwrap().is_sound());
    drop(engine);
    db.assert_sound();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn forgotten_messages_are_never_shown_and_all_others_are(steps in prop::collection::vec(step(), 1..40)) {
        run(steps);
    }
}
