//! Filters on JSON objects: what matches, their JSON form, and wrong ones.

use mnemon::{Error, MetadataFilter};
use proptest::prelude::*;
use serde_json::{Value, json};

fn filter(value: Value) -> MetadataFilter {
    (&value).try_into().unwrap_or_else(|error| panic!("{value}: {error}"))
}

#[test]
fn each_operator_compares_as_documented() {
    let user = json!({
        "name": "Ada", "age": 36, "height": 1.7, "admin": true, "left": null, "big": 9_007_199_254_740_993_i64,
        "tags": ["a", 1.0, {"x": [1]}], "home": {"city": "Oslo", "a.b": {"$c": 3}, "": 4},
    });
    let matching = [
        json!({}),
        json!({"name": "Ada"}),
        json!({"age": 36.0, "admin": true}),
        json!({"$.age": {"$gt": 35.5, "$lte": 36}}),
        json!({"age": {"$gte": 36, "$lt": u64::MAX}}),
        json!({"big": {"$gt": 9_007_199_254_740_992_i64}}),
        json!({"big": {"$ne": 9_007_199_254_740_992.0}}),
        json!({"name": {"$gt": "A", "$lt": "Adb"}}),
        json!({"name": {"$in": ["Eve", "Ada"]}, "age": {"$nin": [1, "36"]}}),
        json!({"left": null, "right": null, "home.right": {"$eq": null}}),
        json!({"left": {"$exists": true}, "right": {"$exists": false}}),
        json!({"left": {"$ne": 0}, "right": {"$ne": 0}, "age": {"$ne": "36"}}),
        json!({"tags": {"$contains": 1}, "name": {"$contains": "d"}}),
        json!({"tags": {"$contains": {"x": [1.0]}}}),
        json!({"tags[0]": "a", "$[\"tags\"][2].x[0]": 1}),
        json!({"tags": ["a", 1, {"x": [1]}]}),
        json!({"home": {"city": "Oslo"}}),
        json!({"home.city": "Oslo", "home[\"a.b\"][\"$c\"]": 3, "home[\"\"]": 4}),
        json!({"home": {"$eq": {"city": "Oslo", "a.b": {"$c": 3}, "": 4}}}),
        json!({"$or": [{"age": 1}, {"name": "Ada"}], "$not": {"age": 1}}),
        json!({"age": {"$not": {"$lt": 36}}}),
        json!({"$and": []}),
    ];
    for value in matching {
        assert!(filter(value.clone()).matches(&user), "{value}");
        assert!(!(!filter(value.clone())).matches(&user), "{value}");
    }
    let others = [
        json!({"name": "ada"}),
        json!({"age": "36"}),
        json!({"age": {"$gt": "35"}}),
        json!({"name": {"$gt": 1}}),
        json!({"name": {"$lt": 1}}),
        json!({"left": {"$lt": 1}}),
        json!({"right": {"$lte": 1}}),
        json!({"admin": 1}),
        json!({"admin": "true"}),
        json!({"right": {"$ne": null}}),
        json!({"name": {"$in": []}}),
        json!({"home": {"$eq": {"city": "Oslo"}}}),
        json!({"home": {"$contains": "city"}}),
        json!({"name": {"$contains": 1}}),
        json!({"tags[3]": {"$exists": true}}),
        json!({"tags.0": "a"}),
        json!({"name[0]": "A"}),
        json!({"$or": []}),
    ];
    for value in others {
        assert!(!filter(value.clone()).matches(&user), "{value}");
    }
    assert!(filter(json!({"a": null})).matches(&json!("no object")));
}

#[test]
fn builders_and_json_make_the_same_filters() {
    let built = MetadataFilter::gt("user.age", 3)
        .unwrap()
        .and(!MetadataFilter::is_in("[\"a.b\"]", ["x", "y"]).unwrap())
        .and(MetadataFilter::ne("tags[0]", json!([1])).unwrap().or(MetadataFilter::exists("z").unwrap()));
    let text = r#"{"user": {"age": {"$gt": 3}}, "$not": {"[\"a.b\"]": {"$in": ["x", "y"]}},
        "$or": [{"tags[0]": {"$ne": [1]}}, {"z": {"$exists": true}}]}"#;
    let read: MetadataFilter = text.parse().unwrap();
    // An object in JSON has no order.
    let list = |filter: &MetadataFilter| {
        let value: Value = serde_json::from_str(&filter.to_string()).unwrap();
        let mut list: Vec<String> = value["$and"].as_array().unwrap().iter().map(Value::to_string).collect();
        list.sort();
        list
    };
    assert_eq!(list(&built), list(&read));
    assert_eq!(serde_json::to_value(&built).unwrap()["$and"][0], json!({"user.age": {"$gt": 3}}));
    assert_eq!(!!built.clone(), built);
    let pairs = [
        (MetadataFilter::eq("a", 1), json!({"a": 1})),
        (MetadataFilter::gte("a", "x"), json!({"$.a": {"$gte": "x"}})),
        (MetadataFilter::lt("a", 1.5), json!({"a": {"$lt": 1.5}})),
        (MetadataFilter::lte("a.b", 1), json!({"a": {"b": {"$lte": 1}}})),
        (MetadataFilter::not_in("a", [1, 2]), json!({"a": {"$nin": [1, 2]}})),
        (MetadataFilter::eq("$role", "user"), json!({"$role": "user"})),
        (
            MetadataFilter::gte("$created_at", "2024-05-01T02:00:00+02:00"),
            json!({"$created_at": {"$gte": 1_714_521_600_000_000_i64}}),
        ),
        (MetadataFilter::contains("a", "x"), json!({"$and": [{"a": {"$contains": "x"}}]})),
    ];
    for (built, read) in pairs {
        assert_eq!(built.unwrap(), filter(read));
    }
}

/// An object has no message, and its key of the same name is another path.
#[test]
fn fields_of_a_message_are_told_from_keys() {
    let object = json!({"$role": "user", "$id": 1});
    assert!(!filter(json!({"$role": "user"})).matches(&object));
    assert!(filter(json!({"$role": null, "$id": {"$exists": false}})).matches(&object));
    let key = filter(json!({"[\"$role\"]": "user"}));
    assert!(key.matches(&object) && filter(serde_json::to_value(&key).unwrap()) == key);
    let field = filter(json!({"$role": "user"}));
    assert!(field != key && filter(serde_json::to_value(&field).unwrap()) == field);
}

#[test]
fn wrong_filters_are_errors_that_name_the_fault() {
    let deep = |depth: usize| (0..depth).fold(json!(1), |inner, _| Value::Array(vec![inner]));
    // Not by the macro, which calls itself for each level.
    let object = |key: &str, value: Value| Value::Object([(key.to_owned(), value)].into_iter().collect());
    let nots = |depth: usize| (0..depth).fold(json!({"a": 1}), |inner, _| object("$not", inner));
    let cases = [
        (json!([]), "not an array"),
        (json!("a"), "not a string"),
        (json!({"$gt": 1}), "\"$gt\" is not an operator here; known are $and, $or, $not"),
        (json!({"$nor": []}), "\"$nor\" is not an operator here"),
        (json!({"$name": "Ada"}), "the fields of a message $id, $session, $role, $created_at"),
        (json!({"$role": "robot"}), "$role: "),
        (json!({"$role": {"$in": ["user", "robot"]}}), "robot"),
        (json!({"$created_at": {"$gt": "noon"}}), "$created_at: "),
        (json!({"$id": {"a": 1}}), "there is no a inside of $id"),
        (json!({"a": {"$id": 1}}), "\"$id\" is not an operator here"),
        (json!({"$id.a": 1}), "\"$id.a\" is not an operator here"),
        (json!({"a": {"$regex": "x"}}), "\"$regex\" is not an operator here; known are $eq, $ne"),
        (json!({"a": {"$.b": 1}}), "\"$.b\" is not an operator here"),
        (json!({"a": {"$gt": 1, "b": 2}}), "both operators and other keys"),
        (json!({"a": {}}), "an empty object at \"a\""),
        (json!({"a": {"$gt": {}}}), "$gt at \"a\" takes a number or a string, not an object"),
        (json!({"a": {"$gte": null}}), "$gte at \"a\" takes a number or a string, not null"),
        (json!({"a.b": {"$lt": [1]}}), "$lt at \"a.b\" takes a number or a string, not an array"),
        (json!({"a": {"$lte": true}}), "not a boolean"),
        (json!({"a": {"$in": "x"}}), "$in at \"a\" takes an array of values, not a string"),
        (json!({"a": {"$exists": 1}}), "$exists at \"a\" takes true or false, not a number"),
        (json!({"a": {"$not": 1}}), "$not takes an object, not a number"),
        (json!({"$or": {"a": 1}}), "$or takes an array of filters, not an object"),
        (json!({"$not": [{"a": 1}]}), "not an array"),
        (json!({"": 1}), "\"\" is not a path: a key is empty"),
        (json!({"a..b": 1}), "a key is empty"),
        (json!({"a.": 1}), "a key is empty"),
        (json!({"$": 1}), "\"$\" is not an operator"),
        (json!({"$.": 1}), "a key is empty"),
        (json!({"a.$b": 1}), "begins with $"),
        (json!({"a\"b": 1}), "quotation mark"),
        (json!({"a\nb": 1}), "control character"),
        (json!({"a]": 1}), "bracket"),
        (json!({"a[": 1}), "neither an index nor a key"),
        (json!({"a[-1]": 1}), "neither an index nor a key"),
        (json!({"a[x]": 1}), "neither an index nor a key"),
        (json!({"a[99999999999999999999]": 1}), "neither an index nor a key"),
        (json!({"a[0": 1}), "not closed"),
        (json!({"a[\"b]": 1}), "not a JSON string"),
        (json!({"a[\"b\"": 1}), "not closed"),
        (json!({"a[0]b": 1}), "a dot or another bracket must follow"),
        (object("a", deep(64)), "nested more than 64 deep"),
        (object("a", object("$eq", deep(1_000))), "nested more than 64 deep"),
        (nots(64), "nested more than 64 deep"),
        (nots(1_000), "nested more than 64 deep"),
        ((0..1_000).fold(json!(1), |inner, _| object("a", inner)), "nested more than 64 deep"),
    ];
    for (value, reason) in cases {
        let error = MetadataFilter::try_from(&value).unwrap_err();
        assert!(matches!(error, Error::InvalidFilter { .. }) && error.to_string().contains(reason), "{error}");
    }
    filter(object("a", deep(63)));
    filter(nots(63));
    let error = MetadataFilter::eq("a", deep(1_000)).unwrap_err();
    assert!(error.to_string().contains("$eq at \"a\" takes a value nested at most 64 deep"), "{error}");
    for text in ["", "{", "{\"a\": 1} x", "a = 1", &format!("{}1{}", "[".repeat(10_000), "]".repeat(10_000))] {
        let error = text.parse::<MetadataFilter>().unwrap_err();
        assert!(error.to_string().starts_with("invalid filter: ") && error.to_string().len() < 200, "{error}");
    }
    let error = serde_json::from_value::<MetadataFilter>(json!({"a": {"$x": 1}})).unwrap_err();
    assert_eq!(error.to_string().matches("invalid filter").count(), 1);
    assert!(MetadataFilter::gt("a", json!({})).is_err() && MetadataFilter::eq("", 1).is_err());
}

/// A filter as the naive model has it: paths are lists of keys.
#[derive(Clone, Debug)]
enum Model {
    Condition(Vec<String>, &'static str, Value),
    All(Vec<Model>),
    Any(Vec<Model>),
    Not(Box<Model>),
}

impl Model {
    fn json(&self) -> Value {
        let list = |models: &[Model]| models.iter().map(Model::json).collect::<Value>();
        match self {
            Model::Condition(path, operator, operand) => {
                let path: String = path.iter().map(|key| format!("[{}]", json!(key))).collect();
                json!({path: {*operator: operand}})
            }
            Model::All(models) => json!({"$and": list(models)}),
            Model::Any(models) => json!({"$or": list(models)}),
            Model::Not(model) => json!({"$not": model.json()}),
        }
    }

    fn build(&self) -> MetadataFilter {
        match self {
            Model::Condition(..) => filter(self.json()),
            Model::All(models) => MetadataFilter::all(models.iter().map(Model::build)),
            Model::Any(models) => MetadataFilter::any(models.iter().map(Model::build)),
            Model::Not(model) => !model.build(),
        }
    }

    fn matches(&self, value: &Value) -> bool {
        match self {
            Model::All(models) => models.iter().all(|model| model.matches(value)),
            Model::Any(models) => models.iter().any(|model| model.matches(value)),
            Model::Not(model) => !model.matches(value),
            Model::Condition(path, operator, operand) => {
                let found = path.iter().try_fold(value, |value, key| value.get(key.as_str()));
                let value = plain(found.unwrap_or(&Value::Null));
                let operand = plain(operand);
                let numbers = value.as_f64().zip(operand.as_f64()).and_then(|(a, b)| a.partial_cmp(&b));
                let order = numbers.or(value.as_str().zip(operand.as_str()).map(|(a, b)| a.cmp(b)));
                let is_in = operand.as_array().is_some_and(|values| values.contains(&value));
                match *operator {
                    "$eq" => value == operand,
                    "$ne" => value != operand,
                    "$gt" => order.is_some_and(|order| order.is_gt()),
                    "$gte" => order.is_some_and(|order| order.is_ge()),
                    "$lt" => order.is_some_and(|order| order.is_lt()),
                    "$lte" => order.is_some_and(|order| order.is_le()),
                    "$in" => is_in,
                    "$nin" => !is_in,
                    "$exists" => found.is_some() == (operand == json!(true)),
                    _ => match (&value, &operand) {
                        (Value::Array(values), operand) => values.contains(operand),
                        (Value::String(text), Value::String(part)) => text.contains(part.as_str()),
                        _ => false,
                    },
                }
            }
        }
    }
}

/// The value with all numbers as floats.
fn plain(value: &Value) -> Value {
    match value {
        Value::Number(number) => json!(number.as_f64()),
        Value::Array(values) => values.iter().map(plain).collect(),
        Value::Object(fields) => fields.iter().map(|(key, value)| (key.clone(), plain(value))).collect(),
        other => other.clone(),
    }
}

fn key() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["a", "b", "a.b", "$c", "", "0", "\n\"é"]).prop_map(str::to_owned)
}

fn scalar() -> impl Strategy<Value = Value> {
    let scalars = vec![json!(null), json!(true), json!(0), json!(1), json!(1.0), json!(-1.5), json!(""), json!("a")];
    prop_oneof![prop::sample::select(scalars), "[ab]{1,3}".prop_map(Value::from)]
}

fn value() -> impl Strategy<Value = Value> {
    scalar().prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::vec((key(), inner), 0..4).prop_map(|fields| fields.into_iter().collect::<Value>()),
        ]
    })
}

fn object() -> impl Strategy<Value = Value> {
    prop::collection::vec((key(), value()), 0..5).prop_map(|fields| fields.into_iter().collect::<Value>())
}

fn model() -> impl Strategy<Value = Model> {
    let equal = prop::sample::select(vec!["$eq", "$ne", "$contains"]);
    let ordered = prop::sample::select(vec!["$gt", "$gte", "$lt", "$lte"]);
    let comparable = scalar().prop_filter("an order", |value| value.is_number() || value.is_string());
    let list = prop::collection::vec(value(), 0..4).prop_map(Value::from);
    let test = prop_oneof![
        (equal, value()),
        (ordered, comparable),
        (prop::sample::select(vec!["$in", "$nin"]), list),
        (Just("$exists"), any::<bool>().prop_map(Value::from)),
    ];
    let path = prop::collection::vec(key(), 1..3);
    let leaf = (path, test).prop_map(|(path, (operator, operand))| Model::Condition(path, operator, operand));
    leaf.prop_recursive(3, 10, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Model::All),
            prop::collection::vec(inner.clone(), 0..4).prop_map(Model::Any),
            inner.prop_map(|model| Model::Not(Box::new(model))),
        ]
    })
}

proptest! {
    #[test]
    fn a_filter_matches_what_the_naive_model_matches(
        model in model(),
        objects in prop::collection::vec(object(), 1..20),
    ) {
        let built = model.build();
        prop_assert_eq!(&filter(model.json()), &built);
        prop_assert_eq!(&!!built.clone(), &built);
        prop_assert_eq!(&built.to_string().parse::<MetadataFilter>().unwrap(), &built);
        let json = serde_json::to_value(&built).unwrap();
        prop_assert_eq!(&serde_json::from_value::<MetadataFilter>(json).unwrap(), &built);
        for object in objects {
            prop_assert_eq!(built.matches(&object), model.matches(&object), "{} on {}", built, object);
            prop_assert_eq!((!built.clone()).matches(&object), !model.matches(&object));
        }
    }

    #[test]
    fn no_text_panics_as_a_path_or_a_filter(path in "[a.$\\[\\]\"0é\\\\]{0,8}", text in ".{0,20}") {
        if let Ok(filter) = MetadataFilter::eq(&path, 1) {
            prop_assert_eq!(filter.to_string().parse::<MetadataFilter>().unwrap(), filter);
        }
        let _ = text.parse::<MetadataFilter>();
    }
}
