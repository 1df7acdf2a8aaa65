//! What happened to a page file, for the code that opened it: redb keeps the page file, and reports only the first of
//! its errors.

use std::{
    io,
    sync::{
        OnceLock,
        atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering::Relaxed},
    },
};

use crate::error::Error;

/// A page that is not as it was written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("page {page} of the file is damaged: {reason}")]
pub(in crate::store) struct DamagedPage {
    /// The number of the page of 4 KiB, from 0 for redb's header.
    pub(in crate::store) page: u64,
    pub(in crate::store) reason: &'static str,
}

/// The error for redb of a damaged page.
pub(super) fn damaged(page: DamagedPage) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, page)
}

/// The state of a page file that is shared with the code that opened it.
#[derive(Debug, Default)]
pub(in crate::store) struct PageState {
    is_repairing: AtomicBool,
    first_failure: OnceLock<String>,
    first_damage: OnceLock<DamagedPage>,
    switches: AtomicU64,
    is_in_steps: AtomicBool,
    unsynced: AtomicU64,
    syncs: AtomicU8,
}

/// The syncs of redb that reach the disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub(in crate::store) enum Syncs {
    #[default]
    All,
    /// The last one of a commit. Its pages and the header that names them reach the disk in any order: after a power failure
    /// redb finds by its checksums that pages are missing, and goes back to the commit before.
    LastOfCommit,
    None,
}

/// The number of bytes after which a file that is written in steps is synced.
const STEP: u64 = 1 << 20;

impl PageState {
    /// Makes pages that do not verify read as empty leaves of redb's trees, which redb's own check rejects. This is for
    /// the time in which redb opens a file after a crash: it reads pages whose writes may be torn, and goes back to the
    /// commit before if its check fails. An error would fail the opening instead.
    pub(in crate::store) fn set_repairing(&self, is_repairing: bool) {
        self.is_repairing.store(is_repairing, Relaxed);
    }

    pub(super) fn is_repairing(&self) -> bool {
        self.is_repairing.load(Relaxed)
    }

    /// Returns the first error of this page file, with the operation: redb answers every call after it with "previous
    /// I/O error".
    pub(in crate::store) fn first_failure(&self) -> Option<String> {
        self.first_failure.get().cloned()
    }

    /// Returns the first damaged page that was read.
    pub(in crate::store) fn first_damage(&self) -> Option<DamagedPage> {
        self.first_damage.get().cloned()
    }

    /// Returns the error for the first failure.
    pub(in crate::store) fn cause(&self) -> Error {
        match (self.first_damage(), self.first_failure()) {
            (Some(page), _) => Error::Corrupted { what: page.to_string() },
            (None, cause) => Error::Storage(cause.unwrap_or_else(|| "the file failed".into()).into()),
        }
    }

    /// Puts the first failure in the place of an error that follows from it.
    pub(in crate::store) fn explain(&self, error: Error) -> Error {
        match error {
            Error::Storage(_) if self.first_failure.get().is_some() => self.cause(),
            error => error,
        }
    }

    /// Returns how often redb's header was written, or tried to be, so that another of its two commits is the newest.
    pub(in crate::store) fn switches(&self) -> u64 {
        self.switches.load(Relaxed)
    }

    pub(super) fn count_switch(&self) {
        self.switches.fetch_add(1, Relaxed);
    }

    /// Sets which syncs reach the disk.
    pub(in crate::store) fn set_syncs(&self, syncs: Syncs) {
        self.syncs.store(syncs as u8, Relaxed);
    }

    pub(super) fn syncs(&self) -> Syncs {
        let all = [Syncs::All, Syncs::LastOfCommit, Syncs::None];
        all[usize::from(self.syncs.load(Relaxed))]
    }

    /// Sets whether the file is synced after each MiB that is written. A copy of a database is: the disk would
    /// otherwise write all of it at its end, and syncs of the database would wait for that.
    pub(in crate::store) fn set_in_steps(&self, is_in_steps: bool) {
        self.is_in_steps.store(is_in_steps, Relaxed);
    }

    /// Returns true if the file is to be synced after this write.
    pub(super) fn is_step(&self, written: usize) -> bool {
        let written = written as u64;
        let is_step = self.is_in_steps.load(Relaxed) && self.unsynced.fetch_add(written, Relaxed) + written >= STEP;
        if is_step {
            self.unsynced.store(0, Relaxed);
        }
        is_step
    }

    /// Keeps the error of an operation if it is the first.
    pub(super) fn note<T>(&self, result: io::Result<T>, operation: impl FnOnce() -> String) -> io::Result<T> {
        result.inspect_err(|error| {
            if let Some(page) = error.get_ref().and_then(|inner| inner.downcast_ref::<DamagedPage>()) {
                // Only the first is kept.
                let _ = self.first_damage.set(page.clone());
            }
            self.first_failure.get_or_init(|| format!("{}: {error}", operation()));
        })
    }
}
