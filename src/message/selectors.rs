//! Selection of recent messages for a prompt, after Steamship's message selectors.

use std::sync::Arc;

use super::{chat_message::Message, role::Role, token_count::MessageTokenCounter};
use crate::error::impl_debug;

/// Selects messages of a history.
pub trait MessageSelector: Send + Sync {
    /// Returns the selected messages, oldest first. `messages` is ordered oldest first too.
    fn select(&self, messages: &[Message]) -> Vec<Message>;
}

/// Selects the newest `k` messages of the user and the assistant and skips all others.
#[derive(Clone, Copy, Debug)]
pub struct MessageWindow(pub usize);

impl MessageSelector for MessageWindow {
    fn select(&self, messages: &[Message]) -> Vec<Message> {
        let mut selected: Vec<Message> = messages
            .iter()
            .rev()
            .filter(|message| matches!(message.role, Role::User | Role::Assistant))
            .take(self.0)
            .cloned()
            .collect();
        selected.reverse();
        selected
    }
}

/// Selects the newest messages that fit into a token budget.
#[derive(Clone)]
#[non_exhaustive]
pub struct TokenWindow {
    /// The maximum number of tokens of all selected messages together.
    pub max_tokens: usize,
    /// The token counter for messages.
    pub tokens: Arc<dyn MessageTokenCounter>,
    /// Whether a message that does not fit is skipped and older ones are still considered, which leaves gaps. If false,
    /// selection stops at that message. Default: false.
    pub skip_too_long: bool,
}

impl_debug!(TokenWindow { max_tokens, skip_too_long });

impl TokenWindow {
    /// Creates a selector of consecutive messages with at most `max_tokens` tokens.
    pub fn new(max_tokens: usize, tokens: impl MessageTokenCounter + 'static) -> Self {
        TokenWindow { max_tokens, tokens: Arc::new(tokens), skip_too_long: false }
    }
}

impl MessageSelector for TokenWindow {
    fn select(&self, messages: &[Message]) -> Vec<Message> {
        let mut left = self.max_tokens;
        let mut selected = Vec::new();
        for message in messages.iter().rev() {
            let cost = self.tokens.count(message);
            if cost <= left {
                left -= cost;
                selected.push(message.clone());
            } else if !self.skip_too_long {
                break;
            }
        }
        selected.reverse();
        selected
    }
}
