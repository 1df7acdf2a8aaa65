//! `mnemon bench memory`: durable puts to a session's memory, and prompts from it.

use std::{
    fs::File,
    io::{Seek, SeekFrom, Write},
    path::{Path, PathBuf},
    time::Instant,
};

use mnemon::{
    BlockContent, BlockQuery, BufferLimits, Config, Durability, Engine, FlushedBatch, Memory, MemoryBlock, Message,
    Namespace, Result, StaticBlock, Tiktoken, VectorBlock,
};
use serde_json::{Value, json};

use super::setup::{messages_or_sample, peak_bytes};
use crate::{
    database::Temporary,
    metrics::{Times, percentile_of},
    output,
};

#[derive(clap::Args)]
pub(super) struct Args {
    /// The messages; they are read as one conversation. Default: the built-in sample.
    #[arg(long, value_name = "M.jsonl")]
    messages: Option<PathBuf>,
    /// Number of times that the conversation is repeated.
    #[arg(long, default_value_t = 1)]
    repeat: usize,
    /// A model folder or name.
    #[arg(long, value_name = "DIR|NAME")]
    model: Option<String>,
    /// The failures that a put survives: with `disk` power failures too, with `process` only kills of the process.
    #[arg(long, value_name = "disk|process", default_value = "disk")]
    durability: Durability,
}

/// Number of recent messages in a prompt.
const RECENT: usize = 200;
const PROMPTS: usize = 500;
const TASKS: usize = 8;
const ROUNDS: usize = 5;
/// The largest number of messages that a task puts.
const RATED: usize = 500;

/// A block that counts the flushed messages.
struct Counter;

impl MemoryBlock for Counter {
    fn name(&self) -> &str {
        "counter"
    }

    fn put(&self, state: &Value, batch: &FlushedBatch<'_>) -> Result<Value> {
        Ok((state.as_u64().unwrap_or(0) + batch.messages.len() as u64).into())
    }

    fn get(&self, state: &Value, _: &BlockQuery) -> Result<BlockContent> {
        Ok(format!("{state} messages were flushed").into())
    }
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let one: Vec<Message> =
        messages_or_sample(args.messages.as_deref())?.into_iter().map(|(_, message)| message).collect();
    let talk: Vec<Message> = std::iter::repeat_n(&one, args.repeat.max(1)).flatten().cloned().collect();
    let Temporary { engine, path, folder: _folder } =
        Temporary::new(args.model.as_deref(), Config::default().durability(args.durability))?;
    let (user, crowd): (Namespace, Namespace) = ("bench/user".parse()?, "bench/crowd".parse()?);

    let memory = open(&engine, &user, "put", BufferLimits::default())?;
    let mut flushed = 0;
    let mut puts = Times::default();
    let started = Instant::now();
    for message in numbered(&talk, "put") {
        flushed += puts.time(|| memory.blocking().put(vec![message]))?.flushed.concat().len();
    }
    let put_seconds = started.elapsed().as_secs_f64();
    // Flushed messages are embedded in the background: wait, so that this does not disturb what follows.
    memory.blocking().settle()?;
    // The lower bound of a durable put, on the same file system.
    let floor = fsyncs(&path.with_extension("floor"), puts.len().clamp(100, 1000))?;
    let (put_p50, floor_p50) = (puts.percentile(0.5), floor.new_pages.percentile(0.5));

    // Rounds alternate, and their medians count: single times vary.
    let (mut single, mut grouped) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        single.push(rate(&engine, &crowd, &talk, 1, round)?);
        grouped.push(rate(&engine, &crowd, &talk, TASKS, round)?);
    }
    let (single, grouped) = (percentile_of(single, 0.5), percentile_of(grouped, 0.5));

    let prompts = Prompts::measure(&engine, &user, &talk, &one)?;
    let messages_not_embedded = talk.len().min(RATED) * ROUNDS * (1 + TASKS);
    let beside = Prompts::measure(&engine, &crowd, &talk, &one)?;

    output::json(&json!({
        "bench": "memory",
        "model": engine.model().to_string(),
        "tokenizer": "cl100k_base",
        "messages": talk.len(),
        "flushed": flushed,
        "put_per_s": talk.len() as f64 / put_seconds,
        "put_p50_us": put_p50,
        "put_p99_us": puts.percentile(0.99),
        "fsync_1_page_p50_us": floor.one_page.percentile(0.5),
        "fsync_16_new_pages_p50_us": floor_p50,
        "put_beyond_fsync_p50_us": put_p50 - floor_p50,
        "put_1_task_per_s": single,
        "put_8_tasks_per_s": grouped,
        "put_8_to_1": grouped / single,
        "blocks": 4,
        "recent": RECENT,
        "prompt_messages": prompts.messages,
        "prompt_tokens": prompts.tokens,
        "assemble_p50_us": prompts.assembles.percentile(0.5),
        "assemble_p99_us": prompts.assembles.percentile(0.99),
        "get_p50_us": prompts.gets.percentile(0.5),
        "get_p99_us": prompts.gets.percentile(0.99),
        "messages_not_embedded": messages_not_embedded,
        "get_beside_not_embedded_p50_us": beside.gets.percentile(0.5),
        "get_beside_not_embedded_p99_us": beside.gets.percentile(0.99),
        "peak_memory_bytes": peak_bytes(),
    }))
}

/// The times of prompts, and the size of the last one.
struct Prompts {
    assembles: Times,
    gets: Times,
    messages: usize,
    tokens: usize,
}

impl Prompts {
    /// Measures prompts of a session with [`RECENT`] messages and four blocks, after another session of the user put
    /// and flushed the whole conversation. `questions` end the prompts.
    fn measure(engine: &Engine, user: &Namespace, talk: &[Message], questions: &[Message]) -> anyhow::Result<Self> {
        let flushing = open(engine, user, "old", BufferLimits::new(2_000, 0.7, 500)?)?;
        flushing.blocking().put(numbered(talk, "old"))?;
        flushing.blocking().settle()?;
        // The limits hold all recent messages, so that prompts are measured and not flushes.
        let memory = builder(engine, user, "prompt", BufferLimits::new(1_000_000, 1.0, 3_000)?)
            .block(StaticBlock::new("about", "The user is called Ada, lives in Oslo and has a dog."))
            .block(StaticBlock::new("rules", "Answer in one sentence. Ask when something is unclear.").with_priority(2))
            .block(Counter)
            .block(VectorBlock::new("memories").with_priority(1))
            .open()?;
        let recent: Vec<Message> = talk.iter().cycle().take(RECENT).cloned().collect();
        memory.blocking().put(numbered(&recent, "prompt"))?;
        let questions: Vec<Message> = questions.iter().rev().cycle().take(PROMPTS).cloned().collect();
        let (blocking, mut messages, mut tokens) = (memory.blocking(), 0, 0);
        let mut times = |assemble: bool| -> anyhow::Result<Times> {
            let mut times = Times::default();
            for message in numbered(&questions, "question") {
                let prompt = times.time(|| match assemble {
                    true => blocking.assemble(message),
                    false => blocking.get(Some(message)),
                })?;
                anyhow::ensure!(prompt.failed.is_empty(), "{:?}", prompt.failed);
                (messages, tokens) = (prompt.messages.len(), prompt.tokens);
            }
            Ok(times)
        };
        // Warms up.
        times(true)?;
        let (assembles, gets) = (times(true)?, times(false)?);
        Ok(Prompts { assembles, gets, messages, tokens })
    }
}

fn builder(engine: &Engine, user: &Namespace, session: &str, limits: BufferLimits) -> mnemon::MemoryBuilder {
    engine.memory(user, session).limits(limits).token_counter(Tiktoken::cl100k_base())
}

fn open(engine: &Engine, user: &Namespace, session: &str, limits: BufferLimits) -> Result<Memory> {
    builder(engine, user, session, limits).open()
}

/// Returns the messages with new ids.
fn numbered(messages: &[Message], prefix: &str) -> Vec<Message> {
    messages.iter().enumerate().map(|(at, message)| message.clone().with_id(format!("{prefix}-{at}"))).collect()
}

/// Returns the puts per second of several threads, each of which puts to a session of its own.
fn rate(engine: &Engine, user: &Namespace, talk: &[Message], tasks: usize, round: usize) -> anyhow::Result<f64> {
    let talk = &talk[..talk.len().min(RATED)];
    let memories: Vec<Memory> = (0..tasks)
        .map(|task| open(engine, user, &format!("{tasks}/{task}/{round}"), BufferLimits::default()))
        .collect::<Result<_>>()?;
    let started = Instant::now();
    std::thread::scope(|scope| -> Result<()> {
        let workers: Vec<_> = memories
            .iter()
            .map(|memory| {
                let messages = numbered(talk, memory.session());
                scope.spawn(move || messages.into_iter().try_for_each(|m| memory.blocking().put(vec![m]).map(drop)))
            })
            .collect();
        workers.into_iter().try_for_each(|worker| worker.join().expect("puts do not panic"))
    })?;
    Ok((talk.len() * tasks) as f64 / started.elapsed().as_secs_f64())
}

/// Pages that a put writes, approximately: four trees of two or three levels, and redb's own.
const PAGES: usize = 16;
const PAGE: u64 = 4096;

/// The times of writing and syncing one existing page of a file, and of [`PAGES`] new ones. Most pages of a growing
/// database are new, and the file system then writes its own metadata too.
#[derive(Default)]
struct Fsyncs {
    one_page: Times,
    new_pages: Times,
}

fn fsyncs(path: &Path, count: usize) -> anyhow::Result<Fsyncs> {
    let mut file = File::create(path)?;
    file.write_all(&[0; PAGE as usize])?;
    file.set_len(PAGE * (1 + (count * PAGES) as u64))?;
    file.sync_all()?;
    let mut result = Fsyncs::default();
    for at in 0..count {
        let (one_page, new_pages) = (&mut result.one_page, &mut result.new_pages);
        for (pages, first, times) in [(1, 0, one_page), (PAGES, 1 + (at * PAGES) as u64, new_pages)] {
            let started = Instant::now();
            for page in 0..pages as u64 {
                file.seek(SeekFrom::Start((first + page) * PAGE))?;
                file.write_all(&[at as u8; PAGE as usize])?;
            }
            file.sync_data()?;
            times.add(started);
        }
    }
    drop(file);
    std::fs::remove_file(path)?;
    Ok(result)
}
