//! The turn that a session is working on, and the prompts that it was given last.

use std::{collections::VecDeque, sync::Arc};

use crate::message::{ContentPart, Message};

/// State of a session's prompts beside what is stored.
#[derive(Default)]
pub(super) struct Turn {
    /// Id of the prompt that is being answered.
    pub(super) prompt: Option<String>,
    /// The sequence number from which on messages were put after the prompt was first assembled.
    pub(super) begin: Option<u64>,
    /// Completed steps of the answer.
    pub(super) steps: Vec<Message>,
    /// Messages of the last prompts, to recognize them when they come back.
    pub(super) given: VecDeque<Arc<[GivenMessage]>>,
    /// Ids of the session's messages that each of these prompts had no place for or did not select.
    pub(super) left_out: VecDeque<Vec<String>>,
    /// Media that memory inserted into these prompts.
    pub(super) media: Arc<Vec<ContentPart>>,
}

impl Turn {
    /// Ends the turn, and forgets that earlier prompts had messages of the session: they may be put as if they were
    /// new.
    pub(super) fn end(&mut self) {
        (self.prompt, self.begin, self.steps) = Default::default();
        self.left_out.iter_mut().for_each(Vec::clear);
        for given in &mut self.given {
            *given = given.iter().filter(|given| given.origin == Origin::Memory).cloned().collect();
        }
    }
}

/// A message of a prompt that was given out.
#[derive(Clone)]
pub(super) struct GivenMessage {
    pub(super) id: String,
    /// Hash of its content.
    pub(super) hash: u64,
    pub(super) origin: Origin,
    /// True if memory made the message or was inserted into it.
    pub(super) has_memory: bool,
}

/// Source of a message of a prompt.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    /// The short-term buffer.
    Buffer,
    /// The prompt that is being answered, or one of its steps.
    Turn,
    /// A message that memory or a block made.
    Memory,
}
