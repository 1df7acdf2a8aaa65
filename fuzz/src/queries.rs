//! What a query is made of: filters and times.

use mnemon::{MetadataFilter, Timestamp, message::LocalTime, time_expressions_in};
use serde_json::Value;

/// JSON of a filter, a line feed, and the value that it is evaluated on. `recall --where` reads the same JSON.
pub(crate) fn filters(data: &[u8]) {
    let (filter, value) = match data.iter().position(|&byte| byte == b'\n') {
        Some(at) => (&data[..at], &data[at + 1..]),
        None => (data, &b"{}"[..]),
    };
    let Ok(filter) = serde_json::from_slice::<MetadataFilter>(filter) else { return };
    filter.matches(&serde_json::from_slice::<Value>(value).unwrap_or_default());
    let written = serde_json::to_string(&filter).expect("a filter can be written");
    let again: MetadataFilter = serde_json::from_str(&written).expect("a filter that was written can be read");
    assert_eq!(again, filter);
}

/// The moment and the offset that times are relative to, and the text.
pub(crate) fn times(data: &[u8]) {
    let Some((now, rest)) = data.split_first_chunk::<8>() else { return };
    let Some((offset, text)) = rest.split_first_chunk::<2>() else { return };
    let Some(now) = Timestamp::from_micros(i64::from_le_bytes(*now)) else { return };
    let text = String::from_utf8_lossy(text);
    let Some(local) = LocalTime::new(now, 60 * i32::from(i16::from_le_bytes(*offset))) else { return };
    for found in time_expressions_in(&text, now, &local.zone()) {
        assert!(text.get(found.range.clone()).is_some(), "a part of the text");
    }
}
