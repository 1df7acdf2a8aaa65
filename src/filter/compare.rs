//! Comparison of JSON values.

use std::cmp::Ordering;

use serde_json::{Number, Value};

/// Returns true if two values are equal. Numbers are equal if they are the same number, however they are written.
pub(super) fn is_equal(a: &Value, b: &Value) -> bool {
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
pub(super) fn order(a: &Value, b: &Value) -> Option<Ordering> {
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
