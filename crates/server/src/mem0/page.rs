//! Pages of lists, which mem0's clients count from 1.

use mnemon::Message;
use serde::Deserialize;
use serde_json::{Value, json};

use super::super::{cursor, problem::Problem};

/// Bytes of messages that a request may be about. A numbered page cannot end early, so one that is larger is refused.
const MAX_BYTES: usize = 32 << 20;

#[derive(Deserialize)]
pub(super) struct PageQuery {
    page: Option<usize>,
    page_size: Option<usize>,
}

/// A page of a list.
#[derive(Clone, Copy)]
pub(super) struct Page {
    number: usize,
    size: usize,
}

impl PageQuery {
    pub(super) fn page(&self, size: usize, max_size: usize) -> Result<Page, Problem> {
        let page = Page { number: self.page.unwrap_or(1), size: self.page_size.unwrap_or(size) };
        match page.number >= 1 && (1..=max_size).contains(&page.size) {
            true => Ok(page),
            false => {
                Err(Problem::bad_request(format!("pages are counted from 1, and their page_size is 1 to {max_size}")))
            }
        }
    }
}

impl Page {
    fn first(self) -> usize {
        (self.number - 1).saturating_mul(self.size)
    }

    /// Returns the items of the page.
    pub(super) fn of<T>(self, items: Vec<T>) -> impl Iterator<Item = T> {
        items.into_iter().skip(self.first()).take(self.size)
    }

    /// The answer with a page of a list of so many items. The links are relative, as the server need not know its own name.
    pub(super) fn answer(self, path: &str, count: usize, results: Vec<Value>) -> Value {
        let link = |number: usize| format!("{path}?page={number}&page_size={}", self.size);
        json!({
            "count": count,
            "next": (self.first().saturating_add(self.size) < count).then(|| link(self.number + 1)),
            "previous": (self.number > 1).then(|| link(self.number - 1)),
            "results": results,
        })
    }
}

/// Adds up the bytes of the messages of a request.
#[derive(Default)]
pub(super) struct Bytes(usize);

impl Bytes {
    /// Counts a message, unless there are too many bytes with it.
    pub(super) fn add(&mut self, message: &Message) -> Result<(), Problem> {
        self.0 += cursor::message_bytes(message);
        match self.0 <= MAX_BYTES {
            true => Ok(()),
            false => Err(Problem::bad_request(format!(
                "these memories have more than {MAX_BYTES} bytes; ask for fewer at a time, as with a page_size"
            ))),
        }
    }
}
