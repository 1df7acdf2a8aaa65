//! Token counts of messages: part by part with a [`TokenCounter`], or corrected by the counts that a provider reports.

use std::sync::Arc;

use parking_lot::Mutex;

use super::{
    chat_message::{ContentPart, Message},
    media_tokens::media_tokens,
};
use crate::{
    error::impl_debug,
    tokens::{ApproximateTokenCounter, TokenCounter},
};

/// Counts the tokens of a message. Implemented by [`PerPartTokenCounter`] and by any `Fn(&Message) -> usize`.
pub trait MessageTokenCounter: Send + Sync {
    /// Returns the number of tokens that the message takes in a model's context.
    fn count(&self, message: &Message) -> usize;
}

impl<F: Fn(&Message) -> usize + Send + Sync> MessageTokenCounter for F {
    fn count(&self, message: &Message) -> usize {
        self(message)
    }
}

/// Counts a message part by part: texts and names with a [`TokenCounter`], pictures and PDFs by their size if the message has
/// their bytes, other media and files at a flat rate.
///
/// A picture counts the greater of what Anthropic and OpenAI publish for its width and height; a page of a PDF counts 3,000.
///
/// A tool call counts with its name and arguments, a tool result with its text, because both are sent to the model.
#[derive(Clone)]
#[non_exhaustive]
pub struct PerPartTokenCounter {
    /// The counter for text.
    pub text: Arc<dyn TokenCounter>,
    /// Tokens that the chat format adds to each message, for instance for its role. Default: 0.
    pub per_message: usize,
    /// Tokens of an image of unknown size, an audio recording or a video. Default: 256.
    pub per_media: usize,
    /// Tokens of any other file, and of a PDF whose pages are not known. Default: 2048.
    pub per_file: usize,
}

impl_debug!(PerPartTokenCounter { per_message, per_media, per_file });

impl Default for PerPartTokenCounter {
    /// Counts text with [`ApproximateTokenCounter`].
    fn default() -> Self {
        PerPartTokenCounter::new(ApproximateTokenCounter)
    }
}

impl PerPartTokenCounter {
    /// Creates a counter that counts text with `text`.
    pub fn new(text: impl TokenCounter + 'static) -> Self {
        PerPartTokenCounter { text: Arc::new(text), per_message: 0, per_media: 256, per_file: 2048 }
    }

    fn count_part(&self, part: &ContentPart) -> usize {
        match part {
            ContentPart::Text { text } => self.text.count(text),
            ContentPart::ToolCall { name, arguments, .. } => {
                self.text.count(name) + self.text.count(&arguments.to_string())
            }
            ContentPart::ToolResult { content, .. } => self.text.count(content),
            ContentPart::Image(media) => media_tokens(media).unwrap_or(self.per_media),
            ContentPart::Audio(_) | ContentPart::Video(_) => self.per_media,
            ContentPart::File(media) => media_tokens(media).unwrap_or(self.per_file),
        }
    }
}

impl MessageTokenCounter for PerPartTokenCounter {
    fn count(&self, message: &Message) -> usize {
        let name = message.name.as_deref().map_or(0, |name| self.text.count(name));
        self.per_message + name + message.content.iter().map(|part| self.count_part(part)).sum::<usize>()
    }
}

/// The half-life of an observation, in estimated tokens that were observed after it.
const HALF_LIFE: f64 = 100_000.0;

/// Multiplies the counts of another counter by a ratio that it learns: the tokens that a provider reported for prompts,
/// divided by the other counter's estimates for them.
///
/// A token budget then matches what the provider bills, even for a model whose vocabulary is not public. The ratio is 1
/// until the first observation, and recent observations weigh more. Tokens outside of messages, such as tool
/// definitions, raise the ratio. Clones share one ratio.
///
/// ```
/// use mnemon::{CalibratedTokenCounter, Message, MessageTokenCounter};
/// let counter = CalibratedTokenCounter::default();
/// let messages = [Message::user("Where is Ada, and what does she do there?")];
/// let estimate = counter.count(&messages[0]);
/// counter.observe(&messages, 2 * estimate); // in practice, `usage.prompt_tokens` of `ChatAnswer::usage`
/// assert_eq!(counter.count(&messages[0]), 2 * estimate);
/// ```
#[derive(Clone)]
pub struct CalibratedTokenCounter {
    inner: Arc<dyn MessageTokenCounter>,
    observed: Arc<Mutex<ObservedTokens>>,
}

impl_debug!(CalibratedTokenCounter, self { ratio: self.ratio() });

#[derive(Default)]
struct ObservedTokens {
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

    /// Records that a provider reported `prompt_tokens` for this prompt. The call is ignored if the prompt has no tokens
    /// by the estimate or by the report.
    pub fn observe(&self, prompt: &[Message], prompt_tokens: usize) {
        let estimated: usize = prompt.iter().map(|message| self.inner.count(message)).sum();
        if estimated == 0 || prompt_tokens == 0 {
            return;
        }
        let mut observed = self.observed.lock();
        let kept = 0.5_f64.powf(estimated as f64 / HALF_LIFE);
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
