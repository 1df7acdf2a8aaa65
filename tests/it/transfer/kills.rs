//! Kills at random moments of an import: it is there as a whole or not at all.

use std::{fs::File, time::Duration};

use mnemon::{DocumentOperation as Operation, DocumentOptions};

use super::*;
use crate::support::{
    killing::{child_arguments, kill_after, runs},
    random::delay,
};

const MESSAGES: usize = 2000;
const DOCUMENTS: usize = 300;

/// The process that is killed.
#[test]
#[ignore = "the process that a_killed_import_leaves_all_or_nothing starts and kills"]
fn child() {
    let (path, _) = child_arguments();
    let engine = Engine::open(&path).unwrap();
    println!("ack 0");
    engine.blocking().import(BufReader::new(File::open(format!("{path}.jsonl")).unwrap())).unwrap();
}

#[test]
fn a_killed_import_leaves_all_or_nothing() {
    let source = Db::new();
    let engine = source.open();
    let messages = (0..MESSAGES).map(|i| message(&i.to_string(), &format!("message {i} of an import")));
    engine.blocking().put(&namespace("a"), messages.collect()).unwrap();
    let documents = (0..DOCUMENTS).map(|i| Operation::Put {
        namespace: namespace("a"),
        key: i.to_string(),
        value: json!({"text": format!("document {i} of an import")}),
        options: DocumentOptions::default(),
    });
    engine.blocking().document_batch(documents.collect()).unwrap();
    let text = export(&engine);
    let (mut state, mut whole) = (7, 0);
    let runs = runs().div_ceil(2);
    for run in 0..runs {
        let db = Db::new();
        std::fs::write(format!("{}.jsonl", db.path.display()), &text).unwrap();
        // Only even runs wait for the opening.
        kill_after(module_path!(), "child", &db.path, 2 * run, delay(&mut state, Duration::from_millis(400)));
        let report = db.assert_sound();
        // The text of a document is stored as a message.
        let all = (MESSAGES + DOCUMENTS) as u64;
        assert!([0, all].contains(&report.messages), "run {run}: {} messages", report.messages);
        whole += u64::from(report.messages > 0);
        if report.messages == 0 && run % 5 > 0 {
            continue;
        }
        let engine = Engine::open(&db.path).unwrap();
        if report.messages == 0 {
            import(&engine, &text).unwrap();
        }
        assert_eq!(export(&engine), text);
    }
    eprintln!("{whole} of {runs} imports were done before the kill");
}
