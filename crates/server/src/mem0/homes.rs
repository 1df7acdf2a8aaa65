//! Users, agents, apps and runs: the namespaces of those that a filter is about, the list of all, and the deletion of one.
//!
//! A memory is at home in one namespace: that of its user, or else of its agent, app or run. A filter is brought into the
//! form of alternatives, each a conjunction. The home of an alternative is that of the first of these kinds that it names
//! an id of, or all ids with `*`. Its other conditions are evaluated on the memories there.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::ControlFlow,
    sync::Arc,
};

use axum::{
    Extension, Json,
    extract::{Path, Query, State},
    response::Response,
};
use mnemon::Namespace;
use serde_json::{Value, json};

use super::{
    facts::Facts,
    fields::PageQuery,
    filter::{Field, Filter, Test},
};
use crate::{
    access::{Caller, CallerExtension, Right},
    app::App,
    entity,
    problem::Problem,
};

/// Alternatives of a filter. They multiply where AND joins filters with several each.
const MAX_ALTERNATIVES: usize = 100;
/// Namespaces that one request reads.
const MAX_NAMESPACES: usize = 1000;
/// Conditions of the filters of all namespaces together.
const MAX_CONDITIONS: usize = 10_000;
/// Namespaces that are read at a time.
const BATCH: usize = 1000;
/// Entities on a page, by default too: the client reads one page, and takes it for all.
const MAX_PAGE_SIZE: usize = 10_000;

/// Namespaces, and the filter on the memories in each of them.
#[derive(Debug, PartialEq)]
pub(super) struct Homes {
    pub(super) namespaces: Vec<Namespace>,
    pub(super) filter: Filter,
}

/// A part of an alternative: a filter, or its negation.
#[derive(Clone, Copy, Debug)]
struct Part<'a> {
    filter: &'a Filter,
    is_negated: bool,
}

/// Returns the namespaces that a filter is about. Those with the same rest of the filter are together.
pub(super) async fn find(app: &App, caller: &Caller, filter: &Filter) -> Result<Vec<Homes>, Problem> {
    // The other conditions of alternatives. Alternatives that differ only in their homes share them.
    let mut rests: Vec<Vec<Part>> = Vec::new();
    let mut found: BTreeMap<Namespace, BTreeSet<usize>> = BTreeMap::new();
    for alternative in alternatives(filter, false)? {
        let named = entity::KINDS.into_iter().find(|(kind, _)| alternative.iter().any(|part| part.names(kind)));
        let Some((kind, _)) = named else {
            return Err(Problem::bad_request(format!(
                "each alternative of the filters must name {}, or all with \"*\"",
                entity::id_names()
            )));
        };
        let (own, rest): (Vec<Part>, Vec<Part>) = alternative.into_iter().partition(|part| is_on(part.filter, kind));
        let mut ids = match own.iter().find_map(Part::listed) {
            Some(ids) => ids,
            None => {
                let mut ids = Vec::new();
                let take = |entity: Entity| {
                    ids.push(entity.id);
                    if ids.len() > MAX_NAMESPACES { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
                };
                of_kind(app, caller, kind, take).await?;
                ids
            }
        };
        if ids.len() > MAX_NAMESPACES {
            return Err(too_many());
        }
        ids.retain(|id| own.iter().all(|part| part.filter.holds_for(id) != part.is_negated));
        let at = rests.iter().position(|known| is_same(known, &rest)).unwrap_or_else(|| {
            rests.push(rest);
            rests.len() - 1
        });
        for id in ids {
            found.entry(entity::namespace(caller, kind, &id)?).or_default().insert(at);
        }
        if found.len() > MAX_NAMESPACES {
            return Err(too_many());
        }
    }
    let mut homes: BTreeMap<BTreeSet<usize>, Vec<Namespace>> = BTreeMap::new();
    for (namespace, rests) in found {
        homes.entry(rests).or_default().push(namespace);
    }
    let parts = homes.keys().flatten().flat_map(|at| &rests[*at]);
    if parts.map(|part| part.filter.conditions()).sum::<usize>() > MAX_CONDITIONS {
        return Err(Problem::bad_request(format!(
            "the filters have more than {MAX_CONDITIONS} conditions for all the namespaces that they are about; ask for fewer \
             alternatives at a time"
        )));
    }
    let homes = homes.into_iter().map(|(ats, namespaces)| {
        let alternatives = ats.iter().map(|at| Filter::All(rests[*at].iter().map(|part| part.to_filter()).collect()));
        Homes { namespaces, filter: either(alternatives.collect()) }
    });
    Ok(homes.collect())
}

fn too_many() -> Problem {
    Problem::bad_request(format!(
        "the filters are about more than {MAX_NAMESPACES} namespaces; name the users or agents"
    ))
}

/// Brings a filter, or its negation, into the form of alternatives. Parts that name no entity stay whole.
fn alternatives(filter: &Filter, is_negated: bool) -> Result<Vec<Vec<Part<'_>>>, Problem> {
    let inner = match filter {
        Filter::Not(inner) if filter.names_entity() => return alternatives(inner, !is_negated),
        Filter::All(inner) | Filter::Any(inner) if filter.names_entity() => inner,
        _ => return Ok(vec![vec![Part { filter, is_negated }]]),
    };
    let mut joined = Vec::new();
    let is_all = matches!(filter, Filter::All(_)) != is_negated;
    if is_all {
        joined.push(Vec::new());
    }
    for filter in inner {
        let more = alternatives(filter, is_negated)?;
        match (is_all, more.as_slice()) {
            (true, [only]) => joined.iter_mut().for_each(|left| left.extend(only)),
            (true, more) => {
                let pairs =
                    joined.iter().flat_map(|left| more.iter().map(move |right| [left.as_slice(), right].concat()));
                joined = pairs.take(MAX_ALTERNATIVES + 1).collect();
            }
            (false, _) => joined.extend(more),
        }
        if joined.len() > MAX_ALTERNATIVES {
            return Err(Problem::bad_request(format!("the filters have more than {MAX_ALTERNATIVES} alternatives")));
        }
    }
    Ok(joined)
}

/// Joins the filters of alternatives with the same home.
fn either(mut filters: Vec<Filter>) -> Filter {
    match filters.iter().any(|filter| matches!(filter, Filter::All(all) if all.is_empty())) {
        true => Filter::All(Vec::new()),
        false if filters.len() == 1 => filters.remove(0),
        false => Filter::Any(filters),
    }
}

/// Returns true if two conjunctions are of the same parts of one filter.
fn is_same(a: &[Part], b: &[Part]) -> bool {
    let is_same = |(a, b): (&Part, &Part)| std::ptr::eq(a.filter, b.filter) && a.is_negated == b.is_negated;
    a.len() == b.len() && a.iter().zip(b).all(is_same)
}

/// Returns true for a condition on the id of this kind, or its negation.
fn is_on(filter: &Filter, kind: &str) -> bool {
    match filter {
        Filter::Holds(Field::Entity(on), _) => *on == kind,
        Filter::Not(inner) => is_on(inner, kind),
        _ => false,
    }
}

impl Part<'_> {
    /// Returns true for a condition that says which ids of this kind it is about, be it all.
    fn names(&self, kind: &str) -> bool {
        let is_present = matches!(self.filter, Filter::Holds(_, Test::Present)) && !self.is_negated;
        is_on(self.filter, kind) && (is_present || self.listed().is_some_and(|ids| !ids.is_empty()))
    }

    fn listed(&self) -> Option<Vec<String>> {
        match self.filter {
            Filter::Holds(Field::Entity(_), Test::In(ids)) if !self.is_negated => {
                Some(ids.iter().filter_map(Value::as_str).map(str::to_owned).collect())
            }
            _ => None,
        }
    }

    fn to_filter(self) -> Filter {
        match self.is_negated {
            true => Filter::Not(Box::new(self.filter.clone())),
            false => self.filter.clone(),
        }
    }
}

/// A user, agent, app or run that has memories.
struct Entity {
    id: String,
    home: Namespace,
    /// Facts are not counted.
    messages: u64,
}

/// Calls `take` with each entity of a kind that has memories, in the order of the names of their namespaces, until it breaks. Keeps none.
async fn of_kind(
    app: &App,
    caller: &Caller,
    kind: &str,
    mut take: impl FnMut(Entity) -> ControlFlow<()>,
) -> Result<(), Problem> {
    let folder = entity::folder(caller, kind)?;
    // Homes with messages, below which the next namespaces may be: the facts of one may come after another one.
    let (mut above, mut after) = (Vec::<Namespace>::new(), None);
    loop {
        let page = app.engine.namespaces(Some(&folder), after.as_ref(), BATCH).await?;
        for info in page.namespaces {
            above.retain(|home| info.namespace.as_str().starts_with(home.as_str()));
            let facts = Facts::at(app, &app.engine, caller, &info.namespace).filter(|_| info.documents > 0);
            let home = facts.as_ref().map_or(&info.namespace, Facts::home).clone();
            let Some((_, id)) = entity::from_namespace(caller, &home) else { continue };
            let is_new = if facts.is_some() { !above.contains(&home) } else { info.messages > 0 };
            if !is_new {
                continue;
            }
            above.push(home.clone());
            let messages = if facts.is_some() { 0 } else { info.messages };
            if take(Entity { id, home, messages }).is_break() {
                return Ok(());
            }
        }
        after = page.next;
        if after.is_none() {
            return Ok(());
        }
    }
}

/// Deletes a home with its facts and files. Returns true if there was anything.
pub(super) async fn delete_home(app: &App, home: &Namespace) -> Result<bool, Problem> {
    let page = app.engine.namespaces(Some(home), None, 1).await?;
    let exists = page.namespaces.first().is_some_and(|info| info.namespace == *home);
    let (_, documents) = app.delete_home(home).await?;
    Ok(exists || documents > 0)
}

pub(super) async fn list(
    State(app): State<Arc<App>>,
    Extension(caller): CallerExtension,
    Query(query): Query<PageQuery>,
) -> Result<Response, Problem> {
    caller.require(Right::Read)?;
    let page = query.page(MAX_PAGE_SIZE, MAX_PAGE_SIZE)?;
    let (mut count, mut listed) = (0, Vec::new());
    for (kind, _) in entity::KINDS {
        let take = |entity: Entity| {
            if page.has(count) {
                listed.push((kind, entity));
            }
            count += 1;
            ControlFlow::Continue(())
        };
        of_kind(&app, &caller, kind, take).await?;
    }
    let mut results = Vec::new();
    for (kind, Entity { id, home, messages: mut memories }) in listed {
        if let Some(facts) = Facts::of(&app, &app.engine, &home) {
            memories += facts.matching(&caller, &Filter::All(Vec::new()), drop).await?.len() as u64;
        }
        results.push(json!({
            "id": id, "name": id, "type": kind, "total_memories": memories,
            "created_at": null, "updated_at": null, "owner": null, "organization": "mnemon", "metadata": null,
        }));
    }
    app.json(app.reader(), page.answer("/v1/entities/", count, results)).await
}

pub(super) async fn delete(
    State(app): State<Arc<App>>,
    Extension(caller): CallerExtension,
    Path((kind, id)): Path<(String, String)>,
) -> Result<Json<Value>, Problem> {
    caller.require(Right::Forget)?;
    let namespace = entity::namespace(&caller, &kind, &id)?;
    match delete_home(&app, &namespace).await? {
        true => Ok(Json(json!({ "message": "Entity deleted successfully!" }))),
        false => Err(Problem::not_found(format!("there is no {kind} with this id"))),
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
            let filter = Filter::read(&given).unwrap();
            let found = alternatives(&filter, false).unwrap();
            assert_eq!(found.len(), expected, "{given}: {found:?}");
        }
        let pair = json!({ "OR": [{ "user_id": "a" }, { "user_id": "b" }] });
        let many = json!({ "AND": vec![pair; 40] });
        assert!(alternatives(&Filter::read(&many).unwrap(), false).is_err());
    }
}
