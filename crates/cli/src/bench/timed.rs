//! Times of single calls.

use std::time::Instant;

/// Runs a call and adds its time in microseconds.
pub(super) fn timed<T>(times: &mut Vec<f64>, call: impl FnOnce() -> mnemon::Result<T>) -> mnemon::Result<T> {
    let started = Instant::now();
    let result = call()?;
    times.push(started.elapsed().as_secs_f64() * 1e6);
    Ok(result)
}
