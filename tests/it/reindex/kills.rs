//! Kills at random moments of a reindex or a rollback, beside puts, deletes and flushes.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

use mnemon::{Engine, GenerationState, Message, Precision, ReindexOptions};

use super::{found, generations, hashing};
use crate::support::{
    Db, go_on,
    killing::{acknowledged, child_arguments, kill_after, runs},
    message, namespace,
    random::delay,
    reindex,
};

const BATCH: u64 = 20;
const MODELS: [usize; 3] = [16, 24, 32];

/// Returns batch `number` of run `run`: new messages, and changed ones that earlier runs may have put.
fn batch(run: u64, number: u64) -> Vec<Message> {
    let text = |i: u64| format!("run{run}batch{number}message{i} of many");
    let id = |i: u64| {
        if i < BATCH - 4 { format!("{run}/{number}/{i}") } else { format!("shared/{}", (number * 4 + i) % 50) }
    };
    (0..BATCH).map(|i| message(&id(i), &text(i))).collect()
}

/// The last but one batch's first message is deleted after each batch.
fn deleted(run: u64, number: u64) -> Option<String> {
    number.checked_sub(2).map(|number| format!("{run}/{number}/0"))
}

fn serving(path: &Path) -> usize {
    let generations = mnemon::stats(path).map_or(Vec::new(), |stats| stats.generations);
    let serving = generations.iter().find(|generation| generation.state == GenerationState::Serving);
    serving.map_or(MODELS[0], |serving| serving.model.dimension)
}

/// Opens the engine with a small flush size, so that kills meet the background flush too. Every other run has graphs.
fn open(path: &Path, dimension: usize, run: u64) -> Engine {
    let mut config = mnemon::Config::default();
    (config.flush_size, config.exact_threshold) = (50, if run.is_multiple_of(2) { 100 } else { 10_000 });
    (config.m, config.ef_construction) = (4, 16);
    Engine::builder(path).config(config).embedder(hashing(dimension)).open().unwrap()
}

/// The process that is killed. It puts batch after batch, prints which are acknowledged, and reindexes from model to
/// model meanwhile.
#[test]
#[ignore = "the process that a_killed_reindex_serves_the_old_model_and_continues starts and kills"]
fn child() {
    let (path, run) = child_arguments();
    let path = Path::new(&path);
    let dimension = serving(path);
    let (engine, is_begun) = (open(path, dimension, run), AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| {
            for number in 0.. {
                engine.blocking().put(&namespace("a"), batch(run, number)).unwrap();
                if let Some(id) = deleted(run, number) {
                    engine.blocking().delete(&namespace("a"), vec![id]).unwrap();
                }
                println!("ack {number}");
                thread::sleep(Duration::from_millis(5));
                is_begun.store(true, Ordering::Relaxed);
                if number % 5 == 4 {
                    engine.blocking().flush().unwrap();
                    let first = batch(run, number).swap_remove(1);
                    assert_eq!(found(&engine, "a", &first.text()), Some(first.id));
                }
            }
        });
        while !is_begun.load(Ordering::Relaxed) {
            thread::yield_now();
        }
        let mut now = dimension;
        for round in run as usize.. {
            let other = MODELS[(MODELS.iter().position(|&model| model == now).unwrap() + 1) % MODELS.len()];
            let mut options = ReindexOptions::default();
            (options.samples, options.min_recall) = (16, 0.0);
            options.precision = Some(if round % 2 == 0 { Precision::F32 } else { Precision::I8 });
            options.keep_previous = round % 3 != 0;
            assert!(engine.blocking().reindex(hashing(other), options, go_on).unwrap().switched);
            println!("moved to {other}");
            if round % 3 == 1 {
                assert!(engine.blocking().rollback(hashing(now), go_on).unwrap().switched);
                println!("back to {now}");
            } else {
                now = other;
            }
        }
    });
}

#[test]
fn a_killed_reindex_serves_the_old_model_and_continues() {
    let runs = runs();
    let db = Db::new();
    let mut state = 99;
    let mut due: BTreeMap<String, String> = BTreeMap::new();
    let (mut put, mut moves, mut resumed, mut halves) = (0, 0, 0, 0);
    for run in 0..runs {
        let delay = delay(&mut state, Duration::from_millis(600));
        let said = kill_after(module_path!(), "child", &db.path, run, delay);
        moves += said.iter().filter(|line| line.contains(" to ")).count();
        db.assert_sound();
        let states: BTreeSet<String> = generations(&db).iter().map(|(_, state)| format!("{state:?}")).collect();
        halves += usize::from(states.contains("Building"));
        if run % 3 == 2 && !generations(&db).is_empty() {
            // Without an engine: to what was begun, or to another.
            let begun = generations(&db).into_iter().find(|(_, state)| *state == GenerationState::Building);
            let precision = mnemon::stats(&db.path).unwrap().generations.last().map(|generation| generation.precision);
            let to = begun.map_or(MODELS[run as usize % 3], |(dimension, _)| dimension);
            let report = reindex(&db, hashing(to), precision, go_on).unwrap();
            resumed += report.resumed;
            db.assert_sound();
            assert_eq!(generations(&db), [(serving(&db.path), GenerationState::Serving)]);
        }

        let engine = open(&db.path, serving(&db.path), run);
        engine.blocking().flush().unwrap();
        // The batch in flight may be there, or not, or without its delete.
        let acknowledged = acknowledged(&said, "");
        for number in 0..=acknowledged {
            let is_there = |message: &Message| {
                let stored = engine.blocking().get(&namespace("a"), &message.id).unwrap();
                stored.is_some_and(|stored| stored.text() == message.text())
            };
            if number == acknowledged && !batch(run, number).iter().all(is_there) {
                break;
            }
            due.extend(batch(run, number).into_iter().map(|message| (message.id.clone(), message.text())));
            if let Some(id) = deleted(run, number) {
                let is_gone = || engine.blocking().get(&namespace("a"), &id).unwrap().is_none();
                if number < acknowledged || is_gone() {
                    due.remove(&id);
                }
            }
        }
        // Every other, or what follows takes most of the time.
        for (id, text) in due.iter().skip(run as usize % 2).step_by(2) {
            assert_eq!(found(&engine, "a", text).as_ref(), Some(id), "run {run}");
        }
        assert_eq!(engine.blocking().pending().unwrap(), 0);
        put += acknowledged * BATCH;
        if due.len() > 500 {
            engine.blocking().delete_namespace(&namespace("a")).unwrap();
            due.clear();
        }
        drop(engine);
        assert_eq!(db.assert_sound().messages as usize, due.len());
    }
    assert!(put > 100, "the kills came too early to test anything");
    eprintln!(
        "{runs} kills, {put} messages, none lost; {moves} moves done, {halves} killed half built, {resumed} messages of \
         them not embedded again"
    );
}
