//! The measure for truncating a block.

use super::content::BlockContent;
use crate::error::impl_debug;

/// The excess of a prompt over its token limit, and a test whether shorter content of a block removes the excess.
#[non_exhaustive]
pub struct TokenExcess<'a> {
    /// The number of tokens over the limit.
    pub tokens: usize,
    fits: &'a dyn Fn(&BlockContent) -> bool,
}

impl_debug!(TokenExcess<'_>, self { tokens: self.tokens });

impl<'a> TokenExcess<'a> {
    /// Creates an excess of `tokens`. `fits` must return true if the prompt is within its limit with the given content.
    pub fn new(tokens: usize, fits: &'a dyn Fn(&BlockContent) -> bool) -> Self {
        TokenExcess { tokens, fits }
    }

    /// Returns true if the prompt is within its limit with this content. Cost: renders and counts the memory.
    pub fn fits(&self, content: &BlockContent) -> bool {
        (self.fits)(content)
    }

    /// Finds by bisection the content with the most items that fits. `keep` makes the content with a number of items,
    /// of which there are `items` before truncation.
    pub(crate) fn keep_most(&self, items: usize, keep: impl Fn(usize) -> BlockContent) -> BlockContent {
        let counts: Vec<usize> = (1..items).collect();
        match counts.partition_point(|&count| self.fits(&keep(count))) {
            0 => BlockContent::default(),
            most => keep(most),
        }
    }
}
