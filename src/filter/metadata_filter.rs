//! The filter: conditions joined by and, or, not; and its form in JSON.

use std::{fmt, ops::Not, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::{Map, Value, json};

use super::{
    condition::{Condition, MAX_DEPTH, OPERATORS, Operator, is_deeper, kind},
    fields::{FieldPath, Fields, MessageField},
};
use crate::error::{Error, Result};

/// A filter on a JSON object, such as the metadata of a message, and on the message.
///
/// ```
/// use mnemon::MetadataFilter;
/// use serde_json::json;
///
/// let filter = MetadataFilter::eq("user.plan", "pro")?.and(!MetadataFilter::contains("tags", "draft")?);
/// assert!(filter.matches(&json!({"user": {"plan": "pro"}, "tags": ["mail"]})));
///
/// let filter: MetadataFilter = r#"{"user.age": {"$gte": 18, "$lt": 65}, "lang": {"$in": ["de", "fr"]}}"#.parse()?;
/// assert!(filter.matches(&json!({"user": {"age": 40.5}, "lang": "de"})));
/// assert!(!filter.matches(&json!({"user": {"age": "40"}, "lang": "de"})));
/// # Ok::<(), mnemon::Error>(())
/// ```
///
/// # Paths
///
/// A path leads from the object to a value: keys joined by dots (`user.name`), `[0]` for an element of an array, and
/// `["a.b"]` for any key, written as a JSON string. A key without quotes is not empty, does not begin with `$`, and has
/// no dot, bracket, quotation mark or control character. `$.user.name` is the same as `user.name`.
///
/// Where messages are filtered, `$id`, `$session`, `$role` and `$created_at` are the message's own fields. Times are
/// texts as a [`Timestamp`](crate::Timestamp) reads them, or microseconds since 1970. A search of documents refuses
/// these paths.
///
/// # Operators
///
/// | in Rust | in JSON | matches if |
/// | --- | --- | --- |
/// | [`eq`](Self::eq), [`ne`](Self::ne) | `$eq`, `$ne` | the value is, or is not, equal to another |
/// | [`gt`](Self::gt), [`gte`](Self::gte), [`lt`](Self::lt), [`lte`](Self::lte) | `$gt`, `$gte`, `$lt`, `$lte` | the value is a number and ordered so to another number, or a string and ordered so to another string |
/// | [`is_in`](Self::is_in), [`not_in`](Self::not_in) | `$in`, `$nin` | the value is equal to one, or to none, of several |
/// | [`exists`](Self::exists) | `$exists` | the path leads to a value, which may be null (`false`: it does not) |
/// | [`contains`](Self::contains) | `$contains` | the value is an array with an equal element, or a string with this part |
/// | [`and`](Self::and), [`all`](Self::all) | `$and` | all filters match; without any: always |
/// | [`or`](Self::or), [`any`](Self::any) | `$or` | a filter matches; without any: never |
/// | `!` | `$not` | the filter does not match |
///
/// Values are equal if they have the same type and content; numbers if they are the same number, so 1 equals 1.0.
/// Strings are ordered by code points, which orders times in one format and zone. Values of unlike types are unequal
/// and have no order: `ne` matches and `gt`, `gte`, `lt`, `lte` do not. A path that leads nowhere gives null, so `eq`
/// with null matches it, and `ne` with anything else.
///
/// # JSON
///
/// `{"path": value}` stands for `$eq`, and several keys of an object must all match. An object without operators stands
/// for conditions on its fields: `{"user": {"name": "Ada"}}` is `{"user.name": "Ada"}`. To compare with a whole object,
/// write `{"user": {"$eq": {"name": "Ada"}}}`. Filters of LangGraph's `BaseStore`, such as `{"score": {"$gt": 4}}`, are
/// filters here. Filters are read with [`FromStr`](std::str::FromStr), `TryFrom<&Value>` or serde, and written with
/// `Display` or serde. They are nested at most 64 deep.
///
/// # Errors
///
/// All constructors fail with [`Error::InvalidFilter`] for a path that is none, for `gt`, `gte`, `lt`, `lte` with a
/// value other than a number or a string, and for a value nested more than 64 deep; reading fails for unknown operators
/// too.
#[derive(Clone, Debug, PartialEq)]
pub struct MetadataFilter(pub(super) Expression);

/// Returns true if a condition holds for a value; `None` if there is none.
type Holds<'a> = dyn Fn(Option<&Value>) -> bool + 'a;

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Expression {
    /// Two or more filters, none of them `All`; or none.
    All(Vec<MetadataFilter>),
    /// Two or more filters, none of them `Any`; or none.
    Any(Vec<MetadataFilter>),
    Not(Box<MetadataFilter>),
    Condition(Condition),
}

impl MetadataFilter {
    /// Matches if the value at a path is equal to this.
    pub fn eq(path: &str, value: impl Into<Value>) -> Result<Self> {
        Self::at(path, Operator::Eq, value)
    }

    /// Matches if the value at a path is not equal to this.
    pub fn ne(path: &str, value: impl Into<Value>) -> Result<Self> {
        Self::at(path, Operator::Ne, value)
    }

    /// Matches if the value at a path is greater than this number or string.
    pub fn gt(path: &str, value: impl Into<Value>) -> Result<Self> {
        Self::at(path, Operator::Gt, value)
    }

    /// Matches if the value at a path is equal to this number or string, or greater.
    pub fn gte(path: &str, value: impl Into<Value>) -> Result<Self> {
        Self::at(path, Operator::Gte, value)
    }

    /// Matches if the value at a path is less than this number or string.
    pub fn lt(path: &str, value: impl Into<Value>) -> Result<Self> {
        Self::at(path, Operator::Lt, value)
    }

    /// Matches if the value at a path is equal to this number or string, or less.
    pub fn lte(path: &str, value: impl Into<Value>) -> Result<Self> {
        Self::at(path, Operator::Lte, value)
    }

    /// Matches if the value at a path is equal to one of these.
    pub fn is_in<V: Into<Value>>(path: &str, values: impl IntoIterator<Item = V>) -> Result<Self> {
        Self::at(path, Operator::In, values.into_iter().map(Into::into).collect::<Vec<Value>>())
    }

    /// Matches if the value at a path is equal to none of these.
    pub fn not_in<V: Into<Value>>(path: &str, values: impl IntoIterator<Item = V>) -> Result<Self> {
        Self::at(path, Operator::Nin, values.into_iter().map(Into::into).collect::<Vec<Value>>())
    }

    /// Matches if a path leads to a value.
    pub fn exists(path: &str) -> Result<Self> {
        Self::at(path, Operator::Exists, true)
    }

    /// Matches if the value at a path is an array with an element equal to this, or a string that has this string in
    /// it.
    pub fn contains(path: &str, value: impl Into<Value>) -> Result<Self> {
        Self::at(path, Operator::Contains, value)
    }

    /// Matches if both filters match.
    pub fn and(self, other: Self) -> Self {
        Self::all([self, other])
    }

    /// Matches if one of both filters matches.
    pub fn or(self, other: Self) -> Self {
        Self::any([self, other])
    }

    /// Matches if all filters match.
    pub fn all(filters: impl IntoIterator<Item = Self>) -> Self {
        let mut joined = Vec::new();
        for filter in filters {
            match filter.0 {
                Expression::All(inner) => joined.extend(inner),
                _ => joined.push(filter),
            }
        }
        match joined.len() {
            1 => joined.remove(0),
            _ => MetadataFilter(Expression::All(joined)),
        }
    }

    /// Matches if at least one filter matches.
    pub fn any(filters: impl IntoIterator<Item = Self>) -> Self {
        let mut joined = Vec::new();
        for filter in filters {
            match filter.0 {
                Expression::Any(inner) => joined.extend(inner),
                _ => joined.push(filter),
            }
        }
        match joined.len() {
            1 => joined.remove(0),
            _ => MetadataFilter(Expression::Any(joined)),
        }
    }

    /// Returns true if the filter matches a JSON object. A value of another type counts as an object without fields.
    pub fn matches(&self, value: &Value) -> bool {
        self.matches_fields(value.as_object().unwrap_or(&Map::new()))
    }

    /// Returns true if the filter matches these fields.
    pub(crate) fn matches_fields(&self, fields: &dyn Fields) -> bool {
        match &self.0 {
            Expression::All(filters) => filters.iter().all(|filter| filter.matches_fields(fields)),
            Expression::Any(filters) => filters.iter().any(|filter| filter.matches_fields(fields)),
            Expression::Not(filter) => !filter.matches_fields(fields),
            Expression::Condition(condition) => condition.holds(condition.path.find(fields).as_deref()),
        }
    }

    /// Returns a path of the filter that is a field of a message, if it has one.
    pub(crate) fn message_path(&self) -> Option<&FieldPath> {
        self.conditions().map(|condition| &condition.path).find(|path| matches!(path, FieldPath::OfMessage(_)))
    }

    /// Returns the different paths of the filter, or `None` if there are more than `most`.
    pub(crate) fn paths(&self, most: usize) -> Option<Vec<&FieldPath>> {
        let mut paths = Vec::new();
        for Condition { path, .. } in self.conditions() {
            if !paths.contains(&path) {
                paths.push(path);
            }
            if paths.len() > most {
                return None;
            }
        }
        Some(paths)
    }

    fn conditions(&self) -> impl Iterator<Item = &Condition> {
        let mut filters = vec![self];
        std::iter::from_fn(move || {
            loop {
                match &filters.pop()?.0 {
                    Expression::All(inner) | Expression::Any(inner) => filters.extend(inner),
                    Expression::Not(inner) => filters.push(inner),
                    Expression::Condition(condition) => return Some(condition),
                }
            }
        })
    }

    /// Evaluates the filter on many objects: returns for each if the filter matches it. `column` returns for each
    /// object if a condition holds for its value at a path. Its first error ends the evaluation.
    pub(crate) fn select(
        &self,
        objects: usize,
        column: &mut dyn FnMut(&FieldPath, &Holds) -> Result<Vec<bool>>,
    ) -> Result<Vec<bool>> {
        match &self.0 {
            Expression::All(filters) => filters.iter().try_fold(vec![true; objects], |mut matches, filter| {
                matches.iter_mut().zip(filter.select(objects, column)?).for_each(|(all, one)| *all &= one);
                Ok(matches)
            }),
            Expression::Any(filters) => filters.iter().try_fold(vec![false; objects], |mut matches, filter| {
                matches.iter_mut().zip(filter.select(objects, column)?).for_each(|(any, one)| *any |= one);
                Ok(matches)
            }),
            Expression::Not(filter) => {
                let mut matches = filter.select(objects, column)?;
                matches.iter_mut().for_each(|matches| *matches = !*matches);
                Ok(matches)
            }
            Expression::Condition(condition) => column(&condition.path, &|found| condition.holds(found)),
        }
    }

    fn at(path: &str, operator: Operator, operand: impl Into<Value>) -> Result<Self> {
        Ok(Condition::new(FieldPath::parse(path)?, operator, operand.into())?.into())
    }
}

impl From<Condition> for MetadataFilter {
    fn from(condition: Condition) -> Self {
        MetadataFilter(Expression::Condition(condition))
    }
}

impl Not for MetadataFilter {
    type Output = Self;

    fn not(self) -> Self {
        match self.0 {
            Expression::Not(filter) => *filter,
            _ => MetadataFilter(Expression::Not(Box::new(self))),
        }
    }
}

impl TryFrom<&Value> for MetadataFilter {
    type Error = Error;

    fn try_from(value: &Value) -> Result<Self> {
        // Everything below calls itself for nested values.
        match is_deeper(value, MAX_DEPTH) {
            true => Err(Error::filter(format!("it is nested more than {MAX_DEPTH} deep"))),
            false => read(value),
        }
    }
}

impl FromStr for MetadataFilter {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let value: Value = serde_json::from_str(text)
            .map_err(|error| Error::filter(format!("{error}; a filter is a JSON object such as {EXAMPLE}")))?;
        (&value).try_into()
    }
}

impl<'de> Deserialize<'de> for MetadataFilter {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        (&Value::deserialize(deserializer)?).try_into().map_err(de::Error::custom)
    }
}

impl Serialize for MetadataFilter {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        write(self).serialize(serializer)
    }
}

impl fmt::Display for MetadataFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write(self).fmt(f)
    }
}

const EXAMPLE: &str = r#"{"user.age": {"$gte": 18}}"#;

fn write(filter: &MetadataFilter) -> Value {
    let list = |filters: &[MetadataFilter]| filters.iter().map(write).collect::<Value>();
    match &filter.0 {
        Expression::All(filters) if filters.is_empty() => json!({}),
        Expression::All(filters) => json!({"$and": list(filters)}),
        Expression::Any(filters) => json!({"$or": list(filters)}),
        Expression::Not(filter) => json!({"$not": write(filter)}),
        Expression::Condition(Condition { path, operator, operand }) => {
            json!({path.to_string(): {operator.name(): operand}})
        }
    }
}

fn read(value: &Value) -> Result<MetadataFilter> {
    let Value::Object(fields) = value else {
        return Err(Error::filter(format!("a filter is a JSON object such as {EXAMPLE}, not {}", kind(value))));
    };
    let list = |name: &str, value: &Value| match value {
        Value::Array(filters) => filters.iter().map(read).collect::<Result<Vec<_>>>(),
        _ => Err(Error::filter(format!("{name} takes an array of filters, not {}", kind(value)))),
    };
    let filters = fields.iter().map(|(key, value)| match key.as_str() {
        "$and" => Ok(MetadataFilter::all(list(key, value)?)),
        "$or" => Ok(MetadataFilter::any(list(key, value)?)),
        "$not" => Ok(!read(value)?),
        key if key.starts_with('$')
            && !key.starts_with("$.")
            && !key.starts_with("$[")
            && MessageField::named(key).is_none() =>
        {
            let known = "$and, $or, $not, and the fields of a message $id, $session, $role, $created_at; an operator on \
                         a value comes after its path";
            Err(unknown(key, known))
        }
        path => read_conditions(&FieldPath::parse(path)?, value),
    });
    Ok(MetadataFilter::all(filters.collect::<Result<Vec<_>>>()?))
}

fn read_conditions(path: &FieldPath, value: &Value) -> Result<MetadataFilter> {
    let Value::Object(fields) = value else {
        return Ok(Condition::new(path.clone(), Operator::Eq, value.clone())?.into());
    };
    let operators = fields.keys().filter(|key| key.starts_with('$')).count();
    let filters = match operators {
        0 if fields.is_empty() => {
            return Err(Error::filter(format!(
                "an empty object at {:?} is no condition; for equality write {{\"$eq\": {{}}}}",
                path.to_string()
            )));
        }
        0 => {
            let nested = fields.iter().map(|(key, value)| {
                let path = path.join(FieldPath::parse(key)?)?;
                read_conditions(&path, value)
            });
            nested.collect::<Result<Vec<_>>>()?
        }
        all if all == fields.len() => read_operators(path, fields)?,
        _ => {
            return Err(Error::filter(format!(
                "the object at {:?} has both operators and other keys; for equality write {{\"$eq\": ...}}",
                path.to_string()
            )));
        }
    };
    Ok(MetadataFilter::all(filters))
}

fn read_operators(path: &FieldPath, fields: &Map<String, Value>) -> Result<Vec<MetadataFilter>> {
    let filters = fields.iter().map(|(name, operand)| {
        if name == "$not" {
            return match operand {
                Value::Object(_) => Ok(!read_conditions(path, operand)?),
                _ => Err(Error::filter(format!("$not takes an object, not {}", kind(operand)))),
            };
        }
        let Some((_, operator)) = OPERATORS.iter().find(|(known, _)| known == name) else {
            let known: Vec<&str> = OPERATORS.iter().map(|(known, _)| *known).collect();
            return Err(unknown(name, &format!("{}, $not", known.join(", "))));
        };
        Ok(Condition::new(path.clone(), *operator, operand.clone())?.into())
    });
    filters.collect()
}

fn unknown(name: &str, known: &str) -> Error {
    Error::filter(format!("{name:?} is not an operator here; known are {known}"))
}
