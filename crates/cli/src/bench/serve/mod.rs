//! `mnemon bench serve`: recalls and puts of a server beside those of the library in this process.

mod chroma;
mod wrk;

use std::{
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Stdio},
    sync::atomic::{AtomicUsize, Ordering},
    time::{Duration, Instant},
};

use anyhow::{Context, ensure};
use mnemon::{Config, Device, Engine, Message, Model, Namespace, Query};
use serde_json::{Value, json};

use self::{
    chroma::Chroma,
    wrk::{Kind, Load, Requests, Target},
};
use super::setup::{IngestOptions, queries_or_sample, spread};
use crate::{
    database::{self, Temporary},
    metrics::Times,
    output, usage,
};

/// Number of connections that ask as fast as they are answered.
const CONNECTIONS: usize = 32;
/// Number of connections that ask at a constant rate.
const PACED: usize = 16;
/// Number of connections that put.
const WRITERS: usize = 16;

#[derive(clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    ingest: IngestOptions,
    /// A file of queries. Default: the questions of the sample, or texts of --messages.
    #[arg(long, value_name = "Q.jsonl")]
    queries: Option<PathBuf>,
    /// Seconds of each measurement.
    #[arg(long, default_value_t = 5, value_parser = usage::within(1..=600))]
    seconds: usize,
    /// Chroma's program (`pip install chromadb`): its server is measured with the same messages, whose vectors it is
    /// given.
    #[arg(long, value_name = "FILE")]
    chroma: Option<PathBuf>,
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let messages = args.ingest.messages()?;
    let queries: Vec<(Namespace, String)> = match &args.queries {
        None if args.ingest.has_file() => spread(&messages, 500),
        file => queries_or_sample(file.as_deref())?.into_iter().map(|line| (line.namespace, line.query)).collect(),
    };
    ensure!(!queries.is_empty(), "there are no queries");
    let Temporary { engine, path, folder } = args.ingest.database()?;
    let count = messages.len();
    engine.blocking().put_all(messages.clone())?;
    engine.blocking().flush()?;
    let duration = Duration::from_secs(args.seconds as u64);

    // The library as the server uses it: with the default settings, opened anew.
    drop(engine);
    let engine = database::engine(&path, args.ingest.model.as_deref(), Config::default(), false)?;
    let alone = recalls(&engine, &queries, 1, duration)?;
    let together = recalls(&engine, &queries, CONNECTIONS, duration)?;
    let puts = puts(&engine, duration)?;
    drop(engine);

    let server = Server::start(&path, folder.path())?;
    let target = Target::new(&server.url, &requests(&queries), folder.path(), args.seconds)?;
    target.load(Kind::Recall, 1)?;
    let served_alone = target.load(Kind::Recall, 1)?;
    let served_together = target.load(Kind::Recall, CONNECTIONS)?;
    let paced = target.load(Kind::Paced, PACED)?;
    let served_puts = target.load(Kind::Put, WRITERS)?;
    drop(server);
    let chroma = match &args.chroma {
        Some(program) => Some(beside(program, args, &messages, &queries, folder.path())?),
        None => None,
    };
    output::json(&json!({
        "bench": "serve",
        "messages": count,
        "queries": queries.len(),
        "recall_in_process": report(&alone),
        "recall_served": report(&served_alone),
        "added_p50_us": (served_alone.p50_us - alone.p50_us).round(),
        "recall_in_process_32_callers": report(&together),
        "recall_served_32_connections": report(&served_together),
        "recall_ratio": served_together.per_second / together.per_second,
        "recall_served_1000_per_second": report(&paced),
        "put_in_process_16_callers": report(&puts),
        "put_served_16_connections": report(&served_puts),
        "put_ratio": served_puts.per_second / puts.per_second,
        "chroma": chroma,
    }))
}

/// Measures Chroma's server with the same messages and queries.
fn beside(
    program: &Path,
    args: &Args,
    messages: &[(Namespace, Message)],
    queries: &[(Namespace, String)],
    folder: &Path,
) -> anyhow::Result<Value> {
    let embedder = database::embedder(args.ingest.model.as_deref().unwrap_or(Model::DEFAULT), &Device::Cpu, None)?;
    let chroma = Chroma::start(program, &folder.join("chroma"))?;
    let requests = chroma.fill(&embedder, messages, queries)?;
    let target = Target::new(&chroma.url, &requests, folder, args.seconds)?;
    target.load(Kind::Recall, 1)?;
    Ok(json!({
        "recall": report(&target.load(Kind::Recall, 1)?),
        "recall_32_connections": report(&target.load(Kind::Recall, CONNECTIONS)?),
        "recall_1000_per_second": report(&target.load(Kind::Paced, PACED)?),
        "put_16_connections": report(&target.load(Kind::Put, WRITERS)?),
    }))
}

/// Returns the requests for `mnemon serve`.
fn requests(queries: &[(Namespace, String)]) -> Requests {
    let recalls = queries.iter().map(|(namespace, text)| {
        let path = format!("/v1/namespaces/{}/recall", namespace.as_str().replace('%', "%25").replace('/', "%2F"));
        (path, json!({ "query": text }).to_string())
    });
    Requests {
        recalls: recalls.collect(),
        put_path: "/v1/namespaces/bench%2Fputs/messages".to_owned(),
        put_begin: r#"{"messages": [{"role": "user", "content": "Note "#.to_owned(),
        put_ends: vec![r#": the bridge opens at nine and the ferry leaves at ten."}]}"#.to_owned()],
    }
}

fn report(load: &Load) -> Value {
    json!({
        "per_second": load.per_second.round(), "p50_us": load.p50_us.round(), "p99_us": load.p99_us.round(), "failed": load.failed,
    })
}

/// Measures recalls of so many callers in this process.
fn recalls(
    engine: &Engine,
    queries: &[(Namespace, String)],
    callers: usize,
    duration: Duration,
) -> anyhow::Result<Load> {
    for query in queries {
        engine.blocking().recall(&query.0, Query::new(&query.1))?;
    }
    measure(callers, duration, |at| {
        let (namespace, text) = &queries[at % queries.len()];
        engine.blocking().recall(namespace, Query::new(text)).map(drop)
    })
}

/// Measures puts of one message each.
fn puts(engine: &Engine, duration: Duration) -> anyhow::Result<Load> {
    let namespace: Namespace = "bench/puts".parse()?;
    measure(WRITERS, duration, |at| engine.blocking().put(&namespace, vec![Message::user(note(at))]).map(drop))
}

fn note(at: usize) -> String {
    format!("Note {at}: the bridge opens at nine and the ferry leaves at ten.")
}

/// Calls as fast as so many threads can, for a time.
fn measure(
    callers: usize,
    duration: Duration,
    call: impl Fn(usize) -> mnemon::Result<()> + Sync,
) -> anyhow::Result<Load> {
    let (next, started) = (AtomicUsize::new(0), Instant::now());
    let caller = || -> mnemon::Result<Times> {
        let mut times = Times::default();
        while started.elapsed() < duration {
            times.time(|| call(next.fetch_add(1, Ordering::Relaxed)))?;
        }
        Ok(times)
    };
    let times = std::thread::scope(|scope| {
        let callers: Vec<_> = (0..callers).map(|_| scope.spawn(caller)).collect();
        callers.into_iter().map(|caller| caller.join().expect("no caller panics")).collect::<Result<Vec<_>, _>>()
    })?;
    let elapsed = started.elapsed().as_secs_f64();
    let times = Times(times.into_iter().flat_map(|times| times.0).collect());
    let per_second = times.len() as f64 / elapsed;
    Ok(Load { per_second, p50_us: times.percentile(0.5), p99_us: times.percentile(0.99), failed: 0 })
}

/// `mnemon serve` in a process of its own, ended when this is dropped.
struct Server {
    child: Child,
    url: String,
}

impl Server {
    fn start(db: &Path, folder: &Path) -> anyhow::Result<Self> {
        let mut command = usage::this_program()?;
        command.args(["--format", "json", "serve", "--journal", "0", "--listen", "127.0.0.1:0", "--db"]).arg(db);
        let mut child =
            command.env("XDG_RUNTIME_DIR", folder).stderr(Stdio::piped()).spawn().context("starting the server")?;
        let mut line = String::new();
        BufReader::new(child.stderr.take().context("the server has no stderr")?).read_line(&mut line)?;
        let event: Value = serde_json::from_str(&line).with_context(|| format!("the server says {line:?}"))?;
        let url = event["listening"].as_str().with_context(|| format!("the server says {line:?}"))?.to_owned();
        Ok(Server { child, url })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
