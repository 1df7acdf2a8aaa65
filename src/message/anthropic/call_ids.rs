//! The ids that are written for calls of tools: the API refuses some characters, and ids that were used before.

use std::collections::{HashMap, HashSet};

/// The ids of the calls that were written so far.
#[derive(Default)]
pub(super) struct CallIds {
    /// The id that was written for the last call with an id.
    written: HashMap<String, String>,
    used: HashSet<String>,
}

impl CallIds {
    /// Takes note of a call that is written with the id that it has.
    pub(super) fn note(&mut self, id: &str) {
        self.used.insert(id.to_owned());
        self.written.insert(id.to_owned(), id.to_owned());
    }

    /// Returns the id to write for a new call: valid, and used by no call before.
    pub(super) fn of_call(&mut self, id: &str) -> String {
        let valid = valid_id(id);
        // Begins where a free number is likely: agents that use an id again use it often.
        let numbered = (self.used.len() + 1..).map(|number| format!("{valid}-{number}"));
        let unused = |id: &String| !self.used.contains(id);
        let written = std::iter::once(valid.clone()).chain(numbered).find(unused).expect("there is no last number");
        self.used.insert(written.clone());
        self.written.insert(id.to_owned(), written.clone());
        written
    }

    /// Returns the id to write for a result: that of the last call with this id.
    pub(super) fn of_result(&self, id: &str) -> String {
        self.written.get(id).cloned().unwrap_or_else(|| valid_id(id))
    }
}

/// Replaces the characters that the API forbids in ids.
fn valid_id(id: &str) -> String {
    let valid = |c: char| if c.is_ascii_alphanumeric() || c == '-' || c == '_' { c } else { '_' };
    if id.is_empty() { "call".to_owned() } else { id.chars().map(valid).collect() }
}
