//! Recorded outcomes of LangGraph's `InMemoryStore`, compared with those of documents: equal, or an intended
//! difference.

use mnemon::{DocumentNamespaces, DocumentOperation as Operation, DocumentOutcome as Outcome, Engine, Namespace};
use serde_json::{Value, json};

use super::*;
use crate::support::{
    Hashing,
    recorded::{check, compare},
};

const STORE_DIFFERENCES: &[(&str, &str)] = &[
    ("emptied-namespace-listed", "a namespace whose documents were deleted, or were only asked for, has none"),
    ("uncomparable-values-error", "a comparison of unlike types does not match; there the whole batch fails"),
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

fn operation(recorded: &Value) -> Operation {
    let (kind, given) = recorded.as_object().unwrap().iter().next().unwrap();
    let number = |name: &str| given[name].as_u64().map(|number| number as usize);
    let key = || given[1].as_str().unwrap().to_owned();
    match kind.as_str() {
        "get" => Operation::Get { namespace: space(&given[0]), key: key(), refresh_ttl: false },
        "delete" => Operation::Delete { namespace: space(&given[0]), key: key() },
        "put" => {
            let (namespace, value, options) = (space(&given[0]), given[2].clone(), options().not_indexed());
            Operation::Put { namespace, key: key(), value, options }
        }
        "search" => {
            let mut search = search().below(true).limit(number("limit").unwrap()).offset(number("offset").unwrap());
            search.filter = given.get("filter").map(|filter| filter.try_into().unwrap());
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

/// Makes comparable what a search found: there the order is that of the first puts, here of the last. Of a page only
/// the length is compared.
fn comparable(operation: &Value, outcome: Value) -> Value {
    let Some(search) = operation.get("search") else { return outcome };
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
        for step in case["steps"].as_array().unwrap() {
            if !step["error"].is_null() {
                return Err(step["error"].to_string());
            }
            let operations = step["operations"].as_array().unwrap();
            let outcomes = engine.blocking().document_batch(operations.iter().map(operation).collect()).unwrap();
            for ((operation, ours), theirs) in operations.iter().zip(outcomes).zip(step["outcomes"].as_array().unwrap())
            {
                compare(&comparable(operation, outcome(ours)), &comparable(operation, theirs.clone()))?;
            }
        }
        Ok(())
    });
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
