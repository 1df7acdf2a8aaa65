//! Three machines and one Postgres: machines are killed, sessions are ended, the server crashes, connections break
//! before and after a commit. What the machines were told is then checked against what is there.
//!
//! `MNEMON_SHARED_FAULTS` sets the number of faults, default 60; `MNEMON_SHARED_SEED` begins another run.
//! `MNEMON_SHARED_OLD` names this test program of an older version: the first machine is of that version then.

mod history;
mod machine;

use std::{
    ffi::OsStr,
    io::{BufRead, BufReader},
    path::PathBuf,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use mnemon::{DocumentOperation, DocumentOutcome, Engine};
use parking_lot::Mutex;

use self::{
    history::{End, Operation, faults},
    machine::{LISTS, MEMORIES, TALKS, memory},
};
use super::proxy::Proxy;
use crate::{
    support::{
        below, namespace,
        postgres::{Server, query, try_query},
        tally::tally,
    },
    transfer,
};

const MACHINES: usize = 3;
const CHILD: &str = "MNEMON_SHARED_MACHINE";

/// A machine that runs, and the lines of all its runs.
struct Machine {
    name: String,
    path: PathBuf,
    runs: u64,
    /// Whether it is of the older version, if there is one.
    is_old: bool,
    /// How wrong its clock is.
    hours: i32,
    child: Option<(Child, ChildStdin)>,
    /// The lines of each run.
    lines: Vec<Arc<Mutex<Vec<String>>>>,
    readers: Vec<thread::JoinHandle<()>>,
}

/// The library that gives a process another time of day, where it is installed.
fn wrong_clock() -> Option<PathBuf> {
    let path = PathBuf::from("/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1");
    path.exists().then_some(path)
}

impl Machine {
    fn start(&mut self, address: &str, seed: u64) {
        let mut command = crate::support::children::command(module_path!(), "a_machine");
        if let Some(old) = std::env::var_os("MNEMON_SHARED_OLD").filter(|_| self.is_old) {
            let arguments: Vec<_> = command.get_args().map(OsStr::to_owned).collect();
            command = Command::new(old);
            command.args(arguments);
        }
        command.env(CHILD, format!("{}#{address}#{}#{}", self.path.display(), self.name, seed * 1000 + self.runs));
        match wrong_clock() {
            Some(library) if self.hours != 0 => {
                command.env("LD_PRELOAD", library).env("FAKETIME", format!("{:+}h", self.hours));
                command.env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
            }
            _ => {}
        }
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn().unwrap();
        self.runs += 1;
        let stdin = child.stdin.take().unwrap();
        let lines = Arc::<Mutex<Vec<String>>>::default();
        self.lines.push(Arc::clone(&lines));
        let stdout: ChildStdout = child.stdout.take().unwrap();
        self.readers.push(thread::spawn(move || {
            BufReader::new(stdout).lines().map_while(|line| line.ok()).for_each(|line| lines.lock().push(line));
        }));
        self.child = Some((child, stdin));
    }

    fn kill(&mut self) {
        if let Some((mut child, _)) = self.child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    /// Tells the machine to end, and waits.
    fn finish(&mut self) {
        if let Some((mut child, stdin)) = self.child.take() {
            drop(stdin);
            assert!(child.wait().unwrap().success(), "{} failed", self.name);
        }
        self.readers.drain(..).for_each(|reader| reader.join().unwrap());
    }

    fn operations(&self) -> Vec<Operation> {
        self.lines.iter().flat_map(|lines| machine::operations(&self.name, &lines.lock())).collect()
    }
}

#[test]
#[ignore = "a child of the tests here"]
fn a_machine() {
    let arguments = std::env::var(CHILD).expect("a test of faults starts this process");
    let [path, address, name, seed] = arguments.split('#').collect::<Vec<_>>()[..] else { panic!("{arguments}") };
    std::panic::set_hook(Box::new(|panic| {
        eprintln!("a machine failed: {panic}");
        std::process::exit(1);
    }));
    machine::work(path.into(), address, name, seed.parse().unwrap());
}

/// What is done to the machines and to Postgres.
fn fault(
    kind: usize,
    state: &mut u64,
    server: &Server,
    proxy: &Proxy,
    machines: &mut [Machine],
    address: &str,
    seed: u64,
) -> &'static str {
    match kind {
        0 => {
            let at = below(state, machines.len());
            machines[at].kill();
            machines[at].start(address, seed);
            "machine killed"
        }
        1 => {
            let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'mnemon'";
            let _ = try_query(&server.address("postgres"), end, &[]);
            "sessions ended"
        }
        2 => {
            server.stop_immediately();
            thread::sleep(Duration::from_millis(below(state, 300) as u64));
            server.run();
            "server crashed"
        }
        3 => {
            proxy.drop_all();
            "connections dropped"
        }
        4 => {
            proxy.delay(Duration::from_millis(1 + below(state, 40) as u64));
            thread::sleep(Duration::from_millis(200));
            proxy.heal();
            "network delayed"
        }
        5 => {
            proxy.cut_after(1 + below(state, 3) as u32);
            "cut after commit"
        }
        6 => {
            proxy.cut_before(1 + below(state, 3) as u32);
            "cut before commit"
        }
        7 => {
            server.freeze(true);
            thread::sleep(Duration::from_millis(100 + below(state, 400) as u64));
            server.freeze(false);
            "server hangs"
        }
        _ => {
            proxy.shut(true);
            proxy.drop_all();
            thread::sleep(Duration::from_millis(below(state, 500) as u64));
            proxy.shut(false);
            "network down"
        }
    }
}

/// Runs machines under faults. Returns what the checker found, and the number of operations. What differs at the end may
/// become equal for so long as `patience`.
fn run(server: &Server, address: &str, count: usize, seed: u64, patience: Duration) -> (Vec<String>, usize) {
    let database = address.rsplit('/').next().unwrap();
    let proxy = Proxy::start(server.port());
    let through = proxy.address(database);
    let folder = tempfile::tempdir().unwrap();
    let mut machines: Vec<Machine> = (0..MACHINES)
        .map(|at| Machine {
            name: format!("m{at}"),
            path: folder.path().join(format!("m{at}.redb")),
            runs: 0,
            is_old: at == 0,
            hours: [0, 5, -30][at % 3],
            child: None,
            lines: Vec::new(),
            readers: Vec::new(),
        })
        .collect();
    machines.iter_mut().for_each(|machine| machine.start(&through, seed));
    thread::sleep(Duration::from_millis(500));
    let mut state = seed;
    let started = Instant::now();
    for _ in 0..count {
        let kind = below(&mut state, 9);
        let name = fault(kind, &mut state, server, &proxy, &mut machines, &through, seed);
        tally(&format!("shared: {name}"), 1);
        thread::sleep(Duration::from_millis(20 + below(&mut state, 150) as u64));
    }
    proxy.heal();
    // Everything comes back by itself.
    thread::sleep(Duration::from_secs(1));
    machines.iter_mut().for_each(Machine::finish);
    let operations: Vec<Operation> = machines.iter().flat_map(Machine::operations).collect();
    let acknowledged =
        operations.iter().filter(|operation| operation.outcome == history::Outcome::Acknowledged).count();
    eprintln!(
        "{count} faults in {:.0} s: {} operations, {acknowledged} acknowledged",
        started.elapsed().as_secs_f64(),
        operations.len()
    );
    tally("shared: operations", operations.len() as u64);
    // A new machine has what is in Postgres.
    let new = machine::open(folder.path().join("new.redb"), address);
    let mut found = faults(&operations, &end(&new));
    found.extend(counts(&new, patience));
    let problems = new.blocking().audit().unwrap().problems;
    found.extend(problems.into_iter().map(|problem| format!("audit: {problem}")));
    for machine in &machines {
        let engine = machine::open(machine.path.clone(), address);
        if let Some(difference) = difference(&engine, &new, patience) {
            found.push(format!("{} has something else than Postgres: {difference}", machine.name));
        }
        engine.blocking().flush().unwrap();
        drop(engine);
        let problems = mnemon::verify(&machine.path).unwrap().problems;
        found.extend(problems.into_iter().map(|problem| format!("{}: {problem}", machine.name)));
    }
    (found, operations.len())
}

/// The first lines in which the exports of two engines differ, if they go on to differ: a session that is idle by the
/// clock of one may be flushed between the two exports.
fn difference(one: &Engine, other: &Engine, patience: Duration) -> Option<String> {
    let started = Instant::now();
    loop {
        let (a, b) = (transfer::export(one), transfer::export(other));
        if a == b {
            return None;
        }
        if started.elapsed() > patience {
            let pair = a.lines().zip(b.lines()).find(|(a, b)| a != b);
            return Some(pair.map_or_else(|| "one has more".to_owned(), |(a, b)| format!("{a}, but there {b}")));
        }
        thread::sleep(Duration::from_millis(200));
    }
}

/// What is there at the end.
fn end(engine: &Engine) -> End {
    let mut end = End::default();
    for list in 0..LISTS {
        let space = namespace(&format!("list/{list}"));
        let get = DocumentOperation::Get { namespace: space.clone(), key: "list".into(), refresh_ttl: false };
        let outcome = engine.blocking().document_batch(vec![get]).unwrap().pop().unwrap();
        let tokens = match outcome {
            DocumentOutcome::Got(Some(document)) => {
                let tokens = document.value["tokens"].as_array().unwrap();
                tokens.iter().map(|token| token.as_str().unwrap().to_owned()).collect()
            }
            _ => Vec::new(),
        };
        end.lists.insert(space.to_string(), tokens);
    }
    for talk in 0..TALKS {
        let space = namespace(&format!("talk/{talk}"));
        for message in engine.blocking().history(&space, "s").unwrap() {
            end.messages.insert(message.id.clone(), message.text());
        }
    }
    end
}

/// Checks that each batch was counted once.
fn counts(engine: &Engine, patience: Duration) -> Vec<String> {
    let mut faults = Vec::new();
    for number in 0..MEMORIES {
        let memory = memory(engine, number).unwrap();
        let started = Instant::now();
        loop {
            memory.blocking().settle().unwrap();
            let all = memory.blocking().history().unwrap().len();
            let buffered = memory.blocking().messages().unwrap().len();
            let state = memory.blocking().block_state("count").unwrap();
            let counted = state.as_u64().unwrap_or(0) as usize;
            if counted + buffered == all {
                break;
            }
            // By a clock that was behind, the session is idle by now: its buffer may be flushed between two lines above.
            if counted + buffered > all || started.elapsed() > patience {
                let what = format!("{counted} counted and {buffered} in the buffer, of {all} messages");
                faults.push(format!("memory {number}: {what}"));
                break;
            }
            thread::sleep(Duration::from_millis(100));
        }
    }
    faults
}

#[test]
fn three_machines_under_faults_tell_one_history() {
    let Some(server) = Server::start(&["fsync=off"]) else { return };
    if wrong_clock().is_none() {
        crate::support::skipped("machines whose clocks differ by hours: libfaketime is not installed");
    }
    let count = std::env::var("MNEMON_SHARED_FAULTS").map_or(60, |count| count.parse().unwrap());
    let address = server.database();
    let seed = std::env::var("MNEMON_SHARED_SEED").map_or(1, |seed| seed.parse().unwrap());
    let (found, operations) = run(&server, &address, count, seed, Duration::from_secs(30));
    assert!(found.is_empty(), "{} contradictions in {operations} operations:\n{}", found.len(), found.join("\n"));
}

/// A database that does something wrong stands for a bug of ours: the checker must see it.
fn planted(action: &str, table: &str, seed: u64) -> Option<Vec<String>> {
    let server = Server::start(&["fsync=off"])?;
    let address = server.database();
    let folder = tempfile::tempdir().unwrap();
    drop(machine::open(folder.path().join("first.redb"), &address));
    let function =
        format!("CREATE FUNCTION wrong() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {action} RETURN NEW; END $$");
    query(&address, &function, &[]);
    let trigger = "CREATE TRIGGER wrong BEFORE INSERT OR UPDATE ON mnemon";
    query(&address, &format!("{trigger}.{table} FOR EACH ROW EXECUTE FUNCTION wrong()"), &[]);
    Some(run(&server, &address, 10, seed, Duration::from_secs(3)).0)
}

#[test]
fn a_planted_loss_is_found() {
    let Some(found) = planted("IF random() < 0.2 THEN RETURN NULL; END IF;", "messages", 2) else { return };
    assert!(found.iter().any(|fault| fault.starts_with("message ")), "{found:?}");
}

#[test]
fn a_change_that_is_applied_twice_is_found() {
    let double = "IF random() < 0.2 THEN NEW.value = regexp_replace(NEW.value::text, '\\]\\}$', \
                  ',' || (NEW.value::jsonb->'tokens'->-1)::text || ']}')::json; END IF;";
    let Some(found) = planted(double, "documents", 3) else { return };
    // A later write of a machine that does not have it may hide it from the end, not from who has read it.
    let is_it = |fault: &String| fault.contains("twice") || fault.contains("what never was");
    assert!(found.iter().any(is_it), "{found:?}");
}
