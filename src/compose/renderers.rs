//! Renderers, which write the content of blocks as one text into a prompt: the trait, XML and Markdown.
//!
//! Invariant of both: content cannot imitate the text around it.

use std::collections::HashMap;

use super::seal::{PromptSeal, SealKey};
use crate::{
    block::BlockContent,
    message::{
        Message, escape_xml,
        xml::{media_element, message_element},
    },
};

/// The ids of superseded messages, each with the ids of the messages that supersede it.
pub(super) type SupersededMessages = HashMap<String, Vec<String>>;

/// A block of a prompt, as a [`Renderer`] writes it.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct PromptSection<'a> {
    /// The name of the block.
    pub name: &'a str,
    /// The content of the block.
    pub content: &'a BlockContent,
    /// The superseded messages of the prompt. `None` outside of a prompt.
    superseded: Option<&'a SupersededMessages>,
}

impl<'a> PromptSection<'a> {
    /// Creates a section outside of a prompt, in which no message is superseded.
    pub fn new(name: &'a str, content: &'a BlockContent) -> Self {
        PromptSection { name, content, superseded: None }
    }

    /// Creates a section of a prompt in which these messages are superseded.
    pub(super) fn in_prompt(name: &'a str, content: &'a BlockContent, superseded: &'a SupersededMessages) -> Self {
        PromptSection { name, content, superseded: Some(superseded) }
    }

    /// Returns true if a later message in the prompt supersedes this message of the section, see
    /// [`RecalledMessage::superseded_by`](crate::RecalledMessage). A renderer must mark the message where no text or name
    /// can imitate the mark.
    pub fn is_superseded(&self, message: &Message) -> bool {
        self.superseded.is_some_and(|superseded| superseded.contains_key(&message.id))
    }
}

/// Renders memory as text for a prompt, and recognises rendered memory in a text.
///
/// Rendered text may come back in a message after a restart, so it must be recognisable by the key alone, and nobody
/// without the key must be able to imitate it. [`PromptSeal`](crate::PromptSeal) ensures both. The content of a block
/// must not be able to imitate other parts of the prompt either. [`escape_xml`](crate::escape_xml) prevents that in XML.
pub trait Renderer: Send + Sync {
    /// Renders the sections as one text. There is at least one section, and none with [`BlockContent::Messages`].
    fn render(&self, sections: &[PromptSection<'_>], key: &SealKey) -> String;

    /// Removes all text that `render` has produced with this key from `text`. Returns `None` if there is none.
    fn strip(&self, text: &str, key: &SealKey) -> Option<String>;
}

/// Formats each text, part or message of a block's content. Tool calls are left out. `format_media` gets media as XML
/// elements.
fn format_items(
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

const XML_SEAL: PromptSeal =
    PromptSeal { begin: "<memory sealed='true'>\n", before_checksum: "<seal checksum='", end: "'/>\n</memory>" };

/// Renders memory as XML in the form of LlamaIndex, but with every field escaped:
///
/// ```text
/// <memory sealed='true'>
/// <facts>
/// Ada rows on Thursdays.
/// </facts>
/// <recalled>
/// <message role='user' name='Ada' date='2024-05-01T09:30:00Z'>I moved my rowing lesson.</message>
/// <message role='user' name='Ada' date='2024-03-08T18:00:00Z' superseded='true'>My rent is 900 euros.</message>
/// </recalled>
/// <seal checksum='5f1d2a0c8e3b7740d1c96af2035be814'/>
/// </memory>
/// ```
///
/// A message whose text is not the words of its role has the attribute [`source`](Message::source), such as `source='web'`. It
/// has the attribute `superseded` if a later message in the prompt
/// [supersedes](PromptSection::is_superseded) it.
#[derive(Clone, Copy, Debug, Default)]
pub struct XmlRenderer;

impl Renderer for XmlRenderer {
    fn render(&self, sections: &[PromptSection<'_>], key: &SealKey) -> String {
        let mut body = String::new();
        for section in sections {
            let name = section.name;
            body.push_str(&format!("<{name}>\n"));
            let text = |text: &str| escape_xml(text).into_owned();
            let message = |message: &Message| message_element(message, section.is_superseded(message));
            for line in format_items(section.content, text, str::to_owned, message) {
                body.push_str(&line);
                body.push('\n');
            }
            body.push_str(&format!("</{name}>\n"));
        }
        XML_SEAL.seal(&body, key)
    }

    fn strip(&self, text: &str, key: &SealKey) -> Option<String> {
        XML_SEAL.strip(text, key)
    }
}

const MARKDOWN_SEAL: PromptSeal =
    PromptSeal { begin: "<!-- memory -->\n", before_checksum: "<!-- end of memory ", end: " -->" };

/// Renders memory as Markdown, for models that read it best. Each block has a heading, and every line of its content is
/// quoted, so that content cannot become a heading. A message that a later message in the prompt
/// [supersedes](PromptSection::is_superseded) is preceded by the line `(superseded)`, which is not quoted.
#[derive(Clone, Copy, Debug, Default)]
pub struct MarkdownRenderer;

impl Renderer for MarkdownRenderer {
    fn render(&self, sections: &[PromptSection<'_>], key: &SealKey) -> String {
        let mut body = String::new();
        for section in sections {
            body.push_str(&format!("## {}\n", section.name));
            let message = |message: &Message| {
                let mark = if section.is_superseded(message) { "(superseded)\n" } else { "" };
                format!("{mark}{}", quotation(&spoken_line(message)))
            };
            for item in format_items(section.content, quotation, quotation, message) {
                body.push_str(&item);
                body.push('\n');
            }
        }
        MARKDOWN_SEAL.seal(&body, key)
    }

    fn strip(&self, text: &str, key: &SealKey) -> Option<String> {
        MARKDOWN_SEAL.strip(text, key)
    }
}

fn quotation(text: &str) -> String {
    // Every character that a reader may take for a line end ends a quoted line. No HTML comment may begin or end in the
    // content.
    let lines = text.split(|c: char| c.is_control() && c != '\t' || matches!(c, '\u{2028}' | '\u{2029}'));
    let quoted = lines.map(|line| format!("> {}\n", line.replace("-->", "--\\>").replace("<!--", "<\\!--")));
    quoted.collect()
}

fn spoken_line(message: &Message) -> String {
    let author = message.name.as_deref().unwrap_or(message.role.as_str());
    let date = message.created_at.map(|time| format!(" ({time})")).unwrap_or_default();
    let source = message.unusual_source().map(|source| format!(" [from {source}]")).unwrap_or_default();
    format!("{author}{date}{source}: {}", message.text())
}
