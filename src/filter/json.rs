//! The JSON form of a filter.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::{Map, Value, json};

use super::{
    condition::{Condition, MAX_DEPTH, OPERATORS, Operator, is_deeper, kind},
    fields::MessageField,
    metadata_filter::{Expression, MetadataFilter},
    path::FieldPath,
};
use crate::error::{Error, Result};

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

/// Reads the conditions on the value at a path.
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
