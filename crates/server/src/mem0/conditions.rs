//! The conditions in the body of a search and of a list.

use serde::Deserialize;
use serde_json::{Map, Value};

use super::{
    super::{bounds::Cost, entity::mark, problem::Problem},
    add,
    filter::{Field, Filter, Order, Test},
    time,
};

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
    /// The ids belong into `filters`.
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
            return Err(Problem::bad_request(format!("give {} in `filters`, not beside it", mark(kind))));
        }
        let filters = self.filters.as_ref();
        let filters = filters.ok_or_else(|| Problem::bad_request(format!("give `filters` with {}", add::names())))?;
        let mut all = vec![Filter::read(filters)?];
        if let Some(categories) = &self.categories {
            all.push(Filter::Holds(Field::Categories, Test::In(categories.clone())));
        }
        if let Some(metadata) = &self.metadata {
            all.push(Filter::metadata(metadata)?);
        }
        for (date, order) in [(&self.start_date, Order::Gte), (&self.end_date, Order::Lte)] {
            if let Some(date) = date {
                let micros = time::read(date)?.as_micros();
                all.push(Filter::Holds(Field::CreatedAt, Test::Compare(order, micros.into())));
            }
        }
        let filter = Filter::All(all);
        Cost::of_conditions(filter.conditions()).map_err(Problem::bad_request)?;
        Ok(filter)
    }
}
