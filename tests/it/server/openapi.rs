//! The description of the routes, and the comparison of answers with it: all that the tests of the server get, and the dearest request of
//! every route.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::LazyLock,
};

use jsonschema::Validator;
use serde_json::{Value, json};

use super::{Answer, Server};
use crate::support::{Db, root};

/// An operation of the description, and what its answers have to be; nothing for answers without a body.
struct Described {
    method: String,
    path: Vec<String>,
    answer: Option<Validator>,
}

static DESCRIBED: LazyLock<(Vec<Described>, Validator)> = LazyLock::new(|| {
    let document = closed(serde_json::from_str(&std::fs::read_to_string(root("docs/openapi.json")).unwrap()).unwrap());
    let validator = |schema: &Value| {
        let mut schema = schema.clone();
        schema["components"] = document["components"].clone();
        jsonschema::validator_for(&schema).unwrap()
    };
    let mut all = Vec::new();
    for (path, operations) in document["paths"].as_object().unwrap() {
        for (method, operation) in operations.as_object().unwrap() {
            let content = operation["responses"]["200"]["content"].as_object();
            let schema = content.and_then(|content| content.values().next()).map(|content| &content["schema"]);
            all.push(Described {
                method: method.to_uppercase(),
                path: path.split('/').map(str::to_owned).collect(),
                answer: schema.map(validator),
            });
        }
    }
    // What is written in full comes before what a parameter could be.
    all.sort_by_key(|one| one.path.iter().filter(|part| part.starts_with('{')).count());
    let problem = &document["components"]["responses"]["Problem"]["content"]["application/problem+json"]["schema"];
    (all, validator(problem))
});

/// Forbids what a schema does not name. A client has to bear new fields, so the description does not forbid them.
fn closed(mut schema: Value) -> Value {
    match &mut schema {
        Value::Object(fields) => {
            for value in fields.values_mut() {
                *value = closed(value.take());
            }
            if fields.get("properties").is_some_and(Value::is_object) {
                fields.entry("additionalProperties").or_insert(json!(false));
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| *item = closed(item.take())),
        _ => {}
    }
    schema
}

/// Asserts that an answer has the fields that the description gives it, and no others.
#[track_caller]
pub(super) fn assert_described(method: &str, path: &str, answer: &Answer) {
    let path: Vec<&str> = path.split('?').next().unwrap().split('/').collect();
    let is_of = |one: &&Described| {
        one.method == method
            && one.path.len() == path.len()
            && one.path.iter().zip(&path).all(|(part, given)| part.starts_with('{') || part == given)
    };
    let (all, problem) = &*DESCRIBED;
    let Some(described) = all.iter().find(is_of) else { return };
    let validator = if answer.status < 400 { described.answer.as_ref() } else { Some(problem) };
    let Some(validator) = validator else { return };
    let bodies = match answer.body.as_str() {
        Some(events) => sent_events(events),
        None => vec![answer.body.clone()],
    };
    for body in bodies {
        let faults: Vec<String> =
            validator.iter_errors(&body).map(|fault| format!("{}: {fault}", fault.instance_path())).collect();
        assert!(faults.is_empty(), "{method} {} is not as described: {faults:?}: {body}", path.join("/"));
    }
}

/// The events in an answer that is a stream of them, each as the description has it.
fn sent_events(body: &str) -> Vec<Value> {
    let fields = |event: &str| -> BTreeMap<String, String> {
        let lines = event.lines().filter_map(|line| line.split_once(": "));
        lines.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    };
    let events = body.split("\n\n").map(fields).filter(|fields| fields.contains_key("event"));
    let event = |fields: BTreeMap<String, String>| json!({ "event": fields["event"], "data": serde_json::from_str::<Value>(&fields["data"]).unwrap() });
    events.map(event).collect()
}

/// Where an application has JSON of its own.
const OWN: [&str; 16] = [
    "BatchOperation.value",
    "Block.state",
    "ContentPart.arguments",
    "Document.value",
    "Filter",
    "FoundDocument.value",
    "Hit.metadata",
    "ItemBefore.value",
    "JournalEntry.options",
    "Message.metadata",
    "MessageInput.reasoning",
    "MessageInput.reasoning_content",
    "MessageVersion.metadata",
    "Metadata.metadata",
    "OpenAi",
    "Prompt.request",
];

/// Each answer is described to its last field: where any JSON is allowed, it is an application's own.
#[test]
fn no_answer_is_open() {
    let document: Value = serde_json::from_str(&std::fs::read_to_string(root("docs/openapi.json")).unwrap()).unwrap();
    let mut open = BTreeSet::new();
    let schemas = document["components"]["schemas"].as_object().unwrap();
    for (name, schema) in schemas {
        assert!(!name.ends_with(|last: char| last.is_ascii_digit()), "{name} has the name of another type");
        collect_open(name, schema, &mut open);
    }
    for (path, operations) in document["paths"].as_object().unwrap() {
        for (method, operation) in operations.as_object().unwrap() {
            for content in operation["responses"]["200"]["content"].as_object().into_iter().flat_map(|all| all.values())
            {
                assert!(content["schema"]["$ref"].is_string(), "{method} {path}: {content}");
            }
        }
    }
    let open: Vec<&str> = open.iter().map(String::as_str).collect();
    assert_eq!(open, OWN);
}

/// Notes the places of a schema that allow any JSON.
fn collect_open(at: &str, schema: &Value, open: &mut BTreeSet<String>) {
    let children = |name: &str| schema[name].as_array().cloned().unwrap_or_default();
    let names = ["$ref", "type", "enum", "const", "anyOf", "oneOf", "allOf"];
    let is_object = schema["type"] == "object"
        && schema["properties"].is_null()
        && schema["oneOf"].is_null()
        && schema["additionalProperties"] != false
        // A map whose values have a type.
        && schema["additionalProperties"]["type"].is_null();
    if names.iter().all(|name| schema[name].is_null()) || is_object {
        open.insert(at.to_owned());
    }
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        collect_open(&format!("{at}.{name}"), property, open);
    }
    for child in children("anyOf").iter().chain(&children("oneOf")).chain(&children("allOf")).chain(schema.get("items"))
    {
        collect_open(at, child, open);
    }
}

/// The comparison can fail.
#[test]
fn an_answer_with_another_field_is_not_as_described() {
    let db = Db::new();
    let server = Server::start(&db);
    server.put("a", &["hello"]);
    let path = "/v1/namespaces/a/recall";
    let mut answer = server.post(path, json!({ "query": "hello" }));
    for changed in ["/hits/0", "/hits/0/breakdown", "/hits/0/passage", ""] {
        let mut other = Answer { status: 200, head: String::new(), body: answer.body.clone() };
        other.body.pointer_mut(changed).unwrap()["new"] = json!(1);
        let compared = std::panic::catch_unwind(|| assert_described("POST", path, &other));
        assert!(compared.is_err(), "{changed}");
    }
    answer.body.as_object_mut().unwrap().remove("pending");
    assert!(std::panic::catch_unwind(|| assert_described("POST", path, &answer)).is_err());
}

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
