//! mem0's filters: `{"AND": [{"user_id": "ada"}, {"created_at": {"gte": "2024-05-01"}}]}`.
//!
//! `read` makes a filter of JSON, `matches` evaluates it on a memory, `index` translates it for the index of metadata.
//! What a filter says about users, agents, apps and runs is the business of `homes`, too.

mod index;
mod matches;
mod read;

use serde_json::Value;

use super::super::{entity::Entity, problem::Problem};

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Filter {
    All(Vec<Filter>),
    Any(Vec<Filter>),
    Not(Box<Filter>),
    Holds(Field, Test),
}

/// What a condition is on.
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

/// A condition on a value. Null stands for one that is missing.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Test {
    Present,
    In(Vec<Value>),
    /// The other value is a number or a string.
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

    /// Returns the ids of a filter that says nothing but ids, one of each kind at most.
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
}
