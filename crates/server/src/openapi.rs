//! The description of `/v1` as OpenAPI 3.1, made from the table of routes.
//!
//! Neither `utoipa` nor `aide` makes it: the first needs a second derive beside `schemars`, which MCP's tools use, and the
//! released version of the second uses another version of `schemars`.

use std::sync::LazyLock;

use axum::Json;
use regex::Regex;
use schemars::{SchemaGenerator, generate::SchemaSettings};
use serde_json::{Map, Value, json};

use crate::{
    problem::{MEDIA_TYPE, Problem},
    v1::{self, Route, SchemaOf},
};

fn document() -> Value {
    let mut settings = SchemaSettings::draft2020_12();
    settings.definitions_path = "/components/schemas".into();
    settings.meta_schema = None;
    let mut read = settings.clone().into_generator();
    let mut written = settings.for_serialize().into_generator();
    let mut paths = Map::new();
    for route in v1::routes() {
        let path = paths.entry(format!("/v1{}", route.path)).or_insert_with(|| json!({}));
        path[route.method.as_str().to_ascii_lowercase()] = operation(&route, &mut read, &mut written);
    }
    for (path, operation_id, summary) in [
        ("/health", "health", "Returns 200 while the server runs. Needs no token."),
        ("/ready", "ready", "Returns 200 while the database can be read. Needs no token."),
        ("/metrics", "metrics", "Returns metrics in Prometheus' format. Needs the right to admin."),
    ] {
        paths.insert(path.to_owned(), json!({ "get": {
            "operationId": operation_id,
            "summary": summary,
            "security": if path == "/metrics" { json!([{ "token": [] }]) } else { json!([]) },
            "responses": { "200": { "description": "It does." }, "4XX": { "$ref": "#/components/responses/Problem" } },
        }}));
    }
    let problem = written.subschema_for::<Problem>();
    let mut definitions = written.take_definitions(true);
    for (name, schema) in read.take_definitions(true) {
        // What is both has the fields that it is read with: some that are always written may be missing.
        let fields =
            |schema: &Value| schema["properties"].as_object().map(|all| all.keys().cloned().collect::<Vec<_>>());
        let known = definitions.insert(name.clone(), schema.clone());
        debug_assert!(known.is_none_or(|known| fields(&known) == fields(&schema)), "two types are named {name}");
    }
    let mut document = json!({
        "openapi": "3.1.0",
        "info": {
            "title": "mnemon",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Long-term memory for LLM agents. The `/` in the name of a namespace is written %2F in a path.",
            "license": { "name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0" },
        },
        "servers": [{ "url": "http://127.0.0.1:7411" }],
        "security": [{}, { "token": [] }],
        "paths": paths,
        "components": {
            "schemas": definitions,
            "responses": { "Problem": {
                "description": "An error.",
                "content": { MEDIA_TYPE: { "schema": problem } },
            }},
            "securitySchemes": { "token": { "type": "http", "scheme": "bearer" } },
        },
    });
    adapt(&mut document);
    document
}

/// Replaces the format `uint`, the size of a word of this machine, by one that OpenAPI's registry has, and makes plain texts of the
/// documentation of types.
fn adapt(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                match value {
                    Value::String(format) if name == "format" && format == "uint" => *format = "uint64".to_owned(),
                    Value::String(text) if name == "description" => *text = plain(text),
                    value => adapt(value),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(adapt),
        _ => {}
    }
}

/// Returns the first paragraph of a documentation without its links.
fn plain(documentation: &str) -> String {
    static LINK: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"\[([^\[\]]+)\]\([^()]*\)|\[(`[\w:]+`)\]").expect("a pattern"));
    let first = documentation.split("\n\n").next().unwrap_or_default().replace('\n', " ");
    LINK.replace_all(&first, "$1$2").replace("`None`", "`null`")
}

fn operation(route: &Route, read: &mut SchemaGenerator, written: &mut SchemaGenerator) -> Value {
    let mut parameters: Vec<Value> = route
        .path
        .split('/')
        .filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'))
        .map(|name| json!({ "name": name, "in": "path", "required": true, "schema": v1::path_schema(name)(read) }))
        .collect();
    if let Some(query) = route.query {
        parameters.extend(query_parameters(query));
    }
    if route.keeps_answer {
        parameters.push(json!({
            "name": "Idempotency-Key", "in": "header", "required": false,
            "schema": { "type": "string", "maxLength": 255, "pattern": r"^[\x09\x20-\x7e]+$" },
            "description": "A text of the client's own. A repeated request with the same key is answered as the first.",
        }));
    }
    let content = |schema: SchemaOf, media_type: &str, schemas: &mut SchemaGenerator| {
        let schema = schema(schemas);
        json!({ media_type: { "schema": schema } })
    };
    let answer = match route.answer {
        Some(answer) => {
            json!({ "200": { "description": "Done.", "content": content(answer, route.media_type, written) } })
        }
        None => json!({ "204": { "description": "Done." } }),
    };
    let description = match route.right {
        Some(right) => format!("Needs the right to {right}."),
        None => "Each operation needs the right that its own route needs.".to_owned(),
    };
    let mut operation = json!({
        "operationId": operation_id(route),
        "summary": route.summary,
        "description": description,
        "parameters": parameters,
        "responses": answer,
    });
    for statuses in ["4XX", "5XX"] {
        operation["responses"][statuses] = json!({ "$ref": "#/components/responses/Problem" });
    }
    if let Some(body) = route.body {
        let media_type = if route.takes_file { "application/octet-stream" } else { "application/json" };
        operation["requestBody"] = json!({ "required": true, "content": content(body, media_type, read) });
    }
    operation
}

/// Returns the fields of a query as parameters. Their schemas are inlined, and none allows null, which a query cannot
/// express.
fn query_parameters(query: SchemaOf) -> Vec<Value> {
    let mut inline = SchemaSettings::draft2020_12();
    inline.inline_subschemas = true;
    let schema = query(&mut inline.into_generator()).to_value();
    let properties = schema["properties"].as_object().cloned().unwrap_or_default();
    let parameter = |(name, mut property): (String, Value)| {
        let is_required = schema["required"].as_array().is_some_and(|all| all.contains(&json!(name)));
        let description = property.as_object_mut().and_then(|property| property.remove("description"));
        if let Some(types) = property["type"].as_array() {
            property["type"] = types.iter().find(|kind| *kind != "null").cloned().unwrap_or_default();
        }
        json!({ "name": name, "in": "query", "required": is_required, "description": description, "schema": property })
    };
    properties.into_iter().map(parameter).collect()
}

/// Returns a name for the operation, made of its method and its path.
fn operation_id(route: &Route) -> String {
    let parts = route.path.split('/').filter(|part| !part.is_empty());
    let names = parts.map(|part| part.trim_matches(['{', '}']).replace(['.', '-'], "_"));
    names.fold(route.method.as_str().to_ascii_lowercase(), |id, part| id + "_" + &part)
}

pub(crate) async fn served() -> Json<&'static Value> {
    static DOCUMENT: LazyLock<Value> = LazyLock::new(document);
    Json(&DOCUMENT)
}
