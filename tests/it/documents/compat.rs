//! Recorded outcomes of LangGraph's `InMemoryStore` and `SqliteStore`, compared with those of documents: equal, or an
//! intended difference.

use std::time::{Duration, Instant};

use mnemon::{DocumentNamespaces, DocumentOperation as Operation, DocumentOutcome as Outcome, Engine, Namespace};
use serde_json::{Value, json};

use super::*;
use crate::support::{
    Hashing,
    recorded::{cases, check, compare},
};

const STORE_DIFFERENCES: &[(&str, &str)] = &[
    ("emptied-namespace-listed", "a namespace whose documents were deleted, or were only asked for, has none"),
    ("uncomparable-values-error", "a comparison of unlike types does not match; there the whole batch fails"),
];

const SQLITE_DIFFERENCES: &[(&str, &str)] = &[
    (
        "refresh-of-all-gets",
        "a get refreshes if it asks for it; there all gets of a namespace do if one of the batch asks",
    ),
    ("words-are-zero", "a text has no order beside a number; there it is 0"),
    ("true-is-one", "true and false are no numbers; there they are 1 and 0"),
    ("missing-is-not-unequal", "a field that is missing is unequal to a value; there it is neither equal nor unequal"),
    ("nested-filter-error", "an object without operators stands for conditions on its fields; there it is an error"),
    ("page-of-texts", "a page is full while documents match; there it is cut from twice as many texts"),
    ("old-texts-found", "a put replaces the indexed texts; there those of other paths stay, also after a delete"),
    ("expired-until-sweep", "an expired document is gone; there it is read until a sweep, and a refresh revives it"),
];

fn in_memory() -> Engine {
    let mut config = mnemon::Config::default();
    (config.flush_size, config.idle_flush) = (100_000, None);
    Engine::builder_in_memory().config(config).embedder(std::sync::Arc::new(Hashing::new(32))).open().unwrap()
}

fn labels(value: &Value) -> Vec<&str> {
    value.as_array().unwrap().iter().map(|label| label.as_str().unwrap()).collect()
}

fn space(value: &Value) -> Namespace {
    Namespace::from_labels(labels(value)).unwrap()
}

/// The operation that was recorded. A minute of its times to live takes `minute`.
fn operation(recorded: &Value, minute: Duration) -> Operation {
    let (kind, given) = recorded.as_object().unwrap().iter().next().unwrap();
    let number = |name: &str| given[name].as_u64().map(|number| number as usize);
    let key = || given[1].as_str().unwrap().to_owned();
    match kind.as_str() {
        "get" => Operation::Get { namespace: space(&given[0]), key: key(), refresh_ttl: given[2] == true },
        "delete" => Operation::Delete { namespace: space(&given[0]), key: key() },
        "put" => {
            let (namespace, value) = (space(&given[0]), given[2].clone());
            let mut options = match given[3].get("index") {
                Some(Value::Null) => options(),
                Some(Value::Array(paths)) => options().index(paths.iter().filter_map(Value::as_str)),
                _ => options().not_indexed(),
            };
            options.ttl_minutes = given[3]["ttl"].as_f64().map(|minutes| minutes * minute.as_secs_f64() / 60.0);
            Operation::Put { namespace, key: key(), value, options }
        }
        "search" => {
            let mut search = search().below(true).limit(number("limit").unwrap()).offset(number("offset").unwrap());
            search.filter = given.get("filter").map(|filter| filter.try_into().unwrap());
            search.query = given["query"].as_str().map(str::to_owned);
            search.refresh_ttl = given["refresh"] == true;
            Operation::Search { namespace: space(&given["namespace"]), search }
        }
        "list" => {
            let pattern = |name: &str| given.get(name).map_or(Vec::new(), labels);
            let mut request = DocumentNamespaces::default().prefix(pattern("prefix")).suffix(pattern("suffix"));
            (request.limit, request.offset) = (number("limit").unwrap(), number("offset").unwrap());
            request.max_depth = number("max_depth");
            Operation::ListNamespaces(request)
        }
        other => panic!("{other}"),
    }
}

fn outcome(outcome: Outcome) -> Value {
    let labels = |namespace: &Namespace| namespace.labels().map(String::from).collect::<Vec<_>>();
    match outcome {
        Outcome::Got(document) => document.map_or(Value::Null, |document| document.value),
        Outcome::Found(found) => {
            found.into_iter().map(|found| json!([labels(&found.namespace), found.key, found.value])).collect()
        }
        Outcome::Namespaces(found) => found.iter().map(|namespace| json!(labels(namespace))).collect(),
        _ => Value::Null,
    }
}

/// Makes comparable what a search found: in memory the order is that of the first puts, here of the last. Of a page
/// without the same order only the length is compared.
fn comparable(operation: &Value, outcome: Value) -> Value {
    let Some(search) = operation.get("search") else { return outcome };
    if search["ordered"] == true {
        return outcome;
    }
    let mut found: Vec<String> = outcome.as_array().unwrap().iter().map(Value::to_string).collect();
    if search["limit"] != 1000 {
        return json!(found.len());
    }
    found.sort();
    json!(found)
}

#[test]
fn batches_agree_with_langgraph() {
    check("store.jsonl", STORE_DIFFERENCES, 200, |case| {
        let engine = in_memory();
        case["steps"].as_array().unwrap().iter().try_for_each(|step| run(&engine, step, Duration::ZERO))
    });
}

/// Runs a batch and compares its outcomes.
fn run(engine: &Engine, step: &Value, minute: Duration) -> Result<(), String> {
    if !step["error"].is_null() {
        return Err(step["error"].to_string());
    }
    let operations = step["operations"].as_array().unwrap();
    let batch = operations.iter().map(|recorded| operation(recorded, minute)).collect();
    let outcomes = engine.blocking().document_batch(batch).unwrap();
    for ((operation, ours), theirs) in operations.iter().zip(outcomes).zip(step["outcomes"].as_array().unwrap()) {
        compare(&comparable(operation, outcome(ours)), &comparable(operation, theirs.clone()))?;
    }
    Ok(())
}

/// Time passes here as it was recorded, only faster. Several cases are replayed at a time, because most of it is
/// waiting.
#[test]
fn batches_agree_with_langgraph_on_sqlite() {
    let cases = cases("sqlite.jsonl");
    let outcomes: Vec<Result<(), String>> = std::thread::scope(|scope| {
        let replay_all = |part: &[Value]| part.iter().map(replay).collect::<Vec<_>>();
        let threads: Vec<_> = cases.chunks(30).map(|part| scope.spawn(move || replay_all(part))).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    check("sqlite.jsonl", SQLITE_DIFFERENCES, 190, |case| {
        outcomes[case["case"].as_u64().unwrap() as usize - 1].clone()
    });
}

/// Replays a case, and again with longer minutes if a step was late. Each expiry is 3 minutes or more from the nearest
/// step, so a step that is less than 2 minutes late has the recorded outcomes.
fn replay(case: &Value) -> Result<(), String> {
    let mut minute = Duration::from_millis(10);
    loop {
        let engine = in_memory();
        let (begun, mut minutes, mut is_late) = (Instant::now(), 0, false);
        let steps = case["steps"].as_array().unwrap().iter();
        let outcome = steps.clone().try_for_each(|step| {
            if let Some(more) = step["minutes"].as_u64() {
                minutes += more as u32;
                std::thread::sleep((minute * minutes).saturating_sub(begun.elapsed()));
                return Ok(());
            }
            let same = run(&engine, step, minute);
            is_late |= begun.elapsed() > minute * (minutes + 2);
            if case["kind"] == "texts" {
                engine.blocking().flush().unwrap();
            }
            same
        });
        if !is_late || case["kind"] != "time" {
            return outcome;
        }
        minute *= 3;
    }
}

/// Each text that a path leads to is embedded once.
#[test]
fn paths_lead_to_as_many_texts_as_in_langgraph() {
    let engine = in_memory();
    check("paths.jsonl", &[], 200, |case| {
        let mut texts = labels(&case["texts"]);
        texts.sort_unstable();
        texts.dedup();
        let key = case["case"].to_string();
        let options = options().index([case["path"].as_str().unwrap()]);
        documents(&engine).blocking().put(key, case["value"].clone(), options).unwrap();
        compare(&(engine.blocking().flush().unwrap().embedded as usize), &texts.len())
    });
}
