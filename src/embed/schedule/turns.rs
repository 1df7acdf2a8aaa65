//! Questions go before documents.

use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

/// How long a worker lets questions go first, before each of its runs: questions that never end leave it one run in this
/// time.
const STEP_BACK: Duration = Duration::from_millis(50);

/// Counts the questions that run or wait.
#[derive(Default)]
pub(in super::super) struct Turns {
    questions: Mutex<usize>,
    /// There are none.
    over: Condvar,
}

/// A question, while it is asked.
pub(in super::super) struct Asking<'a>(&'a Turns);

impl Turns {
    /// No run of documents begins until this is dropped, or 50 ms are over.
    pub(in super::super) fn ask(&self) -> Asking<'_> {
        *self.questions.lock() += 1;
        Asking(self)
    }

    pub(super) fn step_back(&self) {
        let mut questions = self.questions.lock();
        if *questions > 0 {
            let until = Instant::now() + STEP_BACK;
            self.over.wait_while_until(&mut questions, |questions| *questions > 0, until);
        }
    }
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        let mut questions = self.0.questions.lock();
        *questions -= 1;
        if *questions == 0 {
            self.0.over.notify_all();
        }
    }
}
