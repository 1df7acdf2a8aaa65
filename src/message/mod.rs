//! Chat messages, their content and JSON forms, and operations on lists of messages.
//!
//! This module owns the JSON form of a message and its conversion to and from the formats of OpenAI, Anthropic and
//! Gemini, lossless in both directions, and from those of ChatGPT's export, LangChain, LlamaIndex and mem0; the rules
//! for what may be stored; and counting, updating, trimming and selecting messages. It knows nothing of namespaces,
//! vectors or the store.

mod anthropic;
mod calibrated;
mod chat_message;
mod chatgpt;
mod content;
mod exact;
mod fields;
mod gemini;
mod indexed_text;
mod json_line;
mod langchain;
mod llamaindex;
mod mem0;
mod openai;
mod role;
mod selectors;
mod timestamp;
mod token_count;
mod tool_calls;
mod trim;
mod turns;
mod updates;
pub(crate) mod xml;

pub use anthropic::{from_anthropic, to_anthropic, to_anthropic_lossless};
pub use calibrated::CalibratedTokenCounter;
pub(crate) use chat_message::new_id;
pub use chat_message::{DEFAULT_SESSION, MAX_MESSAGE_BYTES, MAX_METADATA_BYTES, Message};
pub use chatgpt::from_chatgpt;
pub use content::{ContentPart, MediaReference};
pub use gemini::{from_gemini, to_gemini, to_gemini_lossless};
pub(crate) use indexed_text::IndexedText;
pub use json_line::MessageLine;
pub use langchain::from_langchain;
pub use llamaindex::from_llamaindex;
pub use mem0::from_mem0;
pub use openai::{from_openai, to_openai, to_openai_lossless};
pub use role::Role;
pub use selectors::{MessageSelector, MessageWindow, TokenWindow};
pub use timestamp::Timestamp;
pub use token_count::{MessageTokenCounter, PerPartTokenCounter};
pub(crate) use tool_calls::{match_tool_results, unfit_for_prompt};
pub use trim::{TextSplitter, TrimOptions, TrimStrategy, trim_messages};
pub use updates::{MessageUpdate, add_messages};
pub use xml::escape_xml;
