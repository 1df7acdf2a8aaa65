//! Input that is refused, with an error that says why; nothing is stored.

use mnemon::{Error, MetadataFilter};
use serde_json::{Value, json};

use super::*;
use crate::support::Db;

#[test]
fn bad_documents_are_refused_and_nothing_is_stored() {
    let db = Db::new();
    let engine = db.open();
    let minutes = |minutes| options().ttl_minutes(minutes);
    let index = |path: &str| options().index([path]);
    let mut deep = json!(1);
    for _ in 0..10_000 {
        deep = Value::Array(vec![deep]);
    }
    let long = "k".repeat(513);
    let many: Vec<String> = (0..1001).map(|number| number.to_string()).collect();
    let cases: Vec<(&str, Value, DocumentOptions, &str)> = vec![
        ("", json!(1), options(), "the key is empty"),
        (&long, json!(1), options(), "513 bytes"),
        ("a\nb", json!(1), options(), "control character"),
        ("a\u{0}b", json!(1), options(), "control character"),
        ("key", Value::Null, options(), "null"),
        ("key", json!("x".repeat(1 << 20)), options().not_indexed(), "the maximum is 1048576"),
        ("key", deep, options(), "nested deeper than 100"),
        ("key", json!(1), minutes(0.0), "0 minutes"),
        ("key", json!(1), minutes(-5.0), "-5 minutes"),
        ("key", json!(1), minutes(f64::NAN), "NaN minutes"),
        ("key", json!(1), minutes(f64::INFINITY), "inf minutes"),
        ("key", json!(1), minutes(1e-9), "not within a millisecond"),
        ("key", json!(1), minutes(1e6 * 365.25 * 24.0 * 60.0), "a thousand years"),
        ("key", json!(1), index(""), "a path is empty"),
        ("key", json!(1), index("a..b"), "a name is empty"),
        ("key", json!(1), index(".a"), "a name is empty"),
        ("key", json!(1), index("a."), "a name is empty"),
        ("key", json!(1), index("a[0"), "a bracket is not closed"),
        ("key", json!(1), index("a[x]"), "neither a whole number"),
        ("key", json!(1), index("a[]"), "neither a whole number"),
        ("key", json!(1), index("a[0]b"), "must follow"),
        ("key", json!(1), index("a]"), "within a name"),
        ("key", json!(1), index("{a,b"), "not closed"),
        ("key", json!(1), index("{a,}"), "is empty"),
        ("key", json!(1), index("{a}.b"), "not closed at the end"),
        ("key", json!(1), index("$.a"), "nothing may follow"),
        ("key", json!(1), index(&"a".repeat(513)), "513 bytes"),
        ("key", json!(1), options().index(vec!["a"; 33]), "33 paths"),
        ("key", json!(many), options().index(["[*]"]), "1001 texts"),
    ];
    for (key, value, options, expected) in cases {
        let error = documents(&engine).blocking().put(key, value, options).unwrap_err();
        assert!(
            matches!(&error, Error::InvalidDocument { reason } if reason.contains(expected)),
            "{expected}: {error}"
        );
    }
    let error = documents(&engine).blocking().search(search().query("x").limit(10_000).offset(1)).unwrap_err();
    assert!(matches!(&error, Error::InvalidQuery { .. }), "{error}");
    let of_message = MetadataFilter::eq("a", 1).unwrap().or(MetadataFilter::eq("$role", "user").unwrap());
    let error = documents(&engine).blocking().search(search().filter(of_message)).unwrap_err();
    assert!(error.to_string().contains("$role is a field of messages") && error.to_string().contains("[\"$role\"]"));
    assert_eq!(find(&engine, search()), []);
    assert!(engine.blocking().document_namespaces(Default::default()).unwrap().is_empty());
    // At the limits it is stored.
    let mut deep = json!(1);
    for _ in 0..100 {
        deep = Value::Array(vec![deep]);
    }
    let largest = json!("x".repeat((1 << 20) - 2));
    for (key, value) in [("k".repeat(512), json!(1)), ("deep".into(), deep), ("large".into(), largest)] {
        put(&engine, &key, value.clone());
        assert_eq!(documents(&engine).blocking().get(&key).unwrap().unwrap().value, value);
    }
    for minutes in [1.0 / 60_000.0, 525_960_000.0] {
        documents(&engine).blocking().put("ttl", json!(1), options().ttl_minutes(minutes)).unwrap();
    }
    engine.blocking().flush().unwrap();
    drop(engine);
    db.assert_sound();
}
