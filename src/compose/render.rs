//! Memory as text in a prompt, sealed so that it is known when it comes back.

use std::fmt::Write;

use sha2::{Digest, Sha256};

use crate::{
    block::BlockContent,
    message::{
        Message, Part,
        xml::{element, escape, media},
    },
};

/// What a block says, under its name.
pub type Section<'a> = (&'a str, &'a BlockContent);

/// Writes memory into a prompt, and knows it again.
///
/// What `render` makes must be recognisable without being remembered, as it may come back in a message after a restart: the
/// renderers of this crate write a checksum of the memory into its frame.
pub trait Renderer: Send + Sync {
    /// The sections as one text. Never called with none, nor with [`BlockContent::Messages`].
    fn render(&self, sections: &[Section<'_>]) -> String;

    /// The text without what `render` has made in it; `None` if there is none of it.
    fn strip(&self, text: &str) -> Option<String>;
}

/// As LlamaIndex writes memory, but with every field escaped:
///
/// ```text
/// <memory checksum='5f1d2a0c'>
/// <facts>
/// Ada rows on Thursdays.
/// </facts>
/// <recalled>
/// <message role='user' name='Ada' date='2024-05-01T09:30:00Z'>I moved my rowing lesson.</message>
/// </recalled>
/// </memory>
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Xml;

impl Renderer for Xml {
    fn render(&self, sections: &[Section<'_>]) -> String {
        let mut body = String::new();
        for (name, content) in sections {
            let lines: Vec<String> = match content {
                BlockContent::Text(text) => vec![escape(text).into_owned()],
                BlockContent::Parts(parts) => parts.iter().filter_map(line).collect(),
                BlockContent::Quoted(messages) | BlockContent::Messages(messages) => {
                    messages.iter().map(element).collect()
                }
            };
            writeln!(body, "<{name}>").expect("strings take all");
            for line in lines {
                body.push_str(&line);
                body.push('\n');
            }
            writeln!(body, "</{name}>").expect("strings take all");
        }
        format!("{OPEN}{}{CLOSE_TAG}{body}{END}", checksum(&body))
    }

    fn strip(&self, text: &str) -> Option<String> {
        strip_sealed(text, OPEN, CLOSE_TAG, END)
    }
}

const OPEN: &str = "<memory checksum='";
const CLOSE_TAG: &str = "'>\n";
const END: &str = "</memory>";

/// A part as one line; `None` for what is not told in memory.
fn line(part: &Part) -> Option<String> {
    match part {
        Part::Text { text } => Some(escape(text).into_owned()),
        Part::ToolResult { content, .. } => Some(escape(content).into_owned()),
        part => media(part),
    }
}

/// Headings and lists, for models that read Markdown best. Each line of a text is quoted, so that none is a heading.
#[derive(Clone, Copy, Debug, Default)]
pub struct Markdown;

impl Renderer for Markdown {
    fn render(&self, sections: &[Section<'_>]) -> String {
        let mut body = String::new();
        for (name, content) in sections {
            writeln!(body, "## {name}").expect("strings take all");
            let items: Vec<String> = match content {
                BlockContent::Text(text) => vec![text.clone()],
                BlockContent::Parts(parts) => parts.iter().filter_map(item).collect(),
                BlockContent::Quoted(messages) | BlockContent::Messages(messages) => {
                    messages.iter().map(speech).collect()
                }
            };
            for item in items {
                // All that a reader may take for the end of a line; and no comment may begin or end.
                let lines = item.split(|c: char| c.is_control() && c != '\t' || matches!(c, '\u{2028}' | '\u{2029}'));
                for line in lines {
                    writeln!(body, "> {}", line.replace("-->", "--\\>").replace("<!--", "<\\!--"))
                        .expect("strings take all");
                }
                body.push('\n');
            }
        }
        format!("{MD_OPEN}{}{MD_CLOSE}{body}{MD_END}", checksum(&body))
    }

    fn strip(&self, text: &str) -> Option<String> {
        strip_sealed(text, MD_OPEN, MD_CLOSE, MD_END)
    }
}

const MD_OPEN: &str = "<!-- memory ";
const MD_CLOSE: &str = " -->\n";
const MD_END: &str = "<!-- end of memory -->";

fn item(part: &Part) -> Option<String> {
    match part {
        Part::Text { text } => Some(text.clone()),
        Part::ToolResult { content, .. } => Some(content.clone()),
        part => media(part),
    }
}

fn speech(message: &Message) -> String {
    let speaker = message.name.as_deref().unwrap_or(message.role.as_str());
    let date = message.created_at.map(|time| format!(" ({time})")).unwrap_or_default();
    format!("{speaker}{date}: {}", message.text())
}

fn checksum(body: &str) -> String {
    Sha256::digest(body).iter().take(4).map(|byte| format!("{byte:02x}")).collect()
}

/// Takes out all that stands in frames with the right checksum, with the line end after each.
fn strip_sealed(text: &str, open: &str, close: &str, end: &str) -> Option<String> {
    let mut kept = String::new();
    let mut rest = text;
    let mut found = false;
    while let Some(at) = rest.find(open) {
        let (before, frame) = rest.split_at(at);
        kept.push_str(before);
        let sealed = frame[open.len()..].split_once(close).and_then(|(sum, body)| {
            let body = &body[..body.find(end)?];
            (checksum(body) == sum).then(|| open.len() + sum.len() + close.len() + body.len() + end.len())
        });
        match sealed {
            Some(length) => {
                found = true;
                rest = frame[length..].strip_prefix('\n').unwrap_or(&frame[length..]);
            }
            None => {
                kept.push_str(open);
                rest = &frame[open.len()..];
            }
        }
    }
    kept.push_str(rest);
    found.then_some(kept)
}
