//! Limits the number of concurrent requests, and the requests and tokens per minute. Queries take precedence over
//! documents.
//!
//! A caller waits on its own thread until it may send. The rates are token buckets (J. Turner, "New directions in
//! communications", 1986). The crate `governor` has token buckets too, but it waits only in async code, does not
//! order waiting requests, and cannot take a server's reported limits into account.

use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

/// The share of a minute's requests or tokens that may be sent at once.
const BURST: f64 = 1.0 / 20.0;
/// The share of a burst that is reserved for queries.
const RESERVE: f64 = 0.25;
/// The bytes of text per token that OpenAI itself estimates.
const BYTES_PER_TOKEN: usize = 4;

pub(super) fn estimated_tokens(bytes: usize) -> f64 {
    (bytes as f64 / BYTES_PER_TOKEN as f64).max(1.0)
}

#[derive(Clone, Copy, Debug)]
pub(super) struct RateLimits {
    /// The maximum number of concurrent requests with documents. Queries are not counted.
    pub(super) concurrent: usize,
    pub(super) requests_per_minute: Option<u32>,
    pub(super) tokens_per_minute: Option<u32>,
}

impl RateLimits {
    /// Returns the share of a minute's allowance that may be sent at once: at least one request, with its share of the
    /// tokens.
    fn burst(self) -> f64 {
        self.requests_per_minute.map_or(BURST, |requests| BURST.max(1.0 / f64::from(requests)))
    }

    fn bucket(self, per_minute: Option<u32>, now: Instant) -> Option<Bucket> {
        let per_minute = f64::from(per_minute?);
        let capacity = (per_minute * self.burst()).max(1.0);
        Some(Bucket { capacity, per_second: per_minute / 60.0, level: capacity, updated_at: now })
    }

    /// Returns the maximum bytes of a request with documents, so that it leaves the reserve for queries.
    pub(super) fn max_request_bytes(self) -> usize {
        self.tokens_per_minute.map_or(usize::MAX, |tokens| {
            (f64::from(tokens) * self.burst() * (1.0 - RESERVE)) as usize * BYTES_PER_TOKEN
        })
    }
}

/// The kind of a request, and the deadline of a query.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Priority {
    Documents,
    Query { until: Instant },
}

impl Priority {
    pub(super) fn time_left(self) -> Duration {
        match self {
            Priority::Documents => Duration::MAX,
            Priority::Query { until } => until.saturating_duration_since(Instant::now()),
        }
    }
}

/// The error of a query that the rate limit does not allow before its deadline. Contains the wait that it would need.
#[derive(Debug)]
pub(super) struct TooLate(pub(super) Duration);

/// The limiter that all threads of an embedder share.
pub(super) struct RateLimiter {
    state: Mutex<LimiterState>,
    changed: Condvar,
}

/// The permission to send one request. Dropping it ends the request.
pub(super) struct Permit<'l> {
    limiter: &'l RateLimiter,
    priority: Priority,
    tokens: f64,
}

impl RateLimiter {
    pub(super) fn new(limits: RateLimits) -> Self {
        RateLimiter { state: Mutex::new(LimiterState::new(limits, Instant::now())), changed: Condvar::new() }
    }

    /// Waits until a request of about `tokens` tokens may be sent.
    ///
    /// # Errors
    /// [`TooLate`], without waiting, if a query cannot be sent before its deadline.
    pub(super) fn acquire(&self, priority: Priority, tokens: f64) -> Result<Permit<'_>, TooLate> {
        let mut state = self.state.lock();
        let number = state.arrive(priority);
        let acquired = loop {
            let now = Instant::now();
            match (state.wait(priority, number, tokens, now), priority) {
                (Some(Duration::ZERO), _) => break Ok(()),
                (Some(wait), Priority::Query { until }) if until < now + wait => break Err(TooLate(wait)),
                (Some(wait), _) => drop(self.changed.wait_until(&mut state, now + wait)),
                (None, _) => self.changed.wait(&mut state),
            }
        };
        state.leave(priority, acquired.is_ok().then_some(tokens));
        self.changed.notify_all();
        acquired.map(|()| Permit { limiter: self, priority, tokens })
    }

    /// Stops requests of this kind for a time, as the server requested.
    pub(super) fn pause(&self, priority: Priority, wait: Duration) {
        self.state.lock().pause(priority, Instant::now() + wait);
    }
}

impl Permit<'_> {
    /// Replaces the estimated tokens of the request by the number that the server reports. A report above the number of
    /// bytes is cut to it, so that one wrong report does not block all following requests.
    pub(super) fn record_tokens(&self, tokens: u64) {
        let most = self.tokens * BYTES_PER_TOKEN as f64;
        if let Some(bucket) = &mut self.limiter.state.lock().tokens {
            bucket.level = (bucket.level + self.tokens - most.min(tokens as f64)).min(bucket.capacity);
        }
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        if self.priority == Priority::Documents {
            self.limiter.state.lock().running_documents -= 1;
            self.limiter.changed.notify_all();
        }
    }
}

/// The state that decides when a request may be sent. It does not read the clock, so that tests can set the time.
struct LimiterState {
    concurrent: usize,
    requests: Option<Bucket>,
    tokens: Option<Bucket>,
    running_documents: usize,
    waiting_queries: usize,
    /// Requests with documents are sent in the order of their arrival. This is the number of the next one to arrive.
    next_arrival: u64,
    /// The number of the next request with documents to be sent.
    next_sent: u64,
    /// The earliest time of the next request with documents.
    documents_from: Instant,
    /// The earliest time of the next query. Only refused queries delay queries: a limit that a hundred texts exceed may
    /// still allow one text.
    queries_from: Instant,
}

impl LimiterState {
    fn new(limits: RateLimits, now: Instant) -> Self {
        LimiterState {
            concurrent: limits.concurrent,
            requests: limits.bucket(limits.requests_per_minute, now),
            tokens: limits.bucket(limits.tokens_per_minute, now),
            running_documents: 0,
            waiting_queries: 0,
            next_arrival: 0,
            next_sent: 0,
            documents_from: now,
            queries_from: now,
        }
    }

    /// Registers a request, and returns its number for [`LimiterState::wait`].
    fn arrive(&mut self, priority: Priority) -> u64 {
        match priority {
            Priority::Documents => self.next_arrival += 1,
            Priority::Query { .. } => self.waiting_queries += 1,
        }
        self.next_arrival.wrapping_sub(1)
    }

    /// Returns the time until the request may be sent. `None` if it must wait for other requests.
    fn wait(&mut self, priority: Priority, number: u64, tokens: f64, now: Instant) -> Option<Duration> {
        let (from, reserve) = match priority {
            Priority::Documents
                if number != self.next_sent
                    || self.running_documents == self.concurrent
                    || self.waiting_queries > 0 =>
            {
                return None;
            }
            Priority::Documents => (self.documents_from, RESERVE),
            Priority::Query { .. } => (self.queries_from, 0.0),
        };
        let mut wait = from.saturating_duration_since(now);
        for (bucket, cost) in [(&mut self.requests, 1.0), (&mut self.tokens, tokens)] {
            if let Some(bucket) = bucket {
                wait = wait.max(bucket.wait(cost, reserve, now));
            }
        }
        Some(wait)
    }

    /// Unregisters a request. `sent` is the number of its tokens if it is sent now.
    fn leave(&mut self, priority: Priority, sent: Option<f64>) {
        match priority {
            Priority::Documents => {
                self.next_sent += 1;
                self.running_documents += 1;
            }
            Priority::Query { .. } => self.waiting_queries -= 1,
        }
        if let Some(tokens) = sent {
            for (bucket, cost) in [(&mut self.requests, 1.0), (&mut self.tokens, tokens)] {
                if let Some(bucket) = bucket {
                    bucket.level -= cost;
                }
            }
        }
    }

    /// Stops requests of this kind until a time. A pause of queries delays documents too.
    fn pause(&mut self, priority: Priority, until: Instant) {
        self.documents_from = self.documents_from.max(until);
        if priority != Priority::Documents {
            self.queries_from = self.queries_from.max(until);
        }
    }
}

/// A token bucket.
struct Bucket {
    capacity: f64,
    per_second: f64,
    /// The available amount. Negative after a request that exceeds the capacity.
    level: f64,
    updated_at: Instant,
}

impl Bucket {
    /// Returns the time until the level reaches `cost` plus the reserved share of the capacity.
    fn wait(&mut self, cost: f64, reserve: f64, now: Instant) -> Duration {
        let passed = now.saturating_duration_since(self.updated_at).as_secs_f64();
        (self.level, self.updated_at) = ((self.level + passed * self.per_second).min(self.capacity), now);
        let missing = (cost + reserve * self.capacity).min(self.capacity) - self.level;
        Duration::from_secs_f64((missing / self.per_second).max(0.0))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const S: fn(u64) -> Duration = Duration::from_secs;

    fn limits(requests: Option<u32>, tokens: Option<u32>) -> RateLimits {
        RateLimits { concurrent: 2, requests_per_minute: requests, tokens_per_minute: tokens }
    }

    fn query() -> Priority {
        Priority::Query { until: Instant::now() + S(3600) }
    }

    /// Sends a request that is answered at once, and returns the time at which it was sent.
    fn send(state: &mut LimiterState, priority: Priority, tokens: f64, mut now: Instant) -> Instant {
        let number = state.arrive(priority);
        loop {
            match state.wait(priority, number, tokens, now).expect("no other request waits or runs") {
                Duration::ZERO => break,
                wait => now += wait,
            }
        }
        state.leave(priority, Some(tokens));
        state.running_documents = 0;
        now
    }

    #[test]
    fn requests_are_sent_at_the_rate() {
        let start = Instant::now();
        let check = |limits, priority, tokens, wanted: &[u64]| {
            let state = &mut LimiterState::new(limits, start);
            let mut now = start;
            let sent = wanted.iter().map(|_| {
                now = send(state, priority, tokens, now);
                (now - start).as_millis() as u64
            });
            assert_eq!(sent.collect::<Vec<_>>(), wanted, "{limits:?} {priority:?}");
        };
        check(limits(None, None), Priority::Documents, 1e9, &[0, 0, 0]);
        // Three at once, then one per second. Documents leave a reserve of 0.75 requests.
        check(limits(Some(60), None), query(), 1.0, &[0, 0, 0, 1000, 2000]);
        check(limits(Some(60), None), Priority::Documents, 1.0, &[0, 0, 750, 1750]);
        check(limits(Some(1), None), Priority::Documents, 1.0, &[0, 60_000, 120_000]);
        check(limits(None, Some(60_000)), query(), 1000.0, &[0, 0, 0, 1000, 2000]);
        // A request larger than the burst: the next waits until the level has recovered.
        check(limits(None, Some(60_000)), Priority::Documents, 6000.0, &[0, 6000, 12_000]);
        // The fewer requests per minute, the more bytes a request may have.
        assert_eq!(limits(Some(3), Some(40_000)).max_request_bytes(), 40_000);
        assert_eq!(limits(Some(3000), Some(40_000)).max_request_bytes(), 6000);
        assert_eq!(limits(Some(3), None).max_request_bytes(), usize::MAX);
    }

    #[test]
    fn pauses_delay_requests() {
        let start = Instant::now();
        let state = &mut LimiterState::new(limits(None, None), start);
        state.pause(Priority::Documents, start + S(20));
        assert_eq!(send(state, query(), 1.0, start), start);
        assert_eq!(send(state, Priority::Documents, 1.0, start), start + S(20));
        state.pause(query(), start + S(30));
        state.pause(query(), start + S(25));
        assert_eq!(send(state, query(), 1.0, start), start + S(30));
        assert_eq!(send(state, Priority::Documents, 1.0, start), start + S(30));
    }

    #[test]
    fn a_query_that_is_too_late_fails_at_once() {
        let limiter = RateLimiter::new(limits(Some(1), None));
        let soon = Priority::Query { until: Instant::now() + S(2) };
        drop(limiter.acquire(soon, 1.0).unwrap());
        let begin = Instant::now();
        let TooLate(wait) = limiter.acquire(soon, 1.0).err().unwrap();
        assert!(begin.elapsed() < S(1) && (S(50)..=S(60)).contains(&wait), "{wait:?}");
        assert_eq!(limiter.state.lock().waiting_queries, 0);
    }

    #[test]
    fn a_wrong_token_count_is_bounded() {
        for tokens in [1_000_000_000_000_000, u64::MAX] {
            let limiter = RateLimiter::new(limits(None, Some(60_000)));
            limiter.acquire(query(), 1000.0).unwrap().record_tokens(tokens);
            // The request has 4,000 bytes, so at most 4,000 tokens count. The burst is 3,000 tokens: the next request
            // waits two seconds.
            let TooLate(wait) = limiter
                .acquire(Priority::Query { until: Instant::now() }, 1000.0)
                .err()
                .expect("the query has to wait");
            assert!(wait > S(1) && wait <= S(2), "{wait:?}");
        }
    }

    #[test]
    fn queries_go_first_and_documents_in_order() {
        let limiter = &RateLimiter::new(limits(None, None));
        let acquire = || limiter.acquire(Priority::Documents, 1.0).unwrap();
        let running = [acquire(), acquire()];
        let sent = &Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            for number in 0..4 {
                scope.spawn(move || {
                    let _permit = acquire();
                    sent.lock().push(number);
                });
                while limiter.state.lock().next_arrival < 3 + number {
                    std::thread::yield_now();
                }
            }
            // The limit of concurrent requests with documents is reached, but a query is sent.
            drop(limiter.acquire(query(), 1.0).unwrap());
            assert_eq!(*sent.lock(), [0; 0]);
            let [one, other] = running;
            // Only one request may run at a time, so they are sent one by one.
            drop(one);
            while sent.lock().len() < 4 {
                std::thread::yield_now();
            }
            drop(other);
        });
        assert_eq!(*sent.lock(), [0, 1, 2, 3]);
    }

    proptest! {
        /// In any interval at most the rate times its length, plus the burst, plus one request is sent.
        #[test]
        fn requests_never_exceed_the_rate(
            requests in prop::option::of(1u32..1000),
            tokens in prop::option::of(1u32..100_000),
            sent in prop::collection::vec((any::<bool>(), 1f64..3000.0, 0u64..5000), 1..60),
        ) {
            let limits = limits(requests, tokens);
            let start = Instant::now();
            let state = &mut LimiterState::new(limits, start);
            let mut now = start;
            let mut times = Vec::new();
            for (is_query, tokens, idle) in sent {
                now += Duration::from_millis(idle);
                now = send(state, if is_query { query() } else { Priority::Documents }, tokens, now);
                times.push(((now - start).as_secs_f64(), tokens));
            }
            for (i, &(from, _)) in times.iter().enumerate() {
                let mut used = 0.0;
                for (count, &(until, tokens)) in times[i..].iter().enumerate() {
                    if let Some(bucket) = &state.requests {
                        let most = bucket.capacity + (until - from) * bucket.per_second;
                        prop_assert!(count as f64 + 1.0 <= most + 1e-3, "{} in {}", count + 1, until - from);
                    }
                    if let Some(bucket) = &state.tokens {
                        // The last request is not included.
                        let most = bucket.capacity + (until - from) * bucket.per_second;
                        prop_assert!(used <= most + 1e-3, "{} in {}", used, until - from);
                    }
                    used += tokens;
                }
            }
        }
    }
}
