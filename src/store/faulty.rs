//! Storage that fails on purpose, for tests: faults of single calls, and the images that a power failure may leave.
//!
//! A test makes a [`Plan`] for a folder. Every database file that is opened in the folder from then on goes through it,
//! also the files that the store writes beside a database and renames.

use std::{
    collections::BTreeMap,
    io,
    ops::Bound,
    path::{Path, PathBuf},
    sync::{
        Arc, Weak,
        atomic::{AtomicU64, Ordering},
    },
};

use parking_lot::Mutex;
use redb::{BackendError, StorageBackend, backends::FileBackend};

static PLANS: Mutex<BTreeMap<PathBuf, Weak<Plan>>> = Mutex::new(BTreeMap::new());

/// Returns a plan for the files of a folder. It ends when the last `Arc` of it is dropped.
pub(crate) fn plan(folder: &Path) -> Arc<Plan> {
    let plan = Arc::new(Plan::default());
    let mut plans = PLANS.lock();
    plans.retain(|_, plan| plan.strong_count() > 0);
    plans.insert(folder.to_path_buf(), Arc::downgrade(&plan));
    plan
}

/// Puts the file at `path` under the plan of its folder, if there is one.
pub(crate) fn wrap(path: &Path, file: FileBackend) -> Faulty {
    let plan = path.parent().and_then(|folder| PLANS.lock().get(folder).and_then(Weak::upgrade));
    Faulty::new(path, file, plan)
}

/// A call of a storage.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Call {
    Read,
    Write,
    Sync,
    Truncate,
}

impl Call {
    pub(crate) const ALL: [Call; 4] = [Call::Read, Call::Write, Call::Sync, Call::Truncate];
}

/// Lets calls fail.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fault {
    /// The kind of calls that are counted; `None` for all.
    pub(crate) call: Option<Call>,
    /// The call that fails, counted from 1.
    pub(crate) at: u64,
    /// True if all later ones fail too.
    pub(crate) lasting: bool,
    /// The code of the system's error.
    pub(crate) code: i32,
}

impl Fault {
    pub(crate) const EIO: i32 = 5;
    pub(crate) const ENOSPC: i32 = 28;

    pub(crate) fn error(&self) -> io::Error {
        io::Error::from_raw_os_error(self.code)
    }
}

/// The faults of the files of one folder, and a log of what was written to them.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    fault: Mutex<Option<Fault>>,
    /// Calls of each kind since the plan was made or the last [`Plan::fail`].
    counts: [AtomicU64; 4],
    /// Calls that failed.
    failed: AtomicU64,
    log: Mutex<Option<Log>>,
}

impl Plan {
    /// Counts from 0 again, and lets a call fail from now on; `None` lets all succeed.
    pub(crate) fn fail(&self, fault: Option<Fault>) {
        let mut current = self.fault.lock();
        self.counts.iter().for_each(|count| count.store(0, Ordering::SeqCst));
        *current = fault;
    }

    /// Number of calls of a kind, or of all.
    pub(crate) fn count(&self, call: Option<Call>) -> u64 {
        let count = |call: Call| self.counts[call as usize].load(Ordering::SeqCst);
        call.map_or_else(|| Call::ALL.into_iter().map(count).sum(), count)
    }

    /// Number of calls that failed.
    pub(crate) fn failed(&self) -> u64 {
        self.failed.load(Ordering::SeqCst)
    }

    /// Logs what is written to the file at `path` from its next opening on.
    pub(crate) fn record(&self, path: &Path) {
        *self.log.lock() = Some(Log::new(path));
    }

    /// Adds a mark to the log: `number` was begun, or acknowledged.
    pub(crate) fn mark(&self, event: Event) {
        if let Some(log) = &mut *self.log.lock() {
            log.events.push(event);
        }
    }

    /// Ends the log and returns it.
    pub(crate) fn recorded(&self) -> Log {
        self.log.lock().take().expect("a log was begun")
    }

    /// Counts a call, and fails it if it is due.
    pub(super) fn called(&self, call: Call) -> io::Result<()> {
        let fault = self.fault.lock();
        self.counts[call as usize].fetch_add(1, Ordering::SeqCst);
        let Some(fault) = fault.filter(|fault| fault.call.is_none_or(|kind| kind == call)) else { return Ok(()) };
        let count = self.count(fault.call);
        if count == fault.at || (fault.lasting && count > fault.at) {
            self.failed.fetch_add(1, Ordering::SeqCst);
            return Err(fault.error());
        }
        Ok(())
    }

    pub(super) fn with_log(&self, path: &Path, change: impl FnOnce(&mut Log)) {
        if let Some(log) = self.log.lock().as_mut().filter(|log| log.path == path) {
            change(log);
        }
    }
}

#[derive(Debug)]
pub(crate) struct Faulty {
    path: PathBuf,
    file: FileBackend,
    /// `None`: nothing fails.
    plan: Option<Arc<Plan>>,
}

impl Faulty {
    pub(super) fn new(path: &Path, file: FileBackend, plan: Option<Arc<Plan>>) -> Self {
        if let Some(plan) = &plan {
            plan.with_log(path, |log| log.start(&std::fs::read(path).unwrap_or_default()));
        }
        Faulty { path: path.to_path_buf(), file, plan }
    }

    fn called(&self, call: Call) -> io::Result<()> {
        self.plan.as_ref().map_or(Ok(()), |plan| plan.called(call))
    }

    fn log(&self, event: impl FnOnce() -> Event) {
        if let Some(plan) = &self.plan {
            plan.with_log(&self.path, |log| log.events.push(event()));
        }
    }
}

impl StorageBackend for Faulty {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.called(Call::Read)?;
        self.file.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.called(Call::Truncate)?;
        self.file.set_len(len)?;
        self.log(|| Event::Len(len));
        Ok(())
    }

    /// Does not sync: the page cache survives the test, and the log knows what was synced.
    fn sync_data(&self) -> io::Result<()> {
        self.called(Call::Sync)?;
        self.log(|| Event::Sync);
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.called(Call::Write)?;
        self.file.write(offset, data)?;
        self.log(|| Event::Write(offset, data.to_vec()));
        Ok(())
    }

    fn close(&self) -> io::Result<()> {
        self.file.close()
    }

    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.file.try_lock_range(start, end)
    }

    fn try_lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.file.try_lock_shared_range(start, end)
    }

    fn lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.file.lock_range(start, end)
    }

    fn lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.file.lock_shared_range(start, end)
    }

    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.file.unlock_range(start, end)
    }

    fn query_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.file.query_lock_range(start, end)
    }
}

/// What happened to a file, or to the test that writes it.
#[derive(Clone, Debug)]
pub(crate) enum Event {
    Write(u64, Vec<u8>),
    Len(u64),
    Sync,
    /// The test began this step.
    Begun(usize),
    /// The step was acknowledged.
    Acknowledged(usize),
}

/// The events of one file, in their order.
#[derive(Debug)]
pub(crate) struct Log {
    pub(super) path: PathBuf,
    /// The file when it was opened first.
    base: Option<Vec<u8>>,
    pub(crate) events: Vec<Event>,
}

impl Log {
    pub(super) fn new(path: &Path) -> Self {
        Log { path: path.to_path_buf(), base: None, events: Vec::new() }
    }

    pub(super) fn start(&mut self, file: &[u8]) {
        self.base.get_or_insert_with(|| file.to_vec());
    }

    /// Returns the file after a power failure just after the first `cut` events. Of each write that was not synced,
    /// `below(4)` chooses: it is lost, it is there, or of its sectors of 512 or of 4,096 bytes some are.
    pub(crate) fn image(&self, cut: usize, below: &mut impl FnMut(usize) -> usize) -> Vec<u8> {
        let mut file = self.base.clone().expect("the file was opened");
        let synced = self.events[..cut].iter().rposition(|event| matches!(event, Event::Sync)).unwrap_or(0);
        for (at, event) in self.events[..cut].iter().enumerate() {
            let kept = if at < synced { 1 } else { below(4) };
            match (event, kept) {
                (_, 0) | (Event::Sync | Event::Begun(_) | Event::Acknowledged(_), _) => {}
                (Event::Len(len), _) => file.resize(*len as usize, 0),
                (Event::Write(offset, data), 1) => write(&mut file, *offset, data),
                (Event::Write(offset, data), sectors) => {
                    let sector = if sectors == 2 { 512 } else { 4096 };
                    let begins = (0..data.len()).step_by(sector);
                    for begin in begins.filter(|_| below(2) == 0).collect::<Vec<_>>() {
                        let end = (begin + sector).min(data.len());
                        write(&mut file, offset + begin as u64, &data[begin..end]);
                    }
                }
            }
        }
        file
    }
}

fn write(file: &mut Vec<u8>, offset: u64, data: &[u8]) {
    let begin = offset as usize;
    if file.len() < begin + data.len() {
        file.resize(begin + data.len(), 0);
    }
    file[begin..begin + data.len()].copy_from_slice(data);
}
