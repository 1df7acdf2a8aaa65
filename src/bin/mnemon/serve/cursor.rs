//! The cursors of lists that the library does not divide into pages itself: the text after which a page begins.

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use mnemon::Message;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::json;

use super::problem::Problem;

/// Items on a page, unless the request says otherwise.
const LIMIT: usize = 100;
pub(super) const MAX_LIMIT: usize = 1000;
/// Bytes of messages on a page, but for a single larger one: a page of the longest messages would be a gigabyte.
const MAX_BYTES: usize = 4 << 20;

/// The query of a request for a page of a list.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct PageQuery {
    /// Items on a page, 1 to 1000. Default: 100.
    pub(super) limit: Option<usize>,
    /// The `next` of the last page.
    pub(super) cursor: Option<String>,
}

/// Returns the number of items on a page.
pub(super) fn limit(asked: Option<usize>) -> Result<usize, Problem> {
    match asked.unwrap_or(LIMIT) {
        limit @ 1..=MAX_LIMIT => Ok(limit),
        limit => Err(Problem::bad_request(format!("a limit of {limit}; give 1 to {MAX_LIMIT}"))),
    }
}

/// Takes a page out of a list: the items whose keys come after the cursor's, in the order of the list. Returns the cursor of
/// the next page, if there is one.
pub(super) fn page<T>(
    items: Vec<T>,
    cursor: Option<&str>,
    asked: Option<usize>,
    key: impl Fn(&T) -> &str,
    bytes: impl Fn(&T) -> usize,
) -> Result<(Vec<T>, Option<String>), Problem> {
    let limit = limit(asked)?;
    let skipped = match cursor.map(decode_text).transpose()? {
        None => 0,
        Some(after) => items.iter().position(|item| key(item) == after).ok_or_else(gone)? + 1,
    };
    let mut items: Vec<T> = items.into_iter().skip(skipped).take(limit + 1).collect();
    let fitting = within_bytes(items.iter().map(bytes)).min(limit);
    let more = items.len() > fitting;
    items.truncate(fitting);
    let next = items.last().filter(|_| more).map(|last| BASE64_URL_SAFE_NO_PAD.encode(key(last)));
    Ok((items, next))
}

/// Returns how many of the first items of these sizes a page may have: at least one.
pub(super) fn within_bytes(sizes: impl Iterator<Item = usize>) -> usize {
    let mut sum = 0;
    let fitting = sizes.take_while(|size| {
        sum += size;
        sum <= MAX_BYTES
    });
    fitting.count().max(1)
}

/// The bytes of a message that count for a page.
pub(super) fn message_bytes(message: &Message) -> usize {
    message.text().len() + 512
}

/// The cursor of a list that is in order of a first text, and within that of a second.
pub(super) fn encode_pair(first: &str, second: &str) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(pair(first, second))
}

/// Two texts as one, which no other two give.
pub(super) fn pair(first: &str, second: &str) -> String {
    format!("{}:{first}{second}", first.len())
}

pub(super) fn decode_pair(cursor: &str) -> Result<(String, String), Problem> {
    let text = decode_text(cursor)?;
    let pair = text.split_once(':').and_then(|(length, rest)| rest.split_at_checked(length.parse().ok()?));
    pair.map(|(first, second)| (first.to_owned(), second.to_owned())).ok_or_else(foreign)
}

fn decode_text(cursor: &str) -> Result<String, Problem> {
    let bytes = BASE64_URL_SAFE_NO_PAD.decode(cursor).ok();
    let text = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
    text.ok_or_else(foreign)
}

/// An item that was removed meanwhile leaves its place in the order of the others unknown.
pub(super) fn gone() -> Problem {
    Problem::bad_request("the item of the cursor is gone; list from the beginning")
}

/// Returns the cursor after the item with this key.
pub(super) fn encode(key: &impl Serialize) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(json!(key).to_string())
}

/// Returns the key after which a page begins, if a cursor was given.
pub(super) fn decode<K: DeserializeOwned>(cursor: Option<&str>) -> Result<Option<K>, Problem> {
    let decode = |cursor: &str| serde_json::from_slice(&BASE64_URL_SAFE_NO_PAD.decode(cursor).ok()?).ok();
    cursor.map(|cursor| decode(cursor).ok_or_else(foreign)).transpose()
}

/// The problem of a cursor that another list gave, or none.
pub(super) fn foreign() -> Problem {
    Problem::bad_request("this is no cursor of this list; give the `next` of its last page")
}
