//! The description of the routes.

use std::collections::BTreeSet;

use serde_json::Value;

use super::Server;
use crate::support::{Db, root};

/// The committed description is the one that the server serves. With MNEMON_UPDATE=1 it is written.
#[test]
fn the_committed_description_is_served() {
    let db = Db::new();
    let served = Server::start(&db).get("/v1/openapi.json").body;
    let path = root("docs/openapi.json");
    let text = serde_json::to_string_pretty(&served).unwrap() + "\n";
    if std::env::var_os("MNEMON_UPDATE").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(committed == text, "docs/openapi.json is not what the server serves; run this test with MNEMON_UPDATE=1");
}

#[test]
fn references_lead_somewhere_and_operations_have_names_of_their_own() {
    let db = Db::new();
    let document = Server::start(&db).get("/v1/openapi.json").body;
    let (mut names, mut references) = (BTreeSet::new(), Vec::new());
    for (path, operations) in document["paths"].as_object().unwrap() {
        for (method, operation) in operations.as_object().unwrap() {
            let name = operation["operationId"].as_str().unwrap_or_else(|| panic!("{method} {path}"));
            assert!(names.insert(name.to_owned()), "two operations are named {name}");
            assert!(!operation["summary"].as_str().unwrap().is_empty() && operation["responses"].is_object());
        }
    }
    assert!(names.len() > 25, "{names:?}");
    collect(&document, &mut references);
    for reference in references {
        let pointer = reference.strip_prefix('#').unwrap();
        assert!(document.pointer(pointer).is_some(), "{reference} leads nowhere");
    }
}

fn collect(value: &Value, references: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                match value {
                    Value::String(text) if name == "$ref" => references.push(text.clone()),
                    value => collect(value, references),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| collect(item, references)),
        _ => {}
    }
}
