//! The measurements of a load.

/// The rate, the latencies and the failures of a load.
pub(super) struct Load {
    pub(super) per_second: f64,
    pub(super) p50_us: f64,
    pub(super) p99_us: f64,
    pub(super) failed: u64,
}
