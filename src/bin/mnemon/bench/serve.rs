//! `mnemon bench serve`

use std::{
    fs,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicUsize, Ordering},
    time::{Duration, Instant},
};

use anyhow::{Context, bail, ensure};
use mnemon::{Engine, IndexKind, Message, Namespace, Query};
use serde_json::{Value, json};

use super::{ingest_options::IngestOptions, sample};
use crate::{input, metrics::percentile, output, program, usage};

/// Connections that ask as fast as they are answered.
const CONNECTIONS: usize = 32;
/// Connections that put.
const WRITERS: usize = 16;
/// Connections of the constant rate, and its requests a second.
const PACED: usize = 16;
const RATE: usize = 1000;

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
}

/// The rate, the latencies and the failures of a load.
struct Load {
    per_second: f64,
    p50_us: f64,
    p99_us: f64,
    failed: u64,
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let messages = args.ingest.messages()?;
    let queries: Vec<(Namespace, String)> = match &args.queries {
        None if args.ingest.has_file() => sample::spread(&messages, 500),
        file => sample::queries(file.as_deref())?.into_iter().map(|line| (line.namespace, line.query)).collect(),
    };
    ensure!(!queries.is_empty(), "there are no queries");
    let (engine, path, folder) =
        input::temporary(args.ingest.model.as_deref(), args.ingest.index, args.ingest.precision)?;
    let count = messages.len();
    engine.blocking().put_all(messages)?;
    engine.blocking().flush()?;
    let duration = Duration::from_secs(args.seconds as u64);

    // The library as the server uses it: the same settings, opened anew.
    drop(engine);
    let engine = input::engine(&path, args.ingest.model.as_deref(), input::config(IndexKind::Auto), false)?;
    let alone = recalls(&engine, &queries, 1, duration)?;
    let together = recalls(&engine, &queries, CONNECTIONS, duration)?;
    let puts = puts(&engine, duration)?;
    drop(engine);

    let server = Server::start(&path, folder.path())?;
    let script = folder.path().join("load.lua");
    fs::write(&script, script_text(&queries)?)?;
    let load = |connections, kind: &str| server.load(&script, connections, kind, args.seconds);
    load(1, "recall")?;
    let served_alone = load(1, "recall")?;
    let served_together = load(CONNECTIONS, "recall")?;
    let paced = load(PACED, "paced")?;
    let served_puts = load(WRITERS, "put")?;
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
    }))
}

fn report(load: &Load) -> Value {
    json!({
        "per_second": load.per_second.round(), "p50_us": load.p50_us.round(), "p99_us": load.p99_us.round(), "failed": load.failed,
    })
}

/// Recalls of so many callers in this process.
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

/// Puts of one message each.
fn puts(engine: &Engine, duration: Duration) -> anyhow::Result<Load> {
    let namespace: Namespace = "bench/puts".parse()?;
    measure(WRITERS, duration, |at| engine.blocking().put(&namespace, vec![Message::user(note(at))]).map(drop))
}

fn note(at: usize) -> String {
    format!("Note {at}: the bridge opens at nine and the ferry leaves at ten.")
}

/// Calls as fast as so many threads can.
fn measure(
    callers: usize,
    duration: Duration,
    call: impl Fn(usize) -> mnemon::Result<()> + Sync,
) -> anyhow::Result<Load> {
    let (next, started) = (AtomicUsize::new(0), Instant::now());
    let caller = || -> mnemon::Result<Vec<f64>> {
        let mut times = Vec::new();
        while started.elapsed() < duration {
            let before = Instant::now();
            call(next.fetch_add(1, Ordering::Relaxed))?;
            times.push(before.elapsed().as_secs_f64() * 1e6);
        }
        Ok(times)
    };
    let times = std::thread::scope(|scope| {
        let callers: Vec<_> = (0..callers).map(|_| scope.spawn(caller)).collect();
        callers.into_iter().map(|caller| caller.join().expect("no caller panics")).collect::<Result<Vec<_>, _>>()
    })?;
    let elapsed = started.elapsed().as_secs_f64();
    let mut times = times.concat();
    times.sort_by(f64::total_cmp);
    let per_second = times.len() as f64 / elapsed;
    Ok(Load { per_second, p50_us: percentile(&times, 0.5), p99_us: percentile(&times, 0.99), failed: 0 })
}

/// `mnemon serve` in a process of its own, ended when this is dropped.
struct Server {
    child: Child,
    url: String,
}

impl Server {
    fn start(db: &Path, folder: &Path) -> anyhow::Result<Self> {
        let mut command = program::again()?;
        command.args(["--format", "json", "serve", "--journal", "0", "--listen", "127.0.0.1:0", "--db"]).arg(db);
        let mut child =
            command.env("XDG_RUNTIME_DIR", folder).stderr(Stdio::piped()).spawn().context("starting the server")?;
        let mut line = String::new();
        BufReader::new(child.stderr.take().context("the server has no stderr")?).read_line(&mut line)?;
        let event: Value = serde_json::from_str(&line).with_context(|| format!("the server says {line:?}"))?;
        let url = event["listening"].as_str().with_context(|| format!("the server says {line:?}"))?.to_owned();
        Ok(Server { child, url })
    }

    /// Lets wrk ask the server, on one thread: the other core is the server's.
    fn load(&self, script: &Path, connections: usize, kind: &str, seconds: usize) -> anyhow::Result<Load> {
        let mut wrk = Command::new("wrk");
        wrk.args(["--threads", "1", "--connections", &connections.to_string(), "--duration", &format!("{seconds}s")]);
        let output = wrk.arg("--script").arg(script).arg(&self.url).arg(kind).output();
        let output = output.context("running wrk, the load generator; install it (`apt-get install wrk`)")?;
        let text = String::from_utf8_lossy(&output.stdout);
        let Some(result) = text.lines().find(|line| line.starts_with('{')) else {
            bail!("wrk: {text}{}", String::from_utf8_lossy(&output.stderr));
        };
        let result: Value = serde_json::from_str(result)?;
        let number = |name: &str| result[name].as_f64().with_context(|| format!("wrk reports no {name}"));
        Ok(Load {
            per_second: number("requests")? / number("elapsed_us")? * 1e6,
            p50_us: number("p50_us")?,
            p99_us: number("p99_us")?,
            failed: number("failed")? as u64,
        })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The script of wrk: the requests, one after the other, and the report as JSON.
fn script_text(queries: &[(Namespace, String)]) -> anyhow::Result<String> {
    let mut requests = String::new();
    for (namespace, text) in queries {
        let path = format!("/v1/namespaces/{}/recall", namespace.as_str().replace('%', "%25").replace('/', "%2F"));
        let body = serde_json::to_string(&json!({ "query": text }))?;
        // JSON's escapes of a string are Lua's, but for \/ and \u, which serde_json does not write for what is printable.
        requests += &format!("  {{{}, {}}},\n", serde_json::to_string(&path)?, serde_json::to_string(&body)?);
    }
    Ok(format!(
        r#"local queries = {{
{requests}}}
local headers = {{["Content-Type"] = "application/json"}}
local kind, at, failed = "recall", 0, 0
function init(args)
  kind = args[1] or kind
  if kind == "paced" then
    function delay() return {PACED} * 1000 / {RATE} end
  end
end
function request()
  at = at + 1
  if kind == "put" then
    local body = '{{"messages": [{{"role": "user", "content": "Note ' .. at .. ': the bridge opens at nine and the ferry leaves at ten."}}]}}'
    return wrk.format("POST", "/v1/namespaces/bench%2Fputs/messages", headers, body)
  end
  local query = queries[at % #queries + 1]
  return wrk.format("POST", query[1], headers, query[2])
end
function done(summary, latency, requests)
  local errors = summary.errors
  local failed = errors.connect + errors.read + errors.write + errors.status + errors.timeout
  io.write(string.format('\n{{"requests": %d, "elapsed_us": %d, "p50_us": %d, "p99_us": %d, "failed": %d}}\n',
    summary.requests, summary.duration, latency:percentile(50), latency:percentile(99), failed))
end
"#
    ))
}
