//! A bound on the bytes of messages and documents that reads return, counted while they are read.
//!
//! A value takes more memory parsed than as text, so [`json_bytes`] counts what its text will take. A budget knows nothing of what is
//! read. A server has one for all answers in work, and a share of it for each answer.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use serde_json::{Map, Value};

use crate::error::{Error, Result};

/// Bytes of memory that an object of JSON takes beside the text of its fields: a node of its map.
const OBJECT: usize = 640;
/// Bytes of memory that an element of an array or a field takes beside its text.
const ELEMENT: usize = 32;

/// A bound on bytes. Clones count together, and a share counts in the budget that it is of, until its last clone is dropped.
#[derive(Clone, Debug)]
pub struct ReadBudget(Arc<Share>);

#[derive(Debug)]
struct Share {
    limit: usize,
    taken: AtomicUsize,
    of: Option<ReadBudget>,
}

impl ReadBudget {
    /// Makes a budget of so many bytes for all that read at a time.
    pub fn new(limit: usize) -> Self {
        ReadBudget(Arc::new(Share { limit, taken: AtomicUsize::new(0), of: None }))
    }

    /// Makes a budget for one answer, of up to so many bytes, which count in this budget too.
    pub fn share(&self, limit: usize) -> Self {
        ReadBudget(Arc::new(Share { limit, taken: AtomicUsize::new(0), of: Some(self.clone()) }))
    }

    /// Takes bytes. What is read first always fits, so that a message or document that is larger than the budget can be read alone.
    ///
    /// # Errors
    /// [`Error::AnswerTooLarge`]: the answer has no room for them, or all answers together have none at the moment.
    pub fn take(&self, bytes: usize) -> Result<()> {
        let Share { limit, taken, of } = &*self.0;
        let before = taken.fetch_add(bytes, Ordering::Relaxed);
        let fits = before == 0 || before.saturating_add(bytes) <= *limit;
        let found = match of {
            _ if !fits => Err(Error::AnswerTooLarge { limit: *limit, is_busy: of.is_none() }),
            Some(all) => all.take(bytes),
            None => Ok(()),
        };
        if found.is_err() {
            taken.fetch_sub(bytes, Ordering::Relaxed);
        }
        found
    }

    /// Returns true if more than half of it is taken.
    pub fn is_above_half(&self) -> bool {
        self.0.taken.load(Ordering::Relaxed) > self.0.limit / 2
    }

    /// Makes a share of the whole budget, for a read that may begin anew.
    pub(crate) fn part(&self) -> Self {
        self.share(self.0.limit)
    }

    /// Leaves what was taken to the budget that this one is a share of.
    pub(crate) fn keep(&self) {
        self.0.taken.store(0, Ordering::Relaxed);
    }

    /// Gives back all that was taken.
    pub(crate) fn reset(&self) {
        self.give_back(self.0.taken.load(Ordering::Relaxed));
    }

    fn give_back(&self, bytes: usize) {
        self.0.taken.fetch_sub(bytes, Ordering::Relaxed);
        self.0.of.iter().for_each(|of| of.give_back(bytes));
    }
}

/// Two budgets are equal if they count together.
impl PartialEq for ReadBudget {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.of.iter().for_each(|of| of.give_back(*self.taken.get_mut()));
    }
}

/// Takes bytes of a budget, if there is one.
pub(crate) fn take(budget: Option<&ReadBudget>, bytes: usize) -> Result<()> {
    budget.map_or(Ok(()), |budget| budget.take(bytes))
}

/// Returns a function that returns true as long as items of so many bytes fit on a page of up to `limit` items and `most` bytes, and
/// takes their bytes of a budget, if there is one. The first always fits on the page.
pub(crate) fn page(limit: usize, most: usize, budget: Option<ReadBudget>) -> impl FnMut(usize) -> Result<bool> {
    let (mut items, mut sum) = (0, 0_usize);
    move |bytes| {
        sum = sum.saturating_add(bytes);
        let fits = items < limit && (items == 0 || sum <= most);
        items += 1;
        if fits {
            take(budget.as_ref(), bytes)?;
        }
        Ok(fits)
    }
}

/// Returns the bytes that a text in JSON takes with the value that is parsed of it, at most. Cost: a pass over the text.
pub(crate) fn json_bytes(json: &str) -> usize {
    let (mut bytes, mut in_text, mut all) = (json.len(), false, json.bytes());
    while let Some(byte) = all.next() {
        match byte {
            b'"' => in_text = !in_text,
            b'\\' if in_text => drop(all.next()),
            b'{' if !in_text => bytes += OBJECT,
            b'[' | b',' if !in_text => bytes += ELEMENT,
            _ => {}
        }
    }
    bytes
}

/// Returns the bytes of memory that a value takes, counted as by [`json_bytes`].
pub(crate) fn value_bytes(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len(),
        Value::Array(values) => values.iter().map(|value| ELEMENT + value_bytes(value)).sum(),
        Value::Object(fields) => object_bytes(fields),
        _ => 0,
    }
}

/// Same as [`value_bytes`], for an object. An empty one takes none.
pub(crate) fn object_bytes(fields: &Map<String, Value>) -> usize {
    let node = if fields.is_empty() { 0 } else { OBJECT };
    node + fields.iter().map(|(name, value)| ELEMENT + name.len() + value_bytes(value)).sum::<usize>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_count_together_and_give_back() {
        let all = ReadBudget::new(100);
        let (a, b) = (all.share(60), all.share(60));
        let refused = |result: Result<()>| match result {
            Err(Error::AnswerTooLarge { limit, is_busy }) => Some((limit, is_busy)),
            other => other.map(|()| None).unwrap(),
        };
        assert_eq!(refused(a.take(50)), None);
        assert_eq!(refused(a.take(20)), Some((60, false)));
        assert_eq!(refused(b.take(40)), None);
        assert_eq!(refused(b.take(20)), Some((100, true)));
        drop(a);
        assert_eq!(refused(b.take(20)), None);
        b.reset();
        // One that is larger than any budget is read alone.
        assert_eq!(refused(b.take(500)), None);
        assert_eq!(refused(all.share(60).take(1)), Some((100, true)));
        drop(b);
        assert_eq!(refused(all.share(60).take(1)), None);
    }

    #[test]
    fn values_count_as_what_they_take() {
        assert_eq!(json_bytes("\"a, {[\\\" ]\""), 11);
        assert_eq!(json_bytes("[1,2]"), 5 + 2 * ELEMENT);
        assert_eq!(json_bytes("{\"a\":1,\"b\":[]}"), 14 + OBJECT + 2 * ELEMENT);
    }
}
