//! When calls fail, and what was called.

use std::{
    io,
    path::Path,
    sync::atomic::{AtomicU64, Ordering},
};

use parking_lot::Mutex;

use super::images::{Event, Log};

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
