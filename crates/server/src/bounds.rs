//! Bounds on what one request may ask for: the conditions of its filter, and the items and bytes of a page.
//!
//! A filter is checked before anything is made of it, because its cost grows with its conditions for each message that it
//! is evaluated on. Lists that the library does not divide into pages are divided here: a cursor is the key after which a
//! page begins.

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use mnemon::{Message, MetadataFilter};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, de, de::DeserializeOwned};
use serde_json::{Value, json};

use crate::problem::Problem;

const MAX_CONDITIONS: usize = 1000;
const MAX_VALUES: usize = 10_000;
const MAX_BYTES: usize = 1 << 20;
/// Conditions and values of a filter whose evaluation takes no longer than a recall.
const MAX_LIGHT: usize = 200;
/// Items on a page, unless the request says otherwise.
const LIMIT: usize = 100;
pub(crate) const MAX_LIMIT: usize = 1000;
/// Bytes of messages on a page, because a page of the longest messages would be a gigabyte. A single larger message has its
/// own page.
pub(crate) const MAX_PAGE_BYTES: usize = 4 << 20;

/// A filter that is within the bounds.
#[derive(Clone)]
pub(crate) struct BoundedFilter {
    pub(crate) filter: MetadataFilter,
    cost: Cost,
}

impl BoundedFilter {
    /// Divides the filter of a request, if it has one, into that of the library and its cost.
    pub(crate) fn divide(given: Option<Self>) -> (Option<MetadataFilter>, Cost) {
        given.map_or_else(Default::default, |given| (Some(given.filter), given.cost))
    }
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
pub(crate) struct Cost {
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
    /// The filters are over a bound. The text names it.
    pub(crate) fn of<'a>(filters: impl IntoIterator<Item = &'a Value>) -> Result<Self, String> {
        let mut cost = Cost::default();
        filters.into_iter().for_each(|filter| cost.add(filter));
        cost.within_bounds()
    }

    /// Returns the cost of a filter with so many conditions that is no longer JSON.
    ///
    /// # Errors
    /// The filter is over the bound of values.
    pub(crate) fn of_conditions(conditions: usize) -> Result<Self, String> {
        Cost { values: conditions, ..Cost::default() }.within_bounds()
    }

    /// Returns the cost of two filters of one request.
    ///
    /// # Errors
    /// They are over a bound together. The text names it.
    pub(crate) fn with(self, other: Cost) -> Result<Self, String> {
        let Cost { conditions, values, bytes } = other;
        let (conditions, values) = (self.conditions + conditions, self.values + values);
        Cost { conditions, values, bytes: self.bytes + bytes }.within_bounds()
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
    pub(crate) fn is_heavy(&self) -> bool {
        self.conditions + self.values > MAX_LIGHT
    }

    // The recursion ends: `serde_json` reads nothing that is nested more than 128 deep.
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

/// The query of a request for a page of a list.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PageQuery {
    /// Items on a page, 1 to 1000. Default: 100.
    #[schemars(range(min = 1, max = MAX_LIMIT))]
    pub(crate) limit: Option<usize>,
    /// The `next` of the last page. It stays good if items are deleted meanwhile, that of the cursor too.
    #[schemars(extend("format" = "cursor"))]
    pub(crate) cursor: Option<String>,
}

/// Returns the number of items on a page.
pub(crate) fn page_limit(requested: Option<usize>) -> Result<usize, Problem> {
    match requested.unwrap_or(LIMIT) {
        limit @ 1..=MAX_LIMIT => Ok(limit),
        limit => Err(Problem::bad_request(format!("{limit} items on a page; give 1 to {MAX_LIMIT}"))),
    }
}

/// Takes the page after a key out of a list that is sorted by the keys of its items. Also returns the cursor of the next
/// page, if there is one. The item of a cursor may be deleted meanwhile: the next page begins where it would be.
pub(crate) fn page<T, K: Ord + Serialize>(
    items: Vec<T>,
    after: Option<&K>,
    limit: Option<usize>,
    key: impl Fn(&T) -> K,
) -> Result<(Vec<T>, Option<String>), Problem> {
    let limit = page_limit(limit)?;
    let skipped = after.map_or(0, |after| items.partition_point(|item| key(item) <= *after));
    let mut items: Vec<T> = items.into_iter().skip(skipped).take(limit + 1).collect();
    let more = items.len() > limit;
    items.truncate(limit);
    let next = items.last().filter(|_| more).map(|last| encode_cursor(&key(last)));
    Ok((items, next))
}

/// Returns the bytes of a message on a page: those of its metadata and of calls of tools, too.
pub(crate) fn message_bytes(message: &Message) -> usize {
    serde_json::to_string(message).map_or(0, |json| json.len())
}

/// Returns the cursor after the item with this key.
pub(crate) fn encode_cursor(key: &impl Serialize) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(json!(key).to_string())
}

/// Returns the key after which a page begins, if a cursor was given.
pub(crate) fn decode_cursor<K: DeserializeOwned>(cursor: Option<&str>) -> Result<Option<K>, Problem> {
    let decode = |cursor: &str| serde_json::from_slice(&BASE64_URL_SAFE_NO_PAD.decode(cursor).ok()?).ok();
    cursor.map(|cursor| decode(cursor).ok_or_else(foreign_cursor)).transpose()
}

/// The problem of a cursor that this list did not give.
pub(crate) fn foreign_cursor() -> Problem {
    Problem::bad_request("this is no cursor of this list; give the `next` of its last page")
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
