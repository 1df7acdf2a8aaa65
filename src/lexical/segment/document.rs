//! The input of a segment.

use std::ops::Range;

use crate::lexical::Voice;

/// The terms of a row, and the part of the text that they come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Document {
    pub(crate) row: u32,
    /// The bytes of the row's window in the text of its message; `None` if the text has only one window.
    pub(crate) passage: Option<Range<u32>>,
    /// The terms of the window, in any order and with repetitions. May be empty.
    pub(crate) terms: Vec<u64>,
    pub(crate) voice: Voice,
}
