//! Runs a future on the calling thread, for the blocking methods.
//!
//! The thread is marked while it polls: what the future would hand to a worker runs right here instead, so that a
//! blocking recall costs no change of threads. The mark is why this is no dependency: `pollster` and `futures-lite`
//! have `block_on` without it.

use std::cell::Cell;

thread_local! {
    static MAY_BLOCK: Cell<bool> = const { Cell::new(false) };
}

/// Returns true if the current thread is in [`block_on`].
pub(super) fn may_block() -> bool {
    MAY_BLOCK.get()
}

/// Runs a future of this crate to its end, as the blocking methods do: work that it would hand to a thread of the engine
/// runs on the calling thread.
pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    let _mark = Mark(MAY_BLOCK.replace(true));
    crate::block_on::block_on(future)
}

/// Sets the mark back when dropped.
struct Mark(bool);

impl Drop for Mark {
    fn drop(&mut self) {
        MAY_BLOCK.set(self.0);
    }
}
