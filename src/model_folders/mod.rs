//! Model folders: their manifest, their files checked against its hashes, where they are looked for, and the model that
//! is compiled in.
//!
//! This module reads no graph and runs nothing: `onnx` does. Invariant: no file of a model is used unless its SHA-256
//! is the manifest's.

pub(crate) mod folder;
mod info;
mod model;

pub(crate) use folder::is_plain;
pub use folder::{Pooling, Quantization};
pub use info::{ModelFile, ModelInfo, RerankerInfo};
pub use model::Model;
pub(crate) use model::data_folder;
