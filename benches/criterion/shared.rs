//! A shared database of Postgres beside a file of its own, and beside a bare INSERT, on a server that this program starts
//! (`make postgres` fetches it).
//!
//! Run with `make bench-postgres`. `--short` does little of each, to see that it works; a name of a part, such as `puts`,
//! does that alone. `sample` is for `tests/compat/bench_shared.py`, which measures others on the same server: it needs the
//! server's address and a path for its report in `MNEMON_BENCH_ADDRESS` and `MNEMON_BENCH_REPORT`.

#[path = "../../tests/it/support/postgres.rs"]
#[allow(dead_code)]
mod postgres;

use std::{
    path::{Path, PathBuf},
    sync::Barrier,
    time::{Duration, Instant},
};

use mnemon::{Config, Engine, Freshness, Message, Namespace, Query, Result};

fn skipped(what: &str) {
    eprintln!("SKIPPED {what}");
}

fn root(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path)
}

fn main() -> Result<()> {
    let is_short = std::env::args().any(|argument| argument == "--short");
    // `cargo bench` adds an argument of its own.
    let only = std::env::args().skip(1).find(|argument| !argument.starts_with("--"));
    if only.as_deref() == Some("sample") {
        let given = |name| std::env::var(name).expect(name);
        return sample(&given("MNEMON_BENCH_ADDRESS"), given("MNEMON_BENCH_REPORT").as_ref());
    }
    let Some(server) = postgres::Server::start(&["fsync=on"]) else { return Ok(()) };
    let address = server.database();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let bench = Bench { address, folder, puts: if is_short { 50 } else { 2000 }, texts: texts() };
    let wants = |name: &str| only.as_ref().is_none_or(|only| only == name);
    if wants("puts") {
        bench.puts()?;
    }
    if wants("groups") {
        bench.groups()?;
    }
    if wants("recalls") {
        bench.recalls(if is_short { 20 } else { 2000 })?;
    }
    if wants("cold") {
        bench.cold(if is_short { 500 } else { 10_000 })?;
    }
    if wants("machines") {
        bench.machines()?;
    }
    if wants("contention") {
        bench.contention()?;
    }
    Ok(())
}

struct Bench {
    address: String,
    folder: tempfile::TempDir,
    puts: usize,
    texts: Vec<String>,
}

impl Bench {
    fn shared(&self, name: &str, freshness: Freshness) -> Result<Engine> {
        let path = self.folder.path().join(format!("{name}.redb"));
        Engine::builder(path).config(quiet()).shared(&self.address).freshness(freshness).open()
    }

    fn message(&self, number: usize) -> Message {
        let text = &self.texts[number % self.texts.len()];
        Message::user(format!("{text} ({number})")).with_id(format!("m{number}")).in_session("s")
    }

    /// One durable message at a time: a bare INSERT, the shared engine, and an engine with a file of its own, in turn.
    fn puts(&self) -> Result<()> {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
        let (client, connection) =
            runtime.block_on(tokio_postgres::connect(&self.address, tokio_postgres::NoTls)).expect("a connection");
        runtime.spawn(connection);
        let table =
            "CREATE TABLE bare (namespace text, seq bigint, id text, content text, PRIMARY KEY (namespace, seq))";
        runtime.block_on(client.batch_execute(table)).expect("a table");
        let insert =
            runtime.block_on(client.prepare("INSERT INTO bare VALUES ('n', $1, $2, $3)")).expect("a statement");
        let select = runtime.block_on(client.prepare("SELECT content FROM bare WHERE seq = $1 AND namespace = 'n'"));
        let select = select.expect("a statement");
        let shared = self.shared("puts", Freshness::default())?;
        let own = Engine::builder(self.folder.path().join("own.redb")).config(quiet()).open()?;
        let space: Namespace = "bench/puts".parse()?;
        let (mut bare, mut trips, mut ours, mut file) = (vec![], vec![], vec![], vec![]);
        for number in 0..self.puts {
            let message = self.message(number);
            bare.push(timed(|| {
                let (number, id, text) = (number as i64, &message.id, message.text());
                runtime.block_on(client.execute(&insert, &[&number, id, &text])).expect("an insert");
            }));
            trips.push(timed(|| drop(runtime.block_on(client.query(&select, &[&(number as i64)])).expect("a row"))));
            let (one, other) = (message.clone(), message);
            ours.push(timed(|| _ = shared.blocking().put(&space, vec![one]).expect("a put")));
            file.push(timed(|| _ = own.blocking().put(&space, vec![other]).expect("a put")));
        }
        print("INSERT of one row, committed", &mut bare);
        print("SELECT of one row: a round trip", &mut trips);
        print("put of one message, shared", &mut ours);
        print("put of one message, a file of its own", &mut file);
        println!("put, shared, less the INSERT: {:.2} ms", median(&mut ours) - median(&mut bare));
        Ok(())
    }

    /// Many callers at a time: they share transactions.
    fn groups(&self) -> Result<()> {
        let engine = self.shared("groups", Freshness::default())?;
        for callers in [1, 4, 16] {
            let each = self.puts / 4;
            let rate = rate(callers, each, |caller, number| {
                let space: Namespace = format!("bench/group-{callers}-{caller}").parse().expect("a namespace");
                engine.blocking().put(&space, vec![self.message(number)]).expect("a put");
            });
            println!("{callers:>2} callers of one engine, a namespace each: {rate:.0} puts/s");
        }
        Ok(())
    }

    /// Recalls in a namespace of 600 messages.
    fn recalls(&self, count: usize) -> Result<()> {
        let writer = self.shared("writer", Freshness::default())?;
        let own = Engine::builder(self.folder.path().join("recalls.redb")).config(quiet()).open()?;
        let space: Namespace = "bench/recalls".parse()?;
        let messages: Vec<Message> = (0..600).map(|number| self.message(number)).collect();
        writer.blocking().put(&space, messages.clone())?;
        own.blocking().put(&space, messages)?;
        writer.blocking().flush()?;
        own.blocking().flush()?;
        let reader = self.shared("reader", Freshness::default())?;
        let kinds = [
            ("recall, a file of its own", &own, Freshness::Local),
            ("recall, shared, Local", &reader, Freshness::Local),
            ("recall, shared, Within(1 s)", &reader, Freshness::default()),
            ("recall, shared, Latest", &reader, Freshness::Latest),
        ];
        let mut times = vec![Vec::new(); kinds.len()];
        for number in 0..count {
            for ((_, engine, freshness), times) in kinds.iter().zip(&mut times) {
                let query = Query::new(&*self.texts[number % self.texts.len()]).freshness(*freshness);
                times.push(timed(|| drop(engine.blocking().recall(&space, query).expect("a recall"))));
            }
        }
        for ((name, ..), times) in kinds.iter().zip(&mut times) {
            print(name, times);
        }
        Ok(())
    }

    /// A namespace that a new machine is asked for.
    fn cold(&self, count: usize) -> Result<()> {
        let writer = self.shared("cold", Freshness::default())?;
        let space: Namespace = "bench/cold".parse()?;
        for messages in (0..count).collect::<Vec<_>>().chunks(1000) {
            writer.blocking().put(&space, messages.iter().map(|number| self.message(*number)).collect())?;
        }
        writer.blocking().flush()?;
        let (mut pulls, mut recalls) = (Vec::new(), Vec::new());
        for round in 0..5 {
            let engine = self.shared(&format!("cold-{round}"), Freshness::Latest)?;
            pulls.push(timed(|| drop(engine.blocking().get(&space, "m7").expect("a get"))));
            recalls.push(timed(|| drop(engine.blocking().recall(&space, Query::new("a boat")).expect("a recall"))));
        }
        print(&format!("pull of {count} messages with their vectors by a new machine"), &mut pulls);
        print("its first recall afterwards", &mut recalls);
        Ok(())
    }

    /// Two machines beside one.
    fn machines(&self) -> Result<()> {
        let engines = [self.shared("one", Freshness::default())?, self.shared("two", Freshness::default())?];
        let each = self.puts / 2;
        let mut rates = Vec::new();
        for machines in [1, 2] {
            let before = cpu();
            // Each does its puts twice: to warm up, and measured.
            let rate = rate(machines, each, |machine, number| {
                let space: Namespace = format!("bench/machine-{machines}-{machine}").parse().expect("a namespace");
                engines[machine].blocking().put(&space, vec![self.message(number)]).expect("a put");
            });
            let cpu = cpu().zip(before).map(|(now, before)| (now - before) * 1000.0 / (machines * each * 2) as f64);
            let cpu = cpu.map(|ms| format!(", {ms:.3} ms of CPU a put, with Postgres'")).unwrap_or_default();
            println!("{machines} machines, one caller and namespace each: {rate:.0} puts/s{cpu}");
            rates.push(rate);
        }
        println!("two machines to one: {:.2} times", rates[1] / rates[0]);
        Ok(())
    }
}

impl Bench {
    /// Two machines with two callers each, who put to one namespace.
    fn contention(&self) -> Result<()> {
        let engines = ["left", "right"].map(|name| self.shared(name, Freshness::default()).expect("an engine"));
        let space: Namespace = "bench/contention".parse()?;
        let (engines, space) = (&engines, &space);
        let puts = |caller: usize| {
            let put = move |number| {
                let message = self.message(number).in_session(format!("{caller}"));
                timed(|| {
                    _ = engines[caller % 2]
                        .blocking()
                        .put(space, vec![Message { id: format!("{caller}-{number}"), ..message }])
                        .expect("a put")
                })
            };
            (0..self.puts / 2).map(put).collect::<Vec<_>>()
        };
        let mut times: Vec<Duration> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|caller| scope.spawn(move || puts(caller))).collect();
            threads.into_iter().flat_map(|thread| thread.join().expect("a thread")).collect()
        });
        let count = engines[0].blocking().recall(space, Query::new("a boat").freshness(Freshness::Latest))?.version();
        print("2 machines of 2 callers, one namespace: a put", &mut times);
        let longest = times.last().expect("a put").as_secs_f64();
        println!(
            "the longest of {} puts: {longest:.3} s; none failed; version {}",
            times.len(),
            count.unwrap_or_default()
        );
        Ok(())
    }
}

/// The sample's messages, put one by one, and its questions. Writes the figures, and the vectors of all texts, so that
/// others have the same.
fn sample(address: &str, report: &Path) -> Result<()> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let engine = Engine::builder(folder.path().join("sample.redb")).config(quiet()).shared(address).open()?;
    let lines = |name: &str| -> Vec<serde_json::Value> {
        let lines = std::fs::read_to_string(root("datasets/sample").join(name)).expect("the sample");
        lines.lines().map(|line| serde_json::from_str(line).expect("a line")).collect()
    };
    let (mut vectors, mut puts, mut searches) = (serde_json::Map::new(), Vec::new(), Vec::new());
    for line in lines("messages.jsonl") {
        let line = mnemon::MessageLine::parse(&line.to_string())?;
        let text = line.message.text();
        vectors.insert(text.clone(), engine.embedder().embed_documents(&[&text])?.remove(0).into());
        let space = line.namespace.expect("a namespace");
        puts.push(timed(|| _ = engine.blocking().put(&space, vec![line.message]).expect("a put")));
    }
    let began = Instant::now();
    engine.blocking().flush()?;
    let flush_ms = began.elapsed().as_secs_f64() * 1000.0;
    let (mut found, mut questions) = (0.0, 0);
    for line in lines("queries.jsonl") {
        let text = line["query"].as_str().expect("a question");
        vectors.insert(text.to_owned(), engine.embedder().embed_query(text)?.into());
        let space: Namespace = line["namespace"].as_str().expect("a namespace").parse()?;
        let relevant = line["relevant"].as_array().expect("ids");
        let mut hits = None;
        searches
            .push(timed(|| hits = Some(engine.blocking().recall(&space, Query::new(text).k(10)).expect("a recall"))));
        if !relevant.is_empty() {
            let hits = hits.expect("measured above");
            let is_found =
                |id: &&serde_json::Value| hits.iter().any(|hit| Some(hit.message.id.as_str()) == id.as_str());
            found += relevant.iter().filter(is_found).count() as f64 / relevant.len() as f64;
            questions += 1;
        }
    }
    let figures = serde_json::json!({
        "put_p50_ms": median(&mut puts), "flush_ms": flush_ms, "search_p50_ms": median(&mut searches),
        "recall_at_10": found / f64::from(questions), "vectors": vectors,
    });
    std::fs::write(report, figures.to_string()).expect("a report");
    Ok(())
}

/// The default settings, without embedding in the background.
fn quiet() -> Config {
    let mut config = Config::default();
    config.idle_flush = None;
    config.flush_size = 100_000;
    config
}

fn texts() -> Vec<String> {
    let lines = std::fs::read_to_string(root("datasets/sample/messages.jsonl")).expect("the sample");
    lines.lines().map(|line| mnemon::MessageLine::parse(line).expect("a message").message.text()).collect()
}

/// Runs `work(caller, number)` on as many threads, and returns the runs per second.
fn rate(callers: usize, each: usize, work: impl Fn(usize, usize) + Sync) -> f64 {
    let (barrier, work) = (Barrier::new(callers + 1), &work);
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..callers)
            .map(|caller| {
                let barrier = &barrier;
                scope.spawn(move || {
                    work(caller, each);
                    barrier.wait();
                    (0..each).for_each(|number| work(caller, number));
                })
            })
            .collect();
        barrier.wait();
        let began = Instant::now();
        threads.into_iter().for_each(|thread| thread.join().expect("a thread"));
        (callers * each) as f64 / began.elapsed().as_secs_f64()
    })
}

/// The seconds of CPU that this process and the server's have used, where the system says so.
fn cpu() -> Option<f64> {
    let mut ticks = 0;
    for process in std::fs::read_dir("/proc").ok()?.flatten() {
        let Ok(stat) = std::fs::read_to_string(process.path().join("stat")) else { continue };
        let (name, fields) = stat.split_once('(')?.1.rsplit_once(") ")?;
        if name == "postgres" || process.file_name().to_str() == Some(&std::process::id().to_string()) {
            // Of the process in user mode and in the kernel, and of its children that have ended.
            ticks += fields.split(' ').skip(11).take(4).filter_map(|field| field.parse::<u64>().ok()).sum::<u64>();
        }
    }
    Some(ticks as f64 / 100.0)
}

fn timed(work: impl FnOnce()) -> Duration {
    let began = Instant::now();
    work();
    began.elapsed()
}

/// The median in milliseconds.
fn median(times: &mut [Duration]) -> f64 {
    times.sort();
    times[times.len() / 2].as_secs_f64() * 1000.0
}

fn print(name: &str, times: &mut [Duration]) {
    let median = median(times);
    let high = times[(times.len() * 99 / 100).min(times.len() - 1)].as_secs_f64() * 1000.0;
    println!("{name}: p50 {median:.3} ms, p99 {high:.3} ms");
}
