//! Power failures at every moment of a scenario: of what was not synced, any part may be in the file.

use std::path::Path;

use super::{
    scenarios::Scenario,
    steps::engine,
    support::{below, tally::tally},
    trial::{Outcome, check_file},
};
use crate::store::faulty::{self, Event, Log};

/// Runs a scenario once, and checks the files that power failures leave at random moments of it.
pub(super) fn every_image(scenario: Scenario) {
    let images: u64 = std::env::var("MNEMON_IMAGES").map_or(12, |count| count.parse().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("memory.redb");
    (scenario.prepare)(&path);
    let log = record(&scenario, folder.path(), &path);
    let mut state = log.events.len() as u64;
    let mut problems = Vec::new();
    for number in 0..images {
        let cut = below(&mut state, log.events.len() + 1);
        let image = log.image(cut, &mut |count| below(&mut state, count));
        let failed = tempfile::tempdir().unwrap();
        let file = failed.path().join("memory.redb");
        std::fs::write(&file, image).unwrap();
        let outcomes = outcomes(&log, cut, scenario.steps.len());
        let found = check_file(&scenario, &file, &outcomes, &[]);
        problems.extend(found.into_iter().map(|what| format!("image {number}, after {cut} events: {what}")));
    }
    tally("images", images);
    assert!(problems.is_empty(), "{} events:\n{}", log.events.len(), problems.join("\n"));
}

fn record(scenario: &Scenario, folder: &Path, path: &Path) -> Log {
    let plan = faulty::plan(folder);
    plan.record(path);
    let engine = engine(path).unwrap();
    for (at, step) in scenario.steps.iter().enumerate() {
        plan.mark(Event::Begun(at));
        (step.run)(&engine).unwrap();
        plan.mark(Event::Acknowledged(at));
    }
    drop(engine);
    plan.recorded()
}

/// The outcomes that the test knew at the cut.
fn outcomes(log: &Log, cut: usize, steps: usize) -> Vec<Outcome> {
    let mut outcomes = vec![Outcome::Refused; steps];
    for event in &log.events[..cut] {
        match event {
            Event::Begun(at) => outcomes[*at] = Outcome::Unknown,
            Event::Acknowledged(at) => outcomes[*at] = Outcome::Acknowledged,
            _ => {}
        }
    }
    outcomes
}
