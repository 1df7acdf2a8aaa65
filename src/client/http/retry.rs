//! The policy that decides whether and when a failed request is retried.

use std::{
    hash::{BuildHasher, RandomState},
    thread,
    time::Duration,
};

use super::failure::Failure;

/// Maximum wait between two attempts, even if the server states a longer one.
const MAX_WAIT: Duration = Duration::from_secs(30);

/// A retry policy: the number of attempts, with exponential backoff and jitter between them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Retry {
    attempts: usize,
    backoff: Duration,
}

impl Default for Retry {
    fn default() -> Self {
        Retry { attempts: 3, backoff: Duration::from_millis(500) }
    }
}

impl Retry {
    /// Sets the number of attempts, at least one.
    #[cfg(feature = "openai")]
    pub(crate) fn attempts(self, attempts: usize) -> Self {
        Retry { attempts: attempts.max(1), ..self }
    }

    /// Sets the wait before the second attempt.
    #[cfg(feature = "openai")]
    pub(crate) fn backoff(self, backoff: Duration) -> Self {
        Retry { backoff, ..self }
    }

    /// Calls `attempt` until it succeeds, fails for good, or the attempts are used up; sleeps between attempts.
    pub(crate) fn run<T>(&self, mut attempt: impl FnMut() -> Result<T, Failure>) -> Result<T, Failure> {
        let mut number = 1;
        loop {
            match attempt() {
                Err(failure) if self.allows(number, &failure) => thread::sleep(self.wait(number, failure.retry_after)),
                outcome => return outcome.map_err(|failure| failure.after(number)),
            }
            number += 1;
        }
    }

    /// Returns true if this failed attempt, counted from 1, is to be followed by another.
    pub(crate) fn allows(&self, attempt: usize, failure: &Failure) -> bool {
        failure.transient && attempt < self.attempts
    }

    /// Returns how long to wait after this failed attempt, counted from 1: the time that the server states, up to 30 s,
    /// or else the backoff, doubled with each attempt up to 30 s, half to all of it at random.
    pub(crate) fn wait(&self, attempt: usize, retry_after: Option<Duration>) -> Duration {
        if let Some(wait) = retry_after {
            return wait.min(MAX_WAIT);
        }
        let doubled = self.backoff.saturating_mul(1 << (attempt.max(1) - 1).min(30)).min(MAX_WAIT);
        // Each `RandomState` has its own keys, which is random enough to keep many clients from retrying at the same
        // moment.
        let chance = (RandomState::new().hash_one(attempt) >> 32) as f64 / f64::from(u32::MAX);
        doubled.mul_f64(0.5 + chance / 2.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_up_to_a_maximum() {
        let s = Duration::from_secs;
        let retry = Retry::default();
        for (attempt, low, high) in [(1, 250, 500), (2, 500, 1000), (3, 1000, 2000), (20, 15_000, 30_000)] {
            let wait = retry.wait(attempt, None).as_millis();
            assert!((low..=high).contains(&wait), "attempt {attempt}: {wait} ms");
        }
        assert_eq!(retry.wait(1, Some(s(7))), s(7));
        assert_eq!(retry.wait(1, Some(s(3600))), s(30), "capped");
        assert_eq!(retry.wait(9, Some(s(0))), s(0));
    }

    #[test]
    fn only_transient_failures_are_retried() {
        let check = |failure: fn() -> Failure, fails: usize, wanted: Result<usize, &str>| {
            let mut calls = 0;
            let retry = Retry { attempts: 3, backoff: Duration::ZERO };
            let outcome = retry.run(|| {
                calls += 1;
                if calls > fails { Ok(calls) } else { Err(failure()) }
            });
            assert_eq!(outcome.map_err(|failure| failure.reason), wanted.map_err(str::to_owned));
        };
        check(|| Failure::transient("busy"), 2, Ok(3));
        check(|| Failure::transient("busy"), 3, Err("busy (3 attempts)"));
        check(|| Failure::lasting("no such model"), 1, Err("no such model"));
    }
}
