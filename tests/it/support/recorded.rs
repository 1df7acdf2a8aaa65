//! Cases that were recorded from other libraries; `tests/compat` tells how.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
};

use serde_json::Value;

use super::root;

pub(crate) fn cases(file: &str) -> Vec<Value> {
    let path = root("tests/compat/fixtures").join(file);
    fs::read_to_string(path).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Compares cases, and lets marked ones differ. At least `equal` must be the same, so that marks cannot excuse
/// everything.
pub(crate) fn check(
    file: &str,
    differences: &[(&str, &str)],
    equal: usize,
    same: impl Fn(&Value) -> Result<(), String>,
) {
    let mut same_cases = 0;
    let mut differing: BTreeMap<&str, usize> = BTreeMap::new();
    let mut faults = Vec::new();
    for case in cases(file) {
        let Err(difference) = same(&case) else {
            same_cases += 1;
            continue;
        };
        let marks: BTreeSet<&str> = case["marks"]
            .as_array()
            .into_iter()
            .flatten()
            .chain([&case["known_defect"], &case["name"]])
            .filter_map(Value::as_str)
            .collect();
        match differences.iter().find(|(mark, _)| marks.contains(mark)) {
            Some((mark, _)) => *differing.entry(mark).or_default() += 1,
            None => faults.push(format!("case {} {marks:?}: {difference}", case["case"])),
        }
    }
    eprintln!("{file}: {same_cases} the same, intended differences {differing:?}");
    assert!(faults.is_empty(), "{} cases differ, the first: {}", faults.len(), faults[0]);
    assert!(same_cases >= equal, "{file}: only {same_cases} cases are the same");
    for (mark, _) in differences {
        let used = differing.contains_key(mark);
        assert!(used, "{file}: no case differs by {mark}: take it off the list");
    }
}

pub(crate) fn compare<T: PartialEq + std::fmt::Debug>(ours: &T, theirs: &T) -> Result<(), String> {
    if ours == theirs { Ok(()) } else { Err(format!("\n ours   {ours:?}\n theirs {theirs:?}")) }
}
