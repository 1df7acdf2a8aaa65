//! Marks the threads that belong to an executor.
//!
//! A thread is known by a mark that it carries, never by its name: a program may give its own threads any name.

use std::{
    cell::Cell,
    sync::atomic::{AtomicU64, Ordering},
    thread::{Builder, JoinHandle},
};

use crate::error::{Error, Result};

thread_local! {
    static OWNER: Cell<Option<Owner>> = const { Cell::new(None) };
}

/// Identifies one executor and marks its threads.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Owner(u64);

impl Owner {
    pub(super) fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Owner(NEXT.fetch_add(1, Ordering::Relaxed))
    }

    /// Marks the current thread as one of this executor's.
    pub(super) fn mark_current_thread(self) {
        OWNER.set(Some(self));
    }

    /// Returns true if the current thread belongs to this executor.
    pub(super) fn owns_current_thread(self) -> bool {
        // A thread that is ending may have lost its mark; it holds nothing of the engine then.
        OWNER.try_with(|owner| owner.get() == Some(self)).unwrap_or(false)
    }

    /// Starts a marked thread.
    ///
    /// # Errors
    /// [`Error::ThreadNotStarted`].
    pub(super) fn start(self, name: &str, run: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>> {
        let thread = Builder::new().name(name.to_owned()).spawn(move || {
            self.mark_current_thread();
            run();
        });
        thread.map_err(|source| Error::ThreadNotStarted { name: name.to_owned(), source: source.into() })
    }
}
