//! What the machines were told, and the checker that says whether one database could have told it.
//!
//! Each operation has the times of its beginning and end, by the clock that all processes of a computer share. A
//! register that is only appended to shows its whole history, so the check is complete: an order of the operations is
//! given by the list, and it must not contradict the times.

use std::collections::{BTreeMap, HashMap, HashSet};

/// An operation of a machine.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Operation {
    pub(super) machine: String,
    pub(super) begin: u64,
    /// `u64::MAX` if the machine was killed before it ended.
    pub(super) end: u64,
    pub(super) outcome: Outcome,
    pub(super) kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Acknowledged,
    /// The call said that nothing was stored.
    Failed,
    /// The call said that it does not know, or the machine was killed.
    Unknown,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Kind {
    /// Appends a token to a list.
    Append { list: String, token: String },
    /// Gives a message a content.
    Write { id: String, content: String },
    /// Deletes a message, or forgets it.
    Delete { id: String },
    /// Reads a list.
    Read { list: String, tokens: Vec<String> },
}

/// The state at the end.
#[derive(Debug, Default)]
pub(super) struct End {
    pub(super) lists: BTreeMap<String, Vec<String>>,
    /// Messages by id, with their contents.
    pub(super) messages: BTreeMap<String, String>,
}

/// Returns what contradicts one order of all operations.
pub(super) fn faults(operations: &[Operation], end: &End) -> Vec<String> {
    let mut faults = Vec::new();
    for (list, tokens) in &end.lists {
        check_list(list, tokens, operations, &mut faults);
    }
    check_messages(operations, end, &mut faults);
    faults
}

fn check_list(list: &str, tokens: &[String], operations: &[Operation], faults: &mut Vec<String>) {
    let mut places = HashMap::new();
    for (at, token) in tokens.iter().enumerate() {
        if places.insert(token.as_str(), at).is_some() {
            faults.push(format!("{list}: {token} was applied twice"));
        }
    }
    let mut appends: HashMap<&str, &Operation> = HashMap::new();
    for operation in operations {
        let Kind::Append { list: of, token } = &operation.kind else { continue };
        if of != list {
            continue;
        }
        appends.insert(token, operation);
        match (operation.outcome, places.contains_key(token.as_str())) {
            (Outcome::Acknowledged, false) => faults.push(format!("{list}: {token} was acknowledged and is lost")),
            (Outcome::Failed, true) => faults.push(format!("{list}: {token} was refused and is there")),
            _ => {}
        }
    }
    // What stands later must not have ended before what stands earlier began.
    let mut latest_begin: Option<(u64, &str)> = None;
    for token in tokens {
        let Some(append) = appends.get(token.as_str()) else {
            faults.push(format!("{list}: nobody appended {token}"));
            continue;
        };
        if let Some((begin, earlier)) = latest_begin
            && append.end < begin
        {
            faults.push(format!("{list}: {token} ended before {earlier} began, and stands after it"));
        }
        if latest_begin.is_none_or(|(begin, _)| append.begin > begin) {
            latest_begin = Some((append.begin, token));
        }
    }
    for read in operations {
        let Kind::Read { list: of, tokens: found } = &read.kind else { continue };
        if of != list || read.outcome != Outcome::Acknowledged {
            continue;
        }
        if found.len() > tokens.len() || *found != tokens[..found.len()] {
            faults.push(format!("{list}: {} read what never was: {} tokens", read.machine, found.len()));
            continue;
        }
        for (at, token) in tokens.iter().enumerate() {
            let Some(append) = appends.get(token.as_str()) else { continue };
            if at >= found.len() && append.outcome == Outcome::Acknowledged && append.end < read.begin {
                faults.push(format!("{list}: {} did not read {token}, acknowledged before", read.machine));
            }
            if at < found.len() && append.begin > read.end {
                faults.push(format!("{list}: {} read {token} before it was appended", read.machine));
            }
        }
    }
}

fn check_messages(operations: &[Operation], end: &End, faults: &mut Vec<String>) {
    let mut by_id: BTreeMap<&str, Vec<&Operation>> = BTreeMap::new();
    for operation in operations {
        if let Kind::Write { id, .. } | Kind::Delete { id } = &operation.kind {
            by_id.entry(id).or_default().push(operation);
        }
    }
    for (id, operations) in &by_id {
        // The last operation may be any that no other one began after and was acknowledged.
        let may_be_last = |operation: &Operation| {
            operation.outcome != Outcome::Failed
                && !operations.iter().any(|later| later.outcome == Outcome::Acknowledged && later.begin > operation.end)
        };
        let last: Vec<Option<&str>> = operations
            .iter()
            .filter(|operation| may_be_last(operation))
            .map(|operation| match &operation.kind {
                Kind::Write { content, .. } => Some(content.as_str()),
                _ => None,
            })
            .collect();
        let is_acknowledged = operations.iter().any(|operation| operation.outcome == Outcome::Acknowledged);
        let found = end.messages.get(*id).map(String::as_str);
        if !last.contains(&found) && (is_acknowledged || found.is_some()) {
            faults.push(format!("message {id} is {found:?} at the end, and could be {last:?}"));
        }
    }
    let known: HashSet<&str> = by_id.keys().copied().collect();
    for id in end.messages.keys().filter(|id| !known.contains(id.as_str())) {
        faults.push(format!("nobody wrote message {id}"));
    }
}

#[test]
fn the_checker_finds_what_is_wrong() {
    let append = |token: &str, begin, end, outcome| Operation {
        machine: "a".into(),
        begin,
        end,
        outcome,
        kind: Kind::Append { list: "l".into(), token: token.into() },
    };
    let end = |tokens: &[&str]| End {
        lists: BTreeMap::from([("l".to_owned(), tokens.iter().map(|token| token.to_string()).collect())]),
        messages: BTreeMap::new(),
    };
    use Outcome::*;
    let two = [append("x", 1, 2, Acknowledged), append("y", 3, 4, Acknowledged)];
    assert_eq!(faults(&two, &end(&["x", "y"])), [""; 0]);
    assert_eq!(faults(&two, &end(&["y", "x"])).len(), 1, "order");
    assert_eq!(faults(&two, &end(&["x"])).len(), 1, "lost");
    assert_eq!(faults(&two, &end(&["x", "y", "y"])).len(), 1, "twice");
    assert_eq!(faults(&[append("x", 1, 2, Failed)], &end(&["x"])).len(), 1, "refused and there");
    assert_eq!(faults(&[append("x", 1, u64::MAX, Unknown)], &end(&[])), [""; 0]);
    let read = |begin, end, tokens: &[&str]| Operation {
        kind: Kind::Read { list: "l".into(), tokens: tokens.iter().map(|token| token.to_string()).collect() },
        ..append("", begin, end, Acknowledged)
    };
    let with = |read| [two[0].clone(), two[1].clone(), read];
    assert_eq!(faults(&with(read(5, 6, &["x", "y"])), &end(&["x", "y"])), [""; 0]);
    assert_eq!(faults(&with(read(5, 6, &["x"])), &end(&["x", "y"])).len(), 1, "an old read");
    assert_eq!(faults(&with(read(0, 1, &["x", "y"])), &end(&["x", "y"])).len(), 1, "an early read");
    let write = |content: &str, begin, end| Operation {
        kind: Kind::Write { id: "m".into(), content: content.into() },
        ..append("", begin, end, Acknowledged)
    };
    let is = |content: Option<&str>| End {
        messages: content.map(|content| ("m".to_owned(), content.to_owned())).into_iter().collect(),
        ..End::default()
    };
    let writes = [write("1", 1, 2), write("2", 3, 4)];
    assert_eq!(faults(&writes, &is(Some("2"))), [""; 0]);
    assert_eq!(faults(&writes, &is(Some("1"))).len(), 1, "an overwritten content");
    assert_eq!(faults(&writes, &is(None)).len(), 1, "a lost message");
}
