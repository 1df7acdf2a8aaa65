//! The bounds of filters. They are checked before anything is made of a filter, because its cost grows with its conditions
//! for each message that it is evaluated on.

use mnemon::MetadataFilter;
use serde::{Deserialize, Deserializer, de};
use serde_json::Value;

const MAX_CONDITIONS: usize = 1000;
const MAX_VALUES: usize = 10_000;
const MAX_BYTES: usize = 1 << 20;
/// Conditions and values of a filter that is evaluated as quickly as a recall.
const MAX_LIGHT: usize = 200;

/// A filter of the library, within the bounds.
#[derive(Clone)]
pub(super) struct BoundedFilter {
    pub(super) filter: MetadataFilter,
    pub(super) cost: Cost,
}

impl<'de> Deserialize<'de> for BoundedFilter {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        let cost = Cost::of([&value]).map_err(de::Error::custom)?;
        let filter = MetadataFilter::try_from(&value).map_err(de::Error::custom)?;
        Ok(BoundedFilter { filter, cost })
    }
}

/// The number of conditions, of values and of bytes in a filter in JSON.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Cost {
    /// Keys of objects: paths, operators, and the keys of values that are compared with.
    conditions: usize,
    /// Elements of lists: filters that are joined, and values.
    values: usize,
    /// Bytes of texts.
    bytes: usize,
}

impl Cost {
    /// Returns the cost of filters that all must match.
    ///
    /// # Errors
    /// They are over a bound, which the text names.
    pub(super) fn of<'a>(filters: impl IntoIterator<Item = &'a Value>) -> Result<Self, String> {
        let mut cost = Cost::default();
        filters.into_iter().for_each(|filter| cost.add(filter));
        cost.within_bounds()
    }

    /// Returns the cost of a filter that was read.
    ///
    /// # Errors
    /// It is over the bound of values, as [`Cost::of`] says.
    pub(super) fn of_conditions(conditions: usize) -> Result<Self, String> {
        Cost { values: conditions, ..Cost::default() }.within_bounds()
    }

    fn within_bounds(self) -> Result<Self, String> {
        let cost = self;
        for (number, most, name) in [
            (cost.conditions, MAX_CONDITIONS, "conditions"),
            (cost.values, MAX_VALUES, "values in its lists"),
            (cost.bytes, MAX_BYTES, "bytes"),
        ] {
            if number > most {
                return Err(format!(
                    "the filter has {number} {name}, and {most} is the most; divide it over several requests"
                ));
            }
        }
        Ok(cost)
    }

    /// Returns true for a filter that may take longer than a recall without one.
    pub(super) fn is_heavy(&self) -> bool {
        self.conditions + self.values > MAX_LIGHT
    }

    /// Calls itself for what is nested: `serde_json` reads nothing deeper than 128.
    fn add(&mut self, value: &Value) {
        match value {
            Value::Object(fields) => {
                self.conditions += fields.len();
                for (name, value) in fields {
                    self.bytes += name.len();
                    self.add(value);
                }
            }
            Value::Array(values) => {
                self.values += values.len();
                values.iter().for_each(|value| self.add(value));
            }
            Value::String(text) => self.bytes += text.len(),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn filters_over_a_bound_are_refused() {
        let many = |number: usize, value: Value| json!({ "$and": vec![value; number] });
        for (filter, refused) in [
            (json!({}), None),
            (many(999, json!({ "a": 1 })), None),
            (many(1000, json!({ "a": 1 })), Some("1001 conditions")),
            (json!({ "a": { "$in": vec![1; 10_000] } }), None),
            (json!({ "a": { "$in": vec![1; 10_001] } }), Some("10001 values")),
            (json!({ "a": "x".repeat(1 << 20) }), Some("1048577 bytes")),
        ] {
            let read = serde_json::from_value::<BoundedFilter>(filter).map(|_| ()).map_err(|error| error.to_string());
            match refused {
                None => assert_eq!(read, Ok(())),
                Some(part) => assert!(read.as_ref().is_err_and(|error| error.contains(part)), "{read:?}"),
            }
        }
    }
}
