//! Composition of a prompt from messages and the content of memory blocks, under one token budget.
//!
//! This module owns rendering, inserting, truncating and counting. It reads no store and calls no block except to
//! truncate its content. It counts exactly the messages that it returns, including the text around the memory. A prompt
//! that is too long is returned nevertheless and states by how much and why.

mod composer;
mod insertion;
mod markdown_renderer;
mod prompt;
mod prompt_seal;
mod renderer;
mod seal_key;
mod superseded;
mod xml_renderer;

pub use composer::{BlockOutput, Composer};
pub use insertion::InsertMethod;
pub use markdown_renderer::MarkdownRenderer;
pub use prompt::{BlockFailure, Prompt, PromptOverflow, PromptSectionReport, RecalledMessage};
pub use prompt_seal::PromptSeal;
pub use renderer::{PromptSection, Renderer};
pub use seal_key::SealKey;
pub use xml_renderer::XmlRenderer;
