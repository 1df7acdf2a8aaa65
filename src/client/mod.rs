//! Clients of servers: a chat model and an embedder over OpenAI's protocol, and the HTTP policy that all clients share.
//!
//! `http` owns sending, failures and retries; the download of models uses it too. `openai_server` adds the address and the
//! key of a server with OpenAI's protocol, on which `openai_chat` and `openai_embedder` are built. Invariant: no type of
//! the HTTP library is public.

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
