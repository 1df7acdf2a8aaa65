//! What several tests need: temporary databases, generated data, stand-ins for models and servers, processes that are
//! killed.

pub(crate) mod children;
pub(crate) mod embedders;
pub(crate) mod killing;
pub(crate) mod messages;
pub(crate) mod model_folders;
pub(crate) mod poolers;
pub(crate) mod postgres;
pub(crate) mod random;
pub(crate) mod recall;
pub(crate) mod recorded;
pub(crate) mod schemas;
pub(crate) mod servers;
pub(crate) mod tally;
pub(crate) mod tiny_models;

use std::{
    fs,
    ops::ControlFlow,
    path::{Path, PathBuf},
    sync::{Arc, mpsc},
    time::Duration,
};

use mnemon::{
    Config, Embedder, Engine, Error, Namespace, Precision, ReindexOptions, ReindexProgress, ReindexReport, Result,
};

pub(crate) use embedders::Hashing;
pub(crate) use messages::{GERMAN, any_message, call, chat, conversation, ids, message, result, splits_a_call, words};
pub(crate) use random::{below, normalized, random, vectors};

/// A temporary folder with the path of a database in it.
pub(crate) struct Db {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) path: PathBuf,
    /// The precision of its vectors, if it is new.
    pub(crate) precision: Precision,
}

impl Db {
    pub(crate) fn new() -> Self {
        Db::with_precision(Precision::default())
    }

    pub(crate) fn with_precision(precision: Precision) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("memory.redb");
        Db { folder, path, precision }
    }

    /// Opens the database with a hashing embedder of 32 dimensions; it is flushed only when a test calls `flush`.
    pub(crate) fn open(&self) -> Engine {
        self.open_with(Arc::new(Hashing::new(32)))
    }

    pub(crate) fn open_with(&self, embedder: Arc<dyn Embedder>) -> Engine {
        self.try_open_with(embedder).unwrap()
    }

    pub(crate) fn try_open_with(&self, embedder: Arc<dyn Embedder>) -> Result<Engine> {
        let mut config = Config::default();
        config.flush_size = 100_000;
        config.idle_flush = None;
        config.precision = self.precision;
        Engine::builder(&self.path).config(config).embedder(embedder).open()
    }

    /// Asserts that `verify` finds no problem.
    pub(crate) fn assert_sound(&self) -> mnemon::VerifyReport {
        let report = mnemon::verify(&self.path).unwrap();
        assert_eq!(report.problems, [""; 0]);
        report
    }
}

/// Opens the tables of a database. The file becomes a redb file without pages of ours, as older versions wrote it; an
/// engine that opens it for writing makes pages of it again.
pub(crate) fn open_tables(path: &Path) -> redb::Database {
    const PAGE: usize = 4096;
    /// Bytes of a page in the file: with its checksum and its number.
    const STORED: usize = PAGE + 8;
    const SLOTS: [usize; 2] = [8192, 12288];
    const PAGES: usize = 16384;
    /// Bytes of redb's header in a slot; its sequence number follows.
    const HEADER: usize = 512;
    let bytes = fs::read(path).unwrap();
    if !bytes.starts_with(b"redb") {
        let number = |slot: usize| u64::from_le_bytes(*bytes[slot + HEADER..].first_chunk().unwrap());
        let newest = SLOTS.into_iter().max_by_key(|&slot| number(slot)).unwrap();
        let mut plain = bytes[newest..newest + HEADER].to_vec();
        plain.resize(PAGE, 0);
        bytes[PAGES..].chunks_exact(STORED).for_each(|page| plain.extend_from_slice(&page[..PAGE]));
        fs::write(path, plain).unwrap();
    }
    redb::Database::open(path).unwrap()
}

/// Reindexes a database that is not open, and drops the previous generation.
pub(crate) fn reindex(
    db: &Db,
    embedder: impl Into<Arc<Hashing>>,
    precision: Option<Precision>,
    progress: impl FnMut(ReindexProgress) -> ControlFlow<()>,
) -> Result<ReindexReport> {
    let mut options = ReindexOptions::default();
    (options.precision, options.keep_previous) = (precision, false);
    mnemon::reindex(&db.path, embedder.into(), options, progress)
}

pub(crate) fn go_on(_: ReindexProgress) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

/// Stops a reindex once this many messages are embedded.
pub(crate) fn stop_after(done: u64) -> impl FnMut(ReindexProgress) -> ControlFlow<()> {
    move |progress| if progress.done >= done { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
}

pub(crate) fn namespace(name: &str) -> Namespace {
    name.parse().unwrap()
}

/// Prints that a test, or a part of it, cannot run here and why. It is shown although the test passes, because the test
/// runner captures the output of macros only.
pub(crate) fn skipped(what: &str) {
    use std::io::Write;
    let mut stderr = std::io::stderr();
    writeln!(stderr, "SKIPPED {what}").unwrap();
}

/// Returns the texts of an error and of its sources.
pub(crate) fn chain(error: &Error) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(inner) = source {
        text = format!("{text}: {inner}");
        source = inner.source();
    }
    text
}

/// Returns the path of a file of the repository.
pub(crate) fn root(path: &str) -> PathBuf {
    // The tests belong to the package of the command, two folders down.
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().join(path)
}

/// Returns the path of a file of the committed sample.
pub(crate) fn sample(file: &str) -> PathBuf {
    root("datasets/sample").join(file)
}

/// Runs `work` on another thread, and panics if it takes longer than `longest`, which means a deadlock.
pub(crate) fn within<T: Send + 'static>(longest: Duration, work: impl FnOnce() -> T + Send + 'static) -> T {
    let (sender, receiver) = mpsc::channel();
    let thread = std::thread::spawn(move || sender.send(work()));
    match receiver.recv_timeout(longest) {
        Ok(result) => result,
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("not done after {longest:?}: threads wait for each other"),
        Err(mpsc::RecvTimeoutError::Disconnected) => {
            std::panic::resume_unwind(thread.join().expect_err("it has sent nothing"))
        }
    }
}
