//! Kills at random moments of two sessions of a memory: what was acknowledged is never lost, and each block takes a
//! batch once.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    rc::Rc,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use mnemon::{
    BlockContent, BlockQuery, BufferLimits, ContentPart, Engine, Error, FlushedBatch, Memory, MemoryBlock, Message,
    MessageUpdate, Query, Result, Role, Timestamp, add_messages,
};
use serde_json::{Value, json};

use crate::support::{
    Db, Hashing, below,
    killing::{acknowledged, child_arguments, kill_after, runs},
    namespace,
    random::delay,
    words,
};

/// Runs after which the conversations of [`a_memory_survives_kills`] begin anew: those before must stay as they are.
const RUNS_OF_A_SESSION: u64 = 8;

/// A step of a session.
enum Step {
    Update(Vec<MessageUpdate>),
    Flush,
    Checkpoint,
    Restore(u32),
}

/// Returns step `number` of run `run` for a session with these messages and this many checkpoints. No id is ever given
/// twice, the last message is never removed, and a conversation is flushed between turns alone: so the buffer begins
/// with a user message, after the system prompt.
fn step(session: &str, run: u64, number: u64, messages: &[Message], checkpoints: usize) -> Step {
    let mut state = (run << 32) | (number << 8) | u64::from(session.as_bytes()[0]);
    let mut below = |count: usize| below(&mut state, count);
    let time = Timestamp::from_micros((run * 1_000_000 + number) as i64).unwrap();
    let with_text = |role, id: String, words: usize| {
        let text = format!("message {id}{}", " word".repeat(words));
        Message::new(role, text).with_id(id).at(time).in_session(session)
    };
    let of_part = |role, id: String, part| Message { content: vec![part], ..with_text(role, id, 0) };
    let asks = |message: &Message| match message.content.as_slice() {
        [ContentPart::ToolCall { id, .. }] => Some(id.clone()),
        _ => None,
    };
    let told = |message: &Message| message.role == Role::Assistant && asks(message).is_none();
    // The user speaks next.
    let between = messages.last().is_some_and(told);

    let kind = if messages.is_empty() { 19 } else { below(20) };
    match kind {
        0 if between => return Step::Flush,
        1 => return Step::Checkpoint,
        2 if checkpoints > 0 => return Step::Restore((checkpoints - 1 - below(checkpoints.min(2))) as u32),
        _ => {}
    }
    let mut updates = Vec::new();
    // Something earlier is said otherwise, or not at all.
    if (3..8).contains(&kind) && messages.len() > 1 {
        let (changed, removed) = (below(messages.len() - 1), below(messages.len() - 1));
        let mut message = messages[changed].clone();
        let text = format!("changed by {session}/{run}/{number}");
        match &mut message.content[0] {
            ContentPart::Text { text: old } | ContentPart::ToolResult { content: old, .. } => *old = text,
            ContentPart::ToolCall { arguments, .. } => *arguments = json!({ "query": text }),
            _ => unreachable!("never put"),
        }
        updates.push(MessageUpdate::Put(message));
        if removed != changed && told(&messages[removed]) {
            updates.push(MessageUpdate::Remove(messages[removed].id.clone()));
        }
    }
    // What was put already is put again.
    if kind == 8 {
        updates.extend(messages.iter().rev().take(3).rev().cloned().map(MessageUpdate::Put));
    }
    // The conversation goes on: to the middle of a turn, or for several.
    if kind > 4 || updates.is_empty() {
        let mut last = messages.last().cloned();
        for part in 0.. {
            let id = format!("{session}/{run}/{number}/{part}");
            let next = match &last {
                None => with_text(Role::System, id, 1),
                Some(last) => match (last.role, asks(last)) {
                    (_, Some(call)) => {
                        let content = format!("message {id} found");
                        of_part(Role::Tool, id, ContentPart::ToolResult { id: call, content })
                    }
                    (Role::User | Role::Tool, None) if below(3) == 0 => {
                        let call = ContentPart::ToolCall {
                            id: format!("call {id}"),
                            name: "search".into(),
                            arguments: json!({}),
                        };
                        of_part(Role::Assistant, id, call)
                    }
                    (Role::User | Role::Tool, None) => with_text(Role::Assistant, id, below(4)),
                    (Role::System | Role::Assistant, None) => with_text(Role::User, id, below(6)),
                },
            };
            updates.push(MessageUpdate::Put(next.clone()));
            let begun = last.replace(next).is_some();
            if begun && below(3) == 0 {
                break;
            }
        }
    }
    Step::Update(updates)
}

/// The expected state of a session.
#[derive(Clone, Default)]
struct Talk {
    messages: Vec<Message>,
    /// The ids that were flushed, those removed since too.
    batches: Vec<Vec<String>>,
    checkpoints: Vec<Rc<Talk>>,
}

/// The state of a session that the public API shows.
#[derive(PartialEq)]
struct Seen {
    history: Vec<Message>,
    buffer: Vec<Message>,
    batches: usize,
    /// The number of messages of each checkpoint.
    checkpoints: Vec<usize>,
    at_the_last: Vec<Message>,
}

impl Talk {
    fn step(&self, session: &str, run: u64, number: u64) -> Step {
        step(session, run, number, &self.messages, self.checkpoints.len())
    }

    /// Returns the states after each commit of a step.
    fn after(&self, step: &Step) -> Vec<Talk> {
        let mut talk = self.clone();
        match step {
            Step::Update(updates) => talk.messages = add_messages(talk.messages, updates.clone()).unwrap(),
            Step::Flush => {
                let buffer = talk.buffer();
                let batch = ids(buffer.iter().skip_while(|message| message.role == Role::System));
                talk.batches.extend((!batch.is_empty()).then_some(batch));
                return vec![talk];
            }
            Step::Checkpoint => {
                talk.checkpoints.push(Rc::new(self.clone()));
                return vec![talk];
            }
            Step::Restore(number) => {
                let was = &self.checkpoints[*number as usize];
                talk = Talk::clone(was);
                talk.checkpoints.push(Rc::clone(was));
                return vec![talk];
            }
        }
        let mut commits = vec![talk];
        loop {
            let mut next = commits[commits.len() - 1].clone();
            let buffer = next.buffer();
            let flushed = limits().plan_flush(&buffer, &words());
            if flushed.is_empty() {
                return commits;
            }
            next.batches.extend(flushed.into_iter().map(|range| ids(&buffer[range])));
            commits.push(next);
        }
    }

    /// Those that were flushed, and those in the buffer.
    fn halves(&self) -> (Vec<Message>, Vec<Message>) {
        let flushed: BTreeSet<&str> = self.batches.iter().flatten().map(String::as_str).collect();
        self.messages.iter().cloned().partition(|message| flushed.contains(message.id.as_str()))
    }

    fn buffer(&self) -> Vec<Message> {
        self.halves().1
    }

    fn seen(&self) -> Seen {
        Seen {
            history: self.messages.clone(),
            buffer: self.buffer(),
            batches: self.batches.len(),
            checkpoints: self.checkpoints.iter().map(|checkpoint| checkpoint.messages.len()).collect(),
            at_the_last: self.checkpoints.last().map_or(Vec::new(), |checkpoint| checkpoint.messages.clone()),
        }
    }

    /// Waits until the block has taken all batches, and checks that each came to it once, and that recall finds what
    /// was flushed and nothing else.
    fn assert_settles(&self, engine: &Engine, memory: &Memory) {
        for tries in 0.. {
            match memory.blocking().settle() {
                Ok(()) => break,
                Err(Error::Block { .. }) if tries < 100 => {}
                Err(error) => panic!("{error}"),
            }
        }
        let status = memory.blocking().status().unwrap();
        assert!(status.iter().all(|block| block.behind == 0 && block.failed.is_empty()), "{status:?}");
        let state = memory.blocking().block_state("notes").unwrap();
        let taken: Vec<(usize, Vec<String>)> = serde_json::from_value(state).unwrap_or_default();
        assert!(taken.is_sorted_by(|a, b| a.0 < b.0), "in order, none twice");
        let taken: BTreeMap<usize, Vec<String>> = taken.into_iter().collect();
        assert!(taken.keys().all(|&number| number < self.batches.len()));
        let there: BTreeSet<&str> = self.messages.iter().map(|message| message.id.as_str()).collect();
        for (number, batch) in self.batches.iter().enumerate() {
            let taken = taken.get(&number).map_or(&[][..], Vec::as_slice);
            // What was removed may have been so before the block came to it, or after.
            let due: Vec<&String> =
                batch.iter().filter(|id| there.contains(id.as_str()) || taken.contains(id)).collect();
            assert_eq!(taken.iter().collect::<Vec<_>>(), due, "batch {number}: {batch:?}");
        }

        let query = Query::new("message changed").k(10_000).session(memory.session());
        let hits = engine.blocking().recall(memory.namespace(), query).unwrap();
        let mut recalled: Vec<Message> = hits.into_iter().map(|hit| hit.message).collect();
        let mut stored = self.messages.clone();
        stored.retain(|message| !message.text().is_empty());
        recalled.sort_by(|a, b| a.id.cmp(&b.id));
        stored.sort_by(|a, b| a.id.cmp(&b.id));
        assert_eq!(recalled, stored, "those in the buffer by their words");
    }
}

impl Seen {
    fn differs(&self, due: &Seen) -> String {
        let same = self.history.iter().zip(&due.history).take_while(|(is, due)| is == due).count();
        let of = |seen: &Seen| {
            let Seen { history, buffer, batches, checkpoints, at_the_last } = seen;
            let (rest, buffer) = (&history[same..], ids(buffer));
            let last = at_the_last.len();
            format!("{rest:?}, buffer {buffer:?}, {batches} batches, checkpoints {checkpoints:?}, {last} at the last")
        };
        format!("after {same} messages {}; acknowledged: {}", of(self), of(due))
    }
}

fn seen(engine: &Engine, memory: &Memory) -> Seen {
    let blocking = memory.blocking();
    let checkpoints = blocking.checkpoints().unwrap();
    let sessions = engine.blocking().sessions(memory.namespace()).unwrap();
    let info = sessions.into_iter().find(|info| info.session == memory.session());
    Seen {
        history: blocking.history().unwrap(),
        buffer: blocking.messages().unwrap(),
        batches: info.map_or(0, |info| info.batches as usize),
        checkpoints: checkpoints.iter().map(|checkpoint| checkpoint.messages as usize).collect(),
        at_the_last: checkpoints.last().map_or(Vec::new(), |last| blocking.messages_at(last.number).unwrap()),
    }
}

fn ids<'m>(messages: impl IntoIterator<Item = &'m Message>) -> Vec<String> {
    messages.into_iter().map(|message| message.id.clone()).collect()
}

fn limits() -> BufferLimits {
    BufferLimits::new(30, 0.7, 10).unwrap()
}

/// A block that records its batches. Every fifth call fails with a transient error.
#[derive(Default)]
struct Notes(AtomicUsize);

impl MemoryBlock for Notes {
    fn name(&self) -> &str {
        "notes"
    }

    fn put(&self, state: &Value, batch: &FlushedBatch<'_>) -> Result<Value> {
        if self.0.fetch_add(1, Ordering::Relaxed) % 5 == 4 {
            return Err(Error::Chat { reason: "on purpose".into(), transient: true, retry_after: None, source: None });
        }
        let mut batches = state.as_array().cloned().unwrap_or_default();
        batches.push(json!([batch.number, ids(batch.messages)]));
        Ok(batches.into())
    }

    fn get(&self, _: &Value, _: &BlockQuery) -> Result<BlockContent> {
        Ok("".into())
    }
}

pub(crate) fn open(path: impl AsRef<Path>) -> Engine {
    let mut config = mnemon::Config::default().keep_versions(true);
    config.flush_size = 50;
    config.block_retry = Duration::from_millis(1);
    Engine::builder(path).config(config).embedder(Arc::new(Hashing::new(32))).open().unwrap()
}

fn memory(engine: &Engine, session: &str) -> Memory {
    let memory = engine.memory(&namespace("crash"), session).limits(limits()).message_counter(words());
    memory.block(Notes::default()).open().unwrap()
}

fn sessions(run: u64) -> [String; 2] {
    ["a", "b"].map(|name| format!("{name}{}", run / RUNS_OF_A_SESSION))
}

/// The process that is killed. It changes two sessions at the same time, and prints which steps are acknowledged.
#[test]
#[ignore = "the process that a_memory_survives_kills starts and kills"]
fn child() {
    let (path, run) = child_arguments();
    talk(&open(path), run);
}

/// Changes both sessions of a run for ever.
pub(crate) fn talk(engine: &Engine, run: u64) {
    std::thread::scope(|scope| {
        for session in sessions(run) {
            scope.spawn(move || {
                let memory = memory(engine, &session);
                let memory = memory.blocking();
                let mut messages = memory.history().unwrap();
                let mut checkpoints = memory.checkpoints().unwrap().len();
                for number in 0.. {
                    match step(&session, run, number, &messages, checkpoints) {
                        Step::Update(updates) => {
                            messages = add_messages(messages, updates.clone()).unwrap();
                            memory.update(updates).unwrap();
                        }
                        Step::Flush => drop(memory.flush().unwrap()),
                        Step::Checkpoint => {
                            assert_eq!(memory.checkpoint("").unwrap() as usize, checkpoints);
                            checkpoints += 1;
                        }
                        Step::Restore(to) => {
                            memory.restore(to).unwrap();
                            messages = memory.history().unwrap();
                            checkpoints = memory.checkpoints().unwrap().len();
                        }
                    }
                    println!("ack {session} {number}");
                }
            });
        }
    });
}

/// The expected states of all sessions.
#[derive(Default)]
pub(crate) struct Talks {
    talks: BTreeMap<String, Talk>,
    /// Steps acknowledged.
    steps: u64,
    /// Kills in a step, by how many of its commits were there.
    committed: [u64; 3],
}

impl Talks {
    /// Checks the sessions after a run that was killed.
    pub(crate) fn check(&mut self, engine: &Engine, run: u64, lines: &[String]) {
        for session in sessions(run) {
            let talk = self.talks.entry(session.clone()).or_default();
            let acknowledged = acknowledged(lines, &format!("{session} "));
            for number in 0..acknowledged {
                *talk = talk.after(&talk.step(&session, run, number)).pop().unwrap();
            }
            self.steps += acknowledged;
            // The step in flight may be there, or a put without its flush.
            let memory = memory(engine, &session);
            let seen = seen(engine, &memory);
            let mut commits = vec![talk.clone()];
            commits.extend(talk.after(&talk.step(&session, run, acknowledged)));
            let Some(found) = commits.iter().position(|talk| talk.seen() == seen) else {
                panic!("run {run}, step {acknowledged} in flight: {}", seen.differs(&talk.seen()));
            };
            *talk = commits.swap_remove(found);
            self.committed[found.min(2)] += 1;
            let first = seen.buffer.iter().find(|message| message.role != Role::System);
            assert!(first.is_none_or(|first| first.role == Role::User), "run {run}");
            talk.assert_settles(engine, &memory);
        }
    }
}

#[test]
fn a_memory_survives_kills() {
    let runs = runs();
    let db = Db::new();
    let mut state = 4242;
    let mut talks = Talks::default();
    for run in 0..runs {
        let delay = delay(&mut state, Duration::from_millis(100));
        let lines = kill_after(module_path!(), "child", &db.path, run, delay);

        db.assert_sound();
        let engine = open(&db.path);
        talks.check(&engine, run, &lines);
    }
    let Talks { talks, steps, committed } = talks;
    assert!(steps > 0, "the kills came too early to test anything");

    let engine = open(&db.path);
    for (session, talk) in &talks {
        let memory = memory(&engine, session);
        let (seen, due) = (seen(&engine, &memory), talk.seen());
        assert!(seen == due, "{session}: {}", seen.differs(&due));
        talk.assert_settles(&engine, &memory);
    }
    drop(engine);
    let report = db.assert_sound();
    let messages: usize = talks.values().map(|talk| talk.messages.len()).sum();
    assert_eq!((report.messages as usize, report.pending), (messages, 0));
    eprintln!(
        "{runs} kills, {steps} steps acknowledged, none lost; of those in flight {} were not there, {} were put, {} \
         flushed too",
        committed[0], committed[1], committed[2]
    );
}
