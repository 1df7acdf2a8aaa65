//! The trait of renderers, which write memory into a prompt.

use super::seal_key::SealKey;
use crate::{
    block::BlockContent,
    message::{Message, xml::media_element},
};

/// The name of a block and its content.
pub type PromptSection<'a> = (&'a str, &'a BlockContent);

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

/// Formats each text, part or message of a block. Parts other than texts, tool results and media are left out.
pub(super) fn format_items(
    content: &BlockContent,
    format_text: impl Fn(&str) -> String,
    format_message: impl Fn(&Message) -> String,
) -> Vec<String> {
    match content {
        BlockContent::Text(text) => vec![format_text(text)],
        BlockContent::Parts(parts) => {
            parts.iter().filter_map(|part| part.text().map(&format_text).or_else(|| media_element(part))).collect()
        }
        BlockContent::Quoted(messages) | BlockContent::Messages(messages) => {
            messages.iter().map(format_message).collect()
        }
    }
}
