//! A condition on one value of a JSON object, and the comparison of values.

use std::cmp::Ordering;

use serde_json::{Number, Value};

use super::fields::FieldPath;
use crate::error::{Error, Result};

/// The greatest depth of nesting of a filter in JSON, and of a value that a filter compares with.
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

/// Returns true if two values are equal. Numbers are equal if they are the same number, however they are written.
pub(crate) fn is_equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => order_of_numbers(a, b) == Ordering::Equal,
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_equal(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| is_equal(a, b)))
        }
        _ => a == b,
    }
}

/// Returns the order of two numbers or of two strings; `None` for other values. Strings are ordered by code points.
fn order(a: &Value, b: &Value) -> Option<Ordering> {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => Some(order_of_numbers(a, b)),
        (Value::String(a), Value::String(b)) => Some(a.cmp(b)),
        _ => None,
    }
}

/// The exact order: a large integer is not rounded to a float.
fn order_of_numbers(a: &Number, b: &Number) -> Ordering {
    match (integer(a), integer(b)) {
        (Some(a), Some(b)) => a.cmp(&b),
        (Some(a), None) => order_of_mixed(a, float(b)),
        (None, Some(b)) => order_of_mixed(b, float(a)).reverse(),
        (None, None) => float(a).partial_cmp(&float(b)).expect("JSON has no NaN"),
    }
}

fn integer(number: &Number) -> Option<i128> {
    number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from))
}

fn float(number: &Number) -> f64 {
    number.as_f64().expect("every number of JSON has a float that is nearest")
}

fn order_of_mixed(integer: i128, float: f64) -> Ordering {
    // The conversion saturates, beyond every integer of JSON.
    integer.cmp(&(float.trunc() as i128)).then_with(|| 0.0_f64.total_cmp(&(float.fract() + 0.0)))
}
