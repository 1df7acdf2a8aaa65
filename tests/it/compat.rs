//! The outcomes of LangChain's, LangGraph's and LlamaIndex's own functions, replayed: the same, or an intended difference.
//!
//! `tests/compat` says how the fixtures were recorded; `make compat` records them again.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
    sync::Arc,
};

use mnemon::{BufferLimits, Message, Part, Role, Splitter, Strategy, Trim, Update, add_messages, trim_messages};
use serde_json::Value;

/// A case may differ if it is marked so; the reason is the defect that mnemon does not share.
const TRIM_DIFFERENCES: &[(&str, &str)] = &[
    ("partial-measured-backwards", "pieces are counted in the wrong order: the result is over the budget"),
    ("partial-empty", "a message cut to nothing is kept"),
];
const ADD_DIFFERENCES: &[(&str, &str)] = &[
    ("removal-in-output", "a removal after a remove-all becomes part of the state; mnemon: an error or applied"),
    ("duplicate-ids-in-output", "ids after a remove-all stay double; mnemon: the last wins"),
];
const FLUSH_DIFFERENCES: &[(&str, &str)] = &[
    ("system-prompt-flushed", "SEMANTICS: the system prompt is never flushed"),
    ("no-user-message-empties", "SEMANTICS: a history without a user message is not emptied"),
    ("failing-block-loses-batch", "SEMANTICS: a failing block does not lose the batch; the plan knows no blocks"),
    ("flush-size-over-limit", "an invalid setting is an error, not another setting"),
    ("flush-size-zero", "an invalid setting is an error, not another setting"),
    ("ratio-out-of-range", "an invalid setting is an error, not taken as it is"),
];

fn cases(file: &str) -> Vec<Value> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/compat/fixtures").join(file);
    fs::read_to_string(path).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn message(value: &Value) -> Message {
    let content = match &value["content"] {
        Value::String(text) => vec![Part::Text { text: text.clone() }],
        parts => serde_json::from_value(parts.clone()).unwrap(),
    };
    let role: Role = serde_json::from_value(value["role"].clone()).unwrap();
    Message { content, ..Message::new(role, "x").with_id(value["id"].as_str().unwrap_or("generated")) }
}

fn messages(value: &Value) -> Vec<Message> {
    value.as_array().unwrap().iter().map(message).collect()
}

/// What is compared: id, role and content; empty text parts count for nothing.
fn essence(messages: &[Message]) -> Vec<(String, Role, Vec<Part>)> {
    let blank = |part: &Part| matches!(part, Part::Text { text } if text.is_empty());
    messages
        .iter()
        .map(|m| (m.id.clone(), m.role, m.content.iter().filter(|part| !blank(part)).cloned().collect()))
        .collect()
}

/// Compares cases, and lets marked ones differ. At least `equal` must be the same, so that marks cannot excuse everything.
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
            .chain([&case["known_defect"]])
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

/// Python's `re.findall(r"\S+\s*|\s+", text)`.
fn words(text: &str) -> Vec<String> {
    let mut pieces: Vec<String> = Vec::new();
    let mut after_space = true;
    for c in text.chars() {
        let begins = pieces.is_empty() || (after_space && !c.is_whitespace());
        if begins {
            pieces.push(c.to_string())
        } else {
            pieces.last_mut().unwrap().push(c)
        }
        after_space = c.is_whitespace();
    }
    pieces
}

#[test]
fn trim_messages_as_langchain() {
    let count = |message: &Message| {
        let cost = |part: &Part| match part {
            Part::Text { text } => text.split_whitespace().count(),
            Part::ToolResult { content, .. } => content.split_whitespace().count(),
            _ => 2,
        };
        1 + message.content.iter().map(cost).sum::<usize>()
    };
    check("trim.jsonl", TRIM_DIFFERENCES, 850, |case| {
        let options = &case["options"];
        let roles = |name: &str| -> Vec<Role> {
            serde_json::from_value::<Option<Vec<Role>>>(options[name].clone()).unwrap().unwrap_or_default()
        };
        let mut trim = Trim::last(options["max_tokens"].as_u64().unwrap() as usize);
        trim.strategy = if options["strategy"] == "first" { Strategy::First } else { Strategy::Last };
        (trim.start_on, trim.end_on) = (roles("start_on"), roles("end_on"));
        trim.include_system = options["include_system"] == true;
        trim.allow_partial = options["allow_partial"] == true;
        if options["splitter"] == "words" {
            trim.splitter = Arc::new(words) as Splitter;
        }
        trim.keep_tool_calls_whole = false;
        let input = messages(&case["messages"]);
        let before = input.clone();
        let output = trim_messages(&input, &trim, &count);
        assert_eq!(input, before, "the input is not changed");
        match (output, case["error"].is_null()) {
            (Ok(output), true) => compare(&essence(&output), &essence(&messages(&case["output"]))),
            (Err(_), false) => Ok(()),
            (output, _) => Err(format!("{output:?}, not {}", case["error"])),
        }
    });
}

#[test]
fn add_messages_as_langgraph() {
    check("add_messages.jsonl", ADD_DIFFERENCES, 300, |case| {
        // A missing id is made when a message is made: each is another.
        let number = std::cell::Cell::new(0);
        let with_id = |value: &Value| {
            number.set(number.get() + 1);
            let id = if value["id"].is_null() {
                format!("new-{}", number.get())
            } else {
                value["id"].as_str().unwrap().into()
            };
            message(value).with_id(id)
        };
        let left: Vec<Message> = case["left"].as_array().unwrap().iter().map(with_id).collect();
        let right = case["right"].as_array().unwrap().iter().map(|item| match item {
            item if item["remove_all"] == true => Update::RemoveAll,
            item if item["remove"].is_string() => Update::Remove(item["remove"].as_str().unwrap().into()),
            item => Update::Put(with_id(item)),
        });
        match (add_messages(left, right.collect()), case["error"].is_null()) {
            (Ok(output), true) => {
                let removal = case["output"].as_array().unwrap().iter().any(|item| item["role"].is_null());
                if removal {
                    return Err("a removal in the output".into());
                }
                let generated = |m: Message| if m.id.starts_with("new-") { m.with_id("generated") } else { m };
                let output: Vec<Message> = output.into_iter().map(generated).collect();
                compare(&essence(&output), &essence(&messages(&case["output"])))
            }
            (Err(_), false) => Ok(()),
            (output, _) => Err(format!("{output:?}, not {}", case["error"])),
        }
    });
}

#[test]
fn flushes_as_llamaindex() {
    check("flush.jsonl", FLUSH_DIFFERENCES, 200, |case| {
        // Where the library silently changed the settings, what was given counts.
        let options = if case["given"].is_null() { &case["options"] } else { &case["given"] };
        let number = |name: &str| options[name].as_i64().map_or(0, |number| number.max(0) as usize);
        let ratio = options["chat_history_token_ratio"].as_f64().unwrap();
        let limits = match BufferLimits::new(number("token_limit"), ratio, number("token_flush_size")) {
            Ok(limits) => limits,
            Err(_) if !case["error"].is_null() => return Ok(()),
            Err(error) => return Err(error.to_string()),
        };
        let counts: BTreeMap<String, usize> = serde_json::from_value(case["tokens"].clone()).unwrap();
        let count = |message: &Message| counts[&message.id];
        let all = messages(&case["messages"]);
        let steps = case["steps"].as_array().unwrap();
        let puts: Vec<usize> = match &case["puts"] {
            Value::Null => vec![1; steps.len()],
            puts => serde_json::from_value(puts.clone()).unwrap(),
        };
        let mut waiting = all.into_iter();
        let mut active: Vec<Message> = Vec::new();
        for (step, put) in steps.iter().zip(puts) {
            active.extend(waiting.by_ref().take(put));
            let batches = limits.plan_flush(&active, &count);
            let ids = |messages: &[Message]| messages.iter().map(|m| m.id.clone()).collect::<Vec<String>>();
            let flushed: Vec<Vec<String>> = batches.iter().map(|batch| ids(&active[batch.clone()])).collect();
            if let (Some(first), Some(last)) = (batches.first(), batches.last()) {
                active.drain(first.start..last.end);
            }
            let theirs: (Vec<String>, Vec<Vec<String>>) = (
                serde_json::from_value(step["active"].clone()).unwrap(),
                serde_json::from_value(step["flushed"].clone()).unwrap(),
            );
            compare(&(ids(&active), flushed), &theirs)?;
        }
        Ok(())
    });
}
