//! One scenario with one fault: what the engine answers must agree with what the file has afterwards.

use std::{collections::BTreeMap, path::Path, sync::Arc, time::Duration};

use super::{
    scenarios::Scenario,
    steps::{Step, engine, put},
    support::{below, chain, tally::tally, within},
};
use crate::{
    Engine, Error, Query,
    store::faulty::{self, Fault},
};

/// The longest time of one trial, which takes some hundredths of a second.
const LONGEST: Duration = Duration::from_secs(60);

/// The outcome of a step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Outcome {
    Acknowledged,
    /// Nothing is stored.
    Refused,
    /// The step may be there or not.
    Unknown,
}

/// Runs a scenario with faults at a sample of its calls, or at every call.
pub(super) fn every_fault(scenario: Scenario) {
    let (scenario, prepared) = (Arc::new(scenario), tempfile::tempdir().unwrap());
    let file = prepared.path().join("prepared.redb");
    (scenario.prepare)(&file);
    let run = |fault| {
        let (scenario, file) = (Arc::clone(&scenario), file.clone());
        within(LONGEST, move || trial(&scenario, &file, fault))
    };
    let (problems, calls) = run(None);
    assert_eq!(problems, [""; 0], "without a fault");
    let faults = faults(calls);
    let mut problems: BTreeMap<String, Vec<Fault>> = BTreeMap::new();
    for &fault in &faults {
        for problem in run(Some(fault)).0 {
            problems.entry(problem).or_default().push(fault);
        }
    }
    tally("faults", faults.len() as u64);
    let problems: Vec<String> =
        problems.iter().map(|(what, at)| format!("{} times, first with {:?}: {what}", at.len(), at[0])).collect();
    assert!(problems.is_empty(), "{} faults in {calls} calls:\n{}", faults.len(), problems.join("\n"));
}

/// The faults to try: at each call once and from then on, or at a sample of them.
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

/// Runs a scenario on a copy of `prepared`. Returns the problems, and the number of calls of the storage.
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
                outcomes.push(run(step, &engine, fault, &mut problems));
                if scenario.is_chain && outcomes.last() != Some(&Outcome::Acknowledged) {
                    break;
                }
            }
            answers = there(&scenario.steps, &engine);
            // A fault that is over stops no writer.
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
    (problems, calls)
}

fn run(step: &Step, engine: &Engine, fault: Option<Fault>, problems: &mut Vec<String>) -> Outcome {
    let Err(error) = (step.run)(engine) else { return Outcome::Acknowledged };
    problems.extend(masked(step.what, &error, fault));
    if is_unknown(&error) { Outcome::Unknown } else { Outcome::Refused }
}

/// Returns true if an error says that the change may be stored or not.
fn is_unknown(error: &Error) -> bool {
    error.to_string().contains("outcome")
}

/// Returns a problem if an error does not name the fault that caused it.
fn masked(what: &str, error: &Error, fault: Option<Fault>) -> Option<String> {
    let (text, cause) = (chain(error), fault.map_or(String::new(), |fault| fault.error().to_string()));
    let is_named = fault.is_some() && text.contains(&cause) && !text.contains("Previous I/O error");
    (!is_named).then(|| format!("{what}: the error is not {cause:?} but {text:?}"))
}

/// Asks of each step if it is there; `None` where nothing can be said.
fn there(steps: &[Step], engine: &Engine) -> Vec<Option<bool>> {
    steps.iter().map(|step| step.there.as_ref().and_then(|there| there(engine).ok())).collect()
}

/// Names what is in a folder beside the database.
fn left_over(folder: &Path) -> Vec<String> {
    let names = folder.read_dir().unwrap().map(|entry| entry.unwrap().file_name());
    let others = names.filter(|name| name != "memory.redb");
    others
        .map(|name| format!("left over: a file *.{}", name.to_string_lossy().rsplit('.').next().unwrap_or_default()))
        .collect()
}

/// Opens the file after a scenario, and returns in what it differs from the outcomes of the steps, those that were not
/// begun included, and from the answers of the engine that wrote it.
pub(super) fn check_file(
    scenario: &Scenario,
    path: &Path,
    outcomes: &[Outcome],
    answers: &[Option<bool>],
) -> Vec<String> {
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
    let is_there = there(&scenario.steps, &engine);
    for (at, (step, is)) in scenario.steps.iter().zip(is_there).enumerate() {
        let (Some(is), what) = (is, step.what) else {
            if step.there.is_some() {
                problems.push(format!("{}: cannot be read", step.what));
            }
            continue;
        };
        match outcomes.get(at).unwrap_or(&Outcome::Refused) {
            Outcome::Acknowledged if !is => problems.push(format!("{what}: acknowledged, and lost")),
            Outcome::Refused if is => problems.push(format!("{what}: refused, and there")),
            _ => {}
        }
        if answers.get(at).copied().flatten().is_some_and(|answer| answer != is) {
            problems.push(format!("{what}: the engine answered {}, the file says {is}", !is));
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

/// Puts, embeds and recalls.
fn works(engine: &Engine) -> crate::Result<()> {
    let (blocking, space) = (engine.blocking(), super::steps::space("after"));
    (put("after", "after", super::steps::messages(0, 3)).run)(engine)?;
    blocking.flush()?;
    let hits = blocking.recall(&space, Query::new("topic1 word1"))?;
    assert_eq!(hits[0].message.id, "m1");
    Ok(())
}
