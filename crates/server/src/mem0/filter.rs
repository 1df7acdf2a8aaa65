//! mem0's filters, such as `{"AND": [{"user_id": "ada"}, {"created_at": {"gte": "2024-05-01"}}]}`: evaluating them on a
//! memory, and translating them for the index of metadata. `conditions` reads them.

use std::cmp::Ordering;

use mnemon::DEFAULT_SESSION;
use serde_json::{Value, json};

use super::memory::{self, CATEGORIES, Memory, UPDATED_AT};
use crate::{
    entity::{Entity, id_name},
    problem::Problem,
};

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Filter {
    All(Vec<Filter>),
    Any(Vec<Filter>),
    Not(Box<Filter>),
    Holds(Field, Test),
}

/// The part of a memory that a condition is on.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Field {
    /// The id of a user, agent, app or run.
    Entity(&'static str),
    /// In microseconds since 1970.
    CreatedAt,
    UpdatedAt,
    Categories,
    /// The value of a key in the metadata.
    Metadata(String),
    Text,
    Id,
}

/// A condition on a value. A missing value is null.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Test {
    Present,
    In(Vec<Value>),
    /// A comparison with a number or a string.
    Compare(Order, Value),
    Contains(Value),
    ContainsInAnyCase(String),
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Order {
    Gt,
    Gte,
    Lt,
    Lte,
}

impl Filter {
    /// Returns true if there is a condition on the id of a user, agent, app or run.
    pub(super) fn names_entity(&self) -> bool {
        match self {
            Filter::All(inner) | Filter::Any(inner) => inner.iter().any(Filter::names_entity),
            Filter::Not(inner) => inner.names_entity(),
            Filter::Holds(field, _) => matches!(field, Field::Entity(_)),
        }
    }

    /// Returns the number of conditions.
    pub(super) fn conditions(&self) -> usize {
        match self {
            Filter::All(inner) | Filter::Any(inner) => inner.iter().map(Filter::conditions).sum(),
            Filter::Not(inner) => inner.conditions(),
            Filter::Holds(_, Test::In(values)) => values.len().max(1),
            Filter::Holds(..) => 1,
        }
    }

    /// Returns the ids of a filter that has no other conditions, one id of each kind at most.
    pub(super) fn entity(&self) -> Result<Entity, Problem> {
        let mut entity = Entity::default();
        let mut filters = vec![self];
        while let Some(filter) = filters.pop() {
            match filter {
                Filter::All(inner) => filters.extend(inner),
                Filter::Holds(Field::Entity(kind), Test::In(ids)) if ids.len() == 1 && ids[0].is_string() => {
                    let id = ids[0].as_str().map(str::to_owned);
                    match *kind {
                        "user" => entity.user_id = id,
                        "agent" => entity.agent_id = id,
                        "app" => entity.app_id = id,
                        _ => entity.run_id = id,
                    }
                }
                _ => {
                    return Err(Problem::bad_request(
                        "where memories are added, `filters` has ids alone: {\"user_id\": \"ada\"}",
                    ));
                }
            }
        }
        Ok(entity)
    }

    pub(super) fn matches(&self, memory: &Memory) -> bool {
        let (field, test) = match self {
            Filter::All(inner) => return inner.iter().all(|filter| filter.matches(memory)),
            Filter::Any(inner) => return inner.iter().any(|filter| filter.matches(memory)),
            Filter::Not(inner) => return !inner.matches(memory),
            Filter::Holds(field, test) => (field, test),
        };
        match field {
            Field::Entity(kind) => test.holds(&memory.entity(kind).into()),
            Field::CreatedAt => test.holds(&memory.created_at().into()),
            Field::UpdatedAt => test.holds(&memory.updated_at().into()),
            Field::Categories => memory.categories().into_iter().any(|category| test.holds(category)),
            Field::Metadata(key) => test.holds(memory.message.metadata.get(key).unwrap_or(&Value::Null)),
            Field::Text => test.holds(&memory.message.text().into()),
            Field::Id => test.holds(&memory.id().into()),
        }
    }

    /// Evaluates a filter whose conditions are all on the id of an entity.
    pub(super) fn holds_for(&self, id: &str) -> bool {
        match self {
            Filter::All(inner) => inner.iter().all(|filter| filter.holds_for(id)),
            Filter::Any(inner) => inner.iter().any(|filter| filter.holds_for(id)),
            Filter::Not(inner) => !inner.holds_for(id),
            Filter::Holds(_, test) => test.holds(&id.into()),
        }
    }

    /// Returns the filter in the form of [`mnemon::MetadataFilter`], or `None` if it has a condition that the index cannot
    /// evaluate.
    pub(super) fn for_index(&self) -> Option<Value> {
        let list = |filters: &[Filter]| filters.iter().map(Filter::for_index).collect::<Option<Vec<_>>>();
        match self {
            Filter::All(filters) => Some(json!({ "$and": list(filters)? })),
            Filter::Any(filters) => Some(json!({ "$or": list(filters)? })),
            Filter::Not(filter) => Some(json!({ "$not": filter.for_index()? })),
            Filter::Holds(field, test) => indexed(field, test),
        }
    }
}

impl Test {
    fn holds(&self, value: &Value) -> bool {
        let has_part =
            |value: &Value, part: &str| value.as_str().is_some_and(|text| text.to_lowercase().contains(part));
        match (self, value) {
            (Test::Present, value) => !value.is_null(),
            (Test::In(values), value) => values.iter().any(|other| is_equal(value, other)),
            (Test::Compare(order, other), value) => {
                let ordering = match (value, other) {
                    (Value::Number(a), Value::Number(b)) => {
                        a.as_f64().zip(b.as_f64()).and_then(|(a, b)| a.partial_cmp(&b))
                    }
                    (Value::String(a), Value::String(b)) => Some(a.cmp(b)),
                    _ => None,
                };
                ordering.is_some_and(|ordering| order.allows(ordering))
            }
            (Test::Contains(part), Value::Array(values)) => values.iter().any(|value| is_equal(value, part)),
            (Test::Contains(part), value) => {
                value.as_str().zip(part.as_str()).is_some_and(|(text, part)| text.contains(part))
            }
            (Test::ContainsInAnyCase(part), Value::Array(values)) => values.iter().any(|value| has_part(value, part)),
            (Test::ContainsInAnyCase(part), value) => has_part(value, part),
        }
    }
}

impl Order {
    fn allows(self, ordering: Ordering) -> bool {
        match self {
            Order::Gt => ordering.is_gt(),
            Order::Gte => ordering.is_ge(),
            Order::Lt => ordering.is_lt(),
            Order::Lte => ordering.is_le(),
        }
    }
}

fn is_equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a == b || a.as_f64() == b.as_f64(),
        _ => a == b,
    }
}

fn indexed(field: &Field, test: &Test) -> Option<Value> {
    match (field, test) {
        // The run is the session. A message without a run is in the default session.
        (Field::Entity("run"), Test::Present) => {
            Some(json!({ "$or": [{ "$session": { "$ne": DEFAULT_SESSION } }, { "run_id": { "$ne": null } }] }))
        }
        (Field::Entity("run"), Test::In(runs)) => {
            let sessions = runs.iter().map(|run| if run.is_null() { DEFAULT_SESSION.into() } else { run.clone() });
            Some(json!({ "$session": { "$in": sessions.collect::<Vec<_>>() } }))
        }
        (Field::Entity(kind), _) => at(&id_name(kind), test),
        (Field::CreatedAt, _) => at("$created_at", test),
        (Field::UpdatedAt, _) => Some(json!({ "$or": [
            { "$and": [{ UPDATED_AT: { "$exists": true } }, at(UPDATED_AT, test)?] },
            { "$and": [{ UPDATED_AT: { "$exists": false } }, at("$created_at", test)?] },
        ] })),
        (Field::Categories, Test::Present) => at(CATEGORIES, test),
        (Field::Categories, Test::In(categories)) => {
            let any = categories.iter().map(|category| json!({ CATEGORIES: { "$contains": category } }));
            Some(json!({ "$or": any.collect::<Vec<_>>() }))
        }
        (Field::Categories, _) => None,
        (Field::Metadata(key), _) => at(&format!("[{}]", Value::from(key.as_str())), test),
        (Field::Text, _) => None,
        (Field::Id, Test::In(ids)) => {
            let messages = ids.iter().filter_map(|id| Some(memory::read_id(id.as_str()?)?.1));
            Some(json!({ "$id": { "$in": messages.collect::<Vec<_>>() } }))
        }
        (Field::Id, _) => None,
    }
}

fn at(path: &str, test: &Test) -> Option<Value> {
    let condition = match test {
        Test::Present => json!({ "$ne": null }),
        Test::In(values) => json!({ "$in": values }),
        Test::Compare(Order::Gt, value) => json!({ "$gt": value }),
        Test::Compare(Order::Gte, value) => json!({ "$gte": value }),
        Test::Compare(Order::Lt, value) => json!({ "$lt": value }),
        Test::Compare(Order::Lte, value) => json!({ "$lte": value }),
        Test::Contains(part) => json!({ "$contains": part }),
        Test::ContainsInAnyCase(_) => return None,
    };
    Some(json!({ path: condition }))
}

#[cfg(test)]
mod tests {
    use mnemon::MetadataFilter;

    use super::*;

    #[test]
    fn translations_are_filters_of_the_library() {
        for (given, expected) in [
            (json!({ "metadata": { "a.b": 1 } }), Some(json!({ "$and": [{ "[\"a.b\"]": { "$in": [1] } }] }))),
            (json!({ "metadata": { "n": { "gt": 1, "lte": 3 } } }), None),
            (
                json!({ "created_at": { "gte": "1970-01-01T00:00:01Z" } }),
                Some(json!({ "$created_at": { "$gte": 1_000_000 } })),
            ),
            (json!({ "updated_at": { "lt": 5 } }), None),
            (json!({ "run_id": null }), Some(json!({ "$session": { "$in": ["default"] } }))),
            (json!({ "OR": [{ "agent_id": "*" }, { "NOT": { "categories": ["x"] } }] }), None),
            (json!({ "memory_ids": ["unknown"] }), Some(json!({ "$id": { "$in": [] } }))),
            (json!({ "metadata": { "s": { "contains": "x" }, "o": { "a": { "b": 1 } } } }), None),
        ] {
            let filter = Filter::read(&given).unwrap().for_index().unwrap();
            MetadataFilter::try_from(&filter).unwrap();
            assert!(expected.is_none_or(|expected| filter == expected), "{given}: {filter}");
        }
        for given in [
            json!({ "keywords": { "contains": "x" } }),
            json!({ "AND": [{ "user_id": "a" }, { "metadata": { "s": { "icontains": "x" } } }] }),
            json!({ "categories": { "contains": "fin" } }),
        ] {
            assert_eq!(Filter::read(&given).unwrap().for_index(), None, "{given}");
        }
    }
}
