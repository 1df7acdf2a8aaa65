//! Token counters for text.
//!
//! A counter should count as the model does that will read the text. This module knows nothing of messages: the module
//! `message` counts them.

mod approximate;
#[cfg(feature = "tiktoken")]
mod chunk_counts;
mod counter;
#[cfg(feature = "tiktoken")]
mod tiktoken;
#[cfg(feature = "onnx")]
mod tokenizer_json;

pub use approximate::ApproximateTokenCounter;
pub use counter::TokenCounter;
#[cfg(feature = "tiktoken")]
pub use tiktoken::Tiktoken;
#[cfg(feature = "onnx")]
pub use tokenizer_json::HuggingFaceTokenizer;
