//! A constant mixed load for a long time, in a process with limits: what it stores does not grow, and neither do its
//! memory, its file, its threads and its open files.
//!
//! `MNEMON_SOAK_SECONDS` sets the length; default 6.

use std::{
    fs,
    path::Path,
    process::Command,
    sync::Arc,
    time::{Duration, Instant},
};

use mnemon::{Config, DocumentOptions, DocumentSearch, Engine, Message, Query};
use serde_json::json;

use crate::support::{Db, Hashing, children, message, namespace, skipped, words};

/// The variable that tells the child its database.
const CHILD: &str = "MNEMON_SOAK_CHILD";
/// Messages of a namespace; the oldest are deleted.
const LIVE: u64 = 600;

/// What a process takes.
#[derive(Clone, Copy, Debug)]
struct Usage {
    memory_kib: u64,
    file_kib: u64,
    threads: u64,
    descriptors: u64,
}

impl Usage {
    fn now(database: &Path) -> Self {
        let status = fs::read_to_string("/proc/self/status").unwrap();
        let field = |name: &str| -> u64 {
            let line = status.lines().find(|line| line.starts_with(name)).unwrap();
            line.split_whitespace().nth(1).unwrap().parse().unwrap()
        };
        Usage {
            memory_kib: field("VmRSS:"),
            file_kib: fs::metadata(database).unwrap().len() / 1024,
            threads: field("Threads:"),
            descriptors: fs::read_dir("/proc/self/fd").unwrap().count() as u64,
        }
    }

    /// The largest of each.
    fn max(self, other: Self) -> Self {
        Usage {
            memory_kib: self.memory_kib.max(other.memory_kib),
            file_kib: self.file_kib.max(other.file_kib),
            threads: self.threads.max(other.threads),
            descriptors: self.descriptors.max(other.descriptors),
        }
    }
}

#[test]
fn a_constant_load_takes_constant_space() {
    if !Path::new("/proc/self/status").exists() {
        return skipped("the soak: it reads what its process takes from /proc");
    }
    let db = Db::new();
    let test = children::command(module_path!(), "child");
    let mut command = Command::new("sh");
    // 4 GiB of addresses, 64 open files.
    command.args(["-c", "ulimit -v 4194304; ulimit -n 64; exec \"$0\" \"$@\""]);
    command.arg(test.get_program()).args(test.get_args()).env(CHILD, &db.path);
    let output = command.output().unwrap();
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{}\n{stdout}\n{stderr}", output.status);
    eprintln!("{}", stdout.lines().filter(|line| line.contains(" s: ")).collect::<Vec<_>>().join("\n"));
    db.assert_sound();
}

#[test]
#[ignore = "the process that a_constant_load_takes_constant_space starts"]
fn child() {
    let path = std::env::var(CHILD).expect("a test starts this process");
    let path = Path::new(&path);
    let seconds = std::env::var("MNEMON_SOAK_SECONDS").map_or(6, |seconds| seconds.parse().unwrap());
    let length = Duration::from_secs(seconds);
    let mut config = Config::default();
    (config.flush_size, config.exact_threshold, config.memory_budget) = (100, 200, 64 << 20);
    let engine = Engine::builder(path).config(config).embedder(Arc::new(Hashing::new(32))).open().unwrap();
    let begun = Instant::now();
    // All namespaces are full, and the graphs were changed more often than they have nodes.
    let full = 3 * LIVE / 20;
    let (mut warm, mut later): (Option<Usage>, Option<Usage>) = (None, None);
    let mut next_line = Duration::ZERO;
    for round in 0.. {
        turn(&engine, round);
        let (usage, elapsed) = (Usage::now(path), begun.elapsed());
        // What the second half takes is compared with what the first took.
        let is_warm = round > full && elapsed > length / 2;
        let most = if is_warm { &mut later } else { &mut warm };
        *most = Some(most.map_or(usage, |most| most.max(usage)));
        if elapsed >= next_line {
            println!("\n{} s: {round} rounds, {usage:?}", elapsed.as_secs());
            next_line = elapsed + length / 6;
        }
        if elapsed > length && round > 2 * full {
            break;
        }
    }
    let (warm, later) = (warm.unwrap(), later.unwrap());
    println!("\nat most, s: {warm:?}, then {later:?}");
    assert!(later.memory_kib < warm.memory_kib * 5 / 4 + 32 * 1024, "memory grows: {warm:?}, {later:?}");
    // A small file doubles when one commit needs more pages than are free: twice, if many calls wait for a slow disk.
    assert!(later.file_kib < warm.file_kib * 4 + 1024, "the file grows: {warm:?}, {later:?}");
    assert!(later.threads <= warm.threads + 2, "threads grow: {warm:?}, {later:?}");
    assert!(later.descriptors <= warm.descriptors + 2, "open files grow: {warm:?}, {later:?}");
}

/// One round of the load. It deletes as much as it stores.
fn turn(engine: &Engine, round: u64) {
    let (blocking, space) = (engine.blocking(), namespace(&format!("soak/{}", round % 3)));
    let at = round / 3;
    let id = |number: u64| format!("m{number}");
    let texts = (0..20).map(|i| message(&id(20 * at + i), &format!("topic{} word{i} {}", i % 7, 20 * at + i)));
    blocking.put(&space, texts.collect()).unwrap();
    if 20 * at >= LIVE {
        blocking.delete(&space, (20 * at - LIVE..20 * (at + 1) - LIVE).map(id).collect()).unwrap();
    }
    blocking.recall(&space, Query::new("topic3 word3")).unwrap();
    let documents = engine.documents(&space);
    let options = DocumentOptions::default().ttl_minutes(1.0 / 600.0);
    documents.blocking().put(format!("d{}", at % 50), json!({"text": format!("document {at}")}), options).unwrap();
    documents.blocking().search(DocumentSearch::default().query("document")).unwrap();
    let memory = engine.memory(&space, format!("s{}", at % 5)).message_counter(words()).open().unwrap();
    let memory = memory.blocking();
    memory.put(vec![Message::user(format!("turn {round}")), Message::assistant("said")]).unwrap();
    memory.get(Some(Message::user("what was said?"))).unwrap();
    if at % 20 == 19 {
        memory.reset().unwrap();
    }
    if at % 30 == 29 {
        blocking.delete_session(&space, &format!("s{}", at % 5)).unwrap_or(());
    }
}
