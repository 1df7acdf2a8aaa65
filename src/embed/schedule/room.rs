//! Long rows run few at a time.

use parking_lot::{Condvar, Mutex};

/// Pairs of tokens that are attended to at once. Attention holds a number for each pair and head: with a BERT's 12 heads, 400 MB, and
/// some of them more than once. Eight rows of 1,024 tokens, or two of 2,048, run at once.
const PAIRS: usize = 1 << 23;

/// Counts the pairs of the rows that run.
#[derive(Default)]
pub(super) struct Room {
    /// Whose is next holds it: a row that needs all the room is not overtaken for ever.
    next: Mutex<()>,
    taken: Mutex<usize>,
    /// Something is not taken any more.
    left: Condvar,
}

/// A row, while it runs.
pub(super) struct Inside<'a> {
    room: &'a Room,
    pairs: usize,
}

impl Room {
    /// Waits until there is room for a row of so many tokens. One that needs more than there is runs alone.
    pub(super) fn enter(&self, tokens: usize) -> Inside<'_> {
        let pairs = tokens.saturating_mul(tokens).min(PAIRS);
        let _next = self.next.lock();
        let mut taken = self.taken.lock();
        self.left.wait_while(&mut taken, |taken| *taken + pairs > PAIRS);
        *taken += pairs;
        Inside { room: self, pairs }
    }
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        *self.room.taken.lock() -= self.pairs;
        self.room.left.notify_all();
    }
}
