//! `mnemon bench reindex`: reindexes a database to another model and rolls back, beside running recalls and puts.

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
use mnemon::{
    Device, Embedder, Engine, Message, Model, Namespace, OnnxEmbedder, Precision, Query, ReindexOptions, ReindexPhase,
};
use serde_json::{Value, json};

use super::setup::{IngestOptions, peak_bytes};
use crate::{
    database::{self, Temporary},
    metrics::Times,
    output, usage,
};

#[derive(clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    ingest: IngestOptions,
    /// The new model: a folder or a name.
    #[arg(long, value_name = "DIR|NAME")]
    to: String,
    /// The new precision. Default: unchanged.
    #[arg(long)]
    to_precision: Option<Precision>,
    /// Store all messages in this namespace instead of those that their lines name.
    #[arg(long)]
    namespace: Option<Namespace>,
    /// Share of the time that the reindex spends embedding, 0 to 1; it pauses for the rest.
    #[arg(long, default_value_t = 1.0)]
    duty: f64,
    /// Seconds of recalls and puts before the reindex and after it.
    #[arg(long, default_value_t = 10)]
    seconds: u64,
}

/// Number of messages that are searched for by their texts. After the reindex, and after the rollback, as many of the
/// messages that were put meanwhile are searched for too.
const SEARCHED: usize = 500;
/// Number of messages from which those, and the texts that are put meanwhile, are chosen.
const SPREAD: usize = 20_000;
/// Each of these has more words than this, so that its text is specific.
const WORDS: usize = 5;
const K: usize = 10;
/// Number of puts before a flush and a search for the last one.
const PUTS_PER_FLUSH: u64 = 20;
/// Pause between two puts.
const PAUSE: Duration = Duration::from_millis(1);

/// The phases of the measurement.
const PHASES: [&str; 6] = ["before", "embedding", "loading", "trying", "after", "rollback"];

/// The measurements of one loop in one phase.
#[derive(Default)]
struct LoopResult {
    latencies: Times,
    failed: u64,
    missing: u64,
}

/// The state that the loops and the reindex share.
struct Loops<'a> {
    engine: &'a Engine,
    /// Index into [`PHASES`].
    phase: AtomicUsize,
    stop: AtomicBool,
    /// Texts that were put and flushed.
    put: Mutex<Vec<(Namespace, String)>>,
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let model = args.ingest.model.as_deref().unwrap_or(Model::DEFAULT);
    let load = |name: &str| anyhow::Ok(Arc::new(database::embedder(name, &Device::Cpu, None)?));
    let (from, to) = (load(model)?, load(&args.to)?);
    let stays = args.to_precision.is_none_or(|precision| precision == args.ingest.precision);
    usage::ensure(
        !stays || from.identity() != to.identity(),
        format!(
            "the messages are ingested with {} already: name another model with --to, or another --to-precision",
            to.identity()
        ),
    )?;
    let mut messages = args.ingest.messages()?;
    if let Some(namespace) = &args.namespace {
        messages.iter_mut().for_each(|(own, _)| own.clone_from(namespace));
    }
    let count = messages.len();
    let Temporary { engine, path, folder: _folder } = args.ingest.database()?;
    let blocking = engine.blocking();
    let started = Instant::now();
    args.ingest.ingest(&engine, &messages)?;
    let ingest_rate = count as f64 / started.elapsed().as_secs_f64();
    // Every other message is searched for. The others are put again with changes, so that no new message outranks an
    // expected one.
    let spread =
        messages.into_iter().step_by(count.div_ceil(SPREAD)).map(|(namespace, message)| (namespace, message.text()));
    let spread = spread.filter(|(_, text)| text.split_whitespace().count() > WORDS).enumerate();
    let (searched, again): (Vec<_>, Vec<_>) = spread.partition(|(at, _)| at % 2 == 0);
    let [mut searched, again] =
        [searched, again].map(|part| part.into_iter().map(|(_, text)| text).collect::<Vec<_>>());
    searched.iter().try_for_each(|(namespace, _)| blocking.optimize(namespace))?;
    searched.retain(|(namespace, text)| is_found(&engine, namespace, text, 1).unwrap_or(false));
    let searched: Vec<(Namespace, String)> =
        searched.iter().step_by(searched.len().div_ceil(SEARCHED).max(1)).cloned().collect();
    ensure!(
        !searched.is_empty() && !again.is_empty(),
        "too few messages of more than {WORDS} words are found by their own text; give a larger file"
    );
    let memory_before = peak_bytes();

    let loops =
        Loops { engine: &engine, phase: AtomicUsize::new(0), stop: AtomicBool::new(false), put: Mutex::default() };
    let (moved, recalls, puts) = thread::scope(|scope| {
        let recalls = scope.spawn(|| recall(&loops, &searched));
        let puts = scope.spawn(|| put(&loops, &again));
        let moved = reindex_and_rollback(&loops, args, from, to, &searched);
        loops.stop.store(true, Ordering::Relaxed);
        (
            moved,
            recalls.join().expect("the loops count errors and do not panic"),
            puts.join().expect("the loops count errors and do not panic"),
        )
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
        "peak_memory_bytes": peak_bytes(),
        "problems": problems,
    }))
}

/// Reindexes and rolls back beside the loops, and counts the missing messages after each.
fn reindex_and_rollback(
    loops: &Loops,
    args: &Args,
    from: Arc<OnnxEmbedder>,
    to: Arc<OnnxEmbedder>,
    expected: &[(Namespace, String)],
) -> anyhow::Result<Value> {
    let enter = |phase: usize| loops.phase.store(phase, Ordering::Relaxed);
    let pause = || thread::sleep(Duration::from_secs(args.seconds));
    let missing = || -> anyhow::Result<Value> {
        let put = loops.put.lock().expect("the lock is never held during a panic").clone();
        let spread = put.iter().rev().step_by(put.len().div_ceil(SEARCHED).max(1));
        let (mut searched, mut missing) = (0, 0);
        for (namespace, text) in expected.iter().chain(spread) {
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

/// Returns true if the first `k` hits for a text include a message with that text. Neighbor boosts are off: they may
/// rank ten neighbors of matches above the message.
fn is_found(engine: &Engine, namespace: &Namespace, text: &str, k: usize) -> mnemon::Result<bool> {
    let hits = engine.blocking().recall(namespace, Query::new(text).k(k).neighbors(false))?;
    Ok(hits.iter().any(|hit| hit.message.text() == text))
}

/// Searches for messages one after the other until the loops are stopped.
fn recall(loops: &Loops, searched: &[(Namespace, String)]) -> [LoopResult; PHASES.len()] {
    let mut results = <[LoopResult; PHASES.len()]>::default();
    for (namespace, text) in searched.iter().cycle().take_while(|_| !loops.stop.load(Ordering::Relaxed)) {
        let phase = &mut results[loops.phase.load(Ordering::Relaxed)];
        let started = Instant::now();
        let found = is_found(loops.engine, namespace, text, K);
        phase.latencies.add(started);
        match found {
            Ok(found) => phase.missing += u64::from(!found),
            Err(_) => phase.failed += 1,
        }
    }
    results
}

/// Puts messages one after the other until the loops are stopped. Embeds them at times, and then searches for the last
/// one. Each text is an earlier one with a number in front.
fn put(loops: &Loops, again: &[(Namespace, String)]) -> [LoopResult; PHASES.len()] {
    let mut results = <[LoopResult; PHASES.len()]>::default();
    let (blocking, mut unflushed) = (loops.engine.blocking(), Vec::new());
    let numbers = (0_u64..).take_while(|_| !loops.stop.load(Ordering::Relaxed));
    for (number, (namespace, text)) in numbers.zip(again.iter().cycle()) {
        let phase = &mut results[loops.phase.load(Ordering::Relaxed)];
        let text = format!("note{number} {text}");
        let message = Message::user(&text).with_id(format!("bench-{number}"));
        let started = Instant::now();
        match blocking.put(namespace, vec![message]) {
            Ok(_) => unflushed.push((namespace.clone(), text.clone())),
            Err(_) => phase.failed += 1,
        }
        phase.latencies.add(started);
        if number % PUTS_PER_FLUSH == PUTS_PER_FLUSH - 1 {
            match blocking.flush().and_then(|_| is_found(loops.engine, namespace, &text, K)) {
                Ok(found) => phase.missing += u64::from(!found),
                Err(_) => phase.failed += 1,
            }
            loops.put.lock().expect("the lock is never held during a panic").append(&mut unflushed);
        }
        thread::sleep(PAUSE);
    }
    results
}

fn summary(result: LoopResult) -> Value {
    let times = result.latencies;
    json!({
        "count": times.len(),
        "p50_us": times.percentile(0.5),
        "p99_us": times.percentile(0.99),
        "max_us": times.percentile(1.0),
        "failed": result.failed,
        "missing": result.missing,
    })
}
