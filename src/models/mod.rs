//! Model folders: their manifest, their files checked against its hashes, where they are looked for, and the model that
//! is compiled in.
//!
//! This module reads no graph and runs nothing: `onnx` does. Invariant: no file of a model is used unless its SHA-256
//! is the manifest's.

#[cfg(feature = "bundled-model")]
mod bundled;
mod file_name;
pub(crate) mod folder;
mod info;
pub(crate) mod manifest;
mod model;
mod reranker_info;

pub(crate) use file_name::is_plain;
pub use info::{ModelFile, ModelInfo};
pub use manifest::{Pooling, Quantization};
pub use model::Model;
pub use reranker_info::RerankerInfo;
