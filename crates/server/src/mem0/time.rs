//! Times as mem0's clients write them.

use mnemon::Timestamp;
use serde_json::Value;

use super::super::problem::Problem;

/// Reads a time: seconds since 1970, RFC 3339, the same without a zone, which is UTC then, or a date, which is its first
/// moment.
pub(super) fn read(value: &Value) -> Result<Timestamp, Problem> {
    let time = match value {
        Value::Number(seconds) => seconds.as_f64().and_then(|seconds| Timestamp::from_micros((seconds * 1e6) as i64)),
        Value::String(text) => {
            let text = text.trim().replacen(' ', "T", 1);
            text.parse().or_else(|_| format!("{text}Z").parse()).ok()
        }
        _ => None,
    };
    time.ok_or_else(|| {
        Problem::bad_request(format!(
            "{value} is no time; give \"2024-05-01T09:30:00Z\", \"2024-05-01\" or seconds since 1970"
        ))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn all_forms_are_read() {
        for (given, expected) in [
            (json!(1714555800), "2024-05-01T09:30:00Z"),
            (json!(1714555800.5), "2024-05-01T09:30:00.5Z"),
            (json!("2024-05-01T09:30:00Z"), "2024-05-01T09:30:00Z"),
            (json!("2024-05-01T02:30:00-07:00"), "2024-05-01T09:30:00Z"),
            (json!("2024-05-01 09:30:00"), "2024-05-01T09:30:00Z"),
            (json!("2024-05-01"), "2024-05-01T00:00:00Z"),
        ] {
            assert_eq!(read(&given).unwrap().to_string(), expected, "{given}");
        }
        for given in [json!("yesterday"), json!(null), json!([1]), json!("2024-13-01")] {
            assert!(read(&given).is_err(), "{given}");
        }
    }
}
