//! The precedence of queries over documents.

use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

/// Maximum time that a worker waits for queries before each batch. During a continuous stream of queries a worker runs
/// one batch in this time.
const MAX_WAIT: Duration = Duration::from_millis(50);

/// A counter of the queries that run or wait.
#[derive(Default)]
pub(crate) struct QueryPriority {
    queries: Mutex<usize>,
    /// Signalled when the last query ends.
    idle: Condvar,
}

/// A guard for a running query. Dropping it ends the query.
pub(crate) struct RunningQuery<'a>(&'a QueryPriority);

impl QueryPriority {
    /// Counts a query. Workers start no batch of documents until the result is dropped, or [`MAX_WAIT`] is over.
    pub(crate) fn begin_query(&self) -> RunningQuery<'_> {
        *self.queries.lock() += 1;
        RunningQuery(self)
    }

    /// Waits until no query runs, up to [`MAX_WAIT`].
    pub(super) fn yield_to_queries(&self) {
        let mut queries = self.queries.lock();
        if *queries > 0 {
            let until = Instant::now() + MAX_WAIT;
            self.idle.wait_while_until(&mut queries, |queries| *queries > 0, until);
        }
    }
}

impl Drop for RunningQuery<'_> {
    fn drop(&mut self) {
        let mut queries = self.0.queries.lock();
        *queries -= 1;
        if *queries == 0 {
            self.0.idle.notify_all();
        }
    }
}
