//! ONNX files: their messages, their tensors wherever in the file they are, and the files beside them that hold
//! weights.

pub(crate) mod files;
pub(crate) mod proto;
pub(crate) mod tensors;
mod wire;
