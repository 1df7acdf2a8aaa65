//! Translating a filter into one that the index of metadata evaluates.

use mnemon::DEFAULT_SESSION;
use serde_json::{Value, json};

use super::{
    super::{
        super::entity::mark,
        id,
        memory::{CATEGORIES, UPDATED_AT},
    },
    Field, Filter, Order, Test,
};

impl Filter {
    /// Returns the filter in the form of [`mnemon::MetadataFilter`]. `None`: it has a condition that the index does not know.
    pub(in super::super) fn for_index(&self) -> Option<Value> {
        let list = |filters: &[Filter]| filters.iter().map(Filter::for_index).collect::<Option<Vec<_>>>();
        match self {
            Filter::All(filters) => Some(json!({ "$and": list(filters)? })),
            Filter::Any(filters) => Some(json!({ "$or": list(filters)? })),
            Filter::Not(filter) => Some(json!({ "$not": filter.for_index()? })),
            Filter::Holds(field, test) => holds(field, test),
        }
    }
}

fn holds(field: &Field, test: &Test) -> Option<Value> {
    match (field, test) {
        // The run is the session, which always has a name.
        (Field::Entity("run"), Test::Present) => {
            Some(json!({ "$or": [{ "$session": { "$ne": DEFAULT_SESSION } }, { "run_id": { "$ne": null } }] }))
        }
        (Field::Entity("run"), Test::In(runs)) => {
            let sessions = runs.iter().map(|run| if run.is_null() { DEFAULT_SESSION.into() } else { run.clone() });
            Some(json!({ "$session": { "$in": sessions.collect::<Vec<_>>() } }))
        }
        (Field::Entity(kind), _) => at(&mark(kind), test),
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
            let messages = ids.iter().filter_map(|id| Some(id::read(id.as_str()?)?.1));
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
