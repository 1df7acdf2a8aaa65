//! Trials of a scenario: with a fault of the storage at each of its calls, and with a power failure at random moments.
//! What the engine answered must agree with what the file contains afterwards.

use std::{
    collections::BTreeMap,
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
    sync::Arc,
    time::Duration,
};

use super::{
    scenarios::{BACKUP, Scenario, Step, engine, messages, namespace},
    support::{
        below, chain,
        tally::{tally, tally_problems},
        within,
    },
};
use crate::{
    Engine, Error, Query,
    store::faulty::{self, Event, Fault, Log},
};

/// The time limit of one trial, which normally takes some hundredths of a second.
const LONGEST: Duration = Duration::from_secs(60);

/// The outcome of a step.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Outcome {
    Acknowledged,
    /// The step failed, so its change must not be stored.
    Refused,
    /// The change may be stored or not.
    Unknown,
}

/// Runs a scenario with faults at a sample of its calls, or at every call.
pub(super) fn every_fault(scenario: Scenario) {
    let (scenario, prepared) = (Arc::new(scenario), tempfile::tempdir().unwrap());
    let file = prepared.path().join("prepared.redb");
    (scenario.prepare)(&file);
    let run = |fault| {
        let (scenario, file) = (Arc::clone(&scenario), file.clone());
        let trial = AssertUnwindSafe(|| within(LONGEST, move || trial(&scenario, &file, fault)));
        catch_unwind(trial).unwrap_or_else(|_| (vec!["panicked".to_owned()], 0))
    };
    let (problems, calls) = run(None);
    assert_eq!(problems, [""; 0], "without a fault");
    let faults = faults(calls);
    let mut problems: BTreeMap<String, Vec<Fault>> = BTreeMap::new();
    for &fault in &faults {
        for problem in tally_problems(run(Some(fault)).0) {
            problems.entry(problem).or_default().push(fault);
        }
    }
    tally("faults", faults.len() as u64);
    let problems: Vec<String> =
        problems.iter().map(|(what, at)| format!("{} times, first with {:?}: {what}", at.len(), at[0])).collect();
    assert!(problems.is_empty(), "{} faults in {calls} calls:\n{}", faults.len(), problems.join("\n"));
}

/// Returns the faults to try: at every call, once only and from then on, or a sample of these.
fn faults(calls: u64) -> Vec<Fault> {
    let fault = |at: u64, lasting: bool, code: i32| Fault { call: None, at, lasting, code };
    let wanted = std::env::var("MNEMON_FAULTS").unwrap_or_else(|_| "12".into());
    if wanted == "all" {
        let both = |at| [fault(at, false, Fault::EIO), fault(at, true, Fault::ENOSPC)];
        return (1..=calls).flat_map(both).collect();
    }
    let mut state = calls;
    let sampled = |i: u64| {
        let code = if i % 4 < 2 { Fault::ENOSPC } else { Fault::EIO };
        fault(1 + below(&mut state, calls as usize) as u64, i.is_multiple_of(2), code)
    };
    (0..wanted.parse().expect("MNEMON_FAULTS is `all` or a count")).map(sampled).collect()
}

/// Runs a scenario on a copy of `prepared`. Returns the problems and the number of calls of the storage.
fn trial(scenario: &Scenario, prepared: &Path, fault: Option<Fault>) -> (Vec<String>, u64) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("memory.redb");
    if prepared.exists() {
        std::fs::copy(prepared, &path).unwrap();
    }
    let plan = faulty::plan(folder.path());
    plan.fail(fault);
    let mut problems = Vec::new();
    let (mut outcomes, mut answers) = (Vec::new(), Vec::new());
    match engine(&path) {
        Err(error) => problems.extend(masked("opening", &error, fault)),
        Ok(engine) => {
            for step in &scenario.steps {
                outcomes.push(run(step, &engine, folder.path(), fault, &mut problems));
                if scenario.is_chain && outcomes.last() != Some(&Outcome::Acknowledged) {
                    break;
                }
            }
            answers = stored(&scenario.steps, &engine);
            // After a fault that does not last, the engine must accept writes again, at the second try at the latest.
            if fault.is_some_and(|fault| !fault.lasting) && plan.failed() > 0 && works(&engine).is_err() {
                let again = works(&engine).err();
                problems.extend(again.map(|error| format!("does not work on in the same engine: {}", chain(&error))));
            }
        }
    }
    let calls = plan.count(None);
    plan.fail(None);
    problems.extend(left_over(folder.path()));
    problems.extend(check_file(scenario, &path, &outcomes, &answers));
    let backup = folder.path().join(BACKUP);
    if backup.exists() {
        let found = check_file(&Scenario { steps: Vec::new(), ..*scenario }, &backup, &[], &[]);
        problems.extend(found.into_iter().map(|problem| format!("in the backup: {problem}")));
    }
    (problems, calls)
}

fn run(step: &Step, engine: &Engine, folder: &Path, fault: Option<Fault>, problems: &mut Vec<String>) -> Outcome {
    let Err(error) = (step.run)(engine, folder) else { return Outcome::Acknowledged };
    problems.extend(masked(step.name, &error, fault));
    if step.may_be_half || matches!(error, Error::OutcomeUnknown { .. }) { Outcome::Unknown } else { Outcome::Refused }
}

/// Returns a problem if an error hides the fault that caused it.
fn masked(what: &str, error: &Error, fault: Option<Fault>) -> Option<String> {
    let (text, cause) = (chain(error), fault.map_or(String::new(), |fault| fault.error().to_string()));
    let is_named = fault.is_some() && text.contains(&cause) && !text.contains("Previous I/O error");
    (!is_named).then(|| format!("{what}: the error is not {cause:?} but {text:?}"))
}

/// Returns for each step whether its change is stored; `None` if the step has no test or the test failed.
fn stored(steps: &[Step], engine: &Engine) -> Vec<Option<bool>> {
    steps.iter().map(|step| step.is_stored.as_ref().and_then(|is_stored| is_stored(engine).ok())).collect()
}

/// Reports the files in a folder beside the database and its backup.
fn left_over(folder: &Path) -> Vec<String> {
    let names = folder.read_dir().unwrap().map(|entry| entry.unwrap().file_name());
    let others = names.filter(|name| name != "memory.redb" && name != BACKUP);
    others
        .map(|name| format!("left over: a file *.{}", name.to_string_lossy().rsplit('.').next().unwrap_or_default()))
        .collect()
}

/// Opens the file after a scenario. Returns how it differs from the outcomes of the steps, where a step without an outcome
/// was not begun, and from the answers of the engine that wrote it.
fn check_file(scenario: &Scenario, path: &Path, outcomes: &[Outcome], answers: &[Option<bool>]) -> Vec<String> {
    let mut problems = Vec::new();
    match path.exists().then(|| crate::verify(path)) {
        Some(Ok(report)) => problems.extend(report.problems.iter().map(|problem| format!("verify: {problem}"))),
        Some(Err(error)) => problems.push(format!("verify fails: {}", chain(&error))),
        None => {}
    }
    let engine = match engine(path) {
        Ok(engine) => engine,
        Err(error) => return [problems, vec![format!("does not open: {}", chain(&error))]].concat(),
    };
    let is_stored = stored(&scenario.steps, &engine);
    for (at, (step, is_stored)) in scenario.steps.iter().zip(is_stored).enumerate() {
        let name = step.name;
        let Some(is_stored) = is_stored else {
            if step.is_stored.is_some() {
                problems.push(format!("{name}: cannot be read"));
            }
            continue;
        };
        match outcomes.get(at).unwrap_or(&Outcome::Refused) {
            Outcome::Acknowledged if !is_stored => problems.push(format!("{name}: acknowledged, but lost")),
            Outcome::Refused if is_stored => problems.push(format!("{name}: refused, but stored")),
            _ => {}
        }
        if answers.get(at).copied().flatten().is_some_and(|answer| answer != is_stored) {
            problems.push(format!("{name}: the engine answered {}, the file says {is_stored}", !is_stored));
        }
    }
    problems.extend((scenario.kept)(&engine).err().map(|error| format!("what was there before: {}", chain(&error))));
    problems.extend(works(&engine).err().map(|error| format!("does not work on: {}", chain(&error))));
    drop(engine);
    match crate::verify(path) {
        Ok(report) => problems.extend(report.problems.iter().map(|problem| format!("verify at the end: {problem}"))),
        Err(error) => problems.push(format!("verify at the end fails: {}", chain(&error))),
    }
    problems
}

/// Checks that the engine can put, embed and recall.
fn works(engine: &Engine) -> crate::Result<()> {
    let (blocking, after) = (engine.blocking(), namespace("after"));
    blocking.put(&after, messages(0, 3))?;
    blocking.flush()?;
    let hits = blocking.recall(&after, Query::new("topic1 word1"))?;
    assert_eq!(hits[0].message.id, "m1");
    Ok(())
}

/// Runs a scenario once, and checks the files that power failures at random moments of it leave: any part of the bytes
/// that were not synced may be in the file.
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
        let found = tally_problems(check_file(&scenario, &file, &outcomes, &[]));
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
        (step.run)(&engine, folder).unwrap();
        plan.mark(Event::Acknowledged(at));
    }
    drop(engine);
    plan.recorded()
}

/// Returns the outcomes of the steps that a client knew at the cut.
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
