//! How far a reindex is, and how fast.

use std::{
    ops::ControlFlow,
    time::{Duration, Instant},
};

use super::options::{ReindexPhase, ReindexProgress};

/// Is told, and may stop it.
pub(in crate::engine) type Tell<'a> = &'a mut dyn FnMut(ReindexProgress) -> ControlFlow<()>;

/// Tells of one phase after the other.
pub(super) struct Meter<'a> {
    tell: Tell<'a>,
    phase: Option<ReindexPhase>,
    started: Instant,
    /// Done when the phase began.
    first: u64,
    is_stopped: bool,
}

impl<'a> Meter<'a> {
    pub(super) fn new(tell: Tell<'a>) -> Self {
        Meter { tell, phase: None, started: Instant::now(), first: 0, is_stopped: false }
    }

    /// Returns whether to go on.
    pub(super) fn tell(&mut self, phase: ReindexPhase, done: u64, total: u64) -> bool {
        if self.phase != Some(phase) {
            (self.phase, self.started, self.first) = (Some(phase), Instant::now(), done);
        }
        // More may be done than there was to do when it was counted.
        let total = total.max(done);
        let rate = done.saturating_sub(self.first) as f64 / self.started.elapsed().as_secs_f64().max(1e-9);
        let left = Duration::try_from_secs_f64((total - done) as f64 / rate).ok();
        let left = left.filter(|_| rate > 0.0);
        self.is_stopped |= (self.tell)(ReindexProgress { phase, done, total, rate, left }).is_break();
        !self.is_stopped
    }
}
