//! Chat messages: what one is, its JSON forms, and operations on lists of messages.
//!
//! This module owns the message and the rules for what may be stored (`chat_message`, `provenance`, `timestamp`, `local_time`); its JSON form, one
//! object a line (`json_line`); the conversions to and from the formats of providers (`openai`, `anthropic`, `gemini`),
//! lossless in both directions, and from the exports of other programs (`chatgpt`, `frameworks`); counting, updating,
//! trimming and selecting messages (`token_count`, `media_tokens`, `lists`, `trim`); and their XML for prompts (`xml`). It knows nothing
//! of namespaces, vectors or the store.
//!
//! Invariants of the conversions: a message that is written in a lossless form and read again is the same message. A
//! provider's object that is read and written again is the same object, unless its message was changed; only empty texts
//! are left out. Reading drops nothing silently: what a message cannot express is kept in its metadata, and an object of
//! another provider's format is an error.

mod anthropic;
mod chat_message;
mod chatgpt;
mod extension;
mod fields;
mod frameworks;
mod gemini;
mod json_line;
mod lists;
mod local_time;
mod media_tokens;
mod openai;
mod provenance;
mod timestamp;
mod token_count;
mod trim;
mod turns;
pub(crate) mod xml;

pub(crate) use anthropic::{has_unsigned_thinking, is_paused};
pub use chat_message::{
    ContentPart, DEFAULT_SESSION, MAX_MESSAGE_BYTES, MAX_METADATA_BYTES, MediaReference, Message, Role,
};
pub(crate) use chat_message::{IndexedText, new_id};
pub use json_line::MessageLine;
pub use lists::{MessageSelector, MessageUpdate, MessageWindow, TokenWindow, add_messages};
pub(crate) use lists::{match_tool_results, unfit_for_prompt};
pub use local_time::{LocalTime, TimeZone};
pub use provenance::Source;
pub(crate) use provenance::superseded_in_json;
pub use timestamp::Timestamp;
pub(crate) use timestamp::{ttl_micros, ttl_minutes};
pub use token_count::{CalibratedTokenCounter, MessageTokenCounter, PerPartTokenCounter};
pub use trim::{TextSplitter, TrimOptions, TrimStrategy, trim_messages};
pub use xml::escape_xml;
#[cfg(feature = "formats")]
pub(crate) use {
    chatgpt::read_chatgpt,
    extension::imported,
    fields::{cut, text_part},
};

/// Chats in the formats of other programs: read, and of OpenAI, Anthropic and Gemini also written, without loss.
pub mod format {
    pub use super::{
        anthropic::{from_anthropic, to_anthropic, to_anthropic_lossless},
        chatgpt::from_chatgpt,
        frameworks::{from_langchain, from_llamaindex, from_mem0},
        gemini::{from_gemini, to_gemini, to_gemini_lossless},
        openai::{from_openai, to_openai, to_openai_lossless},
    };
}
