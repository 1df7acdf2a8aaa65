//! Memory as XML.

use super::{
    prompt_seal::PromptSeal,
    renderer::{PromptSection, Renderer, format_items},
    seal_key::SealKey,
};
use crate::message::{Message, escape_xml, xml::message_element};

const SEAL: PromptSeal = PromptSeal { before_checksum: "<memory checksum='", after_checksum: "'>\n", end: "</memory>" };

/// Renders memory as XML in the form of LlamaIndex, but with every field escaped:
///
/// ```text
/// <memory checksum='5f1d2a0c8e3b7740d1c96af2035be814'>
/// <facts>
/// Ada rows on Thursdays.
/// </facts>
/// <recalled>
/// <message role='user' name='Ada' date='2024-05-01T09:30:00Z'>I moved my rowing lesson.</message>
/// <message role='user' name='Ada' date='2024-03-08T18:00:00Z' superseded='true'>My rent is 900 euros.</message>
/// </recalled>
/// </memory>
/// ```
///
/// A message has the attribute `superseded` if a later one in the prompt [supersedes](PromptSection::is_superseded) it.
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
        SEAL.seal(&body, key)
    }

    fn strip(&self, text: &str, key: &SealKey) -> Option<String> {
        SEAL.strip(text, key)
    }
}
