//! Reports the progress of a reindex.

use std::{
    ops::ControlFlow,
    time::{Duration, Instant},
};

use super::options::{ReindexPhase, ReindexProgress};

/// A progress callback; returning `Break` stops the reindex.
pub(in crate::engine) type OnProgress<'a> = &'a mut dyn FnMut(ReindexProgress) -> ControlFlow<()>;

/// Computes the rate and the time left of each phase, and calls the progress callback.
pub(super) struct ProgressMeter<'a> {
    on_progress: OnProgress<'a>,
    phase: Option<ReindexPhase>,
    started: Instant,
    /// The number done when the phase began.
    first: u64,
    is_stopped: bool,
}

impl<'a> ProgressMeter<'a> {
    pub(super) fn new(on_progress: OnProgress<'a>) -> Self {
        ProgressMeter { on_progress, phase: None, started: Instant::now(), first: 0, is_stopped: false }
    }

    /// Reports progress. Returns false if the callback has stopped the reindex, now or before.
    pub(super) fn report(&mut self, phase: ReindexPhase, done: u64, total: u64) -> bool {
        if self.phase != Some(phase) {
            (self.phase, self.started, self.first) = (Some(phase), Instant::now(), done);
        }
        // Messages may have been added since `total` was counted.
        let total = total.max(done);
        let rate = done.saturating_sub(self.first) as f64 / self.started.elapsed().as_secs_f64().max(1e-9);
        let left = Duration::try_from_secs_f64((total - done) as f64 / rate).ok();
        let left = left.filter(|_| rate > 0.0);
        self.is_stopped |= (self.on_progress)(ReindexProgress { phase, done, total, rate, left }).is_break();
        !self.is_stopped
    }
}
