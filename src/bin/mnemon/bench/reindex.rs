//! `mnemon bench reindex`: a database moves to another model and back while it is in use.

use std::{
    ops::ControlFlow,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::ensure;
use mnemon::{Device, Engine, Message, Model, Namespace, OnnxEmbedder, Precision, Query, ReindexOptions, ReindexPhase};
use serde_json::{Value, json};

use super::{Common, peak_memory};
use crate::{input, metrics::percentile, output};

#[derive(clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    common: Common,
    /// The model to move to: a folder or a name.
    #[arg(long, value_name = "DIR|NAME")]
    to: String,
    /// The precision to move to. Default: as it is.
    #[arg(long)]
    to_precision: Option<Precision>,
    /// Put all messages into this namespace, whatever their lines say.
    #[arg(long)]
    namespace: Option<Namespace>,
    /// The share of the time that the reindex embeds.
    #[arg(long, default_value_t = 1.0)]
    duty: f64,
    /// Seconds of recalls and puts before the reindex, and after it.
    #[arg(long, default_value_t = 10)]
    seconds: u64,
}

/// Messages that are asked for by their texts, and as many of those that are put, afterwards.
const ASKED: usize = 500;
/// Messages that these, and what is put, are chosen from; and words that they have more than, so that they say something.
const SPREAD: usize = 20_000;
const WORDS: usize = 5;
const K: usize = 10;
/// The loop flushes after so many puts, and asks for the last.
const FLUSHED: u64 = 20;
/// Between two puts.
const PAUSE: Duration = Duration::from_millis(1);

/// What is going on while the loops run.
const PHASES: [&str; 6] = ["before", "embedding", "loading", "trying", "after", "rollback"];

/// What a loop did in a phase.
#[derive(Default)]
struct Done {
    latencies: Vec<f64>,
    failed: u64,
    missing: u64,
}

/// What the loops share.
struct Loops<'a> {
    engine: &'a Engine,
    /// The place in [`PHASES`].
    phase: AtomicUsize,
    stop: AtomicBool,
    /// Texts that were put, and flushed.
    put: Mutex<Vec<(Namespace, String)>>,
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let mut messages = input::messages(&args.common.messages)?;
    ensure!(!messages.is_empty(), "{}: no messages", args.common.messages.display());
    if let Some(namespace) = &args.namespace {
        messages.iter_mut().for_each(|(own, _)| own.clone_from(namespace));
    }
    let count = messages.len();
    let model = args.common.model.as_deref().unwrap_or(Model::DEFAULT);
    let load = |name: &str| anyhow::Ok(Arc::new(input::embedder(name, &Device::Cpu, None)?));
    let (from, to) = (load(model)?, load(&args.to)?);
    let (engine, path, _folder) = input::temporary(Some(model), args.common.index, args.common.precision)?;
    let blocking = engine.blocking();
    let started = Instant::now();
    for batch in messages.chunks(args.common.batch.max(1)) {
        blocking.put_all(batch.to_vec())?;
    }
    blocking.flush()?;
    let ingest_rate = count as f64 / started.elapsed().as_secs_f64();
    // Every other one is asked for, and the rest are put again, changed: none of those is nearer to a question than its answer.
    let spread = messages.into_iter().step_by(count.div_ceil(SPREAD)).map(|(space, message)| (space, message.text()));
    let spread = spread.filter(|(_, text)| text.split_whitespace().count() > WORDS).enumerate();
    let (asked, again): (Vec<_>, Vec<_>) = spread.partition(|(at, _)| at % 2 == 0);
    let [mut asked, again] = [asked, again].map(|part| part.into_iter().map(|(_, text)| text).collect::<Vec<_>>());
    asked.iter().try_for_each(|(namespace, _)| blocking.optimize(namespace))?;
    asked.retain(|(namespace, text)| is_found(&engine, namespace, text, 1).unwrap_or(false));
    let asked: Vec<(Namespace, String)> = asked.iter().step_by(asked.len().div_ceil(ASKED).max(1)).cloned().collect();
    ensure!(!asked.is_empty() && !again.is_empty(), "too few messages of more than {WORDS} words are found by them");
    let memory_before = peak_memory();

    let loops =
        Loops { engine: &engine, phase: AtomicUsize::new(0), stop: AtomicBool::new(false), put: Mutex::default() };
    let (moved, recalls, puts) = thread::scope(|scope| {
        let recalls = scope.spawn(|| recall(&loops, &asked));
        let puts = scope.spawn(|| put(&loops, &again));
        let moved = there_and_back(&loops, args, (from, to), &asked);
        loops.stop.store(true, Ordering::Relaxed);
        (moved, recalls.join().expect("it catches errors"), puts.join().expect("it catches errors"))
    });
    let phases =
        PHASES.iter().zip(recalls).zip(puts).map(
            |((phase, recalls), puts)| json!({ "phase": phase, "recalls": summary(recalls), "puts": summary(puts) }),
        );
    let phases: Vec<Value> = phases.collect();
    let moved = moved?;
    drop(engine);
    let problems = mnemon::verify(&path)?.problems;
    output::json(&json!({
        "bench": "reindex",
        "messages": count,
        "ingest_messages_per_second": ingest_rate,
        "moved": moved,
        "phases": phases,
        "peak_memory_before_bytes": memory_before,
        "peak_memory_bytes": peak_memory(),
        "problems": problems,
    }))
}

/// A reindex and a rollback beside the loops, with what is missing after each.
fn there_and_back(
    loops: &Loops,
    args: &Args,
    (from, to): (Arc<OnnxEmbedder>, Arc<OnnxEmbedder>),
    asked: &[(Namespace, String)],
) -> anyhow::Result<Value> {
    let enter = |phase: usize| loops.phase.store(phase, Ordering::Relaxed);
    let pause = || thread::sleep(Duration::from_secs(args.seconds));
    let missing = || -> anyhow::Result<Value> {
        let put = loops.put.lock().expect("no holder panics").clone();
        let spread = put.iter().rev().step_by(put.len().div_ceil(ASKED).max(1));
        let (mut searched, mut missing) = (0, 0);
        for (namespace, text) in asked.iter().chain(spread) {
            searched += 1;
            missing += usize::from(!is_found(loops.engine, namespace, text, K)?);
        }
        Ok(json!({ "searched": searched, "missing": missing }))
    };
    let mut options = ReindexOptions::default();
    (options.precision, options.duty) = (args.to_precision, args.duty);
    let mut rates: Vec<Value> = Vec::new();
    let mut last: Option<(ReindexPhase, Instant)> = None;
    pause();
    let report = loops.engine.blocking().reindex(to, options, |progress| {
        let begun = last.filter(|(phase, _)| *phase == progress.phase).map_or_else(Instant::now, |(_, begun)| begun);
        last = Some((progress.phase, begun));
        let seconds = begun.elapsed().as_secs_f64();
        let rate =
            json!({ "phase": progress.phase, "done": progress.done, "seconds": seconds, "a_second": progress.rate });
        match rates.last_mut() {
            Some(known) if known["phase"] == rate["phase"] => *known = rate,
            _ => rates.push(rate),
        }
        enter(match progress.phase {
            ReindexPhase::Embedding => 1,
            ReindexPhase::Loading => 2,
            ReindexPhase::Trying => 3,
            _ => 4,
        });
        ControlFlow::Continue(())
    })?;
    enter(4);
    pause();
    let after_reindex = missing()?;
    enter(5);
    let rollback = loops.engine.blocking().rollback(from, |_| ControlFlow::Continue(()))?;
    let after_rollback = missing()?;
    Ok(json!({
        "reindex": report,
        "rates": rates,
        "after_reindex": after_reindex,
        "rollback": rollback,
        "after_rollback": after_rollback,
    }))
}

/// Whether a message, or one that says the same, is among the first `k` that its own text recalls. By itself: what the turns next to it
/// lend to others may put ten of those before it.
fn is_found(engine: &Engine, namespace: &Namespace, text: &str, k: usize) -> mnemon::Result<bool> {
    let hits = engine.blocking().recall(namespace, Query::new(text).k(k).neighbors(false))?;
    Ok(hits.iter().any(|hit| hit.message.text() == text))
}

/// Asks for messages one after the other, until it is stopped.
fn recall(loops: &Loops, asked: &[(Namespace, String)]) -> [Done; PHASES.len()] {
    let mut done = <[Done; PHASES.len()]>::default();
    for (namespace, text) in asked.iter().cycle().take_while(|_| !loops.stop.load(Ordering::Relaxed)) {
        let phase = &mut done[loops.phase.load(Ordering::Relaxed)];
        let started = Instant::now();
        let found = is_found(loops.engine, namespace, text, K);
        phase.latencies.push(started.elapsed().as_secs_f64() * 1e6);
        match found {
            Ok(found) => phase.missing += u64::from(!found),
            Err(_) => phase.failed += 1,
        }
    }
    done
}

/// Puts message after message, flushes now and then, and asks for the last, until it is stopped. Each says what was said before, and a
/// number.
fn put(loops: &Loops, again: &[(Namespace, String)]) -> [Done; PHASES.len()] {
    let mut done = <[Done; PHASES.len()]>::default();
    let (blocking, mut unflushed) = (loops.engine.blocking(), Vec::new());
    let numbers = (0_u64..).take_while(|_| !loops.stop.load(Ordering::Relaxed));
    for (number, (space, text)) in numbers.zip(again.iter().cycle()) {
        let phase = &mut done[loops.phase.load(Ordering::Relaxed)];
        let text = format!("note{number} {text}");
        let message = Message::user(&text).with_id(format!("bench-{number}"));
        let started = Instant::now();
        match blocking.put(space, vec![message]) {
            Ok(_) => unflushed.push((space.clone(), text.clone())),
            Err(_) => phase.failed += 1,
        }
        phase.latencies.push(started.elapsed().as_secs_f64() * 1e6);
        if number % FLUSHED == FLUSHED - 1 {
            match blocking.flush().and_then(|_| is_found(loops.engine, space, &text, K)) {
                Ok(found) => phase.missing += u64::from(!found),
                Err(_) => phase.failed += 1,
            }
            loops.put.lock().expect("no holder panics").append(&mut unflushed);
        }
        thread::sleep(PAUSE);
    }
    done
}

fn summary(done: Done) -> Value {
    let mut sorted = done.latencies;
    sorted.sort_by(f64::total_cmp);
    json!({
        "count": sorted.len(),
        "p50_us": percentile(&sorted, 0.5),
        "p99_us": percentile(&sorted, 0.99),
        "max_us": percentile(&sorted, 1.0),
        "failed": done.failed,
        "missing": done.missing,
    })
}
