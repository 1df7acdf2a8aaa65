//! Kills of `mnemon ingest`.

use std::{
    process::{Command, Stdio},
    time::Duration,
};

use crate::support::{Db, killing::runs, random::delay, sample};

#[test]
fn a_killed_ingest_is_finished_by_running_it_again() {
    let runs = runs() / 3;
    let mut state = 7;
    let file = sample("messages.jsonl");
    let ingest = |db: &Db| {
        let mut command = Command::new(assert_cmd::cargo::cargo_bin!("mnemon"));
        command.arg("ingest").arg("--db").arg(&db.path).arg(&file).stdout(Stdio::null()).stderr(Stdio::null());
        command
    };
    let mut unfinished = 0;
    for _ in 0..runs {
        let db = Db::new();
        let mut child = ingest(&db).spawn().unwrap();
        std::thread::sleep(delay(&mut state, Duration::from_millis(250)));
        child.kill().unwrap();
        child.wait().unwrap();
        if std::fs::metadata(&db.path).is_ok_and(|metadata| metadata.len() > 0) {
            let report = db.assert_sound();
            unfinished += u64::from(report.vectors < 462);
            assert!(report.messages == report.vectors + report.pending);
        }
        assert!(ingest(&db).status().unwrap().success());
        let report = db.assert_sound();
        assert_eq!((report.messages, report.vectors, report.pending), (462, 462, 0));
    }
    eprintln!("{runs} ingests killed, {unfinished} of them on the way; each finished by the second run");
}
