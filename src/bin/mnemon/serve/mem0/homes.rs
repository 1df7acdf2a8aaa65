//! The namespaces that a filter is about.
//!
//! A memory is at home in one namespace: that of its user, or else of its agent, app or run. A filter is brought into the
//! form of alternatives, each a conjunction. The home of an alternative is of the first of these kinds that it names an id
//! of, or all ids with `*`. Its other conditions are evaluated on the memories there.

use std::collections::BTreeMap;

use mnemon::Namespace;
use serde_json::Value;

use super::{
    super::{app::App, caller::Caller, entity, problem::Problem},
    add, entities,
    filter::{Field, Filter, Test},
};

/// Alternatives of a filter: they multiply where several are joined by AND.
const MAX_ALTERNATIVES: usize = 100;
/// Namespaces that one request reads.
const MAX_NAMESPACES: usize = 1000;

/// Namespaces, and the filter on the memories in each of them.
#[derive(Debug, PartialEq)]
pub(super) struct Homes {
    pub(super) namespaces: Vec<Namespace>,
    pub(super) filter: Filter,
}

pub(super) async fn of(app: &App, caller: &Caller, filter: &Filter) -> Result<Vec<Homes>, Problem> {
    let mut filters: BTreeMap<Namespace, Vec<Filter>> = BTreeMap::new();
    for alternative in alternatives(filter, false)? {
        let named = entity::KINDS.into_iter().find(|(kind, _)| alternative.iter().any(|filter| names(filter, kind)));
        let Some((kind, _)) = named else {
            return Err(Problem::bad_request(format!(
                "each alternative of the filters must name {}, or all with \"*\"",
                add::names()
            )));
        };
        let (own, rest): (Vec<Filter>, Vec<Filter>) = alternative.into_iter().partition(|filter| is_on(filter, kind));
        let mut ids = match own.iter().find_map(listed) {
            Some(ids) => ids,
            None => {
                let found = entities::of_kind(app, caller, kind, MAX_NAMESPACES).await?;
                if found.len() > MAX_NAMESPACES {
                    return Err(too_many());
                }
                found.into_iter().map(|found| found.id).collect()
            }
        };
        ids.retain(|id| own.iter().all(|filter| filter.holds_for(id)));
        for id in ids {
            filters.entry(entity::of(caller, kind, &id)?).or_default().push(Filter::All(rest.clone()));
        }
    }
    if filters.len() > MAX_NAMESPACES {
        return Err(too_many());
    }
    let mut all: Vec<Homes> = Vec::new();
    for (namespace, filters) in filters {
        let filter = either(filters);
        match all.iter_mut().find(|homes| homes.filter == filter) {
            Some(homes) => homes.namespaces.push(namespace),
            None => all.push(Homes { namespaces: vec![namespace], filter }),
        }
    }
    Ok(all)
}

fn too_many() -> Problem {
    Problem::bad_request(format!(
        "the filters are about more than {MAX_NAMESPACES} namespaces; name the users or agents"
    ))
}

/// Brings a filter, or its negation, into the form of alternatives. Parts that name no entity stay whole.
fn alternatives(filter: &Filter, is_negated: bool) -> Result<Vec<Vec<Filter>>, Problem> {
    let inner = match filter {
        Filter::Not(inner) if filter.names_entity() => return alternatives(inner, !is_negated),
        Filter::All(inner) | Filter::Any(inner) if filter.names_entity() => inner,
        _ if is_negated => return Ok(vec![vec![Filter::Not(Box::new(filter.clone()))]]),
        _ => return Ok(vec![vec![filter.clone()]]),
    };
    let mut joined = Vec::new();
    let is_all = matches!(filter, Filter::All(_)) != is_negated;
    if is_all {
        joined.push(Vec::new());
    }
    for filter in inner {
        let more = alternatives(filter, is_negated)?;
        match is_all {
            true => {
                let pairs =
                    joined.iter().flat_map(|left| more.iter().map(move |right| [left.as_slice(), right].concat()));
                joined = pairs.take(MAX_ALTERNATIVES + 1).collect();
            }
            false => joined.extend(more),
        }
        if joined.len() > MAX_ALTERNATIVES {
            return Err(Problem::bad_request(format!("the filters have more than {MAX_ALTERNATIVES} alternatives")));
        }
    }
    Ok(joined)
}

/// Joins the filters of alternatives with the same home.
fn either(mut filters: Vec<Filter>) -> Filter {
    filters.dedup();
    match filters.iter().any(|filter| matches!(filter, Filter::All(all) if all.is_empty())) {
        true => Filter::All(Vec::new()),
        false if filters.len() == 1 => filters.remove(0),
        false => Filter::Any(filters),
    }
}

/// Returns true for a condition on the id of this kind, or its negation.
fn is_on(filter: &Filter, kind: &str) -> bool {
    match filter {
        Filter::Holds(Field::Entity(on), _) => *on == kind,
        Filter::Not(inner) => is_on(inner, kind),
        _ => false,
    }
}

/// Returns true if a condition says which ids of this kind it is about.
fn names(filter: &Filter, kind: &str) -> bool {
    let is_present = matches!(filter, Filter::Holds(_, Test::Present));
    is_on(filter, kind) && (is_present || listed(filter).is_some_and(|ids| !ids.is_empty()))
}

fn listed(filter: &Filter) -> Option<Vec<String>> {
    match filter {
        Filter::Holds(Field::Entity(_), Test::In(ids)) => {
            Some(ids.iter().filter_map(Value::as_str).map(str::to_owned).collect())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn filters_become_alternatives() {
        for (given, expected) in [
            (json!({ "user_id": "a" }), 1),
            (json!({ "AND": [{ "user_id": "a" }, { "categories": "x" }] }), 1),
            (json!({ "OR": [{ "user_id": "a" }, { "agent_id": "b" }] }), 2),
            (
                json!({ "AND": [{ "OR": [{ "user_id": "a" }, { "user_id": "b" }] }, { "OR": [{ "app_id": "c" }, { "run_id": "d" }] }] }),
                4,
            ),
            (
                json!({ "AND": [{ "user_id": "a" }, { "OR": [{ "keywords": { "contains": "x" } }, { "categories": "y" }] }] }),
                1,
            ),
            (json!({ "NOT": [{ "user_id": "a" }, { "agent_id": "b" }] }), 1),
            (json!({ "NOT": { "AND": [{ "user_id": "a" }, { "agent_id": "b" }] } }), 2),
        ] {
            let found = alternatives(&Filter::read(&given).unwrap(), false).unwrap();
            assert_eq!(found.len(), expected, "{given}: {found:?}");
        }
        let pair = json!({ "OR": [{ "user_id": "a" }, { "user_id": "b" }] });
        let many = json!({ "AND": vec![pair; 40] });
        assert!(alternatives(&Filter::read(&many).unwrap(), false).is_err());
    }
}
