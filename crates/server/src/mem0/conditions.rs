//! Reading the conditions in the body of a search or of a list: its filter, and the shorter forms beside it.
//!
//! An unknown field or operator is refused, so that a typing error never widens a search or a deletion.

use serde::Deserialize;
use serde_json::{Map, Value};

use super::{
    fields,
    filter::{Field, Filter, Order, Test},
};
use crate::{
    bounds::Cost,
    entity::{self, id_name},
    problem::Problem,
};

const MAX_DEPTH: usize = 32;
const OPERATORS: [&str; 9] = ["eq", "ne", "in", "gt", "gte", "lt", "lte", "contains", "icontains"];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Conditions {
    filters: Option<Value>,
    /// Any of these categories.
    categories: Option<Vec<Value>>,
    /// All of these values in the metadata.
    metadata: Option<Map<String, Value>>,
    start_date: Option<Value>,
    end_date: Option<Value>,
    /// Ids beside `filters` are refused: they belong in it.
    user_id: Option<Value>,
    agent_id: Option<Value>,
    app_id: Option<Value>,
    run_id: Option<Value>,
}

impl Conditions {
    pub(super) fn filter(&self) -> Result<Filter, Problem> {
        let outside =
            [("user", &self.user_id), ("agent", &self.agent_id), ("app", &self.app_id), ("run", &self.run_id)];
        if let Some((kind, _)) = outside.iter().find(|(_, id)| id.is_some()) {
            return Err(Problem::bad_request(format!("give {} in `filters`, not beside it", id_name(kind))));
        }
        let filters = self.filters.as_ref();
        let filters =
            filters.ok_or_else(|| Problem::bad_request(format!("give `filters` with {}", entity::id_names())))?;
        let mut all = vec![Filter::read(filters)?];
        if let Some(categories) = &self.categories {
            all.push(Filter::Holds(Field::Categories, Test::In(categories.clone())));
        }
        if let Some(metadata) = &self.metadata {
            all.push(Filter::metadata(metadata)?);
        }
        for (date, order) in [(&self.start_date, Order::Gte), (&self.end_date, Order::Lte)] {
            if let Some(date) = date {
                let micros = fields::read_time(date)?.as_micros();
                all.push(Filter::Holds(Field::CreatedAt, Test::Compare(order, micros.into())));
            }
        }
        let filter = Filter::All(all);
        Cost::of_conditions(filter.conditions()).map_err(Problem::bad_request)?;
        Ok(filter)
    }
}

impl Filter {
    pub(super) fn read(value: &Value) -> Result<Self, Problem> {
        Cost::of([value]).map_err(refused)?;
        read(value, MAX_DEPTH)
    }

    /// Conditions on the values of the metadata, which must all hold.
    pub(super) fn metadata(values: &Map<String, Value>) -> Result<Self, Problem> {
        let conditions = values.iter().map(|(key, value)| conditions(&Field::Metadata(key.clone()), value));
        Ok(Filter::All(conditions.collect::<Result<_, _>>()?))
    }
}

fn read(value: &Value, depth: usize) -> Result<Filter, Problem> {
    let Value::Object(fields) = value else {
        return Err(refused(format!("{value} is no filter; write {{\"AND\": [{{\"user_id\": \"ada\"}}]}}")));
    };
    let depth = depth.checked_sub(1).ok_or_else(|| refused(format!("they are nested more than {MAX_DEPTH} deep")))?;
    let list = |name: &str, value: &Value| match value {
        Value::Array(filters) => filters.iter().map(|filter| read(filter, depth)).collect::<Result<Vec<_>, _>>(),
        Value::Object(_) if name == "NOT" => Ok(vec![read(value, depth)?]),
        _ => Err(refused(format!("{name} takes a list of filters"))),
    };
    let filters = fields.iter().map(|(name, value)| match name.as_str() {
        "AND" => Ok(Filter::All(list(name, value)?)),
        "OR" => Ok(Filter::Any(list(name, value)?)),
        "NOT" => Ok(Filter::Not(Box::new(Filter::Any(list(name, value)?)))),
        "metadata" => match value {
            Value::Object(values) => Filter::metadata(values),
            _ => Err(refused("metadata takes an object of keys and their values".to_owned())),
        },
        "created_at" | "timestamp" => conditions(&Field::CreatedAt, value),
        "updated_at" => conditions(&Field::UpdatedAt, value),
        "categories" => conditions(&Field::Categories, value),
        "keywords" => conditions(&Field::Text, value),
        "memory_ids" => conditions(&Field::Id, value),
        _ => match entity::KINDS.iter().find(|(kind, _)| id_name(kind) == *name) {
            Some((kind, _)) => conditions(&Field::Entity(kind), value),
            None => Err(refused(format!(
                "{name:?} is unknown; there are AND, OR, NOT, user_id, agent_id, app_id, run_id, created_at, updated_at, \
                 timestamp, categories, keywords, memory_ids, and metadata for keys of yours"
            ))),
        },
    });
    let mut filters = filters.collect::<Result<Vec<_>, _>>()?;
    Ok(if filters.len() == 1 { filters.remove(0) } else { Filter::All(filters) })
}

/// Reads the conditions on a field: a value, a list of values, or operators with values.
fn conditions(field: &Field, value: &Value) -> Result<Filter, Problem> {
    let operators = match value {
        Value::Object(operators) if operators.keys().all(|name| OPERATORS.contains(&name.as_str())) => operators,
        Value::Object(operators) if !matches!(field, Field::Metadata(_)) => {
            let unknown = operators.keys().find(|name| !OPERATORS.contains(&name.as_str()));
            let known = OPERATORS.join(", ");
            return Err(refused(format!("{:?} is no operator; there are {known}", unknown.map_or("", String::as_str))));
        }
        Value::String(all) if all == "*" => return holds(field, Test::Present),
        Value::Array(values) if !matches!(field, Field::Metadata(_)) => return holds(field, Test::In(values.clone())),
        value => return holds(field, Test::In(vec![value.clone()])),
    };
    let all = operators.iter().map(|(name, value)| {
        let compare = |order| holds(field, Test::Compare(order, value.clone()));
        match (name.as_str(), value) {
            ("eq", Value::String(all)) if all == "*" => holds(field, Test::Present),
            ("eq", _) => holds(field, Test::In(vec![value.clone()])),
            ("ne", _) => Ok(Filter::Not(Box::new(holds(field, Test::In(vec![value.clone()]))?))),
            ("in", Value::Array(values)) => holds(field, Test::In(values.clone())),
            ("in", _) => Err(refused("`in` takes a list".to_owned())),
            ("gt", _) => compare(Order::Gt),
            ("gte", _) => compare(Order::Gte),
            ("lt", _) => compare(Order::Lt),
            ("lte", _) => compare(Order::Lte),
            ("contains", _) => holds(field, Test::Contains(value.clone())),
            (_, Value::String(part)) => holds(field, Test::ContainsInAnyCase(part.to_lowercase())),
            _ => Err(refused("`icontains` takes a string".to_owned())),
        }
    });
    let mut all = all.collect::<Result<Vec<_>, _>>()?;
    match all.len() {
        0 => Err(refused("an empty object is no condition".to_owned())),
        1 => Ok(all.remove(0)),
        _ => Ok(Filter::All(all)),
    }
}

/// Makes a condition, and refuses a test that the field does not take.
fn holds(field: &Field, test: Test) -> Result<Filter, Problem> {
    // Memories without an id of this kind are in other namespaces than those with one, so null cannot be one of several
    // ids.
    let are_ids = |ids: &[Value]| ids.iter().all(Value::is_string) || matches!(ids, [Value::Null]);
    let test = match (field, test) {
        (Field::Entity(_), Test::In(ids)) if are_ids(&ids) => Test::In(ids),
        (Field::Entity(_), Test::Present) => Test::Present,
        (Field::Entity(kind), _) => {
            return Err(refused(format!(
                "{} takes a string, \"*\", or `eq`, `ne` and `in` with strings",
                id_name(kind)
            )));
        }
        (Field::CreatedAt | Field::UpdatedAt, Test::In(times)) => Test::In(
            times.iter().map(|time| Ok(fields::read_time(time)?.as_micros().into())).collect::<Result<_, Problem>>()?,
        ),
        (Field::CreatedAt | Field::UpdatedAt, Test::Compare(order, time)) => {
            Test::Compare(order, fields::read_time(&time)?.as_micros().into())
        }
        (Field::CreatedAt | Field::UpdatedAt, Test::Present) => Test::Present,
        (Field::CreatedAt | Field::UpdatedAt, _) => {
            return Err(refused("a time takes gt, gte, lt, lte, eq and ne".to_owned()));
        }
        (Field::Id, Test::In(ids)) => Test::In(ids),
        (Field::Id, _) => return Err(refused("memory_ids takes a list of ids".to_owned())),
        (Field::Text, test @ (Test::Contains(Value::String(_)) | Test::ContainsInAnyCase(_))) => test,
        (Field::Text, _) => return Err(refused("keywords takes `contains` or `icontains` with a string".to_owned())),
        (Field::Categories, Test::Compare(..)) => {
            return Err(refused("categories takes a string, eq, ne, in, contains and icontains".to_owned()));
        }
        (_, Test::Compare(order, value)) if value.is_number() || value.is_string() => Test::Compare(order, value),
        (_, Test::Compare(..)) => return Err(refused("gt, gte, lt and lte take a number or a string".to_owned())),
        (_, test) => test,
    };
    Ok(Filter::Holds(field.clone(), test))
}

fn refused(reason: String) -> Problem {
    Problem::bad_request(format!("filters: {reason}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_not_known_is_refused() {
        for given in [
            json!([]),
            json!("user_id"),
            json!({ "users": "a" }),
            json!({ "user_id": 1 }),
            json!({ "user_id": { "gt": "a" } }),
            json!({ "user_id": { "nin": ["a"] } }),
            json!({ "user_id": { "contains": "a" } }),
            json!({ "user_id": {} }),
            json!({ "user_id": ["a", null] }),
            json!({ "AND": { "user_id": "a" } }),
            json!({ "created_at": { "gte": "soon" } }),
            json!({ "created_at": { "contains": "2024" } }),
            json!({ "metadata": "x" }),
            json!({ "metadata": { "n": { "gt": [1] } } }),
            json!({ "keywords": "x" }),
            json!({ "keywords": { "contains": 1 } }),
            json!({ "memory_ids": { "contains": "x" } }),
            json!({ "categories": { "gt": "x" } }),
            json!({ "metadata": { "s": { "in": "x" } } }),
            json!({ "metadata": { "s": { "icontains": 1 } } }),
        ] {
            assert!(Filter::read(&given).is_err(), "{given}");
        }
        let deep = (0..40).fold(json!({ "user_id": "a" }), |inner, _| json!({ "AND": [inner] }));
        assert!(Filter::read(&deep).is_err());
    }
}
