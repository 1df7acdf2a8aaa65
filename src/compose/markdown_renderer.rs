//! Memory as Markdown.

use super::{
    prompt_seal::PromptSeal,
    renderer::{PromptSection, Renderer, format_items},
    seal_key::SealKey,
};
use crate::message::Message;

const SEAL: PromptSeal =
    PromptSeal { before_checksum: "<!-- memory ", after_checksum: " -->\n", end: "<!-- end of memory -->" };

/// Renders memory as Markdown, for models that read it best: a heading for each block, and every line of its content
/// quoted, so that content cannot become a heading. Before the quotation of a message that a later one in the prompt
/// [supersedes](PromptSection::is_superseded) is a line `(superseded)`, which is not quoted.
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
        SEAL.seal(&body, key)
    }

    fn strip(&self, text: &str, key: &SealKey) -> Option<String> {
        SEAL.strip(text, key)
    }
}

/// Quotes each line of a text.
fn quotation(text: &str) -> String {
    // Every character that a reader may take for the end of a line ends a quoted line. No HTML comment may begin or end
    // in the content.
    let lines = text.split(|c: char| c.is_control() && c != '\t' || matches!(c, '\u{2028}' | '\u{2029}'));
    let quoted = lines.map(|line| format!("> {}\n", line.replace("-->", "--\\>").replace("<!--", "<\\!--")));
    quoted.collect()
}

/// Formats a message with its author and date before the text.
fn spoken_line(message: &Message) -> String {
    let author = message.name.as_deref().unwrap_or(message.role.as_str());
    let date = message.created_at.map(|time| format!(" ({time})")).unwrap_or_default();
    format!("{author}{date}: {}", message.text())
}
