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
/// quoted, so that content cannot become a heading.
#[derive(Clone, Copy, Debug, Default)]
pub struct MarkdownRenderer;

impl Renderer for MarkdownRenderer {
    fn render(&self, sections: &[PromptSection<'_>], key: &SealKey) -> String {
        let mut body = String::new();
        for (name, content) in sections {
            body.push_str(&format!("## {name}\n"));
            for item in format_items(content, str::to_owned, spoken_line) {
                // Every character that a reader may take for the end of a line ends a quoted line. No HTML comment may
                // begin or end in the content.
                let lines = item.split(|c: char| c.is_control() && c != '\t' || matches!(c, '\u{2028}' | '\u{2029}'));
                for line in lines {
                    body.push_str(&format!("> {}\n", line.replace("-->", "--\\>").replace("<!--", "<\\!--")));
                }
                body.push('\n');
            }
        }
        SEAL.seal(&body, key)
    }

    fn strip(&self, text: &str, key: &SealKey) -> Option<String> {
        SEAL.strip(text, key)
    }
}

/// Formats a message with its author and date before the text.
fn spoken_line(message: &Message) -> String {
    let author = message.name.as_deref().unwrap_or(message.role.as_str());
    let date = message.created_at.map(|time| format!(" ({time})")).unwrap_or_default();
    format!("{author}{date}: {}", message.text())
}
