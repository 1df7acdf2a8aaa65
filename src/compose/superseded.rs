//! Finds the recalled messages of a prompt that later ones in it supersede.

use std::{borrow::Borrow, collections::HashMap};

use crate::{block::BlockContent, message::Message, recall::superseding_pairs};

/// The ids of recalled messages that are superseded, each with the ids of the messages that supersede it.
pub(super) type SupersededMessages = HashMap<String, Vec<String>>;

/// The number of recalled messages that are compared, and of other messages of the prompt. It bounds the cost, which
/// grows with their product.
const COMPARED: usize = 50;

/// Compares the messages that blocks quote or add with one another and with the last messages of the prompt.
///
/// The texts are compared again, although [`Hit::supersedes`](crate::Hit::supersedes) has been found: a message may be
/// superseded by one that was not recalled, because it is in the prompt already, and not every recalled message is a
/// hit.
pub(super) fn superseded_messages<'a, M: Borrow<Message>>(
    contents: impl Iterator<Item = &'a BlockContent>,
    messages: &[M],
) -> SupersededMessages {
    let mut compared: Vec<&Message> = contents.flat_map(recalled).take(COMPARED).collect();
    let recalled = compared.len();
    let mut superseded = SupersededMessages::new();
    if recalled > 0 {
        let last = &messages[messages.len().saturating_sub(COMPARED)..];
        compared.extend(last.iter().map(M::borrow));
        for (later, earlier) in superseding_pairs(&compared, recalled) {
            superseded.entry(compared[earlier].id.clone()).or_default().push(compared[later].id.clone());
        }
    }
    superseded
}

/// Returns the messages that a block quotes or adds.
pub(super) fn recalled(content: &BlockContent) -> &[Message] {
    match content {
        BlockContent::Quoted(messages) | BlockContent::Messages(messages) => messages,
        _ => &[],
    }
}
