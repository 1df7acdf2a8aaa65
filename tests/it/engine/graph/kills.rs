//! Kills while a graph is linked, repaired and folded: after each, graph and messages agree.

use std::{collections::BTreeMap, time::Duration};

use super::{CODING, SPACE, assert_settles, is_found, open, text, wide};
use crate::support::recall::dense;
use crate::support::{
    Db, below,
    killing::{acknowledged, child_arguments, kill_after, runs},
    message, namespace,
    random::delay,
};

const IDS: usize = 500;

/// Returns the messages that step `number` of a run puts, in one commit, and the ids that it deletes, in the next.
fn step(run: u64, number: u64) -> (BTreeMap<String, String>, Vec<String>) {
    let mut state = (run << 20) | number;
    let mut below = |count: usize| below(&mut state, count);
    let count = if below(4) == 0 { 150 } else { 1 + below(20) };
    let unique = (run * 1_000_000 + number * 1000) as usize;
    let puts = (0..count).map(|i| (format!("m{}", below(IDS)), text(unique + i))).collect();
    let deletes = (0..below(count.min(60) + 1)).map(|_| format!("m{}", below(IDS))).collect();
    (puts, deletes)
}

/// The process that is killed.
#[test]
#[ignore = "the process that graph_and_messages_agree_after_kills starts and kills"]
fn child() {
    let (path, run) = child_arguments();
    let engine = open(path, wide());
    let space = namespace(SPACE);
    for number in 0.. {
        let (puts, deletes) = step(run, number);
        engine.blocking().put(&space, puts.iter().map(|(id, text)| message(id, text)).collect()).unwrap();
        if number % 2 == 0 {
            engine.blocking().flush().unwrap();
        }
        engine.blocking().delete(&space, deletes).unwrap();
        println!("ack {number}");
        match number % 5 {
            1 => drop(engine.blocking().flush().unwrap()),
            4 => engine.blocking().optimize(&space).unwrap(),
            _ => {}
        }
    }
}

#[test]
fn graph_and_messages_agree_after_kills() {
    let db = Db::new();
    let space = namespace(SPACE);
    let mut state = 99;
    let mut stored: BTreeMap<String, String> = BTreeMap::new();
    let (mut steps, mut unlinked) = (0, 0);
    let (mut checked, mut missed) = (0, 0);
    for run in 0..runs() {
        let delay = delay(&mut state, Duration::from_millis(300));
        let acknowledged = acknowledged(&kill_after(module_path!(), "child", &db.path, run, delay), "");
        steps += acknowledged;
        let after_put = |mut stored: BTreeMap<String, String>, number| {
            stored.extend(step(run, number).0);
            stored
        };
        let after_delete = |mut stored: BTreeMap<String, String>, number| {
            let deletes = step(run, number).1;
            stored.retain(|id, _| !deletes.contains(id));
            stored
        };
        for number in 0..acknowledged {
            stored = after_delete(after_put(stored, number), number);
        }

        db.assert_sound();
        let engine = open(&db.path, wide());
        let found: BTreeMap<String, String> = (0..IDS)
            .filter_map(|i| {
                let message = engine.blocking().get(&space, &format!("m{i}")).unwrap()?;
                Some((message.id.clone(), message.text()))
            })
            .collect();
        // The step in flight may be there, or a part of it.
        let put = after_put(stored.clone(), acknowledged);
        let deleted = after_delete(put.clone(), acknowledged);
        assert!([&stored, &put, &deleted].contains(&&found), "run {run}, step {acknowledged} in flight");
        stored = found;
        engine.blocking().flush().unwrap();
        let stats = engine.blocking().index_stats(&space).unwrap();
        assert_eq!(stats.vectors, stored.len(), "run {run}");
        unlinked += u64::from(stats.linked < stats.vectors);
        // As the kill has left it; and, now and then, when all is linked.
        for (id, text) in stored.iter().step_by(5) {
            checked += 1;
            if !is_found(&engine, id, text) {
                // The graph is approximate: a search of it may miss a row whose neighbors were all removed. Its vector
                // is there.
                let all = engine.blocking().recall(&space, dense(text).k(stored.len())).unwrap();
                let is_first = all.first().is_some_and(|hit| hit.message.id == *id && hit.score > 1.0 - CODING);
                assert!(is_first, "run {run}: {id}, {text:?} is lost: {:?}, {stats:?}", all.first());
                missed += 1;
            }
        }
        if run % 3 == 0 {
            assert_settles(&engine, stored.len());
            assert!(stored.iter().all(|(id, text)| is_found(&engine, id, text)), "run {run}");
        }
        drop(engine);
        assert_eq!(db.assert_sound().vectors as usize, stored.len());
    }
    assert!(steps > 0, "the kills came too early to test anything");
    assert!(missed <= 1 + checked / 1000, "{missed} of {checked} searches of unfinished graphs missed their message");
    let file = crate::support::open_tables(&db.path);
    let read = redb::ReadableDatabase::begin_read(&file).unwrap();
    let pages = read.open_table(redb::TableDefinition::<(u32, u32, u32), &[u8]>::new("graph_pages"));
    let pages = redb::ReadableTableMetadata::len(&pages.unwrap()).unwrap();
    eprintln!(
        "{pages} pages, {} kills, {steps} steps acknowledged, {unlinked} times with rows to link, {missed} of {checked} missed",
        runs()
    );
}
