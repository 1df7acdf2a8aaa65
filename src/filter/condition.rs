//! A condition on one value of a JSON object.

use std::cmp::Ordering;

use serde_json::Value;

use super::{
    compare::{is_equal, order},
    path::FieldPath,
};
use crate::error::{Error, Result};

/// How deep a filter in JSON, and a value that a filter compares with, may be nested.
pub(super) const MAX_DEPTH: usize = 64;

/// A condition on the value at a path.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Condition {
    pub(super) path: FieldPath,
    pub(super) operator: Operator,
    pub(super) operand: Value,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Operator {
    Eq,
    Ne,
    Gt,
    Gte,
    Lt,
    Lte,
    In,
    Nin,
    Exists,
    Contains,
}

pub(super) const OPERATORS: [(&str, Operator); 10] = [
    ("$eq", Operator::Eq),
    ("$ne", Operator::Ne),
    ("$gt", Operator::Gt),
    ("$gte", Operator::Gte),
    ("$lt", Operator::Lt),
    ("$lte", Operator::Lte),
    ("$in", Operator::In),
    ("$nin", Operator::Nin),
    ("$exists", Operator::Exists),
    ("$contains", Operator::Contains),
];

impl Operator {
    pub(super) fn name(self) -> &'static str {
        OPERATORS.iter().find(|(_, operator)| *operator == self).expect("each operator is listed").0
    }
}

impl Condition {
    /// # Errors
    /// [`Error::InvalidFilter`]: the operator does not take such an operand.
    pub(super) fn new(path: FieldPath, operator: Operator, operand: Value) -> Result<Self> {
        use Operator::*;
        let operand = match path {
            FieldPath::OfMessage(field) => field.operand(operand)?,
            FieldPath::Within(_) => operand,
        };
        let wanted = match operator {
            Gt | Gte | Lt | Lte if !operand.is_number() && !operand.is_string() => "a number or a string",
            In | Nin if !operand.is_array() => "an array of values",
            Exists if !operand.is_boolean() => "true or false",
            _ if is_deeper(&operand, MAX_DEPTH) => "a value nested at most 64 deep",
            _ => return Ok(Condition { path, operator, operand }),
        };
        Err(Error::filter(format!(
            "{} at {:?} takes {wanted}, not {}",
            operator.name(),
            path.to_string(),
            kind(&operand)
        )))
    }

    /// Returns true if the condition holds for the value at its path; `None` if there is none.
    pub(super) fn holds(&self, found: Option<&Value>) -> bool {
        let Condition { operator, operand, .. } = self;
        let value = found.unwrap_or(&Value::Null);
        let is_one_of = || operand.as_array().is_some_and(|values| values.iter().any(|other| is_equal(value, other)));
        match operator {
            Operator::Eq => is_equal(value, operand),
            Operator::Ne => !is_equal(value, operand),
            Operator::Gt => order(value, operand).is_some_and(Ordering::is_gt),
            Operator::Gte => order(value, operand).is_some_and(Ordering::is_ge),
            Operator::Lt => order(value, operand).is_some_and(Ordering::is_lt),
            Operator::Lte => order(value, operand).is_some_and(Ordering::is_le),
            Operator::In => is_one_of(),
            Operator::Nin => !is_one_of(),
            Operator::Exists => *operand == Value::Bool(found.is_some()),
            Operator::Contains => match value {
                Value::Array(elements) => elements.iter().any(|element| is_equal(element, operand)),
                Value::String(text) => operand.as_str().is_some_and(|part| text.contains(part)),
                _ => false,
            },
        }
    }
}

/// Returns the type of a value, for errors.
pub(super) fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

/// Returns true if a value is nested deeper than this.
pub(super) fn is_deeper(value: &Value, depth: usize) -> bool {
    let is_deeper = |value| depth == 0 || is_deeper(value, depth - 1);
    match value {
        Value::Array(values) => values.iter().any(is_deeper),
        Value::Object(fields) => fields.values().any(is_deeper),
        _ => false,
    }
}
