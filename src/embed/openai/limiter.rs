//! Whose turn it is to ask a server: so many requests at a time, so many and so much a minute, questions first.
//!
//! A caller waits on its own thread until it may ask. The rates are token buckets (J. Turner, "New directions in communications",
//! 1986). The crate `governor` has these, but waits only in async code, knows no order among those who wait, and cannot be told
//! what a server says of its own limits.

use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

/// The part of a minute's requests or tokens that may go at once.
const BURST: f64 = 1.0 / 20.0;
/// The part of these that documents leave to questions.
const RESERVE: f64 = 0.25;
/// Of text, as OpenAI itself counts where it does not tokenise.
const BYTES_PER_TOKEN: usize = 4;

/// About how many tokens so many bytes of text are.
pub(super) fn tokens(bytes: usize) -> f64 {
    (bytes as f64 / BYTES_PER_TOKEN as f64).max(1.0)
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Requests with documents at a time.
    pub(super) concurrent: usize,
    /// A minute.
    pub(super) requests: Option<u32>,
    /// A minute.
    pub(super) tokens: Option<u32>,
}

impl Limits {
    /// The part of a minute's that may go at once: a request at least, and its share of the tokens.
    fn burst(self) -> f64 {
        self.requests.map_or(BURST, |requests| BURST.max(1.0 / f64::from(requests)))
    }

    fn bucket(self, per_minute: Option<u32>, now: Instant) -> Option<Bucket> {
        let per_minute = f64::from(per_minute?);
        let capacity = (per_minute * self.burst()).max(1.0);
        Some(Bucket { capacity, per_second: per_minute / 60.0, level: capacity, at: now })
    }

    /// The most text of a request with documents that leaves questions what is theirs.
    pub(super) fn max_request_bytes(self) -> usize {
        self.tokens.map_or(usize::MAX, |tokens| {
            (f64::from(tokens) * self.burst() * (1.0 - RESERVE)) as usize * BYTES_PER_TOKEN
        })
    }
}

/// Who asks, and until when that is of use.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Priority {
    Documents,
    Query { until: Instant },
}

impl Priority {
    /// The time left.
    pub(super) fn left(self) -> Duration {
        match self {
            Priority::Documents => Duration::MAX,
            Priority::Query { until } => until.saturating_duration_since(Instant::now()),
        }
    }
}

/// A question's turn does not come in time, but after this.
#[derive(Debug)]
pub(super) struct TooLate(pub(super) Duration);

pub(super) struct Limiter {
    state: Mutex<State>,
    changed: Condvar,
}

/// The leave to send one request.
pub(super) struct Turn<'l> {
    limiter: &'l Limiter,
    priority: Priority,
    tokens: f64,
}

impl Limiter {
    pub(super) fn new(limits: Limits) -> Self {
        Limiter { state: Mutex::new(State::new(limits, Instant::now())), changed: Condvar::new() }
    }

    /// Waits until a request of about so many tokens may be sent.
    ///
    /// # Errors
    /// At once, if a question's turn does not come in time.
    pub(super) fn turn(&self, priority: Priority, tokens: f64) -> Result<Turn<'_>, TooLate> {
        let mut state = self.state.lock();
        let number = state.arrive(priority);
        let came = loop {
            let now = Instant::now();
            match (state.wait(priority, number, tokens, now), priority) {
                (Some(Duration::ZERO), _) => break Ok(()),
                (Some(wait), Priority::Query { until }) if until < now + wait => break Err(TooLate(wait)),
                (Some(wait), _) => drop(self.changed.wait_until(&mut state, now + wait)),
                (None, _) => self.changed.wait(&mut state),
            }
        };
        state.leave(priority, came.is_ok().then_some(tokens));
        self.changed.notify_all();
        came.map(|()| Turn { limiter: self, priority, tokens })
    }

    /// No further request like this for so long, as the server says.
    pub(super) fn pause(&self, priority: Priority, wait: Duration) {
        self.state.lock().pause(priority, Instant::now() + wait);
    }
}

impl Turn<'_> {
    /// How many tokens the request had, as the server says: no more than it had bytes, or one wrong answer would block all that
    /// follow.
    pub(super) fn used(&self, tokens: u64) {
        let most = self.tokens * BYTES_PER_TOKEN as f64;
        if let Some(bucket) = &mut self.limiter.state.lock().tokens {
            bucket.level = (bucket.level + self.tokens - most.min(tokens as f64)).min(bucket.capacity);
        }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        if self.priority == Priority::Documents {
            self.limiter.state.lock().running -= 1;
            self.limiter.changed.notify_all();
        }
    }
}

/// All that a turn depends on but the clock.
struct State {
    concurrent: usize,
    requests: Option<Bucket>,
    tokens: Option<Bucket>,
    /// Requests with documents that are being answered.
    running: usize,
    /// Questions that wait.
    questions: usize,
    /// Documents go in the order in which they came: the number that the next to come gets, and that of the next to go.
    next: u64,
    first: u64,
    documents_from: Instant,
    /// Only refused questions hold up questions: what is too much for a hundred texts may not be for one.
    queries_from: Instant,
}

impl State {
    fn new(limits: Limits, now: Instant) -> Self {
        State {
            concurrent: limits.concurrent,
            requests: limits.bucket(limits.requests, now),
            tokens: limits.bucket(limits.tokens, now),
            running: 0,
            questions: 0,
            next: 0,
            first: 0,
            documents_from: now,
            queries_from: now,
        }
    }

    /// The number to ask [`State::wait`] with.
    fn arrive(&mut self, priority: Priority) -> u64 {
        match priority {
            Priority::Documents => self.next += 1,
            Priority::Query { .. } => self.questions += 1,
        }
        self.next.wrapping_sub(1)
    }

    /// How long until the turn comes; `None`, until something changes.
    fn wait(&mut self, priority: Priority, number: u64, tokens: f64, now: Instant) -> Option<Duration> {
        let (from, reserve) = match priority {
            Priority::Documents if number != self.first || self.running == self.concurrent || self.questions > 0 => {
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

    /// With the tokens of what is sent, or without.
    fn leave(&mut self, priority: Priority, sent: Option<f64>) {
        match priority {
            Priority::Documents => {
                self.first += 1;
                self.running += 1;
            }
            Priority::Query { .. } => self.questions -= 1,
        }
        if let Some(tokens) = sent {
            for (bucket, cost) in [(&mut self.requests, 1.0), (&mut self.tokens, tokens)] {
                if let Some(bucket) = bucket {
                    bucket.level -= cost;
                }
            }
        }
    }

    fn pause(&mut self, priority: Priority, until: Instant) {
        self.documents_from = self.documents_from.max(until);
        if priority != Priority::Documents {
            self.queries_from = self.queries_from.max(until);
        }
    }
}

/// What may be used, of something that comes back at a steady rate.
struct Bucket {
    capacity: f64,
    per_second: f64,
    /// Below zero after a request that is larger than the capacity.
    level: f64,
    at: Instant,
}

impl Bucket {
    /// How long until there is so much, and this part of the capacity beside.
    fn wait(&mut self, cost: f64, reserve: f64, now: Instant) -> Duration {
        let passed = now.saturating_duration_since(self.at).as_secs_f64();
        (self.level, self.at) = ((self.level + passed * self.per_second).min(self.capacity), now);
        let missing = (cost + reserve * self.capacity).min(self.capacity) - self.level;
        Duration::from_secs_f64((missing / self.per_second).max(0.0))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const S: fn(u64) -> Duration = Duration::from_secs;

    fn limits(requests: Option<u32>, tokens: Option<u32>) -> Limits {
        Limits { concurrent: 2, requests, tokens }
    }

    fn query() -> Priority {
        Priority::Query { until: Instant::now() + S(3600) }
    }

    /// Waits, and goes on as if the request were answered at once. When it was sent.
    fn send(state: &mut State, priority: Priority, tokens: f64, mut now: Instant) -> Instant {
        let number = state.arrive(priority);
        loop {
            match state.wait(priority, number, tokens, now).expect("nobody else is here") {
                Duration::ZERO => break,
                wait => now += wait,
            }
        }
        state.leave(priority, Some(tokens));
        state.running = 0;
        now
    }

    #[test]
    fn rates() {
        let start = Instant::now();
        let check = |limits, priority, tokens, wanted: &[u64]| {
            let state = &mut State::new(limits, start);
            let mut now = start;
            let sent = wanted.iter().map(|_| {
                now = send(state, priority, tokens, now);
                (now - start).as_millis() as u64
            });
            assert_eq!(sent.collect::<Vec<_>>(), wanted, "{limits:?} {priority:?}");
        };
        check(limits(None, None), Priority::Documents, 1e9, &[0, 0, 0]);
        // Three at once, then one a second; documents leave three quarters of one.
        check(limits(Some(60), None), query(), 1.0, &[0, 0, 0, 1000, 2000]);
        check(limits(Some(60), None), Priority::Documents, 1.0, &[0, 0, 750, 1750]);
        check(limits(Some(1), None), Priority::Documents, 1.0, &[0, 60_000, 120_000]);
        check(limits(None, Some(60_000)), query(), 1000.0, &[0, 0, 0, 1000, 2000]);
        // Larger than what may go at once: the next waits until it is paid for.
        check(limits(None, Some(60_000)), Priority::Documents, 6000.0, &[0, 6000, 12_000]);
        // The rarer a request, the more it may have.
        assert_eq!(limits(Some(3), Some(40_000)).max_request_bytes(), 40_000);
        assert_eq!(limits(Some(3000), Some(40_000)).max_request_bytes(), 6000);
        assert_eq!(limits(Some(3), None).max_request_bytes(), usize::MAX);
    }

    #[test]
    fn pauses() {
        let start = Instant::now();
        let state = &mut State::new(limits(None, None), start);
        state.pause(Priority::Documents, start + S(20));
        assert_eq!(send(state, query(), 1.0, start), start);
        assert_eq!(send(state, Priority::Documents, 1.0, start), start + S(20));
        state.pause(query(), start + S(30));
        state.pause(query(), start + S(25));
        assert_eq!(send(state, query(), 1.0, start), start + S(30));
        assert_eq!(send(state, Priority::Documents, 1.0, start), start + S(30));
    }

    #[test]
    fn a_question_that_is_too_late_fails_at_once() {
        let limiter = Limiter::new(limits(Some(1), None));
        let soon = Priority::Query { until: Instant::now() + S(2) };
        drop(limiter.turn(soon, 1.0).unwrap());
        let begin = Instant::now();
        let TooLate(wait) = limiter.turn(soon, 1.0).err().unwrap();
        assert!(begin.elapsed() < S(1) && (S(50)..=S(60)).contains(&wait), "{wait:?}");
        assert_eq!(limiter.state.lock().questions, 0);
    }

    #[test]
    fn an_answer_that_says_too_many_tokens() {
        for tokens in [1_000_000_000_000_000, u64::MAX] {
            let limiter = Limiter::new(limits(None, Some(60_000)));
            limiter.turn(query(), 1000.0).unwrap().used(tokens);
            // 4,000 bytes, of which 3,000 tokens may go at once: the next request waits for two seconds.
            let TooLate(wait) =
                limiter.turn(Priority::Query { until: Instant::now() }, 1000.0).err().expect("it is to wait");
            assert!(wait > S(1) && wait <= S(2), "{wait:?}");
        }
    }

    #[test]
    fn questions_before_documents_and_these_in_order() {
        let limiter = &Limiter::new(limits(None, None));
        let turns = || limiter.turn(Priority::Documents, 1.0).unwrap();
        let running = [turns(), turns()];
        let went = &Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            for number in 0..4 {
                scope.spawn(move || {
                    let _turn = turns();
                    went.lock().push(number);
                });
                while limiter.state.lock().next < 3 + number {
                    std::thread::yield_now();
                }
            }
            // All places are taken, but not for a question.
            drop(limiter.turn(query(), 1.0).unwrap());
            assert_eq!(*went.lock(), [0; 0]);
            let [one, other] = running;
            // With one place left at a time, they have to go one by one.
            drop(one);
            while went.lock().len() < 4 {
                std::thread::yield_now();
            }
            drop(other);
        });
        assert_eq!(*went.lock(), [0, 1, 2, 3]);
    }

    proptest! {
        /// In any stretch of time no more is sent than the rate gives, what may go at once, and one request.
        #[test]
        fn no_more_than_the_rate(
            requests in prop::option::of(1u32..1000),
            tokens in prop::option::of(1u32..100_000),
            sent in prop::collection::vec((any::<bool>(), 1f64..3000.0, 0u64..5000), 1..60),
        ) {
            let limits = limits(requests, tokens);
            let start = Instant::now();
            let state = &mut State::new(limits, start);
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
                        // Before the last one.
                        let most = bucket.capacity + (until - from) * bucket.per_second;
                        prop_assert!(used <= most + 1e-3, "{} in {}", used, until - from);
                    }
                    used += tokens;
                }
            }
        }
    }
}
