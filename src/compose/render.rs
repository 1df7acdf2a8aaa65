//! Memory as text in a prompt, sealed so that it is known when it comes back.

use std::fmt::Write;

use sha2::{Digest, Sha256};

use crate::{
    block::BlockContent,
    message::{
        Message, Part, escape_xml,
        xml::{element, media},
    },
};

/// What a block says, under its name.
pub type Section<'a> = (&'a str, &'a BlockContent);

/// Writes memory into a prompt, and knows it again.
///
/// What `render` makes must be recognisable without being remembered, as it may come back in a message after a restart:
/// [`Seal`] does it with a checksum. And what a block says must not be able to look like more than that: [`escape_xml`] does
/// it for XML.
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
                BlockContent::Text(text) => vec![escape_xml(text).into_owned()],
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
        XML.close(&body)
    }

    fn strip(&self, text: &str) -> Option<String> {
        XML.strip(text)
    }
}

const XML: Seal = Seal { open: "<memory checksum='", opened: "'>\n", end: "</memory>" };

/// A part as one line; `None` for what is not told in memory.
fn line(part: &Part) -> Option<String> {
    match part {
        Part::Text { text } => Some(escape_xml(text).into_owned()),
        Part::ToolResult { content, .. } => Some(escape_xml(content).into_owned()),
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
        MARKDOWN.close(&body)
    }

    fn strip(&self, text: &str) -> Option<String> {
        MARKDOWN.strip(text)
    }
}

const MARKDOWN: Seal = Seal { open: "<!-- memory ", opened: " -->\n", end: "<!-- end of memory -->" };

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

/// A frame that is known again: it holds a checksum of what is in it.
///
/// For renderers of one's own. What is framed must not hold `end`.
///
/// ```
/// let seal = mnemon::Seal { open: "[memory ", opened: "]\n", end: "[/memory]" };
/// let memory = seal.close("Ada rows.\n");
/// assert_eq!(seal.strip(&format!("Before. {memory} After.")), Some("Before.  After.".to_owned()));
/// assert_eq!(seal.strip("[memory 12345678]\nMine.\n[/memory]"), None);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Seal {
    /// Before the checksum.
    pub open: &'static str,
    /// After it.
    pub opened: &'static str,
    /// Behind what is framed.
    pub end: &'static str,
}

impl Seal {
    /// The body in its frame.
    pub fn close(&self, body: &str) -> String {
        format!("{}{}{}{body}{}", self.open, checksum(body), self.opened, self.end)
    }

    /// The text without all frames that hold what they held when they were closed, each with the line feed after it; `None`
    /// if there is none.
    pub fn strip(&self, text: &str) -> Option<String> {
        let Seal { open, opened, end } = self;
        let mut kept = String::new();
        let mut rest = text;
        let mut found = false;
        while let Some(at) = rest.find(open) {
            let (before, frame) = rest.split_at(at);
            kept.push_str(before);
            let sealed = frame[open.len()..].split_once(opened).and_then(|(sum, body)| {
                let body = &body[..body.find(end)?];
                let length = open.len() + sum.len() + opened.len() + body.len() + end.len();
                (sum.len() == CHECKSUM_CHARS && checksum(body) == sum).then_some(length)
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
}

const CHECKSUM_CHARS: usize = 8;

fn checksum(body: &str) -> String {
    Sha256::digest(body).iter().take(CHECKSUM_CHARS / 2).map(|byte| format!("{byte:02x}")).collect()
}
