use std::{
    collections::HashMap,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    time::{Duration, Instant},
};

use proptest::prelude::*;

use super::*;

/// A tokenizer with one token for each byte. A text that begins with '!' fails, and one with '?' panics. Passages have
/// at most 10 bytes.
struct Bytes;

impl Tokenize for Bytes {
    fn tokenize(&self, text: &str, kind: CallKind) -> Result<Vec<Chunk>> {
        match text.as_bytes().first() {
            Some(b'!') => return Err(Error::Embedding { reason: "on purpose".into(), source: None }),
            Some(b'?') => panic!("on purpose"),
            _ => {}
        }
        let length = if kind == CallKind::Documents { text.len().max(1) } else { 10 };
        let starts = (0..text.len().max(1)).step_by(length);
        let chunks = starts.map(|start| start..(start + length).min(text.len()));
        let tokens = |range: Range<usize>| text[range].bytes().map(u32::from).collect();
        Ok(chunks.map(|range| Chunk { range: range.clone(), tokens: tokens(range) }).collect())
    }
}

/// A model that returns the sum of a row's tokens and their number. A row with the token 'E' fails, and one with 'P'
/// panics.
#[derive(Clone, Default)]
struct Sum(Arc<Record>);

#[derive(Default)]
struct Record {
    runs: Mutex<Vec<Vec<usize>>>,
    pause: Mutex<Duration>,
    /// Runs wait while this is set.
    is_held: AtomicBool,
    /// Runs with rows of more than 100 tokens: at the moment, and the maximum at any time.
    long: AtomicUsize,
    most_long: AtomicUsize,
}

impl Execute for Sum {
    fn execute(&mut self, rows: &[&[u32]]) -> Result<Vec<Vec<f32>>> {
        self.0.runs.lock().push(rows.iter().map(|row| row.len()).collect());
        let is_long = usize::from(rows.iter().any(|row| row.len() > 100));
        let long = self.0.long.fetch_add(is_long, Ordering::Relaxed) + is_long;
        self.0.most_long.fetch_max(long, Ordering::Relaxed);
        let pause = *self.0.pause.lock();
        thread::sleep(pause);
        while self.0.is_held.load(Ordering::Relaxed) {
            thread::yield_now();
        }
        self.0.long.fetch_sub(is_long, Ordering::Relaxed);
        let has = |byte: u8| rows.iter().any(|row| row.contains(&byte.into()));
        assert!(!has(b'P'), "on purpose");
        if has(b'E') {
            return Err(Error::Embedding { reason: "on purpose".into(), source: None });
        }
        Ok(rows.iter().map(|row| expected(row.iter().copied())).collect())
    }
}

fn expected(row: impl Iterator<Item = u32> + Clone) -> Vec<f32> {
    vec![row.clone().sum::<u32>() as f32, row.count() as f32]
}

const LIMITS: Limits = Limits { tokens: 64, rows: usize::MAX, padded: false };

fn start(workers: usize, limits: Limits) -> (Scheduler, Arc<Record>) {
    let sum = Sum::default();
    let scheduler = Scheduler::start(vec![sum.clone(); workers], Arc::new(Bytes), limits, Arc::default()).unwrap();
    (scheduler, sum.0)
}

fn check(texts: &[&str], passages: &[Vec<Passage>]) {
    assert_eq!(passages.len(), texts.len());
    for (text, passages) in texts.iter().zip(passages) {
        assert_eq!((passages[0].range.start, passages.last().unwrap().range.end), (0, text.len()));
        for Passage { range, vector } in passages {
            assert_eq!(*vector, expected(text[range.clone()].bytes().map(u32::from)));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(30))]

    #[test]
    fn results_come_back_in_order(
        calls in prop::collection::vec(prop::collection::vec("[a-d]{0,40}", 0..120), 1..6),
        workers in 1..4_usize,
        rows in prop_oneof![Just(1), Just(5), Just(usize::MAX)],
        padded in any::<bool>(),
        kind in prop_oneof![Just(CallKind::Documents), Just(CallKind::Passages)],
    ) {
        let limits = Limits { tokens: 64, rows, padded };
        let (scheduler, record) = start(workers, limits);
        thread::scope(|scope| {
            for call in &calls {
                let scheduler = &scheduler;
                scope.spawn(move || {
                    let texts: Vec<&str> = call.iter().map(String::as_str).collect();
                    check(&texts, &scheduler.submit(&texts, kind).wait().unwrap());
                });
            }
        });
        drop(scheduler);
        for run in record.runs.lock().iter() {
            let longest = run.iter().max().unwrap();
            prop_assert!(run.len() == 1 || run.len() <= rows && run.len() * longest <= 64, "{run:?}");
            prop_assert!(padded || run.iter().all(|length| length == longest), "{run:?}");
        }
        let total: usize = record.runs.lock().iter().flatten().sum();
        prop_assert_eq!(total, calls.iter().flatten().map(String::len).sum::<usize>());
    }
}

#[test]
fn texts_of_different_calls_share_runs() {
    let (scheduler, record) = start(1, LIMITS);
    record.is_held.store(true, Ordering::Relaxed);
    let first = scheduler.submit(&["aa"], CallKind::Documents);
    let others: Vec<Submitted> = (0..40).map(|_| scheduler.submit(&["bb", "abc"], CallKind::Documents)).collect();
    record.is_held.store(false, Ordering::Relaxed);
    check(&["aa"], &first.wait().unwrap());
    others.into_iter().for_each(|call| check(&["bb", "abc"], &call.wait().unwrap()));
    // 40 texts of two bytes at 32 per run, and 40 of three bytes at 21 per run.
    assert!(record.runs.lock().len() <= 5, "{:?}", record.runs.lock());
}

#[test]
fn a_giant_call_does_not_starve_another() {
    for workers in [1, 2] {
        let (scheduler, record) = start(workers, LIMITS);
        *record.pause.lock() = Duration::from_micros(200);
        let giant: Vec<String> = (0..20_000).map(|i| "a".repeat(1 + i % 50)).collect();
        let giant: Vec<&str> = giant.iter().map(String::as_str).collect();
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                check(&giant, &scheduler.submit(&giant, CallKind::Documents).wait().unwrap());
                is_over.store(true, Ordering::Relaxed);
            });
            while record.runs.lock().len() < 20 {
                thread::yield_now();
            }
            for many in [1, 30, 300] {
                let small = vec!["ab"; many];
                let runs = record.runs.lock().len();
                check(&small, &scheduler.submit(&small, CallKind::Documents).wait().unwrap());
                let runs = record.runs.lock().len() - runs;
                // The giant call has thousands of runs. The margin is for a busy machine, which wakes this thread late.
                assert!(runs < 200 + many, "{many} texts waited for {runs} runs");
            }
            assert!(!is_over.load(Ordering::Relaxed), "the giant call was too small for this test");
        });
    }
}

#[test]
fn waiting_tokens_of_large_calls_are_bounded() {
    let (scheduler, record) = start(1, LIMITS);
    record.is_held.store(true, Ordering::Relaxed);
    let texts = vec!["abcdefghij"; 50_000];
    let calls: Vec<Submitted> = (0..3).map(|_| scheduler.submit(&texts, CallKind::Documents)).collect();
    // Each call tokenizes as long as the pool has room.
    for call in &calls {
        while let Some(task) = call.next_task() {
            call.state.tokenize(&task);
        }
    }
    let waiting = scheduler.state.pool.lock().tokens();
    record.is_held.store(false, Ordering::Relaxed);
    assert!((30_000..40_000).contains(&waiting), "{waiting}");
    calls.into_iter().for_each(|call| check(&texts, &call.wait().unwrap()));
    assert_eq!(scheduler.state.pool.lock().tokens(), 0);
}

#[test]
fn a_large_call_is_tokenized_while_small_calls_keep_the_pool_full() {
    let (scheduler, record) = start(2, LIMITS);
    *record.pause.lock() = Duration::from_micros(100);
    let (small, large) = ("a".repeat(600), vec!["abcdefghij"; 5000]);
    let small = vec![small.as_str(); 8];
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let others: Vec<_> = (0..8)
            .map(|_| {
                scope.spawn(|| {
                    let rounds = (0..1000).take_while(|_| !is_over.load(Ordering::Relaxed));
                    rounds
                        .inspect(|_| check(&small, &scheduler.submit(&small, CallKind::Documents).wait().unwrap()))
                        .count()
                })
            })
            .collect();
        while record.runs.lock().len() < 100 {
            thread::yield_now();
        }
        check(&large, &scheduler.submit(&large, CallKind::Documents).wait().unwrap());
        is_over.store(true, Ordering::Relaxed);
        for other in others {
            assert!(other.join().unwrap() < 1000, "the large call ran last");
        }
    });
}

#[test]
fn waiting_tokens_of_many_small_calls_are_bounded() {
    let (scheduler, record) = start(1, LIMITS);
    record.is_held.store(true, Ordering::Relaxed);
    let started = Instant::now();
    let calls: Vec<Submitted> = (0..40_000).map(|_| scheduler.submit(&["abcdefghij"], CallKind::Documents)).collect();
    let waiting = scheduler.state.pool.lock().tokens();
    record.is_held.store(false, Ordering::Relaxed);
    assert!((30_000..40_000).contains(&waiting), "{waiting}");
    calls.into_iter().for_each(|call| check(&["abcdefghij"], &call.wait().unwrap()));
    assert_eq!(scheduler.state.pool.lock().tokens(), 0);
    // This takes a second. If each call iterated over all calls, it would take minutes.
    assert!(started.elapsed().as_secs() < 20, "{:?}", started.elapsed());
}

#[test]
fn concurrent_long_rows_are_limited() {
    // The squares of the lengths of running long rows sum to at most 2^23. Short rows run meanwhile.
    for (length, most) in [(4000, 1), (2000, 2), (1500, 3)] {
        let (scheduler, record) = start(6, LIMITS);
        *record.pause.lock() = Duration::from_millis(60);
        let (long, short) = ("a".repeat(length), vec!["ab"; 60]);
        let long = vec![long.as_str(); 12];
        thread::scope(|scope| {
            let waits = scope.spawn(|| check(&long, &scheduler.submit(&long, CallKind::Documents).wait().unwrap()));
            while record.runs.lock().len() < most {
                thread::yield_now();
            }
            check(&short, &scheduler.submit(&short, CallKind::Documents).wait().unwrap());
            // The twelve long rows take at least four rounds, and the short rows two concurrent runs.
            assert!(!waits.is_finished(), "short rows waited for long ones");
        });
        assert_eq!(record.most_long.load(Ordering::Relaxed), most, "of {length}");
    }
    let (scheduler, record) = start(4, Limits { padded: true, ..LIMITS });
    *record.pause.lock() = Duration::from_millis(50);
    let long = "a".repeat(4000);
    scheduler.submit(&[long.as_str(); 12], CallKind::Documents).wait().unwrap();
    assert!(
        record.most_long.load(Ordering::Relaxed) > 1,
        "rows that may be padded have no attention, so their length is not limited"
    );
}

#[test]
fn unfinished_calls_fail_when_the_scheduler_is_dropped() {
    let (scheduler, record) = start(1, LIMITS);
    *record.pause.lock() = Duration::from_millis(20);
    let texts = vec!["abcdefghij"; 10_000];
    let calls: Vec<Submitted> = [&texts[..], &["ab"], &["abc"], &[]]
        .into_iter()
        .map(|texts| scheduler.submit(texts, CallKind::Documents))
        .collect();
    drop(scheduler);
    let mut found = calls.into_iter().map(Submitted::wait);
    let error = found.next().unwrap().unwrap_err().to_string();
    assert!(error.contains("dropped before the texts were embedded"), "{error}");
    assert!(found.nth(2).unwrap().unwrap().is_empty());
}

#[test]
fn waiting_long_rows_are_cancelled_when_the_scheduler_is_dropped() {
    let (scheduler, record) = start(6, LIMITS);
    *record.pause.lock() = Duration::from_millis(100);
    let long = "a".repeat(4000);
    let calls: Vec<Submitted> = (0..6).map(|_| scheduler.submit(&[&long], CallKind::Documents)).collect();
    while record.runs.lock().is_empty() {
        thread::yield_now();
    }
    drop(scheduler);
    let embedded = calls.into_iter().map(Submitted::wait).filter(|found| found.is_ok()).count();
    assert_eq!(embedded, record.runs.lock().len());
    assert!(embedded < 3, "{embedded}");
}

#[test]
fn dropped_calls_are_cancelled() {
    let (scheduler, record) = start(2, LIMITS);
    *record.pause.lock() = Duration::from_micros(100);
    let texts = vec!["abcdefghij"; 10_000];
    drop(scheduler.submit(&texts, CallKind::Documents));
    drop(scheduler.submit(&["ab"], CallKind::Documents));
    let pool = scheduler.state.pool.lock();
    assert!(!pool.has_work());
    assert_eq!(pool.tokens(), 0);
    drop(pool);
    check(&["abc"], &scheduler.submit(&["abc"], CallKind::Documents).wait().unwrap());
    assert!(record.runs.lock().len() < 100, "{}", record.runs.lock().len());
}

#[test]
fn only_the_call_at_fault_fails() {
    let (scheduler, record) = start(2, LIMITS);
    *record.pause.lock() = Duration::from_micros(100);
    let reasons = HashMap::from([
        ("Eb", "embedding failed: on purpose"),
        ("Pb", "embedding failed: the model panicked"),
        ("!b", "embedding failed: on purpose"),
        ("?b", "embedding failed: the tokenizer panicked"),
    ]);
    thread::scope(|scope| {
        for bad in ["Eb", "Pb", "!b", "?b", "ab", "cd"] {
            let (scheduler, reasons) = (&scheduler, &reasons);
            scope.spawn(move || {
                for many in [2, 100, 3] {
                    let mut texts = vec!["ab"; many];
                    texts[many / 2] = bad;
                    let found = scheduler.submit(&texts, CallKind::Documents).wait();
                    match reasons.get(bad) {
                        Some(reason) => assert_eq!(found.unwrap_err().to_string(), *reason),
                        None => check(&texts, &found.unwrap()),
                    }
                }
            });
        }
    });
    assert_eq!(scheduler.state.pool.lock().tokens(), 0);
}

#[test]
fn queries_run_first_but_delay_documents_only_briefly() {
    let sum = Sum::default();
    let priority = Arc::new(QueryPriority::default());
    let scheduler = Scheduler::start(vec![sum], Arc::new(Bytes), LIMITS, Arc::clone(&priority)).unwrap();
    let embed = || scheduler.submit(&["ab"], CallKind::Documents).wait().unwrap();
    embed();
    let query_ended = AtomicUsize::new(0);
    thread::scope(|scope| {
        let query = priority.begin_query();
        let documents = scope.spawn(|| {
            embed();
            query_ended.load(Ordering::Relaxed)
        });
        thread::sleep(Duration::from_millis(10));
        query_ended.store(1, Ordering::Relaxed);
        drop(query);
        assert_eq!(documents.join().unwrap(), 1, "documents ran before a query");
    });
    let _query = priority.begin_query();
    let started = Instant::now();
    embed();
    assert!((40..5000).contains(&started.elapsed().as_millis()), "{:?}", started.elapsed());
}

#[test]
fn queries_do_not_delay_tokenization() {
    let sum = Sum::default();
    let priority = Arc::new(QueryPriority::default());
    let scheduler = Scheduler::start(vec![sum.clone()], Arc::new(Bytes), LIMITS, Arc::clone(&priority)).unwrap();
    let _query = priority.begin_query();
    let started = Instant::now();
    // The texts are tokenized in forty chunks. A worker waits 50 ms before each run, not before each chunk.
    let texts = vec!["abcdefghij"; 1280];
    let _documents = scheduler.submit(&texts, CallKind::Documents);
    while sum.0.runs.lock().is_empty() {
        assert!(started.elapsed().as_millis() < 1500, "no run has started");
        thread::yield_now();
    }
}
