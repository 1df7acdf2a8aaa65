//! Clients of servers: embedders and chat models over OpenAI's protocol, and the HTTP policy that all clients share.
//!
//! No type of the HTTP client is public.

pub(crate) mod http;
#[cfg(feature = "openai")]
mod openai_chat;
#[cfg(feature = "openai")]
mod openai_embedder;
#[cfg(feature = "openai")]
mod openai_server;

#[cfg(feature = "openai")]
pub use openai_chat::OpenAiChat;
#[cfg(feature = "openai")]
pub use openai_embedder::OpenAiEmbedder;
