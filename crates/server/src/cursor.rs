//! The cursors of lists that the library does not divide into pages itself: the key after which a page begins.

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
    #[schemars(range(min = 1, max = MAX_LIMIT))]
    pub(super) limit: Option<usize>,
    /// The `next` of the last page. It stays good if items are deleted meanwhile, that of the cursor too.
    #[schemars(extend("format" = "cursor"))]
    pub(super) cursor: Option<String>,
}

/// Returns the number of items on a page.
pub(super) fn limit(asked: Option<usize>) -> Result<usize, Problem> {
    match asked.unwrap_or(LIMIT) {
        limit @ 1..=MAX_LIMIT => Ok(limit),
        limit => Err(Problem::bad_request(format!("a limit of {limit}; give 1 to {MAX_LIMIT}"))),
    }
}

/// Takes a page out of a list whose items are in the order of their keys: those after a key. Returns the cursor of the next page,
/// if there is one. An item that was deleted meanwhile keeps its place in the order, so the list goes on after it.
pub(super) fn page<T, K: Ord + Serialize>(
    items: Vec<T>,
    after: Option<&K>,
    asked: Option<usize>,
    key: impl Fn(&T) -> K,
    bytes: impl Fn(&T) -> usize,
) -> Result<(Vec<T>, Option<String>), Problem> {
    let limit = limit(asked)?;
    let skipped = after.map_or(0, |after| items.partition_point(|item| key(item) <= *after));
    let mut items: Vec<T> = items.into_iter().skip(skipped).take(limit + 1).collect();
    let fitting = within_bytes(items.iter().map(bytes)).min(limit);
    let more = items.len() > fitting;
    items.truncate(fitting);
    let next = items.last().filter(|_| more).map(|last| encode(&key(last)));
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
