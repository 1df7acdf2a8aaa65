//! The description says what the routes take: values at the bounds that it names are taken, and those just beyond are refused. The
//! values are made from the schemas of the parameters and of the bodies. A format or a pattern has a row of texts, and a new one
//! without a row fails.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{Server, strict};
use crate::support::Db;

/// Parameters and fields whose values are good if the server has something of that name: only bad values are sent.
const OWN: [&str; 9] = ["before", "cursor", "format", "path", "model", "rerank", "time_zone", "vector", "vectors"];
/// Fields of OpenAI's chat format. They are read as leniently as servers write them, so only good values are sent.
const OPENAI: [&str; 5] = ["annotations", "audio", "function_call", "refusal", "tool_call_id"];
/// Characters of the longest text that is sent to be taken: a query of a megabyte is embedded for seconds.
const LONG: u64 = 10_000;
const KINDS: [&str; 6] = ["null", "boolean", "number", "string", "array", "object"];

/// Texts of a format or pattern: those that have it, and those that do not.
type Texts = (&'static [&'static str], &'static [&'static str]);

fn texts(schema: &Value) -> Texts {
    match (schema["format"].as_str(), schema["pattern"].as_str()) {
        (None, None) => (&["a", " ", "\u{1}", "é\u{1f600}", "a/b", "%2F", "a,b"], &[]),
        (Some("date-time"), None) => (
            &["2024-05-01T09:30:00Z", "2024-05-01T09:30:00.123456+02:00", "0001-01-01T00:00:00Z"],
            &["", "yesterday", "2024-13-01T00:00:00Z", "1714555800"],
        ),
        (Some("time-zone"), None) => (&["UTC", "Europe/Berlin", "+02:00"], &["", "Mars", "2"]),
        (Some("path"), None) => (&["$", "a.b", "a[0].b", "a[*]", "{a,b.c}"], &["", "a..b", "a[", "a[x]"]),
        (Some("cursor"), None) => (&[], &["x", "é", "%%%"]),
        (None, Some(r"^[^/\x00-\x1f\x7f-\x9f]+(/[^/\x00-\x1f\x7f-\x9f]+){0,15}$")) => (
            &["a", "a b/é", "x/%2F", "~:@", "1/2/3/4/5/6/7/8/9/10/11/12/13/14/15/16"],
            &["", "/", "a//b", "/a", "a/", "a\u{1}", "a\u{7f}", "\u{85}", "1/2/3/4/5/6/7/8/9/10/11/12/13/14/15/16/17"],
        ),
        (None, Some(r"^[^\x00-\x1f\x7f-\x9f]+$")) => (&["search", "a/b", "é", "x y"], &["", "\n", "a\u{7f}", "\u{85}"]),
        (None, Some(r"\S")) => (&["?", " x"], &["", " ", "\t\n"]),
        (None, Some(strategies)) if strategies.contains("hybrid") => (
            &["hybrid", "dense", "lexical", "rrf", "reciprocal-rank", "weighted:0", "weighted:0.25", "weighted:1"],
            &["", "HYBRID", "best", "weighted:", "weighted:1.5", "weighted:-1"],
        ),
        (None, Some(r"^[^\x00]+$")) => (&["copy.redb"], &["", "a\0b"]),
        (None, Some(r"^[^/\\]+$")) => (&["static-en-256"], &["", "a/b", r"a\b", "../x"]),
        other => panic!("{other:?} has no texts: give it a row"),
    }
}

/// A value, and whether the description allows it.
struct Case {
    at: String,
    value: Value,
    is_allowed: bool,
}

/// Makes cases of the schemas of a description.
struct Cases<'a>(&'a Value);

impl Cases<'_> {
    fn resolved(&self, schema: &Value) -> Value {
        match schema["$ref"].as_str() {
            Some(reference) => self.0.pointer(reference.trim_start_matches('#')).unwrap().clone(),
            None => schema.clone(),
        }
    }

    fn alternatives(&self, schema: &Value) -> Vec<Value> {
        let alternatives = ["anyOf", "oneOf"].iter().find_map(|name| schema[name].as_array());
        alternatives.map(|all| all.iter().map(|one| self.resolved(one)).collect()).unwrap_or_default()
    }

    /// The kinds of JSON that a schema allows.
    fn kinds(&self, schema: &Value) -> BTreeSet<String> {
        let schema = self.resolved(schema);
        let alternatives = self.alternatives(&schema);
        if !alternatives.is_empty() {
            return alternatives.iter().flat_map(|one| self.kinds(one)).collect();
        }
        let number = |kind: &Value| kind.as_str().unwrap().replace("integer", "number");
        match &schema["type"] {
            Value::Array(kinds) => kinds.iter().map(number).collect(),
            Value::Null => KINDS.map(str::to_owned).into(),
            kind => [number(kind)].into(),
        }
    }

    /// A value that a schema allows.
    fn sample(&self, schema: &Value) -> Value {
        let schema = self.resolved(schema);
        if let Some(first) = self.alternatives(&schema).first() {
            return self.sample(first);
        }
        if !schema["const"].is_null() {
            return schema["const"].clone();
        }
        if let Some(values) = schema["enum"].as_array() {
            return values[0].clone();
        }
        match main_kind(&schema) {
            "boolean" => json!(true),
            "integer" => json!(schema["minimum"].as_u64().unwrap_or(1).max(1)),
            "number" => schema.get("maximum").cloned().unwrap_or(json!(1)),
            "array" => json!([]),
            "object" => {
                let required = schema["required"].as_array().cloned().unwrap_or_default();
                // A message may do without content only if it has something else.
                let content = schema["properties"]["content"].is_object().then_some("content");
                let fields = required.iter().map(|name| name.as_str().unwrap()).chain(content);
                fields.map(|name| (name.to_owned(), self.sample(&schema["properties"][name]))).collect()
            }
            "string" => json!(texts(&schema).0.first().copied().unwrap_or("a")),
            _ => json!("anything"),
        }
    }

    /// Values in the place of `base`, which the schema allows.
    fn of(&self, at: &str, schema: &Value, base: Option<&Value>) -> Vec<Case> {
        let schema = self.resolved(schema);
        let mut cases = self.within(at, &schema, base);
        // A value of every kind that is not allowed.
        let kinds = self.kinds(&schema);
        let wrong = [json!(null), json!(true), json!(7), json!("text"), json!([]), json!({})];
        for (kind, value) in KINDS.into_iter().zip(wrong) {
            if !kinds.contains(kind) {
                cases.push(Case { at: at.to_owned(), value, is_allowed: false });
            }
        }
        if kinds.contains("null") && kinds.len() < KINDS.len() {
            cases.push(Case { at: at.to_owned(), value: Value::Null, is_allowed: true });
        }
        cases
    }

    /// Values of the kinds that a schema allows.
    fn within(&self, at: &str, schema: &Value, base: Option<&Value>) -> Vec<Case> {
        let alternatives = self.alternatives(schema);
        if !alternatives.is_empty() {
            let cases = alternatives.iter().flat_map(|one| self.within(at, one, None));
            // What is wrong for one alternative may be an object of the other.
            let is_open = alternatives.iter().any(is_of_openai);
            return cases.filter(|case| case.is_allowed || !is_open).collect();
        }
        if is_of_openai(schema) {
            return Vec::new();
        }
        let mut cases = Vec::new();
        let mut add = |value: Value, is_allowed: bool| cases.push(Case { at: at.to_owned(), value, is_allowed });
        if let Some(values) = schema["enum"].as_array() {
            values.iter().for_each(|value| add(value.clone(), true));
            add(json!("no-such-value"), false);
            return cases;
        }
        match main_kind(schema) {
            "boolean" => [true, false].into_iter().for_each(|value| add(json!(value), true)),
            "integer" => {
                let (least, most) = integers(schema);
                let number = |value: i128| match (i64::try_from(value), u64::try_from(value)) {
                    (Ok(value), _) => json!(value),
                    (_, Ok(value)) => json!(value),
                    // Beyond 64 bits it is a float.
                    _ => json!(value as f64),
                };
                [least, most].into_iter().for_each(|value| add(number(value), true));
                [least - 1, most + 1].into_iter().for_each(|value| add(number(value), false));
                add(json!(1.5), false);
            }
            "number" => {
                for (bound, beyond) in [("minimum", -1.0), ("maximum", 1.0)] {
                    if let Some(value) = schema[bound].as_f64() {
                        add(json!(value), true);
                        let step = if value == 0.0 { 0.001 } else { value.abs() / 1000.0 };
                        add(json!(value + beyond * step), false);
                    }
                }
            }
            "string" if schema["const"].is_null() => {
                strings(schema).into_iter().for_each(|(text, is_allowed)| add(json!(text), is_allowed));
            }
            "array" => {
                let first = base.and_then(|base| base.get(0));
                let item = first.cloned().unwrap_or_else(|| self.sample(&schema["items"]));
                if let Some(most) = schema["maxItems"].as_u64() {
                    add(json!(vec![item.clone(); most as usize]), true);
                    add(json!(vec![item.clone(); most as usize + 1]), false);
                }
                add(json!([]), true);
                let items = self.of(&format!("{at}[]"), &schema["items"], first);
                cases.extend(items.into_iter().map(|case| Case { value: json!([case.value]), ..case }));
            }
            "object" => {
                let base = base.cloned().unwrap_or_else(|| self.sample(schema));
                add(base.clone(), true);
                for (name, property) in schema["properties"].as_object().into_iter().flatten() {
                    let cases_of_property = self.of(&format!("{at}.{name}"), property, base.get(name));
                    let is_lenient = OPENAI.contains(&name.as_str());
                    for case in cases_of_property.into_iter().filter(|case| case.is_allowed || !is_lenient) {
                        let mut value = base.clone();
                        value[name] = case.value;
                        cases.push(Case { value, ..case });
                    }
                }
                for name in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
                    let mut value = base.clone();
                    value.as_object_mut().unwrap().remove(name);
                    cases.push(Case { at: format!("{at} without {name}"), value, is_allowed: false });
                }
                if schema["additionalProperties"] == false {
                    let mut value = base.clone();
                    value["no_such_field"] = json!(1);
                    cases.push(Case { at: at.to_owned(), value, is_allowed: false });
                }
            }
            _ => {}
        }
        cases
    }
}

/// Returns true for an object whose fields are described by OpenAI.
fn is_of_openai(schema: &Value) -> bool {
    schema["format"] == "openai"
}

/// Returns true for a prompt that a model may answer alone: it has text or media, and no part of a tool's call.
fn is_answerable(prompt: &Value) -> bool {
    let is_blank = |text: &Value| text.as_str().is_none_or(|text| text.trim().is_empty());
    match prompt.get("content").unwrap_or(prompt) {
        Value::Array(parts) => {
            parts.iter().any(|part| !is_blank(&part["text"]) || part["uri"].is_string())
                && !parts.iter().any(|part| part["type"].as_str().is_some_and(|kind| kind.starts_with("tool_")))
        }
        text => !is_blank(text),
    }
}

/// The kind of a schema without alternatives, but for null.
fn main_kind(schema: &Value) -> &str {
    match &schema["type"] {
        Value::Array(kinds) => kinds.iter().find_map(|kind| kind.as_str().filter(|kind| *kind != "null")).unwrap(),
        kind => kind.as_str().unwrap_or_default(),
    }
}

/// The least and the greatest integer that a schema allows.
fn integers(schema: &Value) -> (i128, i128) {
    let (least, most) = match schema["format"].as_str() {
        Some("uint64") => (0, u64::MAX.into()),
        Some("int64") => (i64::MIN.into(), i64::MAX.into()),
        other => panic!("{other:?}: give the format a row"),
    };
    let bound = |name: &str, default| schema[name].as_i64().map_or(default, i128::from);
    (bound("minimum", least), bound("maximum", most))
}

/// Texts, and whether the description allows them.
fn strings(schema: &Value) -> Vec<(String, bool)> {
    if let Some(values) = schema["enum"].as_array() {
        let good = values.iter().map(|value| (value.as_str().unwrap().to_owned(), true));
        return good.chain(["", "x"].map(|text| (text.to_owned(), false))).collect();
    }
    let (good, bad) = texts(schema);
    let (least, most) = (schema["minLength"].as_u64().unwrap_or(0), schema["maxLength"].as_u64());
    let mut cases: Vec<(String, bool)> = good.iter().map(|text| ((*text).to_owned(), true)).collect();
    cases.extend(bad.iter().map(|text| ((*text).to_owned(), false)));
    // Of the most characters that a namespace has, each 513th is a slash.
    let text = |length: u64| (1..=length).map(|at| if at % 513 == 0 { '/' } else { 'a' }).collect::<String>();
    if let Some(most) = most {
        cases.push((text(most + 1), false));
        if most <= LONG && schema["format"].is_null() {
            cases.push((text(most), true));
        }
    }
    if least > 0 {
        cases.extend([(text(least), true), (text(least - 1), false)]);
    }
    cases
}

fn percent_encoded(text: &str) -> String {
    text.bytes()
        .map(|byte| if byte.is_ascii_alphanumeric() { char::from(byte).into() } else { format!("%{byte:02X}") })
        .collect()
}

/// Requests of the cases, and those that the server answers otherwise than the description says.
struct Sent<'a> {
    server: &'a Server,
    number: usize,
    faults: Vec<String>,
}

impl Sent<'_> {
    fn send(
        &mut self,
        what: &str,
        is_allowed: bool,
        method: &str,
        path: &str,
        header: Option<&str>,
        body: Option<&Value>,
    ) {
        let header = header.map(|value| ("idempotency-key", value));
        let answer = self.server.send(method, path, header.as_slice(), body.cloned());
        self.number += 1;
        let is_taken = ![400, 405, 413, 422].contains(&answer.status) && answer.status < 500;
        let is_refused = (400..500).contains(&answer.status);
        let shown = answer.body["detail"].as_str().unwrap_or_default();
        if (is_allowed && !is_taken) || (!is_allowed && !is_refused) || shown.contains("untagged") {
            let said: String = what.chars().take(200).collect();
            let expected = if is_allowed { "allowed" } else { "forbidden" };
            self.faults.push(format!("{expected}, but {}: {said}: {shown}", answer.status));
        }
    }
}

#[test]
fn the_description_is_as_strict_as_the_server() {
    let db = Db::new();
    let server = strict::filled(&db);
    let document = server.get("/v1/openapi.json").body;
    let cases = Cases(&document);
    // Each key is used once.
    let mut keyed = 0;
    let mut sent = Sent { server: &server, number: 0, faults: Vec::new() };
    for (template, operations) in document["paths"].as_object().unwrap() {
        for (method, operation) in operations.as_object().unwrap() {
            let (method, id) = (method.to_uppercase(), operation["operationId"].as_str().unwrap());
            let mut body = operation["requestBody"].is_object().then(|| strict::body(id));
            // Ids are of one session alone.
            if let Some(message) = body.as_mut().and_then(|body| body.pointer_mut("/messages/0")) {
                message.as_object_mut().unwrap().remove("id");
            }
            let parameters = operation["parameters"].as_array().cloned().unwrap_or_default();
            let in_path = |changed: &str, value: &str| {
                let known = [("namespace", "a"), ("session", "s"), ("id", "m1"), ("key", "d")];
                known.iter().fold(template.clone(), |path, (name, usual)| {
                    let value = if *name == changed { percent_encoded(value) } else { (*usual).to_owned() };
                    path.replace(&format!("{{{name}}}"), &value)
                })
            };
            let required: Vec<&Value> =
                parameters.iter().filter(|one| one["in"] == "query" && one["required"] == true).collect();
            let usual_query: String =
                required.iter().map(|one| format!("&{}=m1", one["name"].as_str().unwrap())).collect();
            let url = |path: String, query: &str| match query.is_empty() {
                true => path,
                false => format!("{path}?{}", &query[1..]),
            };
            for parameter in &parameters {
                let name = parameter["name"].as_str().unwrap();
                let schema = cases.resolved(&parameter["schema"]);
                let what = |value: &str| format!("{id} {name}={value:?}");
                if parameter["in"] == "header" {
                    let most = schema["maxLength"].as_u64().unwrap() as usize;
                    let unique = char::from_digit(keyed, 36).unwrap().to_string();
                    keyed += 1;
                    for (value, is_allowed) in [
                        (unique.clone(), true),
                        (format!("{unique:k>most$}"), true),
                        ("k".repeat(most + 1), false),
                        ("é".to_owned(), false),
                        (String::new(), false),
                    ] {
                        let path = url(in_path("", ""), &usual_query);
                        sent.send(&what(&value), is_allowed, &method, &path, Some(&value), body.as_ref());
                    }
                    continue;
                }
                let values: Vec<(String, bool)> = match main_kind(&schema) {
                    "integer" => {
                        let (least, most) = integers(&schema);
                        let beyond = [least - 1, most + 1];
                        let good = [least, most].map(|value| (value.to_string(), true));
                        let bad = beyond.map(|value| (value.to_string(), false));
                        good.into_iter()
                            .chain(bad)
                            .chain(["x", "1.5", ""].map(|text| (text.to_owned(), false)))
                            .collect()
                    }
                    "boolean" => [("true", true), ("false", true), ("x", false), ("1", false)]
                        .map(|(text, is_allowed)| (text.to_owned(), is_allowed))
                        .into(),
                    _ => strings(&schema),
                };
                for (value, is_allowed) in values {
                    if is_allowed && OWN.contains(&name) {
                        continue;
                    }
                    let path = match parameter["in"] == "path" {
                        true => url(in_path(name, &value), &usual_query),
                        false => {
                            let others = if required.contains(&parameter) { "" } else { &usual_query };
                            url(in_path("", ""), &format!("{others}&{name}={}", percent_encoded(&value)))
                        }
                    };
                    sent.send(&what(&value), is_allowed, &method, &path, None, body.as_ref());
                }
            }
            for name in required {
                let what = format!("{id} without {}", name["name"]);
                sent.send(&what, false, &method, &in_path("", ""), None, body.as_ref());
            }
            let Some(body) = body else { continue };
            let schema = &operation["requestBody"]["content"]["application/json"]["schema"];
            if schema.is_null() {
                // A file, which may be anything.
                continue;
            }
            for case in cases.of("", schema, Some(&body)) {
                // Of two lists of namespaces one may be empty.
                let is_empty = id == "post_recall" && case.value["under"] == json!([]);
                let is_unanswerable = id.ends_with("_assemble") && !is_answerable(&case.value["prompt"]);
                let is_own = case.at.split(['.', '[']).any(|name| OWN.contains(&name));
                if case.is_allowed && (is_empty || is_unanswerable || is_own) {
                    continue;
                }
                let path = url(in_path("", ""), &usual_query);
                let what = format!("{id} {}: {}", case.at, case.value);
                sent.send(&what, case.is_allowed, &method, &path, None, Some(&case.value));
            }
        }
    }
    let Sent { number, faults, .. } = sent;
    eprintln!("{number} requests");
    assert!(faults.is_empty(), "{} of {number}:\n{}", faults.len(), faults.join("\n"));
    assert!(number > 500, "{number}");
}

/// A value of a parameter may be the same as a fixed segment of another route: each method of the first is served there too.
#[test]
fn no_fixed_segment_hides_a_value() {
    let db = Db::new();
    let server = Server::start(&db);
    let document = server.get("/v1/openapi.json").body;
    let paths = document["paths"].as_object().unwrap();
    let segments = |path: &str| path.split('/').map(str::to_owned).collect::<Vec<_>>();
    let is_parameter = |segment: &str| segment.starts_with('{');
    let mut hidden = 0;
    for (free, operations) in paths {
        for fixed in paths.keys().filter(|fixed| *fixed != free) {
            let (free, fixed) = (segments(free), segments(fixed));
            let fits = free.len() == fixed.len()
                && free.iter().zip(&fixed).all(|(free, fixed)| free == fixed || is_parameter(free));
            if !fits {
                continue;
            }
            let path = fixed.join("/").replace("{namespace}", "a");
            for method in operations.as_object().unwrap().keys() {
                let body = (method == "put").then(|| json!({ "value": "of search" }));
                let answer = server.send(&method.to_uppercase(), &path, &[], body);
                assert!(
                    answer.status != 405 && answer.status < 500,
                    "{method} {path}: {} {}",
                    answer.status,
                    answer.body
                );
                hidden += 1;
            }
        }
    }
    assert_eq!(hidden, 3, "PUT, GET and DELETE of the document with the key `search`");
    let path = "/v1/namespaces/a/documents/search";
    let put = || server.send("PUT", path, &[], Some(json!({ "value": { "city": "Porto" } })));
    assert_eq!(put().status, 204);
    assert_eq!(server.get(path).body["value"]["city"], "Porto");
    let found = server.post(path, json!({ "query": "Porto" }));
    assert_eq!(found.body["documents"][0]["key"], "search", "{}", found.body);
    assert_eq!(server.send("DELETE", path, &[], None).status, 204);
    server.get(path).assert_problem(404, "no such document");
    server.send("PATCH", path, &[], None).assert_problem(405, "");
}
