use std::{
    collections::HashMap,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    time::{Duration, Instant},
};

use proptest::prelude::*;

use super::*;

/// A token a byte. A text that begins with '!' fails, with '?' panics; passages are of 10 bytes at most.
struct Bytes;

impl Read for Bytes {
    fn read(&self, text: &str, kind: Kind) -> Result<Vec<Window>> {
        match text.as_bytes().first() {
            Some(b'!') => return Err(Error::Embedding { reason: "on purpose".into(), source: None }),
            Some(b'?') => panic!("on purpose"),
            _ => {}
        }
        let length = if kind == Kind::Documents { text.len().max(1) } else { 10 };
        let starts = (0..text.len().max(1)).step_by(length);
        let windows = starts.map(|start| start..(start + length).min(text.len()));
        let tokens = |range: Range<usize>| text[range].bytes().map(u32::from).collect();
        Ok(windows.map(|range| Window { range: range.clone(), tokens: tokens(range) }).collect())
    }
}

/// Gives the sum of a row's tokens and their number. A row with a token of 'E' fails, with 'P' panics.
#[derive(Clone, Default)]
struct Sum(Arc<Record>);

#[derive(Default)]
struct Record {
    runs: Mutex<Vec<Vec<usize>>>,
    pause: Mutex<Duration>,
    /// Runs wait while this is set.
    is_held: AtomicBool,
    /// Runs of rows of more than 100 tokens, now and at most.
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
        kind in prop_oneof![Just(Kind::Documents), Just(Kind::Passages)],
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
fn texts_of_all_calls_share_runs() {
    let (scheduler, record) = start(1, LIMITS);
    record.is_held.store(true, Ordering::Relaxed);
    let first = scheduler.submit(&["aa"], Kind::Documents);
    let others: Vec<Submitted> = (0..40).map(|_| scheduler.submit(&["bb", "abc"], Kind::Documents)).collect();
    record.is_held.store(false, Ordering::Relaxed);
    check(&["aa"], &first.wait().unwrap());
    others.into_iter().for_each(|call| check(&["bb", "abc"], &call.wait().unwrap()));
    // 40 texts of two bytes, 32 a run; and of three, 21 a run.
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
                check(&giant, &scheduler.submit(&giant, Kind::Documents).wait().unwrap());
                is_over.store(true, Ordering::Relaxed);
            });
            while record.runs.lock().len() < 20 {
                thread::yield_now();
            }
            for many in [1, 30, 300] {
                let small = vec!["ab"; many];
                let runs = record.runs.lock().len();
                check(&small, &scheduler.submit(&small, Kind::Documents).wait().unwrap());
                let runs = record.runs.lock().len() - runs;
                // Those of the giant are thousands; a busy machine wakes this thread late.
                assert!(runs < 200 + many, "{many} texts waited for {runs} runs");
            }
            assert!(!is_over.load(Ordering::Relaxed), "it was no giant");
        });
    }
}

#[test]
fn what_waits_is_bounded() {
    let (scheduler, record) = start(1, LIMITS);
    record.is_held.store(true, Ordering::Relaxed);
    let texts = vec!["abcdefghij"; 50_000];
    let calls: Vec<Submitted> = (0..3).map(|_| scheduler.submit(&texts, Kind::Documents)).collect();
    // Everybody tokenises as much as there is room for.
    for call in &calls {
        while let Some(reading) = call.next_reading() {
            call.shared.read(&reading);
        }
    }
    let waiting = scheduler.shared.pool.lock().tokens();
    record.is_held.store(false, Ordering::Relaxed);
    assert!((30_000..40_000).contains(&waiting), "{waiting}");
    calls.into_iter().for_each(|call| check(&texts, &call.wait().unwrap()));
    assert_eq!(scheduler.shared.pool.lock().tokens(), 0);
}

/// Calls that keep the pool full do not keep another from being read.
#[test]
fn small_calls_without_end_do_not_starve_a_large_one() {
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
                        .inspect(|_| check(&small, &scheduler.submit(&small, Kind::Documents).wait().unwrap()))
                        .count()
                })
            })
            .collect();
        while record.runs.lock().len() < 100 {
            thread::yield_now();
        }
        check(&large, &scheduler.submit(&large, Kind::Documents).wait().unwrap());
        is_over.store(true, Ordering::Relaxed);
        for other in others {
            assert!(other.join().unwrap() < 1000, "the large one was left for the last");
        }
    });
}

/// However many calls there are of few texts.
#[test]
fn what_waits_of_small_calls_is_bounded() {
    let (scheduler, record) = start(1, LIMITS);
    record.is_held.store(true, Ordering::Relaxed);
    let started = Instant::now();
    let calls: Vec<Submitted> = (0..40_000).map(|_| scheduler.submit(&["abcdefghij"], Kind::Documents)).collect();
    let waiting = scheduler.shared.pool.lock().tokens();
    record.is_held.store(false, Ordering::Relaxed);
    assert!((30_000..40_000).contains(&waiting), "{waiting}");
    calls.into_iter().for_each(|call| check(&["abcdefghij"], &call.wait().unwrap()));
    assert_eq!(scheduler.shared.pool.lock().tokens(), 0);
    // It takes a second; looking at all calls for each of them, minutes.
    assert!(started.elapsed().as_secs() < 20, "{:?}", started.elapsed());
}

#[test]
fn long_rows_run_few_at_a_time() {
    // Their squares are 2^23 in all at most; other rows go on meanwhile.
    for (length, most) in [(4000, 1), (2000, 2), (1500, 3)] {
        let (scheduler, record) = start(6, LIMITS);
        *record.pause.lock() = Duration::from_millis(60);
        let (long, short) = ("a".repeat(length), vec!["ab"; 60]);
        let long = vec![long.as_str(); 12];
        thread::scope(|scope| {
            let waits = scope.spawn(|| check(&long, &scheduler.submit(&long, Kind::Documents).wait().unwrap()));
            while record.runs.lock().len() < most {
                thread::yield_now();
            }
            check(&short, &scheduler.submit(&short, Kind::Documents).wait().unwrap());
            // Twelve take four rounds at least; the short ones two runs at once.
            assert!(!waits.is_finished(), "short rows waited for long ones");
        });
        assert_eq!(record.most_long.load(Ordering::Relaxed), most, "of {length}");
    }
    let (scheduler, record) = start(4, Limits { padded: true, ..LIMITS });
    *record.pause.lock() = Duration::from_millis(50);
    let long = "a".repeat(4000);
    scheduler.submit(&[long.as_str(); 12], Kind::Documents).wait().unwrap();
    assert!(record.most_long.load(Ordering::Relaxed) > 1, "what may be padded has no attention");
}

#[test]
fn what_has_no_turn_before_the_end_is_an_error() {
    let (scheduler, record) = start(1, LIMITS);
    *record.pause.lock() = Duration::from_millis(20);
    let texts = vec!["abcdefghij"; 10_000];
    let calls: Vec<Submitted> = [&texts[..], &["ab"], &["abc"], &[]]
        .into_iter()
        .map(|texts| scheduler.submit(texts, Kind::Documents))
        .collect();
    drop(scheduler);
    let mut found = calls.into_iter().map(Submitted::wait);
    let error = found.next().unwrap().unwrap_err().to_string();
    assert!(error.contains("dropped before the texts had their turn"), "{error}");
    assert!(found.nth(2).unwrap().unwrap().is_empty());
}

#[test]
fn long_rows_that_wait_are_given_up_at_the_end() {
    let (scheduler, record) = start(6, LIMITS);
    *record.pause.lock() = Duration::from_millis(100);
    let long = "a".repeat(4000);
    let calls: Vec<Submitted> = (0..6).map(|_| scheduler.submit(&[&long], Kind::Documents)).collect();
    while record.runs.lock().is_empty() {
        thread::yield_now();
    }
    drop(scheduler);
    let embedded = calls.into_iter().map(Submitted::wait).filter(|found| found.is_ok()).count();
    assert_eq!(embedded, record.runs.lock().len());
    assert!(embedded < 3, "{embedded}");
}

#[test]
fn what_is_dropped_is_given_up() {
    let (scheduler, record) = start(2, LIMITS);
    *record.pause.lock() = Duration::from_micros(100);
    let texts = vec!["abcdefghij"; 10_000];
    drop(scheduler.submit(&texts, Kind::Documents));
    drop(scheduler.submit(&["ab"], Kind::Documents));
    let pool = scheduler.shared.pool.lock();
    assert!(!pool.has_work());
    assert_eq!(pool.tokens(), 0);
    drop(pool);
    check(&["abc"], &scheduler.submit(&["abc"], Kind::Documents).wait().unwrap());
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
                    let found = scheduler.submit(&texts, Kind::Documents).wait();
                    match reasons.get(bad) {
                        Some(reason) => assert_eq!(found.unwrap_err().to_string(), *reason),
                        None => check(&texts, &found.unwrap()),
                    }
                }
            });
        }
    });
    assert_eq!(scheduler.shared.pool.lock().tokens(), 0);
}

#[test]
fn questions_go_first_but_not_for_ever() {
    let sum = Sum::default();
    let turns = Arc::new(Turns::default());
    let scheduler = Scheduler::start(vec![sum], Arc::new(Bytes), LIMITS, Arc::clone(&turns)).unwrap();
    let embed = || scheduler.submit(&["ab"], Kind::Documents).wait().unwrap();
    embed();
    let asked = AtomicUsize::new(0);
    thread::scope(|scope| {
        let asking = turns.ask();
        let documents = scope.spawn(|| {
            embed();
            asked.load(Ordering::Relaxed)
        });
        thread::sleep(Duration::from_millis(10));
        asked.store(1, Ordering::Relaxed);
        drop(asking);
        assert_eq!(documents.join().unwrap(), 1, "documents went before a question");
    });
    let _asking = turns.ask();
    let started = Instant::now();
    embed();
    assert!((40..5000).contains(&started.elapsed().as_millis()), "{:?}", started.elapsed());
}

#[test]
fn questions_do_not_keep_texts_from_being_read() {
    let sum = Sum::default();
    let turns = Arc::new(Turns::default());
    let scheduler = Scheduler::start(vec![sum.clone()], Arc::new(Bytes), LIMITS, Arc::clone(&turns)).unwrap();
    let _asking = turns.ask();
    let started = Instant::now();
    // Forty pieces to tokenise; before each run, not each piece, 50 ms are waited.
    let texts = vec!["abcdefghij"; 1280];
    let _documents = scheduler.submit(&texts, Kind::Documents);
    while sum.0.runs.lock().is_empty() {
        assert!(started.elapsed().as_millis() < 1500, "no run has begun");
        thread::yield_now();
    }
}
