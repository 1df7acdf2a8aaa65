//! Model checks: loom runs each check under every interleaving of its threads, up to a number of preemptions, and fails
//! on a deadlock, on a lost wakeup, and on an assertion.
//!
//! The sources are those of the crate, unchanged. `docs/design.md` says what is not checked here, and why.

#[path = "../../src/engine/executor/in_flight.rs"]
mod in_flight;
#[path = "../../crates/index/src/hnsw/planning_lock.rs"]
mod planning_lock;

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use loom::{sync::atomic::AtomicUsize, thread};

use in_flight::InFlight;
use planning_lock::{PlanningGuard, PlanningLock};

/// Interleavings with more preemptions than this are not tried. Most faults need one or two.
const MAX_PREEMPTIONS: usize = 4;

fn check(name: &str, body: impl Fn() + Sync + Send + 'static) {
    let runs = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&runs);
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(MAX_PREEMPTIONS);
    model.check(move || {
        counted.fetch_add(1, Ordering::Relaxed);
        body();
    });
    println!("{name}: {} interleavings", runs.load(Ordering::Relaxed));
}

/// Asserts that no other thread holds the lock, and lets others run meanwhile.
fn hold(guard: PlanningGuard, holders: &AtomicUsize) {
    assert_eq!(holders.fetch_add(1, Ordering::Relaxed), 0, "two threads hold the lock");
    thread::yield_now();
    holders.fetch_sub(1, Ordering::Relaxed);
    drop(guard);
}

fn main() {
    check("planning lock: two that wait, one that tries", || {
        let (lock, holders) = (Arc::new(PlanningLock::default()), Arc::new(AtomicUsize::new(0)));
        let waiting = [(); 2].map(|()| {
            let (lock, holders) = (Arc::clone(&lock), Arc::clone(&holders));
            thread::spawn(move || hold(lock.lock(), &holders))
        });
        if let Some(guard) = lock.try_lock() {
            hold(guard, &holders);
        }
        waiting.into_iter().for_each(|thread| thread.join().expect("the thread ends"));
        drop(lock.try_lock().expect("the lock is free"));
    });
    check("planning lock: a guard travels, and a waiting thread is overtaken", || {
        let (lock, holders) = (Arc::new(PlanningLock::default()), Arc::new(AtomicUsize::new(0)));
        let guard = lock.try_lock().expect("the lock is free");
        let (waiting, held) = (Arc::clone(&lock), Arc::clone(&holders));
        let waiting = thread::spawn(move || hold(waiting.lock(), &held));
        let other = thread::spawn(move || drop(guard));
        for _ in 0..2 {
            lock.try_lock().into_iter().for_each(|guard| hold(guard, &holders));
        }
        [waiting, other].into_iter().for_each(|thread| thread.join().expect("the thread ends"));
        drop(lock.try_lock().expect("the lock is free"));
    });
    check("operations in flight: closing waits for those that began, and lets in no other", || {
        let (in_flight, is_closed) = (Arc::new(InFlight::default()), Arc::new(AtomicUsize::new(0)));
        let operations = [(); 2].map(|()| {
            let (in_flight, is_closed) = (Arc::clone(&in_flight), Arc::clone(&is_closed));
            thread::spawn(move || {
                let Some(_operation) = in_flight.begin() else { return };
                thread::yield_now();
                assert_eq!(is_closed.load(Ordering::SeqCst), 0, "an operation runs after closing has ended");
            })
        });
        in_flight.begin_closing();
        assert!(in_flight.begin().is_none() && in_flight.is_closing());
        in_flight.wait();
        is_closed.store(1, Ordering::SeqCst);
        operations.into_iter().for_each(|thread| thread.join().expect("the thread ends"));
    });
}
