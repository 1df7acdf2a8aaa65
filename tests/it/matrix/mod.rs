//! The matrix: each operation through each surface on each kind of database, alone and two at once, compared with one
//! model.
//!
//! Faults were found where two features meet, so every pair of them meets here. [`operations`] has the operations and the
//! model, and each surface has a file that does them. A new async method of the library, command, route or tool fails
//! `nothing_is_without_a_row` until an operation calls it, or a list says why none does. Python's surfaces do the same
//! operations in `bindings/python/tests/test_matrix.py`, from `operations.jsonl` beside this file, which
//! `python_has_the_same_table` compares with the model.

mod command;
mod coverage;
mod library;
mod operations;
mod server;

use std::{
    io::BufReader,
    path::{Path, PathBuf},
    sync::{Barrier, OnceLock},
    time::{Duration, Instant},
};

use mnemon::{Config, DatabaseFile, DocumentOptions, EncryptionKey, Engine, Error, Freshness, Message, Namespace};
use serde_json::{Value, json};

use self::operations::{Answer, Model, Operation, Refusal, agree, operations};
use crate::{
    server::Server,
    support::{self, Db, postgres},
};

const KEY: [u8; 32] = [7; 32];
/// The longest wait for an answer while Postgres hangs: the time limit of a request to the server, and as much for a slow
/// machine.
const LONGEST: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    /// There is no file yet.
    New,
    Plain,
    Encrypted,
    InMemory,
    /// Opened for reading.
    ReadOnly,
    /// Another process writes to it.
    Busy,
    /// A copy of a database in Postgres.
    Replica,
    /// As `Replica`, and Postgres takes requests but answers none.
    Hanging,
    /// As `Replica`, and there is no Postgres.
    Down,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Surface {
    Blocking,
    /// Async, in tokio's runtime with several threads.
    Tokio,
    /// Async, in tokio's runtime with one thread.
    TokioOneThread,
    Command,
    Http,
    Mcp,
    Mem0,
}

impl Kind {
    fn is_shared(self) -> bool {
        matches!(self, Kind::Replica | Kind::Hanging | Kind::Down)
    }

    /// What refuses every change on this kind.
    fn refuses(self) -> Option<Refusal> {
        match self {
            Kind::ReadOnly => Some(Refusal::ReadOnly),
            Kind::Busy => Some(Refusal::Locked),
            Kind::Hanging | Kind::Down => Some(Refusal::Unavailable),
            _ => None,
        }
    }
}

impl Surface {
    fn has(self, operation: &Operation) -> bool {
        match self {
            Surface::Blocking | Surface::Tokio | Surface::TokioOneThread => {
                !library::calls(operation.action).is_empty()
            }
            Surface::Command => !command::calls(operation.action).is_empty(),
            Surface::Http | Surface::Mcp | Surface::Mem0 => server::has(self, operation),
        }
    }

    /// True if the caller names the ids of new messages, so that putting twice stores once.
    fn names_ids(self) -> bool {
        !matches!(self, Surface::Mcp | Surface::Mem0)
    }
}

/// A database of a kind that is filled, with the Postgres behind it.
struct Database {
    db: Db,
    kind: Kind,
    postgres: Option<(postgres::Server, String)>,
}

impl Database {
    /// Makes a database in which each of the namespaces has what the model has at first. `None` if there is no
    /// Postgres.
    fn make(kind: Kind, spaces: &[(Namespace, &Operation)]) -> Option<Self> {
        let db = Db::new();
        let mut postgres = None;
        if kind.is_shared() {
            // A server of its own: it is stopped.
            let server = postgres::Server::start(&["fsync=off"])?;
            let address = server.database();
            postgres = Some((server, address));
        }
        let database = Database { db, kind, postgres };
        if let Some(file) = database.key_file() {
            std::fs::write(file, KEY).unwrap();
        }
        if !matches!(kind, Kind::New | Kind::InMemory) {
            let engine = database.builder().open().unwrap();
            fill(&engine, spaces);
        }
        Some(database)
    }

    fn config(&self) -> Config {
        let mut config = Config::default();
        config.idle_flush = None;
        config.flush_size = 100_000;
        config.shared_timeout = Duration::from_secs(2);
        if self.kind == Kind::Encrypted {
            config.encryption_key = Some(EncryptionKey::from_bytes(KEY));
        }
        config
    }

    fn builder(&self) -> mnemon::EngineBuilder {
        let builder = match self.kind {
            Kind::InMemory => Engine::builder_in_memory(),
            _ => Engine::builder(&self.db.path),
        };
        let builder = builder.config(self.config());
        match &self.postgres {
            Some((_, address)) => builder.shared(address).freshness(self.freshness()),
            None => builder,
        }
    }

    fn freshness(&self) -> Freshness {
        if self.kind == Kind::Replica { Freshness::Latest } else { Freshness::Local }
    }

    fn open(&self, spaces: &[(Namespace, &Operation)]) -> Engine {
        match self.kind {
            Kind::ReadOnly => self.builder().open_read_only().unwrap(),
            Kind::InMemory => {
                let engine = self.builder().open().unwrap();
                fill(&engine, spaces);
                engine
            }
            Kind::Hanging | Kind::Down => {
                let engine = self.builder().open().unwrap();
                for (space, _) in spaces {
                    // The copy has only what it was asked for.
                    let query = mnemon::Query::new("rowing").freshness(Freshness::Latest);
                    engine.blocking().recall(space, query).unwrap();
                }
                engine
            }
            _ => self.builder().open().unwrap(),
        }
    }

    /// Opens what is left when the surface is closed, to compare it with the model.
    fn reopened(&self) -> Engine {
        match &self.postgres {
            // What counts is in Postgres: a machine of its own reads it.
            Some((_, address)) => {
                let path = self.db.folder.path().join("other.redb");
                let builder = Engine::builder(path).config(self.config()).freshness(Freshness::Latest);
                builder.shared(address).open().unwrap()
            }
            None => self.builder().open().unwrap(),
        }
    }

    /// Takes Postgres away, as the kind has it, or gives it back.
    fn interrupt(&self, is_gone: bool) {
        let Some((server, _)) = &self.postgres else { return };
        match (self.kind, is_gone) {
            (Kind::Hanging, _) => server.freeze(is_gone),
            (Kind::Down, true) => server.stop_immediately(),
            (Kind::Down, false) => server.run(),
            _ => {}
        }
    }

    fn key_file(&self) -> Option<PathBuf> {
        (self.kind == Kind::Encrypted).then(|| self.db.folder.path().join("key"))
    }

    fn file(&self) -> DatabaseFile {
        DatabaseFile::from(self.db.path.as_path())
    }
}

/// Stores the fixture in all namespaces.
fn fill(engine: &Engine, spaces: &[(Namespace, &Operation)]) {
    let fixture = Model::fixture(false);
    let mut messages = Vec::new();
    for (space, _) in spaces {
        for (session, stored) in &fixture.sessions {
            for message in stored {
                let role = message.role.parse().unwrap();
                let stored = Message::new(role, &*message.text).with_id(&*message.id).in_session(&**session);
                messages.push((space.clone(), stored));
            }
        }
    }
    engine.blocking().put_all(messages).unwrap();
    engine.blocking().flush().unwrap();
    for (space, operation) in spaces {
        for (key, value) in &fixture.documents {
            let documents = engine.documents(space);
            documents.blocking().put(key.clone(), value.clone(), DocumentOptions::default()).unwrap();
        }
        if operation.held {
            engine.blocking().hold(space, "a lawsuit").unwrap();
        }
    }
}

/// The lines that an export of the fixture has.
fn export_of_the_fixture() -> BufReader<&'static [u8]> {
    static LINES: OnceLock<Vec<u8>> = OnceLock::new();
    let lines = LINES.get_or_init(|| {
        let engine = Engine::in_memory().unwrap();
        let (space, operation) = (support::namespace("users/fixture"), operations().remove(0));
        fill(&engine, &[(space.clone(), &operation)]);
        let mut lines = Vec::new();
        engine.blocking().export(&space, &mut lines).unwrap();
        lines
    });
    BufReader::new(lines)
}

/// The texts of the messages that a namespace has in the copy of a database, sorted.
fn texts_in(path: &Path, space: &Namespace) -> Value {
    let plain = Config::default();
    let encrypted = Config::default().encryption_key(EncryptionKey::from_bytes(KEY));
    // For reading, because nobody writes to the file of a replica without its Postgres.
    let engine = match Engine::builder(path).config(plain).open_read_only() {
        Err(Error::KeyNeeded { .. }) => Engine::builder(path).config(encrypted).open_read_only(),
        opened => opened,
    };
    library::copied(&engine.unwrap(), space)
}

/// Where the backup that is made for a namespace goes.
fn backup_path(folder: &Path, space: &str) -> PathBuf {
    folder.join(format!("backup-{}.redb", space.replace('/', "-")))
}

/// A surface that is ready for operations.
enum Opened {
    Blocking(Engine),
    Tokio(Engine, tokio::runtime::Runtime),
    Command,
    Server(Box<Server>),
}

/// The cells of one surface and one kind.
struct Cells {
    surface: Surface,
    database: Database,
    opened: Option<Opened>,
    /// Operations that ran, once or twice at once.
    ran: usize,
    problems: Vec<String>,
}

impl Cells {
    fn ask(&self, space: &Namespace, operation: &Operation) -> Answer {
        let folder = self.database.db.folder.path();
        match self.opened.as_ref().unwrap() {
            Opened::Blocking(engine) => library::answer(library::run_blocking(engine, space, operation, folder)),
            Opened::Tokio(engine, runtime) => {
                let (engine, space, operation) = (engine.clone(), space.clone(), operation.clone());
                let folder = folder.to_owned();
                let task = async move { library::run_async(&engine, &space, &operation, &folder).await };
                library::answer(runtime.block_on(task))
            }
            Opened::Command => command::run(&self.database, space, operation),
            Opened::Server(server) => server::run(server, self.surface, space, operation, folder),
        }
    }

    /// Does an operation twice at the same time.
    fn ask_twice(&self, space: &Namespace, operation: &Operation) -> [Answer; 2] {
        if let Some(Opened::Tokio(engine, runtime)) = &self.opened {
            // Two tasks of one runtime.
            let folder = self.database.db.folder.path();
            let one = || library::run_async(engine, space, operation, folder);
            let both = runtime.block_on(async { tokio::join!(one(), one()) });
            return [both.0, both.1].map(library::answer);
        }
        let barrier = Barrier::new(2);
        let ask = || {
            barrier.wait();
            self.ask(space, operation)
        };
        std::thread::scope(|scope| {
            let other = scope.spawn(ask);
            [ask(), other.join().unwrap()]
        })
    }

    fn check(&mut self, what: String, is_right: bool) {
        if !is_right {
            self.problems.push(format!("{:?}, {:?}: {what}", self.surface, self.database.kind));
        }
    }

    /// What the model answers on this kind, and changes.
    fn expected(&self, model: &mut Model, operation: &Operation) -> Answer {
        match self.database.kind.refuses() {
            Some(refusal) if operation.changes => Err(refusal),
            _ => model.apply(operation),
        }
    }

    /// Whether an answer is the expected one.
    fn agrees(&self, operation: &Operation, answer: &Answer, expected: &Answer) -> bool {
        match answer {
            // Which of two reasons is found first is not promised.
            Err(Refusal::LegalHold) if operation.held => expected.is_err(),
            // A surface may look for what is to be changed, and not find it, before it needs to write.
            Err(Refusal::NotFound) if operation.argument.to_string().contains("nope") => true,
            Err(Refusal::OutcomeUnknown) => self.database.kind == Kind::Hanging && operation.changes,
            _ => agree(answer, expected),
        }
    }

    fn first(&self, operation: &Operation) -> Model {
        if self.database.kind == Kind::New { Model::default() } else { Model::fixture(operation.held) }
    }
}

/// Runs all operations through a surface on databases of a kind. Returns the number of cells, and what differs from the
/// model.
fn run(surface: Surface, kind: Kind) -> (usize, Vec<String>) {
    let all: Vec<Operation> = operations()
        .into_iter()
        .filter(|operation| surface.has(operation))
        .filter(|operation| {
            let on_new = kind != Kind::New || !operation.held && !operation.whole;
            let on_gone = !matches!(kind, Kind::Hanging | Kind::Down) || !operation.whole;
            // A read-only engine has no use for what is about writing the whole file, nor has one in memory for its file.
            let on_file = !matches!(kind, Kind::ReadOnly | Kind::Busy | Kind::InMemory) || !operation.whole;
            // Every process that writes waits for its own time limit.
            let is_quick = (surface, kind) != (Surface::Command, Kind::Down)
                || !operation.changes
                || operation.action == "put" && operation.text("id") == "m4";
            on_new && on_gone && on_file && is_quick
        })
        .collect();
    let spaces: Vec<(Namespace, &Operation)> = all
        .iter()
        .enumerate()
        .flat_map(|(i, operation)| {
            ["once", "twice"].map(|times| (support::namespace(&format!("users/{times}{i}")), operation))
        })
        .collect();
    let Some(database) = Database::make(kind, &spaces) else { return (0, Vec::new()) };
    let mut cells = Cells { surface, opened: None, database, ran: 0, problems: Vec::new() };
    let busy = (kind == Kind::Busy).then(|| cells.database.builder().open().unwrap());
    cells.opened = Some(match surface {
        Surface::Blocking => Opened::Blocking(cells.database.open(&spaces)),
        Surface::Tokio => {
            let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
            Opened::Tokio(cells.database.open(&spaces), runtime)
        }
        Surface::TokioOneThread => {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            Opened::Tokio(cells.database.open(&spaces), runtime)
        }
        Surface::Command => Opened::Command,
        Surface::Http | Surface::Mcp | Surface::Mem0 => {
            Opened::Server(Box::new(server::start(&cells.database, &spaces)))
        }
    });
    cells.database.interrupt(true);
    // What is left in each namespace, as the model has it.
    let mut left: Vec<(Namespace, String, Vec<Model>)> = Vec::new();
    // Processes would find the file in use.
    if matches!(kind, Kind::Hanging | Kind::Down) && surface != Surface::Command {
        all_at_once(&mut cells, &spaces, &mut left);
    } else {
        for pair in spaces.chunks(2) {
            let [(once, operation), (twice, _)] = pair else { unreachable!("two for each operation") };
            one_by_one(&mut cells, once, twice, operation, &mut left);
        }
    }
    cells.database.interrupt(false);
    let in_memory = match (kind, cells.opened.take()) {
        (Kind::InMemory, Some(Opened::Blocking(engine) | Opened::Tokio(engine, _))) => Some(engine),
        _ => None,
    };
    drop(busy);
    let engine = in_memory.unwrap_or_else(|| cells.database.reopened());
    for (space, name, expected) in left {
        let mut found = library::read(&engine, &space);
        let mut expected = expected;
        for model in expected.iter_mut().chain([&mut found]) {
            // Copies, and messages of surfaces that name none, have ids of their own; sessions have an order.
            for message in model.sessions.values_mut().flatten() {
                message.id.clear();
            }
            if !surface.names_ids() {
                model.sessions.values_mut().for_each(|messages| messages.sort_by(|a, b| a.text.cmp(&b.text)));
            }
        }
        cells.check(
            format!("after {name} in {space} there is {found:?} instead of {expected:?}"),
            expected.contains(&found),
        );
    }
    if matches!(kind, Kind::New | Kind::Plain) {
        drop(engine);
        let report = mnemon::verify(cells.database.file()).unwrap();
        cells.check(format!("not sound: {:?}", report.problems), report.problems.is_empty());
    }
    (cells.ran, cells.problems)
}

/// Does an operation alone in one namespace, and twice at once in another.
fn one_by_one(
    cells: &mut Cells,
    once: &Namespace,
    twice: &Namespace,
    operation: &Operation,
    left: &mut Vec<(Namespace, String, Vec<Model>)>,
) {
    let name = operation.name();
    let mut model = cells.first(operation);
    let expected = cells.expected(&mut model, operation);
    let answer = cells.ask(once, operation);
    cells.check(
        format!("{name} returns {answer:?} instead of {expected:?}"),
        cells.agrees(operation, &answer, &expected),
    );
    left.push((once.clone(), name.clone(), vec![model]));

    let mut model = cells.first(operation);
    let first = cells.expected(&mut model, operation);
    let after_one = model.clone();
    let mut again = operation.clone();
    if !cells.surface.names_ids() && again.argument.get("id").is_some_and(|id| id != "m1" && id != "nope") {
        again.argument["id"] = json!("another");
    }
    let second = cells.expected(&mut model, &again);
    let [one, other] = cells.ask_twice(twice, operation);
    // Of two processes one may find the file in use, and of two changes of the whole file one may run.
    let may_be_refused = |answer: &Answer| match answer {
        Err(Refusal::Locked) => cells.surface == Surface::Command,
        Err(Refusal::Exists | Refusal::NotFound) => operation.whole,
        _ => false,
    };
    let is_first = |answer: &Answer| cells.agrees(operation, answer, &first);
    let is_second = |answer: &Answer| cells.agrees(operation, answer, &second) || may_be_refused(answer);
    let is_right = is_first(&one) && is_second(&other) || is_first(&other) && is_second(&one);
    // What was acknowledged twice is there twice.
    let one_ran = may_be_refused(&one) || may_be_refused(&other);
    let after = if one_ran { vec![after_one, model] } else { vec![model] };
    cells.check(
        format!("{name} twice at once returns {one:?} and {other:?} instead of {first:?} and {second:?}"),
        is_right,
    );
    left.push((twice.clone(), format!("{name} twice"), after));
    cells.ran += 2;
}

/// Does all operations at the same time, each alone in its namespace: none waits for another that waits for Postgres.
fn all_at_once(cells: &mut Cells, spaces: &[(Namespace, &Operation)], left: &mut Vec<(Namespace, String, Vec<Model>)>) {
    let shared = &*cells;
    let answers: Vec<(Answer, Duration)> = std::thread::scope(|scope| {
        let ask = |space, operation| {
            move || {
                let began = Instant::now();
                (shared.ask(space, operation), began.elapsed())
            }
        };
        let threads: Vec<_> = spaces.iter().map(|(space, operation)| scope.spawn(ask(space, operation))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    for ((space, operation), (answer, waited)) in spaces.iter().zip(answers) {
        let mut model = cells.first(operation);
        let expected = cells.expected(&mut model, operation);
        let name = operation.name();
        cells.check(
            format!("{name} returns {answer:?} instead of {expected:?}"),
            cells.agrees(operation, &answer, &expected),
        );
        cells.check(format!("{name} waited for {waited:?}"), waited < LONGEST);
        let mut left_by = vec![model];
        if answer == Err(Refusal::OutcomeUnknown) {
            let mut done = cells.first(operation);
            let _ = done.apply(operation);
            left_by.push(done);
        }
        left.push((space.clone(), name, left_by));
        cells.ran += 1;
    }
}

/// Runs a surface on these kinds, and panics with all differences. What runs twice at once may go well many times:
/// MNEMON_MATRIX_ROUNDS repeats all of it.
fn check(surface: Surface, kinds: &[Kind]) {
    let rounds = std::env::var("MNEMON_MATRIX_ROUNDS").map_or(1, |rounds| rounds.parse().unwrap());
    let mut problems = Vec::new();
    for &kind in kinds.repeat(rounds).iter() {
        let began = Instant::now();
        let (ran, found) = run(surface, kind);
        println!("matrix\t{surface:?}\t{kind:?}\t{ran} cells\t{:.1} s", began.elapsed().as_secs_f64());
        problems.extend(found);
    }
    assert!(problems.is_empty(), "{} differences from the model:\n{}", problems.len(), problems.join("\n"));
}

/// Databases in one file, or in none.
mod on_files {
    use super::{Kind::*, Surface, check};

    #[test]
    fn the_library_blocking() {
        check(Surface::Blocking, &[New, Plain, Encrypted, InMemory, ReadOnly]);
    }

    #[test]
    fn the_library_in_tokio() {
        check(Surface::Tokio, &[New, Plain, Encrypted, InMemory, ReadOnly]);
    }

    #[test]
    fn the_library_in_tokio_with_one_thread() {
        check(Surface::TokioOneThread, &[Plain]);
    }

    #[test]
    fn the_command() {
        check(Surface::Command, &[New, Plain, Encrypted, Busy]);
    }

    #[test]
    fn http() {
        check(Surface::Http, &[New, Plain, Encrypted]);
    }

    #[test]
    fn mcp() {
        check(Surface::Mcp, &[New, Plain, Encrypted]);
    }

    #[test]
    fn mem0() {
        check(Surface::Mem0, &[New, Plain, Encrypted]);
    }
}

/// Copies of a database in Postgres, which `make test-postgres` fetches.
mod with_postgres {
    use super::{Kind::*, Surface, check};

    #[test]
    fn the_library_blocking() {
        check(Surface::Blocking, &[Replica, Hanging, Down]);
    }

    #[test]
    fn the_library_in_tokio() {
        check(Surface::Tokio, &[Replica, Hanging, Down]);
    }

    #[test]
    fn the_library_in_tokio_with_one_thread() {
        check(Surface::TokioOneThread, &[Replica]);
    }

    #[test]
    fn the_command() {
        check(Surface::Command, &[Replica, Down]);
    }

    #[test]
    fn http() {
        check(Surface::Http, &[Replica, Hanging, Down]);
    }

    #[test]
    fn mcp() {
        check(Surface::Mcp, &[Replica, Hanging, Down]);
    }

    #[test]
    fn mem0() {
        check(Surface::Mem0, &[Replica, Hanging, Down]);
    }
}
