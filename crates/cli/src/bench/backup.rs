//! `mnemon bench backup`: how long puts wait while the database is copied, and what forgetting costs.

use std::{
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use anyhow::{anyhow, bail, ensure};
use mnemon::{AuditEvent, Config, Engine, Forget, Message, Namespace};
use serde_json::{Value, json};

use super::setup::IngestOptions;
use crate::{database, database::Temporary, metrics::Times, output, usage};

#[derive(clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    ingest: IngestOptions,
    /// Seconds of puts that nothing disturbs, to compare with.
    #[arg(long, default_value_t = 3, value_parser = usage::within(1..=1_000))]
    seconds: usize,
    /// Number of forgets, each of one message.
    #[arg(long, default_value_t = 20, value_parser = usage::within(1..=1_000))]
    forgets: usize,
}

/// The time between two puts.
const PAUSE: Duration = Duration::from_millis(2);

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let options = &args.ingest;
    let messages = options.messages()?;
    let Temporary { engine, path, folder } = options.database()?;
    options.ingest(&engine, &messages)?;
    let bytes = |path: &Path| anyhow::Ok(std::fs::metadata(path)?.len());
    let file_bytes = bytes(&path)?;

    let alone = beside_puts(&engine, || {
        thread::sleep(Duration::from_secs(args.seconds as u64));
        Ok(())
    })?;
    let copy = folder.path().join("backup.redb");
    let backup = beside_puts(&engine, || Ok(engine.blocking().backup(&copy)?))?;
    // Measured before it is opened, which makes it grow.
    let backup_bytes = bytes(&copy)?;
    let stored = database::engine(&copy, options.model.as_deref(), Config::default().index(options.index), false)?;
    let stored = stored.blocking().count_namespaces(None)?.messages;
    ensure!(stored >= messages.len() as u64, "the backup has {stored} of {} messages", messages.len());

    let ids: Vec<&(Namespace, Message)> = messages.iter().step_by(messages.len().div_ceil(args.forgets)).collect();
    let mut forgets = Times::default();
    for (namespace, message) in &ids {
        let receipt = forgets.time(|| engine.blocking().forget(Forget::messages(namespace, [message.id.as_str()])))?;
        let AuditEvent::Forget { forgotten, .. } = receipt.event else { bail!("the receipt is of another kind") };
        ensure!(forgotten.messages == 1, "a message was not forgotten");
    }
    let purge = beside_puts(&engine, || Ok(engine.blocking().purge().map(drop)?))?;
    output::json(&json!({
        "bench": "backup",
        "model": engine.model().to_string(),
        "messages": messages.len(),
        "file_bytes": file_bytes,
        "backup_bytes": backup_bytes,
        "purged_bytes": bytes(&path)?,
        "puts_alone": alone,
        "puts_beside_backup": backup,
        "puts_beside_purge": purge,
        "forget_p50_us": forgets.percentile(0.5),
        "forget_max_us": forgets.percentile(1.0),
        "targets": {"puts_beside_backup.max_ms": 50.0},
    }))
}

/// Runs `work` while a thread puts messages, each durable before the next. Returns how long `work` and the puts took.
fn beside_puts(engine: &Engine, work: impl FnOnce() -> anyhow::Result<()>) -> anyhow::Result<Value> {
    let is_done = AtomicBool::new(false);
    let namespace: Namespace = "beside".parse()?;
    let put = || -> mnemon::Result<Times> {
        let mut times = Times::default();
        while !is_done.load(Ordering::Relaxed) {
            thread::sleep(PAUSE);
            times.time(|| engine.blocking().put(&namespace, vec![Message::user("the ferry leaves at nine")]))?;
        }
        Ok(times)
    };
    let started = Instant::now();
    let (done, seconds, puts) = thread::scope(|scope| {
        let puts = scope.spawn(put);
        let done = work();
        let seconds = started.elapsed().as_secs_f64();
        is_done.store(true, Ordering::Relaxed);
        (done, seconds, puts.join())
    });
    done?;
    let puts = puts.map_err(|_| anyhow!("the thread that puts messages panicked"))??;
    ensure!(!puts.is_empty(), "no message was put meanwhile");
    let ms = |at: f64| puts.percentile(at) / 1e3;
    Ok(json!({
        "seconds": seconds, "puts": puts.len(), "p50_ms": ms(0.5), "p99_ms": ms(0.99), "max_ms": ms(1.0),
    }))
}
