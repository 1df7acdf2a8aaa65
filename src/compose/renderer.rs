//! The trait of renderers, which write memory into a prompt.

use super::{seal_key::SealKey, superseded::SupersededMessages};
use crate::{
    block::BlockContent,
    message::{Message, xml::media_element},
};

/// A block of a prompt, as a [`Renderer`] writes it.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct PromptSection<'a> {
    /// The name of the block.
    pub name: &'a str,
    /// The content of the block.
    pub content: &'a BlockContent,
    /// The messages that others in the prompt supersede. `None` if there is no prompt.
    superseded: Option<&'a SupersededMessages>,
}

impl<'a> PromptSection<'a> {
    /// Creates a section outside of a prompt: no message in it is superseded.
    pub fn new(name: &'a str, content: &'a BlockContent) -> Self {
        PromptSection { name, content, superseded: None }
    }

    /// Creates a section of a prompt in which these messages are superseded.
    pub(super) fn in_prompt(name: &'a str, content: &'a BlockContent, superseded: &'a SupersededMessages) -> Self {
        PromptSection { name, content, superseded: Some(superseded) }
    }

    /// Returns true if a later message in the prompt supersedes this one of the section, see
    /// [`RecalledMessage::superseded_by`](crate::RecalledMessage). A mark of it must stand where no text or name of a
    /// message can imitate it.
    pub fn is_superseded(&self, message: &Message) -> bool {
        self.superseded.is_some_and(|superseded| superseded.contains_key(&message.id))
    }
}

/// Renders memory as text for a prompt, and recognises rendered memory in a text.
///
/// Rendered text may come back in a message after a restart, so it must be recognisable by the key alone, and nobody
/// without the key must be able to imitate it. [`PromptSeal`](crate::PromptSeal) achieves that. The content of a block
/// must also not be able to imitate other parts of the prompt. [`escape_xml`](crate::escape_xml) prevents that for XML.
pub trait Renderer: Send + Sync {
    /// Renders the sections as one text. There is at least one section, and none with [`BlockContent::Messages`].
    fn render(&self, sections: &[PromptSection<'_>], key: &SealKey) -> String;

    /// Removes all text that `render` has produced with this key from `text`. `None` if there is none.
    fn strip(&self, text: &str, key: &SealKey) -> Option<String>;
}

/// Formats each text, part or message of a block. Parts other than texts, tool results and media are left out; media
/// are given as elements.
pub(super) fn format_items(
    content: &BlockContent,
    format_text: impl Fn(&str) -> String,
    format_media: impl Fn(&str) -> String,
    format_message: impl Fn(&Message) -> String,
) -> Vec<String> {
    match content {
        BlockContent::Text(text) => vec![format_text(text)],
        BlockContent::Parts(parts) => {
            let media = |part| media_element(part).map(|element| format_media(&element));
            parts.iter().filter_map(|part| part.text().map(&format_text).or_else(|| media(part))).collect()
        }
        BlockContent::Quoted(messages) | BlockContent::Messages(messages) => {
            messages.iter().map(format_message).collect()
        }
    }
}
