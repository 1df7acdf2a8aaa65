//! The arguments of tools: reading them, and their schemas.
//!
//! Schemas are plain, because a client may flatten them, or read only types, enumerations and ranges. Each number with a
//! range has a type of its own, so that the schema and the reading cannot differ.

use std::borrow::Cow;

use rmcp::model::JsonObject;
use schemars::{JsonSchema, Schema, SchemaGenerator, generate::SchemaSettings, json_schema};
use serde::{
    Deserialize, Deserializer,
    de::{DeserializeOwned, Error as _},
};
use serde_json::{Value, json};

use crate::problem::Problem;

macro_rules! numbers {
    ($($(#[$doc:meta])* $type:ident($name:literal, $json:literal, $number:ty, $read:expr): $least:expr, $most:expr;)+) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy)]
        pub(super) struct $type(pub(super) $number);

        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let given = Value::deserialize(deserializer)?;
                let number = $read(&given).filter(|number| ($least..=$most).contains(number));
                number.map(Self).ok_or_else(|| {
                    D::Error::custom(format!("{} is {given}; give {} from {} to {}", $name, article($json), $least, $most))
                })
            }
        }

        impl JsonSchema for $type {
            fn schema_name() -> Cow<'static, str> {
                stringify!($type).into()
            }

            fn inline_schema() -> bool {
                true
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({ "type": $json, "minimum": $least, "maximum": $most })
            }
        }
    )+};
}

numbers! {
    /// A number of memories or documents.
    Limit("limit", "integer", usize, whole): 1, 100;
    /// A number of memories to recall.
    Recall("recall", "integer", usize, whole): 0, 100;
    /// A number of documents to find besides.
    DocumentLimit("documents", "integer", usize, whole): 0, 10;
    /// A number of tokens.
    TokenLimit("token_limit", "integer", usize, whole): 1, 100_000;
    /// A byte of a text.
    Offset("offset", "integer", usize, whole): 0, 1 << 20;
    /// A probability.
    Answerable("answerable", "number", f64, Value::as_f64): 0.0, 1.0;
    /// A relevance.
    MinScore("min_score", "number", f64, Value::as_f64): 0.0, 1.0;
    /// A time to live: a millisecond to a thousand years.
    TtlMinutes("ttl_minutes", "number", f64, Value::as_f64): 1.0 / 60_000.0, 525_960_000.0;
}

fn whole(value: &Value) -> Option<usize> {
    value.as_u64().and_then(|number| number.try_into().ok())
}

fn article(json: &str) -> &'static str {
    if json == "integer" { "a whole number" } else { "a number" }
}

/// Reads the arguments of a call.
pub(super) fn read<T: DeserializeOwned>(arguments: JsonObject) -> Result<T, Problem> {
    let read = serde_json::from_value(Value::Object(arguments));
    read.map_err(|error| Problem::bad_request(format!("{error}; see the tool's input schema")))
}

/// Returns the schema of the arguments of a tool, with an example.
pub(super) fn schema<T: JsonSchema>(example: Value) -> JsonObject {
    let mut settings = SchemaSettings::draft2020_12();
    settings.inline_subschemas = true;
    // The dialect need not be named: it is the one that MCP assumes.
    settings.meta_schema = None;
    let mut schema = SchemaGenerator::new(settings).into_root_schema_for::<T>().to_value();
    simplify(&mut schema);
    let mut schema = schema.as_object().cloned().unwrap_or_default();
    // The title is the name of a type of ours.
    schema.remove("title");
    schema.remove("unevaluatedProperties");
    schema.insert("additionalProperties".to_owned(), false.into());
    schema.insert("examples".to_owned(), json!([example]));
    schema
}

/// Removes from a schema the null that an optional argument may also be, and formats that are not JSON Schema's.
fn simplify(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            fields.remove("format");
            if let Some(Value::String(description)) = fields.get_mut("description") {
                *description = description.replace('\n', " ");
            }
            if fields.get("default").is_some_and(Value::is_null) {
                fields.remove("default");
            }
            if let Some(Value::Array(types)) = fields.get_mut("type") {
                types.retain(|name| name != "null");
                if let [only] = &types[..] {
                    let only = only.clone();
                    fields.insert("type".to_owned(), only);
                }
            }
            fields.values_mut().for_each(simplify);
        }
        Value::Array(items) => items.iter_mut().for_each(simplify),
        _ => {}
    }
}
