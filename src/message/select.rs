//! Choosing recent messages for a prompt, as Steamship's selectors do.

use std::sync::Arc;

use super::{Message, MessageCounter, Role};
use crate::error::impl_debug;

/// Chooses messages of a history.
pub trait MessageSelector: Send + Sync {
    /// The chosen messages, oldest first, out of `messages`, oldest first.
    fn select(&self, messages: &[Message]) -> Vec<Message>;
}

/// The newest `k` messages of the user and the assistant; others are passed over.
#[derive(Clone, Copy, Debug)]
pub struct MessageWindow(pub usize);

impl MessageSelector for MessageWindow {
    fn select(&self, messages: &[Message]) -> Vec<Message> {
        let mut chosen: Vec<Message> = messages
            .iter()
            .rev()
            .filter(|message| matches!(message.role, Role::User | Role::Assistant))
            .take(self.0)
            .cloned()
            .collect();
        chosen.reverse();
        chosen
    }
}

/// The newest messages that together have at most this many tokens.
#[derive(Clone)]
#[non_exhaustive]
pub struct TokenWindow {
    /// The budget.
    pub max_tokens: usize,
    /// How messages are counted.
    pub tokens: Arc<dyn MessageCounter>,
    /// A message that does not fit is left out and older ones still considered, instead of stopping there. Leaves holes.
    /// Default: false.
    pub skip_too_long: bool,
}

impl_debug!(TokenWindow { max_tokens, skip_too_long });

impl TokenWindow {
    /// Contiguous, of at most `max_tokens`.
    pub fn new(max_tokens: usize, tokens: impl MessageCounter + 'static) -> Self {
        TokenWindow { max_tokens, tokens: Arc::new(tokens), skip_too_long: false }
    }
}

impl MessageSelector for TokenWindow {
    fn select(&self, messages: &[Message]) -> Vec<Message> {
        let mut left = self.max_tokens;
        let mut chosen = Vec::new();
        for message in messages.iter().rev() {
            let cost = self.tokens.count(message);
            if cost <= left {
                left -= cost;
                chosen.push(message.clone());
            } else if !self.skip_too_long {
                break;
            }
        }
        chosen.reverse();
        chosen
    }
}
