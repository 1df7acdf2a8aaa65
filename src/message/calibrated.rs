//! A token counter that learns from the counts that a provider reports.

use std::sync::Arc;

use parking_lot::Mutex;

use super::{
    chat_message::Message,
    token_count::{MessageTokenCounter, PerPartTokenCounter},
};
use crate::error::impl_debug;

/// Estimated tokens of the observations that count. Older ones count half with each further so many.
const MEMORY: f64 = 100_000.0;

/// Counts messages with another counter, and multiplies the count by the ratio of the tokens that a provider reported
/// for prompts to those that the other counter estimated for them.
///
/// A budget is then one of the tokens that the provider bills, also for a model whose vocabulary is not public. Until
/// the first observation the ratio is 1. Newer observations count more. Tokens that are not of messages, such as those
/// of the definitions of tools, raise the ratio. Clones share what they learn.
///
/// ```
/// use mnemon::{CalibratedTokenCounter, Message, MessageTokenCounter};
/// let counter = CalibratedTokenCounter::default();
/// let messages = [Message::user("Where is Ada, and what does she do there?")];
/// let estimate = counter.count(&messages[0]);
/// counter.observe(&messages, 2 * estimate); // as `ChatAnswer::usage` states it: `usage.prompt_tokens`
/// assert_eq!(counter.count(&messages[0]), 2 * estimate);
/// ```
#[derive(Clone)]
pub struct CalibratedTokenCounter {
    inner: Arc<dyn MessageTokenCounter>,
    observed: Arc<Mutex<Observed>>,
}

impl_debug!(CalibratedTokenCounter, self { ratio: self.ratio() });

#[derive(Default)]
struct Observed {
    estimated: f64,
    reported: f64,
}

impl Default for CalibratedTokenCounter {
    /// Calibrates [`PerPartTokenCounter`] with its defaults.
    fn default() -> Self {
        CalibratedTokenCounter::new(PerPartTokenCounter::default())
    }
}

impl CalibratedTokenCounter {
    /// Creates a counter that corrects the counts of `inner`.
    pub fn new(inner: impl MessageTokenCounter + 'static) -> Self {
        CalibratedTokenCounter { inner: Arc::new(inner), observed: Arc::default() }
    }

    /// Takes note of the number of tokens that a provider reported for a prompt of these messages. A prompt that is
    /// estimated or reported to have no tokens is ignored.
    pub fn observe(&self, prompt: &[Message], prompt_tokens: usize) {
        let estimated: usize = prompt.iter().map(|message| self.inner.count(message)).sum();
        if estimated == 0 || prompt_tokens == 0 {
            return;
        }
        let mut observed = self.observed.lock();
        let kept = 0.5_f64.powf(estimated as f64 / MEMORY);
        observed.estimated = observed.estimated * kept + estimated as f64;
        observed.reported = observed.reported * kept + prompt_tokens as f64;
    }

    /// Returns the ratio of reported to estimated tokens.
    pub fn ratio(&self) -> f64 {
        let observed = self.observed.lock();
        if observed.estimated == 0.0 { 1.0 } else { observed.reported / observed.estimated }
    }
}

impl MessageTokenCounter for CalibratedTokenCounter {
    fn count(&self, message: &Message) -> usize {
        (self.inner.count(message) as f64 * self.ratio()).ceil() as usize
    }
}
