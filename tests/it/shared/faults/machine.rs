//! A machine: a process with an engine that works until it is killed, or told to end, and prints what it did.

use std::{
    io::{BufRead, Write},
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use mnemon::{
    BlockContent, BlockQuery, BufferLimits, Config, DocumentOperation, DocumentOptions, DocumentOutcome, Engine, Error,
    FlushedBatch, Forget, Freshness, Memory, MemoryBlock, Message, Query, Result,
};
use serde_json::{Value, json};

use super::history::{Kind, Operation, Outcome};
use crate::support::{Hashing, below, namespace, words};

/// The number of lists, of namespaces with messages, and of sessions with memory.
pub(super) const LISTS: usize = 3;
pub(super) const TALKS: usize = 3;
pub(super) const MEMORIES: usize = 2;

/// Counts the messages that were flushed.
struct Count;

impl MemoryBlock for Count {
    fn name(&self) -> &str {
        "count"
    }

    fn put(&self, state: &Value, batch: &FlushedBatch<'_>) -> Result<Value> {
        Ok((state.as_u64().unwrap_or(0) + batch.messages.len() as u64).into())
    }

    fn get(&self, state: &Value, _: &BlockQuery) -> Result<BlockContent> {
        Ok(format!("{state} messages").into())
    }
}

pub(super) fn open(path: PathBuf, address: &str) -> Engine {
    let mut config = Config::default();
    config.shared_timeout = Duration::from_secs(2);
    config.idle_flush = Some(Duration::from_millis(50));
    let started = Instant::now();
    loop {
        let builder = Engine::builder(&path).config(config.clone()).embedder(Arc::new(Hashing::new(32)));
        // Postgres may be down just now.
        match builder.shared(address).freshness(Freshness::Latest).open() {
            Ok(engine) => return engine,
            Err(error) if started.elapsed() > Duration::from_secs(60) => panic!("{error}"),
            Err(_) => std::thread::sleep(Duration::from_millis(50)),
        }
    }
}

pub(super) fn memory(engine: &Engine, number: usize) -> Result<Memory> {
    let memory = engine.memory(&namespace(&format!("memory/{number}")), "s");
    memory.limits(BufferLimits::new(60, 0.7, 10).unwrap()).message_counter(words()).block(Count).open()
}

/// Microseconds on the clock that all processes share, which no one sets.
fn now() -> u64 {
    // The only way to it without unsafe code.
    let text = format!("{:?}", Instant::now());
    let field = |name: &str| -> u64 {
        let digits = text.split(name).nth(1).unwrap();
        digits
            .chars()
            .filter(|c| *c != ' ' && *c != ':')
            .take_while(char::is_ascii_digit)
            .collect::<String>()
            .parse()
            .unwrap()
    };
    field("tv_sec") * 1_000_000 + field("tv_nsec") / 1000
}

/// Prints an operation in two lines, and runs it between them.
fn run(number: &mut u64, kind: impl FnOnce() -> (String, Value), work: impl FnOnce() -> Result<Value>) {
    *number += 1;
    let (name, arguments) = kind();
    say(&json!({"begin": *number, "at": now(), "kind": name, "arguments": arguments}));
    let outcome = match work() {
        Ok(value) => json!({"acknowledged": value}),
        Err(Error::OutcomeUnknown { .. }) => json!("unknown"),
        Err(error @ (Error::SharedDatabase { .. } | Error::DocumentChanged { .. })) => {
            json!({"failed": error.to_string()})
        }
        Err(error) => panic!("{name}: {error}"),
    };
    say(&json!({"end": *number, "at": now(), "outcome": outcome}));
}

fn say(line: &Value) {
    let mut stdout = std::io::stdout().lock();
    writeln!(stdout, "\nop {line}").unwrap();
    stdout.flush().unwrap();
}

/// Works until standard input ends.
pub(super) fn work(path: PathBuf, address: &str, name: &str, seed: u64) {
    let engine = open(path, address);
    println!("\nopen");
    let is_over = Arc::new(AtomicBool::new(false));
    let over = Arc::clone(&is_over);
    std::thread::spawn(move || {
        let _ = std::io::stdin().lock().read_line(&mut String::new());
        over.store(true, Ordering::SeqCst);
    });
    let (mut state, mut number, mut mine) = (seed, 0, Vec::<(usize, String)>::new());
    while !is_over.load(Ordering::SeqCst) {
        step(&engine, name, seed, &mut state, &mut number, &mut mine);
    }
    drop(engine);
    println!("\nclosed");
}

fn step(engine: &Engine, name: &str, seed: u64, state: &mut u64, number: &mut u64, mine: &mut Vec<(usize, String)>) {
    let blocking = engine.blocking();
    let token = format!("{name}-{seed}-{number}");
    let list = below(state, LISTS);
    let space = namespace(&format!("list/{list}"));
    let read = |engine: &Engine| -> Result<Vec<Value>> {
        let outcomes = engine.blocking().document_batch(vec![DocumentOperation::Get {
            namespace: space.clone(),
            key: "list".into(),
            refresh_ttl: false,
        }])?;
        Ok(match &outcomes[0] {
            DocumentOutcome::Got(Some(document)) => document.value["tokens"].as_array().unwrap().clone(),
            _ => Vec::new(),
        })
    };
    let talk = below(state, TALKS);
    let talking = namespace(&format!("talk/{talk}"));
    match below(state, 16) {
        0..5 => run(
            number,
            || ("append".into(), json!([space.to_string(), token])),
            || {
                let old = read(engine)?;
                let mut new = old.clone();
                new.push(token.clone().into());
                let value = |tokens: Vec<Value>| json!({"tokens": tokens, "text": format!("list of {}", tokens.len())});
                let expected = (!old.is_empty()).then(|| value(old));
                let (namespace, key) = (space.clone(), "list".to_owned());
                let expect =
                    DocumentOperation::Expect { namespace: namespace.clone(), key: key.clone(), value: expected };
                let options = DocumentOptions::default();
                let put = DocumentOperation::Put { namespace, key, value: value(new), options };
                blocking.document_batch(vec![expect, put]).map(|_| Value::Null)
            },
        ),
        5..7 => run(number, || ("read".into(), json!([space.to_string()])), || read(engine).map(Value::from)),
        7..10 => {
            let id = format!("{talk}:{token}");
            mine.push((talk, id.clone()));
            let content = format!("content of {token}");
            let message = Message::user(&*content).with_id(&*id).in_session("s");
            let put = || blocking.put(&talking, vec![message]).map(|_| Value::Null);
            run(number, || ("write".into(), json!([id, content])), put);
        }
        10 if !mine.is_empty() => {
            let (talk, id) = mine[below(state, mine.len())].clone();
            let (space, content) = (namespace(&format!("talk/{talk}")), format!("edited by {token}"));
            let message = Message::user(&*content).with_id(&*id).in_session("s");
            run(
                number,
                || ("write".into(), json!([id, content])),
                || blocking.put(&space, vec![message]).map(|_| Value::Null),
            );
        }
        11 if !mine.is_empty() => {
            // Not written again: a write that is still on its way would be another history.
            let (talk, id) = mine.swap_remove(below(state, mine.len()));
            let space = namespace(&format!("talk/{talk}"));
            let forgets = below(state, 2) == 0;
            run(
                number,
                || ("delete".into(), json!([id])),
                || match forgets {
                    true => blocking.forget(Forget::messages(&space, [id.clone()])).map(|_| Value::Null),
                    false => blocking.delete(&space, vec![id.clone()]).map(|_| Value::Null),
                },
            );
        }
        12 => run(number, || ("flush".into(), Value::Null), || blocking.flush().map(|_| Value::Null)),
        13 => {
            let freshness = if below(state, 2) == 0 { Freshness::Latest } else { Freshness::Local };
            let query = Query::new("content of").k(3).freshness(freshness);
            run(number, || ("recall".into(), json!([talk])), || blocking.recall(&talking, query).map(|_| Value::Null));
        }
        _ => {
            let memory_number = below(state, MEMORIES);
            let checkpoint = below(state, 8) == 0;
            run(
                number,
                || ("remember".into(), json!([memory_number, token])),
                || {
                    let memory = memory(engine, memory_number)?;
                    memory
                        .blocking()
                        .put(vec![Message::user(format!("{token} said ten words or so in this long turn"))])?;
                    if checkpoint {
                        memory.blocking().checkpoint(token.clone())?;
                    }
                    Ok(Value::Null)
                },
            );
        }
    }
}

/// Reads what a machine printed.
pub(super) fn operations(machine: &str, lines: &[String]) -> Vec<Operation> {
    let mut open: Option<(u64, Value)> = None;
    let mut operations = Vec::new();
    let parsed = lines.iter().filter_map(|line| serde_json::from_str::<Value>(line.strip_prefix("op ")?).ok());
    for line in parsed {
        if line["begin"].is_u64() {
            open = Some((line["at"].as_u64().unwrap(), line));
        } else if let Some((begin, begun)) = open.take() {
            let end = line["at"].as_u64().unwrap();
            operations.extend(operation(machine, begin, end, &begun, &line["outcome"]));
        }
    }
    if let Some((begin, begun)) = open {
        operations.extend(operation(machine, begin, u64::MAX, &begun, &json!("unknown")));
    }
    operations
}

fn operation(machine: &str, begin: u64, end: u64, begun: &Value, outcome: &Value) -> Option<Operation> {
    let text = |at: usize| begun["arguments"][at].as_str().unwrap().to_owned();
    let kind = match begun["kind"].as_str().unwrap() {
        "append" => Kind::Append { list: text(0), token: text(1) },
        "write" => Kind::Write { id: text(0), content: text(1) },
        "delete" => Kind::Delete { id: text(0) },
        "read" => {
            let tokens = outcome["acknowledged"].as_array();
            let tokens = tokens.into_iter().flatten().map(|token| token.as_str().unwrap().to_owned()).collect();
            Kind::Read { list: text(0), tokens }
        }
        _ => return None,
    };
    let outcome = match outcome {
        Value::String(_) => Outcome::Unknown,
        outcome if outcome.get("failed").is_some() => Outcome::Failed,
        _ => Outcome::Acknowledged,
    };
    let end = if outcome == Outcome::Unknown { u64::MAX } else { end };
    Some(Operation { machine: machine.to_owned(), begin, end, outcome, kind })
}
