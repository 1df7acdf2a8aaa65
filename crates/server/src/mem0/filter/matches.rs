//! Evaluating a filter on a memory.

use std::cmp::Ordering;

use serde_json::Value;

use super::{super::memory::Memory, Field, Filter, Order, Test};

impl Filter {
    pub(in super::super) fn matches(&self, memory: &Memory) -> bool {
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

    /// Evaluates conditions on the id of an entity for this id.
    pub(in super::super) fn holds_for(&self, id: &str) -> bool {
        match self {
            Filter::All(inner) => inner.iter().all(|filter| filter.holds_for(id)),
            Filter::Any(inner) => inner.iter().any(|filter| filter.holds_for(id)),
            Filter::Not(inner) => !inner.holds_for(id),
            Filter::Holds(_, test) => test.holds(&id.into()),
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
