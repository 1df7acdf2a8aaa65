//! SIGKILL at random moments: of an ingest with the real model, and of two sessions of a memory.
//!
//! `MNEMON_CRASH_RUNS` sets how many kills; default 30.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::{BufRead, BufReader},
    path::Path,
    process::{Command, Stdio},
    rc::Rc,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use mnemon::{
    Batch, BlockContent, BlockQuery, BufferLimits, Engine, Error, Memory, MemoryBlock, Message, MessageTokens,
    MessageUpdate, Part, Query, Result, Role, Timestamp, add_messages,
};
use serde_json::{Value, json};

use crate::support::{Db, Hashing, namespace, random};

const CHILD: &str = "MNEMON_CRASH_CHILD";
const BATCH: u64 = 20;
const SPACES: u64 = 2;

/// What run `run` puts as its batch `batch`: new messages, and some that earlier runs may have put, changed.
fn batch(run: u64, batch: u64) -> Vec<Message> {
    (0..BATCH)
        .map(|i| {
            let id =
                if i < BATCH - 4 { format!("{run}/{batch}/{i}") } else { format!("shared/{}", (batch * 4 + i) % 50) };
            let text =
                format!("run {run} batch {batch} message {i}: the {} went to {}", id.len(), run * 31 + batch * 7 + i);
            let time = mnemon::Timestamp::from_micros((run * 1_000_000 + batch) as i64).unwrap();
            Message::user(text).with_id(id).at(time).in_session(format!("s{}", batch % 3))
        })
        .collect()
}

fn space(batch: u64) -> mnemon::Namespace {
    namespace(&format!("crash/{}", batch % SPACES))
}

/// The process that is killed: puts batch after batch, says which are acknowledged, flushes now and then.
#[test]
fn child() {
    let Some((path, run)) = asked() else { return };
    let mut config = mnemon::Config::default();
    // Small, so that kills meet the background flush too.
    config.flush_size = 50;
    // The others have 32 bits.
    config.precision = mnemon::Precision::I8;
    let engine = Engine::builder(path).config(config).open().unwrap();
    for number in 0.. {
        engine.blocking().put(&space(number), batch(run, number)).unwrap();
        println!("ack {number}");
        if number % 5 == 4 {
            engine.blocking().flush().unwrap();
        }
    }
}

#[test]
fn acknowledged_messages_survive_kills() {
    let runs = runs();
    let db = Db::new();
    let mut state = 42;
    // (run, acknowledged batches)
    let mut history: Vec<(u64, u64)> = Vec::new();
    for run in 0..runs {
        let delay = Duration::from_micros(((f64::from(random(&mut state)) + 1.0) * 100_000.0) as u64);
        history.push((run, acknowledged(&kill_after("crash::child", &db.path, run, delay), "")));

        let report = db.assert_sound();
        let engine = Engine::open(&db.path).unwrap();
        // Every acknowledged message is there as it was last put, or as the batch in flight has it.
        let mut last: BTreeMap<(u64, String), Message> = BTreeMap::new();
        for &(earlier, acknowledged) in &history {
            for number in 0..acknowledged {
                last.extend(
                    batch(earlier, number).into_iter().map(|message| ((number % SPACES, message.id.clone()), message)),
                );
            }
            let in_flight = batch(earlier, acknowledged);
            for message in &in_flight {
                let key = (acknowledged % SPACES, message.id.clone());
                let found = engine.blocking().get(&space(acknowledged), &message.id).unwrap();
                // Committed, though the process died before it could say so: what follows builds on it.
                if found.as_ref() == Some(message) {
                    last.insert(key, message.clone());
                }
            }
        }
        for ((number, id), message) in &last {
            let found = engine.blocking().get(&space(*number), id).unwrap();
            assert_eq!(found.as_ref(), Some(message), "run {run}");
        }
        drop(engine);
        assert!(report.messages >= history.iter().map(|(_, acks)| acks * (BATCH - 4)).sum::<u64>());
    }
    let acknowledged: u64 = history.iter().map(|(_, acks)| acks * BATCH).sum();
    assert!(acknowledged > 0, "the kills came too early to test anything");

    // Ingesting all again leaves exactly one of each, all found.
    let engine = Engine::open(&db.path).unwrap();
    let mut ids = BTreeSet::new();
    for &(run, acks) in &history {
        // One more than acknowledged: the batch in flight may have been committed.
        for number in 0..=acks {
            let messages = batch(run, number);
            ids.extend(messages.iter().map(|message| (number % SPACES, message.id.clone())));
            engine.blocking().put(&space(number), messages).unwrap();
        }
    }
    engine.blocking().flush().unwrap();
    for number in 0..SPACES {
        let all = engine.blocking().recall(&space(number), Query::new("the message").k(10_000)).unwrap();
        assert_eq!(all.len(), ids.iter().filter(|(space, _)| *space == number).count().min(10_000));
    }
    drop(engine);
    let report = db.assert_sound();
    assert_eq!((report.messages as usize, report.vectors as usize, report.pending), (ids.len(), ids.len(), 0));
    eprintln!("{runs} kills, {acknowledged} messages acknowledged, none lost, none doubled");
}

/// The same for `mnemon ingest`: killed on the way, then run again on the same file.
#[test]
fn a_killed_ingest_is_finished_by_running_it_again() {
    let runs = runs() / 3;
    let mut state = 7;
    let file = crate::support::sample("messages.jsonl");
    let ingest = |db: &Db| {
        let mut command = Command::new(assert_cmd::cargo::cargo_bin!("mnemon"));
        command.arg("ingest").arg("--db").arg(&db.path).arg(&file).stdout(Stdio::null()).stderr(Stdio::null());
        command
    };
    let mut unfinished = 0;
    for _ in 0..runs {
        let db = Db::new();
        let mut child = ingest(&db).spawn().unwrap();
        std::thread::sleep(Duration::from_micros(((f64::from(random(&mut state)) + 1.0) * 125_000.0) as u64));
        child.kill().unwrap();
        child.wait().unwrap();
        if std::fs::metadata(&db.path).is_ok_and(|metadata| metadata.len() > 0) {
            let report = db.assert_sound();
            unfinished += u64::from(report.vectors < 462);
            assert!(report.messages == report.vectors + report.pending);
        }
        assert!(ingest(&db).status().unwrap().success());
        let report = db.assert_sound();
        assert_eq!((report.messages, report.vectors, report.pending), (462, 462, 0));
    }
    eprintln!("{runs} ingests killed, {unfinished} of them on the way; each finished by the second run");
}

/// Runs after which the conversations of [`a_memory_survives_kills`] begin anew: those before must stay as they are.
const RUNS_OF_A_SESSION: u64 = 8;

/// What is done to a session.
enum Step {
    Update(Vec<MessageUpdate>),
    Flush,
    Checkpoint,
    Restore(u32),
}

/// What run `run` does as its step `number` to a session with these messages and so many checkpoints. No id is ever given
/// twice, the last message is never removed, and a conversation is flushed between turns alone: so the buffer begins with
/// a user message, after the system prompt.
fn step(session: &str, run: u64, number: u64, messages: &[Message], checkpoints: usize) -> Step {
    let mut state = (run << 32) | (number << 8) | u64::from(session.as_bytes()[0]);
    let mut below = |count: usize| ((random(&mut state) + 1.0) / 2.0 * count as f32) as usize % count;
    let time = Timestamp::from_micros((run * 1_000_000 + number) as i64).unwrap();
    let with_text = |role, id: String, words: usize| {
        let text = format!("message {id}{}", " word".repeat(words));
        Message::new(role, text).with_id(id).at(time).in_session(session)
    };
    let of_part = |role, id: String, part| Message { content: vec![part], ..with_text(role, id, 0) };
    let asks = |message: &Message| match message.content.as_slice() {
        [Part::ToolCall { id, .. }] => Some(id.clone()),
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
            Part::Text { text: old } | Part::ToolResult { content: old, .. } => *old = text,
            Part::ToolCall { arguments, .. } => *arguments = json!({ "query": text }),
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
                        of_part(Role::Tool, id, Part::ToolResult { id: call, content })
                    }
                    (Role::User | Role::Tool, None) if below(3) == 0 => {
                        let call =
                            Part::ToolCall { id: format!("call {id}"), name: "search".into(), arguments: json!({}) };
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

/// A session as it should be.
#[derive(Clone, Default)]
struct Talk {
    messages: Vec<Message>,
    /// The ids that were flushed, those removed since too.
    batches: Vec<Vec<String>>,
    checkpoints: Vec<Rc<Talk>>,
}

/// What can be seen of a session.
#[derive(PartialEq)]
struct Seen {
    history: Vec<Message>,
    buffer: Vec<Message>,
    batches: usize,
    /// How many messages each has.
    checkpoints: Vec<usize>,
    at_the_last: Vec<Message>,
}

impl Talk {
    fn step(&self, session: &str, run: u64, number: u64) -> Step {
        step(session, run, number, &self.messages, self.checkpoints.len())
    }

    /// What a step makes of it, commit by commit.
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

    /// Has the session's block take what is left, and checks that each batch came to it once, and that recall knows what was
    /// flushed and nothing else.
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

        let query = Query::new("message").k(10_000).session(memory.session());
        let hits = engine.blocking().recall(memory.namespace(), query).unwrap();
        let mut recalled: Vec<Message> = hits.into_iter().map(|hit| hit.message).collect();
        let mut flushed = self.halves().0;
        flushed.retain(|message| !message.text().is_empty());
        recalled.sort_by(|a, b| a.id.cmp(&b.id));
        flushed.sort_by(|a, b| a.id.cmp(&b.id));
        assert_eq!(recalled, flushed);
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

fn words() -> MessageTokens {
    MessageTokens::new(|text: &str| text.split_whitespace().count())
}

/// Writes down what it was given. Every fifth time its service is not there.
#[derive(Default)]
struct Notes(AtomicUsize);

impl MemoryBlock for Notes {
    fn name(&self) -> &str {
        "notes"
    }

    fn put(&self, state: &Value, batch: &Batch<'_>) -> Result<Value> {
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

fn open(path: impl AsRef<Path>) -> Engine {
    let mut config = mnemon::Config::default();
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

/// The process that is killed: talks in two sessions at the same time, step by step, and says which are acknowledged.
#[test]
fn memory_child() {
    let Some((path, run)) = asked() else { return };
    let engine = open(path);
    std::thread::scope(|scope| {
        for session in sessions(run) {
            let engine = &engine;
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

#[test]
fn a_memory_survives_kills() {
    let runs = runs();
    let db = Db::new();
    let mut state = 4242;
    let mut talks: BTreeMap<String, Talk> = BTreeMap::new();
    // Steps acknowledged; kills in a step, by how many of its commits were there.
    let mut steps = 0;
    let mut committed = [0; 3];
    for run in 0..runs {
        let delay = Duration::from_micros(((f64::from(random(&mut state)) + 1.0) * 50_000.0) as u64);
        let lines = kill_after("crash::memory_child", &db.path, run, delay);

        db.assert_sound();
        let engine = open(&db.path);
        for session in sessions(run) {
            let talk = talks.entry(session.clone()).or_default();
            let acknowledged = acknowledged(&lines, &format!("{session} "));
            for number in 0..acknowledged {
                *talk = talk.after(&talk.step(&session, run, number)).pop().unwrap();
            }
            steps += acknowledged;
            // The step in flight may be there, or a put without its flush.
            let memory = memory(&engine, &session);
            let seen = seen(&engine, &memory);
            let mut commits = vec![talk.clone()];
            commits.extend(talk.after(&talk.step(&session, run, acknowledged)));
            let Some(found) = commits.iter().position(|talk| talk.seen() == seen) else {
                panic!("run {run}, step {acknowledged} in flight: {}", seen.differs(&talk.seen()));
            };
            *talk = commits.swap_remove(found);
            committed[found.min(2)] += 1;
            let first = seen.buffer.iter().find(|message| message.role != Role::System);
            assert!(first.is_none_or(|first| first.role == Role::User), "run {run}");
            talk.assert_settles(&engine, &memory);
        }
    }
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

pub(crate) fn runs() -> u64 {
    std::env::var("MNEMON_CRASH_RUNS").map_or(30, |runs| runs.parse().unwrap())
}

/// In a child: the database, and which run this is.
pub(crate) fn asked() -> Option<(String, u64)> {
    let asked = std::env::var(CHILD).ok()?;
    let (path, run) = asked.split_once('#').unwrap();
    // Its own failures must not pass for kills, on whichever thread.
    std::panic::set_hook(Box::new(|panic| {
        println!("\nfailed: {}", panic.to_string().replace('\n', " "));
        std::process::exit(1);
    }));
    Some((path.to_owned(), run.parse().unwrap()))
}

/// Starts the child, kills it some time after it has opened the database, and returns what it said.
pub(crate) fn kill_after(child: &str, path: &Path, run: u64, delay: Duration) -> Vec<String> {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args([child, "--exact", "--nocapture"])
        .env(CHILD, format!("{}#{run}", path.display()))
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(|line| line.ok());
    let mut said = Vec::new();
    // Half of the kills come from the first commit on, half at any time from the start, opening included.
    if run.is_multiple_of(2) {
        for line in lines.by_ref() {
            said.push(line);
            if said.last().is_some_and(|line| line.contains("ack ")) {
                break;
            }
        }
    }
    std::thread::sleep(delay);
    // SIGKILL on Unix.
    child.kill().unwrap();
    child.wait().unwrap();
    // What was printed before the kill is still in the pipe.
    said.extend(lines);
    assert!(!said.iter().any(|line| line.starts_with("failed: ")), "{said:?}");
    said
}

/// How many steps a child has acknowledged, of those whose name begins so.
pub(crate) fn acknowledged(said: &[String], of: &str) -> u64 {
    let mut acknowledged: u64 = 0;
    for line in said {
        if let Some((_, number)) = line.split_once(&format!("ack {of}")) {
            // A last line cut short says less than it could, never more.
            acknowledged = number.trim().parse().map_or(acknowledged, |number: u64| acknowledged.max(number + 1));
        }
    }
    acknowledged
}
